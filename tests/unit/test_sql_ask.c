/* SPDX-License-Identifier: Apache-2.0 */
/* A server that was taken over cannot end the process that asks PostgreSQL for it. */
#include "sql/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* To the question that came, with one statement more than was asked for. */
static void answer_question(int fd, const char *text, bool twice)
{
	struct sql_question q;
	static struct sql_answer a;
	assert_int_equal(recv(fd, &q, sizeof(q), MSG_DONTWAIT), sizeof(q));
	assert_int_equal(q.n, 1);
	a = (struct sql_answer){ .number = q.number, .n = 2, .id = { q.id[0], q.id[0] + 6 } };
	const size_t len = offsetof(struct sql_answer, data) +
			   (size_t)snprintf(a.data, sizeof(a.data), "%s%clie", text, 0) + 1;
	for (int i = 0; i < 1 + twice; i++)
		assert_int_equal(send(fd, &a, len, MSG_NOSIGNAL), len);
}

static void expect(struct sql_texts *t, int64_t id, enum sql_state state, const char *want)
{
	char *text, error[SQL_ERROR_MAX];
	assert_int_equal(sql_texts_look(t, &id, 1, &text, error), state);
	if (want)
		assert_string_equal(text, want);
	else
		assert_null(text);
	free(text);
}

/* A process that was taken over answers for others' questions, and for those that come later. */
static void test_lies(void **state)
{
	struct sql_texts *t;
	int fd[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	assert_int_equal(sql_texts_new(&t, fd[0]), 0);
	expect(t, 1, SQL_PENDING, NULL);
	answer_question(fd[1], "one", true);
	expect(t, 1, SQL_DONE, "one");
	expect(t, 7, SQL_PENDING, NULL);
	expect(t, 7, SQL_PENDING, NULL); /* the second answer is none to this question */
	answer_question(fd[1], "seven", false);
	expect(t, 7, SQL_DONE, "seven");
	sql_texts_free(t);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_questions),
					    cmocka_unit_test(test_lies) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
