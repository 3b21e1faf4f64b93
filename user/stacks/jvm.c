/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/jvm.h"

#include "util/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 10
#define REAP_MS 20
#define HELPERS_MAX 16 /* at a time, with those that were killed and sleep in the kernel */
#define LIBRARY "/libjvm.so"
#define COUNTERS "/tmp/hsperfdata_"
#define COUNTERS_MAX (128u << 10) /* bytes to read of the counters; HotSpot's default is 32 KiB */
#define MAPS_MAX (8u << 20)	  /* bytes to read of /proc/N/maps */

/* The task of a helper, and its answer. */
struct job {
	const struct proc_root *root;
	uint32_t tgid, uid, gid;
	int pidfd, tmp;
	int64_t until; /* CLOCK_MONOTONIC, ms */
	int out;       /* pipe for the helper's answers; the last one counts */
};

struct answer {
	int rc;
	bool makes_map; /* no map existed, and the JVM was asked to write one */
};

bool jvm_is(const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		const char *path = im->maps[i].file->path;
		size_t len = strlen(path), n = strlen(LIBRARY);
		if (len > n && !strcmp(path + len - n, LIBRARY))
			return true;
	}
	return false;
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- in the helper: forked from a process with threads, so it must not allocate ---- */

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
static bool catches_sigquit(uint32_t tgid)
{
	static char text[8192];
	unsigned long long caught = 0;
	int fd = open_proc(tgid, "status");
	read_up_to(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
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
	size_t len = strlen(line), n = strlen(LIBRARY);
	*io_library |= len > n && !strcmp(line + len - n, LIBRARY);
	const char *at = strstr(line, COUNTERS),
		   *slash = at ? strchr(at + strlen(COUNTERS), '/') : NULL;
	snprintf(wanted, sizeof(wanted), "/%u", inner);
	if (slash && !strcmp(slash, wanted))
		snprintf(counters, 128, "%s", at + strlen("/tmp/"));
}

/* True when the mappings prove that the process is HotSpot. */
static bool maps_hotspot(const struct job *j, char counters[static 128])
{
	static char text[65536];
	bool library = false;
	size_t n = 0, total = 0;
	ssize_t got;
	int fd = open_proc(j->tgid, "maps");
	counters[0] = 0;
	while (fd >= 0 && total < MAPS_MAX &&
	       (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
		char *line = text, *end;
		total += (size_t)got;
		n += (size_t)got;
		text[n] = 0;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			look_at_line(line, j->root->inner, &library, counters);
		}
		n = line == text && n == sizeof(text) - 1 ? 0 : strlen(line);
		memmove(text, line, n);
	}
	if (fd >= 0)
		close(fd);
	return library && counters[0];
}

/* Become the process's user, without other rights. */
static int become(const struct job *j)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	uid_t r, e, s;
	gid_t rg, eg, sg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/*
	 * Not by libc, which changes all threads. Without the capability we are that user already,
	 * or fail.
	 */
	syscall(SYS_setgroups, 0, NULL);
	syscall(SYS_setresgid, j->gid, j->gid, j->gid);
	syscall(SYS_setresuid, j->uid, j->uid, j->uid);
	if (syscall(SYS_capset, &head, none) || getresuid(&r, &e, &s) || getresgid(&rg, &eg, &sg))
		return -errno;
	if (r != j->uid || e != j->uid || s != j->uid || rg != j->gid || eg != j->gid ||
	    sg != j->gid)
		return -EPERM;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* keep our memory from that user */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return fchdir(j->tmp) ? -errno : 0;
}

/*
 * Parse HotSpot's counters: a magic number, then names and values, with the arguments among them.
 */
static bool allows_attach(const struct job *j, const char *counters)
{
	static char data[COUNTERS_MAX];
	static const char off[] = "+DisableAttachMechanism";
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };
	struct stat st;
	int fd = (int)syscall(SYS_openat2, j->tmp, counters, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != j->uid)
		return false;
	size_t n = read_up_to(fd, data, sizeof(data));
	close(fd);
	return n > 32 && !memcmp(data, "\xca\xfe\xc0\xc0", 4) &&
	       memmem(data, n, "java.rt.vmArgs", 14) && !memmem(data, n, off, strlen(off));
}

static bool is_map(const struct job *j, const char *name)
{
	struct stat st;
	return !fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       st.st_uid == j->uid;
}

static int connect_to(const struct job *j)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;
	snprintf(a.sun_path, sizeof(a.sun_path), ".java_pid%u", j->root->inner);
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
static int wake_up(const struct job *j)
{
	char name[64];
	snprintf(name, sizeof(name), ".attach_pid%u", j->root->inner);
	int fd = openat(AT_FDCWD, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	int rc = syscall(SYS_pidfd_send_signal, j->pidfd, SIGQUIT, NULL, 0) ? -errno : -ETIMEDOUT;
	while (rc == -ETIMEDOUT && now_ms() < j->until) {
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
	int64_t left = until - now_ms();
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

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) != 0;
}

static void ask(const struct job *j, struct answer *ret)
{
	/* With the NUL of the literal: three arguments */
	static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0";
	char counters[128], map[64];
	/*
	 * Alive after the checks: so all checks were of this process, and not of another one with
	 * its id.
	 */
	bool proven = catches_sigquit(j->tgid) && maps_hotspot(j, counters) && !has_ended(j->pidfd);
	ret->rc = proven ? become(j) : -EPERM;
	if (!ret->rc && !allows_attach(j, counters))
		ret->rc = -EPERM;
	if (ret->rc)
		return;
	snprintf(map, sizeof(map), "perf-%u.map", j->root->inner);
	if (!is_map(j, map)) { /* report this first: we may be killed during the request */
		*ret = (struct answer){ -ETIMEDOUT, true };
		if (write(j->out, ret, sizeof(*ret)) != sizeof(*ret))
			return;
	}
	int fd = connect_to(j);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		fd = wake_up(j);
	ret->rc = fd < 0								? fd
		  : send(fd, request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) ? 0
											: -EIO;
	ret->rc = ret->rc ? ret->rc : read_answer(fd, j->until);
}

static void remove_map(const struct job *j, struct answer *ret)
{
	char map[64];
	snprintf(map, sizeof(map), "perf-%u.map", j->root->inner);
	ret->rc = become(j);
	if (!ret->rc && is_map(j, map))
		ret->rc = unlinkat(AT_FDCWD, map, 0) ? -errno : 0;
}

/* ---- in the recorder ---- */

/* A forked helper: its task is to be awaited by a map, or by nobody. */
struct jvm_helper {
	pid_t pid; /* 0: the place is free, or the helper was reaped */
	int fd;	   /* of its answers; -1: it has ended, or was killed */
	bool awaited;
	int64_t until;	      /* CLOCK_MONOTONIC, ms */
	struct answer answer; /* the last one */
	uint32_t uid, gid;
	int tmp; /* -1: none */
};

static struct jvm_helper helpers[HELPERS_MAX];

static void end_helper(struct jvm_helper *h)
{
	if (h->pid)
		kill(h->pid, SIGKILL); /* our child, not reaped: the id is still its own */
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

/* Take the answers that have come. True: the helper has ended, or its time is over. */
static bool look_at_helper(struct jvm_helper *h)
{
	struct answer next;
	ssize_t n = -1;
	while (h->fd >= 0 && (n = read(h->fd, &next, sizeof(next))) == sizeof(next))
		h->answer = next;
	if (h->fd >= 0 && (n == 0 || now_ms() >= h->until))
		end_helper(h);
	if (h->pid && h->fd < 0 && waitpid(h->pid, NULL, WNOHANG))
		h->pid = 0;
	return h->fd < 0;
}

/* Return a free place, or NULL: helpers that were killed may sleep in the kernel. */
static struct jvm_helper *free_place(void)
{
	struct jvm_helper *found = NULL;
	for (size_t i = 0; i < HELPERS_MAX; i++) {
		struct jvm_helper *h = &helpers[i];
		if (h->pid)
			look_at_helper(h);
		if (!h->pid && !h->awaited)
			found = h;
	}
	return found;
}

/* Run the task in a child. NULL: no place, or no memory. */
static struct jvm_helper *start_helper(void (*f)(const struct job *j, struct answer *ret),
				       struct job *j)
{
	int fds[2];
	struct jvm_helper *h = free_place();
	if (!h || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return NULL;
	pid_t pid = fork();
	if (pid == 0) {
		struct answer a = { .rc = -ETIMEDOUT };
		prctl(PR_SET_NAME, "ascribe-jvm");
		own_thread_be_nice();
		j->out = fds[1];
		f(j, &a);
		_exit(write(fds[1], &a, sizeof(a)) != sizeof(a));
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return NULL;
	}
	*h = (struct jvm_helper){ pid,	  fds[0], false, j->until + REAP_MS, { .rc = -ETIMEDOUT },
				  j->uid, j->gid, -1 };
	return h;
}

void jvm_finish(unsigned timeout_ms)
{
	int64_t until = now_ms() + timeout_ms;
	for (size_t i = 0; i < HELPERS_MAX; i++)
		while (helpers[i].pid && !look_at_helper(&helpers[i]) && now_ms() < until)
			poll(NULL, 0, 1);
}

/* Parse one id, four times the same: real, effective, saved, filesystem. */
static bool one_id(const char *status, const char *key, uint32_t *ret)
{
	unsigned id[4];
	char format[32];
	const char *line = strstr(status, key);
	snprintf(format, sizeof(format), "%s %%u %%u %%u %%u", key);
	if (!line || sscanf(line, format, &id[0], &id[1], &id[2], &id[3]) != 4)
		return false;
	*ret = id[0];
	return id[0] == id[1] && id[0] == id[2] && id[0] == id[3];
}

static int begin(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms,
		 struct jvm_map *io_map)
{
	struct job j = { .root = root, .tgid = tgid, .until = now_ms() + timeout_ms };
	char status[4096];
	int rc = proc_root_tmp(root, &j.tmp);
	if (rc)
		return rc;
	j.pidfd = (int)syscall(SYS_pidfd_open, tgid, 0);
	if (j.pidfd < 0) {
		rc = -errno;
		close(j.tmp);
		return rc;
	}
	int fd = open_proc(tgid, "status");
	read_up_to(fd, status, sizeof(status));
	if (fd >= 0)
		close(fd);
	rc = one_id(status, "\nUid:", &j.uid) && one_id(status, "\nGid:", &j.gid) &&
			     j.uid == root->uid
		     ? 0
		     : -EPERM;
	struct jvm_helper *h = rc ? NULL : start_helper(ask, &j);
	close(j.pidfd);
	if (!h) {
		close(j.tmp);
		return rc ? rc : -EBUSY;
	}
	h->awaited = true;
	h->tmp = j.tmp;
	io_map->helper = h;
	return -EINPROGRESS;
}

/* The helper has ended: take over what it did. */
static int finish(struct jvm_map *io_map)
{
	struct jvm_helper *h = io_map->helper;
	if (h->answer.makes_map && !io_map->ours) {
		io_map->uid = h->uid;
		io_map->gid = h->gid;
		io_map->tmp = h->tmp;
		io_map->ours = true;
	} else {
		close(h->tmp);
	}
	h->awaited = false;
	io_map->helper = NULL;
	return h->answer.rc;
}

int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms,
		  struct jvm_map *io_map)
{
	if (!io_map->helper)
		return begin(root, tgid, timeout_ms, io_map);
	return look_at_helper(io_map->helper) ? finish(io_map) : -EINPROGRESS;
}

void jvm_remove_map(const struct proc_root *root, struct jvm_map *map, unsigned timeout_ms)
{
	if (map->helper) {
		look_at_helper(map->helper);
		end_helper(map->helper);
		finish(map);
	}
	if (!map->ours)
		return;
	struct job j = { .root = root,
			 .uid = map->uid,
			 .gid = map->gid,
			 .pidfd = -1,
			 .tmp = map->tmp,
			 .until = now_ms() + timeout_ms };
	start_helper(remove_map, &j);
	close(map->tmp);
	map->ours = false;
}
