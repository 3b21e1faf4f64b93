/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the values of projections in the making take: it is known at each step, and no more than 8
 * MiB at the end of a group. The keys that take most are left out until that is so. Which of the
 * others are written depends on their samples, and on what the windows take.
 */
#include "store/write/project.h"
#include "unit/parent_model.h"

#define LEVEL 3 /* of the parent: its projections need no windows */
#define MEMORY_MAX (8u << 20)
#define HEAP 16
#define KEYS 5
#define EVENTS 3
#define LEAVES 1000

struct making {
	struct merge m;
	struct project *p;
	bool gone[KEYS];
	uint64_t samples[KEYS];
};

static char root[64];
static struct store_writer *writer;
static const char *const names[KEYS] = { "a", "bb", "ab", "b", "a_key_with_a_long_name" };

static size_t bytes_of(const struct column_key *k)
{
	size_t sum = 0;
	for (size_t i = 0; i < k->n; i++) {
		sum += sizeof(k->v[i]) + k->v[i].label.len + 2 * HEAP;
		for (size_t c = 0; c < k->v[i].n_cells; c++)
			sum += sizeof(struct cell) + k->v[i].cells[c].groups.cap + HEAP;
	}
	return sum;
}

static size_t bytes_of_all(const struct project *p)
{
	size_t sum = 0;
	for (size_t i = 0; i < p->n_keys; i++)
		sum += bytes_of(&p->keys[i]);
	return sum;
}

/* The keys of the merge are in the order in which they came. */
static struct column_key *key_of(const struct making *m, const char *name)
{
	for (size_t i = 0; i < m->p->n_keys; i++)
		if (!strcmp(m->m.keys[m->p->keys[i].key].key, name))
			return &m->p->keys[i];
	return NULL;
}

static void begin(struct making *m, uint8_t level)
{
	static struct err err;
	*m = (struct making){ .m = { .w = writer, .level = level, .err = &err } };
	assert_int_equal(project_begin(&m->p, &m->m), 0);
}

static void end(struct making *m)
{
	project_free(m->p);
	for (size_t i = 0; i < m->m.n_keys; i++)
		free(m->m.keys[i].key);
	free(m->m.keys);
	buf_fini(&m->m.lists);
	buf_fini(&m->m.groups);
}

static uint32_t find(struct making *m, size_t key, const struct settable_label *l)
{
	uint32_t v;
	assert_int_equal(project_find_value(m->p, names[key], strlen(names[key]), l, &v), 0);
	assert_int_equal(v == NO_VALUE, m->gone[key]);
	return v;
}

/* A group with two rows of one value of each key. */
static void put_group(struct making *m, struct model *r)
{
	static char text[64];
	const uint32_t event = model_random(r, EVENTS), leaf = model_random(r, LEAVES);
	const bool idle = !model_random(r, 4);
	m->p->group++;
	for (size_t i = 0; i < KEYS; i++) {
		const uint32_t n = model_random(r, 40);
		struct settable_label l = { .type = LABEL_INT, .num = n };
		const struct store_row row = { .samples = 1 + model_random(r, 5), .value = n };
		if (i % 2) {
			const int len = snprintf(text, sizeof(text), "a value: %u", n);
			l = (struct settable_label){ .type = LABEL_STRING, .str = text };
			l.len = (uint32_t)len;
		}
		const uint32_t v = find(m, i, &l);
		assert_int_equal(m->p->bytes, bytes_of_all(m->p));
		assert_int_equal(find(m, i, &l), v);
		assert_int_equal(project_touch(m->p, v, &row), 0);
		assert_int_equal(project_touch(m->p, v, &row), 0);
		const struct value *value = &m->p->keys[KEY_OF(v)].v[INDEX_OF(v)];
		assert_true(value->samples == 2 * row.samples && value->value == 2 * row.value);
		m->samples[i] += 2 * row.samples;
	}
	assert_int_equal(project_flush_group(m->p, event, leaf, idle), 0);
	assert_int_equal(m->p->n_touched, 0);
	assert_int_equal(m->p->bytes, bytes_of_all(m->p));
}

/* A value has one cell of each event and of idle CPUs, and all its samples. */
static void check_sums(const struct making *m)
{
	for (size_t i = 0; i < KEYS; i++) {
		const struct column_key *k = key_of(m, names[i]);
		uint64_t samples = 0;
		assert_int_equal(k->n, 40);
		for (size_t v = 0; v < k->n; v++)
			for (size_t c = 0; c < k->v[v].n_cells; c++) {
				const struct cell *a = &k->v[v].cells[c];
				assert_int_equal(a->period, 10 * (a->event + 1));
				samples += a->samples;
				for (size_t o = 0; o < c; o++)
					assert_false(a->event == k->v[v].cells[o].event &&
						     a->idle == k->v[v].cells[o].idle);
			}
		assert_int_equal(samples, m->samples[i]);
		assert_int_equal(k->samples, m->samples[i]);
	}
}

static void each_byte_is_counted(void **state)
{
	struct model r = { .random = 21 };
	struct making m;
	(void)state;
	begin(&m, LEVEL);
	for (size_t i = 0; i < 3000; i++)
		put_group(&m, &r);
	check_sums(&m);
	end(&m);
}

/* Give a key one value, with which it takes so many bytes; a key that is new has none before. */
static void fill(struct making *m, size_t key, size_t bytes)
{
	static char text[MEMORY_MAX];
	const size_t fixed = sizeof(struct value) + 2 * HEAP;
	struct settable_label l = { .type = LABEL_STRING, .str = text };
	l.len = (uint32_t)(bytes - fixed);
	find(m, key, &l);
	assert_int_equal(m->p->bytes, bytes_of_all(m->p));
	assert_int_equal(bytes_of(key_of(m, names[key])), bytes);
}

/* What keys take, with more than 8 MiB or not, and which of them are left out then. */
static void the_largest_keys_go(void **state)
{
	enum { K = 1024, MAX = MEMORY_MAX };
	static const struct {
		size_t bytes[KEYS];
		bool gone[KEYS];
	} cases[] = {
		{ { MAX / 2, MAX / 4, MAX / 8, MAX / 16, MAX / 16 }, { 0 } },
		{ { MAX / 2, MAX / 4, MAX / 8, MAX / 16, MAX / 16 + 1 }, { 1 } },
		{ { K, 2 * K, MAX - 6 * K, 2 * K, K }, { 0 } },
		{ { K, 2 * K, MAX - 6 * K + 1, 2 * K, K }, { 0, 0, 1 } },
		{ { MAX / 2, MAX / 2 + 1, MAX / 2 + 2, MAX / 2 + 3, K }, { 0, 1, 1, 1, 0 } },
		{ { K, MAX - K + 1, MAX - K + 2, K, MAX - K + 3 }, { 0, 1, 1, 0, 1 } },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct settable_label any = { .type = LABEL_INT };
		const struct store_row row = { .samples = 3, .value = 4 };
		struct making m;
		begin(&m, LEVEL);
		for (size_t k = 0; k < KEYS; k++)
			fill(&m, k, cases[i].bytes[k]);
		assert_int_equal(project_flush_group(m.p, 0, 0, false), 0);
		assert_int_equal(m.p->bytes, bytes_of_all(m.p));
		for (size_t k = 0; k < KEYS; k++) {
			struct column_key *key = key_of(&m, names[k]);
			m.gone[k] = cases[i].gone[k];
			if (key->left_out != m.gone[k])
				fail_msg("case %zu: key %zu", i, k);
			assert_int_equal(bytes_of(key), m.gone[k] ? 0 : cases[i].bytes[k]);
			const uint32_t v = find(&m, k, &any);
			if (v == NO_VALUE)
				continue;
			m.p->group = 1;
			assert_int_equal(project_touch(m.p, v, &row), 0);
		}
		/* What is left out while it has samples of a group gets no cell. */
		key_of(&m, names[0])->left_out = true;
		assert_int_equal(project_flush_group(m.p, 1, 7, true), 0);
		for (size_t k = 0; k < KEYS; k++)
			assert_int_equal(key_of(&m, names[k])->samples, k && !m.gone[k] ? 3 : 0);
		end(&m);
	}
}

/* Of 20000 values, and of one more. */
static void a_key_with_too_many_values_goes(void **state)
{
	struct settable_label l = { .type = LABEL_INT };
	struct making m;
	(void)state;
	begin(&m, LEVEL);
	fill(&m, 1, 5000);
	for (l.num = 0; l.num < 20000; l.num++)
		find(&m, 0, &l);
	assert_int_equal(m.p->bytes, bytes_of_all(m.p));
	l.num = 19999;
	find(&m, 0, &l);
	m.gone[0] = true;
	l.num = 20000;
	find(&m, 0, &l);
	assert_int_equal(m.p->bytes, 5000);
	l.num = 1;
	find(&m, 0, &l);
	end(&m);
}

/* ---- which keys are written: of level 2, where all windows were read ---- */

/* A row of its own group for a value; extra: its value is not samples times period. */
static void put_row(struct making *m, size_t key, const struct settable_label *l, uint64_t samples,
		    uint64_t extra)
{
	const struct store_row row = { .samples = samples, .value = 10 * samples + extra };
	m->p->group++;
	assert_int_equal(project_touch(m->p, find(m, key, l), &row), 0);
	assert_int_equal(project_flush_group(m->p, 0, 1, false), 0);
}

static void put_text(struct making *m, size_t key, size_t len, uint64_t extra)
{
	static char text[1 << 20];
	struct model r = { .random = len };
	for (size_t i = 0; i < len; i++)
		text[i] = (char)model_random(&r, 256);
	put_row(m, key,
		&(struct settable_label){ .type = LABEL_STRING, .str = text, .len = (uint32_t)len },
		1, extra);
}

/* With windows that take so many bytes each, as stored. */
static void write_keys(struct making *m, const uint32_t *stored, size_t n)
{
	struct project *p = m->p;
	size_t budget = 1;
	bool done = false;
	p->windows = calloc(n, sizeof(*p->windows));
	assert_non_null(p->windows);
	for (size_t i = 0; i < n; i++)
		p->windows[i].at.ref.stored_len = stored[i];
	p->n_windows = p->from = p->to = n;
	assert_int_equal(project_step(p, &budget, &done), 0);
	assert_true(done);
}

static bool is_written(const struct making *m, size_t key)
{
	for (size_t i = 0; i < m->m.n_keys; i++)
		if (!strcmp(m->m.keys[i].key, names[key]))
			return m->m.keys[i].out.state & KEY_PROJECTED;
	fail_msg("no key %s", names[key]);
	return false;
}

/* More than 256 values need eight samples each, on average. */
static void keys_with_few_samples(void **state)
{
	static const struct {
		uint64_t values, samples;
		bool written;
	} cases[] = {
		{ 1, 1, true },	       { 256, 256, true },   { 257, 257, false },
		{ 257, 2055, false },  { 257, 2056, true },  { 257, 2057, true },
		{ 1000, 7999, false }, { 1000, 8000, true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settable_label l = { .type = LABEL_INT };
		struct making m;
		begin(&m, 2);
		for (; l.num < (int64_t)cases[i].values; l.num++)
			put_row(&m, 0, &l, l.num ? 1 : cases[i].samples - cases[i].values + 1, 0);
		write_keys(&m, NULL, 0);
		assert_int_equal(is_written(&m, 0), cases[i].written);
		end(&m);
	}
}

/*
 * Half of what a key takes is at most two thirds of what the windows take, or 64 KiB: a value takes
 * its text, 16 bytes, and of a group two, or three with a value of its own.
 */
static void keys_that_are_large(void **state)
{
	static const uint32_t small[] = { 3, 50000, 40000 }, large[] = { 300002, 300001 };
	static const struct {
		const uint32_t *windows;
		size_t n, len;
		uint64_t extra;
		bool written;
	} cases[] = {
		{ NULL, 0, 131073 - 18, 0, true },  { NULL, 0, 131074 - 18, 0, false },
		{ NULL, 0, 131073 - 19, 1, true },  { NULL, 0, 131074 - 19, 1, false },
		{ small, 3, 131073 - 18, 0, true }, { small, 3, 131074 - 18, 0, false },
		{ large, 2, 800001 - 18, 0, true }, { large, 2, 800002 - 18, 0, false },
		{ large, 1, 400001 - 18, 0, true }, { large, 1, 400002 - 18, 0, false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct making m;
		begin(&m, 2);
		put_text(&m, 0, cases[i].len, cases[i].extra);
		write_keys(&m, cases[i].windows, cases[i].n);
		if (is_written(&m, 0) != cases[i].written)
			fail_msg("case %zu", i);
		end(&m);
	}
}

/* Of texts that cannot be compressed: the smaller ones first, until 64 KiB are used up. */
static void the_smallest_keys_come_first(void **state)
{
	static const size_t len[KEYS] = { 60000, 30000, 20000, 100, 70000 };
	static const bool written[KEYS] = { false, true, true, true, false };
	struct making m;
	(void)state;
	begin(&m, 2);
	for (size_t i = 0; i < KEYS; i++)
		put_text(&m, i, len[i], 0);
	write_keys(&m, NULL, 0);
	for (size_t i = 0; i < KEYS; i++)
		assert_int_equal(is_written(&m, i), written[i]);
	assert_true(m.m.lists.len >= 50100 && m.m.lists.len < 50300);
	end(&m);
}

/* Values with the same groups have them at the same place. */
static void the_same_groups_are_stored_once(void **state)
{
	static const uint32_t leaf[] = { 1, 1, 2, 1, 2, 3 }, place[] = { 0, 0, 1, 0, 1, 2 };
	struct buf lists = BUF_INIT, groups = BUF_INIT;
	struct projections p = { .lists = &lists, .groups = &groups };
	struct value_list l;
	size_t at[4] = { 0 }, n = 0;
	(void)state;
	for (size_t i = 0; i < 6; i++) {
		const struct settable_label v = { .type = LABEL_INT, .num = (int64_t)i };
		struct cell c = { .period = 10 };
		assert_int_equal(cell_add(&c, leaf[i], 5, 50), 0);
		assert_int_equal(projections_add(&p, &v, &c, 1), 0);
		n = place[i] + 1 > n ? place[i] + 1 : n;
		if (!at[n])
			at[n] = groups.len;
		assert_int_equal(groups.len, at[n]);
		cell_fini(&c);
	}
	assert_true(at[3] > at[2] && at[2] > at[1]);
	struct buf raw = BUF_INIT;
	assert_int_equal(buf_add_varint(&raw, 6), 0);
	assert_int_equal(buf_add(&raw, p.list.data, p.list.len), 0);
	assert_int_equal(value_list_begin(&l, &raw, EVENTS, writer->out[2].d.events), 0);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(value_list_next(&l), 1);
		assert_int_equal(l.at, at[place[i]]);
		assert_int_equal(l.stored_len, at[place[i] + 1] - at[place[i]]);
	}
	value_list_fini(&l);
	projections_fini(&p);
	buf_fini(&raw);
	buf_fini(&lists);
	buf_fini(&groups);
}

static int set_up(void **state)
{
	(void)state;
	writer = open_writer(root);
	for (uint32_t i = 0; i < 2 * EVENTS; i++) {
		const struct store_event e = { .name = names[i / 2],
					       .unit = "u",
					       .period = 10 * (i / 2 + 1) };
		uint32_t id;
		assert_int_equal(dicts_add_event(&writer->out[2 + i % 2].d, &e, &id), 0);
		assert_int_equal(id, i / 2);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	store_writer_close(writer);
	remove_tree(root);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_is_counted),
		cmocka_unit_test(the_largest_keys_go),
		cmocka_unit_test(a_key_with_too_many_values_goes),
		cmocka_unit_test(keys_with_few_samples),
		cmocka_unit_test(keys_that_are_large),
		cmocka_unit_test(the_smallest_keys_come_first),
		cmocka_unit_test(the_same_groups_are_stored_once),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
