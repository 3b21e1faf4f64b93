/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a store in which bytes of some files have changed: verified, opened, asked, repaired.
 * It is built without checksums and without compression, so that what a byte means is reached.
 *
 * The first byte of an input says what is asked, and whether the store is repaired. Then come
 * changes: which file (1 byte), offset (2), how many bytes (1, its lower three bits; its highest
 * bit cuts the file there), the bytes.
 *
 * Covers: store/file/*.c store/block/*.c store/dict/*.c store/read/*.c store/check/*.c
 */
#include "fuzz/input.h"
#include "unit/store_model.h"

#include "query/query.h"
#include "query/series.h"
#include "store/damage.h"

#define FILES_MAX 256
#define CHANGES_MAX 16
#define SECOND 1000000000ll

static struct {
	char path[160];
	uint8_t *data;
	size_t len;
	bool changed;
} files[FILES_MAX];
static size_t n_files;
static char dir[64], other[64]; /* other: never changed */

/* ---- the store that is changed ---- */

/* Two days: windows, parents of several levels, postings, three generations, wide keys. */
static void write_store(const char *to)
{
	struct store_options o = model_options;
	struct store_writer *w = NULL;
	struct model m = { .random = 3 };
	struct err err = { 0 };
	uint64_t lost[2] = { 1, 2 }, flagged[1] = { 3 };
	struct store_cpu_totals cpu = { 1, 103, 100, lost, flagged };
	struct store_totals t = { &cpu, 1, 4, 5, 6 };
	o.symbols_bytes = 1500;
	o.grace_ns = SECOND;
	if (store_writer_open_with(&w, to, &model_meta, &o, &err))
		abort();
	for (int64_t i = 0; i < 40; i++) {
		struct model_window win = { 0 };
		int64_t t0 = 1700000000 + 10 * i + (i / 10) * 30000;
		if (i % 16 == 15) {
			store_renew(w);
			store_renew_end(w);
		}
		model_fill(&m, w, &win, 6);
		model_window_fini(&win);
		if (store_commit_window(w, t0 * SECOND, (t0 + 10) * SECOND,
					(t0 - 1600000000) * SECOND, &t, &err))
			abort();
	}
	store_writer_close(w);
}

static int keep_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || !st->st_size || strstr(path, "/reserve") || n_files == FILES_MAX)
		return 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = (size_t)st->st_size;
	files[n_files].data = malloc(len);
	files[n_files].len = len;
	snprintf(files[n_files].path, sizeof(files[0].path), "%s", path);
	if (fd < 0 || read(fd, files[n_files].data, len) != (ssize_t)len)
		abort();
	close(fd);
	n_files++;
	return 0;
}

static void put_file(const char *path, const uint8_t *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	close(fd);
}

static void restore(bool all)
{
	char at[160];
	for (size_t i = 0; i < n_files; i++) {
		if (!all && !files[i].changed)
			continue;
		snprintf(at, sizeof(at), "%s", files[i].path);
		for (char *p = strchr(at + strlen(dir) + 1, '/'); all && p;
		     p = strchr(p + 1, '/')) {
			*p = '\0';
			mkdir(at, 0700);
			*p = '/';
		}
		put_file(files[i].path, files[i].data, files[i].len);
		files[i].changed = false;
	}
}

static void remove_store(void)
{
	remove_tree(dir);
	remove_tree(other);
}

static void begin(void)
{
	write_store(temp_dir(dir));
	write_store(temp_dir(other));
	nftw(dir, keep_file, 8, FTW_PHYS);
	atexit(remove_store);
}

/* ---- questions ---- */

static void no_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx, (void)f;
}

static void ask_query(struct store *s, const struct query_spec *spec)
{
	struct query *q;
	struct query_table *t;
	struct err err;
	const struct query_node *nodes;
	size_t n;
	if (query_open(&q, s, spec, &err))
		return;
	if (spec->labels != QUERY_KEYS && !query_tree(q, &nodes, &n, &err) &&
	    !query_table(q, NULL, 0, &t, &err))
		query_table_free(t);
	if (spec->labels == QUERY_KEYS && !query_table(q, spec->keys, spec->n_keys, &t, &err))
		query_table_free(t);
	if (spec->labels == QUERY_NO_LABELS && query_top_serves(q, "tenant") &&
	    !query_top(q, "tenant", &t, &err))
		query_table_free(t);
	query_close(q);
}

static void ask_series(struct store *s)
{
	static const char *const keys[] = { "tenant" };
	const struct query_series_spec steps = { .range = { .from_ns = INT64_MIN,
							    .to_ns = INT64_MAX },
						 .keys = keys,
						 .n_keys = 1,
						 .step_ns = 3600 * SECOND,
						 .max_steps = 100,
						 .top = 3 };
	struct query_series *series;
	struct err err;
	if (!query_series(&series, s, &steps, &err))
		query_series_free(series);
	for (size_t i = 0; i < store_n_windows(s) && i < 5; i++)
		store_window(s, i, &err);
}

#define ASK_PART 8   /* of the range */
#define ASK_UNION 16 /* with the other store */
#define ASK_REPAIR 0x80

static void ask(struct store *s, uint8_t what)
{
	static const char *const keys[] = { "tenant", "query_id" };
	static const struct query_spec specs[] = {
		{ .labels = QUERY_NO_LABELS },
		{ .labels = QUERY_KEYS, .keys = keys, .n_keys = 1, .idle = true },
		{ .labels = QUERY_KEYS, .keys = keys, .n_keys = 2, .where = "{comm=\"sh\"}" },
		{ .labels = QUERY_ALL_LABELS, .where = "{query_id=\"0\"}" },
		{ .labels = QUERY_KEYS_STACKS, .keys = keys, .n_keys = 1 },
		{ .labels = QUERY_NO_LABELS, .metric = QUERY_WALL },
	};
	size_t i = what & 7;
	if (i >= sizeof(specs) / sizeof(specs[0])) {
		ask_series(s);
		return;
	}
	struct query_spec spec = specs[i];
	spec.from_ns = what & ASK_PART ? 1700000015 * SECOND : INT64_MIN;
	spec.to_ns = what & ASK_PART ? 1700030055 * SECOND : INT64_MAX;
	ask_query(s, &spec);
}

/* ---- one input ---- */

/* The next change; 0: there is none. */
static size_t change(const uint8_t *p, size_t size)
{
	if (size < 4)
		return 0;
	size_t i = p[0] % n_files, len = (p[3] & 7) + 1u, cut = p[3] & 0x80;
	size_t at = (p[1] | (size_t)p[2] << 8) % files[i].len;
	static uint8_t now[1 << 20];
	struct stat st;
	int fd = open(files[i].path, O_RDWR | O_CLOEXEC);
	len = len < size - 4 ? len : size - 4;
	if (fd < 0 || fstat(fd, &st) || st.st_size > (off_t)sizeof(now))
		abort();
	if (cut ? ftruncate(fd, (off_t)at) : pwrite(fd, p + 4, len, (off_t)at) < 0)
		abort();
	close(fd);
	files[i].changed = true;
	return cut ? 4 : 4 + len;
}

static void open_and_ask(uint8_t what)
{
	const char *const dirs[] = { dir, other };
	struct store *s;
	struct err err;
	if (what & ASK_UNION ? store_open_all(&s, dirs, 2, &err) : store_open(&s, dir, &err))
		return;
	ask(s, what);
	store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	if (!size)
		return 0;
	if (!n_files)
		begin();
	size_t at = 1, n;
	for (int i = 0; i < CHANGES_MAX && (n = change(data + at, size - at)); i++)
		at += n;
	bool repair = data[0] & ASK_REPAIR;
	open_and_ask(data[0]);
	if (repair) {
		store_verify(dir, no_finding, NULL, &err);
		store_repair(dir, no_finding, NULL, &err);
		open_and_ask(data[0]);
		remove_tree(dir);
		mkdir(dir, 0700);
	}
	restore(repair);
	return 0;
}
