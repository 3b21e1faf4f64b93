/* SPDX-License-Identifier: Apache-2.0 */
/* Queries over random windows, beside a merge of the plain-text rows that went in. */
#include "unit/store_model.h"

#include "query/query.h"
#include "query/query_int.h"
#include "store/writer.h"

#include <math.h>

static int setup(void **state)
{
	*state = fixture_of(21, 30, 120);
	return 0;
}

/* A question, with what it means said a second time in C on the text of a label set. */
struct question {
	const char *where;
	bool (*holds)(const char *labels);
	const char *event;
	uint32_t event_id;
	size_t from, to; /* windows */
	bool idle;
};

static bool holds_always(const char *labels)
{
	(void)labels;
	return true;
}

static bool holds_tenant(const char *labels)
{
	return strstr(labels, "tenant=t3\n") != NULL;
}

static bool holds_no_tenant(const char *labels)
{
	return !strstr(labels, "tenant=");
}

static bool holds_regex(const char *labels)
{
	return (strstr(labels, "tenant=t1\n") || strstr(labels, "tenant=t2\n")) &&
	       !strstr(labels, "comm=sh\n") && !strstr(labels, "query_id=-");
}

static bool holds_never(const char *labels)
{
	(void)labels;
	return false;
}

static const struct question questions[] = {
	{ NULL, holds_always, NULL, 0, 0, 30, false },
	{ "", holds_always, "cpu-clock", 0, 0, 30, true },
	{ "{tenant=\"t3\"}", holds_tenant, "page-faults", 1, 3, 17, false },
	{ "tenant=\"\"", holds_no_tenant, NULL, 0, 29, 30, true },
	{ "{tenant=~\"t[12]\",comm!=\"sh\",query_id!~\"-.*\"}", holds_regex, NULL, 0, 5, 28,
	  false },
	{ "tenant=\"nobody\"", holds_never, NULL, 0, 0, 30, false },
	{ "event=\"page-faults\",tenant=\"t3\"", holds_tenant, NULL, 1, 0, 30, false },
	{ "event=\"page-faults\"", holds_never, "cpu-clock", 0, 0, 30, false },
	{ NULL, holds_always, NULL, 0, 4, 4, false },
};

#define N_QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static struct query *ask(struct fixture *f, const struct question *a)
{
	struct query *q = NULL;
	struct err err = { 0 };
	struct query_spec spec = { .where = a->where, .event = a->event, .idle = a->idle };
	/* From within a window to within a window: both are whole in the answer. */
	spec.from_ns = a->from ? f->m.w[a->from].t0 + 5 : INT64_MIN;
	spec.to_ns = a->to == 30       ? INT64_MAX
		     : a->to > a->from ? f->m.w[a->to - 1].t1 - 5
				       : spec.from_ns;
	if (query_open(&q, f->s, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

/* The rows of the answer, one per (labels, stack). */
static struct model_window expect(const struct fixture *f, const struct question *a,
				  uint64_t *ret_idle)
{
	struct model_window out = { 0 };
	*ret_idle = 0;
	for (size_t i = a->from; i < a->to; i++)
		for (size_t k = 0; k < f->m.w[i].n; k++) {
			struct model_row r = f->m.w[i].rows[k];
			if (r.event != a->event_id)
				continue;
			if (model_is_idle(&r)) {
				*ret_idle += r.samples;
				if (!a->idle)
					continue;
			}
			if (!a->holds(r.labels))
				continue;
			r.labels = strdup(r.labels);
			r.stack = strdup(r.stack);
			model_window_add(&out, r);
		}
	model_sort(out.rows, out.n);
	return out;
}

static void rows_and_info(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < N_QUESTIONS; i++) {
		const struct question *a = &questions[i];
		struct query *q = ask(f, a);
		uint64_t idle, samples = 0, value = 0, fired = 0, lost0 = 0, flagged = 0, sum = 0;
		struct model_window want = expect(f, a, &idle);
		struct read_back b = { .s = f->s, .q = q };
		size_t n;
		const struct store_row *rows = query_rows(q, &n);
		for (size_t k = 0; k < n; k++) {
			assert_true(!k || rows[k - 1].set < rows[k].set ||
				    (rows[k - 1].set == rows[k].set &&
				     rows[k - 1].stack < rows[k].stack));
			read_back_row(&b, &rows[k]);
		}
		model_sort(b.rows, b.n);
		assert_int_equal(b.n, want.n);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(model_row_cmp(&b.rows[k], &want.rows[k]), 0);
			assert_int_equal(b.rows[k].samples, want.rows[k].samples);
			assert_int_equal(b.rows[k].value, want.rows[k].value);
			samples += want.rows[k].samples;
			value += want.rows[k].value;
		}
		for (size_t k = a->from; k < a->to; k++) {
			fired += 1401 + k;
			lost0 += 300 + k;
			flagged += k * k + 7;
			sum += k;
		}
		const struct query_info *info = query_info(q);
		assert_int_equal(info->samples, samples);
		assert_int_equal(info->value, value);
		assert_int_equal(info->idle, idle);
		assert_int_equal(info->blocks, a->to - a->from);
		assert_int_equal(info->fired, fired);
		assert_int_equal(info->stored, 1100 * (a->to - a->from));
		assert_int_equal(info->lost[0], lost0);
		assert_int_equal(info->fired, info->stored + info->lost[0] + info->lost[1]);
		assert_int_equal(info->lost[1], a->to - a->from);
		assert_int_equal(info->flagged[0], flagged);
		assert_int_equal(info->outside, sum);
		assert_int_equal(info->own_cpu_ns, 5 * sum);
		assert_int_equal(info->own_rss_max, a->to > a->from ? 1u << 20 : 0);
		assert_int_equal(info->from_ns, a->to > a->from ? f->m.w[a->from].t0 : 0);
		assert_int_equal(info->to_ns, a->to > a->from ? f->m.w[a->to - 1].t1 : 0);
		assert_string_equal(info->event->name, model_events[a->event_id].name);
		assert_true(fabs(info->seconds -
				 (double)samples * (double)model_events[a->event_id].ns_per_sample /
					 1e9) < 1e-6);
		struct model_window got = { b.rows, b.n, 0, 0 };
		model_window_fini(&got);
		model_window_fini(&want);
		query_close(q);
	}
}

/* ---- tree ---- */

/* The tree knows no lines: the last word of each frame. */
static void cut_lines(char *stack)
{
	char *to = stack;
	for (char *p = stack, *end; (end = strchr(p, '\n')); p = end + 1) {
		char *last = memrchr(p, ' ', (size_t)(end - p));
		memmove(to, p, (size_t)(last - p));
		to += last - p;
		*to++ = '\n';
	}
	*to = 0;
}

/* Samples of the rows whose stack begins with this path; self: whose stack is this path. */
static uint64_t sum_paths(const struct model_window *w, const char *path, bool self)
{
	uint64_t n = 0;
	for (size_t i = 0; i < w->n; i++)
		if (self ? !strcmp(w->rows[i].stack, path)
			 : !strncmp(w->rows[i].stack, path, strlen(path)))
			n += w->rows[i].samples;
	return n;
}

static void tree(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < N_QUESTIONS; i++) {
		struct query *q = ask(f, &questions[i]);
		struct err err = { 0 };
		const struct query_node *nodes;
		size_t n, children = 0;
		uint64_t idle, self = 0;
		struct model_window want = expect(f, &questions[i], &idle);
		for (size_t k = 0; k < want.n; k++)
			cut_lines(want.rows[k].stack);
		assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
		assert_int_equal(nodes[0].stack, 0);
		assert_int_equal(nodes[0].parent, 0);
		assert_int_equal(nodes[0].next_sibling, 0);
		assert_int_equal(nodes[0].total, query_info(q)->samples);
		for (size_t k = 0; k < n; k++) {
			char *path = store_stack_text(f->s, nodes[k].stack);
			cut_lines(path);
			assert_true(!k || nodes[k].parent < k);
			assert_int_equal(nodes[k].self, sum_paths(&want, path, true));
			assert_int_equal(nodes[k].total, sum_paths(&want, path, false));
			free(path);
			self += nodes[k].self;
			uint64_t last = UINT64_MAX;
			for (uint32_t c = nodes[k].first_child; c; c = nodes[c].next_sibling) {
				assert_int_equal(nodes[c].parent, k);
				assert_true(nodes[c].total <= last);
				last = nodes[c].total;
				children++;
			}
		}
		assert_int_equal(children, n - 1);
		assert_int_equal(self, query_info(q)->samples);
		model_window_fini(&want);
		query_close(q);
	}
}

/* ---- tables ---- */

/* The lines of a stack's text are its frames: name (module) kind line. */
static void brute_function(const struct model_window *w, const char *name, const char *module,
			   uint64_t *ret_self, uint64_t *ret_total)
{
	char prefix[200];
	snprintf(prefix, sizeof(prefix), "%s (%s) ", name, module);
	*ret_self = *ret_total = 0;
	for (size_t i = 0; i < w->n; i++) {
		bool in = false, leaf = false;
		for (const char *p = w->rows[i].stack; *p; p = strchr(p, '\n') + 1) {
			leaf = !strncmp(p, prefix, strlen(prefix));
			in |= leaf;
		}
		*ret_self += leaf ? w->rows[i].samples : 0;
		*ret_total += in ? w->rows[i].samples : 0;
	}
}

static void functions(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < N_QUESTIONS; i++) {
		struct query *q = ask(f, &questions[i]);
		struct err err = { 0 };
		struct query_table *t;
		uint64_t idle, self_sum = 0, rootless = 0;
		struct model_window want = expect(f, &questions[i], &idle);
		assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
		for (size_t k = 0; k < t->n_rows; k++) {
			const struct query_table_row *r = &t->rows[k];
			uint64_t self, total;
			brute_function(&want, r->text, r->module, &self, &total);
			assert_int_equal(r->self, self);
			assert_int_equal(r->samples, total);
			assert_true(total > 0);
			assert_true(!k || t->rows[k - 1].self >= self);
			for (size_t j = 0; j < k; j++)
				assert_true(strcmp(t->rows[j].text, r->text) ||
					    strcmp(t->rows[j].module, r->module));
			double share = (double)total / (double)query_info(q)->samples;
			assert_true(r->low <= share && share <= r->high);
			self_sum += self;
		}
		for (size_t k = 0; k < want.n; k++)
			rootless += *want.rows[k].stack ? 0 : want.rows[k].samples;
		assert_int_equal(self_sum + rootless, query_info(q)->samples);
		query_table_free(t);
		model_window_fini(&want);
		query_close(q);
	}
}

static void key_tables(void **state)
{
	struct fixture *f = *state;
	const char *const keys[] = { "tenant", "query_id", "none", "event" };
	for (size_t i = 0; i < N_QUESTIONS; i++) {
		struct query *q = ask(f, &questions[i]);
		struct err err = { 0 };
		struct query_table *t;
		uint64_t idle, sum = 0;
		struct model_window want = expect(f, &questions[i], &idle);
		assert_int_equal(query_table(q, keys, 4, &t, &err), 0);
		for (size_t k = 0; k < t->n_rows; k++) {
			const struct query_table_row *r = &t->rows[k];
			uint64_t n = 0, value = 0;
			char tenant[64], query_id[64];
			snprintf(tenant, sizeof(tenant), "tenant=%s", r->values[0]);
			snprintf(query_id, sizeof(query_id), "query_id=%s", r->values[1]);
			if (r->present[0])
				strcat(tenant, "\n");
			if (r->present[1])
				strcat(query_id, "\n");
			for (size_t j = 0; j < want.n; j++) {
				const char *l = want.rows[j].labels;
				if ((strstr(l, tenant) != NULL) == r->present[0] &&
				    (strstr(l, query_id) != NULL) == r->present[1]) {
					n += want.rows[j].samples;
					value += want.rows[j].value;
				}
			}
			assert_int_equal(r->value, value);
			assert_int_equal(r->samples, n);
			assert_int_equal(r->self, n);
			assert_false(r->present[2]);
			assert_string_equal(r->values[2], "");
			assert_true(r->present[3]);
			assert_string_equal(r->values[3], query_info(q)->event->name);
			assert_true(!k || t->rows[k - 1].samples >= n);
			sum += n;
		}
		assert_int_equal(sum, query_info(q)->samples);
		query_table_free(t);
		model_window_fini(&want);
		query_close(q);
	}
}

/* ---- errors and small things ---- */

static void errors(void **state)
{
	struct fixture *f = *state;
	struct query *q;
	struct err err = { 0 };
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .event = "cycles" };
	assert_int_equal(query_open(&q, f->s, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "cpu-clock, page-faults"));
	spec.event = NULL;
	spec.where = "{tenant=t1}";
	assert_int_equal(query_open(&q, f->s, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "column 9"));
	query_close(NULL);
	query_table_free(NULL);
}

/*
 * The same question without limits, with room enough, with hardly any, and when it shall end; then
 * the handle is as good as before.
 */
static void limits(void **state)
{
	static const char *const tenant[] = { "tenant" };
	struct fixture *f = *state;
	struct err err = { 0 };
	bool stop = false;
	for (int kind = QUERY_ALL_LABELS; kind <= QUERY_KEYS_STACKS; kind++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .labels = (enum query_labels)kind,
						 .keys = tenant,
						 .n_keys = 1 };
		const struct {
			size_t bytes;
			bool stop;
			int rc;
		} v[] = { { 1, false, 0 },	  { 0, false, 0 },
			  { 64 << 20, false, 0 }, { 64 << 20, true, -EAGAIN },
			  { 0, true, -EAGAIN },	  { 0, false, 0 } };
		for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
			struct query *q = NULL;
			stop = v[i].stop;
			store_limit(f->s,
				    &(struct store_limits){ .bytes = v[i].bytes, .stop = &stop });
			assert_int_equal(query_open(&q, f->s, &spec, &err), v[i].rc);
			if (q)
				assert_int_equal(query_info(q)->bounded, v[i].bytes == 1);
			query_close(q);
		}
	}
	store_limit(f->s, &(struct store_limits){ 0 });
}

static void empty_store(void **state)
{
	(void)state;
	char dir[64];
	struct store_writer *w;
	struct store *s;
	struct query *q;
	struct query_table *t;
	struct err err = { 0 };
	const struct query_node *nodes;
	size_t n;
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_info(q)->blocks, 0);
	assert_int_equal(query_info(q)->samples, 0);
	query_rows(q, &n);
	assert_int_equal(n, 0);
	assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	assert_int_equal(t->n_rows, 0);
	query_table_free(t);
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

/* Reference values: statsmodels' proportion_confint(k, n, 0.05, "wilson"). */
static void interval(void **state)
{
	(void)state;
	double low, high;
	query_interval(0, 0, &low, &high);
	assert_true(low == 0 && high == 1);
	query_interval(10, 100, &low, &high);
	assert_true(fabs(low - 0.0552291) < 1e-6 && fabs(high - 0.1743657) < 1e-6);
	query_interval(0, 10, &low, &high);
	assert_true(low == 0 && fabs(high - 0.2775328) < 1e-6);
	query_interval(10, 10, &low, &high);
	assert_true(fabs(low - 0.7224672) < 1e-6 && high == 1);
}

struct named {
	const struct store *s;
	const char *const *want;
};

/* As many samples as the name has its place in the list. */
static int check_name(void *ctx, const struct store_row *row)
{
	const struct named *n = ctx;
	char name[32];
	uint32_t parent, frame;
	store_stack(n->s, row->stack, &parent, &frame);
	query_frame_name(n->s, frame, name, sizeof(name));
	assert_string_equal(name, n->want[row->samples - 1]);
	return 0;
}

static void frame_names(void **state)
{
	(void)state;
	char dir[64], tiny[4];
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	uint32_t id, event;
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
	struct store_frame v[] = {
		{ .function = model_text(w, "f"), .module = model_text(w, "/bin/x") },
		{ .module = model_text(w, "/usr/bin/demo"), .offset = 0x1f0 },
		{ .module = model_text(w, "[vdso]"), .offset = 16 },
		{ .offset = 0xffffffffffffffff },
		{ .module = model_text(w, "/dir/"), .offset = 1 },
	};
	static const char *const want[] = { "f", "demo+0x1f0", "[vdso]+0x10",
					    "[unknown]+0xffffffffffffffff", "/dir/+0x1" };
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(store_add_frame(w, &v[i], &id), 0);
		assert_int_equal(store_add_stack(w, 0, id, &id), 0);
		assert_int_equal(store_add_row(w, 0, id, event, i + 1, 0), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	struct named n = { s, want };
	assert_int_equal(store_rows(s, 0, check_name, &n, &err), 0);
	query_frame_name(s, 2, tiny, sizeof(tiny));
	assert_int_equal(strlen(tiny), 3);
	store_close(s);
	remove_tree(dir);
}

/* What dictionaries take is not there for rows; several answers share the rest. */
static void budget(void **state)
{
	static const size_t sizes[] = { 0, 1000, 1 << 20, (size_t)1 << 30 };
	struct fixture *f = *state;
	for (size_t i = 0; i < 4; i++)
		for (unsigned parts = 0; parts < 5; parts++) {
			const size_t all = sizes[i] ? sizes[i] : QUERY_MEMORY,
				     n = parts ? parts : 1;
			size_t taken = store_dictionaries(f->s) + all / 8;
			struct query_spec spec = { .parts = parts };
			store_limit(f->s, &(struct store_limits){ .bytes = sizes[i] });
			/* As if others had filled theirs by then */
			taken = n > 1 && taken < all / 8 * 5 ? all / 8 * 5 : taken;
			assert_int_equal(query_budget(f->s, &spec),
					 (taken < all / 4 * 3 ? all - taken : all / 4) / n);
			spec.labels = QUERY_KEYS;
			assert_int_equal(query_budget(f->s, &spec), all / n);
		}
	store_limit(f->s, &(struct store_limits){ 0 });
}

#define SMALL_STACKS 1800 /* of each set */
#define SMALL_SETS 3

/* Of the unlabelled set three stacks with many samples, of others many stacks with few. */
static void write_many_rows(const char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t event, set[SMALL_SETS], frame, stack;
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (uint32_t i = 0; i < SMALL_SETS; i++) {
		const char *const value = i == 0 ? "a" : i == 1 ? "b" : "c";
		const struct label l = {
			.key = "tenant", .key_len = 6, .str = value, .str_len = 1
		};
		assert_int_equal(store_add_set(w, &l, 1, &set[i]), 0);
	}
	for (uint32_t i = 0; i < SMALL_STACKS; i++) {
		const struct store_frame f = { .offset = i + 1 };
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
		for (uint32_t k = 0; k < SMALL_SETS; k++)
			assert_int_equal(store_add_row(w, set[k], stack, event, 2, 2), 0);
		if (i < 3)
			assert_int_equal(store_add_row(w, 0, stack, event, 1000 + i, 1), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
}

/* What does not fit into the budget is summed. The largest rows are not, with labels or without. */
static void rows_that_are_chosen(void **state)
{
	(void)state;
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	char dir[64];
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	size_t n, own = 0;
	uint64_t samples = 0, large = 0;
	write_many_rows(temp_dir(dir));
	assert_int_equal(store_open(&s, dir, &err), 0);
	store_limit(s, &(struct store_limits){ .bytes = 1 << 20 });
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_true(query_info(q)->bounded);
	const struct store_row *v = query_rows(q, &n);
	for (size_t i = 0; i < n; i++) {
		samples += v[i].samples;
		own += v[i].set != QUERY_OTHER && v[i].stack != QUERY_OTHER_STACK;
		large += v[i].set == 0 && v[i].stack != QUERY_OTHER_STACK ? v[i].samples : 0;
	}
	assert_int_equal(large, 3 * 1000 + 0 + 1 + 2);
	assert_int_equal(samples, large + 2 * SMALL_SETS * SMALL_STACKS);
	/* A third of the budget is for them; each takes 128 bytes while runs are merged. */
	assert_true(own > 3 && own <= query_budget(s, &spec) / 3 / 128);
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget),
		cmocka_unit_test(rows_and_info),
		cmocka_unit_test(tree),
		cmocka_unit_test(functions),
		cmocka_unit_test(key_tables),
		cmocka_unit_test(errors),
		cmocka_unit_test(empty_store),
		cmocka_unit_test(interval),
		cmocka_unit_test(frame_names),
		cmocka_unit_test(limits),
		cmocka_unit_test(rows_that_are_chosen),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
