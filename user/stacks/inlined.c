/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/inlined.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEND_NS 1000000000ull /* at most, in one drain */
/* part of the time between two drains, since tables fill meanwhile */
#define SPEND_PART 4
#define WANTED_MAX 65536
#define BATCH_MAX 256 /* places in one request */
#define BATCHES_MAX 4 /* requests at a time, each for another file */

/* An address to look up. */
struct wanted {
	struct module *module; /* holds a reference: its process may end first */
	uint64_t vaddr, offset;
};

/* Addresses of one file that were sent to a worker. */
struct batch {
	struct module *module; /* holds a reference; NULL: the batch is free */
	size_t n;
	uint64_t begin_ns;
	uint64_t vaddr[BATCH_MAX], offset[BATCH_MAX];
};

struct inlined {
	struct frames *frames;
	struct batch batch[BATCHES_MAX];
	struct places *places;
	uint64_t spent_ns;     /* since the drain began, */
	uint64_t most_ns;      /* limit of spent_ns */
	struct wanted *wanted; /* the first n_sorted by place, each place once */
	size_t n_wanted, n_sorted, cap_wanted;
	bool paused;
};

int inlined_new(struct inlined **ret, struct frames *f)
{
	struct inlined *x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->frames = f;
	int rc = places_new(&x->places);
	if (rc) {
		free(x);
		return rc;
	}
	*ret = x;
	return 0;
}

static void forget_wanted(struct inlined *x, size_t from)
{
	for (size_t i = from; i < x->n_wanted; i++)
		module_put(x->wanted[i].module);
	x->n_wanted = from;
	x->n_sorted = x->n_sorted < from ? x->n_sorted : from;
}

void inlined_free(struct inlined *x)
{
	if (!x)
		return;
	forget_wanted(x, 0);
	for (size_t i = 0; i < BATCHES_MAX; i++)
		if (x->batch[i].module)
			module_put(x->batch[i].module);
	places_free(x->places);
	free(x->wanted);
	free(x);
}

void inlined_clear(struct inlined *x)
{
	places_clear(x->places);
}

void inlined_pause(struct inlined *x, bool pause)
{
	x->paused = pause;
}

void inlined_begin(struct inlined *x, unsigned drain_ms)
{
	uint64_t part = drain_ms * 1000000ull / SPEND_PART;
	x->most_ns = part < SPEND_NS ? part : SPEND_NS;
	x->spent_ns = 0;
	forget_wanted(x, 0); /* left from a drain that did not send them */
}

static bool is_over(const struct inlined *x)
{
	return x->spent_ns > x->most_ns;
}

/* ---- answers ---- */

/* Add the frame of one call. symbol: name of the function in the symbol table; NULL: none. */
static int add_frame(struct inlined *x, const struct module *m, const char *symbol,
		     const struct line_frame *l, bool inlined, uint32_t *ret)
{
	char mangled[1025], name[4096], file[4096];
	struct store_writer *w = x->frames->store;
	struct store_frame f = { .kind = FRAME_USER,
				 .flags = inlined ? FRAME_INLINED : 0,
				 .module = m->name,
				 .build_id = m->build_id,
				 .line = l->line };
	snprintf(mangled, sizeof(mangled), "%.*s", (int)l->function_len, l->function);
	symbol_demangle(mangled, name, sizeof(name));
	const char *shown = !inlined && symbol ? symbol : name[0] ? name : "[unknown]";
	int rc = store_add_string(w, shown, strlen(shown), &f.function);
	if (!rc && l->file_len)
		rc = store_add_string(w, l->file, l->file_len, &f.file);
	snprintf(file, sizeof(file), "%.*s", (int)l->file_len, l->file_len ? l->file : "");
	return rc ? rc
		  : frame_reasons_add(x->frames->reasons, w, &f,
				      &(struct frame_names){ shown, m->path, file }, ret);
}

_Static_assert(PLACE_FRAMES_MAX >= LINE_FRAMES_MAX, "all frames of a place fit");

/*
 * Cache the frames of an address. Each frame has the line that ran, or that called the next frame.
 */
static int take_place(struct inlined *x, const struct batch *b, size_t i,
		      const struct line_frame *frames, size_t n)
{
	const struct user_frame u = {
		.module = b->module, .vaddr = b->vaddr[i], .offset = b->offset[i], .has_vaddr = true
	};
	uint32_t out[PLACE_FRAMES_MAX];
	size_t n_out = 0;
	struct symbol sym;
	int rc = 0;
	bool has_symbol = !frame_find_symbol(&u, &sym);
	const char *symbol = has_symbol ? sym.name : NULL;
	bool nothing = n == 1 && !frames->function_len && !symbol;
	for (size_t k = 0; !nothing && k < n && k < PLACE_FRAMES_MAX && !rc; k++)
		rc = add_frame(x, b->module, symbol, &frames[k], k + 1 < n, &out[n_out++]);
	if (!rc && !n_out) /* cache also that there is nothing */
		rc = frame_plain(x->frames, &u, has_symbol ? &sym : NULL, &out[n_out++]);
	return rc ? rc : places_add(x->places, b->module->identity, u.vaddr, out, n_out);
}

struct taking {
	struct inlined *x;
	const struct batch *batch;
	int rc;
};

static void take_lines(void *ctx, size_t i, const struct line_frame *frames, size_t n)
{
	struct taking *t = ctx;
	if (!t->rc)
		t->rc = take_place(t->x, t->batch, i, frames, n);
}

/* Send a batch, or take its answer. False: there is none yet. */
static bool batch_ask(struct inlined *x, struct batch *b)
{
	struct binary *bin = b->module->binary;
	struct taking t = { .x = x, .batch = b };
	struct symbol sym;
	if (!bin || !binary_has_lines(bin))
		return true;
	if (binary_find(bin, b->vaddr[0], &sym) == -EAGAIN && binary_is_late(bin))
		return false; /* names come first */
	return binary_lines(bin, b->vaddr, b->n, take_lines, &t) != -EINPROGRESS;
}

static void batch_end(struct inlined *x, struct batch *b)
{
	x->spent_ns += clock_ns(CLOCK_MONOTONIC) - b->begin_ns;
	module_put(b->module);
	b->module = NULL;
}

/* ---- what is wanted ---- */

static int by_vaddr(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int by_place(const void *pa, const void *pb)
{
	const struct wanted *a = pa, *b = pb;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return a->vaddr < b->vaddr ? -1 : a->vaddr > b->vaddr;
}

/* True if this place was sent, or waits for that: what is set aside asks again and again. */
static bool is_asked(const struct inlined *x, const struct wanted *w)
{
	for (size_t i = 0; i < BATCHES_MAX; i++) {
		const struct batch *b = &x->batch[i];
		if (b->module == w->module &&
		    bsearch(&w->vaddr, b->vaddr, b->n, sizeof(b->vaddr[0]), by_vaddr))
			return true;
	}
	return x->n_sorted && bsearch(w, x->wanted, x->n_sorted, sizeof(*w), by_place);
}

static bool want(struct inlined *x, const struct wanted *w)
{
	if (is_asked(x, w))
		return true;
	if (x->n_wanted == WANTED_MAX || is_over(x) ||
	    ARRAY_RESERVE(x->wanted, x->cap_wanted, x->n_wanted + 1))
		return false;
	x->wanted[x->n_wanted++] = *w;
	module_hold(w->module);
	return true;
}

static void sort_wanted(struct inlined *x)
{
	size_t n = 0;
	if (x->n_sorted == x->n_wanted)
		return;
	qsort(x->wanted, x->n_wanted, sizeof(*x->wanted), by_place);
	for (size_t i = 0; i < x->n_wanted; i++)
		if (n && !by_place(&x->wanted[n - 1], &x->wanted[i]))
			module_put(x->wanted[i].module);
		else
			x->wanted[n++] = x->wanted[i];
	x->n_wanted = x->n_sorted = n;
}

/* Return the batch of this module, or a free one; NULL: all are in use. */
static struct batch *batch_find(struct inlined *x, const struct module *m)
{
	struct batch *found = NULL;
	for (size_t i = 0; i < BATCHES_MAX; i++) {
		if (x->batch[i].module == m)
			return &x->batch[i];
		if (!x->batch[i].module)
			found = &x->batch[i];
	}
	return found;
}

/* Make a batch of the first of n addresses of one file. Return how many: the others stay wanted. */
static size_t make_batch(struct inlined *x, struct wanted *v, size_t n)
{
	struct batch *b = batch_find(x, v->module);
	if (!b || b->module)
		return 0;
	*b = (struct batch){ .module = v->module, .begin_ns = clock_ns(CLOCK_MONOTONIC) };
	module_hold(b->module);
	for (; b->n < n && b->n < BATCH_MAX; b->n++) {
		b->vaddr[b->n] = v[b->n].vaddr;
		b->offset[b->n] = v[b->n].offset;
		module_put(v[b->n].module);
	}
	return b->n;
}

static void make_batches(struct inlined *x)
{
	size_t left = 0;
	sort_wanted(x);
	for (size_t i = 0, end; i < x->n_wanted; i = end) {
		for (end = i; end < x->n_wanted && x->wanted[end].module == x->wanted[i].module;)
			end++;
		i += make_batch(x, &x->wanted[i], end - i);
		memmove(&x->wanted[left], &x->wanted[i], (end - i) * sizeof(*x->wanted));
		left += end - i;
	}
	x->n_wanted = x->n_sorted = left;
}

void inlined_ask(struct inlined *x)
{
	for (size_t i = 0; i < BATCHES_MAX; i++)
		if (x->batch[i].module && batch_ask(x, &x->batch[i]))
			batch_end(x, &x->batch[i]);
	if (is_over(x))
		forget_wanted(x, 0);
	if (x->n_wanted)
		make_batches(x);
	for (size_t i = 0; i < BATCHES_MAX; i++)
		if (x->batch[i].module && batch_ask(x, &x->batch[i]))
			batch_end(x, &x->batch[i]);
}

int inlined_frames(struct inlined *x, const struct user_frame *u, uint32_t out[PLACE_FRAMES_MAX],
		   size_t *ret_n)
{
	const struct wanted w = { u->module, u->vaddr, u->offset };
	const uint32_t *known;
	if (!u->has_vaddr || !binary_has_lines(u->module->binary))
		return -ENOENT;
	size_t n = places_find(x->places, w.module->identity, w.vaddr, &known);
	if (!n && x->paused)
		return -ECANCELED;
	if (!n) {
		int rc = modules_reopen(x->frames->modules, u->module, u->im, u->map);
		return rc ? rc : want(x, &w) ? -EINPROGRESS : -EAGAIN;
	}
	memcpy(out, known, n * sizeof(*out));
	*ret_n = n;
	return 0;
}
