/* SPDX-License-Identifier: Apache-2.0 */
/* Why a stack waits, whichever end it is seen from: docs/architecture-waits.md has the rules. */
#include "query/wait_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#define DEPTH 8

/* Functions from the leaf to the root, those of the kernel with a '+' before them. */
static const struct {
	const char *function[DEPTH];
	enum wait_class class;
	bool earlier;
} stacks[] = {
	/* The weak rule nearest to the root */
	{ { "+anon_pipe_read", "read", "main" }, WAIT_CLASS_PIPE, false },
	{ { "+anon_pipe_read", "sem_wait", "main" }, WAIT_CLASS_OTHER, false },
	{ { "+do_wait", "sem_wait", "pthread_cond_wait", "main" }, WAIT_CLASS_IDLE, false },
	{ { "+sock_recvmsg", "+__x64_sys_nanosleep", "main" }, WAIT_CLASS_SLEEP, false },
	/* A firm rule nearest to the leaf, before all weak ones */
	{ { "+io_schedule", "+anon_pipe_read", "sem_wait", "main" }, WAIT_CLASS_IO, false },
	{ { "+futex_wait", "pthread_mutex_lock", "pthread_cond_wait", "main" },
	  WAIT_CLASS_LOCK,
	  false },
	{ { "+io_schedule", "pthread_mutex_lock", "pthread_join", "main" }, WAIT_CLASS_IO, false },
	{ { "+schedule", "pthread_join", "pthread_mutex_lock", "main" }, WAIT_CLASS_OTHER, false },
	{ { "+sock_recvmsg", "pthread_mutex_lock", "main" }, WAIT_CLASS_LOCK, false },
	/* A futex by itself tells nothing, but for a wait that began before the recording */
	{ { "+futex_wait", "+__x64_sys_futex", "main" }, WAIT_CLASS_OTHER, false },
	{ { "+futex_wait", "+__x64_sys_futex" }, WAIT_CLASS_IDLE, true },
	{ { "+futex_wait", "+__arm64_sys_futex_time32" }, WAIT_CLASS_IDLE, true },
	{ { "+schedule", "+__x64_sys_futex", "sem_wait" }, WAIT_CLASS_OTHER, true },
	{ { "+schedule", "+__x64_sys_read" }, WAIT_CLASS_OTHER, true },
	{ { "+[no stack]" }, WAIT_CLASS_UNKNOWN, false },
	{ { "main" }, WAIT_CLASS_OTHER, false },
};

static struct wait_frame frame_of(const char *function)
{
	bool kernel = function[0] == '+';
	return wait_frame_of(kernel ? FRAME_KERNEL : FRAME_USER, function + kernel, "", "");
}

static void from_both_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		struct wait_decision up = { 0 }, down = { 0 };
		size_t n = 0;
		while (n < DEPTH && stacks[i].function[n])
			n++;
		for (size_t k = 0; k < n; k++) {
			struct wait_frame leaf_first = frame_of(stacks[i].function[k]),
					  root_first = frame_of(stacks[i].function[n - 1 - k]);
			wait_see_towards_root(&up, &leaf_first);
			wait_see_towards_leaf(&down, &root_first);
		}
		enum wait_class a = wait_decided(&up, stacks[i].earlier),
				b = wait_decided(&down, stacks[i].earlier);
		if (a != stacks[i].class || b != stacks[i].class)
			fail_msg("%s, stack %zu: %s from the leaf, %s from the root",
				 stacks[i].function[0], i, wait_class_names[a],
				 wait_class_names[b]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(from_both_ends) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
