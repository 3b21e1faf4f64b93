/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/hotspot.h"

#include "stacks/words.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A JVM that is being started is looked at so often, and so long; then with the others */
#define START_MS 20
#define START_NS 5000000000ull

/* A JVM: its proc_image.layer[PROC_HOTSPOT]. */
struct state {
	struct hotspots *of;
	struct hotspot_jvm jvm;
	uint32_t code[HOTSPOT_HEAPS]; /* places in the table */
	uint32_t n_codes;
	bool settled; /* found, or cannot be walked */
	uint64_t since_ns, next_ns;
	struct words_told told;
};

struct hotspots {
	struct words words;
	struct hotspot_code *codes; /* NULL: none */
	bool taken[HOTSPOT_CODES];
	uint32_t n_starting; /* states that are not settled */
	struct hotspots_stats stats;
};

/* ---- life ---- */

static void state_free(struct state *s)
{
	struct hotspots *h = s->of;
	for (uint32_t i = 0; i < s->n_codes; i++)
		h->taken[s->code[i]] = false;
	h->n_starting -= !s->settled;
	free(s);
}

static void on_end(void *ctx, struct proc_image *im)
{
	(void)ctx;
	state_free(im->layer[PROC_HOTSPOT]);
	im->layer[PROC_HOTSPOT] = NULL;
}

int hotspots_new(struct hotspots **ret, struct store_writer *w, struct procs *procs)
{
	struct hotspots *h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	words_init(&h->words, w, procs);
	procs_on_end(procs, PROC_HOTSPOT, on_end, h);
	*ret = h;
	return 0;
}

void hotspots_note_reasons(struct hotspots *h, struct frame_reasons *r)
{
	h->words.reasons = r;
}

void hotspots_share(struct hotspots *h, struct hotspot_code *codes)
{
	h->codes = codes;
}

void hotspots_free(struct hotspots *h)
{
	if (!h)
		return;
	words_fini(&h->words);
	free(h);
}

void hotspots_stats(const struct hotspots *h, struct hotspots_stats *ret)
{
	*ret = h->stats;
	ret->forgotten = h->words.forgotten;
}

/* ---- processes ---- */

static struct state *state_of(struct hotspots *h, struct proc_image *im)
{
	struct state *s = im->layer[PROC_HOTSPOT];
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->of = h;
	s->since_ns = clock_ns(CLOCK_MONOTONIC);
	h->n_starting++;
	im->layer[PROC_HOTSPOT] = s;
	return s;
}

static int by_address(const void *a, const void *b)
{
	const struct hotspot_heap *x = a, *y = b;
	return x->low < y->low ? -1 : x->low > y->low;
}

/* What a reader answered is used by the walk of the recorder's own, too: check it once more. */
static bool is_sound(struct hotspot_jvm *j)
{
	if (!j->n_heaps || j->n_heaps > HOTSPOT_HEAPS)
		return false;
	qsort(j->heap, j->n_heaps, sizeof(j->heap[0]), by_address);
	for (uint64_t i = 0; i < j->n_heaps; i++)
		if (j->heap[i].low >= j->heap[i].high || j->heap[i].low & 4095 ||
		    (i && j->heap[i].low < j->heap[i - 1].high))
			return false;
	return true;
}

static void describe(struct hotspots *h, struct state *s)
{
	uint32_t at = 0;
	while (h->codes && s->n_codes < s->jvm.n_heaps && at < HOTSPOT_CODES) {
		if (h->taken[at]) {
			at++;
			continue;
		}
		h->taken[at] = true;
		h->codes[at] = (struct hotspot_code){ .base = s->jvm.base,
						      .end = s->jvm.heap[s->jvm.n_heaps - 1].high,
						      .interpreter = s->jvm.interpreter,
						      .interpreter_end = s->jvm.interpreter_end,
						      .heap = s->jvm.heap[s->n_codes],
						      .layout = s->jvm.layout };
		s->code[s->n_codes++] = at;
	}
	h->stats.jvms++;
	h->stats.no_room += s->n_codes < s->jvm.n_heaps;
}

static void settle(struct hotspots *h, struct state *s)
{
	s->settled = true;
	h->n_starting--;
}

int hotspots_look(struct hotspots *h, struct proc_image *im, const struct binary_hotspot *b,
		  uint64_t bias)
{
	struct state *s = state_of(h, im);
	uint64_t at[HOTSPOT_SYMBOLS], now = clock_ns(CLOCK_MONOTONIC);
	char missing[HOTSPOT_MISSING_MAX] = "";
	if (!s || s->settled)
		return 0;
	if (now < s->next_ns)
		return -EINPROGRESS;
	for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++)
		at[i] = bias + b->at[i];
	int rc = proc_hotspot_locate(im->tgid, at, &s->jvm, missing);
	if (rc == -EINPROGRESS)
		return rc;
	s->next_ns = now + START_MS * 1000000ull / 2;
	if (!rc && !is_sound(&s->jvm)) {
		rc = -EPROTONOSUPPORT;
		memcpy(missing, "CodeHeap", sizeof("CodeHeap"));
	}
	if (!rc) {
		describe(h, s);
		settle(h, s);
	} else if (rc == -EPROTONOSUPPORT) {
		s->jvm.n_heaps = 0;
		memcpy(h->stats.missing, missing, sizeof(missing));
		h->stats.unknown++;
		settle(h, s);
	} else {
		s->jvm.n_heaps = 0;
		rc = now - s->since_ns < START_NS ? -EINPROGRESS : 0;
		if (!rc)
			settle(h, s);
	}
	return rc == -EINPROGRESS ? rc : 0;
}

bool hotspots_hold(const struct proc_image *im, uint64_t addr)
{
	const struct state *s = im->layer[PROC_HOTSPOT];
	for (uint64_t i = 0; s && i < s->jvm.n_heaps; i++)
		if (addr >= s->jvm.heap[i].low && addr < s->jvm.heap[i].high)
			return true;
	return false;
}

int hotspots_wait(struct hotspots *h)
{
	return h->n_starting ? START_MS : -1;
}

uint32_t hotspots_add_ranges(const struct proc_image *im, uint64_t upto, struct unwind_range *out,
			     uint32_t n, uint32_t *io_heap)
{
	const struct state *s = im->layer[PROC_HOTSPOT];
	for (; s && *io_heap < s->n_codes && n < UNWIND_PROC_RANGES_MAX; ++*io_heap) {
		const struct hotspot_heap *h = &s->jvm.heap[*io_heap];
		if (h->low > upto)
			break;
		while (n && out[n - 1].start >= h->low)
			n--;
		if (n && out[n - 1].end > h->low)
			out[n - 1].end = h->low;
		out[n++] = (struct unwind_range){ .start = h->low,
						  .end = h->high,
						  .page = UNWIND_PAGE_MADE,
						  .n_pages = s->code[*io_heap] + 1 };
	}
	return n;
}

/* ---- names ---- */

static int add_frame(struct hotspots *h, const char *name, uint32_t *ret)
{
	return words_add_frame(&h->words, name, "[java]", "", 0, ret);
}

void hotspots_forget(struct hotspots *h)
{
	words_forget(&h->words);
}

int hotspots_renewed(struct hotspots *h)
{
	return words_renewed(&h->words);
}

int hotspots_unnamed(struct hotspots *h, uint32_t *ret)
{
	return add_frame(h, "[java]", ret);
}

static int take_names(struct hotspots *h, struct proc_image *im, uint64_t word,
		      const struct buf *names, uint32_t out[HOTSPOT_CALLS_MAX], size_t *ret_n)
{
	const char *p = (const char *)names->data, *end = p + names->len;
	size_t n = 0;
	int rc = 0;
	for (; !rc && p < end && n < HOTSPOT_CALLS_MAX; p += strlen(p) + 1)
		rc = add_frame(h, p, &out[n++]);
	if (rc)
		return rc;
	*ret_n = n;
	h->stats.names++;
	if (HOTSPOT_IS_FRAME(word))
		words_keep(&h->words, im, word, out, n);
	if (HOTSPOT_IS_FRAME(word))
		words_keep(&h->words, im, hotspot_function(word), &out[n - 1], 1);
	return 0;
}

int hotspots_frames(struct hotspots *h, const struct proc_image *im, uint64_t word,
		    uint32_t out[HOTSPOT_CALLS_MAX], size_t *ret_n)
{
	const struct state *s = im->layer[PROC_HOTSPOT];
	size_t n_known = 0;
	const uint32_t *known = words_find(&h->words, im, word, &n_known);
	struct buf names = BUF_INIT;
	int rc = -ESTALE;
	if (!known && s && s->jvm.n_heaps) {
		rc = proc_hotspot_names(im->tgid, &s->jvm, word, &names);
		rc = rc ? rc : take_names(h, (struct proc_image *)im, word, &names, out, ret_n);
		buf_fini(&names);
		if (!rc || rc == -EINPROGRESS)
			return rc;
		h->stats.stale++;
	}
	/* The code is gone; the method may have been named at another place. */
	if (!known && HOTSPOT_IS_FRAME(word))
		known = words_find(&h->words, im, hotspot_function(word), &n_known);
	if (!known)
		return -ENOENT;
	memcpy(out, known, n_known * sizeof(*out));
	*ret_n = n_known;
	return 0;
}

void hotspots_told(struct hotspots *h, const struct proc_image *im, uint64_t word)
{
	struct state *s = im ? im->layer[PROC_HOTSPOT] : NULL;
	uint32_t frames[HOTSPOT_CALLS_MAX];
	size_t n;
	if (s && HOTSPOT_IS_FRAME(word) && words_told(&s->told))
		hotspots_frames(h, im, word, frames, &n);
}
