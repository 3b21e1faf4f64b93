/* SPDX-License-Identifier: Apache-2.0 */
/* Where time went: idle waits, threads, parts without time, answers that are cut. */
#include "findings_host.h"

#include "query/scope.h"
#include "query/why.h"

#define A "main /bin/a -\n"
#define IDLE "loop /bin/a -\n__x64_sys_epoll_wait [kernel] -\n"
#define LOCK "get /bin/a -\npthread_mutex_lock /usr/lib/libc.so.6 -\n"
#define OTHER_LOCK "get /bin/b -\npthread_mutex_lock /usr/lib/libc.so.6 -\n"

static const struct part parts[] = {
	{ CPU, "tenant=a\ntid=1\n", A, 0, 60, 200 },
	{ CPU, "tenant=b\n", A, 0, 60, 100 },
	{ CPU, "tenant=cpu\n", A, 0, 60, 300 },
	{ RUNQ, "tenant=a\ntid=1\n", A, 0, 60, 50 },
	{ OFF, "tenant=a\n", IDLE, 0, 60, 500 },
	{ OFF, "tenant=a\n", LOCK, 0, 60, 250 },
	{ OFF, "tenant=a\n", OTHER_LOCK, 0, 60, 50 },
	{ OFF, "tenant=b\n", IDLE, 30, 60, 800 },
	{ WAKER, "by.comm=w\ntenant=a\n", A, 0, 60, 300 },
	{ RUNQ_LENGTHS, "tenant=a\n", "10us /bin/a -\n", 0, 60, 3 },
	{ OFF_LENGTHS, "tenant=a\n", "10us /bin/a -\n", 0, 60, 3 },
};

static char dir[64];
static struct store *store;

static int setup(void **state)
{
	(void)state;
	store = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	store_close(store);
	remove_tree(dir);
	return 0;
}

static void open_range(struct why *w, const char *where)
{
	const struct query_spec spec = { .where = where,
					 .from_ns = window_ns(RANGE),
					 .to_ns = window_ns(WINDOWS) };
	struct err err = { 0 };
	if (why_open(w, store, &spec, INT64_MIN, &err))
		fail_msg("%s", err.text);
}

/* Of 30 windows of 10 s each. */
static void idle_waits(void **state)
{
	struct why w;
	struct why_tables t;
	struct err err = { 0 };
	(void)state;
	open_range(&w, "{tenant=\"a\"}");
	assert_true(near(w.side[WHY_THIS].idle_s, 150, 1e-9));
	assert_true(near(w.side[WHY_REST].idle_s, 240, 1e-9));
	assert_true(near(w.side[WHY_BEFORE].idle_s, 150, 1e-9));
	assert_true(near(w.side[WHY_THIS].seconds[WHY_OFF], 90, 1e-9));
	assert_true(near(w.side[WHY_THIS].seconds[WHY_CPU], 60, 1e-9));
	assert_int_equal(w.side[WHY_THIS].cpu_samples, 6000);
	/* Functions of one name are one row, whatever their file */
	assert_int_equal(why_blocked(&w, &t, &err), 0);
	assert_int_equal(t.table[WHY_THIS]->n_rows, 1);
	struct why_tables wakers;
	assert_int_equal(why_wakers(&w, &wakers, &err), 0);
	assert_string_equal(why_holder(&t, &wakers)->values[1], "main");
	why_tables_free(&wakers);
	assert_null(why_lengths(&w.side[WHY_THIS], WHY_CPU));
	assert_int_equal(why_lengths(&w.side[WHY_THIS], WHY_OFF)->total, 90);
	why_tables_free(&t);
	why_close(&w);
}

/* Rows of tables are matched by text and file. */
static void shares_of_rows(void **state)
{
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_TOTALS };
	struct query_table_row rows[] = {
		{ .text = "f", .module = "/a", .samples = 9000, .self = 3000 },
		{ .text = "f", .module = "/b", .samples = 8000, .self = 6000 },
		{ .text = "g", .samples = 7000, .self = 9000 },
	};
	struct query_table table = { .rows = rows, .n_rows = 3 };
	struct why_tables t = { .table = { &table } };
	struct err err = { 0 };
	(void)state;
	assert_int_equal(query_open(&t.own[WHY_THIS], store, &spec, &err), 0);
	t.query[WHY_THIS] = t.own[WHY_THIS];
	const double all = (double)query_info(t.query[WHY_THIS])->samples;
	assert_true(all == 60 * 600);
	for (size_t i = 0; i < 3; i++)
		assert_true(near(why_row_share(&t, WHY_THIS, &rows[i]),
				 3000.0 * (double)(i + 1) / all, 1e-12));
	assert_true(why_row_share(&t, WHY_THIS, &(struct query_table_row){ .text = "f" }) == 0);
	assert_true(why_row_share(&t, WHY_REST, &rows[0]) == 0);
	query_close(t.own[WHY_THIS]);
}

/* Of threads there are no lengths, and nobody who was running. */
static void threads(void **state)
{
	struct why_tables t;
	struct why w;
	struct err err = { 0 };
	(void)state;
	open_range(&w, "{tid=\"1\"}");
	assert_false(w.by_work);
	assert_true(w.wakers);
	assert_true(w.side[WHY_THIS].seconds[WHY_RUNQ] > 0);
	assert_null(w.side[WHY_THIS].lengths[WHY_RUNQ]);
	assert_null(w.side[WHY_THIS].lengths[WHY_OFF]);
	assert_int_equal(why_occupants(&w, &t, &err), 0);
	assert_null(t.table[WHY_THIS]);
	why_tables_free(&t);
	why_close(&w);
}

/* Who never waited has no tables of waits, though others have. */
static void no_waits(void **state)
{
	struct why_tables t;
	struct why w;
	struct err err = { 0 };
	(void)state;
	open_range(&w, "{tenant=\"cpu\"}");
	assert_true(w.by_work && w.side[WHY_THIS].waits);
	assert_true(w.side[WHY_THIS].seconds[WHY_OFF] == 0);
	assert_true(w.side[WHY_REST].seconds[WHY_OFF] > 0);
	assert_int_equal(why_blocked(&w, &t, &err), 0);
	assert_null(t.table[WHY_REST]);
	assert_int_equal(why_occupants(&w, &t, &err), 0);
	assert_null(t.table[WHY_REST]);
	assert_int_equal(why_wakers(&w, &t, &err), 0);
	assert_null(t.table[WHY_REST]);
	why_close(&w);
	/* Without any sample it is there all the same */
	open_range(&w, "{tenant=\"nobody\"}");
	assert_true(w.side[WHY_THIS].there);
	assert_true(why_wall(&w.side[WHY_THIS]) == 0 && why_share(&w.side[WHY_THIS], WHY_CPU) == 0);
	why_close(&w);
}

static void cut(void **state)
{
	struct why w;
	(void)state;
	store_limit(store, &(struct store_limits){ .bytes = 1 });
	open_range(&w, "{tenant=\"a\"}");
	store_limit(store, &(struct store_limits){ 0 });
	assert_true(why_bounded(&w));
	assert_true(w.side[WHY_THIS].bounded);
	why_close(&w);
	for (int i = 0; i < WHY_SIDES; i++) {
		struct why one = { .side = { { 0 } } };
		one.side[i].bounded = true;
		assert_true(why_bounded(&one));
	}
}

/* Wakers are shown to who may see all of a store that has them. */
static void who_sees_wakers(void **state)
{
	static const char *const names[] = { "waker", "waker.idle", "cpu-clock" };
	char other[64];
	(void)state;
	assert_true(scope_has_wakers(store));
	store_set_scope(store, "{tenant=\"a\"}");
	assert_false(scope_has_wakers(store));
	for (size_t i = 0; i < 3; i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .event = names[i] };
		struct query *q = NULL;
		struct err err = { 0 };
		int rc = query_open(&q, store, &spec, &err);
		assert_int_equal(rc, i == 0 ? -EACCES : i == 1 ? -EINVAL : 0);
		query_close(q);
	}
	store_set_scope(store, NULL);
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(other), &model_meta, &model_options, &err), 0);
	assert_int_equal(
		store_add_event(w, &(struct store_event){ "waker.idle", "nanoseconds", 0, 0 }, &id),
		0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(other);
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .event = "waker.idle" };
	struct query *q = NULL;
	assert_false(scope_has_wakers(s));
	store_set_scope(s, "{tenant=\"a\"}");
	assert_int_equal(query_open(&q, s, &spec, &err), -EACCES);
	store_close(s);
	remove_tree(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_waits), cmocka_unit_test(shares_of_rows),
		cmocka_unit_test(threads),    cmocka_unit_test(no_waits),
		cmocka_unit_test(cut),	      cmocka_unit_test(who_sees_wakers),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
