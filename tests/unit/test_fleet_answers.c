/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine answers is not trusted: answers that are cut anywhere, whose bytes are changed, or
 * that name huge sizes and times are refused, or make a store that can be read.
 */
#include "fleet/fleet.h"
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

/* In the order of the questions. */
enum { EVENTS, RANGE, WINDOWS, ROWS, STACKS, ANSWERS };

static struct buf good[ANSWERS], sent[ANSWERS];
static unsigned asked;
static struct MHD_Daemon *server;
static char url[64], scratch[64];

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
	const struct buf *b = &sent[asked < ANSWERS ? asked : ANSWERS - 1];
	asked++;
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

/* The samples of what was filled; a refusal is no sample. */
static uint64_t samples_in(const char *dir)
{
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	uint64_t n = query_info(q)->samples;
	query_close(q);
	store_close(s);
	return n;
}

static int fill(const struct fleet_question *q, uint64_t *ret_samples)
{
	const struct fleet_server at = { .url = url };
	struct fleet_result result;
	struct err err = { 0 };
	char dir[100];
	snprintf(dir, sizeof(dir), "%s/XXXXXX", scratch);
	assert_non_null(mkdtemp(dir));
	asked = 0;
	int rc = fleet_fill(dir, &at, q, &result, &err);
	assert_true(rc <= 0 && (!rc || err.text[0]));
	*ret_samples = rc ? 0 : samples_in(dir);
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
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static void test_good(void **state)
{
	uint64_t n;
	(void)state;
	for (size_t i = 0; i < QUESTIONS; i++) {
		send_good();
		assert_int_equal(fill(&questions[i], &n), 0);
		assert_int_equal(n, 7);
	}
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
			int rc = fill(&questions[0], &n);
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
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_huge),
		cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
