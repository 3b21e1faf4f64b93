/* SPDX-License-Identifier: Apache-2.0 */
/* Why a stack waits, whichever end it is seen from: docs/architecture-waits.md has the rules. */
#include "query/frame_words.h"
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

/* Whose frame it is: of the C library, a runtime, the program. */
static void owners(void **state)
{
	static const struct {
		const char *function, *module, *file;
		enum wait_owner owner;
	} v[] = {
		{ "work", "/bin/demo", "", WAIT_OWNER_PROGRAM },
		{ "__work", "/bin/demo", "", WAIT_OWNER_LIBC },
		{ "_work", "/bin/demo", "", WAIT_OWNER_PROGRAM },
		{ "w_ork", "/bin/demo", "", WAIT_OWNER_PROGRAM },
		{ "_", "/bin/demo", "", WAIT_OWNER_PROGRAM },
		{ "", "/bin/demo", "", WAIT_OWNER_UNNAMED },
		{ "", "", "", WAIT_OWNER_RUNTIME },
		{ "", "/", "", WAIT_OWNER_RUNTIME },
		{ "poll", "/bin/demo", "", WAIT_OWNER_LIBC },
		{ "work", "/lib/libc.so.6", "", WAIT_OWNER_LIBC },
		{ "work", "libc.so.6", "", WAIT_OWNER_LIBC },
		{ "work", "/opt/libpython3.11.so.1.0", "", WAIT_OWNER_RUNTIME },
		{ "work", "/opt/lib-dynload/x.so", "", WAIT_OWNER_RUNTIME },
		{ "work", "/opt/lib-dynlod/x.so", "", WAIT_OWNER_PROGRAM },
		{ "runtime.park", "/bin/demo", "", WAIT_OWNER_RUNTIME },
		{ "void java.lang.Thread.run()", "/bin/demo", "", WAIT_OWNER_RUNTIME },
		{ "WaitLatch", "/bin/demo", "", WAIT_OWNER_RUNTIME },
		/* Shared objects in a directory of the system, not below one */
		{ "work", "/usr/lib/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "/usr/lib64/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "/lib32/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "lib/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "/usr/lib/x86_64-linux-gnu/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "lib/x86_64-linux-gnu/libx.so.1", "", WAIT_OWNER_RUNTIME },
		{ "work", "/opt/x86_64-linux-gnu/libx.so.1", "", WAIT_OWNER_PROGRAM },
		{ "work", "x86_64-linux-gnu/libx.so.1", "", WAIT_OWNER_PROGRAM },
		{ "work", "/usr/lib/demo/libx.so.1", "", WAIT_OWNER_PROGRAM },
		{ "work", "/usr/lib/demo", "", WAIT_OWNER_PROGRAM },
		{ "work", "/usr/libs/libx.so", "", WAIT_OWNER_PROGRAM },
		{ "work", "/usr/li/libx.so", "", WAIT_OWNER_PROGRAM },
		{ "work", "libx.so", "", WAIT_OWNER_PROGRAM },
		{ "work", "/libx.so", "", WAIT_OWNER_PROGRAM },
		/* Code of interpreters, by its source */
		{ "work", "/bin/demo", "<frozen os>", WAIT_OWNER_RUNTIME },
		{ "work", "/bin/demo", "<frozen>", WAIT_OWNER_PROGRAM },
		{ "work", "/bin/demo", "node:net", WAIT_OWNER_RUNTIME },
		{ "work", "/bin/demo", "node/net", WAIT_OWNER_PROGRAM },
		{ "work", "/bin/demo", "/usr/lib/python3/queue.py", WAIT_OWNER_RUNTIME },
		{ "work", "/bin/demo", "/usr/lib/python3/dist-packages/x.py", WAIT_OWNER_PROGRAM },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct wait_frame f =
			wait_frame_of(FRAME_USER, v[i].function, v[i].module, v[i].file);
		if (f.owner != v[i].owner)
			fail_msg("%s in %s, %s: %d", v[i].function, v[i].module, v[i].file,
				 f.owner);
	}
	/* In a client's library of whatever name it waits for a server */
	struct wait_frame f = wait_frame_of(FRAME_USER, "work", "/opt/libpq.so.5", "");
	assert_int_equal(f.class, WAIT_CLASS_NETWORK);
	assert_int_equal(f.rule, WAIT_RULE_FIRM);
	f = wait_frame_of(FRAME_USER, "pthread_mutex_lock", "/opt/libpq.so.5", "");
	assert_int_equal(f.class, WAIT_CLASS_LOCK);
	f = wait_frame_of(FRAME_USER, "work", "/opt/libp.so.5", "");
	assert_int_equal(f.rule, WAIT_RULE_NONE);
	f = wait_frame_of(FRAME_IDLE, "work", "/opt/libpq.so.5", "");
	assert_int_equal(f.rule, WAIT_RULE_NONE);
	assert_int_equal(f.owner, WAIT_OWNER_KERNEL);
}

static void words(void **state)
{
	static const struct {
		const char *words, *name;
		bool matches;
	} v[] = {
		{ "abc", "abc", true },	     { "abc", "ab", false },
		{ "abc", "abcd", false },    { "abc", "abc(int)", true },
		{ "abc", "abc@v1", true },   { "abc", "abc.cold", true },
		{ "abc", "abc<int>", true }, { "abc", "abc>", false },
		{ "abc", "xabc", false },    { "abc*", "abc", true },
		{ "abc*", "abcd", true },    { "abc*", "abd", false },
		{ "abc*", "ab", false },     { "*abc", "xabc", true },
		{ "*abc", "xabcx", true },   { "*abc", "abc", true },
		{ "*abc", "ab", false },     { "*abc", "xbc", false },
		{ "x abc", "abc", true },    { " x  abc ", "abc", true },
		{ "abc x", "abc", true },    { "x y", "abc", false },
		{ "", "abc", false },	     { " ", "", false },
		{ "xabc", "abc", false },    { "ab c", "abc", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (frame_words_match(v[i].words, v[i].name) != v[i].matches)
			fail_msg("'%s' and '%s'", v[i].words, v[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_both_ends),
		cmocka_unit_test(owners),
		cmocka_unit_test(words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
