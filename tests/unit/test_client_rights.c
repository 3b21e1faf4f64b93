/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that asks servers can do once one of them has taken it over. */
#include "sandbox/confine.h"
#include "sandbox/names_files.h"

#include "confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PORTS_SINCE 4 /* versions of Landlock */

static const enum role_id clients[] = { ROLE_FETCHER, ROLE_POD_WATCHER, ROLE_PUSHER,
					ROLE_SQL_ASKER };
static uint16_t port[2];
static bool rules_ports;

static int listen_on(uint16_t *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0 && !bind(fd, (struct sockaddr *)&at, len) && !listen(fd, 8));
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int connect_to(uint16_t to)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(to),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int rc = connect(fd, (struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
	close(fd);
	return rc;
}

/* Our parent has our user: it stands for all processes that have it, such as root's. */
static void try_processes(pid_t other)
{
	const struct rlimit none = { 0, 0 };
	siginfo_t info = { .si_code = SI_QUEUE };
	REFUSED(kill(other, 0));
	REFUSED(syscall(SYS_tkill, other, 0));
	REFUSED(syscall(SYS_tgkill, other, other, 0));
	REFUSED(syscall(SYS_rt_sigqueueinfo, other, SIGSTOP, &info));
	REFUSED(syscall(SYS_rt_tgsigqueueinfo, other, other, SIGSTOP, &info));
	REFUSED(syscall(SYS_pidfd_send_signal, 0, SIGSTOP, NULL, 0));
	REFUSED(syscall(SYS_prlimit64, other, RLIMIT_NOFILE, &none, NULL));
	REFUSED(setpriority(PRIO_PROCESS, (id_t)other, 19));
	REFUSED(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
}

static void try_files(const char *path)
{
	int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	REFUSED(chmod(path, 0666));
	REFUSED(fchmod(fd, 0666));
	REFUSED(syscall(SYS_fchmodat, AT_FDCWD, path, 0666));
	REFUSED(syscall(452, AT_FDCWD, path, 0666, 0)); /* fchmodat2 */
	REFUSED(chown(path, 1, 1));
	REFUSED(setxattr(path, "user.x", "", 0, 0));
	REFUSED(syscall(463, AT_FDCWD, path, 0, "user.x", NULL, 0)); /* setxattrat */
}

/* What resolves names can be read, and nothing else of /etc. */
static void try_etc(void)
{
	SHOULD(open("/etc/hosts", O_RDONLY) >= 0);
	SHOULD(open("/etc/resolv.conf", O_RDONLY) >= 0 || errno == ENOENT);
	SHOULD(open("/etc/shadow", O_RDONLY) < 0 && (errno == EACCES || errno == ENOENT));
	SHOULD(open("/etc/ssl/private", O_RDONLY) < 0 && (errno == EACCES || errno == ENOENT));
	SHOULD(open("/etc/fstab", O_RDONLY) < 0 && (errno == EACCES || errno == ENOENT));
	SHOULD(open("/root", O_RDONLY) < 0 && (errno == EACCES || errno == ENOENT));
}

/*
 * Signals that the kernel sends for whoever owns a file go to any process of the same user. Only
 * the lower half of a command counts in the kernel.
 */
static void try_owned_files(int fd, pid_t other)
{
	const struct f_owner_ex owner = { F_OWNER_PID, other };
	const unsigned long high = 1ul << 32;
	REFUSED(fcntl(fd, F_SETOWN, other));
	REFUSED(fcntl(fd, F_SETOWN_EX, &owner));
	REFUSED(syscall(SYS_fcntl, fd, F_SETOWN | high, other));
	REFUSED(ioctl(fd, FIOSETOWN, &other));
	REFUSED(ioctl(fd, SIOCSPGRP, &other));
}

/* The next process that asks has the same socket to whoever keeps it going: it stays as it was. */
static void try_kept_socket(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog drop_all = { 1, &none };
	const struct timeval soon = { 0, 1 };
	const unsigned long high = 1ul << 32;
	int one = 1, tcp = socket(AF_INET, SOCK_STREAM, 0);
	REFUSED(shutdown(fd, SHUT_RDWR));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &drop_all, sizeof(drop_all)));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof(one)));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &one, sizeof(one)));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_DEBUG, &one, sizeof(one)));
	REFUSED(syscall(SYS_setsockopt, fd, SOL_SOCKET | high, SO_SNDBUF, &one, sizeof(one)));
	REFUSED(syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_KEEPALIVE | high, &one, sizeof(one)));
	SHOULD(!setsockopt(tcp, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)));
	SHOULD(!setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	close(tcp);
}

static void try_network(void)
{
	SHOULD(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT);
	SHOULD(connect_to(port[0]) == 0);
	SHOULD(!rules_ports || connect_to(port[1]) == -EACCES);
}

static void test_clients(void **state)
{
	char path[] = "/tmp/ascribe-client-XXXXXX";
	struct stat st;
	int made = mkstemp(path), a = listen_on(&port[0]), b = listen_on(&port[1]), kept[2];
	(void)state;
	if (!CONFINED)
		skip();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, kept), 0);
	rules_ports = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= PORTS_SINCE;
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		const struct confine_given given = { .ports = port,
						     .n_ports = 1,
						     .file_bytes = 4096 };
		pid_t p = fork();
		if (p == 0) {
			SHOULD(!confine_reach(clients[i], &given));
			try_processes(getppid());
			try_files(path);
			try_etc();
			try_owned_files(kept[0], getppid());
			try_kept_socket(kept[0]);
			try_network();
			_exit(0);
		}
		expect_no_line(p);
	}
	assert_true(!fstat(made, &st) && (st.st_mode & 0777) == 0600);
	close(kept[0]);
	close(kept[1]);
	close(a);
	close(b);
	close(made);
	unlink(path);
}

/* A client of a Unix socket has no datagrams, by which systemd takes orders. */
static void test_datagrams(void **state)
{
	const struct confine_given given = { .unix_sockets = true };
	int pair[2];
	(void)state;
	if (!CONFINED)
		skip();
	pid_t p = fork();
	if (p == 0) {
		SHOULD(!confine_reach(ROLE_POD_WATCHER, &given));
		SHOULD(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
		REFUSED(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
		REFUSED(socket(AF_UNIX, SOCK_RAW, 0));
		REFUSED(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
		SHOULD(socket(AF_INET, SOCK_DGRAM, 0) >= 0); /* to resolve names */
		_exit(0);
	}
	expect_no_line(p);
}

static bool within(unsigned ms, bool (*is)(void))
{
	while (!is() && ms--)
		usleep(1000);
	return is();
}

/* /etc/hosts becomes another file, in a mount namespace of our own, while a client is confined. */
static void test_replaced(void **state)
{
	char first[] = "/tmp/ascribe-hosts-XXXXXX", second[] = "/tmp/ascribe-hosts-XXXXXX",
	     byte = 0;
	int made[] = { mkstemp(first), mkstemp(second) }, ready[2];
	(void)state;
	if (!CONFINED || geteuid() || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		skip();
	assert_int_equal(mount(first, "/etc/hosts", NULL, MS_BIND, NULL), 0);
	assert_int_equal(pipe(ready), 0);
	pid_t p = fork();
	if (p == 0) {
		SHOULD(!confine_reach(ROLE_POD_WATCHER, NULL));
		SHOULD(!names_files_changed());
		SHOULD(write(ready[1], &byte, 1) == 1);
		SHOULD(within(10000, names_files_changed));
		SHOULD(open("/etc/hosts", O_RDONLY) < 0 && errno == EACCES);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(mount(second, "/etc/hosts", NULL, MS_BIND, NULL), 0);
	expect_no_line(p);
	umount("/etc/hosts");
	umount("/etc/hosts");
	for (size_t i = 0; i < 2; i++) {
		close(made[i]);
		close(ready[i]);
	}
	unlink(first);
	unlink(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_clients),
					    cmocka_unit_test(test_datagrams),
					    cmocka_unit_test(test_replaced) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
