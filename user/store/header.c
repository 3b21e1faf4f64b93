/* SPDX-License-Identifier: Apache-2.0 */
#include "store/header.h"

#include "store/file.h"
#include "store/format.h"
#include "util/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add_text(struct buf *b, const char *s)
{
	size_t len = s ? strlen(s) : 0;
	if (len > STRING_MAX)
		return -E2BIG;
	int rc = buf_add_varint(b, len);
	return rc ? rc : buf_add(b, s, len);
}

static int add_names(struct buf *b, const char *const *names, size_t n)
{
	if (n > COUNTERS_MAX)
		return -E2BIG;
	int rc = buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_text(b, names[i]);
	return rc;
}

static int encode(struct buf *out, uint64_t store_id, const struct store_meta *m)
{
	struct buf p = BUF_INIT;
	int rc = buf_add_u64(&p, (uint64_t)m->created_ns);
	if (!rc)
		rc = add_text(&p, m->host);
	if (!rc)
		rc = add_text(&p, m->os);
	if (!rc)
		rc = add_text(&p, m->what);
	if (!rc)
		rc = add_names(&p, m->lost_names, m->n_lost);
	if (!rc)
		rc = add_names(&p, m->flagged_names, m->n_flagged);
	if (!rc && p.len > HEADER_PAYLOAD_MAX)
		rc = -E2BIG;
	if (!rc)
		rc = buf_reserve(out, HEADER_SIZE + p.len);
	if (!rc) {
		buf_add(out, HEADER_MAGIC, 8);
		buf_add_u32(out, FORMAT_VERSION);
		buf_add_u32(out, (uint32_t)p.len);
		buf_add_u64(out, store_id);
		buf_add_u32(out, crc32c(p.data, p.len));
		buf_add_u32(out, crc32c(out->data, HEADER_SIZE - 4));
		buf_add(out, p.data, p.len);
	}
	buf_fini(&p);
	return rc;
}

int header_write(int dir_fd, const char *dir, uint64_t store_id, const struct store_meta *meta, struct err *err)
{
	struct buf b = BUF_INIT;
	int rc = encode(&b, store_id, meta);
	/* The copy is for `store repair` alone. */
	if (!rc)
		rc = file_replace(dir_fd, HEADER_COPY_NAME, b.data, b.len);
	if (!rc)
		rc = file_replace(dir_fd, HEADER_NAME, b.data, b.len);
	buf_fini(&b);
	return rc ? err_sys(err, rc, "cannot write %s/%s", dir, HEADER_NAME) : 0;
}

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
	const char **v = calloc(n + 1, sizeof(*v));
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

static int decode_meta(struct store_meta *m, struct cursor c)
{
	m->created_ns = (int64_t)cursor_u64(&c);
	m->host = read_text(&c);
	m->os = read_text(&c);
	m->what = read_text(&c);
	if (!m->host || !m->os || !m->what)
		return c.bad ? -EBADMSG : -ENOMEM;
	int rc = read_names(&c, &m->lost_names, &m->n_lost);
	if (!rc)
		rc = read_names(&c, &m->flagged_names, &m->n_flagged);
	return rc;
}

static int decode(struct header *h, const struct buf *b, uint32_t *ret_version)
{
	struct cursor c = { b->data + 8, b->data + b->len, 0 };
	uint32_t version = cursor_u32(&c), len = cursor_u32(&c);
	h->store_id = cursor_u64(&c);
	uint32_t payload_crc = cursor_u32(&c), crc = cursor_u32(&c);
	if (memcmp(b->data, HEADER_MAGIC, 8) || crc != crc32c(b->data, HEADER_SIZE - 4))
		return -EBADMSG;
	*ret_version = version;
	if (version && version != FORMAT_VERSION)
		return -EPROTONOSUPPORT;
	if (!version || len != cursor_left(&c) || payload_crc != crc32c(c.p, len))
		return -EBADMSG;
	return decode_meta(&h->meta, c);
}

int header_read_file(struct header *ret, int dir_fd, const char *dir, const char *name, struct err *err)
{
	struct buf b = BUF_INIT;
	struct header h = { 0 };
	uint32_t version = 0;
	int rc = file_read_whole(dir_fd, name, HEADER_SIZE, HEADER_SIZE + HEADER_PAYLOAD_MAX, &b);
	if (!rc)
		rc = decode(&h, &b, &version);
	buf_fini(&b);
	if (!rc) {
		*ret = h;
		return 0;
	}
	header_fini(&h);
	if (rc == -EPROTONOSUPPORT)
		return file_other_version(dir, version, err);
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset 0)", dir, name);
	return err_sys(err, rc, "cannot read %s/%s", dir, name);
}

int header_read(struct header *ret, int dir_fd, const char *dir, struct err *err)
{
	return header_read_file(ret, dir_fd, dir, HEADER_NAME, err);
}

static void free_names(const char *const *names, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free((char *)names[i]);
	free((void *)names);
}

void header_fini(struct header *h)
{
	if (!h)
		return;
	free((char *)h->meta.host);
	free((char *)h->meta.os);
	free((char *)h->meta.what);
	free_names(h->meta.lost_names, h->meta.n_lost);
	free_names(h->meta.flagged_names, h->meta.n_flagged);
	memset(h, 0, sizeof(*h));
}
