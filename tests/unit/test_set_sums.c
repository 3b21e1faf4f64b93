/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by label set, against the rows that went in: the sets of a parent, which of their keys are
 * left out where there are too many, and what is told of these.
 */
#include "unit/store_model.h"

#include "store/block/set_sums.h"
#include "store/file/format.h"

#define ROWS 12000
#define KEYS 3 /* "few", "many" and "numbers" */
#define EVENTS 3
#define VALUES 6000

static const char *const names[KEYS] = { "few", "many", "numbers" };
static const uint32_t n_values[KEYS] = { 5, VALUES, 40 };

struct row {
	uint32_t has; /* bits: of keys */
	uint32_t value[KEYS], event;
	bool idle;
	uint64_t samples, sum;
};

struct told {
	uint64_t of[EVENTS][VALUES];
	int key; /* -1: none yet */
	size_t calls;
};

static struct row rows[ROWS];

static void draw_rows(struct model *m, bool odd_values)
{
	for (size_t i = 0; i < ROWS; i++) {
		struct row *r = &rows[i];
		*r = (struct row){ .has = model_random(m, 8),
				   .event = model_random(m, EVENTS),
				   .idle = !model_random(m, 6),
				   .samples = 1 + model_random(m, 50) };
		for (int k = 0; k < KEYS; k++)
			r->value[k] = r->has >> k & 1 ? model_random(m, n_values[k]) : 0;
		r->sum = r->samples * model_events[r->event].period +
			 (odd_values && !model_random(m, 4));
	}
}

static size_t labels_of(const struct row *r, char text[KEYS][16], struct label v[KEYS])
{
	size_t n = 0;
	for (int k = 0; k < KEYS; k++) {
		if (!(r->has >> k & 1))
			continue;
		v[n] = (struct label){ .key = names[k], .key_len = (uint32_t)strlen(names[k]) };
		if (k == 2) {
			v[n].type = LABEL_INT;
			v[n].num = (int64_t)r->value[k] - 20;
		} else {
			snprintf(text[k], 16, "v%u", r->value[k]);
			v[n].str = text[k];
			v[n].str_len = (uint32_t)strlen(text[k]);
		}
		n++;
	}
	return n;
}

static int take_left_out(void *ctx, const struct label *l, uint32_t event, uint64_t samples)
{
	struct told *t = ctx;
	int key = l->key_len == 3 ? 0 : l->key_len == 4 ? 1 : 2;
	char text[16];
	assert_true(t->key < 0 || t->key == key);
	assert_int_equal(key == 2, l->type == LABEL_INT);
	t->key = key;
	snprintf(text, sizeof(text), "%.*s", (int)l->str_len, l->str ? l->str : "");
	t->of[event][key == 2 ? l->num + 20 : strtol(text + 1, NULL, 10)] += samples;
	t->calls++;
	return 0;
}

static int add(struct set_sums *s, const struct row *r)
{
	char text[KEYS][16];
	struct label v[KEYS];
	size_t n = labels_of(r, text, v);
	return set_sums_add(s, v, n, r->event, r->idle, r->samples, r->sum);
}

/* ---- brute force ---- */

/* Are two rows of one set, event and kind of CPU, when only the keys of `kept` count? */
static bool is_same(const struct row *a, const struct row *b, uint32_t kept)
{
	if ((a->has & kept) != (b->has & kept) || a->event != b->event || a->idle != b->idle)
		return false;
	for (int k = 0; k < KEYS; k++)
		if ((a->has & kept) >> k & 1 && a->value[k] != b->value[k])
			return false;
	return true;
}

/* A row from what was read; its labels stand in the dictionaries. */
static struct row row_of(const struct dicts *d, const struct set_sums_reader *in)
{
	const struct set_label *v;
	struct row r = { .event = in->row.event, .idle = in->idle };
	size_t n = dicts_set(d, in->row.set, &v);
	for (size_t i = 0; i < n; i++) {
		struct label l = dicts_label(d, &v[i]);
		int k = l.key_len == 3 ? 0 : l.key_len == 4 ? 1 : 2;
		r.has |= 1u << k;
		r.value[k] =
			k == 2 ? (uint32_t)(l.num + 20) : (uint32_t)strtoul(l.str + 1, NULL, 10);
	}
	return r;
}

static void check_column(const struct set_sums *s, uint32_t kept, size_t n_rows)
{
	static bool seen[ROWS];
	struct dicts d;
	struct buf out = BUF_INIT;
	struct set_sums_reader in;
	uint64_t samples = 0, all = 0;
	int more;
	uint32_t id;
	memset(seen, 0, sizeof(seen));
	assert_int_equal(dicts_init(&d, true), 0);
	for (uint32_t i = 0; i < EVENTS; i++)
		assert_int_equal(dicts_add_event(&d, &model_events[i], &id), 0);
	assert_int_equal(set_sums_encode(&out, s, &d), 0);
	set_sums_begin(&in, &out, d.n_sets, d.n_events, d.events);
	while ((more = set_sums_next(&in)) > 0) {
		struct row r = row_of(&d, &in);
		uint64_t want = 0, sum = 0;
		for (size_t i = 0; i < n_rows; i++)
			if (is_same(&rows[i], &r, kept)) {
				assert_false(seen[i]); /* each is in one sum */
				seen[i] = true;
				want += rows[i].samples;
				sum += rows[i].sum;
			}
		assert_int_equal(in.row.samples, want);
		assert_int_equal(in.row.value, sum);
		assert_int_equal(r.has & ~kept, 0);
		samples += want;
	}
	assert_int_equal(more, 0);
	for (size_t i = 0; i < n_rows; i++)
		all += rows[i].samples;
	assert_int_equal(samples, all);
	/* A byte less is damage. */
	for (size_t cut = 1; cut <= 3; cut++) {
		out.len--;
		set_sums_begin(&in, &out, d.n_sets, d.n_events, d.events);
		while ((more = set_sums_next(&in)) > 0)
			;
		assert_int_equal(more, -EBADMSG);
	}
	buf_fini(&out);
	dicts_fini(&d);
}

/* ---- tests ---- */

static void few_sets_are_kept(void **state)
{
	struct model m = { .random = 11 };
	struct set_sums s;
	struct told told = { .key = -1 };
	(void)state;
	for (int odd = 0; odd < 2; odd++) {
		draw_rows(&m, odd);
		assert_int_equal(set_sums_init(&s), 0);
		s.left_out = take_left_out;
		s.ctx = &told;
		for (size_t i = 0; i < 2000; i++)
			assert_int_equal(add(&s, &rows[i]), 0);
		assert_int_equal(told.calls, 0);
		check_column(&s, 7, 2000);
		set_sums_fini(&s);
	}
}

/* The key with most values goes, once there are more than SUMS_MAX sets, with all that it had. */
static void the_largest_key_is_left_out(void **state)
{
	static struct told told;
	struct model m = { .random = 12 };
	struct set_sums s;
	size_t before = 0;
	(void)state;
	told.key = -1;
	draw_rows(&m, true);
	assert_int_equal(set_sums_init(&s), 0);
	s.left_out = take_left_out;
	s.ctx = &told;
	for (size_t i = 0; i < ROWS; i++) {
		uint32_t n = s.pool.n;
		assert_int_equal(add(&s, &rows[i]), 0);
		assert_true(s.pool.n <= SUMS_MAX);
		if (told.calls && !before) {
			assert_int_equal(n, SUMS_MAX); /* and not before */
			before = i + 1;
		}
	}
	assert_true(before > 0);
	assert_int_equal(told.key, 1);
	assert_int_equal(s.n_without, 1);
	assert_true(set_sums_leaves_out(&s, "many", 4));
	assert_false(set_sums_leaves_out(&s, "man", 3) || set_sums_leaves_out(&s, "few", 3));
	for (uint32_t e = 0; e < EVENTS; e++)
		for (uint32_t v = 0; v < VALUES; v++) {
			uint64_t want = 0;
			for (size_t i = 0; i < before; i++)
				if (rows[i].event == e && rows[i].has & 2 && rows[i].value[1] == v)
					want += rows[i].samples;
			assert_int_equal(told.of[e][v], want);
		}
	check_column(&s, 5, ROWS);
	set_sums_fini(&s);
}

/* A key that is left out on demand: what it had is told, what comes is not. */
static void a_key_is_left_out_on_demand(void **state)
{
	static struct told told;
	struct model m = { .random = 13 };
	struct set_sums s;
	(void)state;
	memset(&told, 0, sizeof(told));
	told.key = -1;
	draw_rows(&m, false);
	assert_int_equal(set_sums_init(&s), 0);
	s.left_out = take_left_out;
	s.ctx = &told;
	assert_int_equal(set_sums_leave_out(&s, "few", 3), 0);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(add(&s, &rows[i]), 0);
	assert_int_equal(told.calls, 0);
	check_column(&s, 6, 1000);
	assert_int_equal(set_sums_leave_out(&s, "numbers", 7), 0);
	assert_int_equal(set_sums_leave_out(&s, "numbers", 7), 0); /* at once */
	assert_int_equal(s.n_without, 2);
	assert_int_equal(told.key, 2);
	for (uint32_t e = 0; e < EVENTS; e++)
		for (uint32_t v = 0; v < n_values[2]; v++) {
			uint64_t want = 0;
			for (size_t i = 0; i < 1000; i++)
				if (rows[i].event == e && rows[i].has & 4 && rows[i].value[2] == v)
					want += rows[i].samples;
			assert_int_equal(told.of[e][v], want);
		}
	check_column(&s, 2, 1000);
	set_sums_fini(&s);
}

static int refuse(void *ctx, const struct label *l, uint32_t event, uint64_t samples)
{
	(void)ctx, (void)l, (void)event, (void)samples;
	return -EDOM;
}

static void an_error_of_the_listener_ends_it(void **state)
{
	struct model m = { .random = 14 };
	struct set_sums s;
	(void)state;
	draw_rows(&m, false);
	assert_int_equal(set_sums_init(&s), 0);
	s.left_out = refuse;
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(add(&s, &rows[i]), 0);
	assert_int_equal(set_sums_leave_out(&s, "many", 4), -EDOM);
	set_sums_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_sets_are_kept),
		cmocka_unit_test(the_largest_key_is_left_out),
		cmocka_unit_test(a_key_is_left_out_on_demand),
		cmocka_unit_test(an_error_of_the_listener_ends_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
