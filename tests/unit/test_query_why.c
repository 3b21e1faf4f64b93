/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a selection went: each side and table against sums of what was put in. */
#include "unit/store_model.h"

#include "query/why.h"
#include "store/writer.h"

#include <math.h>

#define WINDOWS 12
#define TENANTS 3
#define ROWS 60 /* of a window */
#define PLACES 4
#define CPU_NS 10000000
#define WINDOW_NS 10000000000ll
#define BEGIN_NS 1700000000000000000ll

enum { CPU, RUNQ, OFF, BLAME, WAKER, RUNQ_LENGTHS, OFF_LENGTHS, EVENTS };

static const struct store_event events[EVENTS] = {
	[CPU] = { "cpu-clock", "nanoseconds", CPU_NS, CPU_NS },
	[RUNQ] = { "runq", "nanoseconds", 0, 0 },
	[OFF] = { "off-cpu", "nanoseconds", 0, 0 },
	[BLAME] = { "blame", "nanoseconds", 0, 0 },
	[WAKER] = { "waker", "nanoseconds", 0, 0 },
	[RUNQ_LENGTHS] = { "runq.lengths", "nanoseconds", 0, 0 },
	[OFF_LENGTHS] = { "off-cpu.lengths", "nanoseconds", 0, 0 },
};

/*
 * Nanoseconds by window, event, tenant and place; of CPU samples, of lengths numbers of waits. The
 * place is the function, and by.comm of blame and wakers.
 */
static uint64_t put[WINDOWS][EVENTS][TENANTS][PLACES];
static char root[64], waits_dir[72], plain_dir[72];

static uint32_t make_stack(struct store_writer *w, unsigned place, bool lock)
{
	char text[100];
	uint32_t stack;
	snprintf(text, sizeof(text), "place%u (/usr/bin/demo) 0 0\n%s", place,
		 lock ? "pthread_mutex_lock (/usr/lib/libc.so.6) 0 0\n" : "");
	assert_int_equal(model_put_stack(w, text, &stack), 0);
	return stack;
}

static void put_samples(struct store_writer *w, uint32_t set, uint32_t stack, uint32_t event,
			uint64_t samples, uint64_t value)
{
	assert_int_equal(store_add_row(w, set, stack, event, samples, value), 0);
}

static void put_row(struct store_writer *w, struct model *m, const uint32_t *id, size_t window,
		    unsigned n_events)
{
	const unsigned e = model_random(m, n_events < RUNQ_LENGTHS ? n_events : RUNQ_LENGTHS),
		       tenant = model_random(m, TENANTS), place = model_random(m, PLACES),
		       n = 1 + model_random(m, 1000 * (1 + tenant));
	const uint64_t value = e == CPU ? (uint64_t)n * CPU_NS : n * 1000u;
	char by[20] = "", labels[80];
	uint32_t set, frame, length;
	if (e >= BLAME)
		snprintf(by, sizeof(by), "by.comm=c%u\n", place);
	snprintf(labels, sizeof(labels), "%stenant=t%u\n", by, tenant);
	assert_int_equal(model_put_set(w, labels, &set), 0);
	put_samples(w, set, make_stack(w, place, e == OFF), id[e], e == CPU ? n : 1, value);
	put[window][e][tenant][place] += e == CPU ? n : value;
	if (e != RUNQ && e != OFF)
		return;
	const struct store_frame f = { .kind = FRAME_USER, .offset = 1u << (n % 8) };
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &length), 0);
	put_samples(w, set, length, id[e == RUNQ ? RUNQ_LENGTHS : OFF_LENGTHS], 1, 1);
	put[window][e == RUNQ ? RUNQ_LENGTHS : OFF_LENGTHS][tenant][place]++;
}

static void make_store(const char *dir, unsigned n_events)
{
	struct model m = { .random = 17 };
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id[EVENTS];
	memset(put, 0, sizeof(put));
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (unsigned e = 0; e < n_events; e++)
		assert_int_equal(store_add_event(w, &events[e], &id[e]), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		for (size_t k = 0; k < ROWS; k++)
			put_row(w, &m, id, i, n_events);
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
}

static int set_up(void **state)
{
	(void)state;
	temp_dir(root);
	snprintf(plain_dir, sizeof(plain_dir), "%s/plain", root);
	snprintf(waits_dir, sizeof(waits_dir), "%s/waits", root);
	make_store(plain_dir, 1);
	make_store(waits_dir, EVENTS);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_tree(root);
	return 0;
}

/* Tenant 0, or the others; place < 0: all of them. */
static uint64_t sum(size_t from, size_t to, unsigned event, bool rest, int place)
{
	uint64_t n = 0;
	for (size_t i = from; i < to; i++)
		for (unsigned t = 0; t < TENANTS; t++)
			for (int p = 0; p < PLACES; p++)
				if ((t != 0) == rest && (place < 0 || p == place))
					n += put[i][event][t][p];
	return n;
}

static double seconds(size_t from, size_t to, unsigned event, bool rest)
{
	return (double)sum(from, to, event, rest, -1) * (event == CPU ? CPU_NS : 1) / 1e9;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fabs(b);
}

static void check_side(const struct why_side *s, size_t from, size_t to, bool rest)
{
	double wall = 0;
	assert_true(s->there && s->waits && !s->bounded);
	assert_int_equal(s->from_ns, BEGIN_NS + (int64_t)from * WINDOW_NS);
	assert_int_equal(s->to_ns, BEGIN_NS + (int64_t)to * WINDOW_NS);
	assert_true(near(s->covered_s, 10.0 * (double)(to - from)));
	for (unsigned e = CPU; e <= OFF; e++) {
		assert_non_null(s->part[e]);
		assert_true(near(s->seconds[e], seconds(from, to, e, rest)));
		wall += seconds(from, to, e, rest);
	}
	assert_true(near(why_wall(s), wall));
	for (unsigned e = CPU; e <= OFF; e++)
		assert_true(
			near(why_share(s, (enum why_part)e), seconds(from, to, e, rest) / wall));
	assert_int_equal(s->cpu_samples, sum(from, to, CPU, rest, -1));
	assert_null(why_lengths(s, WHY_CPU));
	assert_int_equal(why_lengths(s, WHY_RUNQ)->total, sum(from, to, RUNQ_LENGTHS, rest, -1));
	assert_int_equal(why_lengths(s, WHY_OFF)->total, sum(from, to, OFF_LENGTHS, rest, -1));
	assert_true(s->idle_s == 0); /* none of these waits is idle */
}

static void open_why(struct why *w, struct store *s, size_t from, size_t to, int64_t before_ns)
{
	const struct query_spec spec = { .where = "{tenant=\"t0\"}",
					 .from_ns = BEGIN_NS + (int64_t)from * WINDOW_NS,
					 .to_ns = BEGIN_NS + (int64_t)to * WINDOW_NS };
	struct err err = { 0 };
	if (why_open(w, s, &spec, before_ns, &err))
		fail_msg("%s", err.text);
	assert_true(w->wakers && w->by_work);
	assert_false(why_bounded(w));
}

static void sides_have_their_time(void **state)
{
	struct store *s = open_store(waits_dir);
	struct why w;
	(void)state;
	open_why(&w, s, 6, 10, INT64_MIN);
	check_side(&w.side[WHY_THIS], 6, 10, false);
	check_side(&w.side[WHY_REST], 6, 10, true);
	check_side(&w.side[WHY_BEFORE], 2, 6, false); /* just before, and as long */
	why_close(&w);
	why_close(&w);
	open_why(&w, s, 6, 10, BEGIN_NS + WINDOW_NS);
	check_side(&w.side[WHY_BEFORE], 1, 5, false);
	why_close(&w);
	/* The earlier range ends where the other begins, and is left out where it is empty. */
	open_why(&w, s, 6, 10, BEGIN_NS + 4 * WINDOW_NS);
	check_side(&w.side[WHY_BEFORE], 4, 6, false);
	why_close(&w);
	open_why(&w, s, 6, 10, BEGIN_NS + 6 * WINDOW_NS);
	assert_false(w.side[WHY_BEFORE].there);
	assert_null(w.side[WHY_BEFORE].part[WHY_CPU]);
	why_close(&w);
	open_why(&w, s, 6, 10, INT64_MAX - 1);
	assert_false(w.side[WHY_BEFORE].there);
	why_close(&w);
	open_why(&w, s, 0, 4, INT64_MIN);
	assert_false(w.side[WHY_BEFORE].there); /* nothing was recorded then */
	why_close(&w);
	store_close(s);
}

/* ---- tables ---- */

/* A row's text of one key has the place as its last digit. */
static int place_of(const struct query_table *t, size_t row, size_t key)
{
	const char *text = t->rows[row].values[key];
	return text[strlen(text) - 1] - '0';
}

static void check_table(const struct why_tables *t, int side, size_t from, size_t to,
			unsigned event, size_t key)
{
	const struct query_table *table = t->table[side];
	uint64_t all = 0;
	assert_non_null(table);
	assert_int_equal(table->n_rows, PLACES);
	for (size_t i = 0; i < PLACES; i++) {
		uint64_t want = sum(from, to, event, side == WHY_REST, place_of(table, i, key));
		assert_int_equal(table->rows[i].samples, want);
		all += want;
	}
	assert_int_equal(query_info(t->query[side])->samples, all);
	/* The share of a row of the first table, where the sides have the same rows. */
	const struct query_table_row *of = &t->table[WHY_THIS]->rows[0];
	int place = place_of(t->table[WHY_THIS], 0, key);
	assert_true(near(why_row_share(t, side, of),
			 (double)sum(from, to, event, side == WHY_REST, place) / (double)all));
}

static void tables_have_their_rows(void **state)
{
	struct store *s = open_store(waits_dir);
	struct why_tables blocked, occupants, wakers;
	struct err err = { 0 };
	struct why w;
	(void)state;
	open_why(&w, s, 6, 10, INT64_MIN);
	assert_int_equal(why_blocked(&w, &blocked, &err), 0);
	assert_int_equal(why_occupants(&w, &occupants, &err), 0);
	assert_int_equal(why_wakers(&w, &wakers, &err), 0);
	for (int side = 0; side < WHY_SIDES; side++) {
		size_t from = side == WHY_BEFORE ? 2 : 6;
		/* by function and class, by comm, by comm and function */
		check_table(&blocked, side, from, from + 4, OFF, 0);
		check_table(&occupants, side, from, from + 4, BLAME, 0);
		check_table(&wakers, side, from, from + 4, WAKER, 0);
		check_table(&wakers, side, from, from + 4, WAKER, 1);
		for (size_t i = 0; i < PLACES; i++)
			assert_string_equal(blocked.table[side]->rows[i].values[1], "lock");
	}
	const struct why_tables none = { .table = { NULL } };
	assert_null(why_holder(&blocked, &none));
	assert_null(why_holder(&none, &wakers));
	struct query_table_row other = { .text = "no such row" };
	assert_true(why_row_share(&blocked, WHY_THIS, &other) == 0);
	why_tables_free(&blocked);
	why_tables_free(&occupants);
	why_tables_free(&wakers);
	why_close(&w);
	store_close(s);
}

static void changes_compare_samples(void **state)
{
	struct store *s = open_store(waits_dir);
	struct err err = { 0 };
	struct why w;
	(void)state;
	open_why(&w, s, 6, 10, INT64_MIN);
	for (int against = WHY_REST; against <= WHY_BEFORE; against++) {
		size_t from = against == WHY_BEFORE ? 2 : 6;
		struct why_changes c;
		assert_int_equal(why_changes(&w, against, false, &c, &err), 0);
		assert_int_equal(c.diff->samples[0], sum(6, 10, CPU, false, -1));
		assert_int_equal(c.diff->samples[1],
				 sum(from, from + 4, CPU, against == WHY_REST, -1));
		assert_int_equal(c.diff->n_rows, PLACES);
		for (size_t i = 0; i < PLACES; i++) {
			const struct query_diff_row *r = &c.diff->rows[i];
			int place = r->text[strlen("place")] - '0';
			assert_int_equal(r->self[0], sum(6, 10, CPU, false, place));
			assert_int_equal(r->self[1],
					 sum(from, from + 4, CPU, against == WHY_REST, place));
		}
		why_changes_free(&c);
	}
	why_close(&w);
	open_why(&w, s, 0, 4, INT64_MIN);
	struct why_changes c;
	assert_int_equal(why_changes(&w, WHY_BEFORE, false, &c, &err), 0);
	assert_null(c.diff);
	why_changes_free(&c);
	why_close(&w);
	store_close(s);
}

/* A store without waits has the time on a CPU alone. */
static void without_waits(void **state)
{
	struct store *s = open_store(plain_dir);
	const struct query_spec spec = { .where = "{tenant=\"t0\"}",
					 .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX };
	struct why_tables t;
	struct err err = { 0 };
	struct why w;
	(void)state;
	assert_int_equal(why_open(&w, s, &spec, INT64_MIN, &err), 0);
	assert_false(w.wakers || w.side[WHY_THIS].waits);
	assert_non_null(w.side[WHY_THIS].part[WHY_CPU]);
	assert_null(w.side[WHY_THIS].part[WHY_RUNQ]);
	assert_null(w.side[WHY_THIS].part[WHY_OFF]);
	assert_true(why_share(&w.side[WHY_THIS], WHY_CPU) == 1);
	assert_true(why_share(&w.side[WHY_BEFORE], WHY_CPU) == 0);
	const struct why_tables none = { .table = { NULL } };
	assert_int_equal(why_blocked(&w, &t, &err), 0);
	assert_memory_equal(&t, &none, sizeof(t));
	assert_int_equal(why_occupants(&w, &t, &err), 0);
	assert_memory_equal(&t, &none, sizeof(t));
	assert_int_equal(why_wakers(&w, &t, &err), 0);
	assert_memory_equal(&t, &none, sizeof(t));
	assert_null(why_holder(&t, &t));
	assert_null(why_lengths(&w.side[WHY_THIS], WHY_OFF));
	why_close(&w);
	why_close(&w); /* as who asks again after a failure does */
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_waits), /* of the store that was made first */
		cmocka_unit_test(sides_have_their_time),
		cmocka_unit_test(tables_have_their_rows),
		cmocka_unit_test(changes_compare_samples),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
