/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine answers is not trusted: answers that are cut anywhere, whose bytes are changed, or
 * that name huge sizes and times are refused, or make a store that can be read.
 */
#include "fleet/grown.h"
#include "store/file/tree.h"
#include "util/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* In the order of the questions; functions are asked for before the rows. */
enum { EVENTS, RANGE, WINDOWS, ROWS, STACKS, FUNCTIONS, ANSWERS };

static struct buf good[ANSWERS], sent[ANSWERS];
static unsigned asked;
static bool counting;		/* functions are asked for */
static const struct buf *alone; /* the answer to every question; NULL: those above */
static struct MHD_Daemon *server;
static char url[64], scratch[64];

static unsigned answer_of(unsigned question)
{
	if (counting && question == ROWS)
		return FUNCTIONS;
	question -= counting && question > ROWS;
	return question < STACKS ? question : STACKS;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *path,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **state)
{
	(void)ctx, (void)path, (void)method, (void)version, (void)upload;
	if (!*state || *upload_len) {
		*state = server;
		*upload_len = 0;
		return MHD_YES;
	}
	const struct buf *b = alone ? alone : &sent[answer_of(asked++)];
	struct MHD_Response *r =
		MHD_create_response_from_buffer(b->len, b->data, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result rc = MHD_queue_response(c, 200, r);
	MHD_destroy_response(r);
	return rc;
}

/* ---- answers ---- */

static void text(struct buf *b, const char *s)
{
	assert_int_equal(buf_add_varint(b, strlen(s)), 0);
	assert_int_equal(buf_add(b, s, strlen(s)), 0);
}

static void numbers(struct buf *b, size_t n, const uint64_t *v)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_add_u64(b, v[i]), 0);
}

#define NUMBERS(b, ...) \
	numbers(b, sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), \
		(uint64_t[]){ __VA_ARGS__ })

static void add_row(uint32_t bucket, const char *comm, uint64_t stack, uint64_t samples)
{
	struct buf *b = &good[ROWS];
	buf_add_u32(b, bucket);
	text(b, "cpu-clock");
	NUMBERS(b, 10101010);
	buf_add_varint(b, 2);
	text(b, "comm");
	text(b, comm);
	text(b, "n");
	text(b, "17");
	buf_add_varint(b, 1);
	text(b, "n");
	NUMBERS(b, stack, 1, samples, samples * 10101010);
}

static void add_stack(uint64_t hash)
{
	static const char *const names[4][2] = {
		{ "leaf", "root" }, { "/bin/x", "/bin/x" }, { "ab", "ab" }, { "x.c", "" }
	};
	struct buf *b = &good[STACKS];
	NUMBERS(b, hash, 1);
	buf_add_varint(b, 2);
	buf_add_u8(b, 16);
	buf_add_u8(b, 0);
	for (size_t i = 0; i < 4; i++) {
		buf_add_varint(b, 2);
		text(b, names[i][0]);
		text(b, names[i][1]);
	}
	buf_add_varint(b, 2);
	buf_add_u32(b, 7);
	buf_add_u32(b, 0);
	buf_add_varint(b, 2);
	NUMBERS(b, 1, 2);
}

static void add_function(const char *name, uint64_t self, uint64_t total)
{
	struct buf *b = &good[FUNCTIONS];
	text(b, name);
	text(b, "/bin/x");
	buf_add_u8(b, 1);
	NUMBERS(b, self, total, 3, 0);
}

static int setup(void **state)
{
	struct buf *b = &good[EVENTS];
	(void)state;
	text(b, "cpu-clock");
	text(b, "nanoseconds");
	NUMBERS(b, 10101010, 10101010);
	b = &good[RANGE];
	NUMBERS(b, 2);
	for (unsigned i = 0; i < 6; i++)
		buf_add_u32(b, i == 1 ? 1010 : 1000);
	buf_add_u32(b, 2); /* the schema */
	b = &good[WINDOWS];
	buf_add_u32(b, 0);
	buf_add_u32(b, 0);
	NUMBERS(b, 995000000000, 1015000000000, 10, 7, 0, 5, 4096);
	buf_add_varint(b, 1);
	text(b, "not_run");
	NUMBERS(b, 3);
	buf_add_varint(b, 1);
	text(b, "of_later_versions");
	NUMBERS(b, 1);
	add_row(0, "x", 5, 4);
	add_row(0, "y", 6, 3);
	add_stack(5);
	add_stack(6);
	add_function("leaf", 7, 7);
	add_function("root", 0, 7);
	strcpy(scratch, "/tmp/test_fleet_XXXXXX");
	assert_non_null(mkdtemp(scratch));
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, NULL,
				  MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_END);
	assert_non_null(server);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/",
		 MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	MHD_stop_daemon(server);
	for (size_t i = 0; i < ANSWERS; i++) {
		buf_fini(&good[i]);
		buf_fini(&sent[i]);
	}
	return tree_remove(scratch);
}

static void send_good(void)
{
	for (size_t i = 0; i < ANSWERS; i++) {
		sent[i].len = 0;
		assert_int_equal(buf_add(&sent[i], good[i].data, good[i].len), 0);
	}
}

/* ---- questions ---- */

/* Functions that were counted, as a table of what was filled. */
static void look_at(struct query *q, const struct fleet_result *r)
{
	struct query_table *t;
	struct err err = { 0 };
	assert_int_equal(query_table_counted(q, &r->functions, &t, &err), 0);
	assert_int_equal(t->n_rows, r->functions.n);
	for (size_t i = 0; i < t->n_rows; i++) {
		assert_true(t->rows[i].samples <= query_info(q)->samples);
		assert_true(t->rows[i].self <= t->rows[i].samples);
		assert_true(t->rows[i].high >= t->rows[i].low && t->rows[i].text[0]);
	}
	query_table_free(t);
}

/* The samples of what was filled; a refusal is no sample. */
static uint64_t samples_in(const char *dir, const struct fleet_result *r)
{
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	uint64_t n = query_info(q)->samples;
	if (r->by_function)
		look_at(q, r);
	query_close(q);
	store_close(s);
	return n;
}

static bool by_function; /* of the last answer */

static int fill(const struct fleet_question *q, uint64_t *ret_samples)
{
	const struct fleet_server at = { .url = url };
	struct fleet_result result;
	struct err err = { 0 };
	char dir[100];
	snprintf(dir, sizeof(dir), "%s/XXXXXX", scratch);
	assert_non_null(mkdtemp(dir));
	asked = 0;
	counting = q->functions && sent[RANGE].data[sent[RANGE].len - 4] == 2;
	int rc = fleet_fill(dir, &at, q, &result, &err);
	assert_true(rc <= 0 && (!rc || err.text[0]));
	*ret_samples = rc ? 0 : samples_in(dir, &result);
	by_function = result.by_function;
	fleet_result_fini(&result);
	assert_int_equal(tree_remove(dir), 0);
	return rc;
}

static const struct fleet_question questions[] = {
	{ .from_ns = INT64_MIN, .to_ns = INT64_MAX, .all_labels = true, .memory = 1 << 20 },
	{ .from_ns = 0, .to_ns = 2000000000000, .steps = true, .memory = 1 << 20 },
	{ .from_ns = 1000000000000,
	  .to_ns = 1005000000000,
	  .compares = true,
	  .against_from_ns = 1005000000000,
	  .against_to_ns = INT64_MAX,
	  .by_start = true,
	  .memory = 1 << 20 },
	{ .from_ns = INT64_MIN, .to_ns = INT64_MAX, .functions = 2, .memory = 1 << 20 },
};
enum { COUNTS = 3 }; /* that of functions */
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static void test_good(void **state)
{
	uint64_t n;
	(void)state;
	for (size_t i = 0; i < QUESTIONS; i++) {
		send_good();
		assert_int_equal(fill(&questions[i], &n), 0);
		assert_int_equal(n, 7);
		assert_true(by_function == (i == COUNTS));
	}
}

/* Functions that are not known, have no name, or are more than fit: the stacks are fetched. */
static void test_missing(void **state)
{
	const size_t row = good[FUNCTIONS].len / 2;
	struct fleet_question all = questions[COUNTS];
	uint64_t n;
	(void)state;
	send_good();
	sent[FUNCTIONS].data[row - 8] = 1;
	assert_int_equal(fill(&questions[COUNTS], &n), 0);
	assert_true(n == 7 && !by_function);
	send_good();
	sent[FUNCTIONS].data[row - 16] = 1; /* functions in all: fewer than came */
	assert_int_equal(fill(&questions[COUNTS], &n), 0);
	assert_true(n == 7 && by_function);
	sent[FUNCTIONS].data[2 * row - 16] = 1;
	assert_int_equal(fill(&questions[COUNTS], &n), 0);
	assert_true(n == 7 && !by_function);
	send_good();
	all.functions = SIZE_MAX;
	assert_int_equal(fill(&all, &n), 0);
	assert_true(n == 7 && !by_function);
	/* Tables of a version that does not know functions. */
	send_good();
	sent[RANGE].data[sent[RANGE].len - 4] = 1;
	assert_int_equal(fill(&questions[COUNTS], &n), 0);
	assert_true(n == 7 && !by_function);
}

/* The function that grew: an answer that is cut or changed is refused, or makes sense. */
static void test_grown(void **state)
{
	const struct fleet_server at = { .url = url };
	struct fleet_result filled;
	struct err err = { 0 };
	struct store *s;
	struct buf whole = BUF_INIT, part = BUF_INIT;
	char dir[100];
	(void)state;
	snprintf(dir, sizeof(dir), "%s/grown", scratch);
	assert_int_equal(mkdir(dir, 0700), 0);
	send_good();
	asked = 0;
	counting = false;
	assert_int_equal(fleet_fill(dir, &at, &questions[0], &filled, &err), 0);
	assert_int_equal(store_open(&s, dir, &err), 0);
	text(&whole, "parse");
	NUMBERS(&whole, 2, 3, 600000000000, 300000000000);
	alone = &part;
	for (size_t i = 0; i <= whole.len; i++)
		for (unsigned change = 0; change < 3; change++) {
			struct finding one = { .kind = FINDING_BUILD,
					       .value = "/bin/x",
					       .build = { "b", "a" } };
			struct findings f = { .v = &one,
					      .n = 1,
					      .before_ns = 1000000000000,
					      .from_ns = 1300000000000,
					      .to_ns = 1600000000000 };
			part.len = 0;
			buf_add(&part, whole.data, change ? whole.len : i);
			if (change && i < whole.len)
				part.data[i] = change == 1 ? 0xff : 0;
			int rc = fleet_grown(&filled, s, NULL, &f, &err);
			assert_true(rc == -EPROTO || (!rc && one.n_grew <= one.n_hosts));
			if (part.len == whole.len && i == whole.len)
				assert_true(!rc && one.n_grew == 2 && one.n_hosts == 3 &&
					    !strcmp(one.function, "parse") &&
					    one.function_now == 2 && one.function_before == 1);
			if (!change && i && i < whole.len)
				assert_int_equal(rc, -EPROTO);
		}
	alone = NULL;
	buf_fini(&whole);
	buf_fini(&part);
	store_close(s);
	fleet_result_fini(&filled);
	assert_int_equal(tree_remove(dir), 0);
}

/* A cut is seen, unless it is between two elements. */
static void test_cut(void **state)
{
	unsigned taken = 0;
	uint64_t n;
	(void)state;
	for (size_t i = 0; i < ANSWERS; i++)
		for (size_t len = 0; len < good[i].len; len++) {
			send_good();
			sent[i].len = len;
			int rc = fill(&questions[i == FUNCTIONS ? COUNTS : 0], &n);
			assert_true(rc == -EPROTO || (!rc && n <= 7));
			taken += !rc;
		}
	assert_true(taken < 10);
}

static void test_huge(void **state)
{
	static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 };
	uint64_t n;
	(void)state;
	for (size_t i = 0; i < ANSWERS; i++)
		for (size_t at = 0; at < good[i].len; at++) {
			size_t len = good[i].len - at;
			send_good();
			memcpy(sent[i].data + at, huge + (at % 2 ? 8 : 0), len < 8 ? len : 8);
			fill(&questions[at % QUESTIONS], &n);
		}
}

static void test_random(void **state)
{
	uint64_t n;
	(void)state;
	srand(7);
	for (unsigned i = 0; i < 300; i++) {
		send_good();
		for (int k = rand() % 4; k >= 0; k--) {
			struct buf *b = &sent[rand() % ANSWERS];
			b->data[(size_t)rand() % b->len] = (uint8_t)rand();
		}
		fill(&questions[i % QUESTIONS], &n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),  cmocka_unit_test(test_missing),
		cmocka_unit_test(test_grown), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_huge),  cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
