/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/file.h"

#include "util/crc32c.h"
#include "util/write_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void file_name(char out[FILE_NAME_SIZE], struct place p)
{
	if (p.kind == KIND_TRACKS)
		snprintf(out, FILE_NAME_SIZE, TRACKS_DIR "/%08u.trk", p.serial);
	else
		snprintf(out, FILE_NAME_SIZE, "seg/%s-%08u.%s", levels[p.level].name, p.serial,
			 p.kind == KIND_SYMBOLS ? "sym" : "seg");
}

int file_other_version(const char *what, uint32_t version, struct err *err)
{
	if (version > FORMAT_VERSION)
		return err_set(
			err, -EPROTONOSUPPORT,
			"%s was written by a newer version (format %u; this program knows %u): "
			"use that version",
			what, version, FORMAT_VERSION);
	if (version == FORMAT_OLD)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s was written by an older version (format %u; this program writes "
			       "%u): rewrite the store "
			       "with `ascribe store compact`, or name a new directory",
			       what, version, FORMAT_VERSION);
	return err_set(
		err, -EPROTONOSUPPORT,
		"%s was written by an older version (format %u; this program knows %u): read it "
		"with that version, and name a new directory to record",
		what, version, FORMAT_VERSION);
}

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)v);
	put32(p + 4, (uint32_t)(v >> 32));
}

static int write_all(int fd, const void *data, size_t len, uint64_t offset)
{
	int rc = write_at(fd, data, len, offset);
	return rc == -EFBIG || rc == -EDQUOT ? -ENOSPC : rc; /* a limit or a quota: as full */
}

int file_replace(int dir_fd, const char *name, const void *data, size_t len)
{
	char tmp[256];
	snprintf(tmp, sizeof(tmp), "%s.tmp", name);
	int fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	int rc = write_all(fd, data, len, 0);
	if (!rc && fsync(fd))
		rc = -errno;
	close(fd);
	if (!rc && renameat(dir_fd, tmp, dir_fd, name))
		rc = -errno;
	if (!rc && fsync(dir_fd))
		rc = -errno;
	if (rc)
		unlinkat(dir_fd, tmp, 0);
	return rc;
}

/*
 * Each directory on the way is made and its parent synced before anything is put into it. *path
 * moves to the last part, the name of the file.
 */
static int make_dirs(int dir_fd, const char **path, int *ret_fd)
{
	char part[64];
	int at = dup(dir_fd), rc = 0;
	while (at >= 0 && strchr(*path, '/')) {
		size_t n = strcspn(*path, "/");
		snprintf(part, sizeof(part), "%.*s", (int)n, *path);
		*path += n + 1;
		if (mkdirat(at, part, 0750) && errno != EEXIST)
			rc = -errno;
		else if (fsync(at))
			rc = -errno;
		int next =
			rc ? -1 : openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (!rc && next < 0)
			rc = -errno;
		close(at);
		at = next;
	}
	if (at < 0)
		return rc ? rc : -errno;
	*ret_fd = at;
	return 0;
}

int file_create(int dir_fd, const char *dir, struct place p, uint64_t store_id, struct err *err)
{
	char path[FILE_NAME_SIZE];
	const char *name = path;
	uint8_t h[FILE_HEADER_SIZE] = { 0 };
	int fd = -1;
	file_name(path, p);
	memcpy(h, FILE_MAGIC, 8);
	put32(h + 8, FORMAT_VERSION);
	put32(h + 12, p.kind | (uint32_t)p.level << 8);
	put64(h + 16, store_id);
	put32(h + 24, p.serial);
	put32(h + 28, crc32c(h, 28));
	int rc = make_dirs(dir_fd, &name, &fd);
	if (!rc)
		rc = file_replace(fd, name, h, sizeof(h));
	if (fd >= 0)
		close(fd);
	return rc ? err_sys(err, rc, "cannot create %s/%s", dir, path) : 0;
}

static int check_header(struct file *f, uint32_t wanted_version, uint64_t store_id, struct err *err)
{
	uint8_t h[FILE_HEADER_SIZE];
	int rc = file_read(f, 0, h, sizeof(h));
	if (rc)
		return err_set(err, rc, "%s is cut short at %llu bytes", f->path,
			       (unsigned long long)f->size);
	struct cursor c = { h + 8, h + sizeof(h), 0 };
	uint32_t version = cursor_u32(&c), kind = cursor_u32(&c);
	uint64_t id = cursor_u64(&c);
	uint32_t serial = cursor_u32(&c), crc = cursor_u32(&c);
	if (memcmp(h, FILE_MAGIC, 8) || crc != crc32c(h, 28))
		return err_set(err, -EBADMSG, "%s: the file header is damaged (offset 0)", f->path);
	if (version != wanted_version)
		return file_other_version(f->path, version, err);
	if (kind != (f->place.kind | (uint32_t)f->place.level << 8) || id != store_id ||
	    serial != f->place.serial)
		return err_set(err, -EBADMSG, "%s belongs to another store or place (offset 0)",
			       f->path);
	return 0;
}

int file_open(struct file *f, int dir_fd, const char *dir, struct place p, uint64_t store_id,
	      bool write, struct err *err)
{
	char name[FILE_NAME_SIZE];
	file_name(name, p);
	return file_open_as(f, dir_fd, dir, name, FORMAT_VERSION, p, store_id, write, err);
}

int file_open_as(struct file *f, int dir_fd, const char *dir, const char *name, uint32_t version,
		 struct place p, uint64_t store_id, bool write, struct err *err)
{
	*f = (struct file){ .fd = -1, .place = p };
	snprintf(f->path, sizeof(f->path), "%s/%s", dir, name);
	f->fd = openat(dir_fd, name,
		       (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (f->fd < 0)
		return err_sys(err, -errno, "cannot open %s", f->path);
	struct stat st;
	int rc = 0;
	if (fstat(f->fd, &st))
		rc = err_sys(err, -errno, "cannot stat %s", f->path);
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, -EBADMSG, "%s is not a regular file", f->path);
	f->size = rc ? 0 : (uint64_t)st.st_size;
	f->end = f->tail = FILE_HEADER_SIZE;
	if (!rc)
		rc = check_header(f, version, store_id, err);
	if (rc)
		file_close(f);
	return rc;
}

void file_close(struct file *f)
{
	if (f && f->fd >= 0) {
		close(f->fd);
		f->fd = -1;
	}
}

int file_read(const struct file *f, uint64_t offset, void *out, size_t len)
{
	uint8_t *p = out;
	while (len) {
		ssize_t n = pread(f->fd, p, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENODATA;
		p += n;
		len -= (size_t)n;
		offset += (size_t)n;
	}
	return 0;
}

int file_read_whole(int dir_fd, const char *name, size_t min, size_t max, struct buf *ret)
{
	struct file f = { .fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
	struct stat st;
	if (f.fd < 0)
		return -errno;
	int rc = fstat(f.fd, &st) ? -errno : 0;
	if (!rc &&
	    (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < min || (uint64_t)st.st_size > max))
		rc = -EBADMSG;
	if (!rc)
		rc = buf_reserve(ret, (size_t)st.st_size);
	if (!rc)
		rc = file_read(&f, 0, ret->data, (size_t)st.st_size);
	if (!rc)
		ret->len = (size_t)st.st_size;
	file_close(&f);
	return rc == -ENODATA ? -EBADMSG : rc;
}

uint64_t frame_end(const struct frame *h)
{
	return h->offset + FRAME_SIZE + h->stored_len;
}

/* Whether p is the intact header of a frame of this file at this offset. */
static bool decode_frame(uint64_t offset, const uint8_t *p, struct frame *ret)
{
	struct cursor c = { p, p + FRAME_SIZE, 0 };
	if (cursor_u32(&c) != FRAME_MAGIC)
		return false;
	struct frame h = { .kind = cursor_u8(&c) };
	h.codec = cursor_u8(&c);
	cursor_bytes(&c, 2);
	h.offset = cursor_u64(&c);
	h.first = cursor_u32(&c);
	h.count = cursor_u32(&c);
	h.raw_len = cursor_u32(&c);
	h.stored_len = cursor_u32(&c);
	h.payload_crc = cursor_u32(&c);
	if (h.offset != offset || h.stored_len > FRAME_STORED_MAX ||
	    cursor_u32(&c) != crc32c(p, FRAME_SIZE - 4))
		return false;
	*ret = h;
	return true;
}

int file_frame(const struct file *f, uint64_t offset, uint64_t limit, struct frame *ret,
	       struct buf *payload)
{
	uint8_t head[FRAME_SIZE];
	struct frame h;
	if (limit > f->size)
		limit = f->size;
	if (offset > limit || limit - offset < FRAME_SIZE)
		return -ENODATA;
	int rc = file_read(f, offset, head, sizeof(head));
	if (rc)
		return rc;
	if (!decode_frame(offset, head, &h))
		return -EBADMSG;
	if (h.stored_len > limit - offset - FRAME_SIZE)
		return -ENODATA;
	if (payload) {
		payload->len = 0;
		rc = buf_reserve(payload, (size_t)h.stored_len + 1);
		if (!rc)
			rc = file_read(f, offset + FRAME_SIZE, payload->data, h.stored_len);
		if (rc)
			return rc;
		payload->len = h.stored_len;
		if (crc32c(payload->data, payload->len) != h.payload_crc)
			return -EBADMSG;
	}
	*ret = h;
	return 0;
}

/* A stretch of a file in memory. */
struct stretch {
	const struct file *f;
	uint64_t at, to;
	struct buf b;
};

/* len bytes from offset on; NULL: there are not so many. */
static int stretch_read(struct stretch *s, uint64_t offset, size_t len, const uint8_t **ret)
{
	enum { AHEAD = 1 << 18 };
	*ret = NULL;
	if (offset > s->to || s->to - offset < len)
		return 0;
	if (offset < s->at || offset + len > s->at + s->b.len) {
		size_t n = len > AHEAD ? len : AHEAD;
		n = s->to - offset < n ? (size_t)(s->to - offset) : n;
		s->b.len = 0;
		int rc = buf_reserve(&s->b, n + 1);
		if (!rc)
			rc = file_read(s->f, offset, s->b.data, n);
		if (rc)
			return rc == -ENODATA ? 0 : rc;
		s->at = offset;
		s->b.len = n;
	}
	*ret = s->b.data + (offset - s->at);
	return 0;
}

int file_each_frame(const struct file *f, uint64_t from, uint64_t to,
		    int (*cb)(void *ctx, const struct frame *h, const uint8_t *payload), void *ctx,
		    uint64_t *ret_end)
{
	struct stretch s = { .f = f, .to = to < f->size ? to : f->size };
	int rc = 0;
	*ret_end = from;
	while (!rc) {
		const uint8_t *p;
		struct frame h;
		rc = stretch_read(&s, *ret_end, FRAME_SIZE, &p);
		if (rc || !p || !decode_frame(*ret_end, p, &h))
			break;
		rc = stretch_read(&s, *ret_end + FRAME_SIZE, h.stored_len, &p);
		if (rc || !p || crc32c(p, h.stored_len) != h.payload_crc)
			break;
		rc = cb(ctx, &h, p);
		if (!rc)
			*ret_end = frame_end(&h);
	}
	buf_fini(&s.b);
	return rc;
}

int file_find_frame(const struct file *f, enum kind kind, uint64_t from, uint64_t *ret_at)
{
	enum { CHUNK = 1 << 16 };
	uint8_t b[CHUNK + FRAME_SIZE];
	struct frame h;
	static const uint8_t magic[4] = { 'A', 'S', 'F', 'R' };
	for (uint64_t at = from; at < f->size && f->size - at >= FRAME_SIZE; at += CHUNK) {
		size_t len = f->size - at < sizeof(b) ? (size_t)(f->size - at) : sizeof(b);
		int rc = file_read(f, at, b, len);
		if (rc == -ENODATA)
			break;
		if (rc)
			return rc;
		for (size_t i = 0; i + FRAME_SIZE <= len; i++) {
			const uint8_t *p = memmem(b + i, len - i, magic, sizeof(magic));
			if (!p)
				break;
			i = (size_t)(p - b);
			if (i + FRAME_SIZE <= len && decode_frame(at + i, p, &h) &&
			    (!kind || h.kind == kind)) {
				*ret_at = at + i;
				return 0;
			}
		}
	}
	*ret_at = UINT64_MAX;
	return 0;
}

int file_append(struct file *f, const struct frame *frame, const struct buf *stored)
{
	uint8_t h[FRAME_SIZE] = { 0 };
	if (stored->len > FRAME_STORED_MAX)
		return -E2BIG;
	put32(h, FRAME_MAGIC);
	h[4] = (uint8_t)frame->kind;
	h[5] = frame->codec;
	put64(h + 8, f->tail);
	put32(h + 16, frame->first);
	put32(h + 20, frame->count);
	put32(h + 24, frame->raw_len);
	put32(h + 28, (uint32_t)stored->len);
	put32(h + 32, crc32c(stored->data, stored->len));
	put32(h + 36, crc32c(h, 36));
	int rc = write_all(f->fd, h, sizeof(h), f->tail);
	if (!rc)
		rc = write_all(f->fd, stored->data, stored->len, f->tail + FRAME_SIZE);
	if (!rc)
		f->tail += FRAME_SIZE + stored->len;
	return rc;
}

int file_sync(struct file *f)
{
	return fdatasync(f->fd) ? -errno : 0;
}

void file_commit(struct file *f)
{
	f->end = f->tail;
	if (f->size < f->end)
		f->size = f->end;
}

int file_rollback(struct file *f)
{
	f->tail = f->end;
	return ftruncate(f->fd, (off_t)f->end) ? -errno : 0;
}
