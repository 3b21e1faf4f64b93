/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who answers what: two workers, questions that come while others are being answered, by a route
 * that answers when the test says so. That a question was passed over is seen by the one behind it
 * being taken; nothing is waited for by time.
 */
#include "http/server_int.h"

#include <errno.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define QUESTIONS 4

static struct http_server server;
static struct request asked[QUESTIONS];
static sem_t taken, answer, done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *which[QUESTIONS]; /* the questions that the route got, in their order */
static unsigned n_taken, n_failures;

/* In place of libmicrohttpd's: there are no connections here. */
void MHD_suspend_connection(struct MHD_Connection *c)
{
	(void)c;
}

void MHD_resume_connection(struct MHD_Connection *c)
{
	(void)c;
	sem_post(&done);
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s))
		;
}

/* Each answer is another one: who has the same has got that of somebody else. */
static int handle(struct request *r, struct store *s, struct err *err)
{
	(void)s;
	pthread_mutex_lock(&lock);
	unsigned n = n_taken++;
	bool fail = n_failures && n_failures--;
	if (n < QUESTIONS)
		which[n] = request_param(r, "q");
	pthread_mutex_unlock(&lock);
	sem_post(&taken);
	wait_for(&answer);
	r->type = "text/plain";
	return fail ? err_set(err, -EINVAL, "as the test wants it")
		    : buf_printf(&r->out, "answer %u", n);
}

static const struct route route = {
	"/q", "q", ROUTE_GET | ROUTE_SLOW | ROUTE_CACHE, 0, handle, NULL
};

static void answers(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sem_post(&answer);
}

static int begin(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	memset(asked, 0, sizeof(asked));
	memset(which, 0, sizeof(which));
	n_taken = n_failures = 0;
	server.cfg.workers = 2;
	server.cfg.queue = 2 * QUESTIONS; /* one asker has three quarters */
	pthread_mutex_init(&server.lock, NULL);
	pthread_cond_init(&server.wake, NULL);
	sem_init(&taken, 0, 0);
	sem_init(&answer, 0, 0);
	sem_init(&done, 0, 0);
	static const char *const dirs[] = { "/nonexistent" };
	static const uint64_t limits[QUOTA_PARTS] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	static const struct access access;
	assert_int_equal(quota_new(&server.quota, limits, &access), 0);
	return snapshots_new(&server.snapshots, dirs, 1, &(struct store_limits){ 0 }) ||
	       cache_new(&server.cache, 1 << 20) || work_start(&server);
}

static int end(void **state)
{
	(void)state;
	answers(QUESTIONS); /* of a test that failed */
	work_stop(&server);
	for (unsigned i = 0; i < QUESTIONS; i++) {
		struct request *r = &asked[i];
		for (size_t k = 0; k < r->n_params; k++) {
			free(r->params[k].name);
			free(r->params[k].value);
		}
		free(r->params);
		free(r->path);
		buf_fini(&r->question);
		buf_fini(&r->out);
	}
	quota_free(server.quota);
	cache_free(server.cache);
	snapshots_free(server.snapshots);
	return 0;
}

static void ask(unsigned i, const char *q)
{
	static const struct access_grant grant = { .may = ACCESS_READ };
	struct request *r = &asked[i];
	r->server = &server;
	r->route = &route;
	r->grant = &grant;
	r->asker = quota_asker(server.quota, &grant, 0);
	r->path = strdup(route.path);
	r->params = calloc(1, sizeof(*r->params));
	assert_non_null(r->params);
	r->params[0] = (struct param){ strdup("q"), strdup(q) };
	r->n_params = 1;
	assert_true(work_add(&server, NULL, r));
}

static void is_answer(unsigned i, const char *text)
{
	assert_int_equal(asked[i].status, 200);
	assert_int_equal(asked[i].out.len, strlen(text));
	assert_memory_equal(asked[i].out.data, text, strlen(text));
}

static void all_done(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		wait_for(&done);
}

/*
 * a is being answered; of a and b, which come then, the second worker takes b: a will have the
 * first one's answer.
 */
static void equal_questions_are_answered_once(void **state)
{
	(void)state;
	ask(0, "a");
	wait_for(&taken);
	ask(1, "a");
	ask(2, "b");
	wait_for(&taken);
	assert_string_equal(which[1], "b");
	answers(QUESTIONS); /* more than are needed, lest a wrong one hangs */
	all_done(3);
	assert_int_equal(n_taken, 2);
	is_answer(0, "answer 0");
	is_answer(1, "answer 0");
	is_answer(2, "answer 1");
}

static void any_number_of_them(void **state)
{
	(void)state;
	ask(0, "a");
	wait_for(&taken);
	for (unsigned i = 1; i < QUESTIONS; i++)
		ask(i, "a");
	answers(QUESTIONS);
	all_done(QUESTIONS);
	assert_int_equal(n_taken, 1);
	for (unsigned i = 0; i < QUESTIONS; i++)
		is_answer(i, "answer 0");
}

/* A question that differs in its parameter alone has its own answer. */
static void others_do_not_wait(void **state)
{
	(void)state;
	ask(0, "a");
	wait_for(&taken);
	ask(1, "aa");
	wait_for(&taken);
	answers(QUESTIONS);
	all_done(2);
	assert_int_equal(n_taken, 2);
	is_answer(0, "answer 0");
	is_answer(1, "answer 1");
}

/* A refusal is nobody else's: who waited is answered for himself. */
static void a_failure_is_not_shared(void **state)
{
	(void)state;
	n_failures = 1;
	ask(0, "a");
	wait_for(&taken);
	ask(1, "a");
	answers(1);
	wait_for(&taken);
	answers(QUESTIONS);
	all_done(2);
	assert_int_equal(n_taken, 2);
	assert_int_equal(asked[0].status, 400);
	is_answer(1, "answer 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(equal_questions_are_answered_once, begin, end),
		cmocka_unit_test_setup_teardown(any_number_of_them, begin, end),
		cmocka_unit_test_setup_teardown(others_do_not_wait, begin, end),
		cmocka_unit_test_setup_teardown(a_failure_is_not_shared, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
