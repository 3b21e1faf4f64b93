/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a reader, and for whom none is asked any more. */
#include "proc/reader.h"
#include "proc/reader_int.h"

#include "sandbox/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MISSES 256
#define USERS 64
#define NO_USER UINT32_MAX /* the process has ended */
#define STARVED_MS 800u	   /* more, for a reader that only waits for a CPU */
#define COPY_NAME "/memfd:ascribe-copy"

/* A process that did not answer. */
struct miss {
	uint32_t tgid; /* 0: none */
	unsigned n;
	uint64_t start, until_ns;
};

/* What slow requests for a user's processes took. */
struct user {
	uint32_t id;
	uint64_t spent_ns, at_ns;
};

/* A reader that was killed and has not ended. */
struct stuck {
	struct sandbox_child child;
	uint32_t user;
};

static struct {
	struct sandbox *sandbox; /* NULL: requests are run here */
	struct sandbox_child child;
	struct miss miss[MISSES];
	size_t n_misses, next_miss;
	struct user user[USERS];
	struct stuck stuck[READER_STUCK_MAX];
	size_t n_stuck;
	struct reader_stats stats;
	uint64_t cpu_ns; /* of this reader, so far */
	struct buf request;
} reader = { .child = { -1, -1, 0 } };

/* ---- who it is ---- */

/* 0: it has ended. */
static uint64_t start_of(uint32_t tgid)
{
	uint64_t start;
	return proc_start(tgid, &start) ? 0 : start;
}

/* Who made the outermost user namespace below ours: a user may map thousands of users of his own into it. */
static uint32_t namespace_owner(uint32_t tgid, uint32_t uid)
{
	char path[64];
	struct stat st, own;
	uid_t owner;
	snprintf(path, sizeof(path), "/proc/%u/ns/user", tgid);
	int ns = open(path, O_RDONLY | O_CLOEXEC);
	if (stat("/proc/self/ns/user", &own))
		own.st_ino = 0;
	while (ns >= 0 && !fstat(ns, &st) && st.st_ino != own.st_ino) {
		if (!ioctl(ns, NS_GET_OWNER_UID, &owner))
			uid = owner;
		int parent = ioctl(ns, NS_GET_PARENT);
		close(ns);
		ns = parent;
	}
	if (ns >= 0)
		close(ns);
	return uid;
}

uint32_t proc_user(uint32_t tgid)
{
	uint32_t inner, uid;
	return proc_identity(tgid, &inner, &uid) ? NO_USER : namespace_owner(tgid, uid);
}

/* ---- whom to refuse ---- */

static struct miss *miss_find(uint32_t tgid)
{
	for (size_t i = 0; i < reader.n_misses; i++)
		if (reader.miss[i].tgid == tgid)
			return &reader.miss[i];
	return NULL;
}

static void note_miss(uint32_t tgid)
{
	struct miss *m = miss_find(tgid);
	uint64_t start = start_of(tgid);
	if (!m) {
		m = &reader.miss[reader.next_miss++ % MISSES];
		if (reader.n_misses < MISSES)
			reader.n_misses++;
		*m = (struct miss){ 0 };
	}
	if (m->tgid != tgid || m->start != start)
		*m = (struct miss){ .tgid = tgid, .start = start };
	m->until_ns = channel_now_ns() + (READER_REFUSE_NS << 2 * (m->n < 5 ? m->n : 5));
	m->n++;
}

bool proc_reader_refuses(uint32_t tgid)
{
	const struct miss *m = reader.n_misses ? miss_find(tgid) : NULL;
	return m && channel_now_ns() < m->until_ns && m->start == start_of(tgid);
}

static struct user *user_find(uint32_t id)
{
	uint64_t now = channel_now_ns();
	struct user *least = &reader.user[0];
	for (size_t i = 0; i < USERS; i++) {
		struct user *u = &reader.user[i];
		uint64_t earned = (now - u->at_ns) / READER_EARN;
		u->spent_ns = u->spent_ns > earned ? u->spent_ns - earned : 0;
		u->at_ns = now;
		if (u->spent_ns && u->id == id)
			return u;
		if (u->spent_ns < least->spent_ns)
			least = u;
	}
	*least = (struct user){ .id = id, .at_ns = now };
	return least;
}

static void charge(uint32_t user, uint64_t ns)
{
	user_find(user)->spent_ns += ns;
}

/* Those that have ended meanwhile are forgotten. How many are left of this user? */
static size_t count_stuck(uint32_t user)
{
	size_t n = 0, own = 0;
	for (size_t i = 0; i < reader.n_stuck; i++) {
		struct stuck s = reader.stuck[i];
		struct pollfd p = { .fd = s.child.pidfd, .events = POLLIN };
		if (poll(&p, 1, 0) > 0) {
			sandbox_child_release(&s.child);
			continue;
		}
		own += s.user == user;
		reader.stuck[n++] = s;
	}
	reader.n_stuck = n;
	return own;
}

/* Only where something was slow before, whose user it is has to be known. */
static bool any_spent(void)
{
	for (size_t i = 0; i < USERS; i++)
		if (reader.user[i].spent_ns)
			return true;
	return reader.n_stuck;
}

static bool is_refused(uint32_t tgid)
{
	if (proc_reader_refuses(tgid))
		return true;
	if (!any_spent())
		return false;
	uint32_t user = proc_user(tgid);
	return user_find(user)->spent_ns > READER_SPEND_NS || count_stuck(user) >= READER_STUCK_USER ||
	       reader.n_stuck == READER_STUCK_MAX;
}

/* ---- asking ---- */

/* Kill it, and do not wait: it may be in a read that no signal ends. */
static void abandon(uint32_t tgid, uint64_t took)
{
	reader.stats.abandoned++;
	note_miss(tgid);
	charge(proc_user(tgid), took);
	close(reader.child.fd);
	reader.child.fd = -1;
	if (reader.n_stuck < READER_STUCK_MAX)
		reader.stuck[reader.n_stuck++] = (struct stuck){ reader.child, proc_user(tgid) };
	else /* of a root that is closed: such a request is never refused */
		sandbox_child_release(&reader.child);
	reader.child = SANDBOX_NO_CHILD;
}

/* R: it runs, or waits for a CPU. T: somebody stopped it. S, D: it waits for what it was asked to read. '?': it has ended. */
static char state_of(pid_t pid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	const char *p = strrchr(text, ')');
	return p && p[1] == ' ' ? p[2] : '?';
}

/* Bytes of all copies that are open here, whoever keeps them. */
static uint64_t copies_bytes(void)
{
	char link[64];
	struct stat st;
	uint64_t sum = 0;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link));
		if (n >= (ssize_t)strlen(COPY_NAME) && !memcmp(link, COPY_NAME, strlen(COPY_NAME)) && !fstat(atoi(e->d_name), &st))
			sum += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
	return sum;
}

static int ask_reader(const struct buf *q, struct buf *reply, int *ret_fd)
{
	struct channel_head h = { .len = (uint32_t)q->len };
	uint64_t until = channel_now_ns() + READER_MS * 1000000ull, last = until + STARVED_MS * 1000000ull;
	int fd = reader.child.fd;
	size_t n = 0;
	int rc = channel_send(fd, &h, q->data, NULL, 0, until);
	rc = rc ? rc : channel_recv_head(fd, &h, ret_fd, 1, &n, until);
	if (rc == -ETIMEDOUT && state_of(reader.child.pid) == 'R')
		rc = channel_recv_head(fd, &h, ret_fd, 1, &n, last);
	/* From here on it only sends what it has. */
	rc = rc ? rc : buf_reserve(reply, h.len + 1u);
	rc = rc ? rc : channel_recv(fd, reply->data, h.len, last);
	if (rc)
		return rc;
	reply->len = h.len;
	sandbox_add_cpu(reader.sandbox, h.value - reader.cpu_ns);
	reader.cpu_ns = h.value;
	return h.what <= 0 ? h.what : -EBADMSG;
}

/* One request that got through, or killed its reader. */
static int ask_once(uint32_t tgid, struct buf *reply, int *ret_fd, bool *ret_gone)
{
	int fd = -1;
	if (reader.child.fd < 0) {
		if (sandbox_spawn_reader(reader.sandbox, &reader.child))
			return -EINTR;
		reader.cpu_ns = 0;
	}
	uint64_t begin = channel_now_ns(); /* what it takes to make a reader is nobody's fault */
	int rc = ask_reader(&reader.request, reply, &fd);
	uint64_t took = channel_now_ns() - begin;
	reader.stats.requests++;
	*ret_gone = rc == -EPIPE;
	if (rc == -ETIMEDOUT || rc == -EPIPE || rc == -EBADMSG) {
		char state = state_of(reader.child.pid);
		bool blocked = rc == -ETIMEDOUT && (state == 'S' || state == 'D');
		sandbox_child_kill(&reader.child);
		if (blocked)
			abandon(tgid, took);
		else
			sandbox_child_release(&reader.child);
		rc = blocked ? -EAGAIN : -EINTR; /* interrupted: that says nothing about the process */
	} else if (took > READER_SLOW_NS) {
		charge(proc_user(tgid), took);
	}
	if (!rc && ret_fd)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return rc;
}

static int make_request(const struct reader_request *q, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	struct buf *b = &reader.request;
	b->len = 0;
	if (len >= READER_TEXT_MAX)
		return -ENAMETOOLONG;
	int rc = buf_add(b, q, sizeof(*q));
	rc = rc ? rc : buf_add(b, text ? text : "", len);
	return rc ? rc : buf_add_u8(b, 0);
}

int reader_ask(const struct reader_request *q, const char *text, struct buf *reply, int *ret_fd)
{
	bool gone = false;
	int fd = -1, rc = make_request(q, text);
	reply->len = 0;
	if (rc)
		return rc;
	if (!reader.sandbox) {
		rc = reader_serve((const struct reader_request *)(const void *)reader.request.data, reply, &fd);
		if (ret_fd)
			*ret_fd = fd;
		return rc;
	}
	if (q->op != ROOT_CLOSE && is_refused(q->tgid)) {
		reader.stats.refused++;
		return -EBUSY;
	}
	rc = ask_once(q->tgid, reply, ret_fd, &gone);
	if (gone) /* it had ended before, together with its nursery perhaps */
		rc = ask_once(q->tgid, reply, ret_fd, &gone);
	return rc;
}

int proc_ask_file(const struct reader_request *q, const char *path, struct proc_opened *ret)
{
	struct buf reply = BUF_INIT;
	int fd = -1, rc = reader_ask(q, path, &reply, &fd);
	if (!rc && (fd < 0 || reply.len != sizeof(*ret)))
		rc = -EBADMSG;
	if (!rc) {
		memcpy(ret, reply.data, sizeof(*ret));
		ret->fd = fd;
		reader.stats.copies += ret->copied;
		if (ret->copied && copies_bytes() > READER_COPIES_MAX)
			rc = -ENOSPC;
	}
	buf_fini(&reply);
	if (rc && fd >= 0)
		close(fd);
	return rc;
}

/* ---- life ---- */

void proc_reader_start(struct sandbox *s)
{
	proc_reader_stop(reader.sandbox);
	reader.sandbox = s;
}

void proc_reader_stop(const struct sandbox *s)
{
	if (!s || reader.sandbox != s)
		return;
	sandbox_child_kill(&reader.child);
	sandbox_child_release(&reader.child);
	for (size_t i = 0; i < reader.n_stuck; i++)
		sandbox_child_release(&reader.stuck[i].child);
	buf_fini(&reader.request);
	reader.sandbox = NULL;
	reader.n_stuck = reader.n_misses = reader.next_miss = 0;
	memset(reader.user, 0, sizeof(reader.user));
	memset(&reader.stats, 0, sizeof(reader.stats));
}

void proc_reader_stats(struct reader_stats *ret)
{
	*ret = reader.stats;
}
