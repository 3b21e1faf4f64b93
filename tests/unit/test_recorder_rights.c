/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder that was taken over can do: no more than it needs for its recording. */
#include "sandbox/confine.h"

#include "confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static long bpf(enum bpf_cmd command, union bpf_attr *a)
{
	return syscall(SYS_bpf, command, a, sizeof(*a));
}

/* map: of before. */
static void try_bpf(int map)
{
	uint32_t key = 0;
	uint64_t value = 7;
	union bpf_attr element = { .map_fd = (uint32_t)map,
				   .key = (uintptr_t)&key,
				   .value = (uintptr_t)&value };
	union bpf_attr new = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1
	};
	union bpf_attr none = { 0 };
	SHOULD(map < 0 || !bpf(BPF_MAP_UPDATE_ELEM, &element));
	REFUSED(bpf(BPF_MAP_CREATE, &new));
	REFUSED(syscall(SYS_bpf, BPF_MAP_CREATE | 1ul << 32, &new, sizeof(new)));
	REFUSED(bpf(BPF_PROG_LOAD, &none));
	REFUSED(bpf(BPF_BTF_LOAD, &none));
	REFUSED(bpf(BPF_OBJ_PIN, &none));
	REFUSED(bpf(BPF_OBJ_GET, &none));
	REFUSED(bpf(BPF_MAP_GET_FD_BY_ID, &none));
	REFUSED(bpf(BPF_PROG_TEST_RUN, &none));
}

static void try_others(pid_t other, const char *path)
{
	char program[] = "true", *args[] = { program, NULL }, byte = 0;
	struct iovec here = { &byte, 1 };
	struct perf_event_attr event = { .size = sizeof(event), .type = PERF_TYPE_SOFTWARE };
	const struct rlimit none = { 0, 0 };
	const int file = open(path, O_RDONLY);
	REFUSED(execv("/bin/true", args));
	REFUSED(ptrace(PTRACE_SEIZE, other, NULL, NULL));
	REFUSED(process_vm_readv(other, &here, 1, &here, 1, 0));
	REFUSED(process_vm_writev(other, &here, 1, &here, 1, 0));
	REFUSED(syscall(SYS_pidfd_getfd, 0, 0, 0));
	REFUSED(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(syscall(SYS_prlimit64, other, RLIMIT_NOFILE, &none, NULL));
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(mknod("/tmp/ascribe-device", S_IFIFO | 0600, 0));
	REFUSED(chmod(path, 0666));
	REFUSED(fchmod(file, 0666));
	REFUSED(fchown(file, 1, 1));
}

/* Such as /run/systemd/private, or that of a container engine. */
static void try_sockets(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "/run/docker.sock" };
	int pair[2];
	struct sockaddr_in web = { .sin_family = AF_INET, .sin_port = htons(80) };
	REFUSED(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof(at)));
	/* Datagrams, such as MAINPID= to systemd, take no connect. */
	REFUSED(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	REFUSED(socket(AF_UNIX, SOCK_RAW, 0));
	/* The kernel drops the upper half of a family. */
	REFUSED(syscall(SYS_socket, AF_UNIX | 1ul << 32, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	REFUSED(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	REFUSED(socketpair(AF_UNIX, SOCK_RAW | SOCK_NONBLOCK, 0, pair));
	SHOULD(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	REFUSED(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&web, sizeof(web)));
	/* With SO_REUSEPORT it would share those of others of its user. */
	web.sin_port = 0;
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 4)
		SHOULD(bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&web, sizeof(web)) <
			       0 &&
		       errno == EACCES);
}

static void test_recorders(void **state)
{
	static const enum role_id who[] = { ROLE_RECORDER, ROLE_BY_HAND };
	char path[] = "/tmp/ascribe-recorder-XXXXXX";
	union bpf_attr array = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1
	};
	struct stat st;
	int made = mkstemp(path), map = (int)bpf(BPF_MAP_CREATE, &array);
	(void)state;
	if (!CONFINED)
		skip();
	for (size_t i = 0; i < sizeof(who) / sizeof(who[0]); i++) {
		pid_t p = fork();
		if (p == 0) {
			SHOULD(!confine_rights(who[i], CONFINE_KEEP_ALL));
			SHOULD(!confine_reach(who[i], NULL));
			try_bpf(map);
			try_others(getppid(), path);
			try_sockets();
			_exit(0);
		}
		expect_no_line(p);
	}
	assert_true(!fstat(made, &st) && (st.st_mode & 0777) == 0600);
	close(made);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_recorders) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
