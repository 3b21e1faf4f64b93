/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one writer of a store.
 *
 * Invariants
 *  1. files[k].end is durable and agrees with the last acknowledged block; saved[k] is what stands before it.
 *  2. Ids at or above saved[k] are in memory only. They are written with the next commit that succeeds, so that a
 *     failed commit changes no id that was handed out.
 *  3. A commit writes at `tail` and makes it `end` only after the block is synced; on any failure all files go
 *     back to `end`. After an fdatasync that failed, the bytes behind `end` are written again from memory by
 *     the next commit: the page cache is never believed to hold them.
 */
#include "store/store_int.h"

#include "store/columns.h"
#include "util/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct store_writer {
	struct store s;
	int lock_fd;
	size_t n_lost, n_flagged; /* of the caller's counters; the store may have more */
	struct dict_mark saved[N_DICTS + 1];
	uint32_t n_blocks;
	struct store_row *rows;
	size_t n_rows, rows_cap;
	struct idhash row_hash;
};

/* ---- opening ---- */

/* Whether a store is here already; -EEXIST when something else is. */
static int look_at_dir(const struct store *s, bool *ret_store, struct err *err)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char other[256] = "";
	bool store = false;
	if (!d) {
		int rc = err_sys(err, -errno, "cannot read the directory %s", s->dir);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (struct dirent *e; (e = readdir(d));) {
		const char *name = e->d_name;
		if (!strcmp(name, HEADER_NAME))
			store = true;
		else if (strcmp(name, ".") && strcmp(name, "..") && strcmp(name, "lock") &&
			 strcmp(name, HEADER_NAME ".tmp"))
			strcpy(other, name);
	}
	closedir(d);
	if (!store && other[0])
		return err_set(err, -EEXIST,
			       "%s holds other things (%.200s) and is no store of ascribe: name a new directory",
			       s->dir, other);
	*ret_store = store;
	return 0;
}

static int take_lock(struct store_writer *w, struct err *err)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	w->lock_fd = openat(w->s.dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (w->lock_fd < 0)
		return err_sys(err, -errno, "cannot open %s/lock", w->s.dir);
	if (!fcntl(w->lock_fd, F_OFD_SETLK, &l))
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return err_set(err, -EBUSY, "the store %s is being written by another process", w->s.dir);
	return err_sys(err, -errno, "cannot lock %s/lock", w->s.dir);
}

static int create_header(const struct store *s, const struct store_meta *meta, struct err *err)
{
	uint64_t id;
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return err_sys(err, -errno, "cannot draw a random number");
	return header_write(s->dir_fd, s->dir, id, meta, err);
}

/* The segment file comes last: while it is missing, the others may be too. */
static int create_files(struct store *s, struct err *err)
{
	int rc = 0;
	for (int k = 1; !rc && k <= KIND_BLOCKS; k++)
		rc = file_create(s->dir_fd, s->dir, k, s->header.store_id, err);
	return rc;
}

static int load(struct store *s, struct err *err)
{
	int rc = store_load(s, true, err);
	if (rc || !s->header_only)
		return rc;
	rc = create_files(s, err);
	if (rc)
		return rc;
	/* Once more, now with its files. */
	struct store again;
	store_init(&again);
	again.dir = s->dir;
	again.dir_fd = s->dir_fd;
	s->dir = NULL;
	s->dir_fd = -1;
	store_fini(s);
	*s = again;
	return store_load(s, true, err);
}

/* -1: unlike; else how many names the longer list has. */
static int longer_list(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
	for (size_t i = 0; i < n_a && i < n_b; i++)
		if (strcmp(a[i], b[i]))
			return -1;
	return (int)(n_a > n_b ? n_a : n_b);
}

static int agree_on_counters(struct store_writer *w, const struct store_meta *m, struct err *err)
{
	struct store *s = &w->s;
	const struct store_meta *old = &s->header.meta;
	int lost = longer_list(old->lost_names, old->n_lost, m->lost_names, m->n_lost);
	int flagged = longer_list(old->flagged_names, old->n_flagged, m->flagged_names, m->n_flagged);
	w->n_lost = m->n_lost;
	w->n_flagged = m->n_flagged;
	if (lost < 0 || flagged < 0)
		return err_set(err, -EINVAL, "the store %s was written with other counters: name a new directory",
			       s->dir);
	if ((size_t)lost == old->n_lost && (size_t)flagged == old->n_flagged)
		return 0;
	struct store_meta new = *old;
	if ((size_t)lost > old->n_lost) {
		new.lost_names = m->lost_names;
		new.n_lost = m->n_lost;
	}
	if ((size_t)flagged > old->n_flagged) {
		new.flagged_names = m->flagged_names;
		new.n_flagged = m->n_flagged;
	}
	struct header h;
	int rc = header_write(s->dir_fd, s->dir, s->header.store_id, &new, err);
	if (!rc)
		rc = header_read(&h, s->dir_fd, s->dir, err);
	if (rc)
		return rc;
	header_fini(&s->header);
	s->header = h;
	return 0;
}

/* Stand behind the last block, and cut off what an interrupted writer left. */
static int stand_at_end(struct store_writer *w, struct err *err)
{
	struct store *s = &w->s;
	const struct stored_block *last = s->n_blocks ? &s->blocks[s->n_blocks - 1] : NULL;
	w->n_blocks = (uint32_t)s->n_blocks;
	for (int k = 1; k <= KIND_BLOCKS; k++) {
		struct file *f = &s->files[k];
		if (last)
			f->end = k == KIND_BLOCKS ? last->end : last->block.marks[k].bytes;
		f->tail = f->end;
		if (f->size > f->end && ftruncate(f->fd, (off_t)f->end))
			return err_sys(err, -errno, "cannot truncate %s", f->path);
		if (k <= N_DICTS)
			w->saved[k].next = dicts_count(&s->dicts, k);
	}
	w->saved[KIND_SETS].text = s->dicts.label_text.n;
	for (size_t i = 0; i < s->n_blocks; i++)
		block_fini(&s->blocks[i].block);
	s->n_blocks = 0;
	return 0;
}

static int open_writer(struct store_writer *w, const char *dir, const struct store_meta *meta, struct err *err)
{
	bool exists = false;
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(err, -errno, "cannot make the directory %s", dir);
	int rc = store_open_dir(&w->s, dir, err);
	if (!rc)
		rc = look_at_dir(&w->s, &exists, err);
	if (!rc)
		rc = take_lock(w, err);
	/* Another writer may have made it a store before we had the lock. */
	if (!rc && !exists)
		rc = look_at_dir(&w->s, &exists, err);
	if (!rc && !exists)
		rc = create_header(&w->s, meta, err);
	if (!rc)
		rc = load(&w->s, err);
	if (!rc && w->s.dict_short)
		rc = err_set(err, -EBADMSG, "%s; the store is not appended to", w->s.damage);
	if (!rc)
		rc = agree_on_counters(w, meta, err);
	return rc ? rc : stand_at_end(w, err);
}

int store_writer_open(struct store_writer **ret, const char *dir, const struct store_meta *meta, struct err *err)
{
	struct store_writer *w = calloc(1, sizeof(*w));
	if (!w)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(&w->s);
	w->lock_fd = -1;
	int rc = open_writer(w, dir, meta, err);
	if (rc)
		store_writer_close(w);
	else
		*ret = w;
	return rc;
}

void store_writer_close(struct store_writer *w)
{
	if (!w)
		return;
	free(w->rows);
	idhash_fini(&w->row_hash);
	store_fini(&w->s);
	if (w->lock_fd >= 0)
		close(w->lock_fd);
	free(w);
}

/* ---- adding ---- */

int store_add_string(struct store_writer *w, const char *s, size_t len, uint32_t *ret_id)
{
	return strings_add(&w->s.dicts.strings, s, len, ret_id);
}

int store_add_frame(struct store_writer *w, const struct store_frame *f, uint32_t *ret_id)
{
	return dicts_add_frame(&w->s.dicts, f, ret_id);
}

int store_add_stack(struct store_writer *w, uint32_t parent, uint32_t frame, uint32_t *ret_id)
{
	return dicts_add_stack(&w->s.dicts, parent, frame, ret_id);
}

int store_add_set(struct store_writer *w, const struct label *labels, size_t n, uint32_t *ret_id)
{
	return dicts_add_set(&w->s.dicts, labels, n, ret_id);
}

int store_add_event(struct store_writer *w, const struct store_event *e, uint32_t *ret_id)
{
	return dicts_add_event(&w->s.dicts, e, ret_id);
}

static bool same_row(const void *ctx, uint32_t id, const void *key)
{
	const struct store_row *a = &((const struct store_writer *)ctx)->rows[id], *b = key;
	return a->set == b->set && a->stack == b->stack && a->event == b->event;
}

int store_add_row(struct store_writer *w, uint32_t set, uint32_t stack, uint32_t event, uint64_t samples,
		  uint64_t value)
{
	const struct dicts *d = &w->s.dicts;
	struct store_row row = { set, stack, event, samples, value };
	const uint32_t key[3] = { set, stack, event };
	if (set >= d->n_sets || stack >= d->n_stacks || event >= d->n_events)
		return -EINVAL;
	uint32_t hash = idhash_hash(&w->row_hash, key, sizeof(key));
	uint32_t id = idhash_find(&w->row_hash, hash, same_row, w, &row);
	if (id != IDHASH_NONE) {
		w->rows[id].samples += samples;
		w->rows[id].value += value;
		return 0;
	}
	if (w->n_rows >= ROWS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(w->rows, w->rows_cap, w->n_rows + 1);
	if (!rc)
		rc = idhash_reserve(&w->row_hash);
	if (rc)
		return rc;
	idhash_put(&w->row_hash, hash, (uint32_t)w->n_rows);
	w->rows[w->n_rows++] = row;
	return 0;
}

/* ---- committing ---- */

static int by_key(const void *pa, const void *pb)
{
	const struct store_row *a = pa, *b = pb;
	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return a->event < b->event ? -1 : a->event > b->event;
}

static bool pending(const struct store_writer *w, enum file_kind kind, const struct dict_mark *mark)
{
	const struct dicts *d = &w->s.dicts;
	return mark->next < dicts_count(d, kind) || (kind == KIND_SETS && mark->text < d->label_text.n);
}

static int write_batch(struct store_writer *w, enum file_kind kind, struct dict_mark *mark)
{
	struct buf raw = BUF_INIT, packed = BUF_INIT;
	struct dict_mark next;
	uint8_t codec;
	int rc = dicts_encode(&w->s.dicts, kind, mark, &raw, &next);
	if (!rc)
		rc = codec_pack(&packed, raw.data, raw.len, &codec);
	if (!rc)
		rc = file_append(&w->s.files[kind], mark->next, next.next - mark->next, codec, (uint32_t)raw.len,
				 &packed);
	buf_fini(&raw);
	buf_fini(&packed);
	if (!rc)
		*mark = next;
	return rc;
}

static int write_dict(struct store_writer *w, enum file_kind kind, struct dict_mark *mark)
{
	bool any = pending(w, kind, mark);
	int rc = 0;
	while (!rc && pending(w, kind, mark))
		rc = write_batch(w, kind, mark);
	return rc || !any ? rc : file_sync(&w->s.files[kind]);
}

static int write_block(struct store_writer *w, const struct store_window *window)
{
	const struct store *s = &w->s;
	const struct store_meta *m = &s->header.meta;
	struct block b = { .window = *window };
	struct buf out = BUF_INIT;
	for (int k = 1; k <= N_DICTS; k++)
		b.marks[k] = (struct block_mark){ s->files[k].tail, dicts_count(&s->dicts, k) };
	int rc = block_encode(&out, &b, w->rows, s->dicts.events, w->n_lost, w->n_flagged, m->n_lost, m->n_flagged);
	if (!rc)
		rc = file_append(&w->s.files[KIND_BLOCKS], w->n_blocks, 1, CODEC_RAW, (uint32_t)out.len, &out);
	if (!rc)
		rc = file_sync(&w->s.files[KIND_BLOCKS]);
	buf_fini(&out);
	return rc;
}

static int write_window(struct store_writer *w, const struct store_window *window, struct err *err)
{
	struct dict_mark marks[N_DICTS + 1];
	memcpy(marks, w->saved, sizeof(marks));
	int rc = 0, k = 1;
	for (; !rc && k <= N_DICTS; k++)
		rc = write_dict(w, k, &marks[k]);
	if (rc)
		k--;
	else
		rc = write_block(w, window);
	if (rc) {
		err_sys(err, rc, "cannot write %s", w->s.files[k].path);
		/* The block first: without it, what stands in the dictionaries has no meaning. */
		for (k = KIND_BLOCKS; k >= 1; k--)
			file_rollback(&w->s.files[k]);
		return rc;
	}
	for (k = 1; k <= KIND_BLOCKS; k++)
		file_commit(&w->s.files[k]);
	memcpy(w->saved, marks, sizeof(marks));
	w->n_blocks++;
	return 0;
}

int store_commit_window(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
			const struct store_totals *totals, struct err *err)
{
	struct store_window window = { t0_ns, t1_ns, boot_ns, w->n_rows, *totals };
	int rc;
	if (t0_ns >= t1_ns || totals->n_cpus > CPUS_MAX) {
		rc = err_set(err, -EINVAL, "a window must end after it begins");
	} else {
		if (w->n_rows)
			qsort(w->rows, w->n_rows, sizeof(*w->rows), by_key);
		rc = write_window(w, &window, err);
	}
	w->n_rows = 0;
	idhash_clear(&w->row_hash);
	return rc;
}
