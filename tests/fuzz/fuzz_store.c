/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: one of four stores in which bytes of some files have changed: opened, asked, verified,
 * repaired. They are built without checksums, and small pieces are not compressed, so that what a
 * byte means is reached.
 *
 * An input begins with struct head: which store, and the question (store_questions.h). Then come
 * changes: which file (1 byte), offset (2), what to do there (1, see CUT), and the bytes for it.
 *
 * Covers: store/file/*.c store/block/*.c store/dict/*.c store/read/*.c store/check/*.c
 */
#include "fuzz/store_questions.h"

#include "store/damage.h"
#include "store/file/tree.h"
#include "store/writer.h"

#define FILES_MAX 256
#define CHANGES_MAX 16
#define REPAIR 'R' /* rare, for it takes ten times as long */

/* Of a change: cut the file, remove it, put a directory in its place, append; else overwrite. */
enum { CUT = 0x80, GONE = 0x40, DIRECTORY = 0x20, APPEND = 0x10, LENGTH = 7 };

struct head {
	uint8_t store, how; /* how: REPAIR, or an odd number: with another store */
	struct question question;
};

struct file {
	char path[160];
	uint8_t *data;
	size_t len;
	bool changed;
};

static struct prepared {
	char dir[64];
	struct file files[FILES_MAX];
	size_t n;
} stores[4];
#define N_STORES (sizeof(stores) / sizeof(stores[0]))

static struct prepared *at; /* that of the input */
static char other[64];	    /* never changed */

/* ---- the stores that are changed ---- */

static void commit(struct store_writer *w, struct model *m, int64_t t0, size_t rows)
{
	uint64_t lost[2] = { 1, 2 }, flagged[1] = { 3 };
	struct store_cpu_totals cpu = { 1, 103, 100, lost, flagged };
	struct store_totals t = { &cpu, 1, 4, 5, 6 };
	struct model_window win = { 0 };
	struct err err = { 0 };
	model_fill(m, w, &win, rows);
	model_window_fini(&win);
	if (store_commit_window(w, t0 * SECOND, (t0 + 10) * SECOND, (t0 - 1600000000) * SECOND, &t,
				&err))
		abort();
}

/* Two days: windows, parents of several levels, postings, three generations, wide keys. */
static void write_days(const char *to, const struct store_options *o)
{
	struct store_writer *w = NULL;
	struct model m = { .random = 3 };
	struct err err = { 0 };
	if (store_writer_open_with(&w, to, &model_meta, o, &err))
		abort();
	for (int64_t i = 0; i < 40; i++) {
		if (i % 16 == 15) {
			store_renew(w);
			store_renew_end(w);
		}
		commit(w, &m, 1700000000 + 10 * i + (i / 10) * 30000, 6);
	}
	store_writer_close(w);
}

#define TRACKED_ROWS 40
#define TRACKED_SAMPLES 5 /* of a row */

/* A window whose samples have their instants; those of the last event have a length, too. */
static void commit_tracked(struct store_writer *w, struct model *m, int64_t t0)
{
	static struct store_row rows[TRACKED_ROWS];
	static struct store_instant v[TRACKED_ROWS * TRACKED_SAMPLES];
	const struct store_instants all = { rows, TRACKED_ROWS, v, TRACKED_ROWS * TRACKED_SAMPLES,
					    0 };
	for (uint32_t i = 0; i < TRACKED_ROWS; i++) {
		struct model_row r = { model_draw_set(m), model_draw_stack(m), model_random(m, 3),
				       TRACKED_SAMPLES, 0 };
		r.value = r.samples * model_events[r.event].period;
		rows[i] = (struct store_row){ .event = r.event, .samples = 1 };
		if (model_put_row(w, &r) || model_put_set(w, r.labels, &rows[i].set) ||
		    model_put_stack(w, r.stack, &rows[i].stack))
			abort();
		for (uint32_t k = 0; k < TRACKED_SAMPLES; k++)
			v[i * TRACKED_SAMPLES + k] = (struct store_instant){
				t0 * SECOND + model_random(m, 10000) * 1000000ll, i, i % 4,
				r.event == 2 ? 1000u * (1 + model_random(m, 9000)) : 0
			};
		free(r.labels);
		free(r.stack);
	}
	store_set_instants(w, &all);
	commit(w, m, t0, 3);
}

static void write_tracks(const char *to)
{
	struct store_writer *w = NULL;
	struct model m = { .random = 5 };
	struct store_options o = model_options;
	struct err err = { 0 };
	o.tracks_ns = INT64_MAX;
	o.tracks_bytes = 1 << 16;
	if (store_writer_open_with(&w, to, &model_meta, &o, &err))
		abort();
	for (int64_t i = 0; i < 5; i++)
		commit_tracked(w, &m, 1700000000 + 10 * i);
	commit(w, &m, 1700000050, 6);
	store_writer_close(w);
}

static void write_store(size_t i, const char *to)
{
	if (i == 3) {
		write_tracks(to);
		return;
	}
	struct store_options o = model_options;
	o.symbols_bytes = 1500;
	o.grace_ns = SECOND;
	if (i == 1) /* the oldest windows are gone, their parents are not */
		for (int level = 0; level < 4; level++)
			o.keep_ns[level] = (level ? 70000 : 40000) * SECOND;
	if (i < 2) {
		write_days(to, &o);
		return;
	}
	/* Large windows alone: pieces that are compressed, more rows than are sorted at once. */
	struct store_writer *w = NULL;
	struct model m = { .random = 4 };
	struct err err = { 0 };
	o = model_options;
	o.windows_only = true;
	if (store_writer_open_with(&w, to, &model_meta, &o, &err))
		abort();
	for (int64_t k = 0; k < 3; k++)
		commit(w, &m, 1700000000 + 10 * k, k ? 40 : 600);
	store_writer_close(w);
}

static int keep_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || !st->st_size || strstr(path, "/reserve") || at->n == FILES_MAX)
		return 0;
	struct file *f = &at->files[at->n++];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	f->len = (size_t)st->st_size;
	f->data = malloc(f->len);
	snprintf(f->path, sizeof(f->path), "%s", path);
	if (fd < 0 || read(fd, f->data, f->len) != (ssize_t)f->len)
		abort();
	close(fd);
	return 0;
}

static void put_file(const char *path, const uint8_t *data, size_t len)
{
	rmdir(path); /* DIRECTORY */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	close(fd);
}

static void restore(bool all)
{
	char path[160];
	for (size_t i = 0; i < at->n; i++) {
		struct file *f = &at->files[i];
		if (!all && !f->changed)
			continue;
		snprintf(path, sizeof(path), "%s", f->path);
		for (char *p = strchr(path + strlen(at->dir) + 1, '/'); all && p;
		     p = strchr(p + 1, '/')) {
			*p = '\0';
			mkdir(path, 0700);
			*p = '/';
		}
		put_file(f->path, f->data, f->len);
		f->changed = false;
	}
}

static void remove_stores(void)
{
	for (size_t i = 0; i < N_STORES; i++)
		remove_tree(stores[i].dir);
	remove_tree(other);
}

static void begin(void)
{
	for (size_t i = 0; i < N_STORES; i++) {
		at = &stores[i];
		write_store(i, temp_dir(at->dir));
		nftw(at->dir, keep_file, 8, FTW_PHYS);
	}
	write_store(0, temp_dir(other));
	atexit(remove_stores);
}

/* ---- one input ---- */

static void no_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx, (void)f;
}

static void overwrite(const struct file *f, uint8_t how, size_t to, const uint8_t *bytes,
		      size_t len)
{
	struct stat st;
	int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return; /* a directory by now */
	if (fstat(fd, &st) ||
	    (how & CUT ? ftruncate(fd, (off_t)to)
		       : pwrite(fd, bytes, len, how & APPEND ? st.st_size : (off_t)to)) < 0)
		abort();
	close(fd);
}

/* The next change; false: there is none. */
static bool change(struct input *in)
{
	uint8_t head[4], bytes[LENGTH + 1];
	if (in->left < sizeof(head))
		return false;
	take_bytes(in, head, sizeof(head));
	struct file *f = &at->files[head[0] % at->n];
	const size_t to = (head[1] | (size_t)head[2] << 8) % f->len;
	size_t len = head[3] & CUT ? 0 : (head[3] & LENGTH) + 1u;
	len = len < in->left ? len : in->left;
	take_bytes(in, bytes, len);
	if (head[3] & (GONE | DIRECTORY))
		unlink(f->path);
	if (head[3] & DIRECTORY)
		mkdir(f->path, 0700);
	if (!(head[3] & (GONE | DIRECTORY)))
		overwrite(f, head[3], to, bytes, len);
	f->changed = true;
	return true;
}

static void open_and_ask(const struct head *h)
{
	const char *const dirs[] = { at->dir, other };
	struct store *s;
	struct err err;
	if (store_open_all(&s, dirs, 1 + (h->how & 1), &err))
		return;
	question_ask(s, &h->question);
	store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct head h;
	struct err err;
	if (!at)
		begin();
	take_bytes(&in, &h, sizeof(h));
	at = &stores[h.store % N_STORES];
	for (int i = 0; i < CHANGES_MAX && change(&in); i++)
		;
	open_and_ask(&h);
	if (h.how == REPAIR) {
		store_verify(at->dir, no_finding, NULL, &err);
		store_repair(at->dir, no_finding, NULL, &err);
		open_and_ask(&h);
		if (tree_remove(at->dir)) /* a request failed */
			remove_tree(at->dir);
		mkdir(at->dir, 0700);
	}
	restore(h.how == REPAIR);
	return 0;
}
