/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of siblings in the tree: those with most samples first, then by name and the rest of
 * what tells functions apart, in whatever order they came. Lines do not tell them apart.
 */
#include "unit/store_model.h"
#include "store/writer.h"

#define LINES 2
#define SMALL 64 /* functions of one sample on each of their lines */
#define ALL (SMALL + 2)

/* The texts of a frame, which a store numbers as it likes. */
struct function {
	const char *name, *module, *build;
	uint64_t offset;
	uint32_t kind, flags, samples;
};

/* In the order of the tree. */
static void make_functions(struct function v[ALL])
{
	static const char *const names[] = { "", "", "a", "b" }, *const modules[] = { "/m", "/n" },
				 *const builds[] = { "aa", "bb" };
	size_t n = 0;
	v[n++] = (struct function){ "z", "/z", "", 0, FRAME_USER, 0, 9 };
	v[n++] = (struct function){ "y", "/z", "", 0, FRAME_USER, 0, 8 };
	for (size_t name = 0; name < 4; name += name ? 1 : 2)
		for (size_t module = 0; module < 2; module++)
			for (size_t build = 0; build < 2; build++)
				for (uint64_t offset = 0; offset < (name ? 1 : 2); offset++)
					for (uint32_t kind = 0; kind < 2; kind++)
						for (uint32_t flags = 0; flags < 2; flags++)
							v[n++] = (struct function){
								names[name],
								modules[module],
								builds[build],
								name ? 0 : 7 + offset,
								kind,
								flags,
								1
							};
	assert_int_equal(n, ALL);
}

static void put(struct store_writer *w, const struct function *f, uint32_t line, uint32_t event)
{
	struct store_frame frame = {
		.kind = f->kind, .flags = f->flags, .line = line, .offset = f->offset
	};
	uint32_t id, stack;
	frame.function = *f->name ? model_text(w, f->name) : 0;
	frame.module = model_text(w, f->module);
	frame.build_id = model_text(w, f->build);
	assert_int_equal(store_add_frame(w, &frame, &id), 0);
	assert_int_equal(store_add_stack(w, 0, id, &stack), 0);
	assert_int_equal(store_add_row(w, 0, stack, event, f->samples, f->samples), 0);
}

/* Every line of every function, in a random order. */
static void put_all(struct model *m, struct store_writer *w, const struct function v[ALL])
{
	uint32_t order[ALL * LINES], event;
	for (uint32_t i = 0; i < ALL * LINES; i++) {
		uint32_t k = model_random(m, i + 1);
		order[i] = order[k];
		order[k] = i;
	}
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (uint32_t i = 0; i < ALL * LINES; i++)
		put(w, &v[order[i] / LINES], 1 + order[i] % LINES, event);
}

static void check_order(struct store *s, const struct function v[ALL])
{
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_NO_LABELS };
	const struct query_node *nodes;
	struct query *q;
	struct err err = { 0 };
	size_t n, i = 0;
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
	assert_int_equal(n, ALL + 1);
	for (uint32_t c = nodes[0].first_child; c; c = nodes[c].next_sibling, i++) {
		uint32_t parent, frame;
		store_stack(s, nodes[c].stack, &parent, &frame);
		const struct store_frame *f = store_frame(s, frame);
		assert_true(i < ALL);
		assert_string_equal(store_string(s, f->function, NULL), v[i].name);
		assert_string_equal(store_string(s, f->module, NULL), v[i].module);
		assert_string_equal(store_string(s, f->build_id, NULL), v[i].build);
		assert_int_equal(f->offset, v[i].offset);
		assert_int_equal(f->kind, v[i].kind);
		assert_int_equal(f->flags, v[i].flags);
		assert_int_equal(nodes[c].total, (uint64_t)v[i].samples * LINES);
		assert_int_equal(nodes[c].self, nodes[c].total);
	}
	assert_int_equal(i, ALL);
	query_close(q);
}

static void siblings_have_one_order(void **state)
{
	struct function v[ALL];
	struct model m = { .random = 5 };
	(void)state;
	make_functions(v);
	for (int trial = 0; trial < 8; trial++) {
		struct store_writer *w;
		struct store *s;
		struct err err = { 0 };
		char dir[64];
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		put_all(&m, w, v);
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		s = open_store(dir);
		check_order(s, v);
		store_close(s);
		remove_tree(dir);
	}
}

static void indices_by_total(void **state)
{
	const struct query_node nodes[] = { { .total = 5 }, { .total = 9 }, { .total = 5 },
					    { .total = 1 }, { .total = 5 }, { .total = 10 } };
	const uint32_t want[] = { 5, 1, 0, 2, 4, 3 };
	uint32_t order[] = { 4, 3, 2, 1, 0, 5 };
	(void)state;
	qsort_r(order, 6, sizeof(*order), query_by_total, (void *)nodes);
	assert_memory_equal(order, want, sizeof(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siblings_have_one_order),
		cmocka_unit_test(indices_by_total),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
