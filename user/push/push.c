/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop. Each window is read from the store as it is opened anew: so memory does not grow with
 * the number of windows, and the rows of a window come in the same order each time. A cursor that
 * names a row therefore means the same after a restart.
 */
#include "push/push.h"

#include "push/clickhouse.h"
#include "push/message.h"
#include "push/queue.h"
#include "push/sender.h"
#include "push/tables.h"
#include "util/clock.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define QUERY_BYTES ((size_t)32 << 20)
#define ANSWER_MAX (1u << 20)
#define DAY_S 86400
#define LOOK_MS 2000 /* between looks for new windows: they come each 10 s */

struct push_loop {
	const struct push_config *c;
	struct push_target t;
	struct push_sender sender;
	struct push_cursor cursor;
	bool moved; /* the cursor, since it was written */
	struct push_stats *st;
	struct push_message m;
	bool prepared; /* the receiver's tables are there */
	struct tables_state tables;
};

static int64_t now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_REALTIME);
}

static int write_cursor(struct push_loop *p, struct err *err)
{
	int rc = push_cursor_write(&p->cursor, err);
	p->cursor.there |= !rc;
	p->moved &= !!rc;
	return rc;
}

/* ---- a message ---- */

/* Tables drop whole days: rows of one that is over go into the sums alone. */
static bool is_coarse(const struct push_loop *p, const struct store_block *b)
{
	int64_t end = ((int64_t)clickhouse_time(b) / DAY_S + (int64_t)p->tables.days) * DAY_S;
	return p->tables.days && end <= now_ns() / 1000000000;
}

/* Send what the message has, as long as all of it is taken. */
static int send_message(struct push_loop *p, const struct export_part *part, enum push_verdict *ret,
			struct err *err)
{
	int rc = 0;
	*ret = PUSH_TAKEN;
	for (size_t i = 0; !rc && *ret == PUSH_TAKEN && i < p->m.n_posts; i++) {
		struct push_post *of = &p->m.posts[i];
		if (!p->tables.forgetful || is_coarse(p, p->m.block))
			of->witness.len = 0;
		if (of->body.len)
			rc = sender_post(&p->sender, of, part, ret, err);
	}
	if (p->m.state && (rc || *ret != PUSH_TAKEN))
		clickhouse_forget(p->m.state);
	return rc;
}

static void count_answer(struct push_loop *p, enum push_verdict v)
{
	struct push_stats *st = p->st;
	if (v == PUSH_REFUSED) {
		st->refused++;
		return;
	}
	st->messages++;
	st->rows += p->m.part.end - p->m.part.from;
	for (size_t i = 0; i < p->m.n_posts; i++)
		st->bytes += p->m.posts[i].body.len;
	if (p->t.format->rejected) {
		char why[200];
		uint64_t n = p->t.format->rejected(p->sender.answer.data, p->sender.answer.len, why,
						   sizeof(why));
		st->rejected += n;
		if (n)
			snprintf(st->text, sizeof(st->text), "%s: %llu profiles were not kept: %s",
				 p->t.name, (unsigned long long)n, why);
	}
}

/* Send rows from m.part.from on, as many as one message has. */
static int send_rows(struct push_loop *p, struct err *err)
{
	enum push_verdict v = PUSH_AGAIN;
	p->m.part.max_bytes = p->t.max_bytes;
	for (;;) {
		int rc = push_message_encode(&p->m, err);
		rc = rc ? rc : send_message(p, &p->m.part, &v, err);
		if (rc)
			return rc;
		if (v != PUSH_SMALLER && v != PUSH_PLAINER)
			break;
		if (v == PUSH_SMALLER)
			p->m.part.max_bytes /= 2;
		else
			p->t.compression = PUSH_PLAIN;
		push_target_headers(&p->t);
	}
	count_answer(p, v);
	return 0;
}

/* ---- a window ---- */

/*
 * Rows whose label sets do not fit the memory at once are sent in shares of these sets. Their
 * number is in the cursor: who goes on with an event has the same rows, whatever fits then.
 */
struct place {
	uint32_t shares, share; /* shares 0: all rows at once */
	uint64_t row;
};

#define SHARES_MAX 32u /* each reads the window once */
#define SHARES_SHIFT 52
#define SHARE_SHIFT 40

static uint64_t pack_place(const struct place *at)
{
	return (uint64_t)at->shares << SHARES_SHIFT | (uint64_t)at->share << SHARE_SHIFT | at->row;
}

static struct place unpack_place(uint64_t row)
{
	const struct place at = { .shares = (uint32_t)(row >> SHARES_SHIFT),
				  .share = row >> SHARE_SHIFT &
					   ((1u << (SHARES_SHIFT - SHARE_SHIFT)) - 1),
				  .row = row & ((1ull << SHARE_SHIFT) - 1) };
	return at;
}

static int open_share(struct push_loop *p, struct query_spec spec, const struct place *at,
		      struct err *err)
{
	spec.shares = at->shares;
	spec.share = at->share;
	query_close(p->m.src.query);
	p->m.src.query = NULL;
	int rc = query_open(&p->m.src.query, p->m.src.store, &spec, err);
	/* So few messages have the same stack. */
	if (!rc && p->t.format->dictionary && query_rows_by_stack(p->m.src.query))
		rc = err_sys(err, -ENOMEM, "cannot push");
	return rc;
}

/* Open the first of so many shares that it fits; then of twice as many, since others are larger. */
static int open_fitting(struct push_loop *p, const struct query_spec *spec, struct place *at,
			struct err *err)
{
	int rc = 0;
	while (!rc && query_info(p->m.src.query)->bounded && at->shares < SHARES_MAX) {
		at->shares = at->shares ? 2 * at->shares : 2;
		rc = open_share(p, *spec, at, err);
	}
	if (rc || at->shares >= SHARES_MAX)
		return rc;
	at->shares *= 2;
	return open_share(p, *spec, at, err);
}

/* The rows of the query that is open, from at->row on. */
static int send_share(struct push_loop *p, const char *event, struct place *at, struct err *err)
{
	size_t n;
	int rc = 0;
	query_rows(p->m.src.query, &n);
	p->m.part = (struct export_part){
		.from = at->row, .to = n, .shares = at->shares, .share = at->share
	};
	while (!rc && p->m.part.from < n) {
		rc = send_rows(p, err);
		if (rc)
			break;
		at->row = p->m.part.from = p->m.part.end;
		push_cursor_advance_row(&p->cursor, event, pack_place(at));
		p->moved = true;
		rc = write_cursor(p, err);
	}
	return rc;
}

static int send_event(struct push_loop *p, struct store *s, const struct store_block *b,
		      const char *event, struct err *err)
{
	const struct query_spec spec = { .where = p->c->where,
					 .from_ns = b->t0_ns,
					 .to_ns = b->t1_ns,
					 .block = b,
					 .event = event,
					 .idle = p->c->idle || p->t.format->idle,
					 .labels =
						 p->t.n_keys ? QUERY_KEYS_STACKS : QUERY_ALL_LABELS,
					 .keys = p->t.keys,
					 .n_keys = p->t.n_keys };
	struct place at = { 0 };
	if (!strcmp(event, p->cursor.event))
		at = unpack_place(p->cursor.row);
	p->m.src = (struct export_source){ .store = s,
					   .where = p->c->where,
					   .idle = p->c->idle,
					   .keys = p->t.keys,
					   .n_keys = p->t.n_keys,
					   .external = p->c->external,
					   .n_external = p->c->n_external };
	int rc = open_share(p, spec, &at, err);
	if (!rc && query_info(p->m.src.query)->bounded && !at.shares && !at.row)
		rc = open_fitting(p, &spec, &at, err);
	rc = rc ? rc : send_share(p, event, &at, err);
	while (!rc && at.share + 1 < at.shares) {
		at = (struct place){ at.shares, at.share + 1, 0 };
		rc = open_share(p, spec, &at, err);
		rc = rc ? rc : send_share(p, event, &at, err);
	}
	query_close(p->m.src.query);
	return rc;
}

static int end_window(struct push_loop *p, struct store *s, struct err *err)
{
	enum push_verdict v;
	p->m.src = (struct export_source){ .store = s };
	int rc = push_message_end_window(&p->m, err);
	rc = rc ? rc : send_message(p, NULL, &v, err);
	if (!rc && v == PUSH_PLAINER) {
		p->t.compression = PUSH_PLAIN;
		push_target_headers(&p->t);
		return end_window(p, s, err);
	}
	p->st->refused += !rc && v != PUSH_TAKEN;
	return rc;
}

static int send_window(struct push_loop *p, struct store *s, const struct store_block *b,
		       struct err *err)
{
	const char **events;
	size_t n;
	int rc = push_queue_events(s, p->t.format->beside, &events, &n, err);
	if (rc)
		return rc;
	p->m.block = b;
	for (size_t i = 0; !rc && i < n; i++)
		if (strcmp(events[i], p->cursor.event) >= 0)
			rc = send_event(p, s, b, events[i], err);
	free(events);
	rc = rc || !p->t.format->end_window ? rc : end_window(p, s, err);
	if (rc == -EBADMSG) { /* of the store: nobody can read it */
		snprintf(p->st->text, sizeof(p->st->text), "%s: %.300s", p->t.name, err->text);
		p->st->cut += b->n_windows;
		rc = 0;
	} else if (!rc) {
		p->st->windows += b->n_windows;
		p->st->coarse += is_coarse(p, b) ? b->n_windows : 0;
	}
	if (rc)
		return rc;
	push_cursor_advance(&p->cursor, b->window_hi);
	p->moved = true;
	return write_cursor(p, err);
}

/* ---- the store ---- */

/* The directory of cursors in the store, and a name that tells receivers apart. */
static int cursor_path(const struct push_loop *p, char ret[1024], struct err *err)
{
	const struct push_config *c = p->c;
	char name[PUSH_NAME_MAX];
	if (c->cursor)
		return snprintf(ret, 1024, "%s", c->cursor) < 1000
			       ? 0
			       : err_set(err, -ENAMETOOLONG, "cursor: too long a name");
	XXH64_hash_t h = XXH3_64bits(c->url, strlen(c->url));
	if (c->tenant)
		h = XXH3_64bits_withSeed(c->tenant, strlen(c->tenant), h);
	snprintf(name, sizeof(name), "%s", p->t.name);
	for (char *s = name; *s; s++)
		*s = (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
				     (*s >= 'A' && *s <= 'Z') || *s == '.'
			     ? *s
			     : '-';
	int n = snprintf(ret, 1024, "%s/push", c->store);
	if (n < 0 || n > 600)
		return err_set(err, -ENAMETOOLONG, "%.40s...: too long a name", c->store);
	if (mkdir(ret, 0700) && errno != EEXIST)
		return err_sys(err, -errno,
			       "cannot make the directory %s for the cursor; name a file with "
			       "--cursor",
			       ret);
	snprintf(ret + n, 1024 - (size_t)n, "/%s-%08x", name, (unsigned)h);
	return 0;
}

static int open_store(const struct push_loop *p, struct store **ret, struct err *err)
{
	int rc = store_open(ret, p->c->store, err);
	/* All stacks of a window are sent: shares of its rows do not make them fewer. */
	if (!rc)
		store_limit(*ret, &(struct store_limits){ .bytes = p->c->memory ? p->c->memory
										: QUERY_BYTES,
							  .whole_stacks = true });
	return rc;
}

/* Find the place to begin at. */
static int begin(struct push_loop *p, struct err *err)
{
	const struct push_range first = { p->c->from_ns, INT64_MAX, INT64_MIN };
	const struct store_block *b;
	struct store *s = NULL;
	char path[1024];
	int rc = open_store(p, &s, err);
	rc = rc ? rc : cursor_path(p, path, err);
	rc = rc ? rc : push_cursor_lock(path, err);
	rc = rc ? rc : push_cursor_read(&p->cursor, path, s, err);
	if (!rc && p->cursor.there)
		p->sender.left_ns = now_ns() > p->cursor.written_ns
					    ? (uint64_t)(now_ns() - p->cursor.written_ns)
					    : 1;
	if (!rc && !p->cursor.there && p->c->newest)
		rc = push_queue_skip_all(s, &p->cursor, err);
	else if (!rc && !p->cursor.there)
		rc = push_queue_next(s, &first, &p->cursor, p->st, &b, err);
	store_close(s);
	return rc ? rc : write_cursor(p, err);
}

/* tables_ask */
static int ask_tables(void *ctx, const char *sql, size_t len, const struct buf **ret,
		      struct err *err)
{
	struct push_loop *p = ctx;
	struct push_post *of = &p->sender.question;
	enum push_verdict v;
	of->body.len = 0;
	int rc = buf_add(&of->body, sql, len);
	if (rc)
		return err_sys(err, rc, "cannot push");
	rc = push_message_compress(&p->m, of, err);
	rc = rc ? rc : sender_post(&p->sender, of, NULL, &v, err);
	if (!rc && v != PUSH_TAKEN)
		return err_set(err, -EPROTO, "%.600s", p->st->text);
	*ret = &p->sender.answer;
	return rc;
}

static int prepare(struct push_loop *p, struct err *err)
{
	int rc = 0;
	if (p->t.format->tables && !p->prepared)
		rc = tables_check(ask_tables, p, p->c->create_tables, err);
	if (p->t.format->tables && !p->prepared && !rc)
		rc = tables_look(ask_tables, p, &p->tables, err);
	p->prepared = !rc;
	return rc;
}

/* One window, if there is any. */
static int send_next(struct push_loop *p, bool *ret_any, struct err *err)
{
	const struct push_config *c = p->c;
	const struct store_block *b = NULL;
	struct store *s = NULL;
	int64_t now = now_ns();
	const struct push_range range = {
		.from_ns = INT64_MIN,
		.to_ns = c->to_ns ? c->to_ns : INT64_MAX,
		.oldest_ns = p->t.max_age_ns ? now - p->t.max_age_ns : INT64_MIN,
	};
	*ret_any = false;
	int rc = prepare(p, err);
	rc = rc ? rc : open_store(p, &s, err);
	uint32_t before = p->cursor.window;
	rc = rc ? rc : push_queue_next(s, &range, &p->cursor, p->st, &b, err);
	p->moved |= p->cursor.window != before;
	if (!rc && b) {
		*ret_any = true;
		p->st->oldest_ns = b->t1_ns;
		rc = send_window(p, s, b, err);
	} else if (!rc) {
		p->st->oldest_ns = 0;
		p->st->failing = false;
		rc = p->moved ? write_cursor(p, err) : 0;
	}
	store_close(s);
	return rc;
}

/* What may be over later: the store is being replaced, its disk is full, memory is short. */
static bool may_pass(const struct push_loop *p, int rc)
{
	return rc && rc != -EINTR && (p->c->follow || rc == -ESTALE);
}

static int run(struct push_loop *p, struct err *err)
{
	unsigned failed = 0;
	bool sent = false;
	for (;;) {
		bool any;
		int rc = send_next(p, &any, err);
		if (may_pass(p, rc)) {
			p->st->failing = true;
			snprintf(p->st->text, sizeof(p->st->text), "%s: %.300s", p->t.name,
				 err->text);
			sender_report(&p->sender);
			if (sender_rest(&p->sender, web_backoff_ms(failed++)))
				return 0;
			continue;
		}
		if (rc)
			return rc == -EINTR ? 0 : rc;
		failed = 0;
		sender_report(&p->sender);
		if (sent && !any)
			malloc_trim(0); /* a large window may be the last one for long */
		sent = any;
		if (!any && !p->c->follow)
			return 0;
		if (sender_rest(&p->sender, any ? 0 : LOOK_MS))
			return 0;
	}
}

int push_run(const struct push_config *c, struct push_stats *ret, struct err *err)
{
	struct push_loop p = { .c = c,
			       .st = ret,
			       .sender = { .c = c, .m = &p.m, .cursor = &p.cursor, .st = ret } };
	*ret = (struct push_stats){ .began_ns = clock_ns(CLOCK_MONOTONIC) };
	int rc = push_target_init(&p.t, c, err);
	if (rc)
		return rc;
	p.m.to = &p.t;
	rc = p.t.format->tables ? clickhouse_new((struct clickhouse **)&p.m.state, err) : 0;
	rc = rc ? rc : sender_init(&p.sender, err);
	rc = rc ? rc : begin(&p, err);
	rc = rc ? rc : run(&p, err);
	push_message_fini(&p.m);
	clickhouse_free(p.m.state);
	sender_fini(&p.sender);
	return rc;
}
