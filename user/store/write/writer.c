/* SPDX-License-Identifier: Apache-2.0 */
/* The one writer of a store: opening, taking rows. */
#include "store/block/rows.h"
#include "store/write/writer_int.h"

#include "store/file/reserve.h"
#include "store/file/tree.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

void store_options_default(struct store_options *o)
{
	*o = (struct store_options){
		.wide_values = STORE_WIDE_VALUES,
		.wide_sets = 4096,
		.grace_ns = 20 * SECOND_NS,
		.symbols_bytes = 16ull << 20,
		.symbols_memory = 24ull << 20,
		.keep_ns = { 7 * DAY_NS, 30 * DAY_NS, 60 * DAY_NS, 90 * DAY_NS, 180 * DAY_NS,
			     400 * DAY_NS, 800 * DAY_NS, 0, 0 },
	};
}

/* ---- opening ---- */

static bool ours(const char *name)
{
	static const char *const names[] = { ".",
					     "..",
					     "lock",
					     HEADER_NAME ".tmp",
					     HEADER_COPY_NAME,
					     HEADER_COPY_NAME ".tmp",
					     MANIFEST_NAME,
					     MANIFEST_NAME ".tmp",
					     RESERVE_NAME };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Whether a store is here already; -EEXIST when something else is. */
static int look_at_dir(const struct store *s, bool *ret_store, struct err *err)
{
	char other[256] = "";
	bool store = false;
	DIR *d = dir_open(s->dir_fd, ".");
	if (!d)
		return err_sys(err, -errno, "cannot read the directory %s", s->dir);
	for (struct dirent *e; (e = readdir(d));) {
		if (!strcmp(e->d_name, HEADER_NAME))
			store = true;
		else if (!ours(e->d_name))
			strcpy(other, e->d_name);
	}
	closedir(d);
	if (!store && other[0])
		return err_set(
			err, -EEXIST,
			"%s holds other things (%.200s) and is no store of ascribe: name a new "
			"directory",
			s->dir, other);
	*ret_store = store;
	return 0;
}

int writer_take_lock(struct store_writer *w, struct err *err)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	w->lock_fd = openat(w->s.dir_fd, "lock",
			    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (w->lock_fd < 0)
		return err_sys(err, -errno, "cannot open %s/lock", w->s.dir);
	if (!fcntl(w->lock_fd, F_OFD_SETLK, &l))
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return err_set(err, -EBUSY, "the store %s is being written by another process",
			       w->s.dir);
	return err_sys(err, -errno, "cannot lock %s/lock", w->s.dir);
}

/* The header comes last: while it is missing there is no store. */
static int create(struct store *s, const struct store_meta *meta, struct err *err)
{
	struct manifest none = { 0 };
	struct header h = { .meta = *meta };
	if (getrandom(&h.store_id, sizeof(h.store_id), 0) != sizeof(h.store_id))
		return err_sys(err, -errno, "cannot draw a random number");
	int rc = tree_sync_above(s->dir_fd);
	if (rc)
		err_sys(err, rc, "cannot sync the directory above %s", s->dir);
	else
		rc = manifest_write(&none, NULL, 0, s->dir_fd, s->dir, h.store_id, err);
	return rc ? rc : header_write(s->dir_fd, s->dir, &h, err);
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
	int flagged =
		longer_list(old->flagged_names, old->n_flagged, m->flagged_names, m->n_flagged);
	w->n_lost = m->n_lost;
	w->n_flagged = m->n_flagged;
	if (lost < 0 || flagged < 0)
		return err_set(err, -EINVAL,
			       "the store %s was written with other counters: name a new directory",
			       s->dir);
	if ((size_t)lost == old->n_lost && (size_t)flagged == old->n_flagged)
		return 0;
	struct header h, new = s->header;
	if ((size_t)lost > old->n_lost) {
		new.meta.lost_names = m->lost_names;
		new.meta.n_lost = m->n_lost;
	}
	if ((size_t)flagged > old->n_flagged) {
		new.meta.flagged_names = m->flagged_names;
		new.meta.n_flagged = m->n_flagged;
	}
	int rc = header_write(s->dir_fd, s->dir, &new, err);
	if (!rc)
		rc = header_read(&h, s->dir_fd, s->dir, err);
	if (rc)
		return rc;
	header_fini(&s->header);
	s->header = h;
	return 0;
}

/* ---- what nobody names ---- */

static bool is_named(const struct store *s, const char *name)
{
	char path[FILE_NAME_SIZE];
	const size_t dir = strlen("seg/");
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct manifest_segment *m = &s->segments[i].m;
		file_name(path, (struct place){ KIND_BLOCKS, m->serial, m->level });
		if (!strcmp(path + dir, name))
			return true;
		file_name(path, (struct place){ KIND_SYMBOLS, m->serial, m->level });
		if (m->state != SEGMENT_SEALED && !strcmp(path + dir, name))
			return true;
	}
	return false;
}

/*
 * Files that were made before the manifest named them, or that it names no longer: from a crash in
 * between.
 */
static void sweep(struct store *s)
{
	DIR *d = dir_open(s->dir_fd, "seg");
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.' && !is_named(s, e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

bool store_renew(struct store_writer *w)
{
	struct output *o = &w->out[0];
	struct segment *g = writer_segment(w, 0);
	if (w->rows.n || o->fresh || o->broken || !g || !g->n_refs)
		return false;
	bool large = o->file.end >= w->opt.symbols_bytes ||
		     (w->opt.symbols_memory && dicts_bytes(&o->d) >= w->opt.symbols_memory);
	if (!large && !writer_ends_file(w, 0, g->refs[g->n_refs - 1].b.t1_ns))
		return false;
	struct dicts fresh;
	if (dicts_init(&fresh, true)) {
		dicts_fini(&fresh);
		return false;
	}
	store_renew_end(w);
	w->before = o->d;
	w->has_before = true;
	o->d = fresh;
	o->fresh = true;
	g->live = NULL; /* what it has is read from its file */
	return true;
}

void store_renew_end(struct store_writer *w)
{
	if (w->has_before)
		dicts_fini(&w->before);
	w->has_before = false;
}

int store_carry_frame(struct store_writer *w, uint32_t old, uint32_t *ret_id)
{
	if (!w->has_before || old >= w->before.n_frames)
		return -EINVAL;
	struct store_frame f = w->before.frames[old];
	uint32_t *const texts[] = { &f.function, &f.module, &f.build_id, &f.file };
	int rc = 0;
	for (size_t i = 0; !rc && i < 4; i++) {
		size_t len;
		const char *text = strings_get(&w->before.strings, *texts[i], &len);
		rc = store_add_string(w, text, len, texts[i]);
	}
	return rc ? rc : store_add_frame(w, &f, ret_id);
}

int store_carry_stack(struct store_writer *w, uint32_t old, uint32_t *ret_id)
{
	const struct stack_node *nodes = w->before.stacks;
	size_t depth = 0;
	if (!w->has_before || old >= w->before.n_stacks)
		return -EINVAL;
	for (uint32_t at = old; at; at = nodes[at].parent)
		depth++;
	uint32_t *frames = malloc(depth * sizeof(*frames)), id = 0;
	if (!frames)
		return -ENOMEM;
	size_t n = depth;
	for (uint32_t at = old; at; at = nodes[at].parent)
		frames[--n] = nodes[at].frame;
	int rc = 0;
	for (uint32_t frame; !rc && n < depth; n++) {
		rc = store_carry_frame(w, frames[n], &frame);
		rc = rc ? rc : store_add_stack(w, id, frame, &id);
	}
	free(frames);
	if (!rc)
		*ret_id = id;
	return rc;
}

static int open_writer(struct store_writer *w, const char *dir, const struct store_meta *meta,
		       struct err *err)
{
	struct store *s = &w->s;
	bool exists = false, clean = false;
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(err, -errno, "cannot make the directory %s", dir);
	int rc = store_open_dir(s, dir, err);
	if (!rc)
		rc = look_at_dir(s, &exists, err);
	if (!rc)
		rc = writer_take_lock(w, err);
	/* Another writer may have made it a store before we had the lock. */
	if (!rc && !exists)
		rc = look_at_dir(s, &exists, err);
	if (!rc && !exists)
		rc = create(s, meta, err);
	if (!rc)
		rc = store_load(s, true, err);
	if (!rc && s->lost_windows)
		rc = err_set(err, -EBADMSG, "%s; the store is not appended to", s->damage);
	if (!rc)
		rc = agree_on_counters(w, meta, err);
	w->cap = retain_cap(w);
	if (!rc)
		rc = writer_open_outputs(w, &clean, err);
	if (!rc)
		rc = compact_load(w, err);
	if (!rc && (wide_load(w) || setpool_init(&w->sets)))
		rc = err_sys(err, -ENOMEM, "cannot open %s", dir);
	/* That what is there may be torn from now on is said before it can be. */
	if (!rc && clean)
		rc = writer_save_manifest(w, err);
	if (!rc) {
		sweep(s);
		reserve_keep(s->dir_fd);
		tracks_open(w);
		commit_init(w);
		store_renew(w);
		store_renew_end(w);
	}
	return rc;
}

int store_writer_open_with(struct store_writer **ret, const char *dir,
			   const struct store_meta *meta, const struct store_options *o,
			   struct err *err)
{
	struct store_writer *w = calloc(1, sizeof(*w));
	if (!w)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(&w->s);
	w->opt = *o;
	/* A block is not to outlive those that it is part of. */
	for (int k = 1; k < N_LEVELS; k++)
		if (w->opt.keep_ns[k] &&
		    (!w->opt.keep_ns[k - 1] || w->opt.keep_ns[k] < w->opt.keep_ns[k - 1]))
			w->opt.keep_ns[k] = w->opt.keep_ns[k - 1];
	w->lock_fd = -1;
	w->tracks.file.fd = -1;
	for (int k = 0; k < N_SEGMENT_LEVELS; k++)
		w->out[k].file.fd = -1;
	int rc = open_writer(w, dir, meta, err);
	if (rc) {
		w->failed = true;
		store_writer_close(w);
	} else {
		*ret = w;
	}
	return rc;
}

int store_writer_open(struct store_writer **ret, const char *dir, const struct store_meta *meta,
		      struct err *err)
{
	struct store_options o;
	store_options_default(&o);
	return store_writer_open_with(ret, dir, meta, &o, err);
}

/* A clean end: what is there now is whole, and a reader may say so when it is not. */
static void end_cleanly(struct store_writer *w)
{
	struct store *s = &w->s;
	for (size_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].m.state == SEGMENT_OPEN)
			s->segments[i].m.end = s->segments[i].file.end;
	if ((s->n_segments || w->n_gone) && !writer_save_manifest(w, NULL))
		retain_unlink(w);
}

void store_writer_close(struct store_writer *w)
{
	if (!w)
		return;
	if (!w->failed)
		end_cleanly(w);
	compact_abandon(w);
	store_renew_end(w);
	for (int k = 0; k < N_SEGMENT_LEVELS; k++) {
		file_close(&w->out[k].file);
		dicts_fini(&w->out[k].d);
	}
	for (int k = 0; k < N_LEVELS; k++)
		free(w->pending[k].v);
	free(w->unposted.v);
	free(w->up_ns);
	free(w->gone);
	postings_fini(w);
	tracks_fini(w);
	wide_fini(w);
	rows_fini(&w->rows);
	idhash_fini(&w->row_hash);
	setpool_fini(&w->sets);
	store_fini(&w->s);
	if (w->lock_fd >= 0)
		close(w->lock_fd);
	free(w);
}

const struct store_writer_state *store_writer_state(const struct store_writer *w)
{
	return &w->state;
}

/* ---- adding ---- */

int store_add_string(struct store_writer *w, const char *s, size_t len, uint32_t *ret_id)
{
	return strings_add(&w->out[0].d.strings, s, len, ret_id);
}

int store_add_frame(struct store_writer *w, const struct store_frame *f, uint32_t *ret_id)
{
	return dicts_add_frame(&w->out[0].d, f, ret_id);
}

const char *store_frame_function(const struct store_writer *w, uint32_t frame,
				 struct store_frame *ret)
{
	const struct dicts *d = &w->out[0].d;
	size_t len;
	if (frame >= d->n_frames)
		return NULL;
	*ret = d->frames[frame];
	return strings_get(&d->strings, ret->function, &len);
}

int store_add_stack(struct store_writer *w, uint32_t parent, uint32_t frame, uint32_t *ret_id)
{
	return dicts_add_stack(&w->out[0].d, parent, frame, ret_id);
}

int store_add_set(struct store_writer *w, const struct label *labels, size_t n, uint32_t *ret_id)
{
	if (n > SET_LABELS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (labels[i].type != LABEL_STRING && labels[i].type != LABEL_INT)
			return -EINVAL;
		if (labels[i].key_len > STRING_MAX ||
		    (labels[i].type == LABEL_STRING && labels[i].str_len > STRING_MAX))
			return -E2BIG;
	}
	return setpool_add(&w->sets, labels, n, ret_id);
}

size_t store_added_set(const struct store_writer *w, uint32_t id, const struct label **ret)
{
	return setpool_get(&w->sets, id, ret);
}

int store_add_event(struct store_writer *w, const struct store_event *e, uint32_t *ret_id)
{
	return dicts_add_event(&w->out[0].d, e, ret_id);
}

static bool same_row(const void *ctx, uint32_t id, const void *key)
{
	const struct store_row *a = &((const struct store_writer *)ctx)->rows.v[id], *b = key;
	return a->set == b->set && a->stack == b->stack && a->event == b->event;
}

static uint32_t find_row(const struct store_writer *w, uint32_t hash, const struct store_row *row)
{
	return idhash_find(&w->row_hash, hash, same_row, w, row);
}

static uint32_t row_hash(struct store_writer *w, const struct store_row *row)
{
	const uint32_t key[3] = { row->set, row->stack, row->event };
	return idhash_hash(&w->row_hash, key, sizeof(key));
}

void writer_put_row_hash(struct store_writer *w, uint32_t i)
{
	idhash_put(&w->row_hash, row_hash(w, &w->rows.v[i]), i);
}

int store_add_row(struct store_writer *w, uint32_t set, uint32_t stack, uint32_t event,
		  uint64_t samples, uint64_t value)
{
	const struct dicts *d = &w->out[0].d;
	struct store_row row = { set, stack, event, samples, value };
	if (!samples || set >= w->sets.n || stack >= d->n_stacks || event >= d->n_events)
		return -EINVAL;
	uint32_t hash = row_hash(w, &row), id = find_row(w, hash, &row);
	if (id != IDHASH_NONE) {
		w->rows.v[id].samples += samples;
		w->rows.v[id].value += value;
		return 0;
	}
	if (w->rows.n >= ROWS_MAX)
		return -E2BIG;
	int rc = idhash_reserve(&w->row_hash);
	if (!rc)
		rc = rows_add(&w->rows, &row);
	if (!rc)
		idhash_put(&w->row_hash, hash, (uint32_t)w->rows.n - 1);
	return rc;
}

int store_move_row(struct store_writer *w, uint32_t set, uint32_t event, uint32_t from, uint32_t to,
		   uint64_t samples, uint64_t value)
{
	const struct store_row old = { .set = set, .stack = from, .event = event };
	const struct store_row new = { .set = set, .stack = to, .event = event };
	uint32_t id = find_row(w, row_hash(w, &old), &old),
		 other = find_row(w, row_hash(w, &new), &new);
	int rc = 0;
	if (id == IDHASH_NONE)
		return -ENOENT;
	const struct store_row *row = &w->rows.v[id];
	if (samples > row->samples || value > row->value ||
	    (samples == row->samples && value < row->value))
		return -EINVAL;
	if (other == IDHASH_NONE)
		rc = store_add_row(w, set, to, event, samples, value);
	else
		w->rows.v[other] =
			(struct store_row){ set, to, event, w->rows.v[other].samples + samples,
					    w->rows.v[other].value + value };
	if (rc)
		return rc;
	w->rows.v[id].samples -= samples; /* 0: the row is dropped when the window is written */
	w->rows.v[id].value -= value;
	return 0;
}

bool store_writer_is_there(const struct store_writer *w)
{
	struct stat ours, named, header;
	return !fstat(w->s.dir_fd, &ours) && !stat(w->s.dir, &named) &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino &&
	       !fstatat(w->s.dir_fd, HEADER_NAME, &header, AT_SYMLINK_NOFOLLOW);
}
