/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/parser.h"

#include "sandbox/channel.h"
#include "sandbox/confine.h"
#include "util/buf.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ANSWER_RECORD = 1, ANSWER_END };

/* ---- the process ---- */

static void send_record(void *ctx, const struct pod_record *r)
{
	const struct channel_head h = { ANSWER_RECORD, sizeof(*r), 0 };
	if (channel_send(*(const int *)ctx, &h, r, NULL, 0, CHANNEL_FOREVER))
		_exit(1);
}

/* One document: 0, or -errno when nobody listens. */
static int serve(int fd, const struct pods_wanted *want, const char *node, struct buf *in)
{
	struct pods_page page = { 0 };
	struct channel_head h, end = { ANSWER_END, sizeof(page), 0 };
	size_t none;
	int rc = channel_recv_head(fd, &h, NULL, 0, &none, CHANNEL_FOREVER);
	if (rc || h.what < 0 || h.what >= PODS_FORMATS)
		return -EBADMSG;
	in->len = 0;
	rc = buf_reserve(in, (size_t)h.len + 1);
	rc = rc ? rc : channel_recv(fd, in->data, h.len, CHANNEL_FOREVER);
	if (rc)
		return rc;
	rc = pods_parse((enum pods_format)h.what, want, node, in->data, h.len, send_record, &fd,
			&page);
	end.value = (uint64_t)-rc;
	return channel_send(fd, &end, &page, NULL, 0, CHANNEL_FOREVER);
}

_Noreturn void parser_run(int fd, const struct pods_wanted *want, const char *node)
{
	struct buf in = BUF_INIT;
	const struct confine_given given = { .memory = PARSER_MEMORY };
	pid_t parent = getppid();
	confine_signals();
	json_object_seed(0); /* the random number of its hash comes from a file */
	/* A change of user clears the signal of the parent's end, so ask for it behind that. */
	if (confine_rights(ROLE_POD_PARSER, fd) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    getppid() != parent || confine_reach(ROLE_POD_PARSER, &given))
		_exit(1);
	while (!serve(fd, want, node, &in)) {
		if (in.cap > 1u << 20)
			buf_fini(&in);
	}
	_exit(0);
}

/* ---- the watcher's end ---- */

/* Where lists begin and end, and how it goes, the watcher says. */
static bool is_pod(const struct pod_record *r)
{
	return r->what == POD_SEEN || r->what == POD_GONE;
}

/*
 * Take records until the end of the document. -ECHILD: what came is no answer of ours. One that was
 * taken over tells without end, so there may be no moment at which nothing has come.
 */
static int take(int fd, uint64_t until, pods_emit emit, void *ctx, struct pods_page *ret)
{
	static struct pod_record record;
	for (;;) {
		struct channel_head h;
		size_t none;
		int rc = channel_recv_head(fd, &h, NULL, 0, &none, until);
		if (rc)
			return rc == -ETIMEDOUT ? rc : -ECHILD;
		if (h.what == ANSWER_END && h.len == sizeof(*ret)) {
			rc = channel_recv(fd, ret, sizeof(*ret), until);
			ret->version[sizeof(ret->version) - 1] = 0;
			ret->next[sizeof(ret->next) - 1] = 0;
			ret->message[sizeof(ret->message) - 1] = 0;
			return rc ? -ECHILD : h.value < 4096 ? -(int)h.value : -EBADMSG;
		}
		if (h.what != ANSWER_RECORD || h.len != sizeof(record))
			return -ECHILD;
		rc = channel_recv(fd, &record, sizeof(record), until);
		if (rc)
			return rc == -ETIMEDOUT ? rc : -ECHILD;
		if (!pod_record_check(&record, sizeof(record)) || !is_pod(&record))
			return -ECHILD;
		if (channel_now_ns() >= until)
			return -ETIMEDOUT;
		emit(ctx, &record);
	}
}

int parser_parse(int fd, enum pods_format f, const uint8_t *bytes, size_t len, pods_emit emit,
		 void *ctx, struct pods_page *ret)
{
	const struct channel_head h = { (int32_t)f, (uint32_t)len, 0 };
	const uint64_t until = channel_now_ns() + PARSER_DEADLINE_MS * 1000000ull;
	*ret = (struct pods_page){ 0 };
	int rc = channel_send(fd, &h, bytes, NULL, 0, until);
	rc = rc == -EPIPE ? -ECHILD : rc;
	return rc ? rc : take(fd, until, emit, ctx, ret);
}
