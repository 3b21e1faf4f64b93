/* SPDX-License-Identifier: Apache-2.0 */
#include "query/lock_frames.h"

#include "query/frame_words.h"

#include <stddef.h>

const char *const lock_kind_names[LOCK_KINDS] = {
	[LOCK_NONE] = "",
	[LOCK_MUTEX] = "mutex",
	[LOCK_RWLOCK] = "rwlock",
	[LOCK_CONDVAR] = "condvar",
	[LOCK_SEMAPHORE] = "semaphore",
	[LOCK_BARRIER] = "barrier",
	[LOCK_JOIN] = "join",
	[LOCK_GO_RUNTIME] = "go runtime",
	[LOCK_GO_PARK] = "go park",
	[LOCK_PARKED_MUTEX] = "parked mutex",
	[LOCK_JAVA_MONITOR] = "java monitor",
	[LOCK_JAVA_PARK] = "java park",
	[LOCK_PYTHON_GIL] = "python gil",
	[LOCK_PYTHON_LOCK] = "python lock",
	[LOCK_JAVA_LOCK] = "java lock",
	[LOCK_LWLOCK] = "lwlock",
	[LOCK_POSTGRESQL] = "postgresql lock",
	[LOCK_MYSQL] = "mysql lock",
	[LOCK_KERNEL_MUTEX] = "kernel mutex",
	[LOCK_KERNEL_RWSEM] = "kernel rwsem",
	[LOCK_FILE] = "file lock",
	[LOCK_FUTEX] = "futex",
};

/* ---- kinds ---- */

struct rule {
	const char *words; /* frame_words.h */
	enum lock_kind kind;
};

static const struct rule kernel_rules[] = {
	{ "futex_lock_pi*", LOCK_MUTEX }, /* with priority inheritance: no other call is made so */
	{ "mutex_lock* __mutex_lock* ww_mutex_lock*", LOCK_KERNEL_MUTEX },
	{ "rwsem_down_* down_read* down_write* percpu_rwsem_wait* percpu_down_*",
	  LOCK_KERNEL_RWSEM },
	{ "fcntl_setlk* posix_lock_inode_wait flock_lock_inode_wait locks_lock_inode_wait",
	  LOCK_FILE },
};

static const struct rule user_rules[] = {
	{ "pthread_mutex_* __pthread_mutex_* ___pthread_mutex_* __lll_lock_wait* lll_mutex_lock* "
	  "runtime/internal/futex* uv_mutex_lock *::lock_contended std::mutex::lock*",
	  LOCK_MUTEX },
	{ "pthread_rwlock_* __pthread_rwlock_* ___pthread_rwlock_* uv_rwlock_* "
	  "*RwLock::read_contended *RwLock::write_contended *::ssux_lock *ssux_lock_impl* "
	  "*srw_lock_impl*",
	  LOCK_RWLOCK },
	{ "*srw_mutex_impl*", LOCK_MUTEX },
	{ "pthread_cond_* __pthread_cond_* ___pthread_cond_* uv_cond_* *::Condvar::wait* "
	  "std::condition_variable::*",
	  LOCK_CONDVAR },
	{ "sem_wait sem_timedwait sem_clockwait __new_sem_wait* do_futex_wait uv_sem_wait",
	  LOCK_SEMAPHORE },
	{ "pthread_barrier_wait ___pthread_barrier_wait", LOCK_BARRIER },
	{ "pthread_join pthread_timedjoin_np pthread_clockjoin_np __pthread_clockjoin_ex "
	  "___pthread_join __pthread_timedjoin_ex",
	  LOCK_JOIN },
	{ "runtime.lock2 runtime.lockWithRank", LOCK_GO_RUNTIME },
	{ "runtime.notesleep runtime.notetsleep* runtime.stopm runtime.mPark", LOCK_GO_PARK },
	{ "*RawMutex::lock_slow *RawRwLock::lock_* absl::*Mutex::Lock*", LOCK_PARKED_MUTEX },
	{ "ObjectMonitor::enter* ObjectMonitor::EnterI* ObjectMonitor::ReenterI* "
	  "ObjectSynchronizer::enter*",
	  LOCK_JAVA_MONITOR },
	{ "Unsafe_Park Parker::park", LOCK_JAVA_PARK },
	{ "*ReentrantLock.lock *ReentrantReadWriteLock$ReadLock.lock "
	  "*ReentrantReadWriteLock$WriteLock.lock *StampedLock.readLock *StampedLock.writeLock",
	  LOCK_JAVA_LOCK },
	{ "take_gil", LOCK_PYTHON_GIL },
	{ "PyThread_acquire_lock* lock_PyThread_acquire_lock", LOCK_PYTHON_LOCK },
	{ "LWLockAcquire* LWLockWaitForVar", LOCK_LWLOCK },
	{ "ProcSleep WaitOnLock", LOCK_POSTGRESQL },
	{ "MDL_wait::timed_wait lock_wait(que_thr_t* lock_wait_suspend_thread", LOCK_MYSQL },
};

/* Functions that release a lock. A wait for a condition releases its mutex. */
static const char kernel_releases[] =
	"mutex_unlock* __mutex_unlock* ww_mutex_unlock* up_read* up_write* __up_read* __up_write* "
	"rwsem_wake* percpu_up_* futex_unlock_pi* locks_delete_lock* locks_wake_up_blocks* "
	"locks_remove_* flock_lock_inode* posix_lock_inode*";
static const char user_releases[] =
	"pthread_mutex_unlock* __pthread_mutex_unlock* ___pthread_mutex_unlock* "
	"pthread_rwlock_unlock* __pthread_rwlock_unlock* ___pthread_rwlock_unlock* pthread_cond_* "
	"__pthread_cond_* ___pthread_cond_* runtime.unlock2 runtime.unlockWithRank *::unlock* "
	"*::rd_unlock* *::wr_unlock* *::u_unlock* *::Unlock* ObjectMonitor::exit* "
	"ObjectMonitor::ExitEpilog* ObjectMonitor::wait* ObjectSynchronizer::exit* "
	"*ReentrantLock.unlock *ReadLock.unlock *WriteLock.unlock *StampedLock.unlock "
	"*$ConditionObject.await drop_gil "
	"PyEval_SaveThread LockRelease* ProcLockWakeup ProcReleaseLocks LWLockRelease* LWLockWakeup* "
	"MDL_context::release_* MDL_lock::remove_ticket* MDL_lock::reschedule_waiters* "
	"lock_release* lock_grant* lock_rec_unlock* ha_commit_* ha_rollback_*";

/* What MariaDB and MySQL export of these calls. InnoDB's own functions have no names there. */
static const char engine_calls[] = "handler::ha_*";

struct lock_frame lock_frame_of(bool kernel, const char *function)
{
	const struct rule *rules = kernel ? kernel_rules : user_rules;
	size_t n = kernel ? sizeof(kernel_rules) / sizeof(*rules)
			  : sizeof(user_rules) / sizeof(*rules);
	struct lock_frame f = { 0 };
	if (!*function)
		return f;
	for (size_t i = 0; i < n && !f.kind; i++)
		if (frame_words_match(rules[i].words, function))
			f.kind = (uint8_t)rules[i].kind;
	f.release = frame_words_match(kernel ? kernel_releases : user_releases, function);
	f.engine = !kernel && frame_words_match(engine_calls, function);
	return f;
}

/* The C library's locks, what runtimes make of them, what servers make of these; the kernel's. */
static unsigned layer(enum lock_kind kind)
{
	return kind == LOCK_NONE	  ? 0
	       : kind <= LOCK_JOIN	  ? 1
	       : kind <= LOCK_PYTHON_LOCK ? 2
	       : kind <= LOCK_MYSQL	  ? 3
					  : 4;
}

enum lock_kind lock_kind_towards_root(enum lock_kind so_far, enum lock_kind frame)
{
	return layer(frame) > layer(so_far) ? frame : so_far;
}

enum lock_kind lock_kind_towards_leaf(enum lock_kind so_far, enum lock_kind frame)
{
	return frame && layer(frame) >= layer(so_far) ? frame : so_far;
}

bool lock_kind_is_futex(enum lock_kind kind)
{
	return kind <= LOCK_GO_RUNTIME || kind == LOCK_PYTHON_GIL || kind == LOCK_PYTHON_LOCK ||
	       kind == LOCK_FUTEX;
}

bool lock_kind_is_idle(enum lock_kind kind)
{
	return kind == LOCK_CONDVAR || kind == LOCK_GO_PARK || kind == LOCK_JAVA_PARK;
}

/* ---- the waker ---- */

/* What lets a waker be called the holder. */
enum proof {
	NEVER = 0,
	BY_FUTEX,     /* only who holds it releases its futex */
	UNLESS_STACK, /* the same, unless the waker's stack shows no release */
	BY_STACK,     /* only a release in the waker's stack */
};

static const uint8_t proofs[LOCK_KINDS] = {
	[LOCK_MUTEX] = BY_FUTEX,
	[LOCK_RWLOCK] = UNLESS_STACK, /* a reader that gets it may let in the others */
	[LOCK_GO_RUNTIME] = BY_FUTEX,
	[LOCK_PARKED_MUTEX] = UNLESS_STACK,
	[LOCK_JAVA_MONITOR] = UNLESS_STACK,
	[LOCK_JAVA_LOCK] = UNLESS_STACK,
	[LOCK_PYTHON_GIL] = UNLESS_STACK,
	[LOCK_LWLOCK] = UNLESS_STACK,
	[LOCK_POSTGRESQL] = BY_STACK,
	[LOCK_MYSQL] = BY_STACK,
	[LOCK_KERNEL_MUTEX] = BY_STACK,
	[LOCK_KERNEL_RWSEM] = BY_STACK,
	[LOCK_FILE] = BY_STACK,
};

static bool held(enum lock_kind kind, const struct lock_end *end)
{
	switch ((enum proof)proofs[kind]) {
	case BY_FUTEX:
		return end->released;
	case UNLESS_STACK:
		return end->released && (!end->stack || end->release);
	case BY_STACK:
		return end->stack && end->release;
	case NEVER:
		break;
	}
	return false;
}

const char *lock_waker_is(enum lock_kind kind, const struct lock_end *end)
{
	if (end->unknown)
		return "unknown";
	if (end->interrupt)
		return "interrupt";
	if (held(kind, end))
		return "holder";
	if (end->released && kind == LOCK_CONDVAR)
		return "signaller";
	if (end->released && (kind == LOCK_SEMAPHORE || kind == LOCK_PYTHON_LOCK))
		return "poster";
	return "waker";
}
