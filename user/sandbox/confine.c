/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/confine_int.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADDRESS_SPACE ((rlim_t)4 << 30) /* files may be mapped, which is no memory of ours */
#define DESCRIPTORS 32

static int close_others(int keep)
{
	unsigned low = CONFINE_NOT ? 3 : 0; /* a sanitizer's report goes to stderr */
	if ((unsigned)keep > low && syscall(SYS_close_range, low, keep - 1, 0))
		return -errno;
	return syscall(SYS_close_range, keep + 1, ~0u, 0) ? -errno : 0;
}

/* Drop all capabilities, and gain no rights by what is executed. */
static int drop_rights(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	return syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno
											  : 0;
}

int confine_user(uid_t user, gid_t group)
{
	/*
	 * Without CAP_SETUID, or where our user namespace has no such user, we stay who we are,
	 * without capabilities.
	 */
	if (geteuid() == 0 && !setgroups(0, NULL) && !setresgid(group, group, group) &&
	    setresuid(user, user, user) && errno != EPERM && errno != EINVAL)
		return -errno;
	return drop_rights();
}

int confine_data_size(size_t *ret)
{
	unsigned long size, resident, shared, text, lib, data;
	char line[256];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	line[n] = '\0';
	if (sscanf(line, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &text, &lib,
		   &data) != 6)
		return -EIO;
	*ret = data * (size_t)sysconf(_SC_PAGESIZE);
	return 0;
}

/*
 * What a worker has when it is forked: RLIMIT_DATA counts from zero. Read while paths can still be
 * opened.
 */
static size_t data_before;

int confine_privileges(int keep, unsigned user)
{
	int rc = close_others(keep);
	rc = rc ? rc : confine_data_size(&data_before);
	return rc ? rc : confine_user(user, user);
}

int confine_reader(int keep)
{
	static const unsigned kept[] = { CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE,
					 CAP_CHECKPOINT_RESTORE };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2], keep_caps[2] = { 0 };
	int rc = close_others(keep);
	if (rc)
		return rc;
	if (syscall(SYS_capget, &head, have))
		return -errno;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		keep_caps[CAP_TO_INDEX(kept[i])].permitted |=
			have[CAP_TO_INDEX(kept[i])].permitted & CAP_TO_MASK(kept[i]);
	for (size_t i = 0; i < 2; i++)
		keep_caps[i].effective = keep_caps[i].permitted;
	if (syscall(SYS_capset, &head, keep_caps))
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0;
}

int confine_asker(int keep)
{
	int rc = close_others(keep);
	return rc ? rc : drop_rights();
}

#define READING \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
#define FILING \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR)
#define ALL_PATHS \
	(READING | FILING | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_SYM)

static int allow_path(int ruleset, const struct confine_path *p)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = p->access };
	attr.parent_fd = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (attr.parent_fd < 0)
		return 0; /* this host has no such directory */
	int rc = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0)
			 ? -errno
			 : 0;
	close(attr.parent_fd);
	return rc;
}

int confine_paths(const struct confine_path *but, size_t n)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = ALL_PATHS };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0), rc = 0;
	if (fd < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	for (size_t i = 0; !rc && i < n; i++)
		rc = allow_path(fd, &but[i]);
	if (!rc && syscall(SYS_landlock_restrict_self, fd, 0))
		rc = -errno;
	close(fd);
	return rc;
}

int confine_limit(int what, rlim_t value)
{
	struct rlimit l = { value, value };
	return setrlimit((__rlimit_resource_t)what, &l) ? -errno : 0;
}

static int limit_resources(size_t memory)
{
	int rc = confine_limit(RLIMIT_DATA, data_before + memory);
	rc = rc ? rc : confine_limit(RLIMIT_AS, ADDRESS_SPACE);
	rc = rc ? rc : confine_limit(RLIMIT_CORE, 0);
	rc = rc ? rc : confine_limit(RLIMIT_FSIZE, 0);
	rc = rc ? rc : confine_limit(RLIMIT_NPROC, 0);
	return rc ? rc : confine_limit(RLIMIT_NOFILE, DESCRIPTORS);
}

int confine_calls(scmp_filter_ctx f, uint32_t action, const int *calls, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = seccomp_rule_add(f, action, calls[i], 0);
		if (rc == -EDOM)
			rc = 0; /* this machine has no such call */
	}
	return rc;
}

int confine_no_code(scmp_filter_ctx f)
{
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return rc ? rc
		  : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int allow_calls(scmp_filter_ctx f)
{
	static const int plain[] = { SCMP_SYS(recvmsg),	       SCMP_SYS(sendmsg),
				     SCMP_SYS(pread64),	       SCMP_SYS(read),
				     SCMP_SYS(lseek),	       SCMP_SYS(fstat),
				     SCMP_SYS(close),	       SCMP_SYS(munmap),
				     SCMP_SYS(mremap),	       SCMP_SYS(brk),
				     SCMP_SYS(madvise),	       SCMP_SYS(futex),
				     SCMP_SYS(exit),	       SCMP_SYS(exit_group),
				     SCMP_SYS(rt_sigprocmask), SCMP_SYS(clock_gettime),
				     SCMP_SYS(getrandom),      SCMP_SYS(rt_sigreturn),
				     SCMP_SYS(sysinfo) /* qsort asks how much memory there is */ };
	/* A library that looks for further files by path is told no, and goes on. */
	static const int refused[] = { SCMP_SYS(open),	     SCMP_SYS(openat), SCMP_SYS(readlink),
				       SCMP_SYS(readlinkat), SCMP_SYS(access), SCMP_SYS(faccessat),
				       SCMP_SYS(stat),	     SCMP_SYS(lstat),  SCMP_SYS(getcwd) };
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(plain) / sizeof(plain[0]); i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, plain[i], 0);
	rc = rc ? rc
		: confine_calls(f, SCMP_ACT_ERRNO(EACCES), refused,
				sizeof(refused) / sizeof(refused[0]));
	/* fstat of a descriptor is a newfstatat with an empty path. */
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1,
				   SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(newfstatat), 1,
				   SCMP_A3(SCMP_CMP_NE, AT_EMPTY_PATH));
	rc = rc ? rc : confine_no_code(f);
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				   SCMP_A1(SCMP_CMP_EQ, F_DUPFD_CLOEXEC));
	rc = rc ? rc
		: seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				   SCMP_A1(SCMP_CMP_EQ, F_GETFD));
	return rc ? rc
		  : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				     SCMP_A1(SCMP_CMP_EQ, F_GETFL));
}

static int forbid_calls(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!f)
		return -ENOMEM;
	int rc = allow_calls(f);
	rc = rc ? rc : seccomp_load(f);
	seccomp_release(f);
	return rc;
}

int confine_worker(size_t memory)
{
	if (CONFINE_NOT)
		return 0;
	int rc = limit_resources(memory);
	rc = rc ? rc : confine_paths(NULL, 0);
	return rc ? rc : forbid_calls();
}

/* ---- who downloads ---- */

#define DOWNLOADER_ADDRESS_SPACE ((rlim_t)1 << 30)
#define DOWNLOADER_DESCRIPTORS 64
#define PUSHER_FILE_BYTES 4096 /* a cursor */

/* Calls that no download needs, and that have been ways out of such places. */
static int forbid_some(scmp_filter_ctx f)
{
	static const int calls[] = {
		SCMP_SYS(execve),
		SCMP_SYS(execveat),
		SCMP_SYS(fork),
		SCMP_SYS(vfork),
		SCMP_SYS(ptrace),
		SCMP_SYS(process_vm_readv),
		SCMP_SYS(process_vm_writev),
		SCMP_SYS(pidfd_getfd),
		SCMP_SYS(kcmp),
		SCMP_SYS(kill),
		SCMP_SYS(bpf),
		SCMP_SYS(perf_event_open),
		SCMP_SYS(io_uring_setup),
		SCMP_SYS(userfaultfd),
		SCMP_SYS(unshare),
		SCMP_SYS(setns),
		SCMP_SYS(mount),
		SCMP_SYS(umount2),
		SCMP_SYS(fsopen),
		SCMP_SYS(open_tree),
		SCMP_SYS(move_mount),
		SCMP_SYS(chroot),
		SCMP_SYS(pivot_root),
		SCMP_SYS(add_key),
		SCMP_SYS(request_key),
		SCMP_SYS(keyctl),
		SCMP_SYS(link),
		SCMP_SYS(linkat),
		SCMP_SYS(mknod),
		SCMP_SYS(mknodat),
		SCMP_SYS(listen),
		SCMP_SYS(accept),
		SCMP_SYS(accept4),
		SCMP_SYS(personality),
		SCMP_SYS(memfd_create),
	};
	return confine_calls(f, SCMP_ACT_ERRNO(EPERM), calls, sizeof(calls) / sizeof(calls[0]));
}

/* Threads, to resolve names; no processes, which could stay when we are killed. */
static int forbid_processes(scmp_filter_ctx f)
{
	const uint64_t thread = CLONE_THREAD;
	int rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				  SCMP_A0(SCMP_CMP_MASKED_EQ, thread, 0));
	/* Libc then uses clone */
	return rc ? rc : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/*
 * Of sockets: the internet's, and netlink and unix to resolve names. The families up to AF_MAX of
 * 6.18, and all beyond.
 */
static int forbid_sockets(scmp_filter_ctx f)
{
	static const int kept[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
	int rc = 0;
	for (int family = 0; !rc && family <= AF_MAX; family++) {
		bool keep = false;
		for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
			keep |= family == kept[i];
		if (!keep)
			rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					      SCMP_A0(family < AF_MAX ? SCMP_CMP_EQ : SCMP_CMP_GE,
						      (uint64_t)family));
	}
	return rc;
}

static int forbid_escape(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (!f)
		return -ENOMEM;
	int rc = forbid_some(f);
	rc = rc ? rc : forbid_processes(f);
	rc = rc ? rc : forbid_sockets(f);
	rc = rc ? rc : seccomp_load(f);
	seccomp_release(f);
	return rc;
}

#define NETWORK_PATHS 9 /* system directories */
#define MORE_PATHS 8

/* Limits and paths of who asks servers: no file beyond file_bytes, system directories, n more. */
static int confine_network(uint64_t file_bytes, const struct confine_path *more, size_t n)
{
	struct confine_path paths[NETWORK_PATHS + MORE_PATHS] = {
		{ "/usr", READING },
		{ "/lib", READING },
		{ "/lib64", READING },
		{ "/etc", READING },
		{ "/run/systemd/resolve", READING },
		{ "/run/resolvconf", READING },
		{ "/run/NetworkManager", READING },
		{ "/run/nscd", READING },
		{ "/var/lib/ca-certificates", READING },
	};
	int rc = confine_limit(RLIMIT_FSIZE, file_bytes);
	if (rc || CONFINE_NOT)
		return rc;
	if (n > MORE_PATHS)
		return -E2BIG;
	memcpy(paths + NETWORK_PATHS, more, n * sizeof(*more));
	rc = confine_limit(RLIMIT_AS, DOWNLOADER_ADDRESS_SPACE);
	rc = rc ? rc : confine_limit(RLIMIT_CORE, 0);
	rc = rc ? rc : confine_limit(RLIMIT_NOFILE, DOWNLOADER_DESCRIPTORS);
	rc = rc ? rc : confine_paths(paths, NETWORK_PATHS + n);
	return rc ? rc : forbid_escape();
}

int confine_downloader(uint64_t file_bytes)
{
	const struct confine_path here = { ".", FILING };
	return confine_network(file_bytes, &here, 1);
}

int confine_client(const char *dir)
{
	const struct confine_path more = { dir ? dir : "/usr", READING };
	return confine_network(0, &more, 1);
}

int confine_pusher(const char *writable, const char *const *readable, size_t n)
{
	struct confine_path more[MORE_PATHS] = { { writable, FILING } };
	if (n > MORE_PATHS - 1)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		more[i + 1] = (struct confine_path){ readable[i], READING };
	return confine_network(PUSHER_FILE_BYTES, more, n + 1);
}

void confine_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	sigset_t none;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
