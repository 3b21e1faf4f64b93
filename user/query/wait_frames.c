/* SPDX-License-Identifier: Apache-2.0 */
#include "query/wait_frames.h"

#include "query/frame_words.h"
#include "symbols/names.h"

#include <string.h>

#define BARE_MAX 256 /* bytes of a name that a rule about names looks at */

const char *const wait_class_names[WAIT_CLASSES] = {
	[WAIT_CLASS_OTHER] = "other",	  [WAIT_CLASS_IDLE] = "idle",
	[WAIT_CLASS_SLEEP] = "sleep",	  [WAIT_CLASS_LOCK] = "lock",
	[WAIT_CLASS_IO] = "io",		  [WAIT_CLASS_NETWORK] = "network",
	[WAIT_CLASS_PIPE] = "pipe",	  [WAIT_CLASS_CHILD] = "child",
	[WAIT_CLASS_UNKNOWN] = "unknown",
};

struct rule {
	const char *words; /* frame_words.h */
	enum wait_class class;
	enum wait_rule rule;
};

static void apply(const struct rule *rules, size_t n, const char *name, struct wait_frame *f)
{
	for (size_t i = 0; i < n && !f->rule; i++) {
		if (!frame_words_match(rules[i].words, name))
			continue;
		f->class = (uint8_t)rules[i].class;
		f->rule = (uint8_t)rules[i].rule;
	}
}

#define APPLY(rules, name, f) apply(rules, sizeof(rules) / sizeof((rules)[0]), name, f)

/* ---- the kernel ---- */

/* By name of the system call, which is an interface that stays. */
static const struct rule syscalls[] = {
	{ "accept accept4 epoll_wait epoll_pwait epoll_pwait2 poll ppoll ppoll_time32 select "
	  "pselect6 pselect6_time32 rt_sigtimedwait rt_sigsuspend sigsuspend pause io_getevents "
	  "io_pgetevents io_uring_enter mq_timedreceive msgrcv",
	  WAIT_CLASS_IDLE, WAIT_RULE_WEAK },
	{ "nanosleep clock_nanosleep nanosleep_time32 clock_nanosleep_time32", WAIT_CLASS_SLEEP,
	  WAIT_RULE_WEAK },
	{ "wait4 waitid waitpid", WAIT_CLASS_CHILD, WAIT_RULE_WEAK },
	{ "fsync fdatasync sync syncfs sync_file_range msync", WAIT_CLASS_IO, WAIT_RULE_WEAK },
	{ "semop semtimedop flock", WAIT_CLASS_LOCK, WAIT_RULE_WEAK },
};

static const struct rule kernel[] = {
	/* The recorder's own mark, "[no stack]". */
	{ "[no*", WAIT_CLASS_UNKNOWN, WAIT_RULE_FIRM },
	/* A page fault, in user mode or in a system call. */
	{ "exc_page_fault asm_exc_page_fault do_user_addr_fault do_mem_abort handle_mm_fault",
	  WAIT_CLASS_IO, WAIT_RULE_FIRM },
	{ "io_schedule io_schedule_timeout folio_wait_* wait_on_page_* __wait_on_buffer "
	  "bit_wait_io* submit_bio_wait blk_* wait_for_completion_io* jbd2_log_wait_commit "
	  "balance_dirty_pages* request_wait_answer rpc_wait_bit_killable",
	  WAIT_CLASS_IO, WAIT_RULE_FIRM },
	{ "mutex_lock* __mutex_lock* rwsem_down_* down_read* down_write* __down* rt_mutex_* "
	  "percpu_rwsem_wait* futex_lock_pi* fcntl_setlk* posix_lock_inode_wait "
	  "flock_lock_inode_wait locks_lock_inode_wait",
	  WAIT_CLASS_LOCK, WAIT_RULE_FIRM },
	{ "ptrace_stop do_signal_stop do_freezer_trap process_one_work", WAIT_CLASS_OTHER,
	  WAIT_RULE_FIRM },
	{ "kernel_wait4 kernel_waitid* do_wait", WAIT_CLASS_CHILD, WAIT_RULE_WEAK },
	{ "n_tty_read eventfd_read signalfd_read* inotify_read fanotify_read fuse_dev_do_read "
	  "do_syslog devkmsg_read kthread worker_thread",
	  WAIT_CLASS_IDLE, WAIT_RULE_WEAK },
	{ "timerfd_read*", WAIT_CLASS_SLEEP, WAIT_RULE_WEAK },
	{ "pipe_read anon_pipe_read fifo_pipe_read pipe_write anon_pipe_write fifo_pipe_write "
	  "fifo_open wait_for_partner",
	  WAIT_CLASS_PIPE, WAIT_RULE_WEAK },
	{ "sock_recvmsg sock_sendmsg sock_read_iter sock_write_iter __sys_recvfrom __sys_recvmsg "
	  "__sys_sendto __sys_sendmsg __sys_connect tcp_recvmsg* tcp_sendmsg* "
	  "unix_stream_read_generic",
	  WAIT_CLASS_NETWORK, WAIT_RULE_WEAK },
};

/* Return the system call that a kernel function serves, NULL: none. */
static const char *syscall_of(const char *function)
{
	static const char *const prefixes[] = {
		"__x64_sys_",	       "__arm64_sys_", "__ia32_sys_", "__ia32_compat_sys_",
		"__arm64_compat_sys_", "__se_sys_",    "__do_sys_"
	};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(function, prefixes[i], strlen(prefixes[i])))
			return function + strlen(prefixes[i]);
	return NULL;
}

static void kernel_frame(const char *function, struct wait_frame *f)
{
	const char *call = syscall_of(function);
	f->owner = WAIT_OWNER_KERNEL;
	if (call)
		APPLY(syscalls, call, f);
	else
		APPLY(kernel, function, f);
	f->futex = call && !strncmp(call, "futex", 5);
}

/* ---- user code ---- */

/*
 * Threads of C and C++ programs. A mutex that is taken again behind a condition variable is a lock.
 */
static const struct rule libc[] = {
	{ "pthread_mutex_lock __pthread_mutex_lock* ___pthread_mutex_lock* "
	  "pthread_mutex_timedlock* pthread_mutex_clocklock* ___pthread_mutex_*lock* "
	  "__pthread_mutex_cond_lock* __lll_lock_wait* lll_mutex_lock* pthread_rwlock_* "
	  "__pthread_rwlock_* ___pthread_rwlock_* __pthread_mutex_timedlock* pthread_spin_lock",
	  WAIT_CLASS_LOCK, WAIT_RULE_FIRM },
	{ "pthread_join pthread_timedjoin_np pthread_clockjoin_np __pthread_clockjoin_ex "
	  "___pthread_join __pthread_timedjoin_ex pthread_barrier_wait ___pthread_barrier_wait",
	  WAIT_CLASS_OTHER, WAIT_RULE_FIRM },
	{ "__res_context_send* send_dg send_vc", WAIT_CLASS_NETWORK, WAIT_RULE_FIRM },
	{ "pthread_cond_wait* pthread_cond_timedwait* pthread_cond_clockwait* ___pthread_cond_* "
	  "__pthread_cond_*",
	  WAIT_CLASS_IDLE, WAIT_RULE_WEAK },
	{ "sem_wait sem_timedwait sem_clockwait __new_sem_wait* do_futex_wait", WAIT_CLASS_OTHER,
	  WAIT_RULE_WEAK },
};

/* Go, Rust, C++, Java, Python and libuv. */
static const struct rule runtimes[] = {
	{ "runtime.lock2 runtime.lockWithRank uv_mutex_lock uv_rwlock_* *::lock_contended "
	  "*::lock_slow *RwLock::*_contended absl::*Mutex::Lock* ObjectMonitor::enter* "
	  "ObjectMonitor::EnterI* ObjectSynchronizer::enter* Mutex::lock* take_gil "
	  "*ReentrantLock.lock *ReentrantReadWriteLock$ReadLock.lock "
	  "*ReentrantReadWriteLock$WriteLock.lock *StampedLock.readLock *StampedLock.writeLock",
	  WAIT_CLASS_LOCK, WAIT_RULE_FIRM },
	{ "SafepointSynchronize::* std::__atomic_futex_unsigned_base::* *::JoinInner<* "
	  "*std::thread::JoinHandle std::thread::join Thread._wait_for_tstate_lock Future.result "
	  "uv_thread_join *java.lang.Thread.join *.CountDownLatch.await *.CyclicBarrier.await "
	  "*.FutureTask.get *.CompletableFuture.get *.CompletableFuture.join *.Semaphore.acquire",
	  WAIT_CLASS_OTHER, WAIT_RULE_FIRM },
	{ "runtime.findRunnable runtime.findrunnable runtime.stopm runtime.stoplockedm "
	  "runtime.mPark runtime.netpoll runtime.sysmon runtime.templateThread "
	  "runtime.gcBgMarkWorker os/signal.signal_recv uv_cond_wait uv_cond_timedwait "
	  "uv__io_poll std::condition_variable::* *::Condvar::wait* *Parker::park *::thread::park "
	  "absl::CondVar::* Unsafe_Park ObjectMonitor::wait* Monitor::wait* "
	  "*ThreadPoolExecutor.getTask Condition.wait Queue.get SimpleQueue.get",
	  WAIT_CLASS_IDLE, WAIT_RULE_WEAK },
	{ "PyThread_acquire_lock* lock_PyThread_acquire_lock", WAIT_CLASS_LOCK, WAIT_RULE_WEAK },
};

/* Servers that wait for more than work in epoll or in a condition variable. */
static const struct rule programs[] = {
	{ "WaitOnLock ProcSleep LWLockAcquire* LWLockWaitForVar PGSemaphoreLock "
	  "XactLockTableWait* MDL_wait::timed_wait lock_wait_suspend_thread sync_array_wait_event",
	  WAIT_CLASS_LOCK, WAIT_RULE_FIRM },
	{ "handler::ha_*", WAIT_CLASS_LOCK, WAIT_RULE_FIRM }, /* of MariaDB and MySQL: of a row */
	{ "pg_sleep Item_func_sleep::val_int*", WAIT_CLASS_SLEEP, WAIT_RULE_FIRM },
	{ "SyncRepWaitForLSN WaitForParallelWorkersToFinish shm_mq_wait_internal shm_mq_receive* "
	  "shm_mq_send* gather_readnext",
	  WAIT_CLASS_OTHER, WAIT_RULE_FIRM },
	{ "pgaio_*", WAIT_CLASS_IO, WAIT_RULE_FIRM },
};

/* Files by their names up to here. */
static const char libc_files[] =
	"libc.so* libc-2* libpthread* ld-linux* ld-musl* ld-2* libc.musl* librt* libdl* "
	"libresolv* libm.so* libm-2* "
	"libgcc_s* [vdso] [vsyscall] linux-vdso*";
static const char runtime_files[] =
	"libstdc++* libc++* libunwind* libjvm* libjava* libnio* libnet.so libjli* libzip.so "
	"libuv* libnode* "
	"libpython* python2* python3* node ruby* libruby* perl libperl* php* libphp* luajit* libluajit* "
	"libgomp* libtbb*";
/* Clients: whoever waits in them waits for a server's answer. */
static const char client_files[] =
	"libpq.so* libmysqlclient* libmariadb* libhiredis* libcurl* libldap* libssh* libmongoc*";
static const char runtime_functions[] =
	"runtime.* runtime/* internal/* sync.* sync/* syscall.* os.* os/* net.* net/* io.* "
	"bufio.* time.* context.* std::* core::* alloc::* <std::* <core::* <alloc::* parking_lot* "
	"lock_api::* <parking_lot* __gnu_cxx::* absl::* "
	"java.* jdk.* sun.* Ljava/* Ljdk/* Lsun/* "
	"Interpreter StubRoutines* *Runtime1 _complete_monitor_locking*";
/* A server's own functions for waiting: their callers say what for. */
static const char server_functions[] =
	"WaitEventSetWait WaitEventSetWaitBlock WaitLatch WaitLatchOrSocket ConditionVariableSleep "
	"ConditionVariableTimedSleep ProcSleep WaitOnLock LockAcquire LockAcquireExtended "
	"LWLockAcquire "
	"LWLockAcquireOrWait LWLockWaitForVar PGSemaphoreLock MDL_wait::timed_wait "
	"MDL_context::acquire_lock os_event_wait_low os_event::wait_low sync_array_wait_event "
	"Interruptible_wait::wait";
static const char libc_functions[] =
	"_start start_thread clone clone3 syscall epoll_wait epoll_pwait poll ppoll select "
	"pselect accept accept4 nanosleep clock_nanosleep usleep sleep read write readv writev "
	"pread* pwrite* recv recvfrom recvmsg send sendto sendmsg connect "
	"futex_* fsync fdatasync wait4 waitpid sigwait* sem_* pthread_*";

static bool is_shared_object(const char *base)
{
	return strstr(base, ".so") != NULL;
}

/* Is the file in a directory of the system's libraries, rather than below one? */
static bool in_system_directory(const char *module, const char *base)
{
	static const char *const names[] = { "lib", "lib64", "lib32" };
	const char *end = base > module ? base - 1 : module, *dir = end;
	while (dir > module && dir[-1] != '/')
		dir--;
	if (memmem(dir, (size_t)(end - dir), "-linux-", 7) && dir > module) {
		/* /usr/lib/x86_64-linux-gnu */
		end = dir - 1;
		for (dir = end; dir > module && dir[-1] != '/'; dir--)
			;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((size_t)(end - dir) == strlen(names[i]) &&
		    !memcmp(dir, names[i], strlen(names[i])))
			return true;
	return false;
}

static enum wait_owner owner_of(const char *function, const char *module, const char *base,
				const char *file)
{
	if (frame_words_match(libc_files, base))
		return WAIT_OWNER_LIBC;
	/* Reserved names, of static programs */
	if (frame_words_match(libc_functions, function) ||
	    (function[0] == '_' && function[1] == '_'))
		return WAIT_OWNER_LIBC;
	if (frame_words_match(runtime_files, base) || strstr(module, "/lib-dynload/"))
		return WAIT_OWNER_RUNTIME;
	/* "void java.lang.Thread.run()", "int std::__invoke<...>(...)": behind the type */
	char bare[BARE_MAX];
	name_simplify(function, bare, sizeof(bare));
	if (frame_words_match(runtime_functions, function) ||
	    frame_words_match(runtime_functions, bare) ||
	    frame_words_match(server_functions, function))
		return WAIT_OWNER_RUNTIME;
	if (is_shared_object(base) && in_system_directory(module, base))
		return WAIT_OWNER_RUNTIME;
	if (!strncmp(file, "<frozen ", 8) || !strncmp(file, "<internal:", 10) ||
	    !strncmp(file, "node:", 5))
		return WAIT_OWNER_RUNTIME;
	if (!strcmp(module, "[php]") && !file[0]) /* a function of PHP itself */
		return WAIT_OWNER_RUNTIME;
	if (strstr(file, "/lib/python") && !strstr(file, "-packages/"))
		return WAIT_OWNER_RUNTIME;
	return *function ? WAIT_OWNER_PROGRAM : *base ? WAIT_OWNER_UNNAMED : WAIT_OWNER_RUNTIME;
}

static void user_frame(const char *function, const char *module, const char *file,
		       struct wait_frame *f)
{
	const char *slash = strrchr(module, '/'), *base = slash ? slash + 1 : module;
	APPLY(libc, function, f);
	APPLY(runtimes, function, f);
	APPLY(programs, function, f);
	if (!f->rule && frame_words_match(client_files, base)) {
		f->class = WAIT_CLASS_NETWORK;
		f->rule = WAIT_RULE_FIRM;
	}
	f->owner = (uint8_t)owner_of(function, module, base, file);
}

struct wait_frame wait_frame_of(enum frame_kind kind, const char *function, const char *module,
				const char *file)
{
	struct wait_frame f = { .owner = WAIT_OWNER_KERNEL };
	if (kind == FRAME_KERNEL)
		kernel_frame(function, &f);
	else if (kind == FRAME_USER)
		user_frame(function, module, file, &f);
	f.lock = lock_frame_of(kind == FRAME_KERNEL, function);
	return f;
}

void wait_see_towards_root(struct wait_decision *d, const struct wait_frame *f)
{
	d->futex |= f->futex;
	d->release |= f->lock.release;
	d->engine |= f->lock.engine;
	d->lock = (uint8_t)lock_kind_towards_root(d->lock, f->lock.kind);
	if (d->rule == WAIT_RULE_FIRM || !f->rule)
		return;
	d->rule = f->rule;
	d->class = f->class;
}

void wait_see_towards_leaf(struct wait_decision *d, const struct wait_frame *f)
{
	d->futex |= f->futex;
	d->release |= f->lock.release;
	d->engine |= f->lock.engine;
	d->lock = (uint8_t)lock_kind_towards_leaf(d->lock, f->lock.kind);
	if (f->rule != WAIT_RULE_FIRM && (d->rule || !f->rule))
		return;
	d->rule = f->rule;
	d->class = f->class;
}

enum wait_class wait_decided(const struct wait_decision *d, bool earlier)
{
	/* Locks are not held for that long. */
	if (d->rule == WAIT_RULE_NONE && d->futex && earlier)
		return WAIT_CLASS_IDLE;
	return d->class;
}

enum lock_kind wait_lock_decided(const struct wait_decision *d)
{
	return d->engine && d->lock == LOCK_CONDVAR ? LOCK_MYSQL : (enum lock_kind)d->lock;
}
