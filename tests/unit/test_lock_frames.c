/* SPDX-License-Identifier: Apache-2.0 */
/* Which lock a stack waits for, and when a waker may be called its holder. */
#include "query/wait_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

/* Functions from the leaf to the root, those of the kernel with a '+' before them. */
#define DEPTH 8
struct stack {
	const char *function[DEPTH];
	enum lock_kind kind;
};

static const struct stack stacks[] = {
	{ { "+futex_wait", "__lll_lock_wait", "___pthread_mutex_lock", "refill" }, LOCK_MUTEX },
	{ { "+futex_wait", "pthread_mutex_lock@@GLIBC_2.2.5", "refill" }, LOCK_MUTEX },
	{ { "+futex_lock_pi", "__pthread_mutex_lock_full", "refill" }, LOCK_MUTEX },
	{ { "+rt_mutex_wait_proxy_lock", "+futex_lock_pi", "", "refill" }, LOCK_MUTEX },
	{ { "+futex_lock_pi", "", "pthread_cond_wait", "take" }, LOCK_MUTEX },
	/* glibc 2.41 without names for its own functions (symbols/tails.h) */
	{ { "+futex_wait", "", "pthread_mutex_clocklock|pthread_mutex_timedlock", "refill" },
	  LOCK_MUTEX },
	{ { "+futex_wait", "__pthread_rwlock_rdlock_full64", "lookup" }, LOCK_RWLOCK },
	{ { "+futex_wait", "___pthread_cond_wait", "take", "worker" }, LOCK_CONDVAR },
	/* A mutex that is locked again is nearer to the leaf */
	{ { "+futex_wait", "__pthread_mutex_cond_lock", "___pthread_cond_wait", "take" },
	  LOCK_MUTEX },
	{ { "+futex_wait", "do_futex_wait.constprop.0", "__new_sem_wait_slow64.constprop.1" },
	  LOCK_SEMAPHORE },
	{ { "+futex_wait", "__pthread_clockjoin_ex", "main" }, LOCK_JOIN },
	/* What a runtime or a server makes of these */
	{ { "+futex_wait", "pthread_cond_wait", "os::PlatformEvent::park()",
	    "ObjectMonitor::enter(JavaThread*)", "Interpreter" },
	  LOCK_JAVA_MONITOR },
	{ { "+futex_wait", "pthread_cond_wait", "Parker::park(bool, long)",
	    "void java.util.concurrent.locks.LockSupport.park(java.lang.Object)",
	    "void java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(int)",
	    "void java.util.concurrent.locks.ReentrantLock.lock()", "void Orders.take()" },
	  LOCK_JAVA_LOCK },
	{ { "+futex_wait", "pthread_cond_wait", "Parker::park(bool, long)",
	    "void java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(int)",
	    "void java.util.concurrent.CountDownLatch.await()", "void Orders.take()" },
	  LOCK_JAVA_PARK },
	{ { "+futex_wait", "pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread" },
	  LOCK_PYTHON_GIL },
	{ { "+futex_wait", "runtime.futex.abi0", "runtime.futexsleep", "runtime.lock2",
	    "runtime.lockWithRank" },
	  LOCK_GO_RUNTIME },
	{ { "+futex_wait", "runtime.futex.abi0", "runtime.futexsleep", "runtime.notesleep",
	    "runtime.mPark" },
	  LOCK_GO_PARK },
	{ { "+futex_wait", "do_futex_wait", "PGSemaphoreLock", "LWLockAcquire", "XLogInsert" },
	  LOCK_LWLOCK },
	{ { "+do_epoll_wait", "epoll_wait", "WaitEventSetWait", "WaitLatch", "ProcSleep" },
	  LOCK_POSTGRESQL },
	{ { "+futex_wait", "pthread_cond_timedwait", "MDL_wait::timed_wait(THD*)", "open_table" },
	  LOCK_MYSQL },
	/* Of a row, in a program without names of InnoDB's; a mutex there is a mutex */
	{ { "+futex_wait", "pthread_cond_timedwait", "",
	    "handler::ha_index_read_map(unsigned char*, unsigned char const*, unsigned long, "
	    "ha_rkey_function)",
	    "mysql_update" },
	  LOCK_MYSQL },
	{ { "+futex_wait", "pthread_mutex_lock", "",
	    "handler::ha_write_row(unsigned char const*)" },
	  LOCK_MUTEX },
	/* A lock of the kernel wins over all, also in a call of futex */
	{ { "+rwsem_down_read_slowpath", "+down_read", "+__x64_sys_futex", "pthread_mutex_lock" },
	  LOCK_KERNEL_RWSEM },
	{ { "+__mutex_lock.constprop.0", "+pipe_write", "write" }, LOCK_KERNEL_MUTEX },
	{ { "+pipe_read", "read", "main" }, LOCK_NONE },
	{ { "+schedule", "my_pthread_mutex_lock", "lock_wait_stats" }, LOCK_NONE },
};

static struct wait_frame frame_of(const char *function)
{
	bool kernel = function[0] == '+';
	return wait_frame_of(kernel ? FRAME_KERNEL : FRAME_USER, function + kernel, "", "");
}

static void kinds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		const struct stack *s = &stacks[i];
		struct wait_decision up = { 0 }, down = { 0 };
		size_t n = 0;
		while (n < DEPTH && s->function[n])
			n++;
		for (size_t k = 0; k < n; k++) {
			struct wait_frame leaf_first = frame_of(s->function[k]),
					  root_first = frame_of(s->function[n - 1 - k]);
			wait_see_towards_root(&up, &leaf_first);
			wait_see_towards_leaf(&down, &root_first);
		}
		const enum lock_kind of_up = wait_lock_decided(&up),
				     of_down = wait_lock_decided(&down);
		if (of_up != s->kind || of_down != s->kind)
			fail_msg("%s below %s: %s, %s", s->function[0], s->function[1],
				 lock_kind_names[of_up], lock_kind_names[of_down]);
	}
}

static void releases(void **state)
{
	static const char *const yes[] = { "pthread_mutex_unlock@@GLIBC_2.2.5",
					   "__pthread_rwlock_unlock",
					   "pthread_cond_wait",
					   "+mutex_unlock",
					   "+up_read",
					   "ObjectMonitor::exit(JavaThread*, bool)",
					   "ProcLockWakeup",
					   "ha_commit_trans(THD*, bool)" },
				 *const no[] = { "pthread_rwlock_rdlock", "pthread_kill", "main",
						 "+try_to_wake_up", "pthread_mutex_lock" };
	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(frame_of(yes[i]).lock.release);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(frame_of(no[i]).lock.release);
}

static void holders(void **state)
{
	const struct lock_end futex = { .released = true },
			      release = { .released = true, .stack = true, .release = true },
			      handed = { .released = true, .stack = true },
			      stack = { .stack = true },
			      by_stack = { .stack = true, .release = true }, nothing = { 0 },
			      timeout = { .interrupt = true }, part = { .unknown = true };
	static const struct {
		enum lock_kind kind;
		/* By a futex; with a release, or another stack; by a signal, with a stack; by a
		 * release that was no futex; by nothing that is known */
		const char *is[6];
	} rows[] = {
		{ LOCK_MUTEX, { "holder", "holder", "holder", "waker", "waker", "waker" } },
		{ LOCK_RWLOCK, { "holder", "holder", "waker", "waker", "waker", "waker" } },
		{ LOCK_JAVA_MONITOR, { "holder", "holder", "waker", "waker", "waker", "waker" } },
		{ LOCK_CONDVAR,
		  { "signaller", "signaller", "signaller", "waker", "waker", "waker" } },
		{ LOCK_SEMAPHORE, { "poster", "poster", "poster", "waker", "waker", "waker" } },
		{ LOCK_PYTHON_LOCK, { "poster", "poster", "poster", "waker", "waker", "waker" } },
		{ LOCK_JAVA_PARK, { "waker", "waker", "waker", "waker", "waker", "waker" } },
		{ LOCK_FUTEX, { "waker", "waker", "waker", "waker", "waker", "waker" } },
		{ LOCK_POSTGRESQL, { "waker", "holder", "waker", "waker", "holder", "waker" } },
		{ LOCK_KERNEL_MUTEX, { "waker", "holder", "waker", "waker", "holder", "waker" } },
	};
	const struct lock_end *const ends[] = { &futex, &release,  &handed,
						&stack, &by_stack, &nothing };
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t k = 0; k < 6; k++)
			assert_string_equal(lock_waker_is(rows[i].kind, ends[k]), rows[i].is[k]);
		assert_string_equal(lock_waker_is(rows[i].kind, &timeout), "interrupt");
		assert_string_equal(lock_waker_is(rows[i].kind, &part), "unknown");
	}
}

/* Whose futex it is, and which waits are for work; all others are neither. */
static void kinds_of_waits(void **state)
{
	static const enum lock_kind own_futex[] = { LOCK_PARKED_MUTEX, LOCK_JAVA_MONITOR,
						    LOCK_JAVA_PARK,    LOCK_JAVA_LOCK,
						    LOCK_GO_PARK,      LOCK_LWLOCK,
						    LOCK_POSTGRESQL,   LOCK_MYSQL,
						    LOCK_KERNEL_MUTEX, LOCK_KERNEL_RWSEM,
						    LOCK_FILE },
				    idle[] = { LOCK_CONDVAR, LOCK_GO_PARK, LOCK_JAVA_PARK };
	(void)state;
	for (int kind = 0; kind < LOCK_KINDS; kind++) {
		bool of_thread = false, for_work = false;
		for (size_t i = 0; i < sizeof(own_futex) / sizeof(own_futex[0]); i++)
			of_thread |= own_futex[i] == (enum lock_kind)kind;
		for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
			for_work |= idle[i] == (enum lock_kind)kind;
		assert_int_equal(lock_kind_is_futex((enum lock_kind)kind), !of_thread);
		assert_int_equal(lock_kind_is_idle((enum lock_kind)kind), for_work);
	}
	assert_int_equal(lock_frame_of(false, "").kind, LOCK_NONE);
	assert_false(lock_frame_of(true, "").release);
}

/* Every kind has a name, and they differ. */
static void names(void **state)
{
	(void)state;
	for (int i = 0; i < LOCK_KINDS; i++) {
		assert_non_null(lock_kind_names[i]);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(lock_kind_names[i], lock_kind_names[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(kinds), cmocka_unit_test(releases),
					    cmocka_unit_test(holders),
					    cmocka_unit_test(kinds_of_waits),
					    cmocka_unit_test(names) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
