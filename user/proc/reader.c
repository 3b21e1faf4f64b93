/* SPDX-License-Identifier: Apache-2.0 */
/* Asking readers: questions on their way, answers that came late, deadlines. */
#include "proc/reader.h"
#include "proc/reader_int.h"

#include "sandbox/channel.h"
#include "sandbox/child_clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READER_MS_NS (READER_MS * 1000000ull)
#define READER_CPU_NS_MAX (READER_CPU_MS * 1000000ull)
#define QUICK_NS 100000ull /* of each wait: not taken from the patience */
#define REPLY_MAX (17u << 20)
#define ANSWERS_MAX 64
#define ANSWERS_BYTES (32u << 20)
#define CLOSINGS_MAX 256
#define ROOTS_READER 0 /* the reader that keeps roots open, and does nothing else */
#define AT_ONCE 1      /* CLOCK_MONOTONIC, long ago: do not wait */

/* A reader, and its question. */
struct helper {
	struct sandbox_child child;
	struct buf question; /* empty: it is idle */
	bool late;	     /* its caller does not wait any more */
	bool has_head;
	struct channel_head head;
	struct buf reply;
	int fd;
	uint64_t begin_ns;
	struct child_clock clock; /* once late, like start and user */
	uint64_t start;		  /* of the process; 0: it has ended */
	uint32_t user;
};

/* An answer that came late, until it is asked for again. */
struct answer {
	struct buf question, reply;
	int rc, fd;
	uint64_t start, done_ns;
};

static struct {
	struct sandbox *sandbox; /* NULL: requests are run here */
	int epoll;
	struct helper helper[READERS];
	struct answer answer[ANSWERS_MAX]; /* oldest first */
	size_t n_answers, answers_bytes;
	struct reader_request closing[CLOSINGS_MAX]; /* roots to close */
	size_t n_closing;
	uint64_t patience_ns, patience_at_ns;
	uint64_t idle_look_ns; /* end_idle does nothing before */
	struct reader_stats stats;
	struct buf request; /* of the question in hand */
} reader = { .epoll = -1 };

static const struct reader_request *request_of(const struct buf *question)
{
	return (const struct reader_request *)(const void *)question->data;
}

static bool is_same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static bool needs_roots(uint32_t op)
{
	return op >= ROOT_OPEN;
}

/* ---- answers that came late ---- */

static void answer_remove(size_t i)
{
	struct answer *a = &reader.answer[i];
	reader.answers_bytes -= a->reply.len;
	if (a->fd >= 0)
		close(a->fd);
	buf_fini(&a->question);
	buf_fini(&a->reply);
	memmove(a, a + 1, (--reader.n_answers - i) * sizeof(*a));
}

/* Keep what a late helper answered. */
static void answer_keep(struct helper *h)
{
	while (reader.n_answers && (reader.n_answers == ANSWERS_MAX ||
				    reader.answers_bytes + h->reply.len > ANSWERS_BYTES))
		answer_remove(0);
	reader.answer[reader.n_answers++] =
		(struct answer){ h->question, h->reply, h->head.what,
				 h->fd,	      h->start, channel_now_ns() };
	reader.answers_bytes += h->reply.len;
	h->question = h->reply = (struct buf)BUF_INIT;
	h->fd = -1;
}

static void drop_old_answers(uint64_t now)
{
	while (reader.n_answers && now > reader.answer[0].done_ns + READER_KEEP_NS)
		answer_remove(0);
}

/* False: there is no answer to this question. */
static bool take_answer(const struct buf *question, struct buf *reply, int *ret_fd, int *ret_rc)
{
	size_t i = 0;
	while (i < reader.n_answers && !is_same(&reader.answer[i].question, question))
		i++;
	if (i == reader.n_answers)
		return false;
	struct answer *a = &reader.answer[i];
	uint64_t start = refusal_start(request_of(question)->tgid);
	/* else the process has ended, and its id is that of another one */
	bool same = !start || a->start == start;
	if (same) {
		*ret_rc = a->rc;
		reader.answers_bytes -= a->reply.len;
		buf_fini(reply);
		*reply = a->reply;
		a->reply = (struct buf)BUF_INIT;
		if (ret_fd && !a->rc) {
			*ret_fd = a->fd;
			a->fd = -1;
		}
	}
	answer_remove(i);
	return same;
}

/* ---- helpers ---- */

static void helper_reset(struct helper *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	h->question.len = h->reply.len = 0;
	h->late = h->has_head = false;
}

static void helper_end(struct helper *h)
{
	if (h->child.pidfd >= 0)
		sandbox_child_kill(&h->child);
	sandbox_drop_reader(reader.sandbox, &h->child);
	h->child = SANDBOX_NO_CHILD;
}

static int helper_order(struct helper *h)
{
	int rc = sandbox_order_reader(reader.sandbox, &h->child);
	struct epoll_event e = { .events = EPOLLIN };
	if (!rc && reader.epoll >= 0)
		epoll_ctl(reader.epoll, EPOLL_CTL_ADD, h->child.fd, &e);
	return rc;
}

static int send_question(struct helper *h, const struct buf *question)
{
	struct channel_head head = { .len = (uint32_t)question->len };
	helper_reset(h);
	int rc = h->child.fd < 0 ? helper_order(h) : 0;
	rc = rc ? rc : buf_add(&h->question, question->data, question->len);
	rc = rc ? rc : channel_send(h->child.fd, &head, question->data, NULL, 0, AT_ONCE);
	h->begin_ns = channel_now_ns();
	if (rc)
		h->question.len = 0;
	return rc;
}

/* The caller does not wait any more. */
static void helper_late(struct helper *h)
{
	h->late = true;
	child_clock_start(&h->clock, h->child.pid, READER_MS_NS, READER_CPU_NS_MAX);
}

/* No reader answers what reader_ask says of a question: callers would ask for ever. */
static int result_of(int32_t what)
{
	return what == -EINPROGRESS || what == -EBUSY || what == -EINTR ? -EIO : what;
}

/* Receive what there is of an answer. -EINPROGRESS: not all of it. */
static int receive(struct helper *h)
{
	size_t n_fds;
	int rc = 0;
	if (h->child.fd < 0)
		return -EPIPE;
	if (!h->has_head) {
		rc = channel_recv_head(h->child.fd, &h->head, &h->fd, 1, &n_fds, AT_ONCE);
		if (rc)
			return rc == -ETIMEDOUT ? -EINPROGRESS : rc;
		h->has_head = true;
		h->head.what = result_of(h->head.what);
		rc = h->head.len > REPLY_MAX || h->head.what > 0 || h->head.what <= -4096
			     ? -EBADMSG
			     : buf_reserve(&h->reply, h->head.len + 1u);
	}
	while (!rc && h->reply.len < h->head.len) {
		ssize_t n = recv(h->child.fd, h->reply.data + h->reply.len,
				 h->head.len - h->reply.len, MSG_DONTWAIT);
		if (n > 0)
			h->reply.len += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			return -EINPROGRESS;
		else if (n == 0 || errno != EINTR)
			rc = -EPIPE;
	}
	return rc;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Account for an answer: its CPU time, and what a slow process costs its user. The reader says
 * both itself, and may lie: neither is longer than the question was under way.
 */
static void count_answer(const struct helper *h)
{
	const uint64_t now = channel_now_ns(), most = now - h->begin_ns;
	uint64_t took = least(READER_TOOK_NS(h->head.value), most);
	if (h->late) /* less what it waited for a CPU */
		took = least(took, child_clock_used_ns(&h->clock, h->child.pid, now));
	sandbox_add_cpu(reader.sandbox, least(READER_CPU_NS(h->head.value), most));
	if (took > READER_SLOW_NS)
		refusal_charge(request_of(&h->question)->tgid, took);
}

/* ---- late helpers ---- */

/* Call before receive(). */
static bool is_overdue(struct helper *h, uint64_t now)
{
	if (h->child.pidfd < 0) /* the nursery has a deadline of its own */
		child_clock_start(&h->clock, 0, READER_MS_NS, READER_CPU_NS_MAX);
	return child_clock_is_late(&h->clock, h->child.pid, now);
}

/* Do not wait for it: it may be in a read that no signal ends. */
static void give_up(struct helper *h, uint64_t now)
{
	uint64_t used = child_clock_used_ns(&h->clock, h->child.pid, now);
	char state = sandbox_child_state(h->child.pid);
	sandbox_child_kill(&h->child);
	if (used >= (state == 'R' ? READER_CPU_NS_MAX : READER_MS_NS) && state != 'T' &&
	    state != '?') {
		reader.stats.abandoned++;
		refusal_abandon(request_of(&h->question)->tgid, &h->child, used);
	} else { /* it was stopped, starved or has ended: that says nothing about the process */
		helper_end(h);
	}
}

static void look_at(struct helper *h, uint64_t now)
{
	bool overdue = is_overdue(h, now);
	int rc = receive(h);
	/* An answer that has begun depends on the reader alone. */
	if (rc == -EINPROGRESS &&
	    (!overdue || (h->has_head && now - h->begin_ns < CHILD_STARVED_NS)))
		return;
	reader.stats.moved++;
	if (rc == -EINPROGRESS) {
		give_up(h, now);
	} else if (rc) { /* its question is asked again by whoever wants to know */
		helper_end(h);
	} else {
		count_answer(h);
		if (request_of(&h->question)->op != ROOT_CLOSE)
			answer_keep(h);
	}
	helper_reset(h);
}

/* Close a root when the reader of roots is idle, without waiting for it. */
static void close_roots(void)
{
	struct helper *h = &reader.helper[ROOTS_READER];
	struct buf q = BUF_INIT;
	if (!reader.n_closing || h->question.len)
		return;
	if (h->child.fd < 0) { /* its roots were closed with it */
		reader.n_closing = 0;
		return;
	}
	if (!buf_add(&q, &reader.closing[0], sizeof(reader.closing[0])) && !buf_add_u8(&q, 0)) {
		if (send_question(h, &q))
			helper_end(h);
		else
			helper_late(h);
	}
	buf_fini(&q);
	memmove(&reader.closing[0], &reader.closing[1],
		--reader.n_closing * sizeof(reader.closing[0]));
}

/* Take what has come, and give up what is overdue. */
static void look(void)
{
	uint64_t now = channel_now_ns();
	for (size_t i = 0; i < READERS; i++) {
		struct helper *h = &reader.helper[i];
		if (!h->late)
			continue;
		if (h->child.pidfd < 0)
			sandbox_find_readers(reader.sandbox);
		look_at(h, now);
	}
	drop_old_answers(now);
	close_roots();
}

/* ---- asking ---- */

/* How long the next question may wait for its answer. */
static uint64_t patience(uint64_t now)
{
	reader.patience_ns += (now - reader.patience_at_ns) / READER_PATIENCE_EARN;
	reader.patience_at_ns = now;
	if (reader.patience_ns > READER_PATIENCE_NS)
		reader.patience_ns = READER_PATIENCE_NS;
	return reader.patience_ns < READER_WAIT_NS ? reader.patience_ns : READER_WAIT_NS;
}

static int await(struct helper *h)
{
	uint64_t now = h->begin_ns, until = now + patience(now);
	int rc;
	while ((rc = receive(h)) == -EINPROGRESS && (now = channel_now_ns()) < until) {
		struct pollfd p = { .fd = h->child.fd, .events = POLLIN };
		struct timespec left = { .tv_nsec = (long)(until - now) };
		ppoll(&p, 1, &left, NULL);
	}
	uint64_t took = channel_now_ns() - h->begin_ns,
		 over = took > QUICK_NS ? took - QUICK_NS : 0;
	reader.patience_ns -= over < reader.patience_ns ? over : reader.patience_ns;
	return rc;
}

/* Is a question to this process on its way? */
static bool is_asked(uint32_t tgid)
{
	for (size_t i = 0; i < READERS; i++)
		if (reader.helper[i].late && request_of(&reader.helper[i].question)->tgid == tgid &&
		    request_of(&reader.helper[i].question)->op != ROOT_CLOSE)
			return true;
	return false;
}

/* Return an idle reader for this question, or NULL. */
static struct helper *helper_for(const struct reader_request *q)
{
	struct helper *found = NULL;
	if (needs_roots(q->op))
		return reader.helper[ROOTS_READER].question.len ? NULL
								: &reader.helper[ROOTS_READER];
	for (size_t i = 0; i < READERS; i++) {
		struct helper *h = &reader.helper[i];
		if (i != ROOTS_READER && !h->question.len &&
		    (!found || (found->child.fd < 0 && h->child.fd >= 0)))
			found = h;
	}
	return found;
}

/* True while slow processes of the same user have as many readers as one user may have. */
static bool has_enough(uint32_t tgid)
{
	size_t n_late = 0, own = 0;
	for (size_t i = 0; i < READERS; i++)
		n_late += i != ROOTS_READER && reader.helper[i].question.len;
	if (n_late < READER_USER_MAX)
		return false;
	uint32_t user = refusal_user(tgid);
	for (size_t i = 0; i < READERS; i++)
		own += i != ROOTS_READER && reader.helper[i].question.len &&
		       reader.helper[i].user == user;
	return own >= READER_USER_MAX;
}

/* Send a question, and wait a moment for its answer. */
static int ask_now(struct helper *h, struct buf *reply, int *ret_fd)
{
	const struct reader_request *q = request_of(&reader.request);
	int rc = -EPIPE;
	for (int i = 0; i < 2 && rc && rc != -EINPROGRESS; i++) {
		/* It may have ended before: once more, of a new one */
		rc = send_question(h, &reader.request);
		rc = rc ? rc : await(h);
		if (rc && rc != -EINPROGRESS)
			helper_end(h);
	}
	reader.stats.requests++;
	if (rc == -EINPROGRESS) {
		helper_late(h);
		h->start = refusal_start(q->tgid);
		h->user = proc_user(q->tgid);
		reader.stats.late++;
		return rc;
	}
	if (!rc) {
		count_answer(h);
		rc = h->head.what;
		buf_fini(reply);
		*reply = h->reply;
		h->reply = (struct buf)BUF_INIT;
		if (!rc && ret_fd) {
			*ret_fd = h->fd;
			h->fd = -1;
		}
	} else {
		rc = -EINTR;
	}
	helper_reset(h);
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
	int fd = -1, rc = make_request(q, text);
	reply->len = 0;
	if (rc)
		return rc;
	if (!reader.sandbox) {
		rc = reader_serve(request_of(&reader.request), reply, &fd);
		if (ret_fd)
			*ret_fd = fd;
		return rc;
	}
	look();
	if (take_answer(&reader.request, reply, ret_fd, &rc))
		return rc;
	/* First what costs nothing: this may be asked for each of a thousand rows. */
	struct helper *h = is_asked(q->tgid) ? NULL : helper_for(q);
	if (!h)
		return -EINPROGRESS;
	if (refusal_applies(q->tgid)) {
		reader.stats.refused++;
		return -EBUSY;
	}
	return !needs_roots(q->op) && has_enough(q->tgid) ? -EINPROGRESS
							  : ask_now(h, reply, ret_fd);
}

void reader_close_root(const struct reader_request *q)
{
	struct buf none = BUF_INIT;
	int fd;
	if (!reader.sandbox) {
		reader_serve(q, &none, &fd);
		buf_fini(&none);
		return;
	}
	if (reader.n_closing == CLOSINGS_MAX) {
		/* Their reader does not answer: they are closed with it */
		helper_end(&reader.helper[ROOTS_READER]);
		helper_reset(&reader.helper[ROOTS_READER]);
		reader.n_closing = 0;
		return;
	}
	reader.closing[reader.n_closing++] = *q;
	look();
}

/* ---- files ---- */

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
		if (ret->copied && reader_copies_bytes() > READER_COPIES_MAX)
			rc = -ENOSPC;
	}
	buf_fini(&reply);
	if (rc && fd >= 0)
		close(fd);
	return rc;
}

/* ---- life ---- */

/*
 * End idle readers that are not needed, or were killed: then their sockets are readable for ever.
 */
static void end_idle(void)
{
	uint64_t now = channel_now_ns();
	char byte;
	if (now < reader.idle_look_ns)
		return;
	reader.idle_look_ns = now + READER_IDLE_LOOK_NS;
	for (size_t i = 0; i < READERS; i++) {
		struct helper *h = &reader.helper[i];
		if (h->question.len || h->child.fd < 0)
			continue;
		bool unused = i > ROOTS_READER + 1 && now - h->begin_ns > READER_IDLE_NS;
		if (unused || recv(h->child.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			helper_end(h);
	}
}

int proc_reader_tick(void)
{
	uint64_t now, due = UINT64_MAX;
	if (!reader.sandbox)
		return -1;
	look();
	end_idle();
	now = channel_now_ns();
	for (size_t i = 0; i < READERS; i++) {
		const struct helper *h = &reader.helper[i];
		if (h->late && h->clock.look_ns < due)
			due = h->clock.look_ns;
	}
	return due == UINT64_MAX ? -1 : due <= now ? 1 : (int)((due - now) / 1000000) + 1;
}

int proc_reader_fd(void)
{
	return reader.epoll;
}

void proc_reader_start(struct sandbox *s)
{
	proc_reader_stop(reader.sandbox);
	reader.sandbox = s;
	reader.epoll = epoll_create1(EPOLL_CLOEXEC);
	reader.patience_ns = READER_PATIENCE_NS;
	reader.patience_at_ns = channel_now_ns();
	reader.idle_look_ns = 0;
	for (size_t i = 0; i < READERS; i++)
		reader.helper[i] = (struct helper){ .child = SANDBOX_NO_CHILD, .fd = -1 };
	/* So that the first question need not wait for it */
	helper_order(&reader.helper[ROOTS_READER + 1]);
}

void proc_reader_stop(const struct sandbox *s)
{
	if (!s || reader.sandbox != s)
		return;
	for (size_t i = 0; i < READERS; i++) {
		struct helper *h = &reader.helper[i];
		helper_end(h);
		helper_reset(h);
		buf_fini(&h->question);
		buf_fini(&h->reply);
	}
	while (reader.n_answers)
		answer_remove(0);
	buf_fini(&reader.request);
	if (reader.epoll >= 0)
		close(reader.epoll);
	reader.epoll = -1;
	reader.sandbox = NULL;
	reader.n_closing = 0;
	memset(&reader.stats, 0, sizeof(reader.stats));
	refusal_forget();
}

void proc_reader_stats(struct reader_stats *ret)
{
	*ret = reader.stats;
}
