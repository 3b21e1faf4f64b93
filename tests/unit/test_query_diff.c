/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two queries: rows and tree against a merge of the plain-text rows of a random
 * store. Also the rate of false alarms on draws that do not differ.
 */
#include "unit/near.h"
#include "unit/store_model.h"

#include "query/diff.h"
#include "query/stats.h"
#include "store/writer.h"

#include <math.h>

#define N_WINDOWS 16

static int setup(void **state)
{
	*state = fixture_of(77, N_WINDOWS, 90);
	return 0;
}

struct side {
	const char *where, *has; /* has: the same on the text of a label set */
	size_t from, to;
};

static const struct side sides[][2] = {
	{ { "{tenant=\"t3\"}", "tenant=t3\n", 0, N_WINDOWS },
	  { "{tenant=\"t1\"}", "tenant=t1\n", 0, N_WINDOWS } },
	{ { NULL, "", 0, 5 }, { NULL, "", 5, N_WINDOWS } },
	{ { "comm=\"sh\"", "comm=sh\n", 2, 9 }, { NULL, "", 3, 4 } },
	{ { "comm=\"nobody\"", "comm=nobody\n", 0, N_WINDOWS }, { NULL, "", 0, N_WINDOWS } },
};

#define N_SIDES (sizeof(sides) / sizeof(sides[0]))

static struct query *ask(struct fixture *f, const struct side *a)
{
	struct query *q = NULL;
	struct err err = { 0 };
	struct query_spec spec = { .where = a->where,
				   .from_ns = f->m.w[a->from].t0,
				   .to_ns = f->m.w[a->to - 1].t1 };
	if (query_open(&q, f->s, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

static bool admits(const struct side *a, const struct model_row *r)
{
	return r->event == 0 && strstr(r->labels, a->has) && !model_is_idle(r);
}

/* The samples of a side in which the function is the leaf, or anywhere. */
static uint64_t brute(const struct fixture *f, const struct side *a, const char *text,
		      const char *module, bool leaf)
{
	char prefix[200];
	uint64_t sum = 0;
	snprintf(prefix, sizeof(prefix), "%s (%s) ", text, module);
	for (size_t i = a->from; i < a->to; i++)
		for (size_t k = 0; k < f->m.w[i].n; k++) {
			const struct model_row *r = &f->m.w[i].rows[k];
			bool in = false, last = false;
			for (const char *p = r->stack; *p; p = strchr(p, '\n') + 1) {
				last = !strncmp(p, prefix, strlen(prefix));
				in |= last;
			}
			sum += admits(a, r) && (leaf ? last : in) ? r->samples : 0;
		}
	return sum;
}

static uint64_t brute_all(const struct fixture *f, const struct side *a, const char *label)
{
	uint64_t sum = 0;
	for (size_t i = a->from; i < a->to; i++)
		for (size_t k = 0; k < f->m.w[i].n; k++) {
			const struct model_row *r = &f->m.w[i].rows[k];
			sum += admits(a, r) && strstr(r->labels, label) ? r->samples : 0;
		}
	return sum;
}

/* By the size of the change, then by text and module; changes before noise. */
static void check_order(const struct query_diff_row *a, const struct query_diff_row *b,
			bool absolute)
{
	double x = fabs(absolute ? a->rate[0] - a->rate[1] : a->change),
	       y = fabs(absolute ? b->rate[0] - b->rate[1] : b->change);
	if (!a->verdict != !b->verdict) {
		assert_true(a->verdict != DIFF_NOISE);
		return;
	}
	assert_true(x >= y);
	if (x > y)
		return;
	int c = strcmp(a->text, b->text);
	assert_true(c < 0 || (!c && a->module && strcmp(a->module, b->module) < 0));
}

static void check_verdicts(const struct query_diff *d, bool absolute)
{
	size_t changed = 0, tested = 0;
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct query_diff_row *r = &d->rows[i];
		double least = absolute ? stats_rate_least_p(r->count[0] + r->count[1],
							     d->covered_s[0], d->covered_s[1])
					: stats_share_least_p(r->count[0] + r->count[1],
							      d->samples[0], d->samples[1]);
		double p = absolute ? stats_rate_p(r->count[0], d->covered_s[0], r->count[1],
						   d->covered_s[1])
				    : stats_share_p(r->count[0], d->samples[0], r->count[1],
						    d->samples[1]);
		double x = absolute ? r->rate[0] : r->share[0],
		       y = absolute ? r->rate[1] : r->share[1];
		assert_true(near(r->p, p, 1e-9));
		assert_int_equal(r->tested, least < 0.05);
		assert_int_equal(r->verdict != DIFF_NOISE, r->q < 0.05);
		if (r->verdict)
			assert_int_equal(r->verdict, x > y ? DIFF_MORE : DIFF_LESS);
		assert_true(r->q >= r->p || near(r->q, r->p, 1e-9));
		if (i)
			check_order(&d->rows[i - 1], r, absolute);
		for (int side = 0; side < 2; side++) {
			assert_true(near(r->rate[side], (double)r->count[side] / d->covered_s[side],
					 1e-12));
			assert_true(near(r->share[side],
					 d->samples[side]
						 ? (double)r->count[side] / (double)d->samples[side]
						 : 0,
					 1e-12));
		}
		if (y > 0)
			assert_true(near(r->ratio, x / y, 1e-12));
		else
			assert_true(x > 0 ? isinf(r->ratio) : r->ratio == 1);
		changed += r->verdict != DIFF_NOISE;
		tested += r->tested;
	}
	assert_int_equal(changed, d->n_changed);
	assert_int_equal(tested, d->n_tested);
}

static void functions(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < 4 * N_SIDES; i++) {
		const struct side *v = sides[i / 4];
		struct query_diff_spec spec = { .inclusive = i & 1, .absolute = i & 2 };
		struct query *a = ask(f, &v[0]), *b = ask(f, &v[1]);
		struct query_diff *d;
		struct err err = { 0 };
		uint64_t self[2] = { 0, 0 };
		assert_int_equal(query_diff(&d, a, b, &spec, &err), 0);
		for (size_t k = 0; k < d->n_rows; k++) {
			const struct query_diff_row *r = &d->rows[k];
			for (int side = 0; side < 2; side++) {
				assert_int_equal(r->self[side],
						 brute(f, &v[side], r->text, r->module, true));
				assert_int_equal(r->samples[side],
						 brute(f, &v[side], r->text, r->module, false));
				assert_int_equal(r->count[side],
						 spec.inclusive ? r->samples[side] : r->self[side]);
				self[side] += r->self[side];
			}
			for (size_t j = 0; j < k; j++)
				assert_true(strcmp(d->rows[j].text, r->text) ||
					    strcmp(d->rows[j].module, r->module));
			assert_true(near(r->change, r->share[0] - r->share[1], 1e-12));
			assert_true(r->low <= r->change && r->change <= r->high);
		}
		for (int side = 0; side < 2; side++) {
			uint64_t all = brute_all(f, &v[side], ""), named = self[side];
			assert_int_equal(d->samples[side], all);
			assert_true(named <= all); /* some stacks are empty */
			assert_true(near(d->covered_s[side],
					 10.0 * (double)(v[side].to - v[side].from), 1e-12));
		}
		/*
		 * Amounts are compared in samples of one CPU: with one event on both sides time
		 * will do.
		 */
		check_verdicts(d, spec.absolute);
		query_diff_free(d);
		query_close(a);
		query_close(b);
	}
}

static void keys(void **state)
{
	struct fixture *f = *state;
	const char *const names[] = { "tenant" };
	for (size_t i = 0; i < N_SIDES; i++) {
		struct query_diff_spec spec = { .keys = names, .n_keys = 1 };
		struct query *a = ask(f, &sides[i][0]), *b = ask(f, &sides[i][1]);
		struct query_diff *d;
		struct err err = { 0 };
		uint64_t sum[2] = { 0, 0 };
		assert_int_equal(query_diff(&d, a, b, &spec, &err), 0);
		for (size_t k = 0; k < d->n_rows; k++) {
			char label[64];
			snprintf(label, sizeof(label), "tenant=%s\n", d->rows[k].values[0]);
			for (int side = 0; side < 2; side++) {
				if (d->rows[k].present[0])
					assert_int_equal(d->rows[k].samples[side],
							 brute_all(f, &sides[i][side], label));
				sum[side] += d->rows[k].samples[side];
			}
		}
		for (int side = 0; side < 2; side++)
			assert_int_equal(sum[side], brute_all(f, &sides[i][side], ""));
		check_verdicts(d, false);
		query_diff_free(d);
		query_close(a);
		query_close(b);
	}
}

/* Amounts of two events are compared in samples that one CPU would have; of counts, in seconds. */
static void two_events(void **state)
{
	static const double ns[3] = { 10101010, 1e9, 1000000 };
	struct fixture *f = *state;
	for (int i = 0; i < 9; i++) {
		const struct query_diff_spec how = { .absolute = true };
		struct query *q[2];
		struct query_diff *d;
		struct err err = { 0 };
		for (int side = 0; side < 2; side++) {
			const struct query_spec spec = {
				.from_ns = f->m.w[0].t0,
				.to_ns = f->m.w[side ? 3 : 8].t1,
				.event = model_events[side ? i % 3 : i / 3].name,
			};
			assert_int_equal(query_open(&q[side], f->s, &spec, &err), 0);
		}
		assert_int_equal(query_diff(&d, q[0], q[1], &how, &err), 0);
		for (size_t k = 0; k < d->n_rows; k++) {
			const uint64_t *n = d->rows[k].count;
			const double a = 90e9 / ns[i / 3], b = 40e9 / ns[i % 3];
			assert_true(near(d->rows[k].p, stats_rate_p(n[0], a, n[1], b), 1e-9));
			assert_int_equal(d->rows[k].tested,
					 stats_rate_least_p(n[0] + n[1], a, b) < 0.05);
		}
		query_diff_free(d);
		query_close(q[0]);
		query_close(q[1]);
	}
}

/* Of what a side was cut nothing is known: what it lacks is not tested. */
static void cut_sides(void **state)
{
	struct fixture *f = *state;
	size_t kept = 0, left_out = 0;
	for (size_t bytes = 1; bytes < 400000; bytes = 3 * bytes + 1000)
		for (int cut = 1; cut < 4; cut++) {
			const struct query_diff_spec how = { .absolute = false };
			const struct query_spec spec = { .from_ns = INT64_MIN,
							 .to_ns = INT64_MAX,
							 .labels = QUERY_NO_LABELS };
			struct query *q[2];
			struct query_diff *d;
			struct err err = { 0 };
			for (int side = 0; side < 2; side++) {
				store_limit(f->s, &(struct store_limits){
							  .bytes = cut >> side & 1 ? bytes : 0 });
				assert_int_equal(query_open(&q[side], f->s, &spec, &err), 0);
			}
			store_limit(f->s, &(struct store_limits){ 0 });
			assert_int_equal(query_diff(&d, q[0], q[1], &how, &err), 0);
			for (size_t k = 0; k < d->n_rows; k++) {
				const struct query_diff_row *r = &d->rows[k];
				bool lacks = r->other;
				for (int side = 0; side < 2; side++)
					lacks |= query_info(q[side])->bounded && !r->samples[side];
				if (lacks) {
					assert_false(r->tested);
					assert_true(r->q == 1 && r->verdict == DIFF_NOISE);
				}
				kept += r->tested;
				left_out += lacks && !r->other;
			}
			query_diff_free(d);
			query_close(q[0]);
			query_close(q[1]);
		}
	assert_true(kept > 10 && left_out > 10);
}

static void shared(void **state)
{
	struct fixture *f = *state;
	static const struct {
		struct side a, b;
		const char *both[2];
		size_t from, to;
	} v[] = {
		{ { NULL, "", 0, 10 },
		  { " { tenant=\"t3\", } ", "", 4, N_WINDOWS },
		  { "tenant=t3\n", "" },
		  4,
		  10 },
		{ { "comm=\"sh\"", "", 3, 9 },
		  { "{tenant=\"t3\"}", "", 0, 6 },
		  { "tenant=t3\n", "comm=sh\n" },
		  3,
		  6 },
		{ { "{tenant=\"t1\"}", "", 0, 9 },
		  { "{tenant=\"t3\"}", "", 0, 9 },
		  { "none", "" },
		  0,
		  9 },
		{ { "{tenant!=\"t3\"}", "", 0, 9 },
		  { "{comm=\"sh\",tenant=\"t3\"}", "", 0, 9 },
		  { "none", "" },
		  0,
		  9 },
		{ { "{tenant=\"t3\"}", "", 0, 9 },
		  { "{comm=\"sh\",tenant=\"t3\"}", "", 0, 9 },
		  { "tenant=t3\n", "comm=sh\n" },
		  0,
		  9 },
		{ { "{comm!=\"t3\"}", "", 0, 9 },
		  { "{comm=\"sh\",tenant=\"t3\"}", "", 0, 9 },
		  { "tenant=t3\n", "comm=sh\n" },
		  0,
		  9 },
		{ { "", "", 0, 5 }, { "{}", "", 5, 9 }, { "", "" }, 5, 5 },
		{ { "", "", 2, 5 }, { "{}", "", 2, 5 }, { "", "" }, 2, 5 },
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct query_spec a = { .where = v[i].a.where,
					.from_ns = f->m.w[v[i].a.from].t0,
					.to_ns = f->m.w[v[i].a.to - 1].t1 };
		struct query_spec b = { .where = v[i].b.where,
					.from_ns = f->m.w[v[i].b.from].t0,
					.to_ns = f->m.w[v[i].b.to - 1].t1 };
		struct side both = { NULL, v[i].both[0], v[i].from, v[i].to };
		uint64_t n = 99;
		struct err err = { 0 };
		assert_int_equal(query_diff_shared(f->s, &a, &b, &n, &err), 0);
		assert_int_equal(n, brute_all(f, &both, v[i].both[1]));
		assert_int_equal(query_diff_shared(f->s, &b, &a, &n, &err), 0);
		assert_int_equal(n, brute_all(f, &both, v[i].both[1]));
	}
}

/* The path of a node as "name (module)\n" lines, root first. */
static void path_of(const struct query_diff_tree *t, uint32_t node, char *out, size_t cap)
{
	uint32_t path[64], n = 0;
	for (; node && n < 64; node = t->nodes[node].parent)
		path[n++] = node;
	for (*out = 0; n--;)
		snprintf(out + strlen(out), cap - strlen(out), "%s (%s)\n", t->nodes[path[n]].text,
			 t->nodes[path[n]].module);
}

/* The text of a model's stack without kinds and lines. */
static void plain_stack(const char *stack, char *out, size_t cap)
{
	for (*out = 0; *stack; stack = strchr(stack, '\n') + 1) {
		const char *end = strchr(stack, ')') + 1;
		snprintf(out + strlen(out), cap - strlen(out), "%.*s\n", (int)(end - stack), stack);
	}
}

static void tree(void **state)
{
	struct fixture *f = *state;
	char path[4000], stack[4000];
	for (size_t i = 0; i < N_SIDES; i++) {
		struct query *a = ask(f, &sides[i][0]), *b = ask(f, &sides[i][1]);
		struct query_diff_tree *t;
		struct err err = { 0 };
		assert_int_equal(query_diff_tree(&t, a, b, &err), 0);
		for (uint32_t k = 0; k < t->n_nodes; k++) {
			const struct query_diff_node *n = &t->nodes[k];
			uint64_t self[2] = { 0, 0 }, kids[2] = { n->self[0], n->self[1] };
			assert_true(k ? n->parent < k : n->parent == 0);
			path_of(t, k, path, sizeof(path));
			if (k) {
				query_frame_name(f->s, n->frame, stack, sizeof(stack));
				assert_string_equal(n->text, stack);
			}
			for (int side = 0; side < 2; side++)
				for (size_t w = sides[i][side].from; w < sides[i][side].to; w++)
					for (size_t r = 0; k % 7 == 0 && r < f->m.w[w].n; r++) {
						const struct model_row *row = &f->m.w[w].rows[r];
						plain_stack(row->stack, stack, sizeof(stack));
						if (admits(&sides[i][side], row) &&
						    !strcmp(stack, path))
							self[side] += row->samples;
					}
			uint64_t last = UINT64_MAX;
			for (uint32_t c = n->first_child; c; c = t->nodes[c].next_sibling) {
				assert_int_equal(t->nodes[c].parent, k);
				assert_true(t->nodes[c].total[0] + t->nodes[c].total[1] <= last);
				last = t->nodes[c].total[0] + t->nodes[c].total[1];
				const struct query_diff_node *x = &t->nodes[c],
							     *y = &t->nodes[x->next_sibling];
				if (x->next_sibling && last == y->total[0] + y->total[1]) {
					int by = strcmp(x->text, y->text);
					assert_true(by < 0 ||
						    (!by && strcmp(x->module, y->module) < 0));
				}
				for (uint32_t e = t->nodes[c].next_sibling; e;
				     e = t->nodes[e].next_sibling)
					assert_true(strcmp(t->nodes[c].text, t->nodes[e].text) ||
						    strcmp(t->nodes[c].module, t->nodes[e].module));
				kids[0] += t->nodes[c].total[0];
				kids[1] += t->nodes[c].total[1];
			}
			for (int side = 0; side < 2; side++) {
				assert_int_equal(kids[side], n->total[side]);
				if (k % 7 == 0)
					assert_int_equal(self[side], n->self[side]);
			}
		}
		assert_int_equal(t->nodes[0].total[0], query_info(a)->samples);
		assert_int_equal(t->nodes[0].total[1], query_info(b)->samples);
		query_diff_tree_free(t);
		query_close(a);
		query_close(b);
	}
	query_diff_tree_free(NULL);
	query_diff_free(NULL);
}

/* ---- verdicts on counts alone ---- */

/* Benjamini and Hochberg's q of test i of m, from their definition: ranks by counting. */
static double adjusted(const double *p, size_t m, size_t i)
{
	double q = 1;
	for (size_t j = 0; j < m; j++) {
		size_t rank = 0;
		for (size_t k = 0; k < m; k++)
			rank += p[k] <= p[j];
		if (p[j] >= p[i])
			q = fmin(q, p[j] * (double)m / (double)rank);
	}
	return q;
}

static void verdicts(void **state)
{
	struct model m = { .random = 8 };
	size_t seen[3] = { 0 };
	(void)state;
	for (int trial = 0; trial < 300; trial++) {
		const uint64_t all[2] = { 1 + model_random(&m, 3000), 1 + model_random(&m, 3000) };
		const size_t n = model_random(&m, 20);
		uint64_t k[20][2];
		uint8_t got[20];
		double p[20];
		size_t tested[20], n_tested = 0;
		for (size_t i = 0; i < n; i++) {
			for (int side = 0; side < 2; side++)
				k[i][side] = all[side] *
					     model_random(&m, 1 + model_random(&m, 110)) / 100;
			if (k[i][0] > all[0] || k[i][1] > all[1] ||
			    stats_share_least_p(k[i][0] + k[i][1], all[0], all[1]) >= 0.05)
				continue;
			p[n_tested] = stats_share_p(k[i][0], all[0], k[i][1], all[1]);
			tested[n_tested++] = i;
		}
		assert_int_equal(query_diff_verdicts((const uint64_t(*)[2])k, n, all, got), 0);
		for (size_t i = 0, t = 0; i < n; i++) {
			bool is = t < n_tested && tested[t] == i;
			uint8_t want = DIFF_NOISE;
			if (is && adjusted(p, n_tested, t) < 0.05)
				want = k[i][0] * all[1] > k[i][1] * all[0] ? DIFF_MORE : DIFF_LESS;
			t += is;
			assert_int_equal(got[i], want);
			seen[want]++;
		}
	}
	assert_true(seen[DIFF_NOISE] > 100 && seen[DIFF_MORE] > 100 && seen[DIFF_LESS] > 100);
}

/* ---- false alarms, and true ones ---- */

/*
 * Windows of one sample per row drawn from 200 functions; in `hot` the first ten are 1.5 times as
 * likely.
 */
static void draws(struct model *m, struct store_writer *w, const uint32_t *stacks, const char *who,
		  size_t n, bool hot)
{
	struct label l = {
		.key = "who", .key_len = 3, .str = who, .str_len = (uint32_t)strlen(who)
	};
	uint32_t set;
	assert_int_equal(store_add_set(w, &l, 1, &set), 0);
	for (size_t i = 0; i < n; i++) {
		uint32_t k = model_random(m, 200 + (hot ? 5 : 0));
		k = k < 200 ? k : (k - 200) * 2 + model_random(m, 2);
		assert_int_equal(store_add_row(w, set, stacks[k], 0, 1, 0), 0);
	}
}

static void alarms(void **state)
{
	(void)state;
	char dir[64], name[32];
	struct model m = { .random = 5 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	uint32_t stacks[200], event;
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (unsigned i = 0; i < 200; i++) {
		struct store_frame f = { 0 };
		uint32_t frame;
		snprintf(name, sizeof(name), "f%03u", i);
		f.function = model_text(w, name);
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stacks[i]), 0);
	}
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "same%u", i);
		draws(&m, w, stacks, name, 20000, false);
	}
	draws(&m, w, stacks, "hot", 400000, true);
	draws(&m, w, stacks, "cold", 400000, false);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	size_t with_alarm = 0, raw = 0, rows = 0;
	for (unsigned i = 0; i <= 20; i++) {
		char x[32], y[32];
		snprintf(x, sizeof(x), i < 20 ? "who=\"same%u\"" : "who=\"hot\"", 2 * i);
		snprintf(y, sizeof(y), i < 20 ? "who=\"same%u\"" : "who=\"cold\"", 2 * i + 1);
		struct query_spec sx = { .where = x, .from_ns = INT64_MIN, .to_ns = INT64_MAX },
				  sy = sx;
		struct query_diff_spec spec = { 0 };
		struct query *a, *b;
		struct query_diff *d;
		sy.where = y;
		assert_int_equal(query_open(&a, s, &sx, &err), 0);
		assert_int_equal(query_open(&b, s, &sy, &err), 0);
		assert_int_equal(query_diff(&d, a, b, &spec, &err), 0);
		assert_int_equal(d->n_rows, 200);
		for (size_t k = 0; k < 200; k++)
			raw += i < 20 && d->rows[k].p < 0.05;
		rows += i < 20 ? 200 : 0;
		if (i < 20) {
			with_alarm += d->n_changed > 0;
		} else {
			/*
			 * 1.5 times: each of the ten is far from chance; the others lose 2.4% each,
			 * which is not.
			 */
			size_t more = 0;
			for (size_t k = 0; k < 200; k++) {
				bool hot = strcmp(d->rows[k].text, "f010") < 0;
				assert_true(!hot || d->rows[k].verdict == DIFF_MORE);
				more += d->rows[k].verdict == DIFF_MORE;
			}
			assert_true(more >= 10 && more <= 12);
		}
		query_diff_free(d);
		query_close(a);
		query_close(b);
	}
	/* 5% of single tests are below 0.05 by chance; of whole tables about 5% have any alarm. */
	print_message("same: %zu of 20 tables with an alarm, %.1f%% of rows with p < 0.05\n",
		      with_alarm, 100.0 * (double)raw / (double)rows);
	assert_true(with_alarm <= 4);
	assert_true(raw > rows / 50 && raw < rows / 14);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions),  cmocka_unit_test(keys),
		cmocka_unit_test(shared),     cmocka_unit_test(tree),
		cmocka_unit_test(alarms),     cmocka_unit_test(verdicts),
		cmocka_unit_test(two_events), cmocka_unit_test(cut_sides),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
