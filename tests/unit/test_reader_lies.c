/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader that was taken over lies: of its own time, of the time that a process took, and of how
 * far it is. The text of a question says which lie is the answer.
 */
#include "proc/proc.h"
#include "proc/reader.h"
#include "proc/reader_int.h"
#include "sandbox/channel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define SECOND 1000000000ull

static struct sandbox *sandbox;

/* ---- the reader ---- */

static const struct lie {
	const char *text;
	int32_t what;
	uint32_t cpu_us, took_us;
} lies[] = {
	{ "honest", 0, 1, 1 },		 { "cpu", 0, UINT32_MAX, 1 },
	{ "took", 0, 1, UINT32_MAX },	 { "under way", -EINPROGRESS, 1, 1 },
	{ "refused", -EBUSY, 1, 1 },	 { "ended", -EINTR, 1, 1 },
	{ "no error", INT32_MIN, 1, 1 }, { "far", -4096, 1, 1 },
};
#define N_LIES (sizeof(lies) / sizeof(lies[0]))

static void lie(int fd)
{
	static struct {
		struct reader_request q;
		char text[READER_TEXT_MAX];
	} in;
	struct channel_head h;
	size_t none;
	while (!channel_recv_head(fd, &h, NULL, 0, &none, CHANNEL_FOREVER) && h.len <= sizeof(in) &&
	       !channel_recv(fd, &in, h.len, CHANNEL_FOREVER)) {
		size_t i = 0;
		while (i < N_LIES - 1 && strcmp(in.text, lies[i].text) != 0)
			i++;
		h = (struct channel_head){
			lies[i].what, 0, READER_TIMES((uint64_t)lies[i].cpu_us, lies[i].took_us)
		};
		if (channel_send(fd, &h, NULL, NULL, 0, CHANNEL_FOREVER))
			break;
	}
}

/* ---- the recorder ---- */

static int no_op(const struct sandbox_request *q, struct buf *out)
{
	return buf_add(out, q->bytes, q->len);
}

static const sandbox_op ops[] = { no_op };

static int set_up(void **state)
{
	const struct sandbox_config cfg = {
		.ops = ops, .n_ops = 1, .reader = lie, .memory = 16u << 20, .serves = 8
	};
	(void)state;
	int rc = sandbox_new(&sandbox, &cfg, NULL);
	if (!rc)
		proc_reader_start(sandbox);
	return rc;
}

static int tear_down(void **state)
{
	(void)state;
	proc_reader_stop(sandbox);
	sandbox_free(sandbox);
	return 0;
}

/* -EINPROGRESS: there was no answer within 5 s. */
static int ask(const char *text)
{
	const uint64_t until = channel_now_ns() + 5 * SECOND;
	char out[8];
	size_t len;
	int rc;
	while ((rc = proc_read_text((uint32_t)getpid(), text, out, sizeof(out), &len)) ==
		       -EINPROGRESS &&
	       channel_now_ns() < until) {
		usleep(1000);
		sandbox_tick(sandbox);
		proc_reader_tick();
	}
	return rc;
}

/* The recorder's own CPU time decides how often it samples. */
static void test_cpu(void **state)
{
	const uint64_t begin = channel_now_ns();
	struct sandbox_stats st;
	(void)state;
	assert_int_equal(ask("cpu"), 0);
	sandbox_stats(sandbox, &st);
	assert_true(st.cpu_ns <= channel_now_ns() - begin);
}

/* The user of a process that is slow is refused for a while. */
static void test_took(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(ask("took"), 0);
	assert_int_equal(ask("honest"), 0);
}

/* Who asks would ask for ever, or take the process for one that is refused. */
static void test_states(void **state)
{
	(void)state;
	assert_int_equal(ask("under way"), -EIO);
	assert_int_equal(ask("refused"), -EIO);
	assert_int_equal(ask("ended"), -EIO);
	assert_int_equal(ask("honest"), 0);
}

static void test_results(void **state)
{
	(void)state;
	assert_int_equal(ask("no error"),
			 -EINTR); /* the reader was replaced, and so was that one */
	assert_int_equal(ask("far"), -EINTR);
	assert_int_equal(ask("honest"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cpu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_took, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_states, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_results, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
