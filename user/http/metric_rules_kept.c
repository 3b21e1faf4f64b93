/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of rules in a file of memory: a head, then all rules as bytes. A process that is killed
 * while it writes leaves a wrong checksum, and the next one counts from 0.
 */
#include "http/metric_rules_int.h"

#include "hist/dump.h"
#include "query/lengths.h"
#include "util/write_at.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define VALUE_BYTES (3 * VALUE_MAX + 1) /* of a value that is all repaired UTF-8 */

struct kept_head {
	uint64_t len, hash; /* of the bytes behind it */
};

/* ---- writing ---- */

static int add_text(struct buf *out, const char *s, size_t len)
{
	int rc = buf_add_u32(out, (uint32_t)len);
	return rc ? rc : buf_add(out, s, len);
}

static int add_lengths(const struct rule_lengths *l, struct buf *out)
{
	const struct hist_snapshot *const v[] = { &l->all, &l->recent[0], &l->recent[1] };
	struct buf bytes = BUF_INIT;
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(v) / sizeof(v[0]); i++) {
		bytes.len = 0;
		rc = hist_dump_binary(v[i], &bytes);
		rc = rc ? rc : add_text(out, (const char *)bytes.data, bytes.len);
	}
	buf_fini(&bytes);
	return rc;
}

static int add_series(const struct series *s, struct buf *out)
{
	int rc = add_text(out, s->values, s->len);
	rc = rc ? rc : buf_add_u64(out, s->ns);
	rc = rc ? rc : add_text(out, s->trace, strlen(s->trace));
	rc = rc ? rc : buf_add_u64(out, s->trace_ns);
	rc = rc ? rc : buf_add_u64(out, (uint64_t)s->trace_at_ns);
	return rc || !s->lengths ? rc : add_lengths(s->lengths, out);
}

static int add_rules(const struct metric_rules *r, struct buf *out)
{
	int rc = buf_add_u32(out, (uint32_t)r->n);
	rc = rc ? rc : buf_add_u8(out, r->exemplars);
	for (size_t i = 0; !rc && i < r->n; i++) {
		const struct rule_state *s = &r->v[i];
		rc = add_text(out, s->r.name, strlen(s->r.name));
		rc = rc ? rc : buf_add_u64(out, (uint64_t)s->next_ns);
		rc = rc ? rc : buf_add_u64(out, s->other_ns);
		rc = rc ? rc : buf_add_u8(out, s->r.type);
		rc = rc ? rc : buf_add_u64(out, (uint64_t)s->recent_ns);
		rc = rc || !s->other ? rc : add_lengths(s->other, out);
		rc = rc ? rc : buf_add_u32(out, s->n);
		for (unsigned k = 0; !rc && k < s->n; k++)
			rc = add_series(&s->series[k], out);
	}
	return rc;
}

/* Without memory for it the counters that are there stay: the next write has them all. */
void metric_rules_save(const struct metric_rules *r)
{
	struct buf bytes = BUF_INIT;
	int rc = r->kept_fd < 0 ? -ENOENT : add_rules(r, &bytes);
	const struct kept_head head = { bytes.len, rc ? 0 : XXH3_64bits(bytes.data, bytes.len) };
	rc = rc ? rc : write_at(r->kept_fd, bytes.data, bytes.len, sizeof(head));
	if (!rc)
		write_at(r->kept_fd, &head, sizeof(head), 0);
	buf_fini(&bytes);
}

/* ---- reading ---- */

/* The bytes of a text of at most max; NULL: there are none. */
static const char *take_text(struct cursor *c, size_t max, size_t *ret_len)
{
	*ret_len = cursor_u32(c);
	const uint8_t *p = *ret_len <= max ? cursor_bytes(c, *ret_len) : NULL;
	return (const char *)p;
}

/* Does each key have its value, with a NUL? */
static bool has_values(const char *values, size_t len, size_t n_keys)
{
	for (size_t i = 0; i < len; i++)
		n_keys -= !values[i];
	return len && !values[len - 1] && !n_keys;
}

#define DUMP_MAX 8192 /* bytes of one that has all buckets of LENGTHS_BITS */

/* Into an empty histogram. */
static int take_hist(struct cursor *c, struct hist_snapshot *to)
{
	struct hist_snapshot h;
	size_t len;
	const char *bytes = take_text(c, DUMP_MAX, &len);
	int rc = bytes ? hist_load_binary(bytes, len, &h, NULL) : -EBADMSG;
	if (rc)
		return rc == -ENOMEM ? rc : -EBADMSG;
	if (h.bits != LENGTHS_BITS) {
		hist_snapshot_fini(&h);
		return -EBADMSG;
	}
	*to = h;
	return 0;
}

static int take_lengths(struct cursor *c, struct rule_lengths **ret)
{
	struct rule_lengths *l = rule_lengths_new();
	int rc = l ? take_hist(c, &l->all) : -ENOMEM;
	rc = rc ? rc : take_hist(c, &l->recent[0]);
	rc = rc ? rc : take_hist(c, &l->recent[1]);
	if (rc) {
		rule_lengths_free(l);
		return rc;
	}
	rule_lengths_free(*ret);
	*ret = l;
	return 0;
}

static int take_series(struct cursor *c, size_t n_keys, bool counter, struct series *to)
{
	size_t len, trace_len;
	const char *values = take_text(c, n_keys * VALUE_BYTES, &len);
	if (!values || !has_values(values, len, n_keys))
		return -EBADMSG;
	*to = (struct series){ .len = len, .ns = cursor_u64(c) };
	const char *trace = take_text(c, TRACE_MAX - 1, &trace_len);
	if (!trace)
		return -EBADMSG;
	memcpy(to->trace, trace, trace_len);
	to->trace_ns = cursor_u64(c);
	to->trace_at_ns = (int64_t)cursor_u64(c);
	to->values = c->bad ? NULL : malloc(len);
	if (!to->values)
		return c->bad ? -EBADMSG : -ENOMEM;
	memcpy(to->values, values, len);
	int rc = counter ? 0 : take_lengths(c, &to->lengths);
	if (rc)
		free(to->values);
	return rc;
}

static int take_rule(struct cursor *c, struct rule_state *s)
{
	size_t len;
	const char *name = take_text(c, VALUE_MAX, &len);
	if (!name || strlen(s->r.name) != len || memcmp(name, s->r.name, len) != 0)
		return -EBADMSG;
	s->next_ns = (int64_t)cursor_u64(c);
	s->other_ns = cursor_u64(c);
	if (cursor_u8(c) != s->r.type)
		return -EBADMSG;
	s->recent_ns = (int64_t)cursor_u64(c);
	int rc = s->other ? take_lengths(c, &s->other) : 0;
	uint32_t n = cursor_u32(c);
	rc = !rc && (c->bad || n > s->r.top) ? -EBADMSG : rc;
	for (; !rc && s->n < n; s->n += !rc)
		rc = take_series(c, s->r.n_keys, !s->other, &s->series[s->n]);
	return rc;
}

static int take_rules(struct metric_rules *r, const struct buf *bytes)
{
	struct cursor c = cursor_of(bytes);
	int rc = cursor_u32(&c) == r->n ? 0 : -EBADMSG;
	r->exemplars = cursor_u8(&c);
	for (size_t i = 0; !rc && i < r->n; i++)
		rc = take_rule(&c, &r->v[i]);
	return rc ? rc : c.bad ? -EBADMSG : 0;
}

/* -ENODATA: there is nothing, or what is there was not written to its end. */
static int read_kept(int fd, struct buf *ret)
{
	struct kept_head head;
	struct stat st;
	if (fstat(fd, &st))
		return -errno;
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || head.len > METRIC_RULES_KEPT_MAX ||
	    (uint64_t)st.st_size < sizeof(head) + head.len)
		return -ENODATA;
	int rc = buf_reserve(ret, head.len + 1);
	if (rc)
		return rc;
	if (pread(fd, ret->data, head.len, sizeof(head)) != (ssize_t)head.len ||
	    XXH3_64bits(ret->data, head.len) != head.hash)
		return -ENODATA;
	ret->len = head.len;
	return 0;
}

/* Nothing of counters that make no sense is kept. */
static void forget(struct metric_rules *r, const int64_t *from_ns)
{
	for (size_t i = 0; i < r->n; i++) {
		struct rule_state *s = &r->v[i];
		while (s->n) {
			rule_lengths_free(s->series[--s->n].lengths);
			free(s->series[s->n].values);
		}
		if (s->other)
			rule_lengths_clear(s->other);
		s->other_ns = 0;
		s->recent_ns = 0;
		s->next_ns = from_ns[i];
	}
}

int metric_rules_keep(struct metric_rules *r, int fd, struct err *err)
{
	struct buf bytes = BUF_INIT;
	int64_t from_ns[RULES_MAX];
	for (size_t i = 0; i < r->n && i < RULES_MAX; i++)
		from_ns[i] = r->v[i].next_ns;
	int rc = read_kept(fd, &bytes);
	rc = rc ? rc : take_rules(r, &bytes);
	buf_fini(&bytes);
	if (rc)
		forget(r, from_ns);
	if (rc && rc != -ENODATA && rc != -EBADMSG)
		return err_sys(err, rc, "cannot read the counters of the rules");
	r->kept_fd = fd;
	metric_rules_save(r);
	return 0;
}
