/* SPDX-License-Identifier: Apache-2.0 */
/* libascribe-label.so with bad input, read back by the tests' own reader of the ABI. */
#include "labels/reader.h"
#include "../../lib/label/thread.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>

static const char *seen(void)
{
	static struct reading r;
	const char *wrong = reader_read("test_label_thread", &r);
	assert_null(wrong);
	return r.text;
}

static void bad_arguments(void **state)
{
	size_t big = 65536;
	char *text = malloc(big), value[300];
	(void)state;
	memset(text, 'x', big);
	assert_int_equal(ascribe_thread_set(NULL, 1, "v", 1), -EINVAL);
	assert_int_equal(ascribe_thread_set("k", 0, "v", 1), -EINVAL);
	assert_int_equal(ascribe_thread_set(text, big, "v", 1), -EINVAL);
	assert_int_equal(ascribe_thread_set("k", 1, NULL, 0), -EINVAL);
	assert_string_equal(seen(), "");
	assert_int_equal(ascribe_thread_set("k", 1, text, big), 0);
	memcpy(value, "k=", 2);
	memset(value + 2, 'x', 255);
	value[257] = 0;
	assert_string_equal(seen(), value);
	assert_int_equal(ascribe_thread_set("k", 1, "\xff\xfe", 2), 0);
	assert_string_equal(seen(), "k=\xff\xfe");
	assert_int_equal(ascribe_thread_set_int("n", 1, INT64_MIN), 0);
	assert_string_equal(seen(), "k=\xff\xfe,n=#-9223372036854775808");
	assert_int_equal(ascribe_thread_unset("k", 1), 0);
	assert_string_equal(seen(), "n=#-9223372036854775808");
	assert_int_equal(ascribe_thread_unset("n", 1), 0);
	assert_null(ascribe_current());
	free(text);
}

static void saved(void **state)
{
	char room[ASCRIBE_THREAD_SAVED_MAX], bad[ASCRIBE_THREAD_SAVED_MAX];
	(void)state;
	assert_int_equal(ascribe_thread_set("k", 1, "v", 1), 0);
	int n = ascribe_thread_save(room, sizeof(room));
	assert_int_equal(n, 63);
	assert_int_equal(ascribe_thread_save(bad, 62), -ENOSPC);
	assert_int_equal(ascribe_thread_restore(NULL, 0), 0);
	assert_null(ascribe_current());
	for (int i = 0; i < n; i++) { /* each byte changed: refused, or something harmless */
		memcpy(bad, room, sizeof(bad));
		bad[i] ^= 0x55;
		int rc = ascribe_thread_restore(bad, (size_t)n);
		assert_true(rc == 0 || rc == -EINVAL);
		(void)ascribe_thread_set("other", 5, "o", 1);
		(void)ascribe_thread_unset("k", 1);
		assert_int_equal(ascribe_thread_restore(room, (size_t)n - 1), -EINVAL);
		assert_int_equal(ascribe_thread_restore(NULL, 0), 0);
	}
	assert_int_equal(ascribe_thread_restore(room, (size_t)n), 0);
	assert_string_equal(seen(), "k=v");
	assert_int_equal(ascribe_thread_restore(NULL, 0), 0);
}

static void *thread(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)(ascribe_current() ? 1 : ascribe_thread_set("k", 1, "t", 1));
}

static void threads_and_fork(void **state)
{
	int status = -1;
	(void)state;
	assert_int_equal(ascribe_thread_set("k", 1, "v", 1), 0);
	for (int i = 0; i < 1000; i++) {
		pthread_t t;
		void *rc;
		assert_int_equal(pthread_create(&t, NULL, thread, NULL), 0);
		pthread_join(t, &rc);
		assert_null(rc);
	}
	pid_t child = fork();
	if (!child)
		_exit(strcmp(seen(), "k=v") || ascribe_thread_set("c", 1, "c", 1) ||
		      strcmp(seen(), "c=c,k=v"));
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_string_equal(seen(), "k=v");
	assert_int_equal(ascribe_thread_restore(NULL, 0), 0);
}

static void thousand_keys(void **state)
{
	int added = 0, refused = 0;
	(void)state;
	for (int i = 0; i < 1000; i++) {
		char key[8];
		int rc =
			ascribe_thread_set(key, (size_t)snprintf(key, sizeof(key), "%d", i), "", 0);
		added += rc == 0;
		refused += rc == -ENOSPC;
		assert_int_equal(ascribe_thread_restore(NULL, 0), 0);
	}
	assert_in_range(added, 245, 255);
	assert_int_equal(added + refused, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_arguments),
		cmocka_unit_test(saved),
		cmocka_unit_test(threads_and_fork),
		cmocka_unit_test(thousand_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
