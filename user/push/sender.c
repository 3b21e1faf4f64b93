/* SPDX-License-Identifier: Apache-2.0 */
#include "push/sender.h"

#include "sandbox/names_files.h"
#include "util/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX (1u << 20)
#define TIMEOUT_MS 30000u
#define WAIT_MAX_MS 600000u /* of a Retry-After */
#define CUT_BYTES 1024u	    /* a message that is too large is not cut further */
#define NS_PER_S 1000000000ll
#define ASK_NS 50000000ll

int sender_init(struct push_sender *s, struct err *err)
{
	return web_new(&s->web, err);
}

void sender_fini(struct push_sender *s)
{
	buf_fini(&s->answer);
	buf_fini(&s->question.body);
	web_free(s->web);
}

bool sender_rest(const struct push_sender *s, unsigned ms)
{
	struct pollfd stop = { .fd = s->c->stop_fd, .events = POLLIN };
	return poll(&stop, 1, (int)ms) > 0 || names_files_changed();
}

void sender_report(const struct push_sender *s)
{
	if (s->c->report)
		s->c->report(s->c->ctx, s->st);
}

/*
 * What a token, an address or a receiver's state causes is tried again: mending it is somebody's
 * business, and the store keeps the windows meanwhile.
 */
static enum push_verdict judge(const struct push_sender *s, const struct export_part *part,
			       unsigned status)
{
	switch (status) {
	case 400:
	case 422:
		return PUSH_REFUSED;
	case 413:
		return part && part->max_bytes > CUT_BYTES && part->end - part->from > 1
			       ? PUSH_SMALLER
			       : PUSH_REFUSED;
	case 415:
		return s->m->to->compression == PUSH_PLAIN ? PUSH_REFUSED : PUSH_PLAINER;
	default:
		return status >= 200 && status < 300 ? PUSH_TAKEN : PUSH_AGAIN;
	}
}

/* Part of an answer, for people. What is said of a wrong token may repeat it. */
static void tell_answer(struct push_sender *s, unsigned status)
{
	char said[200];
	size_t n = 0;
	for (size_t i = 0; i < s->answer.len && n < sizeof(said) - 1; i++)
		said[n++] = s->answer.data[i] >= ' ' && s->answer.data[i] <= '~'
				    ? (char)s->answer.data[i]
				    : ' ';
	while (n && said[n - 1] == ' ')
		n--;
	bool shown = n && (s->m->to->format->clickhouse || (status != 401 && status != 403));
	snprintf(s->st->text, sizeof(s->st->text), "%s: HTTP status %u%s%.*s%s", s->m->to->name,
		 status, shown ? ": " : "", shown ? (int)n : 0, said,
		 status >= 300 && status < 400 ? " (redirects are not followed)" : "");
}

/* One try. */
static int try_once(struct push_sender *s, const struct push_post *of, unsigned *ret_status,
		    unsigned *ret_wait_s, struct err *err)
{
	const struct push_config *c = s->c;
	char path[sizeof(of->path) + 16];
	int n = snprintf(path, sizeof(path), "%s", of->path[0] ? of->path : s->m->to->path);
	if (of->witness.len && s->cursor->again) /* the token is the path's end */
		snprintf(path + n, sizeof(path) - (size_t)n, "-%u", s->cursor->again);
	const struct web_place at = { .base = s->m->to->base,
				      .token = c->token,
				      .token_header = s->m->to->format->clickhouse
							      ? "X-ClickHouse-Key: "
							      : NULL,
				      .authority = c->authority,
				      .certificate = c->certificate,
				      .key = c->key };
	const struct web_request q = { .path = path,
				       .type = s->m->to->format->type,
				       .headers = s->m->to->headers,
				       .body = of->body.data,
				       .body_len = of->body.len,
				       .max_bytes = ANSWER_MAX,
				       .deadline_ms = c->timeout_ms ? c->timeout_ms : TIMEOUT_MS,
				       .stop_fd = -1, /* a try that is broken off may be taken */
				       .ret_wait_s = ret_wait_s };
	*ret_wait_s = 0;
	return web_ask(s->web, &at, &q, ret_status, &s->answer, err);
}

/* ---- a message that a server may have lost ---- */

/* What the server says: since when it runs, in whole seconds, and how many such rows it has. */
static int ask(struct push_sender *s, const struct push_post *of, unsigned *ret_status,
	       uint64_t *ret_uptime, uint64_t *ret_rows, struct err *err)
{
	struct push_post *q = &s->question;
	unsigned wait_s;
	q->body.len = 0;
	int rc = buf_printf(&q->body, "SELECT uptime(), (%.*s) FORMAT TabSeparated",
			    (int)of->witness.len, (const char *)of->witness.data);
	rc = rc ? err_sys(err, rc, "cannot push") : push_message_compress(s->m, q, err);
	rc = rc ? rc : try_once(s, q, ret_status, &wait_s, err);
	if (!rc && *ret_status >= 500)
		return err_set(err, -EPROTO, "HTTP status %u", *ret_status);
	if (rc || *ret_status != 200)
		return rc;
	rc = buf_add_u8(&s->answer, 0);
	if (rc)
		return err_sys(err, rc, "cannot push");
	return sscanf((const char *)s->answer.data, "%" SCNu64 " %" SCNu64, ret_uptime, ret_rows) ==
			       2
		       ? 0
		       : err_set(err, -EPROTO, "no answer to a question for rows that were sent");
}

/*
 * Give the rows another token where the server lost them. ClickHouse without replication notes an
 * insert's token before it keeps the rows. Killed between the two, it drops them when they come
 * again. So rows get another token if the server was started since the last try and does not have
 * them. If it has them, the token stays: tables of sums may still need the insert. 0: send them.
 */
static int settle(struct push_sender *s, const struct push_post *of, uint64_t tried,
		  struct err *err)
{
	/* Where the last second decides, ask until its end is seen. */
	for (int n = 0; n < NS_PER_S / ASK_NS + 5; n++) {
		uint64_t uptime = 0, rows = 0;
		unsigned status = 0;
		int rc = ask(s, of, &status, &uptime, &rows, err);
		uint64_t age = clock_ns(CLOCK_MONOTONIC) - tried;
		if (rc || status != 200 || rows || uptime * NS_PER_S > age)
			return rc; /* who may only insert cannot know */
		if ((uptime + 1) * NS_PER_S <= age) {
			s->cursor->again++;
			return push_cursor_write(s->cursor, err); /* before what it says is sent */
		}
		if (sender_rest(s, ASK_NS / 1000000))
			break;
	}
	return 0;
}

int sender_post(struct push_sender *s, struct push_post *of, const struct export_part *part,
		enum push_verdict *ret, struct err *err)
{
	const uint64_t began = clock_ns(CLOCK_MONOTONIC);
	uint64_t tried = 0; /* the last try; 0: none */
	if (of->witness.len && s->left_ns)
		tried = began > s->left_ns ? began - s->left_ns : 1;
	for (unsigned n = 0;; n++) {
		unsigned status = 0, wait_s = 0;
		int rc = 0;
		if (of->witness.len && tried)
			rc = settle(s, of, tried, err);
		if (!rc) {
			tried = clock_ns(CLOCK_MONOTONIC);
			rc = try_once(s, of, &status, &wait_s, err);
		}
		*ret = rc ? PUSH_AGAIN : judge(s, part, status);
		if (rc)
			snprintf(s->st->text, sizeof(s->st->text), "%s: %.300s", s->m->to->name,
				 err->text);
		else if (*ret != PUSH_TAKEN)
			tell_answer(s, status);
		s->st->failing = *ret == PUSH_AGAIN;
		if (of->witness.len && *ret == PUSH_TAKEN)
			s->left_ns = 0;
		if (*ret != PUSH_AGAIN)
			return 0;
		s->st->failures++;
		sender_report(s);
		if (s->c->give_up_ns &&
		    clock_ns(CLOCK_MONOTONIC) - began > (uint64_t)s->c->give_up_ns)
			return err_set(err, -ETIMEDOUT, "given up: %.300s", s->st->text);
		unsigned ms = web_backoff_ms(n);
		if (wait_s)
			ms += wait_s < WAIT_MAX_MS / 1000 ? wait_s * 1000 : WAIT_MAX_MS;
		if (sender_rest(s, ms))
			return -EINTR;
	}
}
