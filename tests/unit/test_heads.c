/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heads of blocks, the manifest and lists of keys say, held against the windows that were
 * written and docs/format.md.
 */
#include "unit/segments.h"

#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define LEVELS 9
#define MOST 600

/* The tables of docs/format.md. */
static const int64_t spans[] = { 10 * SECOND, 60 * SECOND, 300 * SECOND, 1200 * SECOND, HOUR,
				 4 * HOUR,    DAY,	   7 * DAY,	 28 * DAY };
static const int64_t shares[] = { 6 * HOUR, 6 * HOUR, DAY,	 DAY,	    7 * DAY,
				  7 * DAY,  28 * DAY, 364 * DAY, 364 * DAY, 6 * HOUR };

struct node {
	const struct block_ref *r;
	bool has[400]; /* windows */
	bool parent;
};

static struct node *nodes[LEVELS];
static size_t n_nodes[LEVELS];

static int64_t slot(size_t level, int64_t t)
{
	return t / spans[level] - (t % spans[level] < 0);
}

static bool is_part(const struct node *p, const struct node *c)
{
	const struct store_block *a = &p->r->b, *b = &c->r->b;
	return slot(a->level, a->t0_ns) == slot(a->level, b->t0_ns) && b->seq >= a->child_lo &&
	       b->seq < a->child_hi;
}

static void find_windows(struct node *n)
{
	const size_t level = n->r->b.level;
	if (!level) {
		n->has[n->r->b.seq] = true;
		return;
	}
	for (size_t i = 0; i < n_nodes[level - 1]; i++) {
		struct node *c = &nodes[level - 1][i];
		if (!is_part(n, c))
			continue;
		assert_false(c->parent);
		c->parent = true;
		for (size_t k = 0; k < 400; k++)
			n->has[k] |= c->has[k];
	}
}

static int begin(void **state)
{
	struct err err = { 0 };
	int rc = setup(state);
	struct store *s = ((struct fixture *)*state)->s;
	for (size_t k = 0; k < LEVELS; k++)
		nodes[k] = calloc(MOST, sizeof(*nodes[k]));
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		assert_int_equal(segment_load(s, g, &err), 0);
		for (size_t k = 0; g->m.level < LEVELS && k < g->n_refs; k++) {
			assert_true(n_nodes[g->m.level] < MOST);
			nodes[g->m.level][n_nodes[g->m.level]++].r = &g->refs[k];
		}
	}
	for (size_t level = 0; level < LEVELS; level++)
		for (size_t i = 0; i < n_nodes[level]; i++)
			find_windows(&nodes[level][i]);
	assert_int_equal(n_nodes[0], 400);
	assert_true(n_nodes[1] > 100 && n_nodes[4] > 10 && n_nodes[LEVELS - 1]);
	return rc;
}

static int end(void **state)
{
	for (size_t k = 0; k < LEVELS; k++)
		free(nodes[k]);
	return fixture_teardown(state);
}

static int by_stack(const void *pa, const void *pb)
{
	const struct model_row *a = *(const struct model_row *const *)pa,
			       *b = *(const struct model_row *const *)pb;
	int c = strcmp(a->stack, b->stack);
	return c ? c : (int)a->event - (int)b->event;
}

/* Stacks and events of these windows, each once; *ret_idle: one of them is of an idle CPU. */
static size_t count_groups(const struct model *m, const bool *has, bool *ret_idle)
{
	static const struct model_row *rows[400 * 12];
	size_t n = 0, groups = 0;
	*ret_idle = false;
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; has[i] && k < m->w[i].n; k++) {
			rows[n++] = &m->w[i].rows[k];
			*ret_idle |= model_is_idle(rows[n - 1]);
		}
	qsort(rows, n, sizeof(rows[0]), by_stack);
	for (size_t i = 0; i < n; i++)
		groups += !i || by_stack(&rows[i - 1], &rows[i]);
	return groups;
}

/* The leaf of idle CPUs is the stack of one frame of kind 2. */
static void check_idle(struct store *s, const struct block_ref *r)
{
	const struct dicts *d;
	struct err err = { 0 };
	assert_int_equal(store_dicts(s, r, SYMBOLS_ALL, &d, &err), 0);
	assert_in_range(r->b.idle, 2, d->n_leaves);
	const struct stack_node *node = &d->stacks[d->leaves[r->b.idle - 1]];
	assert_int_equal(node->parent, 0);
	assert_int_equal(d->frames[node->frame].kind, 2);
}

static void check_windows(const struct fixture *f, const struct node *n)
{
	const struct store_block *b = &n->r->b;
	int64_t t0 = INT64_MAX, t1 = INT64_MIN;
	uint32_t lo = UINT32_MAX, hi = 0, windows = 0;
	bool idle;
	for (uint32_t i = 0; i < 400; i++) {
		if (!n->has[i])
			continue;
		t0 = f->m.w[i].t0 < t0 ? f->m.w[i].t0 : t0;
		t1 = f->m.w[i].t1 > t1 ? f->m.w[i].t1 : t1;
		lo = i < lo ? i : lo;
		hi = i + 1;
		windows++;
	}
	assert_int_equal(b->t0_ns, t0);
	assert_int_equal(b->t1_ns, t1);
	assert_int_equal(b->window_lo, lo);
	assert_int_equal(b->window_hi, hi);
	assert_int_equal(b->n_windows, windows);
	assert_int_equal(b->n_folded, count_groups(&f->m, n->has, &idle));
	assert_int_equal(b->flags, 0);
	if (idle)
		check_idle(f->s, n->r);
}

static void check_children(const struct node *p)
{
	const struct store_block *b = &p->r->b, *last = NULL;
	uint32_t n = 0, lo = UINT32_MAX;
	for (size_t i = 0; i < n_nodes[b->level - 1]; i++) {
		const struct store_block *c = &nodes[b->level - 1][i].r->b;
		if (!is_part(p, &nodes[b->level - 1][i]))
			continue;
		n++;
		lo = c->seq < lo ? c->seq : lo;
		last = !last || c->seq > last->seq ? c : last;
	}
	assert_non_null(last);
	assert_int_equal(b->n_children, n);
	assert_int_equal(b->child_lo, lo);
	assert_int_equal(b->child_hi, last->seq + 1);
	assert_int_equal(b->boot_ns, last->boot_ns);
	assert_int_equal(b->anchor, last->anchor);
	assert_int_equal(b->n_rows, 0);
	assert_int_equal(b->n_table, 0);
}

static void heads(void **state)
{
	const struct fixture *f = *state;
	for (size_t level = 0; level < LEVELS; level++)
		for (size_t i = 0; i < n_nodes[level]; i++) {
			const struct node *n = &nodes[level][i];
			check_windows(f, n);
			if (level) {
				check_children(n);
				continue;
			}
			const struct store_block *b = &n->r->b;
			assert_int_equal(b->boot_ns, f->m.w[b->seq].t0 - T0 + 1);
			assert_int_equal(b->n_rows, f->m.w[b->seq].n);
			assert_int_equal(b->n_children, 0);
			assert_int_equal(b->child_lo, 0);
			assert_int_equal(b->child_hi, 0);
		}
}

/* The account of a block is the sum of those of its windows; of memory the most. */
static void totals(void **state)
{
	const struct fixture *f = *state;
	struct err err = { 0 };
	for (size_t level = 0; level < LEVELS; level++)
		for (size_t i = 0; i < n_nodes[level]; i++) {
			const struct node *n = &nodes[level][i];
			struct store_totals *t;
			uint64_t windows = 0, sum = 0, most = 0;
			for (size_t k = 0; k < 400; k++) {
				windows += n->has[k];
				sum += n->has[k] ? k : 0;
				most = n->has[k] ? k : most;
			}
			assert_int_equal(store_block_totals(f->s, &n->r->b, &t, &err), 0);
			assert_int_equal(t->n_cpus, 1);
			assert_int_equal(t->cpu[0].cpu, 1);
			assert_int_equal(t->cpu[0].fired, 100 * windows + sum);
			assert_int_equal(t->cpu[0].stored, 99 * windows);
			assert_int_equal(t->cpu[0].lost[0], sum);
			assert_int_equal(t->cpu[0].lost[1], windows);
			assert_int_equal(t->cpu[0].flagged[0], 2 * windows);
			assert_int_equal(t->outside, sum);
			assert_int_equal(t->own_cpu_ns, 0);
			assert_int_equal(t->own_rss, most);
			store_totals_free(t);
		}
}

/* ---- the manifest ---- */

static void manifest(void **state)
{
	const struct fixture *f = *state;
	for (size_t level = 0; level < LEVELS; level++) {
		uint32_t seq = 0, covered = UINT32_MAX;
		for (size_t i = 0; i < n_nodes[level]; i++) {
			const struct node *n = &nodes[level][i];
			seq = n->r->b.seq >= seq ? n->r->b.seq + 1 : seq;
			if (!n->parent && n->r->b.seq < covered)
				covered = n->r->b.seq;
		}
		/* Nothing is above the highest level. */
		covered = level == LEVELS - 1 || covered > seq ? seq : covered;
		assert_int_equal(f->s->manifest.seq[level], seq);
		assert_int_equal(f->s->manifest.covered[level], covered);
		assert_int_equal(store_cut(f->s, (uint8_t)level)->blocks, 0);
	}
}

static int64_t share(size_t level, int64_t t)
{
	return t / shares[level];
}

static void segments(void **state)
{
	const struct fixture *f = *state;
	size_t sealed = 0;
	for (size_t i = 0; i < f->s->n_segments; i++) {
		const struct segment *g = &f->s->segments[i];
		int64_t t0 = INT64_MAX, t1 = INT64_MIN;
		for (size_t k = 0; k < g->n_refs; k++) {
			const struct store_block *b = &g->refs[k].b;
			t0 = b->t0_ns < t0 ? b->t0_ns : t0;
			t1 = b->t1_ns > t1 ? b->t1_ns : t1;
			assert_int_equal(share(g->m.level, b->t0_ns),
					 share(g->m.level, g->refs[0].b.t0_ns));
			assert_true(!k || b->seq > g->refs[k - 1].b.seq);
		}
		if (g->m.state == SEGMENT_OPEN)
			continue;
		assert_int_equal(g->m.state, SEGMENT_SEALED);
		assert_int_equal(g->m.n_blocks, g->n_refs);
		assert_int_equal(g->m.t0_ns, t0);
		assert_int_equal(g->m.t1_ns, t1);
		assert_int_equal(g->m.seq_lo, g->refs[0].b.seq);
		assert_int_equal(g->m.seq_hi, g->refs[g->n_refs - 1].b.seq + 1);
		assert_true(g->m.symbols_at <= g->m.index_at && g->m.index_at < g->m.end);
		sealed++;
	}
	assert_true(sealed > 10);
}

/* ---- keys ---- */

static bool has_key(const struct model *m, const struct node *n, const char *key)
{
	char text[40];
	snprintf(text, sizeof(text), "%s=", key);
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; n->has[i] && k < m->w[i].n; k++)
			for (const char *p = m->w[i].rows[k].labels; *p; p = strchr(p, '\n') + 1)
				if (!strncmp(p, text, strlen(text)))
					return true;
	return false;
}

/* In how many windows' tables a key is; its state. UINT32_MAX: the block does not have it. */
static uint32_t key_windows(struct store *s, const struct node *n, const char *key,
			    unsigned *ret_state)
{
	struct block_data d;
	struct block_keys keys = { 0 };
	struct err err = { 0 };
	uint32_t windows = UINT32_MAX;
	assert_int_equal(block_read(s, n->r, WANT_KEYS, &d, &err), 0);
	assert_int_equal(contents_keys(s, n->r, &d, &keys, &err), 0);
	assert_false(keys.more);
	assert_in_range(keys.n, 0, 3);
	const struct block_key *k = block_keys_find(&keys, key, strlen(key));
	if (k) {
		windows = k->windows;
		*ret_state = k->state;
	}
	block_keys_fini(&keys);
	block_data_fini(&d);
	return windows;
}

/* A parent has the keys of its rows, and says how each can be asked for. */
static void keys(void **state)
{
	static const char *const names[] = { "comm", "query_id", "tenant" };
	const struct fixture *f = *state;
	size_t wide = 0;
	for (size_t level = 1; level < LEVELS; level++)
		for (size_t i = 0; i < n_nodes[level] * 3; i++) {
			const struct node *n = &nodes[level][i / 3];
			const char *key = names[i % 3];
			unsigned how = 0, ignored;
			uint32_t windows = key_windows(f->s, n, key, &how), want = 0;
			assert_int_equal(windows != UINT32_MAX, has_key(&f->m, n, key));
			if (windows == UINT32_MAX)
				continue;
			for (size_t k = 0; k < 400; k++) {
				uint32_t one =
					n->has[k] ? key_windows(f->s, &nodes[0][k], key, &ignored)
						  : UINT32_MAX;
				want += one != UINT32_MAX;
			}
			assert_int_equal(windows, want);
			assert_true(how & (KEY_SUMMED | KEY_PROJECTED | KEY_LISTED));
			assert_true(!(how & KEY_SUMMED) || !want);
			wide += want > 0;
		}
	assert_true(wide > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads),    cmocka_unit_test(totals), cmocka_unit_test(manifest),
		cmocka_unit_test(segments), cmocka_unit_test(keys),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
