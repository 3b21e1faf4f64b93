/* SPDX-License-Identifier: Apache-2.0 */
/* Of who serves a store over sockets that are open already. */
#include "sandbox/confine_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DESCRIPTORS 16384      /* connections, and files of the store */
#define FILE_BYTES (64u << 20) /* of memory: profiles that are sent on, counters of rules */

/* Its group reads the store, so it is kept. */
static int become_user(void)
{
	int rc = confine_user(CONFINE_WEB, getegid());
	/* A change of user clears what was asked for before. */
	return rc ? rc : prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0) ? -errno : 0;
}

static int limit_resources(size_t before, size_t memory)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files))
		return -errno;
	int rc = confine_limit(RLIMIT_DATA, before + memory);
	rc = rc ? rc : confine_limit(RLIMIT_CORE, 0);
	rc = rc ? rc : confine_limit(RLIMIT_FSIZE, FILE_BYTES);
	return rc ? rc
		  : confine_limit(RLIMIT_NOFILE,
				  files.rlim_max < DESCRIPTORS ? files.rlim_max : DESCRIPTORS);
}

/* Whatever the arguments are. */
static int allow_plain(scmp_filter_ctx f)
{
	static const int calls[] = {
		/* connections, and the socket to the recorder */
		SCMP_SYS(accept4),
		SCMP_SYS(recvfrom),
		SCMP_SYS(recvmsg),
		SCMP_SYS(sendto),
		SCMP_SYS(sendmsg),
		SCMP_SYS(sendfile),
		SCMP_SYS(shutdown),
		SCMP_SYS(getsockname),
		SCMP_SYS(getpeername),
		SCMP_SYS(getsockopt),
		SCMP_SYS(setsockopt),
		SCMP_SYS(poll),
		SCMP_SYS(ppoll),
		SCMP_SYS(eventfd2),
		SCMP_SYS(pipe2),
		/* files of the store, and memory */
		SCMP_SYS(read),
		SCMP_SYS(readv),
		SCMP_SYS(pread64),
		SCMP_SYS(write),
		SCMP_SYS(writev),
		SCMP_SYS(pwrite64),
		SCMP_SYS(lseek),
		SCMP_SYS(fstat),
		SCMP_SYS(stat),
		SCMP_SYS(lstat),
		SCMP_SYS(newfstatat),
		SCMP_SYS(statx),
		SCMP_SYS(fstatfs),
		SCMP_SYS(getdents64),
		SCMP_SYS(close),
		SCMP_SYS(fcntl),
		SCMP_SYS(fadvise64),
		SCMP_SYS(readlink),
		SCMP_SYS(readlinkat),
		SCMP_SYS(access),
		SCMP_SYS(faccessat),
		SCMP_SYS(faccessat2),
		SCMP_SYS(memfd_create),
		/* memory, threads, time */
		SCMP_SYS(munmap),
		SCMP_SYS(mremap),
		SCMP_SYS(brk),
		SCMP_SYS(madvise),
		SCMP_SYS(futex),
		SCMP_SYS(set_robust_list),
		SCMP_SYS(rseq),
		SCMP_SYS(exit),
		SCMP_SYS(exit_group),
		SCMP_SYS(rt_sigprocmask),
		SCMP_SYS(rt_sigaction),
		SCMP_SYS(rt_sigreturn),
		SCMP_SYS(sigaltstack),
		SCMP_SYS(sched_yield),
		SCMP_SYS(sched_getaffinity),
		SCMP_SYS(clock_gettime),
		SCMP_SYS(gettimeofday),
		SCMP_SYS(time),
		SCMP_SYS(clock_nanosleep),
		SCMP_SYS(nanosleep),
		SCMP_SYS(getrandom),
		SCMP_SYS(sysinfo),
		SCMP_SYS(uname),
		SCMP_SYS(getrusage),
		SCMP_SYS(getpid),
		SCMP_SYS(gettid),
		SCMP_SYS(getuid),
		SCMP_SYS(geteuid),
		SCMP_SYS(getgid),
		SCMP_SYS(getegid),
		SCMP_SYS(getpriority),
		SCMP_SYS(getrlimit),
	};
	return confine_calls(f, SCMP_ACT_ALLOW, calls, sizeof(calls) / sizeof(calls[0]));
}

/* Opening for reading, memory without execution, threads, names of threads. */
static int allow_some(scmp_filter_ctx f)
{
	const uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC, thread = CLONE_THREAD;
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				  SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
	rc = rc ? rc : confine_no_code(f);
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread));
	/* Its flags are in memory, where no filter reads: libc then uses clone. */
	rc = rc ? rc : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
				   SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	/* Reading limits. */
	return rc ? rc
		  : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
				     SCMP_A2(SCMP_CMP_EQ, 0));
}

/* A call that is not listed fails: a library that tries one goes on without. */
static int forbid_calls(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!f)
		return -ENOMEM;
	int rc = allow_plain(f);
	rc = rc ? rc : allow_some(f);
	rc = rc ? rc : seccomp_load(f);
	seccomp_release(f);
	return rc;
}

int confine_web(size_t memory)
{
	static const struct confine_path store = { ".", LANDLOCK_ACCESS_FS_READ_FILE |
								LANDLOCK_ACCESS_FS_READ_DIR };
	size_t before;
	int rc = confine_data_size(&before);
	rc = rc ? rc : become_user();
	if (rc || CONFINE_NOT)
		return rc;
	rc = limit_resources(before, memory);
	rc = rc ? rc : confine_paths(&store, 1);
	return rc ? rc : forbid_calls();
}
