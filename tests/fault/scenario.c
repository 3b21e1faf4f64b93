/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/scenario.h"
#include "store/damage.h"
#include "store/writer.h"

#include <stdbool.h>
#include <xxhash.h>

#define SECOND 1000000000ll
#define HOUR (3600 * SECOND)
#define T0 1700000000000000000ll

const struct store_options scenario_options = {
	.wide_values = 5,
	.wide_sets = 16384,
	.grace_ns = 1 * SECOND,
	.symbols_bytes = 1200,
	.reserve_bytes = 1,
	.max_bytes = 1ull << 40,
	.keep_ns = { 36 * HOUR, 36 * HOUR, 37 * HOUR, 38 * HOUR, 39 * HOUR, 40 * HOUR },
};

/* ---- the windows ---- */

static int64_t pause_after(size_t i)
{
	return i % 16 == 15 ? 26 * 3600 : i % 7 == 6 ? 400 : i % 5 == 4 ? 45 : 10;
}

/* Windows of ten seconds; every eleventh is one that came late. */
static int64_t time_of(size_t i)
{
	int64_t t = 0;
	for (size_t k = 0; k < i; k++)
		t += pause_after(k);
	return T0 + SECOND * t - (i % 11 == 10 ? 1803 * SECOND : 0);
}

static uint64_t hash_text(uint64_t seed, const char *p, size_t len)
{
	return XXH64(p, len, seed);
}

/* Of a stack: line by line, so that a node of the store needs only that of its parent. */
static uint64_t hash_stack(const char *stack)
{
	uint64_t h = 1;
	for (const char *p = stack; *p; p = strchr(p, '\n') + 1)
		h = hash_text(h, p, strcspn(p, "\n"));
	return h;
}

/* Of rows: a sum, so that those of blocks add up as their rows do. */
static uint64_t hash_row(uint64_t labels, uint64_t stack, uint32_t event, uint64_t samples,
			 uint64_t value)
{
	uint64_t key[3] = { labels, stack, event };
	uint64_t h = XXH64(key, sizeof(key), 7);
	return h * samples + (h >> 7) * 0x9e3779b97f4a7c15u * value;
}

void scenario_make(struct scenario *s, size_t n, size_t n_rows)
{
	*s = (struct scenario){ .m = { .n = n } };
	assert_true(n <= SCENARIO_MAX);
	for (size_t i = 0; i < n; i++) {
		struct model_window *w = &s->m.w[i];
		s->m.random = 1000 + i;
		w->t0 = time_of(i);
		w->t1 = w->t0 + 10 * SECOND;
		model_fill(&s->m, NULL, w, n_rows);
		for (size_t k = 0; k < w->n; k++) {
			const struct model_row *r = &w->rows[k];
			uint64_t stack = hash_stack(r->stack);
			s->rows[i] += hash_row(hash_text(0, r->labels, strlen(r->labels)), stack,
					       r->event, r->samples, r->value);
			s->folded[i] += hash_row(0, stack, r->event, r->samples, r->value);
		}
	}
}

void scenario_fini(struct scenario *s)
{
	model_fini(&s->m);
}

/* ---- writing ---- */

int scenario_before(struct store_writer **w, const char *dir, size_t i, struct err *err)
{
	bool open = !*w;
	if (i % 12 == 9) {
		store_writer_close(*w);
		*w = NULL;
		open = true;
	}
	if (open)
		return store_writer_open_with(w, dir, &model_meta, &scenario_options, err);
	if (i % 6 == 5)
		store_renew(*w);
	if (i % 14 == 13)
		store_compact(*w, err); /* that parents are not made is no loss */
	return 0;
}

int scenario_commit(const struct scenario *s, struct store_writer *w, size_t i, struct err *err)
{
	const struct model_window *win = &s->m.w[i];
	uint64_t lost[2] = { i, 1 }, flagged[1] = { 2 };
	struct store_cpu_totals cpu = { 1, 100 + i, 99, lost, flagged };
	struct store_totals t = { &cpu, 1, i, 3 * i, 1 };
	int rc = 0;
	for (size_t k = 0; !rc && k < win->n; k++)
		rc = model_put_row(w, &win->rows[k]);
	/*
	 * Without all of its rows a window is worth nothing here: one that is refused clears what
	 * was added.
	 */
	if (rc) {
		store_commit_window(w, 1, 0, 0, &t, err);
		return rc;
	}
	return store_commit_window(w, win->t0, win->t1, win->t0 - T0 + 5 * SECOND, &t, err);
}

/* ---- judging ---- */

struct judge {
	const struct scenario *s;
	struct store *store;
	uint64_t *stacks, *sets; /* by id, 0: not known yet */
	size_t n_stacks, n_sets;
	uint64_t sum;
	char text[900];
};

static uint64_t *slot(uint64_t **v, size_t *n, uint32_t id)
{
	if (id >= *n) {
		size_t more = 2 * (size_t)id + 64;
		*v = realloc(*v, more * sizeof(**v));
		memset(*v + *n, 0, (more - *n) * sizeof(**v));
		*n = more;
	}
	return &(*v)[id];
}

static uint64_t stack_hash(struct judge *j, uint32_t id)
{
	uint32_t parent, frame;
	uint64_t known = *slot(&j->stacks, &j->n_stacks, id);
	if (known || !id)
		return id ? known : 1;
	store_stack(j->store, id, &parent, &frame);
	const struct store_frame *f = store_frame(j->store, frame);
	const char *module = f ? store_string(j->store, f->module, NULL) : "?",
		   *slash = strrchr(module, '/');
	char line[300];
	int n = f && f->function ? snprintf(line, sizeof(line), "%s",
					    store_string(j->store, f->function, NULL))
				 : snprintf(line, sizeof(line), "%s+0x%" PRIx64,
					    slash ? slash + 1 : module, f ? f->offset : 0);
	n += snprintf(line + n, sizeof(line) - (size_t)n, " (%s) %u %u", module, f ? f->kind : 99,
		      f ? f->line : 99);
	uint64_t h = hash_text(stack_hash(j, parent), line, (size_t)n);
	*slot(&j->stacks, &j->n_stacks, id) = h;
	return h;
}

static uint64_t set_hash(struct judge *j, uint32_t id)
{
	uint64_t *h = slot(&j->sets, &j->n_sets, id);
	if (!*h) {
		char *text = store_labels_text(j->store, id);
		*h = hash_text(0, text, strlen(text));
		free(text);
	}
	return *h;
}

static int add_row(void *ctx, const struct store_row *r)
{
	struct judge *j = ctx;
	j->sum += hash_row(set_hash(j, r->set), stack_hash(j, r->stack), r->event, r->samples,
			   r->value);
	return 0;
}

static int add_folded(void *ctx, const struct store_row *r)
{
	struct judge *j = ctx;
	j->sum += hash_row(0, stack_hash(j, r->stack), r->event, r->samples, r->value);
	return 0;
}

__attribute__((format(printf, 2, 3))) static const char *wrong(struct judge *j, const char *fmt,
							       ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(j->text, sizeof(j->text), fmt, ap);
	va_end(ap);
	return j->text;
}

static bool same_totals(const struct store_totals *t, size_t i)
{
	return t->n_cpus == 1 && t->outside == i && t->own_cpu_ns == 3 * i && t->own_rss == 1 &&
	       t->cpu[0].cpu == 1 && t->cpu[0].fired == 100 + i && t->cpu[0].stored == 99 &&
	       t->cpu[0].lost[0] == i && t->cpu[0].lost[1] == 1 && t->cpu[0].flagged[0] == 2;
}

static const char *judge_window(struct judge *j, size_t k, const bool *may, bool *present)
{
	struct err err = { 0 };
	const struct store_window *w = store_window(j->store, k, &err);
	size_t i = 0;
	if (!w)
		return wrong(j, "window %zu: %s", k, err.text);
	while (i < j->s->m.n && j->s->m.w[i].t0 != w->t0_ns)
		i++;
	if (i == j->s->m.n || w->t1_ns != j->s->m.w[i].t1)
		return wrong(j, "window %zu is at a time that none was", k);
	if (present[i])
		return wrong(j, "window %zu is there twice", i);
	if (!may[i])
		return wrong(j, "window %zu is there, which was never written or is lost", i);
	if (!same_totals(&w->totals, i) || w->n_rows != j->s->m.w[i].n)
		return wrong(j, "the counters of window %zu differ", i);
	j->sum = 0;
	if (store_rows(j->store, k, add_row, j, &err))
		return wrong(j, "the rows of window %zu: %s", i, err.text);
	if (j->sum != j->s->rows[i])
		return wrong(j, "the rows of window %zu differ", i);
	present[i] = true;
	return NULL;
}

/* A window that need not be there was, and has been cut since: its parents have it. */
static bool add_cut(struct judge *j, uint64_t sum, const bool *may, bool *present)
{
	for (size_t i = 0; i < j->s->m.n; i++)
		if (may[i] && !present[i] && j->s->m.w[i].t1 <= store_cut(j->store, 0)->before_ns &&
		    j->sum == sum + j->s->folded[i]) {
			present[i] = true;
			return true;
		}
	return false;
}

/* The fewest blocks that hold everything: the sum of the windows, cut or not. */
static const char *judge_sum(struct judge *j, const bool *may, bool *present)
{
	struct store_cover c;
	struct err err = { 0 };
	uint64_t sum = 0, windows = 0, found = 0;
	int rc = store_cover(j->store, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err);
	if (rc)
		return wrong(j, "the cover: %s", err.text);
	j->sum = 0;
	for (size_t i = 0; !rc && i < c.n; i++) {
		found += c.blocks[i]->n_windows;
		rc = store_block_folded(j->store, c.blocks[i], add_folded, j, &err);
	}
	store_cover_free(&c);
	for (size_t i = 0; i < j->s->m.n; i++) {
		windows += present[i];
		sum += present[i] ? j->s->folded[i] : 0;
	}
	if (rc)
		return wrong(j, "a block of the cover: %s", err.text);
	if (found == windows + 1 && add_cut(j, sum, may, present))
		return NULL;
	if (found != windows)
		return wrong(j, "blocks hold %" PRIu64 " windows, and should %" PRIu64, found,
			     windows);
	return j->sum == sum ? NULL : wrong(j, "the sum over all blocks differs");
}

static const char *judge_store(struct judge *j, const bool *must, const bool *may, bool *present)
{
	const int64_t cut = store_cut(j->store, 0)->before_ns;
	size_t n = store_n_windows(j->store), n_cut = 0;
	const char *bad = NULL;
	for (size_t k = 0; !bad && k < n; k++)
		bad = judge_window(j, k, may, present);
	for (size_t i = 0; !bad && i < j->s->m.n; i++) {
		if (present[i] || !must[i])
			continue;
		if (j->s->m.w[i].t1 > cut)
			return wrong(j, "window %zu was acknowledged and is lost", i);
		present[i] = true;
		n_cut++;
	}
	/* No more is cut than is said, but for a window that was written and not acknowledged. */
	if (!bad && n_cut > store_cut(j->store, 0)->blocks)
		return wrong(j, "%zu windows are gone, %" PRIu64 " were cut", n_cut,
			     store_cut(j->store, 0)->blocks);
	return bad ? bad : judge_sum(j, may, present);
}

struct findings {
	size_t damaged, torn;
	char first[500];
};

static void found(void *ctx, const struct store_finding *f)
{
	struct findings *n = ctx;
	if (f->kind != STORE_TORN && !n->damaged++)
		snprintf(n->first, sizeof(n->first), "%s at %" PRIu64 ": %s", f->path, f->offset,
			 f->text);
	n->torn += f->kind == STORE_TORN;
}

static const char *judge_verify(struct judge *j, const char *dir, bool torn_too)
{
	struct findings n = { 0 };
	struct err err = { 0 };
	if (store_verify(dir, found, &n, &err))
		return wrong(j, "verify: %s", err.text);
	if (n.damaged)
		return wrong(j, "verify: %s", n.first);
	return n.torn && torn_too ? wrong(j, "verify: a torn end where a writer has ended") : NULL;
}

static const char *judge(const struct scenario *s, const char *dir, const bool *must,
			 const bool *may, bool *present, bool torn_too)
{
	static struct judge j;
	struct err err = { 0 };
	bool any = false, here[SCENARIO_MAX] = { false };
	j = (struct judge){ .s = s };
	for (size_t i = 0; i < s->m.n; i++)
		any |= must[i];
	int rc = store_open(&j.store, dir, &err);
	if ((rc == -EINVAL || rc == -ENOENT) && !any) {
		if (present)
			memset(present, 0, s->m.n * sizeof(*present));
		return NULL; /* there is no store yet, and this is said */
	}
	if (rc)
		return wrong(&j, "it does not open: %s", err.text);
	const char *bad = judge_store(&j, must, may, here);
	store_close(j.store);
	free(j.stacks);
	free(j.sets);
	if (!bad)
		bad = judge_verify(&j, dir, torn_too);
	if (present)
		memcpy(present, here, s->m.n * sizeof(*present));
	return bad;
}

const char *scenario_judge(const struct scenario *s, const char *dir, const bool *must,
			   const bool *may, bool *present)
{
	return judge(s, dir, must, may, present, false);
}

const char *scenario_go_on(const struct scenario *s, const char *dir, const bool *must,
			   const bool *may, size_t next)
{
	static char text[700];
	bool there[SCENARIO_MAX];
	struct store_writer *w;
	struct err err = { 0 };
	memcpy(there, must, s->m.n * sizeof(*there));
	there[next] = true;
	if (store_writer_open_with(&w, dir, &model_meta, &scenario_options, &err)) {
		snprintf(text, sizeof(text), "a writer: %s", err.text);
		return text;
	}
	int rc = scenario_commit(s, w, next, &err);
	store_writer_close(w);
	if (rc) {
		snprintf(text, sizeof(text), "the next window: %s", err.text);
		return text;
	}
	bool allowed[SCENARIO_MAX];
	memcpy(allowed, may, s->m.n * sizeof(*allowed));
	allowed[next] = true;
	return judge(s, dir, there, allowed, NULL, true);
}
