/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/dump.h"

#include "util/crc32c.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC "HIST"
#define VERSION 1
#define LINE_MAX_BYTES (3 * 21) /* three numbers of 20 digits */
#define BUCKET_MAX_BYTES (3 + 10)

static uint32_t n_buckets(const struct hist_snapshot *s)
{
	uint32_t n = 0;
	uint64_t count;
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &count); i++)
		n++;
	return n;
}

int hist_dump_text(const struct hist_snapshot *s, struct buf *out)
{
	int rc = buf_printf(out, "histogram bits %u buckets %u total %" PRIu64 "\n", s->bits,
			    n_buckets(s), s->total);
	uint64_t count;
	for (uint32_t i = 0; !rc && hist_snapshot_next(s, &i, &count); i++)
		rc = buf_printf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
				(uint64_t)hist_bucket_low(s->bits, i),
				(uint64_t)hist_bucket_high(s->bits, i), count);
	return rc;
}

int hist_dump_binary(const struct hist_snapshot *s, struct buf *out)
{
	size_t begin = out->len;
	uint32_t last = 0;
	uint64_t count;
	int rc = buf_add(out, MAGIC, 4);
	if (!rc)
		rc = buf_add_u8(out, VERSION);
	if (!rc)
		rc = buf_add_u8(out, s->bits);
	if (!rc)
		rc = buf_add_varint(out, n_buckets(s));
	for (uint32_t i = 0; !rc && hist_snapshot_next(s, &i, &count); last = i++) {
		rc = buf_add_varint(out, i - last);
		if (!rc)
			rc = buf_add_varint(out, count);
	}
	return rc ? rc : buf_add_u32(out, crc32c(out->data + begin, out->len - begin));
}

/* ---- loading ---- */

static int bad(struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "not a histogram: %s", what);
}

/* A bucket that follows the one before. *next: the smallest index that may come. */
static int load_bucket(struct hist_snapshot *s, uint64_t index, uint64_t count, uint32_t *next,
		       struct err *err)
{
	if (index < *next || index >= HIST_BUCKETS(s->bits))
		return bad(err,
			   index < *next ? "buckets out of order" : "a bucket beyond the last");
	if (!count)
		return bad(err, "a bucket in which nothing was counted");
	*next = (uint32_t)index + 1;
	int rc = hist_snapshot_count(s, (uint32_t)index, count, err);
	return rc == -EOVERFLOW ? bad(err, "it counts more than 2^64 - 1 values") : rc;
}

/*
 * The checksum has been seen to be right, so this is what somebody wrote: it may be hostile all the
 * same.
 */
static int load_buckets(struct hist_snapshot *s, struct cursor *c, struct err *err)
{
	uint64_t n = cursor_varint(c), index = 0;
	uint32_t next = 0;
	int rc = 0;
	if (n > HIST_BUCKETS(s->bits))
		return bad(err, "more buckets than its precision has");
	for (uint64_t i = 0; i < n && !rc; i++) {
		uint64_t step = cursor_varint(c), count = cursor_varint(c);
		if (c->bad)
			break;
		index += step; /* what wraps around is below `next` */
		rc = load_bucket(s, index, count, &next, err);
	}
	if (!rc && (c->bad || cursor_left(c)))
		rc = bad(err, c->bad ? "it ends inside a bucket" : "bytes behind its end");
	return rc;
}

static int check_frame(const uint8_t *p, size_t len, struct err *err)
{
	if (len < 11 || memcmp(p, MAGIC, 4))
		return bad(err, "no \"" MAGIC "\" at its beginning, or too short");
	if (p[4] != VERSION)
		return err_set(err, -EPROTONOSUPPORT,
			       "a histogram of version %u; this program reads version %u", p[4],
			       VERSION);
	if (p[5] > HIST_BITS_MAX)
		return bad(err, "a precision of more than 12 bits");
	if (len > 6 + 5 + (size_t)HIST_BUCKETS(p[5]) * BUCKET_MAX_BYTES + 4)
		return err_set(err, -E2BIG, "a histogram of %u bits cannot take %zu bytes", p[5],
			       len);
	struct cursor crc = { p + len - 4, p + len, 0 };
	return cursor_u32(&crc) == crc32c(p, len - 4) ? 0 : bad(err, "its checksum does not match");
}

int hist_load_binary(const void *data, size_t len, struct hist_snapshot *ret, struct err *err)
{
	const uint8_t *p = data;
	struct hist_snapshot s;
	int rc = check_frame(p, len, err);
	if (rc)
		return rc;
	hist_snapshot_init(&s, p[5]);
	rc = load_buckets(&s, &(struct cursor){ p + 6, p + len - 4, 0 }, err);
	if (rc)
		hist_snapshot_fini(&s);
	else
		*ret = s;
	return rc;
}

/* Exactly this text. */
static bool take(struct cursor *c, const char *word)
{
	size_t n = strlen(word);
	const uint8_t *p = cursor_bytes(c, n);
	c->bad |= p && memcmp(p, word, n);
	return !c->bad;
}

/* A decimal number without sign or leading zeros, and what follows it. */
static uint64_t take_number(struct cursor *c, const char *behind)
{
	uint64_t v = 0;
	const uint8_t *begin = c->p;
	while (c->p < c->end && *c->p >= '0' && *c->p <= '9') {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->p - '0', &v))
			c->bad = 1;
		c->p++;
	}
	if (c->p == begin || (*begin == '0' && c->p - begin > 1))
		c->bad = 1;
	return take(c, behind) ? v : 0;
}

static int load_lines(struct hist_snapshot *s, struct cursor *c, uint64_t n, struct err *err)
{
	uint32_t next = 0;
	int rc = 0;
	for (uint64_t i = 0; i < n && !rc; i++) {
		uint64_t low = take_number(c, " "), high = take_number(c, " "),
			 count = take_number(c, "\n");
		uint32_t index = hist_bucket_index(s->bits, low);
		if (c->bad)
			rc = bad(
				err,
				"a line that is not \"smallest greatest count\", or fewer lines than it says");
		else if (low != hist_bucket_low(s->bits, index) ||
			 high != hist_bucket_high(s->bits, index))
			rc = bad(err, "bounds that no bucket of its precision has");
		else
			rc = load_bucket(s, index, count, &next, err);
	}
	return rc;
}

int hist_load_text(const char *text, size_t len, struct hist_snapshot *ret, struct err *err)
{
	struct cursor c = { (const uint8_t *)text, (const uint8_t *)text + len, 0 };
	struct hist_snapshot s;
	take(&c, "histogram bits ");
	uint64_t bits = take_number(&c, " buckets "), n = take_number(&c, " total "),
		 total = take_number(&c, "\n");
	if (c.bad)
		return bad(err, "its first line is not \"histogram bits B buckets N total T\"");
	if (bits > HIST_BITS_MAX)
		return bad(err, "a precision of more than 12 bits");
	if (n > HIST_BUCKETS((uint32_t)bits))
		return bad(err, "more buckets than its precision has");
	if (cursor_left(&c) > n * LINE_MAX_BYTES)
		return err_set(err, -E2BIG, "%zu bytes for a histogram of %u buckets", len,
			       (unsigned)n);
	hist_snapshot_init(&s, (unsigned)bits);
	int rc = load_lines(&s, &c, n, err);
	if (!rc && cursor_left(&c))
		rc = bad(err, "text behind its last bucket");
	if (!rc && s.total != total)
		rc = bad(err, "its counts do not add up to its total");
	if (rc)
		hist_snapshot_fini(&s);
	else
		*ret = s;
	return rc;
}
