/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/jvm_helper.h"

#include "sandbox/anew.h"
#include "sandbox/confine.h"
#include "sandbox/kept.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define STEP_MS 10
#define COUNTERS "/tmp/hsperfdata_"
#define COUNTERS_MAX (128u << 10) /* bytes to read of the counters; HotSpot's default is 32 KiB */
#define MAPS_MAX (8u << 20)	  /* bytes to read of /proc/N/maps */

/* Its descriptors. */
#define OUT ANEW_FD
#define TMP (ANEW_FD + 1)
#define TARGET (ANEW_FD + 2)
#define N_FDS 3

int64_t jvm_now_ms(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

bool jvm_is_library(const char *path)
{
	static const char name[] = "/libjvm.so";
	const size_t len = strlen(path), n = strlen(name);
	return len > n && !strcmp(path + len - n, name);
}

/* ---- the proof ---- */

static int open_proc(uint32_t tgid, const char *file)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/%s", tgid, file);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Read up to cap - 1 bytes and terminate them. Return the length. */
static size_t read_up_to(int fd, char *text, size_t cap)
{
	size_t n = 0;
	ssize_t got;
	while (fd >= 0 && n < cap - 1 && (got = read(fd, text + n, cap - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	return n;
}

/* SIGQUIT would kill a process that does not catch it. */
static bool catches_sigquit(int status)
{
	static char text[8192];
	unsigned long long caught = 0;
	read_up_to(status, text, sizeof(text));
	const char *line = strstr(text, "\nSigCgt:");
	return line && sscanf(line, "\nSigCgt: %llx", &caught) == 1 && caught >> (SIGQUIT - 1) & 1;
}

/*
 * Check a line of maps for HotSpot's library and for its counters. Copy the counters' name below
 * /tmp.
 */
static void look_at_line(const char *line, uint32_t inner, bool *io_library,
			 char counters[static 128])
{
	char wanted[16];
	*io_library |= jvm_is_library(line);
	const char *at = strstr(line, COUNTERS),
		   *slash = at ? strchr(at + strlen(COUNTERS), '/') : NULL;
	snprintf(wanted, sizeof(wanted), "/%u", inner);
	if (slash && !strcmp(slash, wanted))
		snprintf(counters, 128, "%s", at + strlen("/tmp/"));
}

/* True when the mappings prove that the process is HotSpot. */
static bool maps_hotspot(const struct jvm_job *j, int maps, char counters[static 128])
{
	static char text[65536];
	bool library = false;
	size_t n = 0, total = 0;
	ssize_t got;
	counters[0] = 0;
	while (maps >= 0 && total < MAPS_MAX &&
	       (got = read(maps, text + n, sizeof(text) - 1 - n)) > 0) {
		char *line = text, *end;
		total += (size_t)got;
		n += (size_t)got;
		text[n] = 0;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			look_at_line(line, j->inner, &library, counters);
		}
		n = line == text && n == sizeof(text) - 1 ? 0 : strlen(line);
		memmove(text, line, n);
	}
	return library && counters[0];
}

static bool has_ended(void)
{
	struct pollfd p = { .fd = TARGET, .events = POLLIN };
	return poll(&p, 1, 0) != 0;
}

/* ---- giving up rights ---- */

/* Become the process's user, without other rights, in its /tmp. */
static int become(const struct jvm_job *j)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;
	/* Without the capability we are that user already, or fail. */
	syscall(SYS_setgroups, 0, NULL);
	syscall(SYS_setresgid, j->gid, j->gid, j->gid);
	syscall(SYS_setresuid, j->uid, j->uid, j->uid);
	int rc = confine_rights(ROLE_JVM, CONFINE_KEEP_ALL);
	if (rc || getresuid(&r, &e, &s) || getresgid(&rg, &eg, &sg))
		return rc ? rc : -errno;
	if (r != j->uid || e != j->uid || s != j->uid || rg != j->gid || eg != j->gid ||
	    sg != j->gid)
		return -EPERM;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* keep our memory from that user */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return fchdir(TMP) ? -errno : confine_reach(ROLE_JVM, NULL);
}

/* ---- the attach protocol ---- */

/*
 * Parse HotSpot's counters: a magic number, then names and values, with the arguments among them.
 */
static bool allows_attach(const struct jvm_job *j, const char *counters)
{
	static char data[COUNTERS_MAX];
	static const char off[] = "+DisableAttachMechanism";
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };
	struct stat st;
	int fd = (int)syscall(SYS_openat2, TMP, counters, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != j->uid)
		return false;
	size_t n = read_up_to(fd, data, sizeof(data));
	close(fd);
	return n > 32 && !memcmp(data, "\xca\xfe\xc0\xc0", 4) &&
	       memmem(data, n, "java.rt.vmArgs", 14) && !memmem(data, n, off, strlen(off));
}

static bool is_map(const struct jvm_job *j, const char *name)
{
	struct stat st;
	return !fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       st.st_uid == j->uid;
}

static int connect_to(const struct jvm_job *j)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;
	snprintf(a.sun_path, sizeof(a.sun_path), ".java_pid%u", j->inner);
	if (fstatat(AT_FDCWD, a.sun_path, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISSOCK(st.st_mode) || st.st_uid != j->uid)
		return -EPERM;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
	if (!rc)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Have the JVM open its socket. */
static int wake_up(const struct jvm_job *j)
{
	char name[64];
	snprintf(name, sizeof(name), ".attach_pid%u", j->inner);
	int fd = openat(AT_FDCWD, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	int rc = syscall(SYS_pidfd_send_signal, TARGET, SIGQUIT, NULL, 0) ? -errno : -ETIMEDOUT;
	while (rc == -ETIMEDOUT && jvm_now_ms() < j->until_ms) {
		poll(NULL, 0, STEP_MS);
		rc = connect_to(j);
		if (rc == -ENOENT || rc == -ECONNREFUSED)
			rc = -ETIMEDOUT;
	}
	unlinkat(AT_FDCWD, name, 0);
	return rc;
}

static int wait_for(int fd, short what, int64_t until)
{
	int64_t left = until - jvm_now_ms();
	struct pollfd p = { .fd = fd, .events = what };
	return left > 0 && poll(&p, 1, (int)left) > 0 ? 0 : -ETIMEDOUT;
}

/*
 * Read the answer: it begins with a number and a newline, 0 for success, and ends when the map is
 * written.
 */
static int read_answer(int fd, int64_t until)
{
	char head[16] = "", rest[1024];
	size_t len = 0;
	for (;;) {
		int rc = wait_for(fd, POLLIN, until);
		if (rc)
			return rc;
		ssize_t n = read(fd, rest, sizeof(rest));
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n && len < sizeof(head) - 1; i++)
			head[len++] = rest[i];
	}
	return !strncmp(head, "0\n", 2) ? 0 : -EOPNOTSUPP;
}

static void ask(const struct jvm_job *j, struct jvm_answer *ret)
{
	/* With the NUL of the literal: three arguments */
	static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0";
	char counters[128], map[64];
	/* Opening takes rights that reading does not. */
	const int status = open_proc(j->tgid, "status"), maps = open_proc(j->tgid, "maps");
	ret->rc = become(j);
	/*
	 * Alive after the checks: so all checks were of this process, and not of another one with
	 * its id.
	 */
	if (!ret->rc &&
	    !(catches_sigquit(status) && maps_hotspot(j, maps, counters) && !has_ended()))
		ret->rc = -EPERM;
	if (!ret->rc && !allows_attach(j, counters))
		ret->rc = -EPERM;
	if (ret->rc)
		return;
	snprintf(map, sizeof(map), "perf-%u.map", j->inner);
	if (!is_map(j, map)) { /* report this first: we may be killed during the request */
		*ret = (struct jvm_answer){ -ETIMEDOUT, true };
		if (write(OUT, ret, sizeof(*ret)) != sizeof(*ret))
			return;
	}
	int fd = connect_to(j);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		fd = wake_up(j);
	ret->rc = fd < 0								? fd
		  : send(fd, request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) ? 0
											: -EIO;
	ret->rc = ret->rc ? ret->rc : read_answer(fd, j->until_ms);
}

static void remove_map(const struct jvm_job *j, struct jvm_answer *ret)
{
	char map[64];
	snprintf(map, sizeof(map), "perf-%u.map", j->inner);
	ret->rc = become(j);
	if (!ret->rc && is_map(j, map))
		ret->rc = unlinkat(AT_FDCWD, map, 0) ? -errno : 0;
}

/* ---- executed anew ---- */

#define NAME "ascribe-jvm"
#define ARGUMENTS 6

static _Noreturn void run(const struct jvm_job *j)
{
	struct jvm_answer a = { .rc = -ETIMEDOUT };
	confine_signals();
	own_thread_be_nice();
	prctl(PR_SET_NAME, NAME);
	if (j->remove)
		remove_map(j, &a);
	else
		ask(j, &a);
	_exit(write(OUT, &a, sizeof(a)) != sizeof(a));
}

/* Become the helper before main(), as in nursery.c. */
__attribute__((constructor)) static void jvm_helper_main(int argc, char **argv)
{
	if (argc != 1 + ARGUMENTS || strcmp(argv[0], NAME) != 0 || anew_gains_rights())
		return;
	const struct jvm_job j = {
		.tgid = (uint32_t)strtoul(argv[1], NULL, 10),
		.inner = (uint32_t)strtoul(argv[2], NULL, 10),
		.uid = (uint32_t)strtoul(argv[3], NULL, 10),
		.gid = (uint32_t)strtoul(argv[4], NULL, 10),
		.until_ms = strtoll(argv[5], NULL, 10),
		.remove = !strcmp(argv[6], "remove"),
	};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(&j);
}

static int spawn(const struct jvm_job *j, const int *fds, pid_t *ret)
{
	char number[5][24];
	char *argv[] = { (char *)NAME,
			 number[0],
			 number[1],
			 number[2],
			 number[3],
			 number[4],
			 (char *)(uintptr_t)(j->remove ? "remove" : "ask"),
			 NULL },
	     *envp[] = { NULL };
	snprintf(number[0], sizeof(number[0]), "%u", j->tgid);
	snprintf(number[1], sizeof(number[1]), "%u", j->inner);
	snprintf(number[2], sizeof(number[2]), "%u", j->uid);
	snprintf(number[3], sizeof(number[3]), "%u", j->gid);
	snprintf(number[4], sizeof(number[4]), "%lld", (long long)j->until_ms);
	if (!anew_gains_rights())
		return anew_spawn(argv, envp, fds, N_FDS, ret);
	pid_t pid = fork();
	if (pid == 0) {
		if (anew_take(fds, N_FDS))
			_exit(1);
		run(j);
	}
	if (pid < 0)
		return -errno;
	*ret = pid;
	return 0;
}

int jvm_helper_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct jvm_job j;
	pid_t pid;
	if (q->len != sizeof(j) || q->n_fds != N_FDS)
		return err_set(err, -EBADMSG, "a question to a JVM that cannot be");
	memcpy(&j, q->bytes, sizeof(j));
	int rc = spawn(&j, q->fds, &pid);
	if (rc)
		return err_sys(err, rc, "starting " NAME);
	return kept_started(ret, pid, err);
}

/* The target of a removal is OUT once more, which is not looked at. */
int jvm_helper_start(const struct jvm_job *j, int out, int tmp, int target, pid_t *ret)
{
	const int fds[N_FDS] = { out, tmp, target < 0 ? out : target };
	const struct keeper_question q = { j, sizeof(*j), fds, N_FDS };
	return kept_start(jvm_helper_op, &q, ret, NULL);
}
