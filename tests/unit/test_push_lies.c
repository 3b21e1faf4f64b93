/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that pushes was taken over by its receiver, and tells the daemon what is no value of
 * its type, or a text that a terminal obeys.
 */
#include "daemon/log.h"
#include "daemon/pushing.h"
#include "sandbox/anew.h"
#include "sandbox/kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* U+009B begins a command of a terminal, U+202E turns what follows round; 0x9b is no UTF-8. */
#define COMMANDS \
	"\xc2\x9b" \
	"31m \xe2\x80\xae \x9b \x1b[1m"

/* This program executed anew, before the constructors of its children see their names. */
__attribute__((constructor(101))) static void begin(int argc, char **argv)
{
	static struct push_stats st = { .oldest_ns = INT64_MIN, .text = COMMANDS };
	if (argc < 2 || strcmp(argv[1], "push") != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(&st.failing, 0xff, 1);
	(void)!send(ANEW_FD, &st, sizeof(st), MSG_NOSIGNAL);
	pause();
}

static void test_values(void **state)
{
	struct pushing p = { 0 };
	struct push_published published[DAEMON_PUSH_MAX];
	struct push_config c = { .url = "http://127.0.0.1:1/x" };
	struct buf out = BUF_INIT;
	struct err err = { 0 };
	uint8_t failing = 0;
	(void)state;
	if (pusher_start(&p.of[0], &c, "url: http://127.0.0.1:1/x", &err))
		fail_msg("%s", err.text);
	p.n = 1;
	for (unsigned i = 0; i < 200 && !failing; i++) {
		poll(NULL, 0, 10);
		memcpy(&failing, &pusher_look(p.of[0])->failing, 1);
	}
	assert_int_equal(failing, 1);
	assert_int_equal(pushing_publish(&p, published), 1);
	assert_int_equal(pushing_metrics(published, 1, &out), 0);
	assert_int_equal(buf_add_u8(&out, 0), 0);
	const char *lag = strstr((const char *)out.data, "\nascribe_push_lag_seconds{");
	assert_non_null(lag);
	assert_true(strtod(strchr(lag, '}') + 1, NULL) >= 0);
	assert_non_null(strstr((const char *)out.data, "ascribe_push_failing{target=\"otlp to "
						       "127.0.0.1:1\"} 1\n"));
	buf_fini(&out);
	pushing_end(&p);
}

static void test_text(void **state)
{
	char line[256] = "";
	int ends[2];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	const int before = dup(2);
	dup2(ends[1], 2);
	unsetenv("JOURNAL_STREAM");
	log_line(LOG_LINE_WARNING, "push: %s \xc3\xa9", COMMANDS);
	fflush(stderr);
	dup2(before, 2);
	assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
	assert_string_equal(line, "ascribe: warning: push: ?31m ? ? ?[1m \xc3\xa9\n");
	close(before);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	static keeper_op *const ops[] = { pusher_op, kept_op };
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_values),
					    cmocka_unit_test(test_text) };
	char store[] = "store", *const arguments[] = { store, NULL };
	struct err err = { 0 };
	if (keeper_start(ops, sizeof(ops) / sizeof(ops[0]), arguments, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	keeper_end();
	return rc;
}
