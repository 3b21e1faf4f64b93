/* SPDX-License-Identifier: Apache-2.0 */
/* HEADER and MANIFEST of a store of format 2: varints where format 3 has protobuf messages. */
#include "store/old/read.h"

#include "store/file/columns.h"
#include "store/file/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX (1u << 20)

static int read_meta(struct old_store *o, const char *name, const char magic[8], size_t max,
		     struct buf *b, uint64_t *ret_id, struct err *err)
{
	uint32_t version = 0;
	int rc = file_read_whole(o->dir_fd, name, HEADER_SIZE, HEADER_SIZE + max, b);
	if (!rc)
		rc = message_check(b, magic, FORMAT_OLD, ret_id, &version);
	if (rc == -EPROTONOSUPPORT)
		return file_other_version(o->dir, version, err);
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset 0)", o->dir, name);
	return rc ? err_sys(err, rc, "cannot read %s/%s", o->dir, name) : 0;
}

static int damaged(const struct old_store *o, const char *name, int rc, struct err *err)
{
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset %d)", o->dir, name, HEADER_SIZE);
	return rc ? err_sys(err, rc, "cannot read %s/%s", o->dir, name) : 0;
}

/* ---- HEADER ---- */

static const char *read_text(struct cursor *c)
{
	size_t len = cursor_varint(c);
	const uint8_t *p = cursor_bytes(c, len);
	return p ? strndup((const char *)p, len) : NULL;
}

static int read_names(struct cursor *c, const char *const **ret, size_t *ret_n)
{
	size_t n = cursor_varint(c);
	if (c->bad || n > COUNTERS_MAX)
		return -EBADMSG;
	const char **v = calloc(n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*ret = v;
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		v[i] = read_text(c);
		if (!v[i])
			return c->bad ? -EBADMSG : -ENOMEM;
	}
	return 0;
}

static int decode_header(struct store_meta *m, struct cursor *c)
{
	m->created_ns = (int64_t)cursor_u64(c);
	m->host = read_text(c);
	m->os = read_text(c);
	m->what = read_text(c);
	if (!m->host || !m->os || !m->what)
		return c->bad ? -EBADMSG : -ENOMEM;
	int rc = read_names(c, &m->lost_names, &m->n_lost);
	return rc ? rc : read_names(c, &m->flagged_names, &m->n_flagged);
}

int old_read_header(struct old_store *o, struct err *err)
{
	struct buf b = BUF_INIT;
	int rc = read_meta(o, HEADER_NAME, HEADER_MAGIC, HEADER_PAYLOAD_MAX, &b,
			   &o->header.store_id, err);
	if (!rc) {
		struct cursor c = { b.data + HEADER_SIZE, b.data + b.len, 0 };
		rc = damaged(o, HEADER_NAME, decode_header(&o->header.meta, &c), err);
	}
	buf_fini(&b);
	return rc;
}

/* ---- MANIFEST ---- */

/* How many elements follow; each takes a byte at least. */
static size_t get_count(struct cursor *c, size_t max)
{
	uint64_t n = cursor_varint(c);
	if (n > max || n > cursor_left(c))
		c->bad = 1;
	return c->bad ? 0 : n;
}

static void skip(struct cursor *c, int n)
{
	while (n-- > 0)
		cursor_varint(c);
}

static void decode_segment(struct old_segment *s, struct cursor *c)
{
	s->serial = cursor_varint32(c);
	uint32_t level = cursor_varint32(c), state = cursor_varint32(c);
	s->level = (uint8_t)level;
	s->state = (uint8_t)state;
	s->end = cursor_varint(c);
	s->index_at = cursor_varint(c);
	skip(c, 2); /* t0, t1 */
	s->n_blocks = cursor_varint32(c);
	skip(c, 6); /* seq and dictionaries from and to: every block says them */
	if (level >= N_SEGMENT_LEVELS || state > SEGMENT_CLOSED)
		c->bad = 1;
}

/*
 * Which dictionaries there are and which keys were wide: every block says it, or the new store
 * finds out.
 */
static void skip_dictionaries(struct cursor *c)
{
	for (size_t n = get_count(c, LIST_MAX); n && !c->bad; n--)
		skip(c, 2);
	for (size_t n = get_count(c, LIST_MAX); n && !c->bad; n--) {
		skip(c, 2);
		for (size_t keys = get_count(c, LIST_MAX); keys && !c->bad; keys--) {
			cursor_bytes(c, get_count(c, STRING_MAX));
			skip(c, 1);
		}
	}
}

static int decode_manifest(struct old_store *o, struct cursor *c)
{
	o->last_segment = cursor_varint32(c);
	if (o->last_segment > INT32_MAX) /* those of the new store follow */
		c->bad = 1;
	if (cursor_varint32(c) != N_SEGMENT_LEVELS)
		c->bad = 1;
	skip(c, 6 * N_SEGMENT_LEVELS);
	o->n_segments = get_count(c, LIST_MAX);
	o->segments = calloc(o->n_segments, sizeof(*o->segments));
	if (!o->segments)
		return -ENOMEM;
	for (size_t i = 0; i < o->n_segments; i++)
		decode_segment(&o->segments[i], c);
	skip_dictionaries(c);
	size_t n = get_count(c, LIST_MAX);
	o->anchors = calloc(n, sizeof(*o->anchors));
	if (!o->anchors)
		return -ENOMEM;
	for (; o->n_anchors < n && !c->bad; o->n_anchors++) {
		struct store_anchor *a = &o->anchors[o->n_anchors];
		const uint8_t *p = cursor_bytes(c, 16);
		if (p)
			memcpy(a->boot_id, p, 16);
		a->real_minus_boot_ns = (int64_t)unzigzag(cursor_varint(c));
	}
	return c->bad || cursor_left(c) ? -EBADMSG : 0;
}

int old_read_manifest(struct old_store *o, struct err *err)
{
	struct buf b = BUF_INIT;
	uint64_t id = 0;
	bool kept = !faccessat(o->dir_fd, OLD_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW);
	int rc = read_meta(o, kept ? OLD_MANIFEST_NAME : MANIFEST_NAME, MANIFEST_MAGIC,
			   MANIFEST_PAYLOAD_MAX, &b, &id, err);
	if (!rc) {
		struct cursor c = { b.data + HEADER_SIZE, b.data + b.len, 0 };
		rc = id != o->header.store_id ? -EBADMSG : decode_manifest(o, &c);
		rc = damaged(o, MANIFEST_NAME, rc, err);
	}
	buf_fini(&b);
	return rc;
}
