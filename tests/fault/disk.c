/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/disk.h"

#include "unit/store_model.h"

#include <xxhash.h>

#define FILES_MAX 4000
#define NAMES_MAX 400
#define SECTOR 512

struct content {
	unsigned char *data;
	size_t len, cap;
};

struct name {
	const char *path;
	uint64_t file; /* 0: a directory */
};

/* What is there: names, and contents by number of the file. */
struct state {
	struct name names[NAMES_MAX];
	size_t n_names;
	struct content *files; /* [FILES_MAX] */
};

struct disk {
	const struct log *log;
	size_t at; /* operations that have happened */
	struct state certain;
	size_t *pending; /* operations that are not, in their order */
	size_t n_pending, cap_pending;
	struct state left; /* by the last loss */
	bool *own;	   /* [FILES_MAX]: contents that are not those of `certain` */
};

/* ---- the log ---- */

static const char *without_root(const char *path, const char *root)
{
	size_t n = strlen(root);
	assert_true(!strncmp(path, root, n));
	return path + n;
}

/* Numbers for files: a name that is made anew may have the inode of one that is gone. */
static void number_files(struct log *l)
{
	uint64_t inodes[FILES_MAX], files[FILES_MAX];
	size_t n = 0, next = 1;
	for (size_t i = 0; i < l->n; i++) {
		struct op *o = &l->ops[i];
		size_t k = 0;
		if (!o->file)
			continue;
		while (k < n && inodes[k] != o->file)
			k++;
		assert_true(k < FILES_MAX && next < FILES_MAX);
		inodes[k] = o->file;
		if (k == n || o->kind == OP_LINK)
			files[k] = next++;
		n += k == n;
		o->file = files[k];
	}
}

void log_read(struct log *l, const char *path, const char *root)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && !fstat(fd, &st) && st.st_size);
	size_t size = (size_t)st.st_size, names = 0;
	*l = (struct log){ .bytes = malloc(size), .names = malloc(2 * size) };
	assert_int_equal(read(fd, l->bytes, size), size);
	close(fd);
	for (size_t at = 0; at < size;) {
		struct op_record r;
		memcpy(&r, l->bytes + at, sizeof(r));
		at += sizeof(r);
		if (!(l->n & (l->n - 1)))
			l->ops = realloc(l->ops, 2 * (l->n + 1) * sizeof(*l->ops));
		struct op *o = &l->ops[l->n++];
		*o = (struct op){
			.kind = r.kind, .file = r.ino, .offset = r.offset, .len = r.data_len
		};
		char *a = l->names + names, *b = a + r.path_len + 1;
		snprintf(a, r.path_len + 1u, "%s", (char *)l->bytes + at);
		snprintf(b, r.to_len + 1u, "%s", (char *)l->bytes + at + r.path_len);
		names += r.path_len + r.to_len + 2u;
		at += r.path_len + r.to_len;
		o->data = l->bytes + at;
		at += r.data_len;
		if (r.kind == OP_UNKNOWN)
			fail_msg("the recorder has seen what it cannot replay: %s", a);
		o->path = r.path_len ? without_root(a, root) : "";
		o->to = r.to_len ? without_root(b, root) : "";
	}
	number_files(l);
}

void log_free(struct log *l)
{
	free(l->ops);
	free(l->bytes);
	free(l->names);
}

/* ---- states ---- */

static void state_init(struct state *s)
{
	s->n_names = 0;
	s->files = calloc(FILES_MAX, sizeof(*s->files));
}

static void state_fini(struct state *s)
{
	for (size_t i = 0; i < FILES_MAX; i++)
		free(s->files[i].data);
	free(s->files);
}

static void set_len(struct content *c, size_t len)
{
	if (len > c->cap) {
		c->cap = 2 * len;
		c->data = realloc(c->data, c->cap);
	}
	if (len > c->len)
		memset(c->data + c->len, 0, len - c->len);
	c->len = len;
}

/* Bytes [from, to) of a write. */
static void apply_part(struct state *s, const struct op *o, size_t from, size_t to)
{
	struct content *c = &s->files[o->file];
	if (from >= to)
		return;
	if (c->len < o->offset + to)
		set_len(c, o->offset + to);
	memcpy(c->data + o->offset + from, o->data + from, to - from);
}

static size_t find_name(const struct state *s, const char *path)
{
	size_t i = 0;
	while (i < s->n_names && strcmp(s->names[i].path, path))
		i++;
	return i;
}

static void apply_name(struct state *s, const struct op *o)
{
	struct name n = { o->path, o->file };
	if (o->kind == OP_RENAME || o->kind == OP_UNLINK) {
		size_t i = find_name(s, o->path);
		if (i == s->n_names)
			return;
		n = (struct name){ o->to, s->names[i].file };
		s->names[i] = s->names[--s->n_names];
	}
	if (o->kind == OP_UNLINK)
		return;
	size_t i = find_name(s, n.path);
	assert_true(i < NAMES_MAX);
	s->n_names += i == s->n_names;
	s->names[i] = n;
}

static bool is_name_op(const struct op *o)
{
	return o->kind == OP_LINK || o->kind == OP_MKDIR || o->kind == OP_RENAME ||
	       o->kind == OP_UNLINK;
}

static bool is_data_op(const struct op *o)
{
	return o->kind == OP_WRITE || o->kind == OP_SIZE;
}

static void apply(struct state *s, const struct op *o)
{
	if (o->kind == OP_WRITE)
		apply_part(s, o, 0, o->len);
	else if (o->kind == OP_SIZE)
		set_len(&s->files[o->file], o->offset);
	else if (is_name_op(o))
		apply_name(s, o);
}

/* ---- time ---- */

struct disk *disk_new(const struct log *l)
{
	struct disk *d = calloc(1, sizeof(*d));
	d->log = l;
	state_init(&d->certain);
	state_init(&d->left);
	d->own = calloc(FILES_MAX, sizeof(*d->own));
	return d;
}

/* Forget the last loss; contents of `certain` are not freed with it. */
static void end(struct disk *d)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		if (d->own[i])
			free(d->left.files[i].data);
		d->left.files[i] = (struct content){ 0 };
	}
	memset(d->own, 0, FILES_MAX * sizeof(*d->own));
}

void disk_free(struct disk *d)
{
	end(d);
	state_fini(&d->left);
	free(d->own);
	state_fini(&d->certain);
	free(d->pending);
	free(d);
}

static bool lies_in(const char *path, const char *dir)
{
	const char *slash = strrchr(path, '/');
	return slash && (size_t)(slash - path) == strlen(dir) && !strncmp(path, dir, strlen(dir));
}

static bool makes_certain(const struct op *sync, const struct op *o)
{
	if (sync->kind == OP_SYNC)
		return is_data_op(o) && o->file == sync->file;
	return is_name_op(o) && lies_in(o->path, sync->path);
}

void disk_step(struct disk *d)
{
	const struct op *o = &d->log->ops[d->at];
	if (o->kind == OP_SYNC || o->kind == OP_SYNC_DIR) {
		size_t n = 0;
		for (size_t i = 0; i < d->n_pending; i++) {
			const struct op *p = &d->log->ops[d->pending[i]];
			if (makes_certain(o, p))
				apply(&d->certain, p);
			else
				d->pending[n++] = d->pending[i];
		}
		d->n_pending = n;
	} else if (is_name_op(o) || is_data_op(o)) {
		if (d->n_pending == d->cap_pending) {
			d->cap_pending = 2 * d->cap_pending + 64;
			d->pending = realloc(d->pending, d->cap_pending * sizeof(*d->pending));
		}
		d->pending[d->n_pending++] = d->at;
	}
	d->at++;
}

/* ---- losing power ---- */

static uint32_t draw(uint64_t *random, uint32_t below)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*random >> 33) % below;
}

/* Some sectors of the write and not others. */
static void apply_torn(struct state *s, const struct op *o, uint64_t *random)
{
	for (size_t at = 0; at < o->len;) {
		size_t next = at + SECTOR - (o->offset + at) % SECTOR;
		next = next > o->len ? o->len : next;
		if (draw(random, 2))
			apply_part(s, o, at, next);
		at = next;
	}
}

static void apply_any(struct state *s, const struct op *o, uint64_t *random)
{
	uint32_t luck = draw(random, 3);
	if (luck == 1 && o->kind == OP_WRITE)
		apply_torn(s, o, random);
	else if (luck < 2)
		apply(s, o);
}

/*
 * A copy of what is certain, contents and all, is only made of files that something pending may
 * change.
 */
static void begin(struct disk *d)
{
	struct state *s = &d->left;
	end(d);
	memcpy(s->names, d->certain.names, d->certain.n_names * sizeof(*s->names));
	s->n_names = d->certain.n_names;
	memcpy(s->files, d->certain.files, FILES_MAX * sizeof(*s->files));
	for (size_t i = 0; i < d->n_pending; i++) {
		const struct op *o = &d->log->ops[d->pending[i]];
		struct content *c = &s->files[o->file];
		if (!is_data_op(o) || d->own[o->file])
			continue;
		d->own[o->file] = true;
		const unsigned char *data = c->data;
		size_t len = c->len;
		*c = (struct content){ 0 };
		set_len(c, len);
		if (len)
			memcpy(c->data, data, len);
	}
}

bool disk_lose(struct disk *d, enum loss how, size_t cut, uint64_t *random)
{
	struct state *s = &d->left;
	const struct op *last = d->n_pending ? &d->log->ops[d->pending[d->n_pending - 1]] : NULL;
	bool cuts = last && last == &d->log->ops[d->at - 1] && last->kind == OP_WRITE &&
		    cut < last->len;
	begin(d);
	for (size_t i = 0; how != LOSS_ALL && i < d->n_pending; i++) {
		const struct op *o = &d->log->ops[d->pending[i]];
		if (how == LOSS_ANY)
			apply_any(s, o, random);
		else if (how == LOSS_CUT && o == last && cuts)
			apply_part(s, o, 0, cut);
		else
			apply(s, o);
	}
	return how != LOSS_CUT || cuts;
}

static size_t depth_of(const char *path)
{
	size_t n = 0;
	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* What lies in directories that are not there is lost. */
static void put_state(const struct state *s, const char *dir)
{
	char path[400];
	for (size_t depth = 0; depth < 6; depth++)
		for (size_t i = 0; i < s->n_names; i++) {
			const struct name *n = &s->names[i];
			if (depth_of(n->path) != depth)
				continue;
			snprintf(path, sizeof(path), "%s%s", dir, n->path);
			if (!n->file) {
				mkdir(path, 0700);
				continue;
			}
			int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
			const struct content *c = &s->files[n->file];
			if (fd >= 0 && c->len)
				assert_int_equal(write(fd, c->data, c->len), c->len);
			if (fd >= 0)
				close(fd);
		}
}

void disk_put(const struct disk *d, const char *dir)
{
	assert_int_equal(mkdir(dir, 0700), 0);
	put_state(&d->left, dir);
}

/* A sum over names: their order is chance. */
uint64_t disk_left(const struct disk *d)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < d->left.n_names; i++) {
		const struct name *n = &d->left.names[i];
		const struct content *c = &d->left.files[n->file];
		uint64_t what = n->file ? XXH3_64bits(c->data, c->len) : 1;
		sum += XXH3_64bits_withSeed(n->path, strlen(n->path), what);
	}
	return sum;
}

/* ---- beside the real thing ---- */

static char difference[600];
static const struct state *compare_to;
static const char *compare_dir;
static size_t compared;

static int compare_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	const char *rest = path + strlen(compare_dir);
	size_t i = find_name(compare_to, rest);
	if (!*rest)
		return 0;
	compared++;
	if (i == compare_to->n_names || (type == FTW_F) != (compare_to->names[i].file != 0)) {
		snprintf(difference, sizeof(difference), "%s is there and was not recorded", path);
		return 1;
	}
	if (type != FTW_F)
		return 0;
	const struct content *c = &compare_to->files[compare_to->names[i].file];
	unsigned char *data = malloc((size_t)st->st_size + 1);
	int fd = open(path, O_RDONLY);
	bool same = fd >= 0 && c->len == (size_t)st->st_size &&
		    read(fd, data, c->len) == (ssize_t)c->len &&
		    (!c->len || !memcmp(data, c->data, c->len));
	close(fd);
	free(data);
	if (!same)
		snprintf(difference, sizeof(difference), "%s is not what was recorded", path);
	return !same;
}

const char *disk_differs(struct disk *d, const char *dir)
{
	disk_lose(d, LOSS_NONE, 0, NULL);
	compare_to = &d->left;
	compare_dir = dir;
	compared = 0;
	if (nftw(dir, compare_one, 16, FTW_PHYS))
		return difference;
	return compared == d->left.n_names ? NULL : "something was recorded and is not there";
}
