/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery. Commit writes dictionaries, syncs them, then writes the block that names how far they went. So
 *
 *  1. the segment file decides: a window exists when its block is whole;
 *  2. what stands in a dictionary behind the marks of the last block was never acknowledged and is not looked at;
 *  3. what stands before them was durable before the block was: if it is bad, the disk did that, not a crash.
 *
 * A bad frame in the segment file with an intact one behind it is damage; with none behind it, the torn end.
 */
#include "store/store_int.h"

#include "store/columns.h"
#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

void store_init(struct store *s)
{
	memset(s, 0, sizeof(*s));
	s->dir_fd = -1;
	for (int k = 0; k <= KIND_BLOCKS; k++)
		s->files[k].fd = -1;
}

void store_fini(struct store *s)
{
	for (size_t i = 0; i < s->n_blocks; i++)
		block_fini(&s->blocks[i].block);
	free(s->blocks);
	free(s->order);
	for (uint32_t i = 0; s->set_cache && i < s->dicts.n_sets; i++)
		free(s->set_cache[i]);
	free(s->set_cache);
	for (int k = 1; k <= KIND_BLOCKS; k++)
		file_close(&s->files[k]);
	dicts_fini(&s->dicts);
	header_fini(&s->header);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s->dir);
	store_init(s);
}

int store_open_dir(struct store *s, const char *dir, struct err *err)
{
	s->dir = strdup(dir);
	if (!s->dir)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd >= 0)
		return 0;
	int rc = -errno;
	if (rc == -ENOTDIR)
		return err_set(err, rc, "%s is not a directory, so it is no store", dir);
	if (rc == -ENOENT)
		return err_set(err, rc, "there is no store %s (no such directory)", dir);
	return err_sys(err, rc, "cannot open the store %s", dir);
}

static int corrupt(const struct file *f, uint64_t offset, struct err *err)
{
	return err_set(err, -EBADMSG, "%s is damaged at offset %llu", f->path, (unsigned long long)offset);
}

static void drop_blocks(struct store *s, size_t keep)
{
	while (s->n_blocks > keep)
		block_fini(&s->blocks[--s->n_blocks].block);
}

/* ---- the segment file ---- */

/* Blocks are numbered, and dictionaries only grow. */
static bool follows(const struct store *s, const struct frame *h, const struct block *b)
{
	if (h->first != s->n_blocks || h->codec != CODEC_RAW || h->raw_len != h->stored_len || h->count != 1)
		return false;
	for (int k = 1; k <= N_DICTS; k++) {
		const struct block_mark *m = &b->marks[k];
		const struct block_mark *last = s->n_blocks ? &s->blocks[s->n_blocks - 1].block.marks[k] : NULL;
		if (m->bytes < (last ? last->bytes : FILE_HEADER_SIZE) ||
		    m->count < (last ? last->count : dicts_first(k)))
			return false;
	}
	return true;
}

static int add_block(struct store *s, const struct frame *h, const struct buf *payload, struct err *err)
{
	const struct store_meta *m = &s->header.meta;
	struct block b;
	int rc = ARRAY_RESERVE(s->blocks, s->blocks_cap, s->n_blocks + 1);
	if (!rc)
		rc = block_decode(&b, payload->data, payload->len, m->n_lost, m->n_flagged);
	if (!rc && !follows(s, h, &b)) {
		block_fini(&b);
		rc = -EBADMSG;
	}
	if (rc == -EBADMSG)
		return corrupt(&s->files[KIND_BLOCKS], h->offset, err);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->files[KIND_BLOCKS].path);
	s->blocks[s->n_blocks++] = (struct stored_block){ b, h->offset, frame_end(h) };
	return 0;
}

/* What follows offset is no whole block: the torn end, or damage with windows behind it. */
static int end_of_blocks(struct store *s, uint64_t offset, struct err *err)
{
	const struct file *f = &s->files[KIND_BLOCKS];
	bool found = false;
	if (offset >= f->size)
		return 0;
	int rc = file_find_frame(f, offset + 1, &found);
	if (rc)
		return err_sys(err, rc, "cannot read %s", f->path);
	if (found)
		return corrupt(f, offset, err);
	snprintf(s->damage, sizeof(s->damage), "%s: the last window is incomplete (offset %llu), it is left out",
		 f->path, (unsigned long long)offset);
	return 0;
}

static int load_blocks(struct store *s, struct err *err)
{
	const struct file *f = &s->files[KIND_BLOCKS];
	struct buf payload = BUF_INIT;
	uint64_t offset = FILE_HEADER_SIZE;
	struct frame h;
	int rc;
	while (!(rc = file_frame(f, offset, f->size, &h, &payload))) {
		rc = add_block(s, &h, &payload, err);
		if (rc)
			goto out;
		offset = frame_end(&h);
	}
	if (rc == -ENODATA || rc == -EBADMSG)
		rc = end_of_blocks(s, offset, err);
	else
		err_sys(err, rc, "cannot read %s", f->path);
out:
	buf_fini(&payload);
	return rc;
}

/* ---- dictionaries ---- */

static struct block_mark last_mark(const struct store *s, enum file_kind kind)
{
	if (!s->n_blocks)
		return (struct block_mark){ FILE_HEADER_SIZE, dicts_first(kind) };
	return s->blocks[s->n_blocks - 1].block.marks[kind];
}

/*
 * The dictionary is good up to offset only. Bytes that are there and wrong are an error, unless they concern the
 * last window alone; bytes that are not there leave the windows that do not need them.
 */
static int short_dict(struct store *s, enum file_kind kind, uint64_t offset, bool damaged, struct err *err)
{
	size_t keep = s->n_blocks;
	while (keep && s->blocks[keep - 1].block.marks[kind].bytes > offset)
		keep--;
	if (damaged && s->n_blocks - keep > 1)
		return corrupt(&s->files[kind], offset, err);
	snprintf(s->damage, sizeof(s->damage),
		 "%s is damaged or cut short at offset %llu, %zu of %zu windows are left out", s->files[kind].path,
		 (unsigned long long)offset, s->n_blocks - keep, s->n_blocks);
	s->dict_short = true;
	drop_blocks(s, keep);
	return 0;
}

static int decode_frame(struct store *s, enum file_kind kind, const struct frame *h, const struct buf *payload,
			struct buf *raw)
{
	raw->len = 0;
	if (h->raw_len > FRAME_RAW_MAX || h->first != dicts_count(&s->dicts, kind))
		return -EBADMSG;
	int rc = codec_unpack(raw, h->codec, payload->data, payload->len, h->raw_len);
	return rc ? rc : dicts_decode(&s->dicts, kind, raw->data, raw->len, h->count);
}

static int load_frames(struct store *s, enum file_kind kind, struct err *err)
{
	const struct file *f = &s->files[kind];
	struct buf payload = BUF_INIT, raw = BUF_INIT;
	uint64_t offset = FILE_HEADER_SIZE;
	struct frame h;
	int rc = 0;
	while (!rc && offset < last_mark(s, kind).bytes) {
		rc = file_frame(f, offset, last_mark(s, kind).bytes, &h, &payload);
		if (rc == -ENODATA || rc == -EBADMSG) {
			rc = short_dict(s, kind, offset, rc == -EBADMSG, err);
			break;
		}
		if (!rc)
			rc = decode_frame(s, kind, &h, &payload, &raw);
		if (rc == -EBADMSG)
			corrupt(f, offset, err);
		else if (rc)
			err_sys(err, rc, "cannot read %s", f->path);
		else
			offset = frame_end(&h);
	}
	buf_fini(&payload);
	buf_fini(&raw);
	if (!rc && dicts_count(&s->dicts, kind) != last_mark(s, kind).count && !s->dict_short)
		rc = corrupt(f, offset, err);
	return rc;
}

static int load_dict(struct store *s, enum file_kind kind, bool write, struct err *err)
{
	struct file *f = &s->files[kind];
	int rc = file_open(f, s->dir_fd, s->dir, kind, s->header.store_id, write, err);
	if (rc == -ENOENT)
		return err_set(err, -EBADMSG, "%s is missing: the store is damaged", f->path);
	if (rc == -ENODATA)
		return short_dict(s, kind, 0, false, err);
	return rc ? rc : load_frames(s, kind, err);
}

/* ---- all ---- */

/* A store that was never written to may have no segment file, but then its dictionaries are empty. */
static int no_segment(struct store *s, struct err *err)
{
	struct stat st;
	for (int k = 1; k <= N_DICTS; k++)
		if (!fstatat(s->dir_fd, file_name(k), &st, 0) && st.st_size > FILE_HEADER_SIZE)
			return err_set(err, -EBADMSG, "%s/%s is missing: the store is damaged", s->dir,
				       file_name(KIND_BLOCKS));
	s->header_only = true;
	return 0;
}

static int by_time(const void *a, const void *b, void *ctx)
{
	const struct store *s = ctx;
	size_t i = *(const size_t *)a, j = *(const size_t *)b;
	int64_t x = s->blocks[i].block.window.t0_ns, y = s->blocks[j].block.window.t0_ns;
	if (x != y)
		return x < y ? -1 : 1;
	return i < j ? -1 : i > j;
}

static int sort_blocks(struct store *s, struct err *err)
{
	s->order = malloc((s->n_blocks + 1) * sizeof(*s->order));
	if (!s->order)
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; i < s->n_blocks; i++)
		s->order[i] = i;
	qsort_r(s->order, s->n_blocks, sizeof(*s->order), by_time, s);
	return 0;
}

static int load_header(struct store *s, struct err *err)
{
	struct header h;
	int rc = header_read(&h, s->dir_fd, s->dir, err);
	if (rc == -ENOENT)
		return err_set(err, -EINVAL, "%s is not a store of ascribe: it has no %s", s->dir, HEADER_NAME);
	if (rc)
		return rc;
	header_fini(&s->header);
	s->header = h;
	return 0;
}

int store_load(struct store *s, bool write, struct err *err)
{
	int rc = load_header(s, err);
	if (!rc && dicts_init(&s->dicts, write))
		rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	if (rc)
		return rc;
	rc = file_open(&s->files[KIND_BLOCKS], s->dir_fd, s->dir, KIND_BLOCKS, s->header.store_id, write, err);
	if (rc == -ENOENT) {
		rc = no_segment(s, err);
	} else if (rc == -ENODATA) {
		snprintf(s->damage, sizeof(s->damage), "%s/%s is cut short, no window is left", s->dir,
			 file_name(KIND_BLOCKS));
		s->dict_short = true;
		rc = 0;
	} else if (!rc) {
		/* Again, now that the size is known: a later writer may have added counters before its first block. */
		rc = load_header(s, err);
		if (!rc)
			rc = load_blocks(s, err);
		for (int k = 1; !rc && k <= N_DICTS; k++)
			rc = load_dict(s, k, write, err);
	}
	return rc ? rc : sort_blocks(s, err);
}
