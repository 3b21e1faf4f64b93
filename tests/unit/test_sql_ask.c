/* SPDX-License-Identifier: Apache-2.0 */
/* A server that was taken over cannot end the process that asks PostgreSQL for it. */
#include "sql/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void test_no_questions(void **state)
{
	struct sql_asker a = SQL_ASKER_NONE;
	struct sql_question q = { .n = UINT32_MAX };
	static struct sql_answer answer;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(sql_asker_start(&a, "host=127.0.0.1 port=1", &err), 0);
	assert_int_equal(send(a.fd, "", 0, MSG_NOSIGNAL), 0);
	assert_int_equal(send(a.fd, "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(send(a.fd, &q, sizeof(q), MSG_NOSIGNAL), sizeof(q));
	q = (struct sql_question){ .n = 1, .id = { 42 } };
	assert_int_equal(send(a.fd, &q, sizeof(q), MSG_NOSIGNAL), sizeof(q));
	assert_true(recv(a.fd, &answer, sizeof(answer), 0) > 0);
	assert_true(answer.error[0] && !answer.n); /* nobody is at that port */
	assert_int_equal(waitpid(a.pid, NULL, WNOHANG), 0);
	sql_asker_stop(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_questions) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
