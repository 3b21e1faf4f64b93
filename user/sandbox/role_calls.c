/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/roles_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Newer than our headers may be; numbers from 424 on are the same on all machines. */
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_OPEN_TREE_ATTR 467
#define NR_FILE_SETATTR 469
#define FAIL_NUMBER(number, code) \
	{ \
		(number), SCMP_ACT_ERRNO(code), 0, \
		{ { 0 } } \
	}

#define ALLOW(call) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ALLOW, 0, \
		{ { 0 } } \
	}
#define ALLOW_IF(call, if_) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ALLOW, 1, \
		{ \
			if_ \
		} \
	}
#define ALLOW_IF_BOTH(call, if_, and_) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ALLOW, 2, \
		{ \
			if_, and_ \
		} \
	}
#define FAIL_IF_BOTH(call, code, if_, and_) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ERRNO(code), 2, \
		{ \
			if_, and_ \
		} \
	}
/*
 * Of what is forbidden: the kernel drops the upper half of an int, where a filter sees all of it.
 */
#define IS_INT(number, value) SCMP_A##number(SCMP_CMP_MASKED_EQ, 0xffffffff, value)
/* Of a socket, whatever its flags. */
#define OF_TYPE(type) SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, type)
#define FAIL(call, code) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ERRNO(code), 0, \
		{ { 0 } } \
	}
#define FAIL_IF(call, code, if_) \
	{ \
		SCMP_SYS(call), SCMP_ACT_ERRNO(code), 1, \
		{ \
			if_ \
		} \
	}

/* Memory that is not executable. */
#define ALLOW_DATA \
	ALLOW_IF(mmap, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)), \
		ALLOW_IF(mprotect, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0))

#define N(list) (sizeof(list) / sizeof((list)[0]))

static const struct role_call parser[] = {
	ALLOW(recvmsg),
	ALLOW(sendmsg),
	ALLOW(pread64),
	ALLOW(read),
	ALLOW(lseek),
	ALLOW(fstat),
	ALLOW(close),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(brk),
	ALLOW(madvise),
	ALLOW(futex),
	ALLOW(exit),
	ALLOW(exit_group),
	ALLOW(rt_sigprocmask),
	ALLOW(clock_gettime),
	ALLOW(getrandom),
	ALLOW(rt_sigreturn),
	ALLOW(sysinfo), /* qsort asks how much memory there is */
	ALLOW_DATA,
	/* fstat of a descriptor is a newfstatat with an empty path. */
	ALLOW_IF(newfstatat, SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_DUPFD_CLOEXEC)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_GETFD)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_GETFL)),
	/* A library that looks for further files by path is told no, and goes on. */
	FAIL(open, EACCES),
	FAIL(openat, EACCES),
	FAIL(readlink, EACCES),
	FAIL(readlinkat, EACCES),
	FAIL(access, EACCES),
	FAIL(faccessat, EACCES),
	FAIL(stat, EACCES),
	FAIL(lstat, EACCES),
	FAIL(getcwd, EACCES),
	FAIL_IF(newfstatat, EACCES, SCMP_A3(SCMP_CMP_NE, AT_EMPTY_PATH)),
};

const struct role_calls role_calls_parser = {
	.name = "parsers",
	.text = "those that read open descriptors, answer, allocate. Asking for a path fails, any "
		"other call kills.",
	.otherwise = SCMP_ACT_KILL_PROCESS,
	.v = parser,
	.n = N(parser),
};

/*
 * Calls that have been ways out of such places. Landlock does not rule who owns a file, and who may
 * read it: root without capabilities owns many.
 */
#define FAIL_HARMFUL \
	FAIL(execve, EPERM), FAIL(execveat, EPERM), FAIL(ptrace, EPERM), \
		FAIL(process_vm_readv, EPERM), FAIL(process_vm_writev, EPERM), \
		FAIL(process_madvise, EPERM), FAIL(process_mrelease, EPERM), \
		FAIL(migrate_pages, EPERM), FAIL(move_pages, EPERM), FAIL(pidfd_getfd, EPERM), \
		FAIL(kcmp, EPERM), FAIL(perf_event_open, EPERM), FAIL(io_uring_setup, EPERM), \
		FAIL(userfaultfd, EPERM), FAIL(unshare, EPERM), FAIL(setns, EPERM), \
		FAIL(mount, EPERM), FAIL(umount2, EPERM), FAIL(fsopen, EPERM), \
		FAIL(open_tree, EPERM), FAIL(move_mount, EPERM), FAIL(chroot, EPERM), \
		FAIL(pivot_root, EPERM), FAIL(add_key, EPERM), FAIL(request_key, EPERM), \
		FAIL(keyctl, EPERM), FAIL(personality, EPERM), FAIL(mknod, EPERM), \
		FAIL(mknodat, EPERM), FAIL(ioprio_set, EPERM), FAIL(sched_setscheduler, EPERM), \
		FAIL(sched_setparam, EPERM), FAIL(sched_setattr, EPERM), \
		FAIL(sched_setaffinity, EPERM), \
		FAIL_IF(prlimit64, EPERM, SCMP_A0(SCMP_CMP_NE, 0)), FAIL(chmod, EPERM), \
		FAIL(fchmod, EPERM), FAIL(fchmodat, EPERM), FAIL(fchmodat2, EPERM), \
		FAIL(chown, EPERM), FAIL(fchown, EPERM), FAIL(lchown, EPERM), \
		FAIL(fchownat, EPERM), FAIL(setxattr, EPERM), FAIL(lsetxattr, EPERM), \
		FAIL(fsetxattr, EPERM), FAIL(removexattr, EPERM), FAIL(lremovexattr, EPERM), \
		FAIL(fremovexattr, EPERM), FAIL_NUMBER(NR_SETXATTRAT, EPERM), \
		FAIL_NUMBER(NR_REMOVEXATTRAT, EPERM), FAIL_NUMBER(NR_FILE_SETATTR, EPERM), \
		FAIL_NUMBER(NR_OPEN_TREE_ATTR, EPERM), FAIL(shmget, EPERM), FAIL(shmat, EPERM), \
		FAIL(shmctl, EPERM), FAIL(msgget, EPERM), FAIL(msgctl, EPERM), \
		FAIL(semget, EPERM), FAIL(semctl, EPERM), FAIL(mq_open, EPERM), \
		FAIL(mq_unlink, EPERM)

static const struct role_call network[] = {
	FAIL_HARMFUL, FAIL(fork, EPERM), FAIL(vfork, EPERM), FAIL(bpf, EPERM),
	/* Processes of the same user, which may be root. */
	FAIL(kill, EPERM), FAIL(tkill, EPERM), FAIL(tgkill, EPERM), FAIL(rt_sigqueueinfo, EPERM),
	FAIL(rt_tgsigqueueinfo, EPERM), FAIL(pidfd_send_signal, EPERM), FAIL(setpriority, EPERM),
	FAIL(link, EPERM), FAIL(linkat, EPERM), FAIL(listen, EPERM), FAIL(accept, EPERM),
	FAIL(accept4, EPERM), FAIL(memfd_create, EPERM),
	/* Whoever owns a file may have the kernel send signals, of any number, to that user. */
	FAIL_IF(fcntl, EPERM, IS_INT(1, F_SETOWN)), FAIL_IF(fcntl, EPERM, IS_INT(1, F_SETOWN_EX)),
	FAIL_IF(ioctl, EPERM, IS_INT(1, FIOSETOWN)), FAIL_IF(ioctl, EPERM, IS_INT(1, SIOCSPGRP)),
	/* The socket to whoever keeps it going, which the next one has, too. */
	FAIL(shutdown, EPERM),
	FAIL_IF_BOTH(setsockopt, EPERM, IS_INT(1, SOL_SOCKET), SCMP_A2(SCMP_CMP_LT, SO_KEEPALIVE)),
	FAIL_IF_BOTH(setsockopt, EPERM, IS_INT(1, SOL_SOCKET), SCMP_A2(SCMP_CMP_GT, SO_KEEPALIVE)),
	/* Threads, to resolve names; no processes, which could stay when we are killed. */
	FAIL_IF(clone, EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)),
	FAIL(clone3, ENOSYS), /* libc then uses clone */
};

/* Commands of bpf(2), of enum bpf_cmd, that make, load, pin or find something. */
#define FAIL_BPF(command) FAIL_IF(bpf, EPERM, IS_INT(0, command))

static const struct role_call recorder[] = {
	FAIL_HARMFUL,
	FAIL_BPF(BPF_MAP_CREATE),
	FAIL_BPF(BPF_PROG_LOAD),
	FAIL_BPF(BPF_OBJ_PIN),
	FAIL_BPF(BPF_OBJ_GET),
	FAIL_BPF(BPF_PROG_ATTACH),
	FAIL_BPF(BPF_PROG_DETACH),
	FAIL_BPF(BPF_PROG_TEST_RUN),
	FAIL_BPF(BPF_PROG_GET_FD_BY_ID),
	FAIL_BPF(BPF_MAP_GET_FD_BY_ID),
	FAIL_BPF(BPF_BTF_LOAD),
	FAIL_BPF(BPF_BTF_GET_FD_BY_ID),
	FAIL_BPF(BPF_TASK_FD_QUERY),
	FAIL_BPF(BPF_LINK_GET_FD_BY_ID),
	FAIL_BPF(BPF_PROG_BIND_MAP),
	/* Who is connected to a socket of systemd or of a container engine commands it. */
	FAIL(connect, EPERM),
	/* A datagram takes no connect: ascribe-notify writes to systemd's. */
	FAIL_IF_BOTH(socket, EPERM, IS_INT(0, AF_UNIX), OF_TYPE(SOCK_DGRAM)),
	FAIL_IF_BOTH(socket, EPERM, IS_INT(0, AF_UNIX), OF_TYPE(SOCK_RAW)),
	FAIL_IF(socketpair, EPERM, OF_TYPE(SOCK_DGRAM)),
	FAIL_IF(socketpair, EPERM, OF_TYPE(SOCK_RAW)),
};

const struct role_calls role_calls_recorder = {
	.name = "recorders",
	.text = "those that start programs, load BPF programs, open events, connect, send "
		"datagrams to Unix sockets, make mounts, change who may read a file, or touch "
		"memory and limits of other processes. They fail.",
	.otherwise = SCMP_ACT_ALLOW,
	.v = recorder,
	.n = N(recorder),
};

/*
 * Of sockets: the internet's, and netlink to resolve names. Unix sockets only where the server has
 * one: those of container engines and of systemd obey their user, who may be root.
 */
static const int network_families[] = { AF_INET, AF_INET6, AF_NETLINK };

const struct role_calls role_calls_network = {
	.name = "clients",
	.text = "those that start programs, make processes, servers or mounts, change who may read "
		"a file, shut sockets or set their filters and buffers, or touch other processes, "
		"also by signals of files. They fail, as do sockets that are not of the internet or "
		"netlink, or unix where the server has one.",
	.otherwise = SCMP_ACT_ALLOW,
	.v = network,
	.n = N(network),
	.families = network_families,
	.n_families = N(network_families),
};

static const struct role_call jvm[] = {
	/* The JVM's socket, files of its /tmp, its pidfd. */
	ALLOW_IF_BOTH(socket, SCMP_A0(SCMP_CMP_EQ, AF_UNIX), OF_TYPE(SOCK_STREAM)),
	ALLOW(connect),
	ALLOW(sendto),
	ALLOW(openat),
	ALLOW(openat2),
	ALLOW(unlinkat),
	ALLOW(fstat),
	ALLOW(newfstatat),
	ALLOW(statx),
	ALLOW(read),
	ALLOW(write),
	ALLOW(close),
	ALLOW(poll),
	ALLOW(ppoll),
	ALLOW_IF(pidfd_send_signal, SCMP_A1(SCMP_CMP_EQ, SIGQUIT)),
	/* Memory, time, the end. */
	ALLOW_DATA,
	ALLOW(munmap),
	ALLOW(brk),
	ALLOW(futex),
	ALLOW(clock_gettime),
	ALLOW(restart_syscall),
	ALLOW(rt_sigreturn),
	ALLOW(exit),
	ALLOW(exit_group),
};

const struct role_calls role_calls_jvm = {
	.name = "jvm",
	.text = "those that open files, connect to a unix socket, send SIGQUIT. Any other call "
		"fails.",
	.otherwise = SCMP_ACT_ERRNO(EPERM),
	.v = jvm,
	.n = N(jvm),
};

#define ALLOW_SETTING(option) \
	ALLOW_IF_BOTH(setsockopt, SCMP_A1(SCMP_CMP_EQ, IPPROTO_TCP), SCMP_A2(SCMP_CMP_EQ, option))

static const struct role_call web[] = {
	/* Connections, and the socket to the recorder. */
	ALLOW(accept4), ALLOW(recvfrom), ALLOW(recvmsg), ALLOW(sendto), ALLOW(sendmsg),
	ALLOW(sendfile), ALLOW(shutdown), ALLOW(getsockname), ALLOW(getpeername), ALLOW(getsockopt),
	ALLOW(poll), ALLOW(ppoll), ALLOW(eventfd2),
	/* No filter or lock on a socket that the next server has, too. */
	ALLOW_SETTING(TCP_NODELAY), ALLOW_SETTING(TCP_CORK),
	/* Files of the store. */
	ALLOW(read), ALLOW(readv), ALLOW(pread64), ALLOW(write), ALLOW(writev), ALLOW(pwrite64),
	ALLOW(lseek), ALLOW(fstat), ALLOW(stat), ALLOW(lstat), ALLOW(newfstatat), ALLOW(statx),
	ALLOW(fstatfs), ALLOW(getdents64), ALLOW(close), ALLOW(fadvise64),
	/* The log of requests stays one to append to; the kernel sends no signals for its files. */
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_GETFL)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_GETFD)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_SETFD)),
	ALLOW_IF(fcntl, SCMP_A1(SCMP_CMP_EQ, F_DUPFD_CLOEXEC)), ALLOW(readlink), ALLOW(readlinkat),
	ALLOW(access), ALLOW(faccessat), ALLOW(faccessat2),
	ALLOW_IF(openat, SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)),
	/* Memory, threads and their names, time. */
	ALLOW_DATA, ALLOW(munmap), ALLOW(mremap), ALLOW(brk), ALLOW(madvise), ALLOW(futex),
	ALLOW(set_robust_list), ALLOW(rseq), ALLOW(exit), ALLOW(exit_group), ALLOW(rt_sigprocmask),
	ALLOW(rt_sigaction), ALLOW(rt_sigreturn), ALLOW(sigaltstack), ALLOW(sched_yield),
	ALLOW(sched_getaffinity), ALLOW(clock_gettime), ALLOW(gettimeofday), ALLOW(time),
	ALLOW(clock_nanosleep), ALLOW(nanosleep), ALLOW(getrandom), ALLOW(sysinfo), ALLOW(uname),
	ALLOW(getrusage), ALLOW(getpid), ALLOW(gettid), ALLOW(getuid), ALLOW(geteuid),
	ALLOW(getgid), ALLOW(getegid), ALLOW(getpriority), ALLOW(getrlimit),
	ALLOW_IF(clone, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)),
	/* Its flags are in memory, where no filter reads: libc then uses clone. */
	FAIL(clone3, ENOSYS), ALLOW_IF(prctl, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)),
	ALLOW_IF(prlimit64, SCMP_A2(SCMP_CMP_EQ, 0)), /* reading limits */
};

/* A call that is not listed fails: a library that tries one goes on without. */
const struct role_calls role_calls_web = {
	.name = "web",
	.text = "those that serve on open sockets and open files for reading. Any other call fails.",
	.otherwise = SCMP_ACT_ERRNO(EPERM),
	.v = web,
	.n = N(web),
};
