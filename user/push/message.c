/* SPDX-License-Identifier: Apache-2.0 */
#include "push/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#define ZSTD_LEVEL 1

/* ---- what is written to a stream, in a buffer ---- */

static ssize_t take(void *to, const char *bytes, size_t n)
{
	return buf_add(to, bytes, n) ? -1 : (ssize_t)n;
}

typedef int (*export_fn)(const struct export_source *, enum export_unit, FILE *, struct err *);

static int add_exported(export_fn export, const struct export_source *src, struct buf *to,
			struct err *err)
{
	FILE *f = fopencookie(to, "w", (cookie_io_functions_t){ .write = take });
	if (!f)
		return err_sys(err, -ENOMEM, "cannot push");
	int rc = export(src, EXPORT_BY_EVENT, f, err);
	if (fclose(f) && !rc)
		rc = err_sys(err, -ENOMEM, "cannot push");
	return rc;
}

int push_encode_otlp(struct push_message *m, struct err *err)
{
	return add_exported(export_otlp, &m->src, &m->posts[0].body, err);
}

int push_encode_pprof(struct push_message *m, struct err *err)
{
	return add_exported(export_pprof, &m->src, &m->posts[0].body, err);
}

int push_add_pprof(struct push_message *m, struct export_part *part, struct err *err)
{
	struct export_source src = m->src;
	src.part = part;
	src.bare = true;
	return add_exported(export_pprof, &src, &m->packed, err);
}

/* ---- compression ---- */

static int gzip(const struct buf *from, struct buf *to)
{
	z_stream z = { 0 };
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	int rc = buf_reserve(to, deflateBound(&z, from->len));
	if (!rc) {
		z.next_in = from->data;
		z.avail_in = (uInt)from->len;
		z.next_out = to->data;
		z.avail_out = (uInt)to->cap;
		rc = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
		to->len = z.total_out;
	}
	deflateEnd(&z);
	return rc;
}

static int zstd(const struct buf *from, struct buf *to)
{
	int rc = buf_reserve(to, ZSTD_compressBound(from->len));
	if (rc)
		return rc;
	to->len = ZSTD_compress(to->data, to->cap, from->data, from->len, ZSTD_LEVEL);
	return ZSTD_isError(to->len) ? -EIO : 0;
}

int push_message_compress(struct push_message *m, struct push_post *p, struct err *err)
{
	if (m->to->compression == PUSH_PLAIN || !p->body.len)
		return 0;
	m->packed.len = 0;
	int rc = (m->to->compression == PUSH_ZSTD ? zstd : gzip)(&p->body, &m->packed);
	if (rc)
		return err_sys(err, rc, "cannot compress a message");
	struct buf b = p->body;
	p->body = m->packed;
	m->packed = b;
	return 0;
}

static int encode(struct push_message *m, int (*write)(struct push_message *, struct err *),
		  struct err *err)
{
	for (size_t i = 0; i < PUSH_POSTS_MAX; i++) {
		m->posts[i].path[0] = 0;
		m->posts[i].body.len = 0;
		m->posts[i].witness.len = 0;
	}
	m->n_posts = 1;
	int rc = write(m, err);
	for (size_t i = 0; !rc && i < m->n_posts; i++)
		rc = push_message_compress(m, &m->posts[i], err);
	return rc;
}

int push_message_encode(struct push_message *m, struct err *err)
{
	m->src.part = &m->part;
	return encode(m, m->to->format->encode, err);
}

int push_message_end_window(struct push_message *m, struct err *err)
{
	return encode(m, m->to->format->end_window, err);
}

void push_message_fini(struct push_message *m)
{
	for (size_t i = 0; i < PUSH_POSTS_MAX; i++) {
		buf_fini(&m->posts[i].body);
		buf_fini(&m->posts[i].witness);
	}
	buf_fini(&m->packed);
}
