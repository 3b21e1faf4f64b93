/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most frequent values of a key, merged over children, beside exact counts: a count is never
 * too high, a count and its error never too low, and what is not listed has no more than the bound.
 */
#include "unit/store_model.h"

#include "store/block/block.h"
#include "store/block/top.h"
#include "store/top_values.h"
#include "store/writer.h"

#define VALUES 1000
#define EVENTS 2
#define CHILDREN 12
#define KEPT 256 /* docs/format.md */

typedef uint64_t counts[EVENTS][VALUES];

static struct model random_state = { .random = 5 };

/* Some are numbers, some texts, among them texts of numbers. */
static struct settable_label value_of(size_t i, char text[24])
{
	struct settable_label v = { .type = LABEL_STRING, .str = text };
	if (i % 3 == 0)
		return (struct settable_label){ .type = LABEL_INT,
						.num = (int64_t)i * 1000003 - 400000000 };
	snprintf(text, 24, i % 3 == 1 ? "%zu" : "tenant-%zu", i);
	v.len = (uint32_t)strlen(text);
	return v;
}

/* Which value it is. */
static size_t index_of(const struct settable_label *v)
{
	char text[24];
	const size_t i = v->type == LABEL_INT
				 ? (size_t)((v->num + 400000000) / 1000003)
				 : strtoul(v->str + (*v->str == 't' ? 7 : 0), NULL, 10);
	assert_in_range(i, 0, VALUES - 1);
	const struct settable_label want = value_of(i, text);
	assert_int_equal(v->type, want.type);
	assert_int_equal(v->num, want.num);
	assert_int_equal(v->len, want.len);
	if (v->len)
		assert_memory_equal(v->str, want.str, v->len);
	return i;
}

/* A few values are frequent; others come in one child alone. */
static void add_child(struct top *t, counts exact, size_t child, size_t values)
{
	for (size_t i = 0; i < 4000; i++) {
		char text[24];
		const uint32_t event = model_random(&random_state, EVENTS);
		uint32_t value = model_random(&random_state, (uint32_t)values);
		value = model_random(&random_state, 2) ? value * value / (uint32_t)values : value;
		if (values > KEPT && value % 7 == 0)
			value = (uint32_t)(child * 80 + value % 80);
		const uint64_t n = 1 + model_random(&random_state, 5);
		const struct settable_label v = value_of(value, text);
		assert_int_equal(top_add(t, 3, event, &v, n), 0);
		exact[event][value] += n;
	}
}

struct before {
	uint64_t total, known;
	struct top_value v[VALUES];
	size_t n;
};

/* What a list was before it was cut. */
static void look(const struct top_list *l, struct before *b)
{
	*b = (struct before){ .total = l->total, .known = l->known, .n = l->n };
	assert_in_range(l->n, 0, VALUES);
	memcpy(b->v, l->v, l->n * sizeof(*b->v));
	for (size_t i = 0; i < b->n; i++)
		b->v[i].value.num = (int64_t)index_of(&l->v[i].value);
}

static void check_cut(const struct top_list *l, const struct before *b)
{
	uint64_t bound = b->known, least = UINT64_MAX;
	bool listed[VALUES] = { false };
	assert_int_equal(l->n, b->n < KEPT ? b->n : KEPT);
	assert_int_equal(l->total, b->total);
	for (size_t i = 0; i < l->n; i++) {
		size_t at = index_of(&l->v[i].value);
		assert_false(listed[at]);
		listed[at] = true;
		least = l->v[i].samples < least ? l->v[i].samples : least;
		assert_true(!i || l->v[i].samples <= l->v[i - 1].samples);
	}
	for (size_t i = 0; i < b->n; i++) {
		const uint64_t most = b->v[i].samples + b->v[i].error;
		if (listed[b->v[i].value.num])
			continue;
		assert_true(b->v[i].samples <= least);
		bound = most > bound ? most : bound;
	}
	assert_int_equal(l->bound, bound);
}

static void cut(struct top *t)
{
	static struct before before[EVENTS];
	assert_int_equal(t->n, EVENTS);
	for (size_t k = 0; k < t->n; k++)
		look(&t->lists[k], &before[k]);
	top_cut(t);
	for (size_t k = 0; k < t->n; k++)
		check_cut(&t->lists[k], &before[k]);
}

/* As a block has it: written and read again. */
static void pass_through(struct top *t)
{
	struct block b = { 0 };
	struct top read;
	assert_int_equal(top_encode(&b, t), 0);
	assert_int_equal(b.has, 1u << COLUMN_TOP);
	assert_int_equal(top_decode(&read, &b.column[COLUMN_TOP], 3, EVENTS), -EBADMSG);
	assert_int_equal(top_decode(&read, &b.column[COLUMN_TOP], 4, EVENTS - 1), -EBADMSG);
	assert_int_equal(top_decode(&read, &b.column[COLUMN_TOP], 4, EVENTS), 0);
	assert_int_equal(read.n, t->n);
	for (size_t k = 0; k < t->n; k++) {
		const struct top_list *x = &t->lists[k], *y = &read.lists[k];
		assert_int_equal(y->key, 3);
		assert_int_equal(y->event, x->event);
		assert_int_equal(y->total, x->total);
		assert_int_equal(y->bound, x->bound);
		assert_int_equal(y->n, x->n);
		for (size_t i = 0; i < x->n; i++) {
			assert_int_equal(index_of(&y->v[i].value), index_of(&x->v[i].value));
			assert_int_equal(y->v[i].samples, x->v[i].samples);
			assert_int_equal(y->v[i].error, x->v[i].error);
		}
	}
	block_fini(&b);
	top_fini(t);
	*t = read;
}

static void check(const struct top *t, counts exact)
{
	for (size_t k = 0; k < t->n; k++) {
		const struct top_list *l = &t->lists[k];
		const uint64_t *want = exact[l->event];
		bool listed[VALUES] = { false };
		uint64_t total = 0;
		for (size_t i = 0; i < VALUES; i++)
			total += want[i];
		assert_int_equal(l->total, total);
		for (size_t i = 0; i < l->n; i++) {
			const size_t at = index_of(&l->v[i].value);
			listed[at] = true;
			assert_true(l->v[i].samples <= want[at]);
			assert_true(l->v[i].samples + l->v[i].error >= want[at]);
		}
		for (size_t i = 0; i < VALUES; i++)
			assert_true(listed[i] || want[i] <= l->bound);
	}
}

static void merge(struct top *to, const struct top *from)
{
	for (size_t k = 0; k < from->n; k++)
		assert_int_equal(top_merge(to, 3, from->lists[k].event, &from->lists[k]), 0);
}

/* What is not known of a value: of each child what it says, or its bound where it is not listed. */
static void check_errors(const struct top *t, const struct top *from, size_t n)
{
	for (size_t k = 0; k < t->n; k++)
		for (size_t i = 0; i < t->lists[k].n; i++) {
			const struct top_value *v = &t->lists[k].v[i];
			const size_t at = index_of(&v->value);
			uint64_t samples = 0, error = 0;
			for (size_t c = 0; c < n * EVENTS; c++) {
				const struct top_list *l = &from[c / EVENTS].lists[c % EVENTS];
				uint64_t own = l->bound;
				if (l->event != t->lists[k].event)
					continue;
				for (size_t j = 0; j < l->n; j++) {
					if (index_of(&l->v[j].value) != at)
						continue;
					own = l->v[j].error;
					samples += l->v[j].samples;
				}
				error += own;
			}
			assert_int_equal(v->samples, samples);
			assert_int_equal(v->error, error);
		}
}

/* Children, then parents of three each, then one of all. */
static void bounds(void **state)
{
	static counts exact[CHILDREN], of_parent, all;
	struct top child[CHILDREN] = { 0 }, one = { 0 };
	uint64_t errors = 0;
	(void)state;
	for (size_t i = 0; i < CHILDREN; i++) {
		add_child(&child[i], exact[i], i, 900);
		cut(&child[i]);
		pass_through(&child[i]);
		check(&child[i], exact[i]);
		for (size_t e = 0; e < EVENTS; e++)
			for (size_t k = 0; k < VALUES; k++)
				all[e][k] += exact[i][e][k];
	}
	for (size_t i = 0; i < CHILDREN; i += 3) {
		struct top parent = { 0 };
		memset(of_parent, 0, sizeof(of_parent));
		for (size_t c = i; c < i + 3; c++) {
			merge(&parent, &child[c]);
			for (size_t e = 0; e < EVENTS; e++)
				for (size_t k = 0; k < VALUES; k++)
					of_parent[e][k] += exact[c][e][k];
		}
		check_errors(&parent, &child[i], 3);
		for (size_t c = i; c < i + 3; c++)
			top_fini(&child[c]);
		cut(&parent);
		pass_through(&parent);
		check(&parent, of_parent);
		merge(&one, &parent);
		top_fini(&parent);
	}
	cut(&one);
	check(&one, all);
	for (size_t i = 0; i < one.lists[0].n; i++)
		errors += one.lists[0].v[i].error;
	assert_true(errors > 0 && one.lists[0].bound > 0);
	top_fini(&one);
}

/* Where all values fit, nothing is unknown. */
static void exact_counts(void **state)
{
	static counts exact;
	struct top one = { 0 };
	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct top child = { 0 };
		add_child(&child, exact, i, KEPT);
		cut(&child);
		merge(&one, &child);
		top_fini(&child);
	}
	cut(&one);
	for (size_t k = 0; k < one.n; k++) {
		const struct top_list *l = &one.lists[k];
		assert_int_equal(l->bound, 0);
		for (size_t i = 0; i < l->n; i++) {
			assert_int_equal(l->v[i].error, 0);
			assert_int_equal(l->v[i].samples,
					 exact[l->event][index_of(&l->v[i].value)]);
		}
	}
	top_fini(&one);
}

#define MINUTE_T0 (1700000000ll / 60 * 60000000000ll)
#define WINDOW 10000000000ll
#define EACH 1000 /* new values in each window of a minute */

static uint64_t samples_of(size_t value)
{
	return 1 + value % 5;
}

static void put_value(struct store_writer *w, size_t value)
{
	char text[40];
	uint32_t event, set;
	snprintf(text, sizeof(text), "comm=%s\nid=v%zu\n", value % 2 ? "sh" : "cat", value);
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	assert_int_equal(model_put_set(w, text, &set), 0);
	assert_int_equal(store_add_row(w, set, 0, event, samples_of(value), samples_of(value)), 0);
}

/*
 * A minute has more label sets than a parent sums. The key with the most values is left out of the
 * sums, and what was summed before counts among its most frequent values.
 */
static void left_out_of_sums(void **state)
{
	struct store_options o = model_options;
	const struct store_totals none = { 0 };
	struct store_writer *w;
	struct store_top top;
	struct err err = { 0 };
	char dir[64];
	uint64_t all = 0, n = 0;
	(void)state;
	o.wide_values = o.wide_sets = 100000; /* no key is wide: sets are in the dictionaries */
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < 6; i++) {
		const int64_t t0 = MINUTE_T0 + (int64_t)i * WINDOW;
		for (size_t k = 0; k < EACH; k++) {
			put_value(w, i * EACH + k);
			all += samples_of(i * EACH + k);
		}
		assert_int_equal(
			store_commit_window(w, t0, t0 + WINDOW, (int64_t)i + 1, &none, &err), 0);
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct store_cover c;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.blocks[0]->level, 1);
	assert_int_equal(store_top(s, c.blocks, 1, "id", 0, &top, &err), 0);
	assert_int_equal(top.total, all);
	assert_int_equal(top.n, KEPT);
	for (size_t i = 0; i < top.n; i++) {
		const struct label *l = &top.v[i].label;
		assert_int_equal(l->str[0], 'v');
		assert_true(top.v[i].samples <= samples_of(strtoul(l->str + 1, NULL, 10)));
		n += top.v[i].samples;
	}
	assert_true(n > KEPT);
	store_top_free(&top);
	store_cover_free(&c);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),
		cmocka_unit_test(exact_counts),
		cmocka_unit_test(left_out_of_sums),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
