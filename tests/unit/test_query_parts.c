/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of queries by hand: names, orders, keys, what blocks cover, functions seen. */
#include "unit/store_model.h"

#include "query/counters.h"
#include "query/diff.h"
#include "query/query_int.h"
#include "query/seen.h"

#define SECOND 1000000000ll

/* ---- names ---- */

static void names(void **state)
{
	static const struct {
		const char *function, *module;
		uint64_t offset;
		const char *full, *simple;
	} v[] = {
		{ "a<int>::b(long)", "/bin/a", 1, "a<int>::b(long)", "a::b" },
		{ "f.isra.0", "/bin/a", 1, "f.isra.0", "f" },
		{ "", "/usr/lib/libx.so", 0x12, "libx.so+0x12", "libx.so+0x12" },
		{ "", "libx.so", 0xabc, "libx.so+0xabc", "libx.so+0xabc" },
		{ "", "/dir/", 0, "/dir/+0x0", "/dir/+0x0" },
		{ "", "/", 7, "/+0x7", "/+0x7" },
		{ "", "", 0x1f, "[unknown]+0x1f", "[unknown]+0x1f" },
	};
	enum { N = sizeof(v) / sizeof(v[0]) };
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t frame[N], stack = 0, event;
	char dir[64], out[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < N; i++) {
		struct store_frame f = { .kind = FRAME_USER, .offset = v[i].offset };
		f.function = *v[i].function ? model_text(w, v[i].function) : 0;
		f.module = *v[i].module ? model_text(w, v[i].module) : 0;
		assert_int_equal(store_add_frame(w, &f, &frame[i]), 0);
		assert_int_equal(store_add_stack(w, stack, frame[i], &stack), 0);
	}
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_row(w, 0, stack, event, 1, 1), 0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct query *q;
	size_t n;
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	stack = query_rows(q, &n)->stack;
	for (size_t i = N; i-- > 0;) {
		uint32_t id;
		store_stack(s, stack, &stack, &id);
		query_frame_name(s, id, out, sizeof(out));
		assert_string_equal(out, v[i].full);
		for (size_t cap = 1; cap < 6; cap++) {
			query_frame_name(s, id, out, cap);
			assert_int_equal(strlen(out),
					 cap - 1 < strlen(v[i].full) ? cap - 1 : strlen(v[i].full));
			assert_memory_equal(out, v[i].full, strlen(out));
		}
		q->names = QUERY_NAMES_FULL;
		query_name(q, id, out, sizeof(out));
		assert_string_equal(out, v[i].full);
		q->names = QUERY_NAMES_FOLDED;
		query_name(q, id, out, sizeof(out));
		assert_string_equal(out, i == 1 ? "f" : v[i].full);
		q->names = QUERY_NAMES_SIMPLE;
		query_name(q, id, out, sizeof(out));
		assert_string_equal(out, v[i].simple);
	}
	query_frame_name(s, 0, out, sizeof(out));
	assert_string_equal(out, "(other)");
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

/* ---- order of nodes ---- */

struct sibling {
	const char *function, *module, *build;
	uint64_t offset;
	uint32_t kind, flags;
};

/* Of nodes with as many samples: by each part of their frames in turn. */
static const struct sibling siblings[] = {
	{ "", "/a", "", 5, FRAME_USER, 0 },
	{ "", "/a", "", 7, FRAME_USER, 0 },
	{ "", "/b", "", 6, FRAME_USER, 0 },
	{ "f", "/a", "", 0, FRAME_USER, 0 },
	{ "f", "/a", "", 0, FRAME_USER, FRAME_INLINED },
	{ "f", "/a", "", 0, FRAME_KERNEL, 0 },
	{ "f", "/a", "1", 0, FRAME_USER, 0 },
	{ "f", "/a", "2", 0, FRAME_USER, 0 },
	{ "f", "/b", "", 0, FRAME_USER, 0 },
	{ "g", "/a", "", 0, FRAME_USER, 0 },
	{ "g", "/b", "", 0, FRAME_USER, 0 },
};
enum { SIBLINGS = sizeof(siblings) / sizeof(siblings[0]) };

static void check_sibling(const struct store *s, uint32_t stack, const struct sibling *want)
{
	uint32_t parent, frame;
	store_stack(s, stack, &parent, &frame);
	const struct store_frame *f = store_frame(s, frame);
	assert_string_equal(store_string(s, f->function, NULL), want->function);
	assert_string_equal(store_string(s, f->module, NULL), want->module);
	assert_string_equal(store_string(s, f->build_id, NULL), want->build);
	assert_int_equal(f->offset, want->offset);
	assert_int_equal(f->kind, want->kind);
	assert_int_equal(f->flags, want->flags);
}

static void order(void **state)
{
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	(void)state;
	for (size_t shift = 0; shift < SIBLINGS; shift++) {
		struct store_writer *w;
		struct err err = { 0 };
		const struct query_node *nodes;
		struct query *q;
		uint32_t event, frame, stack;
		char dir[64];
		size_t n;
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
		for (size_t i = 0; i < SIBLINGS; i++) { /* in another order each time */
			const struct sibling *v = &siblings[(i * 3 + shift) % SIBLINGS];
			struct store_frame f = { .offset = v->offset,
						 .kind = v->kind,
						 .flags = v->flags };
			f.function = *v->function ? model_text(w, v->function) : 0;
			f.module = model_text(w, v->module);
			f.build_id = *v->build ? model_text(w, v->build) : 0;
			assert_int_equal(store_add_frame(w, &f, &frame), 0);
			assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
			assert_int_equal(store_add_row(w, 0, stack, event, 4, 4), 0);
		}
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(dir);
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
		assert_int_equal(n, SIBLINGS + 1);
		size_t i = 0;
		for (uint32_t c = nodes[0].first_child; c; c = nodes[c].next_sibling)
			check_sibling(s, nodes[c].stack, &siblings[i++]);
		assert_int_equal(i, SIBLINGS);
		/* From the leaves: those of one function and file are one, but for inlined calls */
		const struct query_view_spec inverted = { .view = QUERY_VIEW_INVERTED };
		static const char *const want[] = { "a+0x5", "a+0x7", "b+0x6", "f", "g", "g", "f" };
		static const char *const modules[] = { "/a", "/a", "/b", "/b", "/a", "/b", "/a" };
		struct query_view_tree v;
		assert_int_equal(query_view(&v, q, &inverted, &err), 0);
		i = 0;
		for (uint32_t c = v.nodes[0].first_child; c; c = v.nodes[c].next_sibling) {
			char name[40];
			uint32_t parent;
			store_stack(s, v.nodes[c].stack, &parent, &frame);
			query_frame_name(s, frame, name, sizeof(name));
			assert_int_equal(v.nodes[c].total, i ? 4 : 16);
			if (i) {
				assert_string_equal(name, want[i - 1]);
				assert_string_equal(
					store_string(s, store_frame(s, frame)->module, NULL),
					modules[i - 1]);
			}
			i++;
		}
		assert_int_equal(i, 8);
		query_view_free(&v);
		query_close(q);
		store_close(s);
		remove_tree(dir);
	}
}

/* Names that are longer than is shown: what differs behind that is one. */
static void long_names(void **state)
{
	enum { LONG = 5000, SHOWN = 4095 };
	static char text[2][LONG + 1], module[LONG + 1];
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct query_diff_tree *t;
	struct store_writer *w;
	struct query *q;
	struct err err = { 0 };
	uint32_t event, frame, stack;
	char dir[64];
	(void)state;
	memset(module, 'm', LONG);
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (int i = 0; i < 2; i++) {
		memset(text[i], 'f', LONG);
		text[i][LONG - 1] = (char)('1' + i);
		const struct store_frame f = { .function = model_text(w, text[i]),
					       .module = model_text(w, module) };
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
		assert_int_equal(store_add_row(w, 0, stack, event, 4, 4), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_diff_tree(&t, q, q, &err), 0);
	assert_int_equal(t->n_nodes, 2);
	assert_int_equal(t->nodes[1].total[0], 8);
	assert_int_equal(t->nodes[1].total[1], 8);
	assert_int_equal(strlen(t->nodes[1].text), SHOWN);
	assert_int_equal(strlen(t->nodes[1].module), SHOWN);
	assert_memory_equal(t->nodes[1].text, text[0], SHOWN);
	assert_memory_equal(t->nodes[1].module, module, SHOWN);
	query_diff_tree_free(t);
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

/* ---- keys ---- */

static void threads(void **state)
{
	static const struct {
		const char *where, *key;
		bool of_threads;
	} v[] = {
		{ NULL, "tgid", true },
		{ NULL, "tid", true },
		{ NULL, "thread", true },
		{ NULL, "threads", false },
		{ NULL, "comm", false },
		{ "comm=\"a\",tid=\"1\"", "comm", true },
		{ "{thread!=\"x\"}", "comm", true },
		{ "comm=\"tid\"", "comm", false },
		{ "comm=", "comm", false }, /* no selector */
		{ "comm=", "tid", true },
	};
	char where[64 * 10] = "";
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_int_equal(query_of_threads(v[i].where, &v[i].key, 1), v[i].of_threads);
		const char *const two[] = { "exe", v[i].key };
		assert_int_equal(query_of_threads(v[i].where, two, 2), v[i].of_threads);
	}
	assert_false(query_of_threads(NULL, NULL, 0));
	/* The last of as many matchers as there may be */
	for (int i = 0; i < 63; i++)
		strcat(where, "a=\"\",");
	strcat(where, "tid=\"1\"");
	assert_true(query_of_threads(where, NULL, 0));
}

/* A key whose values come from stacks, of rows that have none: the text says with which metric. */
static void wait_keys(void **state)
{
	static const struct {
		const char *event, *key, *text; /* NULL: it has values */
	} v[] = {
		{ "cpu-clock", "wait", "cpu-clock has no `wait`: ask by it with metric off" },
		{ "cpu-clock", "wait_in", "ask by it with metric off or runq" },
		{ "off-cpu", "by.function", "ask by it with metric waker" },
		{ "runq", "wait", "ask by it with metric off" },
		{ "runq", "wait_in", NULL },
		{ "off-cpu", "wait", NULL },
		{ "off-cpu", "wait_in", NULL },
		{ "latency.off", "wait", NULL },
		{ "cpu-clock", "waits", NULL },
	};
	static const char *const events[] = { "cpu-clock", "runq", "off-cpu", "latency.off" };
	(void)state;
	for (int labelled = 0; labelled < 2; labelled++) {
		struct store_writer *w;
		struct err err = { 0 };
		uint32_t id, set, stack;
		char dir[64];
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		assert_int_equal(model_put_stack(w, "main (/bin/a) 0 0\n", &stack), 0);
		/* Programs may have labels of these names: then each event has them */
		assert_int_equal(
			model_put_set(w,
				      labelled ? "by.function=x\nwait=x\nwait_in=x\n" : "comm=x\n",
				      &set),
			0);
		for (size_t i = 0; i < 4; i++) {
			const struct store_event e = { events[i], "nanoseconds", !i, !i };
			assert_int_equal(store_add_event(w, &e, &id), 0);
			assert_int_equal(store_add_row(w, set, stack, id, 1, 1), 0);
		}
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(dir);
		for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
			const struct query_spec spec = { .from_ns = INT64_MIN,
							 .to_ns = INT64_MAX,
							 .event = v[i].event,
							 .labels = QUERY_KEYS,
							 .keys = &v[i].key,
							 .n_keys = 1,
							 .idle = true };
			struct query *q = NULL;
			err = (struct err){ 0 };
			bool has = !v[i].text || labelled;
			assert_int_equal(query_open(&q, s, &spec, &err), has ? 0 : -EINVAL);
			if (!has)
				assert_non_null(strstr(err.text, v[i].text));
			query_close(q);
		}
		store_close(s);
		remove_tree(dir);
	}
}

/* ---- what blocks cover ---- */

/* The time that a block covers if it said that it has so many windows; twice of it, likewise. */
static void check_covered(struct store *s, const struct store_block *of, uint32_t n_windows,
			  int64_t want)
{
	struct store_block *b = (struct store_block *)(uintptr_t)of;
	const uint32_t was = b->n_windows;
	b->n_windows = n_windows;
	for (int scope = 0; scope < 2; scope++) {
		struct query q = { .store = s };
		struct err err = { 0 };
		assert_int_equal(counters_init(&q), 0);
		store_set_scope(s, scope ? "{tenant=\"t1\"}" : NULL);
		assert_int_equal(counters_add(&q, b, &err), 0);
		const uint64_t fired = q.info.fired;
		assert_int_equal(fired > 0, !scope); /* counters are those of everybody */
		assert_int_equal(q.info.covered_ns, want);
		assert_int_equal(counters_add(&q, b, &err), 0);
		assert_int_equal(q.info.covered_ns, want > INT64_MAX / 2 ? INT64_MAX : 2 * want);
		assert_int_equal(q.info.windows, 2 * (uint64_t)n_windows);
		assert_int_equal(q.info.fired, 2 * fired);
		free(q.counters);
	}
	store_set_scope(s, NULL);
	b->n_windows = was;
}

/* Parents do not know the gaps: a window is no longer than 10 s, whatever a damaged store says. */
static void coverage_of_parents(void **state)
{
	struct fixture *f = fixture_of(3, 40, 5);
	void *fixture = f;
	struct store_cover c;
	struct err err = { 0 };
	size_t parents = 0;
	(void)state;
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err),
			 0);
	for (size_t i = 0; i < c.n; i++) {
		const struct store_block *b = c.blocks[i];
		const int64_t length = b->t1_ns - b->t0_ns;
		const uint32_t n = (uint32_t)(length / (10 * SECOND));
		if (!b->level) {
			check_covered(f->s, b, 0, length);
			continue;
		}
		parents++;
		assert_true(n > 1);
		check_covered(f->s, b, 1, 10 * SECOND);
		check_covered(f->s, b, n - 1, length - 10 * SECOND);
		check_covered(f->s, b, n, length);
		check_covered(f->s, b, n + 1, length);
		check_covered(f->s, b, UINT32_MAX, length);
	}
	assert_true(parents > 0);
	store_cover_free(&c);
	fixture_teardown(&fixture);
}

/* A window between two clocks that have nothing to do with each other. */
static void coverage_of_windows(void **state)
{
	static const int64_t v[][2] = { { 5, 5 + SECOND },
					{ 0, 50 * SECOND },
					{ INT64_MIN / 2 - 5, INT64_MAX / 2 + 5 } };
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct store_writer *w;
		struct store_cover c;
		struct err err = { 0 };
		char dir[64];
		uint64_t lost[2] = { 1, 2 }, flagged[1] = { 3 };
		struct store_cpu_totals cpu = { 0, 10, 7, lost, flagged };
		const struct store_totals t = { &cpu, 1, 0, 0, 0 };
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		assert_int_equal(store_commit_window(w, v[i][0], v[i][1], 1, &t, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(dir);
		assert_int_equal(
			store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err),
			0);
		assert_int_equal(c.n, 1);
		check_covered(s, c.blocks[0], 1, i == 2 ? INT64_MAX : v[i][1] - v[i][0]);
		store_cover_free(&c);
		store_close(s);
		remove_tree(dir);
	}
}

/* ---- functions that were seen ---- */

static void seen(void **state)
{
	static const struct {
		size_t most, bits;
	} sizes[] = { { 0, 64 },   { 1, 64 },	{ 8, 64 },	{ 9, 128 },
		      { 16, 128 }, { 17, 256 }, { 1000, 8192 }, { 4096, 32768 } };
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct seen s;
		size_t n_new = 0;
		assert_int_equal(seen_init(&s, sizes[i].most, 77), 0);
		assert_int_equal(s.mask + 1, sizes[i].bits);
		for (uint32_t k = 0; k < sizes[i].most; k++) {
			struct store_frame f = { .function = 1 + k / 3, .module = 1 + k % 3 };
			n_new += seen_add(&s, &f);
			assert_false(seen_add(&s, &f));
			f.offset = 5; /* of a function all places are one */
			f.line = 7;
			assert_false(seen_add(&s, &f));
		}
		/* About one in 16 is taken for another while it fills up */
		assert_true(n_new <= sizes[i].most && n_new >= sizes[i].most * 8 / 10);
		seen_fini(&s);
	}
	/* Without a function it is the place in the module */
	struct seen s;
	size_t n_new = 0;
	assert_int_equal(seen_init(&s, 1000, 5), 0);
	for (uint64_t k = 0; k < 1000; k++)
		n_new += seen_add(&s, &(struct store_frame){ .module = 1, .offset = k });
	assert_true(n_new > 900);
	/* Each bit of the table is used */
	size_t full = 0;
	for (uint32_t k = 0; k < 100000; k++)
		seen_add(&s, &(struct store_frame){ .function = 1 + k });
	for (size_t i = 0; i < (s.mask + 1) / 64; i++)
		full += s.bits[i] == UINT64_MAX;
	assert_int_equal(full, (s.mask + 1) / 64);
	seen_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(order),
		cmocka_unit_test(long_names),
		cmocka_unit_test(threads),
		cmocka_unit_test(wait_keys),
		cmocka_unit_test(coverage_of_parents),
		cmocka_unit_test(coverage_of_windows),
		cmocka_unit_test(seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
