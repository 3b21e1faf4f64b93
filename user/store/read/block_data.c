/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/block_data.h"

#include "store/file/columns.h"
#include "store/read/store_int.h"
#include "store/read/tracks.h"
#include "util/crc32c.h"

#include <errno.h>
#include <string.h>

int block_damaged(const struct store *s, const struct block_ref *r, struct err *err)
{
	return err_set(err, -EBADMSG, "%s is damaged at offset %llu",
		       s->segments[r->segment].file.path, (unsigned long long)r->offset);
}

int block_failed(const struct store *s, const struct block_ref *r, int rc, struct err *err)
{
	if (rc == -EBADMSG)
		return block_damaged(s, r, err);
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : 0;
}

int block_read_raw(struct store *s, const struct block_ref *r, const struct block_head *h,
		   enum column c, uint64_t at, void *out, size_t len, struct err *err)
{
	struct segment *g = &s->segments[r->segment];
	int rc = segment_open(s, g, err);
	if (rc == -ENOENT)
		return store_missing(s, g->file.path, err);
	if (rc)
		return rc;
	uint64_t offset = r->offset + FRAME_SIZE + (h ? h->column[c].at : 0) + at;
	rc = file_read(&g->file, offset, out, len);
	if (rc == -ENODATA)
		return block_damaged(s, r, err);
	return rc ? err_sys(err, rc, "cannot read %s", g->file.path) : 0;
}

int block_read_piece(struct store *s, const struct block_ref *r, const struct block_head *h,
		     enum column c, const struct block_column *at, struct buf *ret, struct err *err)
{
	struct buf stored = BUF_INIT;
	const struct block_column *whole = &h->column[c];
	if (!block_has(h, c) || at->at > whole->stored_len ||
	    at->stored_len > whole->stored_len - at->at || at->raw_len > FRAME_RAW_MAX)
		return block_damaged(s, r, err);
	if (buf_reserve(&stored, (size_t)at->stored_len + 1))
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	int rc = block_read_raw(s, r, h, c, at->at, stored.data, at->stored_len, err);
	if (!rc) {
		rc = crc32c(stored.data, at->stored_len) != at->crc
			     ? -EBADMSG
			     : codec_unpack(ret, at->codec, stored.data, at->stored_len,
					    at->raw_len);
		rc = block_failed(s, r, rc, err);
	}
	buf_fini(&stored);
	return rc;
}

static int read_column(struct store *s, const struct block_ref *r, struct block_data *d,
		       enum column c, struct err *err)
{
	struct buf stored = BUF_INIT;
	size_t len = d->head.column[c].stored_len;
	int rc = buf_reserve(&stored, len + 1);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->dir);
	rc = block_read_raw(s, r, &d->head, c, 0, stored.data, len, err);
	if (!rc) {
		rc = block_unpack(&d->head, c, stored.data, &d->column[c]);
		rc = block_failed(s, r, rc, err);
	}
	buf_fini(&stored);
	return rc;
}

static bool same_info(const struct store_block *a, const struct store_block *b)
{
	return a->t0_ns == b->t0_ns && a->t1_ns == b->t1_ns && a->level == b->level &&
	       a->seq == b->seq && a->n_rows == b->n_rows && a->n_folded == b->n_folded &&
	       a->n_table == b->n_table;
}

int block_read(struct store *s, const struct block_ref *r, uint32_t wanted, struct block_data *ret,
	       struct err *err)
{
	uint8_t head[BLOCK_HEAD_MAX];
	struct block_data d = { 0 };
	size_t len = r->stored_len < sizeof(head) ? r->stored_len : sizeof(head);
	if (r->whole)
		return part_read(s, r, wanted, ret, err);
	int rc = block_read_raw(s, r, NULL, 0, 0, head, len, err);
	if (!rc && (block_decode_head(&d.head, head, len, r->stored_len) ||
		    !same_info(&d.head.info, &r->b)))
		rc = block_damaged(s, r, err);
	for (int c = 0; !rc && c < N_COLUMNS; c++)
		if ((wanted & d.head.has) >> c & 1)
			rc = read_column(s, r, &d, c, err);
	if (rc)
		block_data_fini(&d);
	else
		*ret = d;
	return rc;
}

void block_data_fini(struct block_data *d)
{
	for (int i = 0; i < N_COLUMNS; i++)
		buf_fini(&d->column[i]);
	memset(d, 0, sizeof(*d));
}
