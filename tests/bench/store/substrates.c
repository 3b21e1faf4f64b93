/* SPDX-License-Identifier: Apache-2.0 */
/* What else one might keep the samples in: pprof and folded stacks, SQLite, LMDB. */
#include "bench_store.h"

#include "export/export.h"
#include "query/query.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct blob {
	uint8_t *data;
	size_t len;
};

static size_t gzipped(const char *data, size_t len)
{
	z_stream z = { 0 };
	size_t cap = compressBound(len) + 32, n;
	uint8_t *out = need(malloc(cap));
	if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		check(-ENOMEM, "zlib");
	z.next_in = (Bytef *)data;
	z.avail_in = (uInt)len;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	deflate(&z, Z_FINISH);
	n = z.total_out;
	deflateEnd(&z);
	free(out);
	return n;
}

/* One window as a file of another format; the bytes it takes. */
static size_t window_as(struct store *s, int64_t from, bool pprof, double *ms, uint64_t *rows)
{
	struct query_spec spec = { .from_ns = from, .to_ns = from + WINDOW_NS };
	struct export_source src = { .store = s };
	char *data = NULL;
	size_t len = 0, n;
	check(query_open(&src.query, s, &spec, &err), "query");
	FILE *f = need(open_memstream(&data, &len));
	double at = cpu();
	check((pprof ? export_pprof : export_folded)(&src, EXPORT_BY_EVENT, f, &err), "export");
	fclose(f);
	len = pprof ? len : gzipped(data, len);
	*ms += 1e3 * (cpu() - at);
	free(data);
	query_rows(src.query, &n);
	*rows += n;
	query_close(src.query);
	return len;
}

/*
 * Blobs of the sizes that the store's windows have, of bytes that do not compress: what a block is.
 */
static struct blob *make_blobs(uint64_t n, size_t bytes)
{
	struct blob *v = need(calloc(n, sizeof(*v)));
	for (uint64_t i = 0; i < n; i++) {
		v[i].len = bytes * (75 + draw(50)) / 100 + 1;
		v[i].data = need(malloc(v[i].len + 8));
		for (size_t k = 0; k < v[i].len; k += 8) {
			uint64_t x = draw64();
			memcpy(v[i].data + k, &x, 8);
		}
	}
	return v;
}

struct substrate {
	double s;
	uint64_t written, size, payload;
};

static void tell(const char *name, const char *who, double v)
{
	char id[64];
	snprintf(id, sizeof(id), "W/%s", name);
	figure(id, who, &v, 1, 1);
}

static void print_substrate(const char *name, const struct substrate *r, uint64_t n, uint64_t live)
{
	printf("  %-28s %7.2f MB for %" PRIu64 " live of %" PRIu64
	       " blobs, written %5.2fx the payload, %6.2f ms each\n",
	       name, (double)r->size / 1e6, live, n, (double)r->written / (double)r->payload,
	       1e3 * r->s / (double)n);
}

static void sql(sqlite3 *db, const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK) {
		fprintf(stderr, "bench_store: %s: %s\n", text, sqlite3_errmsg(db));
		exit(1);
	}
}

static struct substrate in_sqlite(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	sqlite3 *db;
	sqlite3_stmt *put, *cut;
	char path[4096];
	snprintf(path, sizeof(path), "%s/sqlite", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	snprintf(path, sizeof(path), "%s/sqlite/db", dir);
	uint64_t before = self_number("io", "wchar:");
	double at = wall();
	if (sqlite3_open(path, &db) != SQLITE_OK)
		check(-EIO, path);
	sql(db, "PRAGMA journal_mode=WAL");
	sql(db, "PRAGMA synchronous=FULL");
	sql(db, "CREATE TABLE blocks (t INTEGER PRIMARY KEY, b BLOB)");
	sqlite3_prepare_v2(db, "INSERT INTO blocks VALUES (?, ?)", -1, &put, NULL);
	sqlite3_prepare_v2(db, "DELETE FROM blocks WHERE t < ?", -1, &cut, NULL);
	for (uint64_t i = 0; i < n; i++) {
		sql(db, "BEGIN");
		sqlite3_bind_int64(put, 1, (sqlite3_int64)i);
		sqlite3_bind_blob(put, 2, v[i].data, (int)v[i].len, SQLITE_STATIC);
		sqlite3_bind_int64(cut, 1, (sqlite3_int64)(i > live ? i - live : 0));
		if (sqlite3_step(put) != SQLITE_DONE || sqlite3_step(cut) != SQLITE_DONE)
			check(-EIO, "sqlite");
		sqlite3_reset(put);
		sqlite3_reset(cut);
		sql(db, "COMMIT");
		r.payload += v[i].len;
	}
	sqlite3_finalize(put);
	sqlite3_finalize(cut);
	r.s = wall() - at;
	snprintf(path, sizeof(path), "%s/sqlite", dir);
	measure(path); /* with its log, as it is while in use */
	r.size = sizes.all;
	sqlite3_close(db);
	r.written = self_number("io", "wchar:") - before;
	return r;
}

static void lmdb(int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_store: lmdb: %s\n", mdb_strerror(rc));
	exit(1);
}

static struct substrate in_lmdb(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	MDB_env *env;
	MDB_dbi dbi = 0;
	char path[4096];
	snprintf(path, sizeof(path), "%s/lmdb", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	uint64_t before = self_number("io", "wchar:");
	double at = wall();
	lmdb(mdb_env_create(&env));
	lmdb(mdb_env_set_mapsize(env, (size_t)8 << 30));
	lmdb(mdb_env_open(env, path, 0, 0600));
	for (uint64_t i = 0; i < n; i++) {
		MDB_txn *txn;
		uint64_t key = i, old = i - live;
		MDB_val k = { sizeof(key), &key }, d = { v[i].len, v[i].data },
			o = { sizeof(old), &old };
		lmdb(mdb_txn_begin(env, NULL, 0, &txn));
		if (!i)
			lmdb(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi));
		lmdb(mdb_put(txn, dbi, &k, &d, MDB_APPEND));
		if (i >= live)
			lmdb(mdb_del(txn, dbi, &o, NULL));
		lmdb(mdb_txn_commit(txn));
		r.payload += v[i].len;
	}
	r.s = wall() - at;
	measure(path);
	r.size = sizes.all;
	mdb_env_close(env);
	r.written = self_number("io", "wchar:") - before;
	return r;
}

/* What the store does with a block: append and sync; here without the block's making. */
static struct substrate in_files(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	char path[4096];
	uint64_t before = self_number("io", "wchar:"), per = live / 8 ? live / 8 : 1;
	double at = wall();
	int fd = -1;
	snprintf(path, sizeof(path), "%s/files", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	for (uint64_t i = 0; i < n; i++) {
		if (i % per == 0) {
			if (fd >= 0)
				close(fd);
			snprintf(path, sizeof(path), "%s/files/%" PRIu64, dir, i / per);
			fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
			snprintf(path, sizeof(path), "%s/files/%" PRIu64, dir,
				 i / per - live / per - 1);
			if (i / per > live / per)
				unlink(path);
		}
		if (write(fd, v[i].data, v[i].len) != (ssize_t)v[i].len || fdatasync(fd))
			check(-EIO, "append");
		r.payload += v[i].len;
	}
	close(fd);
	r.s = wall() - at;
	snprintf(path, sizeof(path), "%s/files", dir);
	measure(path);
	r.size = sizes.all;
	r.written = self_number("io", "wchar:") - before;
	return r;
}

void compare(const char *dir, const char *scratch, uint64_t windows)
{
	struct store *s;
	uint64_t n_pprof = 0, n_folded = 0, n_blobs = 400, live = 100, rows = 0;
	double pprof_ms = 0, folded_ms = 0;
	measure(dir);
	uint64_t level0 = sizes.level[0];
	check(store_open(&s, dir, &err), "open");
	struct query_spec all = { .from_ns = INT64_MIN,
				  .to_ns = INT64_MAX,
				  .labels = QUERY_NO_LABELS };
	struct query *q;
	check(query_open(&q, s, &all, &err), "query");
	uint64_t have = query_info(q)->windows;
	query_close(q);
	windows = windows < have ? windows : have;
	for (uint64_t i = 0; i < windows; i++) {
		n_pprof += window_as(s, T0 + (int64_t)i * WINDOW_NS, true, &pprof_ms, &rows);
		n_folded += window_as(s, T0 + (int64_t)i * WINDOW_NS, false, &folded_ms, &rows);
	}
	store_close(s);
	double samples = (double)windows * SAMPLES;
	printf("  rows per window    %" PRIu64 "\n", rows / (2 * windows));
	/* Labels but comm are not in the folded stacks. */
	tell("bytes", "pprof.gz", (double)n_pprof / samples);
	tell("bytes", "folded.gz", (double)n_folded / samples);
	tell("window", "pprof.gz", pprof_ms / (double)windows);
	tell("window", "folded.gz", folded_ms / (double)windows);
	struct blob *v = make_blobs(n_blobs, (size_t)(level0 / (have ? have : 1)));
	struct substrate r = in_files(scratch, v, n_blobs, live);
	printf("  blobs of the size of our blocks, %.1f KB, each synced, on %s:\n",
	       (double)r.payload / (double)n_blobs / 1e3, scratch);
	print_substrate("append, unlink (as we do)", &r, n_blobs, live);
	r = in_sqlite(scratch, v, n_blobs, live);
	print_substrate("SQLite, WAL, FULL", &r, n_blobs, live);
	tell("written", "SQLite", (double)r.written / (double)r.payload);
	r = in_lmdb(scratch, v, n_blobs, live);
	print_substrate("LMDB", &r, n_blobs, live);
	tell("written", "LMDB", (double)r.written / (double)r.payload);
	for (uint64_t i = 0; i < n_blobs; i++)
		free(v[i].data);
	free(v);
}
