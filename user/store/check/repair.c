/* SPDX-License-Identifier: Apache-2.0 */
/* Segments without what is damaged in them. */
#include "store/check/check.h"
#include "store/read/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int copy_blocks(struct check *c, const struct segment *g, struct file *to)
{
	struct buf payload = BUF_INIT;
	struct frame f;
	int rc = 0;
	for (size_t i = 0; !rc && i < g->n_refs; i++) {
		rc = file_frame(&g->file, g->refs[i].offset, g->file.size, &f, &payload);
		if (!rc)
			rc = file_append(to, &f, &payload);
	}
	buf_fini(&payload);
	if (!rc)
		rc = file_sync(to);
	return rc ? err_sys(c->err, rc, "cannot write %s", to->path) : 0;
}

static int copy_frame(void *ctx, const struct frame *h, const uint8_t *payload)
{
	const struct buf stored = { (uint8_t *)payload, h->stored_len, h->stored_len };
	return file_append(ctx, h, &stored);
}

static int copy_symbols(struct check *c, struct segment *g, struct file *to)
{
	struct store *s = &c->s;
	struct file own = { .fd = -1 };
	const struct file *from = &g->file;
	uint64_t at = g->m.symbols_at, end;
	int rc = 0;
	if (g->m.state != SEGMENT_SEALED) {
		at = FILE_HEADER_SIZE;
		from = &own;
		rc = file_open(&own, s->dir_fd, s->dir,
			       (struct place){ KIND_SYMBOLS, g->m.serial, g->m.level },
			       s->header.store_id, false, c->err);
	}
	if (!rc && (rc = file_each_frame(from, at, at + g->symbols->good, copy_frame, to, &end)))
		err_sys(c->err, rc, "cannot write %s", to->path);
	if (!rc && (rc = file_sync(to)))
		err_sys(c->err, rc, "cannot write %s", to->path);
	file_close(&own);
	return rc;
}

static int make_file(struct check *c, struct place p, struct file *ret)
{
	struct store *s = &c->s;
	int rc = file_create(s->dir_fd, s->dir, p, s->header.store_id, c->err);
	return rc ? rc : file_open(ret, s->dir_fd, s->dir, p, s->header.store_id, true, c->err);
}

/*
 * Its whole blocks in a new file and what they name in another; the old ones are unlinked when the
 * manifest names the new ones.
 */
static int rewrite_segment(struct check *c, struct segment *g)
{
	struct manifest_segment m = { .serial = ++c->s.manifest.next_segment,
				      .level = g->m.level,
				      .state = SEGMENT_CLOSED,
				      .wide = g->m.wide,
				      .n_wide = g->m.n_wide,
				      .unknown = g->m.unknown };
	struct file blocks = { .fd = -1 }, symbols = { .fd = -1 };
	c->changed = true;
	int rc = make_file(c, (struct place){ KIND_BLOCKS, m.serial, m.level }, &blocks);
	if (!rc)
		rc = make_file(c, (struct place){ KIND_SYMBOLS, m.serial, m.level }, &symbols);
	if (!rc)
		rc = copy_symbols(c, g, &symbols);
	if (!rc)
		rc = copy_blocks(c, g, &blocks);
	if (!rc) {
		m.end = blocks.tail;
		g->m = m;
		segment_describe(g);
	}
	file_close(&blocks);
	file_close(&symbols);
	return rc;
}

int repair_segment(struct check *c, struct segment *g, const struct scan *scan, bool *ret_keep)
{
	uint32_t next = g->n_refs ? g->refs[g->n_refs - 1].b.seq + 1 : 0;
	if (c->s.manifest.seq[g->m.level] < next)
		c->s.manifest.seq[g->m.level] = next;
	*ret_keep = true;
	if (!scan->bad && scan->torn == UINT64_MAX &&
	    (!c->rebuilt || g->m.state == SEGMENT_SEALED)) {
		if (c->rebuilt)
			segment_describe(g);
		return 0;
	}
	*ret_keep = g->n_refs > 0;
	c->changed = true;
	return g->n_refs ? rewrite_segment(c, g) : 0;
}

int repair_finish(struct check *c)
{
	struct store *s = &c->s;
	struct manifest *m = &s->manifest;
	if (!c->changed)
		return 0;
	const struct manifest_segment **v = malloc(s->n_segments * sizeof(*v));
	size_t n = 0;
	if (!v)
		return err_sys(c->err, -ENOMEM, "cannot repair %s", s->dir);
	for (size_t i = 0; i < s->n_segments; i++)
		if (c->kept[i])
			v[n++] = &s->segments[i].m;
	/* Parents may be gone: whether a block has one is found out again. */
	memset(m->covered, 0, sizeof(m->covered));
	int rc = manifest_write(m, v, n, s->dir_fd, s->dir, s->header.store_id, c->err);
	free(v);
	return rc;
}
