/* SPDX-License-Identifier: Apache-2.0 */
#include "push/clickhouse.h"

#include "push/identity.h"
#include "push/row_binary.h"
#include "query/waits.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SENT (1u << 17) /* places of the hashes that were sent: 2 MiB */
#define DAY_S 86400

/* The posts of a message, in this order. */
enum post { EVENTS, STACKS, SETS, SERIES, SAMPLES, POSTS };
_Static_assert(POSTS <= PUSH_POSTS_MAX, "all fit in a message");

static const char *const targets[] = {
	[EVENTS] = "ascribe_events (name, unit, ns_per_sample, period, place)",
	[STACKS] = "ascribe_stacks (hash, kinds, functions, modules, build_ids, files, lines, "
		   "offsets)",
	[SETS] = "ascribe_sets (day, hash, series, labels, integers)",
	[SERIES] = "ascribe_series (series, labels, integers)",
	[SAMPLES] = "ascribe_samples (time, host, event, ns_per_sample, series, set, stack, wait, "
		    "samples, value)",
};

/* The labels that roll-ups keep, with those of --label: few values in a fleet. */
static const char *const series_keys[] = { "service", "service_name", "namespace", "workload",
					   "comm" };

struct clickhouse {
	struct identity ids;
	struct wait_reasons reasons;
	XXH128_hash_t *sent; /* [SENT], by their low bits; what is all zero is free */
	size_t n_sent;
	int64_t day; /* on which they were sent */
	/* The label set of the rows at hand. */
	uint32_t set;
	bool set_valid;
	XXH128_hash_t set_hash;
	uint64_t series;
	char host[512];
	struct label labels[STORE_SET_MAX + PUSH_LABELS_MAX];
	size_t n_labels;
};

int clickhouse_new(struct clickhouse **ret, struct err *err)
{
	struct clickhouse *c = calloc(1, sizeof(*c));
	if (!c || identity_init(&c->ids) || !(c->sent = calloc(SENT, sizeof(*c->sent)))) {
		clickhouse_free(c);
		return err_sys(err, -ENOMEM, "cannot push");
	}
	*ret = c;
	return 0;
}

void clickhouse_free(struct clickhouse *c)
{
	if (!c)
		return;
	identity_fini(&c->ids);
	wait_reasons_fini(&c->reasons);
	free(c->sent);
	free(c);
}

void clickhouse_forget(struct clickhouse *c)
{
	memset(c->sent, 0, SENT * sizeof(*c->sent));
	c->n_sent = 0;
}

/* True: it was not sent this day, and is from now on. */
static bool is_new(struct clickhouse *c, XXH128_hash_t h)
{
	if (c->n_sent > SENT / 4 * 3)
		clickhouse_forget(c);
	for (size_t i = h.low64;; i++) {
		XXH128_hash_t *at = &c->sent[i % SENT];
		if (XXH128_isEqual(*at, h))
			return false;
		if (!at->low64 && !at->high64) {
			*at = h;
			c->n_sent++;
			return true;
		}
	}
}

static int add_hash(struct buf *b, XXH128_hash_t h)
{
	int rc = buf_add_u64(b, h.low64);
	return rc ? rc : buf_add_u64(b, h.high64);
}

/* ---- label sets ---- */

static bool is(const struct label *l, const char *key)
{
	return l->key_len == strlen(key) && !memcmp(l->key, key, l->key_len);
}

static bool is_of_series(const void *ctx, const struct label *l)
{
	const struct push_config *c = ctx;
	for (size_t i = 0; i < sizeof(series_keys) / sizeof(series_keys[0]); i++)
		if (is(l, series_keys[i]))
			return true;
	for (size_t i = 0; i < c->n_external; i++)
		if (l->key_len == c->external[i].key_len &&
		    !memcmp(l->key, c->external[i].key, l->key_len))
			return true;
	return false;
}

/* Labels of --label come first: of one key the first counts. `host` is a column of its own. */
static void load_labels(struct clickhouse *c, const struct push_message *m, uint32_t set)
{
	const struct push_config *config = m->to->c;
	const struct label *v;
	size_t n = query_set(m->src.query, set, &v), k = 0;
	for (size_t i = 0; i < config->n_external; i++)
		c->labels[k++] = config->external[i];
	for (size_t i = 0; i < n && i < STORE_SET_MAX; i++)
		c->labels[k++] = v[i];
	k = labels_normalize(c->labels, k);
	snprintf(c->host, sizeof(c->host), "%s", store_meta(m->src.store)->host);
	c->n_labels = 0;
	for (size_t i = 0; i < k; i++)
		if (is(&c->labels[i], "host"))
			label_text(&c->labels[i], c->host, sizeof(c->host));
		else
			c->labels[c->n_labels++] = c->labels[i];
}

/* labels, integers */
static int add_labels(struct buf *b, const struct clickhouse *c, const struct push_config *series)
{
	size_t n = 0, integers = 0;
	int rc = 0;
	for (size_t i = 0; i < c->n_labels; i++) {
		bool kept = !series || is_of_series(series, &c->labels[i]);
		n += kept;
		integers += kept && c->labels[i].type == LABEL_INT;
	}
	rc = buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < c->n_labels; i++) {
		const struct label *l = &c->labels[i];
		if (series && !is_of_series(series, l))
			continue;
		rc = row_binary_text(b, l->key, l->key_len);
		rc = rc ? rc : row_binary_value(b, l);
	}
	rc = rc ? rc : buf_add_varint(b, integers);
	for (size_t i = 0; !rc && i < c->n_labels; i++) {
		const struct label *l = &c->labels[i];
		if (l->type == LABEL_INT && (!series || is_of_series(series, l)))
			rc = row_binary_text(b, l->key, l->key_len);
	}
	return rc;
}

static int add_set(struct push_message *m, const struct push_config *config)
{
	struct clickhouse *c = m->state;
	struct buf *b = &m->posts[SETS].body;
	int rc = 0;
	if (is_new(c, c->set_hash)) {
		const uint8_t day[] = { (uint8_t)c->day, (uint8_t)(c->day >> 8) };
		rc = buf_add(b, day, sizeof(day));
		rc = rc ? rc : add_hash(b, c->set_hash);
		rc = rc ? rc : buf_add_u64(b, c->series);
		rc = rc ? rc : add_labels(b, c, NULL);
	}
	b = &m->posts[SERIES].body;
	/* A hash of 64 bits has a place of its own among those of 128. */
	if (rc || !is_new(c, (XXH128_hash_t){ c->series, 0 }))
		return rc;
	rc = buf_add_u64(b, c->series);
	return rc ? rc : add_labels(b, c, config);
}

static int load_set(struct push_message *m, uint32_t set)
{
	struct clickhouse *c = m->state;
	XXH128_hash_t series;
	if (c->set_valid && c->set == set)
		return 0;
	c->set_valid = false;
	load_labels(c, m, set);
	int rc = identity_of_labels(&c->ids, c->labels, c->n_labels, NULL, NULL, &c->set_hash);
	rc = rc ? rc
		: identity_of_labels(&c->ids, c->labels, c->n_labels, is_of_series, m->to->c,
				     &series);
	if (rc)
		return rc;
	c->series = series.low64;
	c->set = set;
	c->set_valid = true;
	return add_set(m, m->to->c);
}

/* ---- stacks ---- */

static int add_numbers(struct buf *b, const struct store_frame *const *frames, size_t n,
		       int (*add)(struct buf *b, const struct store_frame *f))
{
	int rc = buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add(b, frames[i]);
	return rc;
}

static int add_kind(struct buf *b, const struct store_frame *f)
{
	return buf_add_u8(b, (uint8_t)(f->kind | (f->flags & FRAME_INLINED ? 16 : 0)));
}

static int add_line(struct buf *b, const struct store_frame *f)
{
	return buf_add_u32(b, f->line);
}

static int add_offset(struct buf *b, const struct store_frame *f)
{
	return buf_add_u64(b, f->offset);
}

static int add_stack(struct buf *b, const struct export_source *src, const struct store_row *row,
		     XXH128_hash_t hash)
{
	static const size_t texts[] = { offsetof(struct store_frame, function),
					offsetof(struct store_frame, module),
					offsetof(struct store_frame, build_id),
					offsetof(struct store_frame, file) };
	const struct store_frame *frames[EXPORT_DEPTH_MAX + 1];
	size_t n = row_binary_frames(src, row, frames);
	int rc = add_hash(b, hash);
	rc = rc ? rc : add_numbers(b, frames, n, add_kind);
	for (size_t i = 0; !rc && i < sizeof(texts) / sizeof(texts[0]); i++)
		rc = row_binary_strings(b, src->store, frames, n, texts[i]);
	rc = rc ? rc : add_numbers(b, frames, n, add_line);
	return rc ? rc : add_numbers(b, frames, n, add_offset);
}

static int name_stack(struct push_message *m, const struct store_row *row, XXH128_hash_t *ret)
{
	struct clickhouse *c = m->state;
	bool other = query_row_is_other(m->src.query, row);
	uint32_t stack = row->stack == QUERY_OTHER_STACK ? 0 : row->stack;
	int rc = (other ? identity_of_other : identity_of_stack)(&c->ids, m->src.store, stack, ret);
	if (rc || !is_new(c, *ret))
		return rc;
	return add_stack(&m->posts[STACKS].body, &m->src, row, *ret);
}

/* Why a thread waited, `idle` of a CPU without work, else "". */
static int name_wait(struct push_message *m, bool blocked, uint32_t stack, const char **ret)
{
	struct clickhouse *c = m->state;
	const struct wait_reason *r;
	uint32_t parent, frame;
	*ret = "";
	if (blocked) {
		int rc = wait_reason_of(&c->reasons, m->src.store, stack, &r);
		*ret = rc ? "" : wait_class_names[r->class];
		return rc;
	}
	store_stack(m->src.store, stack, &parent, &frame);
	const struct store_frame *f = frame ? store_frame(m->src.store, frame) : NULL;
	if (f && f->kind == FRAME_IDLE)
		*ret = wait_class_names[WAIT_CLASS_IDLE];
	return 0;
}

/* ---- messages ---- */

/* As ranges are rounded (store_cover_nearest). */
uint32_t clickhouse_time(const struct store_block *b)
{
	int64_t middle = b->t0_ns + (b->t1_ns - b->t0_ns) / 2 - 1;
	return middle > 0 ? (uint32_t)(middle / 1000000000) : 0;
}

static int add_hex(struct buf *b, const char *before, const void *data, size_t len,
		   const char *behind)
{
	int rc = buf_printf(b, "%sunhex('", before);
	for (size_t i = 0; !rc && i < len; i++)
		rc = buf_printf(b, "%02x", ((const uint8_t *)data)[i]);
	return rc ? rc : buf_printf(b, "')%s", behind);
}

static int add_text_is(struct buf *b, const char *column, const char *text)
{
	int rc = buf_printf(b, " AND %s = ", column);
	return rc ? rc : add_hex(b, "", text, strlen(text), "");
}

static int add_hash_is(struct buf *b, const char *column, XXH128_hash_t h)
{
	const uint64_t halves[] = { htole64(h.low64), htole64(h.high64) };
	int rc = buf_printf(b, " AND %s = ", column);
	return rc ? rc : add_hex(b, "reinterpretAsUInt128(", halves, sizeof(halves), ")");
}

/* A message's rows are kept as a whole: its first one speaks for all. */
static int name_witness(struct push_message *m, const char *event, XXH128_hash_t stack,
			const struct store_row *row)
{
	const struct clickhouse *c = m->state;
	struct buf *b = &m->posts[SAMPLES].witness;
	int rc = buf_printf(b,
			    "SELECT count() FROM ascribe_samples WHERE time = %u AND series = %llu "
			    "AND samples = %llu AND value = %llu",
			    clickhouse_time(m->block), (unsigned long long)c->series,
			    (unsigned long long)row->samples, (unsigned long long)row->value);
	rc = rc ? rc : add_text_is(b, "event", event);
	rc = rc ? rc : add_text_is(b, "host", c->host);
	rc = rc ? rc : add_hash_is(b, "set", c->set_hash);
	return rc ? rc : add_hash_is(b, "stack", stack);
}

static int add_row(struct push_message *m, const struct store_event *e, const struct store_row *row)
{
	struct clickhouse *c = m->state;
	struct buf *b = &m->posts[SAMPLES].body;
	XXH128_hash_t stack;
	const char *wait;
	int rc = load_set(m, row->set);
	rc = rc ? rc : name_stack(m, row, &stack);
	rc = rc ? rc : name_wait(m, query_is_blocked(e->name), row->stack, &wait);
	if (!rc && !b->len)
		rc = name_witness(m, e->name, stack, row);
	rc = rc ? rc : buf_add_u32(b, clickhouse_time(m->block));
	rc = rc ? rc : row_binary_name(b, c->host);
	rc = rc ? rc : row_binary_name(b, e->name);
	rc = rc ? rc : buf_add_u64(b, e->ns_per_sample);
	rc = rc ? rc : buf_add_u64(b, c->series);
	rc = rc ? rc : add_hash(b, c->set_hash);
	rc = rc ? rc : add_hash(b, stack);
	rc = rc ? rc : row_binary_name(b, wait);
	rc = rc ? rc : buf_add_u64(b, row->samples);
	return rc ? rc : buf_add_u64(b, row->value);
}

static int add_event(struct push_message *m, const struct store_event *e)
{
	struct clickhouse *c = m->state;
	struct buf *b = &m->posts[EVENTS].body;
	uint32_t place = 0;
	XXH128_hash_t h = XXH3_128bits_withSeed(e->name, strlen(e->name), e->ns_per_sample);
	while (place < store_n_events(m->src.store) &&
	       strcmp(store_event(m->src.store, place)->name, e->name))
		place++;
	if (!is_new(c, h))
		return 0;
	int rc = row_binary_name(b, e->name);
	rc = rc ? rc : row_binary_name(b, e->unit);
	rc = rc ? rc : buf_add_u64(b, e->ns_per_sample);
	rc = rc ? rc : buf_add_u64(b, e->period);
	return rc ? rc : buf_add_u8(b, (uint8_t)(place < 255 ? place : 255));
}

static size_t bytes_of(const struct push_message *m)
{
	size_t bytes = 0;
	for (size_t i = 0; i < POSTS; i++)
		bytes += m->posts[i].body.len;
	return bytes;
}

/* The rows of another window or event: ids and days are others. */
static void begin_rows(struct push_message *m)
{
	struct clickhouse *c = m->state;
	const int64_t day = clickhouse_time(m->block) / DAY_S;
	c->set_valid = false;
	if (day != c->day)
		clickhouse_forget(c);
	c->day = day;
	if (m->part.from && m->part.from == m->part.end)
		return; /* further rows of the same */
	identity_forget(&c->ids);
	wait_reasons_fini(&c->reasons);
}

int clickhouse_encode(struct push_message *m, struct err *err)
{
	const struct store_event *e = query_info(m->src.query)->event;
	char token[ROW_BINARY_TOKEN];
	size_t n, i = m->part.from;
	const struct store_row *rows = query_rows(m->src.query, &n);
	begin_rows(m);
	int rc = add_event(m, e);
	while (!rc && i < m->part.to && (i == m->part.from || bytes_of(m) < m->part.max_bytes))
		rc = add_row(m, e, &rows[i++]);
	if (rc)
		return err_sys(err, rc, "cannot push");
	m->part.end = i;
	m->n_posts = POSTS;
	row_binary_token(m, token);
	for (size_t k = 0; k < POSTS; k++)
		row_binary_post(m, &m->posts[k], targets[k], k == SAMPLES ? token : "");
	return 0;
}

/* ---- windows ---- */

static int add_counters(struct buf *b, const char *const *names, const uint64_t *sums, size_t n)
{
	size_t some = 0;
	for (size_t i = 0; i < n; i++)
		some += sums[i] != 0;
	int rc = buf_add_varint(b, some);
	for (size_t i = 0; !rc && i < n; i++)
		if (sums[i]) {
			rc = row_binary_name(b, names[i]);
			rc = rc ? rc : buf_add_u64(b, sums[i]);
		}
	return rc;
}

static int add_all_counters(struct buf *b, const struct store_meta *meta,
			    const struct store_totals *t)
{
	uint64_t *sums = calloc(meta->n_lost + meta->n_flagged + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	for (size_t c = 0; c < t->n_cpus; c++) {
		for (size_t i = 0; i < meta->n_lost; i++)
			sums[i] += t->cpu[c].lost[i];
		for (size_t i = 0; i < meta->n_flagged; i++)
			sums[meta->n_lost + i] += t->cpu[c].flagged[i];
	}
	int rc = add_counters(b, meta->lost_names, sums, meta->n_lost);
	rc = rc ? rc : add_counters(b, meta->flagged_names, sums + meta->n_lost, meta->n_flagged);
	free(sums);
	return rc;
}

static int add_window(struct buf *b, const struct push_message *m, const struct store_totals *t)
{
	const struct store_meta *meta = store_meta(m->src.store);
	uint64_t fired = 0, stored = 0;
	for (size_t i = 0; i < t->n_cpus; i++) {
		fired += t->cpu[i].fired;
		stored += t->cpu[i].stored;
	}
	int rc = buf_add_u32(b, clickhouse_time(m->block));
	rc = rc ? rc : row_binary_name(b, meta->host);
	rc = rc ? rc : buf_add_u64(b, (uint64_t)m->block->t0_ns);
	rc = rc ? rc : buf_add_u64(b, (uint64_t)m->block->t1_ns);
	rc = rc ? rc : buf_add_u32(b, m->block->n_windows);
	rc = rc ? rc : buf_add_u64(b, fired);
	rc = rc ? rc : buf_add_u64(b, stored);
	rc = rc ? rc : buf_add_u64(b, t->outside);
	rc = rc ? rc : buf_add_u64(b, t->own_cpu_ns);
	rc = rc ? rc : buf_add_u64(b, t->own_rss);
	return rc ? rc : add_all_counters(b, meta, t);
}

static int name_window(struct push_message *m)
{
	struct buf *b = &m->posts[0].witness;
	int rc = buf_printf(b,
			    "SELECT count() FROM ascribe_windows WHERE time = %u AND "
			    "start = fromUnixTimestamp64Nano(%lld)",
			    clickhouse_time(m->block), (long long)m->block->t0_ns);
	return rc ? rc : add_text_is(b, "host", store_meta(m->src.store)->host);
}

int clickhouse_end_window(struct push_message *m, struct err *err)
{
	struct store_totals *t;
	char token[64];
	int rc = store_block_totals(m->src.store, m->block, &t, err);
	if (rc)
		return rc;
	rc = add_window(&m->posts[0].body, m, t);
	rc = rc ? rc : name_window(m);
	store_totals_free(t);
	if (rc)
		return err_sys(err, rc, "cannot push");
	snprintf(token, sizeof(token), "%016llx-%u", (unsigned long long)store_id(m->src.store),
		 m->block->window_lo);
	row_binary_post(m, &m->posts[0],
			"ascribe_windows (time, host, start, end, windows, fired, stored, outside, "
			"own_cpu_ns, own_rss, lost, flagged)",
			token);
	m->n_posts = 1;
	return 0;
}
