/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/inlined.h"

#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPEND_NS 1000000000ull /* in one drain, at most */
#define SPEND_PART 4           /* of the time between two drains: the tables go on filling */
#define WANTED_MAX 65536
#define BATCH_MAX 256 /* places in one request */

/* A place that is not known yet. */
struct wanted {
	struct module *module; /* held: its process may end before */
	uint64_t vaddr, offset;
};

struct inlined {
	struct frames *frames;
	struct places *places;
	uint64_t spent_ns; /* since the drain began, */
	uint64_t most_ns;  /* of so much */
	struct wanted *wanted;
	size_t n_wanted, cap_wanted;
	bool sorted; /* nothing was added since */
	bool paused;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

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
}

void inlined_free(struct inlined *x)
{
	if (!x)
		return;
	forget_wanted(x, 0);
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
	forget_wanted(x, 0); /* of a drain that did not ask */
}

static bool is_over(const struct inlined *x)
{
	return x->spent_ns > x->most_ns;
}

/* ---- answers ---- */

/* symbol: the function's name by the symbol table, NULL: none. */
static int add_frame(struct inlined *x, const struct module *m, const char *symbol, const struct line_frame *l, bool inlined,
		     uint32_t *ret)
{
	char mangled[1025], name[4096];
	struct store_writer *w = x->frames->store;
	struct store_frame f = { .kind = FRAME_USER, .flags = inlined ? FRAME_INLINED : 0, .module = m->name, .build_id = m->build_id,
				 .line = l->line };
	snprintf(mangled, sizeof(mangled), "%.*s", (int)l->function_len, l->function);
	symbol_demangle(mangled, name, sizeof(name));
	const char *shown = !inlined && symbol ? symbol : name[0] ? name : "[unknown]";
	int rc = store_add_string(w, shown, strlen(shown), &f.function);
	if (!rc && l->file_len)
		rc = store_add_string(w, l->file, l->file_len, &f.file);
	return rc ? rc : store_add_frame(w, &f, ret);
}

_Static_assert(PLACE_FRAMES_MAX >= LINE_FRAMES_MAX, "all frames of a place fit");

/* What DWARF said about a place becomes known. Each frame has the line that was running, or that called the next frame. */
static int take_place(struct inlined *x, const struct wanted *w, const struct line_frame *frames, size_t n)
{
	const struct user_frame u = { .module = w->module, .vaddr = w->vaddr, .offset = w->offset, .has_vaddr = true };
	uint32_t out[PLACE_FRAMES_MAX];
	size_t n_out = 0;
	struct symbol sym;
	int rc = 0;
	bool has_symbol = !frame_find_symbol(&u, &sym);
	const char *symbol = has_symbol ? sym.name : NULL;
	bool nothing = n == 1 && !frames->function_len && !symbol;
	for (size_t k = 0; !nothing && k < n && k < PLACE_FRAMES_MAX && !rc; k++)
		rc = add_frame(x, w->module, symbol, &frames[k], k + 1 < n, &out[n_out++]);
	if (!rc && !n_out) /* that, too, is known from now on */
		rc = frame_plain(x->frames, &u, has_symbol ? &sym : NULL, &out[n_out++]);
	return rc ? rc : places_add(x->places, w->module->identity, w->vaddr, out, n_out);
}

struct lines_request {
	struct inlined *x;
	const struct wanted *v;
	int rc;
};

static void take_lines(void *ctx, size_t i, const struct line_frame *frames, size_t n)
{
	struct lines_request *a = ctx;
	if (!a->rc)
		a->rc = take_place(a->x, &a->v[i], frames, n);
}

/* Ask for the places v[n] in one file. -EAGAIN: not now. */
static int ask(struct inlined *x, const struct wanted *v, size_t n)
{
	uint64_t vaddrs[BATCH_MAX], begin = now_ns();
	struct binary *b = v->module->binary;
	struct lines_request a = { .x = x, .v = v };
	struct symbol sym;
	if (is_over(x) || binary_find(b, v->vaddr, &sym) == -EAGAIN)
		return -EAGAIN;
	for (size_t i = 0; i < n; i++)
		vaddrs[i] = v[i].vaddr;
	int rc = binary_lines(b, vaddrs, n, take_lines, &a);
	x->spent_ns += now_ns() - begin;
	return rc ? rc : a.rc;
}

/* ---- what is wanted ---- */

static bool want(struct inlined *x, const struct wanted *w)
{
	if (x->n_wanted == WANTED_MAX || is_over(x) || ARRAY_RESERVE(x->wanted, x->cap_wanted, x->n_wanted + 1))
		return false;
	x->wanted[x->n_wanted++] = *w;
	x->sorted = false;
	module_hold(w->module);
	return true;
}

static int by_place(const void *pa, const void *pb)
{
	const struct wanted *a = pa, *b = pb;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return a->vaddr < b->vaddr ? -1 : a->vaddr > b->vaddr;
}

/* From the end of the list: many places in one file, each once. */
bool inlined_ask(struct inlined *x)
{
	struct wanted v[BATCH_MAX];
	size_t n = 0, i = x->n_wanted;
	if (!i)
		return false;
	if (!x->sorted)
		qsort(x->wanted, x->n_wanted, sizeof(*x->wanted), by_place);
	x->sorted = true;
	for (; i && n < BATCH_MAX && x->wanted[i - 1].module == x->wanted[x->n_wanted - 1].module; i--)
		if (!n || v[n - 1].vaddr != x->wanted[i - 1].vaddr)
			v[n++] = x->wanted[i - 1];
	if (binary_has_lines(v->module->binary))
		ask(x, v, n); /* what is not known then is asked for by itself, or goes without */
	forget_wanted(x, is_over(x) ? 0 : i);
	return x->n_wanted;
}

int inlined_frames(struct inlined *x, const struct user_frame *u, bool put_off, uint32_t out[PLACE_FRAMES_MAX], size_t *ret_n)
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
		if (!rc && put_off && want(x, &w))
			return -EINPROGRESS;
		rc = rc ? rc : ask(x, &w, 1);
		if (rc)
			return rc;
		n = places_find(x->places, w.module->identity, w.vaddr, &known);
	}
	memcpy(out, known, n * sizeof(*out));
	*ret_n = n;
	return n ? 0 : -ENOENT;
}
