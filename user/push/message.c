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
	return add_exported(export_otlp, &m->src, &m->body, err);
}

int push_encode_pprof(struct push_message *m, struct err *err)
{
	return add_exported(export_pprof, &m->src, &m->body, err);
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

static int compress_body(struct push_message *m, struct err *err)
{
	if (m->to->compression == PUSH_PLAIN)
		return 0;
	m->packed.len = 0;
	int rc = (m->to->compression == PUSH_ZSTD ? zstd : gzip)(&m->body, &m->packed);
	if (rc)
		return err_sys(err, rc, "cannot compress a message");
	struct buf b = m->body;
	m->body = m->packed;
	m->packed = b;
	return 0;
}

int push_message_encode(struct push_message *m, struct err *err)
{
	m->body.len = 0;
	m->src.part = &m->part;
	int rc = m->to->format->encode(m, err);
	return rc ? rc : compress_body(m, err);
}

void push_message_fini(struct push_message *m)
{
	buf_fini(&m->body);
	buf_fini(&m->packed);
}
