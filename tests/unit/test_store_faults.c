/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss and failing calls. This program defines the system's own write calls, so that the store's go through it: they are
 * recorded, to be replayed as a disk may have them after a power loss, or made to fail at the n-th.
 *
 * The disk of the replay: what was written to a file is certain after fsync or fdatasync of it; names are certain after fsync of
 * their directory. Of the rest any part may be there, in sectors of 512 bytes, in any order.
 */
#include "unit/store_model.h"

#include <stdbool.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- the calls ---- */

enum op_kind { OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_LINK, OP_MKDIR, OP_RENAME, OP_UNLINK, OP_SYNC_DIR, OP_ACK };

struct op {
	enum op_kind kind;
	uint64_t ino;
	char path[120], to[120];
	uint64_t offset;
	size_t len;
	unsigned char *data;
};

static struct op *ops;
static size_t n_ops, cap_ops;
static bool recording, no_fdatasync;
static char root[64];

/* The n-th call of these kinds fails with this error; short_write: only half is written, then no more. */
static long fail_at, n_calls;
static int fail_errno;
static bool short_write;

static struct op *record(enum op_kind kind)
{
	if (n_ops == cap_ops) {
		cap_ops = cap_ops ? 2 * cap_ops : 256;
		ops = realloc(ops, cap_ops * sizeof(*ops));
	}
	ops[n_ops] = (struct op){ .kind = kind };
	return &ops[n_ops++];
}

static void path_of(int fd, const char *name, char out[120])
{
	char link[40], dir[400] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = name && name[0] == '/' ? 0 : readlink(link, dir, sizeof(dir) - 1);
	dir[n < 0 ? 0 : n] = 0;
	snprintf(out, 120, "%s%s%s", dir, name && *dir ? "/" : "", name ? name : "");
}

static uint64_t ino_of(int fd)
{
	struct stat st;
	return fstat(fd, &st) ? 0 : (uint64_t)st.st_ino;
}

static bool in_root(const char *path)
{
	return recording && !strncmp(path, root, strlen(root));
}

static bool fails(void)
{
	if (!fail_at || ++n_calls != fail_at)
		return false;
	errno = fail_errno;
	return true;
}

static bool is_file(int fd)
{
	struct stat st;
	return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
	char path[120];
	if (is_file(fd) && fails()) {
		if (!short_write || len < 2)
			return -1;
		fail_at = n_calls + 1; /* the rest fails */
		len /= 2;
	}
	ssize_t n = syscall(SYS_pwrite64, fd, data, len, offset);
	path_of(fd, NULL, path);
	if (n > 0 && in_root(path)) {
		struct op *o = record(OP_WRITE);
		o->ino = ino_of(fd);
		o->offset = (uint64_t)offset;
		o->len = (size_t)n;
		o->data = malloc((size_t)n);
		memcpy(o->data, data, (size_t)n);
	}
	return n;
}

int ftruncate(int fd, off_t len)
{
	char path[120];
	int rc = (int)syscall(SYS_ftruncate, fd, len);
	path_of(fd, NULL, path);
	if (!rc && in_root(path)) {
		struct op *o = record(OP_TRUNCATE);
		o->ino = ino_of(fd);
		o->len = (size_t)len;
	}
	return rc;
}

static int sync_fd(int fd, bool data_only)
{
	char path[120];
	if (fails())
		return -1;
	path_of(fd, NULL, path);
	if (in_root(path) && !(data_only && no_fdatasync)) {
		struct op *o = record(is_file(fd) ? OP_SYNC : OP_SYNC_DIR);
		o->ino = ino_of(fd);
		strcpy(o->path, path);
	}
	return 0;
}

int fdatasync(int fd)
{
	return sync_fd(fd, true);
}

int fsync(int fd)
{
	return sync_fd(fd, false);
}

int openat(int dir, const char *name, int flags, ...)
{
	char path[120];
	va_list ap;
	va_start(ap, flags);
	int mode = va_arg(ap, int);
	va_end(ap);
	bool was = !syscall(SYS_faccessat, dir, name, F_OK);
	int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
	path_of(dir, name, path);
	if (fd >= 0 && flags & O_CREAT && in_root(path)) {
		if (!was) {
			struct op *o = record(OP_LINK);
			o->ino = ino_of(fd);
			strcpy(o->path, path);
		} else if (flags & O_TRUNC) {
			record(OP_TRUNCATE)->ino = ino_of(fd);
		}
	}
	return fd;
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	int rc = (int)syscall(SYS_mkdirat, dir, name, mode);
	char path[120];
	path_of(dir, name, path);
	if (!rc && in_root(path))
		strcpy(record(OP_MKDIR)->path, path);
	return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	char a[120], b[120];
	if (fails())
		return -1;
	int rc = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
	path_of(from_dir, from, a);
	path_of(to_dir, to, b);
	if (!rc && in_root(a)) {
		struct op *o = record(OP_RENAME);
		strcpy(o->path, a);
		strcpy(o->to, b);
	}
	return rc;
}

int unlinkat(int dir, const char *name, int flags)
{
	int rc = (int)syscall(SYS_unlinkat, dir, name, flags);
	char path[120];
	path_of(dir, name, path);
	if (!rc && in_root(path))
		strcpy(record(OP_UNLINK)->path, path);
	return rc;
}

/* ---- allocations ---- */

#if !SANITIZED
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
static long fail_alloc_at, n_allocs;

static bool alloc_fails(void)
{
	return fail_alloc_at && ++n_allocs == fail_alloc_at;
}

void *malloc(size_t n)
{
	return alloc_fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return alloc_fails() ? NULL : __libc_realloc(p, n);
}
#endif

/* ---- the disk ---- */

#define FILES_MAX 400

struct inode {
	uint64_t ino;
	unsigned char *data;
	size_t len, cap;
};

struct name {
	char path[120];
	uint64_t ino; /* 0: a directory */
};

struct disk {
	struct inode inodes[FILES_MAX];
	size_t n_inodes;
	struct name names[FILES_MAX];
	size_t n_names;
};

static struct inode *inode(struct disk *d, uint64_t ino)
{
	for (size_t i = d->n_inodes; i-- > 0;)
		if (d->inodes[i].ino == ino)
			return &d->inodes[i];
	assert_true(d->n_inodes < FILES_MAX);
	d->inodes[d->n_inodes] = (struct inode){ .ino = ino };
	return &d->inodes[d->n_inodes++];
}

static void set_len(struct inode *i, size_t len)
{
	if (len > i->cap) {
		i->cap = 2 * len;
		i->data = realloc(i->data, i->cap);
	}
	if (len > i->len)
		memset(i->data + i->len, 0, len - i->len);
	i->len = len;
}

/* Bytes [from, to) of a write. */
static void apply_part(struct disk *d, const struct op *o, size_t from, size_t to)
{
	struct inode *i = inode(d, o->ino);
	if (from >= to)
		return;
	if (i->len < o->offset + to)
		set_len(i, o->offset + to);
	memcpy(i->data + o->offset + from, o->data + from, to - from);
}

static void apply_data(struct disk *d, const struct op *o)
{
	if (o->kind == OP_WRITE)
		apply_part(d, o, 0, o->len);
	else
		set_len(inode(d, o->ino), o->len);
}

/* Some sectors of the write and not others. */
static void apply_torn(struct disk *d, const struct op *o, struct model *m)
{
	for (size_t at = 0; at < o->len;) {
		size_t next = at + 512 - (o->offset + at) % 512;
		next = next > o->len ? o->len : next;
		if (model_random(m, 2))
			apply_part(d, o, at, next);
		at = next;
	}
}

static size_t find_name(const struct disk *d, const char *path)
{
	size_t i = 0;
	while (i < d->n_names && strcmp(d->names[i].path, path))
		i++;
	return i;
}

static void apply_name(struct disk *d, const struct op *o)
{
	const char *path = o->kind == OP_RENAME ? o->to : o->path;
	uint64_t ino = o->ino;
	if (o->kind == OP_RENAME || o->kind == OP_UNLINK) {
		size_t i = find_name(d, o->path);
		if (i == d->n_names)
			return;
		ino = d->names[i].ino;
		d->names[i] = d->names[--d->n_names];
	}
	if (o->kind == OP_UNLINK)
		return;
	size_t i = find_name(d, path);
	assert_true(i < FILES_MAX);
	d->n_names += i == d->n_names;
	strcpy(d->names[i].path, path);
	d->names[i].ino = ino;
}

static bool lies_in(const char *path, const char *dir)
{
	const char *slash = strrchr(path, '/');
	return (size_t)(slash - path) == strlen(dir) && !strncmp(path, dir, strlen(dir));
}

static bool is_name_op(const struct op *o)
{
	return o->kind == OP_LINK || o->kind == OP_MKDIR || o->kind == OP_RENAME || o->kind == OP_UNLINK;
}

static bool is_data_op(const struct op *o)
{
	return o->kind == OP_WRITE || o->kind == OP_TRUNCATE;
}

enum how { ALL, CERTAIN_ONLY, ANY, N_HOWS };

/* The state after a loss of power behind the first n operations. */
static void lose_power(struct disk *d, size_t n, enum how how, struct model *m)
{
	bool *done = calloc(n + 1, sizeof(*done));
	*d = (struct disk){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct op *s = &ops[i];
		if (s->kind != OP_SYNC && s->kind != OP_SYNC_DIR)
			continue;
		for (size_t k = 0; k < i; k++) {
			const struct op *o = &ops[k];
			if (done[k])
				continue;
			if (s->kind == OP_SYNC && is_data_op(o) && o->ino == s->ino)
				apply_data(d, o), done[k] = true;
			if (s->kind == OP_SYNC_DIR && is_name_op(o) && lies_in(o->path, s->path))
				apply_name(d, o), done[k] = true;
		}
	}
	for (size_t k = 0; k < n; k++) {
		const struct op *o = &ops[k];
		uint32_t luck = how == ALL ? 0 : how == CERTAIN_ONLY ? 2 : model_random(m, 3);
		if (done[k] || luck == 2)
			continue;
		if (is_name_op(o))
			apply_name(d, o);
		else if (o->kind == OP_WRITE && luck == 1)
			apply_torn(d, o, m);
		else if (is_data_op(o))
			apply_data(d, o);
	}
	free(done);
}

/* Onto a real file system; what lies in directories that are not there is lost. */
static void put_disk(const struct disk *d, const char *dir)
{
	char path[200];
	mkdir(dir, 0700);
	for (int depth = 1; depth < 6; depth++)
		for (size_t i = 0; i < d->n_names; i++) {
			const char *rest = d->names[i].path + strlen(root);
			int slashes = 0;
			for (const char *p = rest; *p; p++)
				slashes += *p == '/';
			if (slashes != depth)
				continue;
			snprintf(path, sizeof(path), "%s%s", dir, rest);
			if (!d->names[i].ino) {
				mkdir(path, 0700);
				continue;
			}
			int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
			for (size_t k = 0; fd >= 0 && k < d->n_inodes; k++)
				if (d->inodes[k].ino == d->names[i].ino && d->inodes[k].len)
					assert_int_equal(write(fd, d->inodes[k].data, d->inodes[k].len), d->inodes[k].len);
			if (fd >= 0)
				close(fd);
		}
}

static void free_disk(struct disk *d)
{
	for (size_t i = 0; i < d->n_inodes; i++)
		free(d->inodes[i].data);
}

static void forget_ops(void)
{
	for (size_t i = 0; i < n_ops; i++)
		free(ops[i].data);
	n_ops = 0;
}

/* ---- power loss ---- */

#define N_WINDOWS 16

static const struct store_options options = {
	.wide_values = 5,
	.wide_sets = 16384,
	.grace_ns = 1000000000,
	.generation_bytes = 64u << 20,
	.reserve_bytes = 1,
	.max_bytes = 1ull << 40,
};

static void record_run(struct model *m)
{
	struct store_writer *w;
	struct err err = { 0 };
	recording = true;
	assert_int_equal(store_writer_open_with(&w, root, &model_meta, &options, &err), 0);
	for (int i = 0; i < N_WINDOWS; i++) {
		if (i == N_WINDOWS / 2) {
			store_writer_close(w);
			assert_int_equal(store_writer_open_with(&w, root, &model_meta, &options, &err), 0);
		}
		assert_int_equal(model_commit(m, w, 10, &err), 0);
		record(OP_ACK);
	}
	store_writer_close(w);
	recording = false;
}

/* NULL: what it should be. Else what is wrong. */
static const char *look(const struct model *m, const char *dir, size_t acknowledged)
{
	struct store *s;
	struct err err = { 0 };
	static char text[700];
	int rc = store_open(&s, dir, &err);
	if (rc == -EINVAL && !acknowledged)
		return NULL;
	if (rc) {
		snprintf(text, sizeof(text), "%s", err.text);
		return text;
	}
	size_t n = store_n_windows(s);
	const char *wrong = n < acknowledged ? "acknowledged windows are lost" : n > acknowledged + 1 ? "too many" : NULL;
	for (size_t i = 0; i < n && !wrong; i++)
		if (model_differs(m, s, i))
			wrong = "a window differs";
	store_close(s);
	return wrong;
}

/* A writer goes on from it. */
static const char *go_on(const struct model *m, const char *dir, size_t acknowledged)
{
	struct store_writer *w;
	struct err err = { 0 };
	static char text[700];
	if (store_writer_open_with(&w, dir, &model_meta, &options, &err)) {
		snprintf(text, sizeof(text), "the writer: %s", err.text);
		return text;
	}
	struct model more = { .random = 5, .n = m->n };
	int rc = model_commit_at(w, more.n + 1, &err);
	store_writer_close(w);
	if (rc) {
		snprintf(text, sizeof(text), "the next window: %s", err.text);
		return text;
	}
	struct store *s;
	if (store_open(&s, dir, &err))
		return "it does not open behind the next window";
	const char *wrong = store_n_windows(s) <= acknowledged ? "the next window is lost" : NULL;
	store_close(s);
	return wrong;
}

/* How many states are wrong; the first is printed. */
static size_t replay(const struct model *m, int rounds)
{
	char dir[64];
	size_t acknowledged = 0, wrong = 0, states = 0;
	struct model luck = { .random = 77 };
	static struct disk d;
	snprintf(dir, sizeof(dir), "%s.after", root);
	for (size_t n = 0; n <= n_ops; n++) {
		for (int k = 0; k < rounds; k++) {
			enum how how = k < ANY ? (enum how)k : ANY;
			lose_power(&d, n, how, &luck);
			put_disk(&d, dir);
			free_disk(&d);
			const char *what = look(m, dir, acknowledged);
			if (!what && k < 3)
				what = go_on(m, dir, acknowledged);
			if (what && !wrong++)
				print_message("behind operation %zu of %zu, way %d, %zu acknowledged: %s\n", n, n_ops, k,
					      acknowledged, what);
			states++;
			remove_tree(dir);
		}
		acknowledged += n < n_ops && ops[n].kind == OP_ACK;
	}
	print_message("%zu operations, %zu states of the disk, %zu wrong\n", n_ops, states, wrong);
	return wrong;
}

static size_t lose_power_everywhere(bool stubbed)
{
	struct model m = { .random = 61 };
	temp_dir(root);
	no_fdatasync = stubbed;
	record_run(&m);
	no_fdatasync = false;
	size_t wrong = replay(&m, getenv("ASCRIBE_FAULT_FULL") ? 60 : stubbed ? 3 : 5);
	forget_ops();
	model_fini(&m);
	remove_tree(root);
	return wrong;
}

static void power_loss(void **state)
{
	(void)state;
	assert_int_equal(lose_power_everywhere(false), 0);
}

/* The same must not pass a store that does not sync. */
static void power_loss_without_sync(void **state)
{
	(void)state;
	assert_true(lose_power_everywhere(true) > 0);
}

/* ---- failing calls ---- */

/* The n-th call fails; windows that fail are gone, and all others are there. Returns false when there were fewer calls. */
static bool one_failure(long at, int error, bool half, size_t *ret_failed)
{
	char dir[64];
	struct model m = { .random = 71 };
	struct store_writer *w = NULL;
	struct err err = { 0 };
	temp_dir(dir);
	fail_errno = error;
	short_write = half;
	n_calls = 0;
	fail_at = at;
	int rc = store_writer_open_with(&w, dir, &model_meta, &options, &err);
	if (rc)
		rc = store_writer_open_with(&w, dir, &model_meta, &options, &err);
	assert_int_equal(rc, 0);
	for (int i = 0; i < 10; i++)
		*ret_failed += model_commit(&m, w, 8, &err) != 0;
	bool reached = n_calls >= at;
	fail_at = 0;
	assert_int_equal(model_commit(&m, w, 8, &err), 0);
	model_check(&m, dir);
	store_writer_close(w);
	model_check(&m, dir);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &options, &err), 0);
	assert_int_equal(model_commit(&m, w, 8, &err), 0);
	store_writer_close(w);
	model_check(&m, dir);
	model_fini(&m);
	remove_tree(dir);
	return reached;
}

static void every_call_fails(void **state)
{
	(void)state;
	static const struct {
		int error;
		bool half;
	} ways[] = { { ENOSPC, false }, { EIO, false }, { ENOSPC, true } };
	for (size_t i = 0; i < 3; i++) {
		long at = 1;
		size_t failed = 0;
		while (one_failure(at, ways[i].error, ways[i].half, &failed))
			at++;
		print_message("%s%s at each of %ld calls: %zu windows lost, none of the others\n",
			      ways[i].error == EIO ? "EIO" : "ENOSPC", ways[i].half ? " after half" : "", at - 1, failed);
		assert_true(at > 50 && failed > 0);
	}
}

#if !SANITIZED
static void every_allocation_fails(void **state)
{
	(void)state;
	char dir[64];
	size_t failed = 0;
	long at = 1;
	for (bool reached = true; reached; at += getenv("ASCRIBE_FAULT_FULL") ? 1 : 3) {
		struct model m = { .random = 81 };
		struct store_writer *w = NULL;
		struct store *s = NULL;
		struct err err = { 0 };
		temp_dir(dir);
		n_allocs = 0;
		fail_alloc_at = at;
		int rc = store_writer_open_with(&w, dir, &model_meta, &options, &err);
		fail_alloc_at = rc ? 0 : fail_alloc_at;
		if (rc)
			assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &options, &err), 0);
		for (int i = 0; i < 8; i++) {
			long left = fail_alloc_at;
			fail_alloc_at = 0; /* not in the oracle */
			struct model_window win = { 0 };
			model_fill(&m, w, &win, 6);
			fail_alloc_at = left;
			rc = model_commit_at(w, m.n, &err);
			left = fail_alloc_at;
			fail_alloc_at = 0;
			win.t0 = 1700000000000000000 + (int64_t)m.n * 10000000000;
			win.t1 = win.t0 + 10000000000;
			failed += rc != 0;
			if (rc)
				model_window_fini(&win);
			else
				m.w[m.n++] = win;
			fail_alloc_at = left;
		}
		rc = store_open(&s, dir, &err);
		reached = n_allocs >= at;
		fail_alloc_at = 0;
		if (!rc)
			store_close(s);
		model_check(&m, dir);
		store_writer_close(w);
		model_check(&m, dir);
		model_fini(&m);
		remove_tree(dir);
	}
	print_message("%ld allocations, %zu windows lost, none of the others\n", at, failed);
	assert_true(failed > 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(power_loss),
		cmocka_unit_test(power_loss_without_sync),
		cmocka_unit_test(every_call_fails),
#if !SANITIZED
		cmocka_unit_test(every_allocation_fails),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
