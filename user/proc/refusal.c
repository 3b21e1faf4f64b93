/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes and users are refused: those that did not answer, and those that used too much of
 * the readers' time.
 */
#include "proc/reader.h"
#include "proc/links.h"
#include "proc/reader_int.h"

#include "sandbox/channel.h"
#include "util/spenders.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MISSES 256
#define NO_USER UINT32_MAX /* the process has ended */

/* A process that did not answer. */
struct miss {
	uint32_t tgid; /* 0: none */
	unsigned n;
	uint64_t start, until_ns;
};

/* A reader that was killed and has not ended. */
struct stuck {
	struct sandbox_child child;
	uint32_t user;
};

static struct {
	struct miss miss[MISSES];
	size_t n_misses, next_miss;
	struct spenders users; /* time that slow requests for their processes took */
	struct stuck stuck[READER_STUCK_MAX];
	size_t n_stuck;
	struct reader_silence silence;
} refusal;

/* ---- identities ---- */

uint64_t refusal_start(uint32_t tgid)
{
	uint64_t start;
	return proc_start(tgid, &start) ? 0 : start;
}

/*
 * Who made the outermost user namespace below ours: a user may map thousands of users of his own
 * into it.
 */
static uint32_t namespace_owner(uint32_t tgid, uint32_t uid)
{
	struct stat st, own;
	uid_t owner;
	int ns = proc_link_open(tgid, PROC_LINK_USER_NAMESPACE);
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
	if (proc_identity(tgid, &inner, &uid))
		return NO_USER;
	return proc_has_ids_of_here(tgid) ? uid : namespace_owner(tgid, uid);
}

uint32_t proc_image_user(struct proc_image *im)
{
	if (!im)
		return NO_USER;
	if (!im->user_known)
		im->user = proc_user(im->tgid);
	im->user_known = true;
	return im->user;
}

#define CACHED 64
#define CACHED_NS 100000000ull

uint32_t refusal_user(uint32_t tgid)
{
	static struct cached {
		uint32_t tgid, user;
		uint64_t at_ns;
	} cache[CACHED];
	struct cached *c = &cache[tgid % CACHED];
	uint64_t now = channel_now_ns();
	if (c->tgid != tgid || now - c->at_ns > CACHED_NS)
		*c = (struct cached){ tgid, proc_user(tgid), now };
	return c->user;
}

/* ---- names of those that did not answer ---- */

static void read_comm(uint32_t tgid, char out[static PROC_COMM_SIZE + 1])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/comm", tgid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, PROC_COMM_SIZE) : 0;
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	out[strcspn(out, "\n")] = 0;
}

/* Count a request without an answer under the name of its process. */
static void note_silence(uint32_t tgid)
{
	struct reader_silence *s = &refusal.silence;
	struct reader_silent *v = s->v, *end = v + s->n;
	while (v < end && v->tgid != tgid)
		v++;
	if (v == end && s->n == READER_NAMES) {
		s->others++;
		return;
	}
	if (v == end) {
		*v = (struct reader_silent){ .tgid = tgid };
		read_comm(tgid, v->comm);
		s->n++;
	}
	v->requests++;
}

void proc_reader_silence(struct reader_silence *ret)
{
	*ret = refusal.silence;
}

void proc_reader_forget_silence(void)
{
	refusal.silence = (struct reader_silence){ 0 };
}

void reader_silence_add(struct reader_silence *to, const struct reader_silence *from)
{
	for (size_t i = 0; i < from->n; i++) {
		size_t k = 0;
		while (k < to->n && (to->v[k].tgid != from->v[i].tgid ||
				     strcmp(to->v[k].comm, from->v[i].comm) != 0))
			k++;
		if (k < to->n)
			to->v[k].requests += from->v[i].requests;
		else if (k < READER_NAMES)
			to->v[to->n++] = from->v[i];
		else
			to->others += from->v[i].requests;
	}
	to->others += from->others;
}

/* ---- processes ---- */

static struct miss *miss_find(uint32_t tgid)
{
	for (size_t i = 0; i < refusal.n_misses; i++)
		if (refusal.miss[i].tgid == tgid)
			return &refusal.miss[i];
	return NULL;
}

static void note_miss(uint32_t tgid)
{
	struct miss *m = miss_find(tgid);
	uint64_t start = refusal_start(tgid);
	if (!m) {
		m = &refusal.miss[refusal.next_miss++ % MISSES];
		if (refusal.n_misses < MISSES)
			refusal.n_misses++;
		*m = (struct miss){ 0 };
	}
	if (m->tgid != tgid || m->start != start)
		*m = (struct miss){ .tgid = tgid, .start = start };
	m->until_ns = channel_now_ns() + (READER_REFUSE_NS << 2 * (m->n < 5 ? m->n : 5));
	m->n++;
}

bool proc_reader_refuses(uint32_t tgid)
{
	const struct miss *m = refusal.n_misses ? miss_find(tgid) : NULL;
	return m && channel_now_ns() < m->until_ns && m->start == refusal_start(tgid);
}

/* ---- users ---- */

static struct spender *user_find(uint32_t id)
{
	return spenders_find(&refusal.users, id, READER_EARN, channel_now_ns());
}

void refusal_charge(uint32_t tgid, uint64_t ns)
{
	user_find(proc_user(tgid))->spent_ns += ns;
}

/* Release the stuck readers that have ended. Return the number that is left of this user. */
static size_t count_stuck(uint32_t user)
{
	size_t n = 0, own = 0;
	for (size_t i = 0; i < refusal.n_stuck; i++) {
		struct stuck s = refusal.stuck[i];
		struct pollfd p = { .fd = s.child.pidfd, .events = POLLIN };
		if (poll(&p, 1, 0) > 0) {
			sandbox_child_release(&s.child);
			continue;
		}
		own += s.user == user;
		refusal.stuck[n++] = s;
	}
	refusal.n_stuck = n;
	return own;
}

/* A process's user is only looked up where some request was slow before. */
static bool any_spent(void)
{
	for (size_t i = 0; i < SPENDERS; i++)
		if (refusal.users.v[i].spent_ns)
			return true;
	return refusal.n_stuck;
}

static bool is_user_refused(uint32_t tgid)
{
	if (!any_spent())
		return false;
	uint32_t user = refusal_user(tgid);
	return user_find(user)->spent_ns > READER_SPEND_NS ||
	       count_stuck(user) >= READER_STUCK_USER || refusal.n_stuck == READER_STUCK_MAX;
}

bool refusal_applies(uint32_t tgid)
{
	if (!proc_reader_refuses(tgid) && !is_user_refused(tgid))
		return false;
	note_silence(tgid);
	return true;
}

void refusal_abandon(uint32_t tgid, struct sandbox_child *child, uint64_t took_ns)
{
	note_silence(tgid);
	note_miss(tgid);
	refusal_charge(tgid, took_ns);
	close(child->fd);
	child->fd = -1;
	if (refusal.n_stuck < READER_STUCK_MAX)
		refusal.stuck[refusal.n_stuck++] = (struct stuck){ *child, proc_user(tgid) };
	else /* of a root that is closed: such a request is never refused */
		sandbox_child_release(child);
	*child = SANDBOX_NO_CHILD;
}

void refusal_forget(void)
{
	for (size_t i = 0; i < refusal.n_stuck; i++)
		sandbox_child_release(&refusal.stuck[i].child);
	memset(&refusal, 0, sizeof(refusal));
}
