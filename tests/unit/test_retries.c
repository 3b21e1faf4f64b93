/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention cuts files between the opening of a store and a question: the server and the commands
 * open it anew and answer.
 */
#include "cli/reading.h"
#include "http/server_int.h"
#include "store/damage.h"
#include "store/writer.h"
#include "unit/store_model.h"

#include <pthread.h>

#define RECENT_NS 100000000000 /* ten windows */

static char dir[64];
static struct store_writer *writer;
static size_t n_windows, n_asked;
static int first_result;

/* A file for each window or two. */
static void write_windows(size_t n)
{
	for (size_t i = 0; i < n; i++, n_windows++) {
		struct model m = { .random = n_windows };
		struct model_window win = { 0 };
		struct err err = { 0 };
		store_renew(writer);
		store_renew_end(writer);
		model_fill(&m, writer, &win, 3);
		model_window_fini(&win);
		if (model_commit_at(writer, n_windows, &err))
			fail_msg("window %zu: %s", n_windows, err.text);
	}
}

static int begin(void **state)
{
	(void)state;
	struct store_options o = model_options;
	o.windows_only = true;
	o.recent_ns = RECENT_NS;
	o.symbols_bytes = 1;
	n_windows = n_asked = 0;
	int rc = store_writer_open_with(&writer, temp_dir(dir), &model_meta, &o, NULL);
	if (!rc)
		write_windows(20);
	return rc;
}

static int end(void **state)
{
	(void)state;
	store_writer_close(writer);
	remove_tree(dir);
	return 0;
}

static int ask(struct store *s, uint64_t *ret_windows, struct err *err)
{
	const struct query_spec spec = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_ALL_LABELS, .idle = true
	};
	struct query *q;
	int rc = query_open(&q, s, &spec, err);
	if (rc)
		return rc;
	*ret_windows = query_info(q)->windows;
	query_close(q);
	return 0;
}

/* What a store that was opened now answers. */
static uint64_t windows_now(void)
{
	struct store *s;
	struct err err = { 0 };
	uint64_t n;
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(ask(s, &n, &err), 0);
	store_close(s);
	assert_in_range(n, 10, 40);
	return n;
}

/* While the first question is answered, every file that its store has is cut. */
static int handle(struct request *r, struct store *s, struct err *err)
{
	uint64_t n;
	if (!n_asked)
		write_windows(40);
	int rc = ask(s, &n, err);
	if (!n_asked++)
		first_result = rc;
	r->type = "text/plain";
	return rc ? rc : buf_printf(&r->out, "%" PRIu64, n);
}

static void server_asks_again(void **state)
{
	static const struct route route = { "/q", "q", ROUTE_GET | ROUTE_STORE, 0, handle, NULL };
	const char *const dirs[] = { dir };
	struct http_server server = { 0 };
	const struct access_grant grant = { .may = ACCESS_READ };
	struct request r = { .server = &server, .route = &route, .grant = &grant };
	char expected[32];
	(void)state;
	assert_int_equal(snapshots_new(&server.snapshots, dirs, 1,
				       &(struct store_limits){ .bytes = 1u << 30 }),
			 0);
	work_answer(&server, &r);
	assert_int_equal(first_result, -ESTALE);
	if (r.status != 200)
		fail_msg("%u: %.*s", r.status, (int)r.out.len, (const char *)r.out.data);
	assert_int_equal(n_asked, 2);
	snprintf(expected, sizeof(expected), "%" PRIu64, windows_now());
	assert_int_equal(r.out.len, strlen(expected));
	assert_memory_equal(r.out.data, expected, r.out.len);
	buf_fini(&r.out);
	snapshots_free(server.snapshots);
}

static void command_asks_again(void **state)
{
	const struct filter f = FILTER_INIT;
	struct reading r = { 0 };
	char *dirs[] = { dir };
	struct err err = { 0 };
	uint64_t n;
	(void)state;
	assert_int_equal(reading_open_store(&r, dirs, 1, &f), 0);
	write_windows(40);
	int rc = ask(r.store, &n, &err);
	assert_int_equal(rc, -ESTALE);
	assert_true(reading_again(&r, &f, &rc, &err)); /* as why, findings and series do */
	assert_int_equal(ask(r.store, &n, &err), 0);
	assert_int_equal(n, windows_now());
	assert_false(reading_again(&r, &f, &(int){ -EINVAL }, &err));
	reading_close(&r);
	r = (struct reading){ 0 };
	assert_int_equal(reading_open_store(&r, dirs, 1, &f), 0);
	write_windows(40);
	assert_int_equal(ask(r.store, &n, &err), -ESTALE);
	assert_int_equal(reading_query(&r, &f, QUERY_ALL_LABELS, NULL), 0);
	assert_int_equal(query_info(r.query)->windows, windows_now());
	reading_close(&r);
}

/* An open file that is sealed in between stays readable: its symbols move, and nothing is cut. */
static void sealed_in_between(void **state)
{
	struct err err = { 0 };
	struct store *s;
	uint64_t before, n;
	(void)state;
	before = windows_now();
	assert_int_equal(store_open(&s, dir, &err), 0);
	write_windows(2);
	if (ask(s, &n, &err))
		fail_msg("%s", err.text);
	assert_int_equal(n, before);
	store_close(s);
}

static void *write_many(void *arg)
{
	bool *done = arg;
	write_windows(400);
	__atomic_store_n(done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void on_finding(void *ctx, const struct store_finding *f)
{
	size_t *n = ctx;
	if (f->kind == STORE_DAMAGED && !(*n)++)
		print_message("%s at %" PRIu64 ": %s\n", f->path, f->offset, f->text);
}

/* What a writer seals and cuts while the store is verified is no damage. */
static void verify_beside_writer(void **state)
{
	struct err err = { 0 };
	size_t n = 0, times = 0;
	bool done = false;
	pthread_t thread;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, write_many, &done), 0);
	for (; !__atomic_load_n(&done, __ATOMIC_ACQUIRE); times++)
		if (store_verify(dir, on_finding, &n, &err))
			fail_msg("%s", err.text);
	pthread_join(thread, NULL);
	assert_int_equal(n, 0);
	assert_true(times > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(server_asks_again, begin, end),
		cmocka_unit_test_setup_teardown(command_asks_again, begin, end),
		cmocka_unit_test_setup_teardown(sealed_in_between, begin, end),
		cmocka_unit_test_setup_teardown(verify_beside_writer, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
