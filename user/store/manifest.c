/* SPDX-License-Identifier: Apache-2.0 */
#include "store/manifest.h"

#include "store/columns.h"
#include "store/file.h"
#include "util/array.h"
#include "util/crc32c.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX (1u << 20)
#define LIST_MAX (1u << 20)

void manifest_epoch_fini(struct manifest_epoch *e)
{
	for (size_t i = 0; i < e->n_wide; i++)
		free(e->wide[i].key);
	free(e->wide);
}

void manifest_fini(struct manifest *m)
{
	for (size_t i = 0; i < m->n_epochs; i++)
		manifest_epoch_fini(&m->epochs[i]);
	free(m->epochs);
	free(m->generations);
	free(m->anchors);
	free(m->segments);
	memset(m, 0, sizeof(*m));
}

int manifest_add_epoch(struct manifest *m, const struct manifest_epoch *e)
{
	int rc = ARRAY_RESERVE(m->epochs, m->epochs_cap, m->n_epochs + 1);
	if (!rc)
		m->epochs[m->n_epochs++] = *e;
	return rc;
}

int manifest_add_generation(struct manifest *m, uint32_t serial, int64_t t0_ns)
{
	int rc = ARRAY_RESERVE(m->generations, m->generations_cap, m->n_generations + 1);
	if (!rc)
		m->generations[m->n_generations++] = (struct manifest_generation){ serial, t0_ns };
	return rc;
}

int manifest_add_anchor(struct manifest *m, const struct store_anchor *a)
{
	int rc = ARRAY_RESERVE(m->anchors, m->anchors_cap, m->n_anchors + 1);
	if (!rc)
		m->anchors[m->n_anchors++] = *a;
	return rc;
}

void manifest_drop_epoch(struct manifest *m, size_t i)
{
	manifest_epoch_fini(&m->epochs[i]);
	memmove(&m->epochs[i], &m->epochs[i + 1], (--m->n_epochs - i) * sizeof(*m->epochs));
}

void manifest_drop_generation(struct manifest *m, size_t i)
{
	memmove(&m->generations[i], &m->generations[i + 1], (--m->n_generations - i) * sizeof(*m->generations));
}

/* ---- writing ---- */

static int add_all(struct buf *b, const uint64_t *v, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add_varint(b, v[i]);
	return rc;
}

static int encode_segment(struct buf *b, const struct manifest_segment *s)
{
	const uint64_t v[] = { s->serial,    s->level,	s->state,  s->end,	  s->index_at, zigzag((uint64_t)s->t0_ns),
			       zigzag((uint64_t)s->t1_ns), s->n_blocks, s->seq_lo, s->seq_hi, s->generation, s->epoch,
			       s->generation_hi, s->epoch_hi };
	return add_all(b, v, sizeof(v) / sizeof(v[0]));
}

static int encode_epoch(struct buf *b, const struct manifest_epoch *e)
{
	const uint64_t v[] = { e->serial, zigzag((uint64_t)e->t0_ns), e->n_wide };
	int rc = add_all(b, v, 3);
	for (size_t i = 0; !rc && i < e->n_wide; i++) {
		size_t len = strlen(e->wide[i].key);
		rc = buf_add_varint(b, len);
		if (!rc)
			rc = buf_add(b, e->wide[i].key, len);
		if (!rc)
			rc = buf_add_varint(b, e->wide[i].values);
	}
	return rc;
}

static int encode_levels(struct buf *b, const struct manifest *m)
{
	int rc = buf_add_varint(b, N_SEGMENT_LEVELS);
	for (size_t i = 0; !rc && i < N_SEGMENT_LEVELS; i++) {
		const struct store_cut *c = &m->cuts[i];
		const uint64_t v[] = { m->seq[i],	 m->covered[i], zigzag((uint64_t)c->before_ns), c->blocks,
				       c->bytes_by_age, c->bytes_by_size };
		rc = add_all(b, v, sizeof(v) / sizeof(v[0]));
	}
	return rc;
}

static int encode(struct buf *b, const struct manifest *m)
{
	int rc = buf_add_varint(b, m->next_segment);
	if (!rc)
		rc = encode_levels(b, m);
	if (!rc)
		rc = buf_add_varint(b, m->n_segments);
	for (size_t i = 0; !rc && i < m->n_segments; i++)
		rc = encode_segment(b, &m->segments[i]);
	if (!rc)
		rc = buf_add_varint(b, m->n_generations);
	for (size_t i = 0; !rc && i < m->n_generations; i++) {
		const uint64_t v[] = { m->generations[i].serial, zigzag((uint64_t)m->generations[i].t0_ns) };
		rc = add_all(b, v, 2);
	}
	if (!rc)
		rc = buf_add_varint(b, m->n_epochs);
	for (size_t i = 0; !rc && i < m->n_epochs; i++)
		rc = encode_epoch(b, &m->epochs[i]);
	if (!rc)
		rc = buf_add_varint(b, m->n_anchors);
	for (size_t i = 0; !rc && i < m->n_anchors; i++) {
		rc = buf_add(b, m->anchors[i].boot_id, 16);
		if (!rc)
			rc = buf_add_varint(b, zigzag((uint64_t)m->anchors[i].real_minus_boot_ns));
	}
	return rc;
}

int manifest_write(const struct manifest *m, int dir_fd, const char *dir, uint64_t store_id, struct err *err)
{
	struct buf p = BUF_INIT, b = BUF_INIT;
	int rc = encode(&p, m);
	if (!rc && p.len > MANIFEST_PAYLOAD_MAX)
		rc = -E2BIG;
	if (!rc)
		rc = buf_reserve(&b, HEADER_SIZE + p.len);
	if (!rc) {
		buf_add(&b, MANIFEST_MAGIC, 8);
		buf_add_u32(&b, FORMAT_VERSION);
		buf_add_u32(&b, (uint32_t)p.len);
		buf_add_u64(&b, store_id);
		buf_add_u32(&b, crc32c(p.data, p.len));
		buf_add_u32(&b, crc32c(b.data, HEADER_SIZE - 4));
		buf_add(&b, p.data, p.len);
		rc = file_replace(dir_fd, MANIFEST_NAME, b.data, b.len);
	}
	buf_fini(&p);
	buf_fini(&b);
	return rc ? err_sys(err, rc, "cannot write %s/%s", dir, MANIFEST_NAME) : 0;
}

/* ---- reading ---- */

static uint32_t get32(struct cursor *c)
{
	uint64_t v = cursor_varint(c);
	if (v > UINT32_MAX)
		c->bad = 1;
	return (uint32_t)v;
}

static int64_t get_time(struct cursor *c)
{
	return (int64_t)unzigzag(cursor_varint(c));
}

/* How many elements follow; each takes a byte at least. */
static size_t get_count(struct cursor *c, size_t max)
{
	uint64_t n = cursor_varint(c);
	if (n > max || n > cursor_left(c))
		c->bad = 1;
	return c->bad ? 0 : n;
}

static void decode_segment(struct manifest_segment *s, struct cursor *c)
{
	s->serial = get32(c);
	uint32_t level = get32(c), state = get32(c);
	s->level = (uint8_t)level;
	s->state = (uint8_t)state;
	s->end = cursor_varint(c);
	s->index_at = cursor_varint(c);
	s->t0_ns = get_time(c);
	s->t1_ns = get_time(c);
	s->n_blocks = get32(c);
	s->seq_lo = get32(c);
	s->seq_hi = get32(c);
	s->generation = get32(c);
	s->epoch = get32(c);
	s->generation_hi = get32(c);
	s->epoch_hi = get32(c);
	if (level >= N_SEGMENT_LEVELS || state > SEGMENT_CLOSED || s->seq_lo > s->seq_hi)
		c->bad = 1;
}

static int decode_epoch(struct manifest *m, struct cursor *c)
{
	struct manifest_epoch e = { .serial = get32(c), .t0_ns = get_time(c) };
	size_t n = get_count(c, LIST_MAX);
	e.wide = calloc(n + 1, sizeof(*e.wide));
	int rc = e.wide ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len = get_count(c, STRING_MAX);
		const uint8_t *p = cursor_bytes(c, len);
		e.wide[i].values = get32(c);
		e.wide[i].key = c->bad ? NULL : strndup((const char *)p, len);
		rc = c->bad ? -EBADMSG : e.wide[i].key ? 0 : -ENOMEM;
		e.n_wide += !rc;
	}
	if (!rc)
		rc = manifest_add_epoch(m, &e);
	if (rc)
		manifest_epoch_fini(&e);
	return rc;
}

static void decode_levels(struct manifest *m, struct cursor *c)
{
	if (get32(c) != N_SEGMENT_LEVELS)
		c->bad = 1;
	for (size_t i = 0; i < N_SEGMENT_LEVELS; i++) {
		m->seq[i] = get32(c);
		m->covered[i] = get32(c);
		m->cuts[i].before_ns = get_time(c);
		m->cuts[i].blocks = cursor_varint(c);
		m->cuts[i].bytes_by_age = cursor_varint(c);
		m->cuts[i].bytes_by_size = cursor_varint(c);
	}
}

static int decode(struct manifest *m, struct cursor *c)
{
	m->next_segment = get32(c);
	decode_levels(m, c);
	size_t n = get_count(c, SEGMENTS_MAX);
	m->segments = calloc(n + 1, sizeof(*m->segments));
	if (!m->segments)
		return -ENOMEM;
	for (m->n_segments = n, n = 0; n < m->n_segments; n++)
		decode_segment(&m->segments[n], c);
	n = get_count(c, LIST_MAX);
	int rc = 0;
	for (size_t i = 0; !rc && i < n && !c->bad; i++) {
		uint32_t serial = get32(c);
		rc = manifest_add_generation(m, serial, get_time(c));
	}
	n = get_count(c, LIST_MAX);
	for (size_t i = 0; !rc && i < n && !c->bad; i++)
		rc = decode_epoch(m, c);
	n = rc ? 0 : get_count(c, LIST_MAX);
	for (size_t i = 0; !rc && i < n && !c->bad; i++) {
		struct store_anchor a = { 0 };
		const uint8_t *p = cursor_bytes(c, 16);
		if (p)
			memcpy(a.boot_id, p, 16);
		a.real_minus_boot_ns = get_time(c);
		rc = manifest_add_anchor(m, &a);
	}
	return rc ? rc : c->bad || cursor_left(c) ? -EBADMSG : 0;
}

int manifest_read(struct manifest *ret, int dir_fd, const char *dir, uint64_t store_id, struct err *err)
{
	struct buf b = BUF_INIT;
	struct manifest m = { 0 };
	uint32_t version = 0;
	int rc = file_read_whole(dir_fd, MANIFEST_NAME, HEADER_SIZE, HEADER_SIZE + MANIFEST_PAYLOAD_MAX, &b);
	if (!rc) {
		struct cursor c = { b.data + 8, b.data + b.len, 0 };
		version = cursor_u32(&c);
		uint32_t len = cursor_u32(&c);
		uint64_t id = cursor_u64(&c);
		uint32_t payload_crc = cursor_u32(&c), crc = cursor_u32(&c);
		if (memcmp(b.data, MANIFEST_MAGIC, 8) || crc != crc32c(b.data, HEADER_SIZE - 4))
			rc = -EBADMSG;
		else if (version && version != FORMAT_VERSION)
			rc = -EPROTONOSUPPORT;
		else if (!version || len != cursor_left(&c) || payload_crc != crc32c(c.p, len) || id != store_id)
			rc = -EBADMSG;
		else
			rc = decode(&m, &c);
	}
	buf_fini(&b);
	if (!rc) {
		*ret = m;
		return 0;
	}
	manifest_fini(&m);
	if (rc == -EPROTONOSUPPORT)
		return file_other_version(dir, version, err);
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset 0)", dir, MANIFEST_NAME);
	if (rc == -ENOENT)
		return err_set(err, rc, "%s/%s is missing: the store is damaged", dir, MANIFEST_NAME);
	return err_sys(err, rc, "cannot read %s/%s", dir, MANIFEST_NAME);
}
