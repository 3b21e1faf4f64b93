/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where there is no room for all stacks: what a reader keeps has its exact sums, and (other) below
 * it has the rest. Parents of a writer without room keep the largest stacks, and say so.
 */
#include "unit/store_model.h"

#include "query/query_int.h"
#include "store/writer.h"

#define T0 1700000000000000000ll
#define SECOND 1000000000ll

static char *name_of(const struct query *q, const struct query_node *n)
{
	char name[300];
	struct store *s = q->store;
	uint32_t parent, frame;
	store_stack(s, n->stack, &parent, &frame);
	const struct store_frame *f = store_frame(s, frame);
	query_frame_name(s, frame, name, sizeof(name));
	char *out = NULL;
	assert_true(asprintf(&out, "%s (%s) %u", name, f ? store_string(s, f->module, NULL) : "",
			     f ? f->kind : 0) > 0);
	return out;
}

struct path {
	char *text;
	uint64_t self, total;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct path *)a)->text, ((const struct path *)b)->text);
}

/* Every node by its path; those with the same are added up. */
static size_t paths_of(struct store *s, struct path **ret, uint64_t *ret_samples, bool *ret_bounded)
{
	struct query_spec spec = {
		.labels = QUERY_NO_LABELS, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .idle = true
	};
	const struct query_node *nodes;
	struct query *q;
	struct err err = { 0 };
	size_t n, to = 0;
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
	struct path *v = calloc(n + 1, sizeof(*v));
	char **text = calloc(n + 1, sizeof(*text));
	for (size_t i = 0; i < n; i++) {
		char *name = i ? name_of(q, &nodes[i]) : strdup("");
		assert_true(asprintf(&text[i], "%s;%s", i ? text[nodes[i].parent] : "", name) > 0);
		v[i] = (struct path){ strdup(text[i]), nodes[i].self, nodes[i].total };
		free(name);
	}
	*ret_samples = query_info(q)->samples;
	*ret_bounded = query_info(q)->bounded;
	for (size_t i = 0; i < n; i++)
		free(text[i]);
	free(text);
	qsort(v, n, sizeof(*v), by_text);
	for (size_t i = 0; i < n; i++) {
		if (to && !strcmp(v[to - 1].text, v[i].text)) {
			v[to - 1].self += v[i].self;
			v[to - 1].total += v[i].total;
			free(v[i].text);
		} else {
			v[to++] = v[i];
		}
	}
	query_close(q);
	*ret = v;
	return to;
}

static void free_paths(struct path *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].text);
	free(v);
}

/*
 * Of `less` every path that is not (other) is in `all`, with the same sums, or no larger ones.
 * Returns how many of its nodes are (other).
 */
static size_t compare(struct path *all, size_t n_all, const struct path *less, size_t n_less,
		      bool exact)
{
	size_t others = 0;
	uint64_t self = 0;
	for (size_t i = 0; i < n_less; i++) {
		self += less[i].self;
		if (strstr(less[i].text, ";(other) ")) {
			others++;
			continue;
		}
		const struct path *same = bsearch(&less[i], all, n_all, sizeof(*all), by_text);
		if (!same)
			fail_msg("%s is not there", less[i].text);
		assert_true(less[i].total <= same->total && less[i].self <= same->self);
		assert_true(!exact || (less[i].total == same->total && less[i].self == same->self));
	}
	for (size_t i = 0; i < n_all; i++)
		self -= all[i].self;
	assert_int_equal(self, 0);
	return others;
}

/* Most stacks come once; one of a few functions at the root has half of the samples. */
static void put_row(struct store_writer *w, struct model *m)
{
	uint32_t event, frame, stack = 0, depth = 1 + model_random(m, 10),
			       n = 1 + model_random(m, 9);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (uint32_t i = 0; i < depth; i++) {
		char name[32];
		struct store_frame f = { .kind = model_random(m, 2) };
		snprintf(name, sizeof(name), "function_%u", model_random(m, i ? 60 : 4));
		f.function = model_text(w, name);
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, stack, frame, &stack), 0);
	}
	assert_int_equal(store_add_row(w, 0, stack, event, n, n * model_events[0].period), 0);
}

static void fill(struct store_writer *w, struct model *m)
{
	struct err err = { 0 };
	for (int64_t i = 0; i < 200; i++) {
		struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
		const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
		for (int row = 0; row < 60; row++)
			put_row(w, m);
		assert_int_equal(store_commit_window(w, T0 + i * 10 * SECOND,
						     T0 + (i + 1) * 10 * SECOND, i + 1, &t, &err),
				 0);
		assert_int_equal(store_writer_state(w)->parents_failed, 0);
		store_renew(w);
		store_renew_end(w);
	}
	assert_int_equal(store_compact(w, &err), 0);
}

static void make(char *dir, const struct store_options *o)
{
	struct model m = { .random = 21 };
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, o, &err), 0);
	fill(w, &m);
	store_writer_close(w);
}

static void reader_without_room(void **state)
{
	static const size_t limits[] = { 1, 1000000, 4000000, 64000000 };
	(void)state;
	char dir[64];
	struct store *s;
	struct path *all, *less;
	struct err err = { 0 };
	uint64_t samples, others = 0;
	bool bounded;
	make(dir, &model_options);
	assert_int_equal(store_open(&s, dir, &err), 0);
	size_t n_all = paths_of(s, &all, &samples, &bounded);
	assert_false(bounded);
	store_close(s);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t sum;
		assert_int_equal(store_open(&s, dir, &err), 0);
		store_limit(s, &(struct store_limits){ .symbols = limits[i] });
		size_t n = paths_of(s, &less, &sum, &bounded);
		size_t other = compare(all, n_all, less, n, true);
		print_message("%zu bytes: %zu nodes of %zu, %zu of them (other)\n", limits[i], n,
			      n_all, other);
		assert_int_equal(sum, samples);
		assert_int_equal(bounded, other > 0);
		others += other;
		free_paths(less, n);
		store_close(s);
	}
	assert_true(others > 10);
	free_paths(all, n_all);
	remove_tree(dir);
}

static void writer_without_room(void **state)
{
	(void)state;
	char dir[64], small[64];
	struct store_options o = model_options;
	struct store *s;
	struct path *all, *less;
	struct err err = { 0 };
	uint64_t samples, sum;
	bool bounded;
	make(dir, &o);
	o.symbols_memory = 600000;
	make(small, &o);
	assert_int_equal(store_open(&s, dir, &err), 0);
	size_t n_all = paths_of(s, &all, &samples, &bounded);
	store_close(s);
	assert_int_equal(store_open(&s, small, &err), 0);
	size_t n = paths_of(s, &less, &sum, &bounded);
	size_t other = compare(all, n_all, less, n, false);
	print_message("%zu nodes of %zu, %zu of them (other)\n", n, n_all, other);
	assert_int_equal(sum, samples);
	assert_true(bounded && other > 10 && n > 1000);
	store_close(s);
	free_paths(less, n);
	free_paths(all, n_all);
	remove_tree(dir);
	remove_tree(small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_without_room),
		cmocka_unit_test(writer_without_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
