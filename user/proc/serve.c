/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader does, in the helper: each function here may block for as long as another process
 * likes.
 */
#include "proc/reader.h"
#include "proc/hotspot_int.h"
#include "proc/v8_int.h"
#include "proc/proc_int.h"
#include "proc/reader_int.h"

#include "sandbox/channel.h"
#include "sandbox/confine.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROOTS_MAX 1024
#define MEMORY_MAX (1u << 20)
#define STACK_MAX (1u << 16)
#define PAGE_BYTES 4096u
#define LINES_MAX 65536 /* of /proc/TGID/maps, where one mapping is looked for */
#define MAPS_BYTES (16u << 20)
#define COPY_PIECE (1u << 20)
#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

/* ---- which descriptors may be handed out ---- */

#define TRUSTED_MAX 4096
#define TRUSTED_AGAIN_NS 1000000000ull

static dev_t trusted[TRUSTED_MAX];
static size_t n_trusted;
static uint64_t trusted_ns;

static bool is_trusted(dev_t dev)
{
	for (size_t i = 0; i < n_trusted; i++)
		if (trusted[i] == dev)
			return true;
	return false;
}

/* Devices of the overlays and virtiofs that were mounted where init or we are: by root, for all. */
static void read_mounts(const char *path)
{
	char line[PATH_MAX + 512], type[64];
	unsigned maj, min;
	FILE *f = fopen(path, "re");
	while (f && n_trusted < TRUSTED_MAX && fgets(line, sizeof(line), f)) {
		const char *dash = strstr(line, " - ");
		if (!dash || sscanf(dash, " - %63s", type) != 1 ||
		    (strcmp(type, "overlay") != 0 && strcmp(type, "virtiofs") != 0))
			continue;
		if (sscanf(line, "%*u %*u %u:%u", &maj, &min) == 2 &&
		    !is_trusted(makedev(maj, min)))
			trusted[n_trusted++] = makedev(maj, min);
	}
	if (f)
		fclose(f);
}

/*
 * May a user mount this type of filesystem only through an overlay or FUSE of his own? Then which
 * one it is counts: any user can make an overlay over FUSE in a user namespace (since v5.11, commit
 * 459c7c565ac3).
 */
static bool is_trusted_mount(const struct stat *st)
{
	uint64_t now = channel_now_ns();
	if (!is_trusted(st->st_dev) && (!trusted_ns || now - trusted_ns > TRUSTED_AGAIN_NS)) {
		trusted_ns = now;
		n_trusted = 0;
		read_mounts("/proc/1/mountinfo");
		read_mounts("/proc/self/mountinfo");
	}
	return is_trusted(st->st_dev);
}

static bool is_local(int fd, const struct stat *st)
{
	struct statfs fs;
	if (fstatfs(fd, &fs))
		return false;
	switch ((unsigned long)fs.f_type & 0xffffffffu) {
	case EXT4_SUPER_MAGIC: /* of ext2 and ext3, too */
	case XFS_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case HUGETLBFS_MAGIC:
	case SQUASHFS_MAGIC:
	case EROFS_SUPER_MAGIC_V1:
	case F2FS_SUPER_MAGIC:
	case ISOFS_SUPER_MAGIC:
	case MSDOS_SUPER_MAGIC:
	case REISERFS_SUPER_MAGIC:
	case ZFS_MAGIC:
	case BCACHEFS_MAGIC:
		return true;
	case OVERLAYFS_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC: /* virtiofs has the same */
		return is_trusted_mount(st);
	default:
		return false;
	}
}

/*
 * The content, so far as it was when the file was opened. Files of /proc have no size, and so no
 * content here.
 */
static int copy_file(int fd, uint64_t size, int *ret)
{
	uint64_t until = channel_now_ns() + READER_COPY_MS * 1000000ull, left = size;
	ssize_t n = 1;
	if (size > READER_COPY_MAX)
		return -EFBIG;
	int copy = memfd_create("ascribe-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0)
		return -errno;
	while (left && n > 0 && channel_now_ns() < until) {
		n = sendfile(copy, fd, NULL, left < COPY_PIECE ? left : COPY_PIECE);
		left -= n > 0 ? (uint64_t)n : 0;
	}
	int rc = n < 0 ? -errno : left && n ? -EAGAIN : 0;
	if (!rc &&
	    fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		rc = -errno;
	if (rc)
		close(copy);
	else
		*ret = copy;
	return rc;
}

static struct proc_opened describe(const struct stat *st)
{
	return (struct proc_opened){ .user = st->st_uid,
				     .dev = st->st_dev,
				     .ino = st->st_ino,
				     .size = (uint64_t)st->st_size,
				     .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
						 (uint64_t)st->st_mtim.tv_nsec };
}

/* Hand out fd, which is taken over, or a copy of its file. */
static int give(int fd, const struct stat *st, struct buf *out, int *ret_fd)
{
	struct proc_opened o = describe(st);
	int copy = -1, rc = 0;
	if (!is_local(fd, st)) {
		rc = copy_file(fd, o.size, &copy);
		close(fd); /* may ask the server to flush it: here, not in the recorder */
		fd = copy;
		o.copied = true;
	}
	rc = rc ? rc : buf_add(out, &o, sizeof(o));
	if (rc && fd >= 0)
		close(fd);
	if (!rc)
		*ret_fd = fd;
	return rc;
}

static int give_regular(int fd, struct buf *out, int *ret_fd)
{
	struct stat st;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return give(fd, &st, out, ret_fd);
}

/* ---- files ---- */

static int open_map(const struct reader_request *q, struct buf *out, int *ret_fd)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64,
		 proc_thread(q->tgid), q->a, q->b);
	return give_regular(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), out, ret_fd);
}

/* Nothing that an O_PATH descriptor is used for asks the filesystem, nor does closing it. */
static int open_path(const struct reader_request *q, struct buf *out, int *ret_fd)
{
	struct stat st;
	if (!q->b)
		return give_regular(open(q->text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
				    out, ret_fd);
	const int fd = open(q->text, O_PATH | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, &st) ? -errno : 0;
	const struct proc_opened o = rc ? (struct proc_opened){ 0 } : describe(&st);
	rc = rc ? rc : buf_add(out, &o, sizeof(o));
	if (!rc)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return rc;
}

static int open_root(uint32_t tgid)
{
	char path[64] = "/";
	if (tgid)
		snprintf(path, sizeof(path), "/proc/%u/root", proc_thread(tgid));
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_in_root(const struct reader_request *q, struct buf *out, int *ret_fd)
{
	int root = open_root((uint32_t)q->a);
	if (root < 0)
		return root;
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int rc = give_regular((int)syscall(SYS_openat2, root, q->text, &how, sizeof(how)), out,
			      ret_fd);
	close(root);
	return rc;
}

/* ---- roots that are kept open ---- */

struct kept_root {
	uint64_t name; /* 0: none */
	int fd, tmp;   /* tmp outlives a mount namespace; -1: there is none */
};

static struct kept_root roots[ROOTS_MAX];

static struct kept_root *root_find(uint64_t name)
{
	for (size_t i = 0; i < ROOTS_MAX; i++)
		if (roots[i].name == name)
			return &roots[i];
	return NULL;
}

static int open_strictly(int dir, const char *file, uint64_t flags)
{
	struct open_how how = {
		.flags = O_CLOEXEC | O_NOFOLLOW | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, file, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static int root_open(const struct reader_request *q)
{
	if (q->a && root_find(q->a)) /* asked again: the answer was not wanted in time */
		return 0;
	struct kept_root *r = q->a ? root_find(0) : NULL;
	int fd = r ? open_root(q->tgid) : -EMFILE;
	if (fd < 0)
		return fd;
	*r = (struct kept_root){ q->a, fd, open_strictly(fd, "/tmp", O_PATH | O_DIRECTORY) };
	return 0;
}

/*
 * What root owns may be mounted there by a user, who is not to read through us what he cannot read
 * himself.
 */
static bool may_belong(const struct stat *st, uint64_t uid)
{
	return st->st_uid == uid || (st->st_uid == 0 && st->st_mode & S_IROTH);
}

static int root_file(const struct reader_request *q, bool in_tmp, struct buf *out, int *ret_fd)
{
	const struct kept_root *r = q->a ? root_find(q->a) : NULL;
	struct stat st;
	if (!r)
		return -ESTALE;
	int dir = in_tmp ? r->tmp : r->fd;
	int fd = dir < 0 ? -ENOENT : open_strictly(dir, q->text, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	int rc = fstat(fd, &st) || !S_ISREG(st.st_mode) ? -EINVAL
		 : may_belong(&st, q->b)		? 0
							: -EPERM;
	if (!rc)
		return give(fd, &st, out, ret_fd);
	close(fd);
	return rc;
}

static int root_tmp(const struct reader_request *q, struct buf *out, int *ret_fd)
{
	const struct kept_root *r = q->a ? root_find(q->a) : NULL;
	struct proc_opened o = { 0 };
	struct stat st;
	if (!r)
		return -ESTALE;
	if (r->tmp < 0 || fstat(r->tmp, &st) || !is_local(r->tmp, &st))
		return -ENOTDIR;
	int fd = fcntl(r->tmp, F_DUPFD_CLOEXEC, 0),
	    rc = fd < 0 ? -errno : buf_add(out, &o, sizeof(o));
	if (!rc)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return rc;
}

static int root_close(const struct reader_request *q)
{
	struct kept_root *r = q->a ? root_find(q->a) : NULL;
	if (!r)
		return 0;
	if (r->tmp >= 0)
		close(r->tmp);
	close(r->fd); /* the last one of a mount namespace unmounts it, and syncs */
	*r = (struct kept_root){ 0 };
	return 0;
}

/* ---- memory and /proc ---- */

static bool read_thread(uint32_t tid, const struct reader_request *q, void *out)
{
	struct iovec local = { out, q->b }, remote = { (void *)(uintptr_t)q->a, q->b }; /* NOLINT */
	return process_vm_readv((pid_t)tid, &local, 1, &remote, 1, 0) == (ssize_t)q->b;
}

static int read_memory(const struct reader_request *q, struct buf *out)
{
	int rc = q->b > MEMORY_MAX ? -E2BIG : buf_reserve(out, q->b + 1);
	if (rc)
		return rc;
	if (!read_thread(q->tgid, q, out->data + out->len)) {
		uint32_t tid = proc_thread(q->tgid);
		if (!tid || tid == q->tgid || !read_thread(tid, q, out->data + out->len))
			return -EFAULT;
	}
	out->len += q->b;
	return 0;
}

/* By pages: a transfer ends at the first piece that cannot be read whole. */
static int read_stack(const struct reader_request *q, struct buf *out)
{
	struct iovec remote[STACK_MAX / PAGE_BYTES + 1], local;
	size_t n = 0;
	int rc = q->b > STACK_MAX ? -E2BIG : buf_reserve(out, q->b + 1);
	if (rc)
		return rc;
	for (uint64_t at = q->a, end = q->a + q->b; at < end;) {
		uint64_t len = PAGE_BYTES - at % PAGE_BYTES;
		len = len < end - at ? len : end - at;
		remote[n++] = (struct iovec){ (void *)(uintptr_t)at, len }; /* NOLINT */
		at += len;
	}
	local = (struct iovec){ out->data + out->len, q->b };
	ssize_t got = process_vm_readv((pid_t)proc_thread(q->tgid), &local, 1, remote, n, 0);
	if (got <= 0)
		return -EFAULT;
	out->len += (size_t)got;
	return 0;
}

static FILE *open_proc(uint32_t tgid, const char *name)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%u/%s", proc_thread(tgid), name);
	return fopen(path, "re");
}

static int read_maps(const struct reader_request *q, struct buf *out)
{
	char prot[5], *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int rc = 0;
	uint32_t left = PROC_MAPS_MAX;
	FILE *f = open_proc(q->tgid, "maps");
	if (!f)
		return -errno;
	while (!rc && left && out->len < MAPS_BYTES && (n = getline(&line, &cap, f)) > 0) {
		if (sscanf(line, "%*x-%*x %4s", prot) != 1 || prot[2] != 'x')
			continue;
		rc = buf_add(out, line, (size_t)n);
		left--;
	}
	uint64_t now = proc_now_ns();
	free(line);
	fclose(f);
	return rc ? rc : buf_add(out, &now, sizeof(now));
}

/* The end of a path says more than its beginning. */
static void set_name(struct proc_line *l, const char *path)
{
	size_t len = strcspn(path, "\n"),
	       cut = len < sizeof(l->name) ? 0 : len - sizeof(l->name) + 1;
	memcpy(l->name, path + cut, len - cut);
	l->name[len - cut] = 0;
}

static int read_line(const struct reader_request *q, struct buf *out)
{
	FILE *f = open_proc(q->tgid, "maps");
	char line[PATH_MAX + 128], *path;
	struct proc_line l = { 0 };
	int rc = -ENOENT;
	for (size_t i = 0; f && rc && i < LINES_MAX && fgets(line, sizeof(line), f); i++)
		if (proc_parse_line(line, &l, &path) && q->a >= l.start && q->a < l.end) {
			set_name(&l, path);
			rc = buf_add(out, &l, sizeof(l));
		}
	if (f)
		fclose(f);
	return rc;
}

static bool holds_any(const char *line, const char *needles)
{
	char one[128];
	for (const char *p = needles; *p;) {
		size_t n = strcspn(p, "\n");
		snprintf(one, sizeof(one), "%.*s", (int)n, p);
		if (n && strstr(line, one))
			return true;
		p += n + (p[n] == '\n');
	}
	return false;
}

static int find_line(const struct reader_request *q, struct buf *out)
{
	FILE *f = open_proc(q->tgid, "maps");
	char line[PATH_MAX + 128], *path;
	struct proc_line l;
	int rc = -ENOENT;
	for (size_t i = 0; f && rc && i < LINES_MAX && fgets(line, sizeof(line), f); i++)
		if (holds_any(line, q->text) && proc_parse_line(line, &l, &path))
			rc = buf_add(out, &l.start, sizeof(l.start));
	if (f)
		fclose(f);
	return rc;
}

static int read_text(const struct reader_request *q, struct buf *out)
{
	char path[96];
	size_t cap = q->b < MEMORY_MAX ? (size_t)q->b : MEMORY_MAX, begin = out->len;
	int rc = buf_reserve(out, cap + 1);
	snprintf(path, sizeof(path), "/proc/%u/%s", proc_thread(q->tgid), q->text);
	int fd = rc ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rc ? rc : -errno;
	for (ssize_t n; out->len - begin < cap &&
			(n = read(fd, out->data + out->len, cap - (out->len - begin))) > 0;)
		out->len += (size_t)n;
	close(fd);
	return 0;
}

/* ---- serving ---- */

int reader_serve(const struct reader_request *q, struct buf *out, int *ret_fd)
{
	*ret_fd = -1;
	switch ((enum reader_op)q->op) {
	case READ_MEMORY:
		return read_memory(q, out);
	case READ_STACK:
		return read_stack(q, out);
	case READ_MAPS:
		return read_maps(q, out);
	case READ_LINE:
		return read_line(q, out);
	case FIND_LINE:
		return find_line(q, out);
	case READ_TEXT:
		return read_text(q, out);
	case OPEN_MAP:
		return open_map(q, out, ret_fd);
	case OPEN_IN_ROOT:
		return open_in_root(q, out, ret_fd);
	case OPEN_PATH:
		return open_path(q, out, ret_fd);
	case ROOT_OPEN:
		return root_open(q);
	case ROOT_FILE:
	case ROOT_TMP_FILE:
		return root_file(q, q->op == ROOT_TMP_FILE, out, ret_fd);
	case ROOT_TMP:
		return root_tmp(q, out, ret_fd);
	case ROOT_CLOSE:
		return root_close(q);
	case READ_HOTSPOT:
		return hotspot_serve_locate(q, out);
	case READ_HOTSPOT_NAMES:
		return hotspot_serve_names(q, out);
	case READ_V8_NAME:
		return v8_serve_name(q, out);
	case READER_OPS:
		break;
	}
	return -EINVAL;
}

static int serve_one(int fd, struct buf *in, struct buf *out)
{
	struct channel_head h;
	size_t none;
	int answer_fd = -1, rc = channel_recv_head(fd, &h, NULL, 0, &none, CHANNEL_FOREVER);
	if (rc || h.len < sizeof(struct reader_request) + 1 ||
	    h.len > sizeof(struct reader_request) + READER_TEXT_MAX)
		return rc ? rc : -EBADMSG;
	in->len = out->len = 0;
	rc = buf_reserve(in, h.len + 1);
	rc = rc ? rc : channel_recv(fd, in->data, h.len, CHANNEL_FOREVER);
	if (rc)
		return rc;
	in->data[h.len - 1] = 0;
	uint64_t began = clock_ns(CLOCK_MONOTONIC) / 1000,
		 cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000;
	h.what = reader_serve((const struct reader_request *)(const void *)in->data, out,
			      &answer_fd);
	h.len = h.what ? 0 : (uint32_t)out->len;
	h.value = READER_TIMES(clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000 - cpu,
			       clock_ns(CLOCK_MONOTONIC) / 1000 - began);
	rc = channel_send(fd, &h, out->data, &answer_fd, answer_fd >= 0, CHANNEL_FOREVER);
	if (answer_fd >= 0)
		close(answer_fd); /* of a local file or a copy */
	return rc;
}

void proc_reader_run(int fd)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	if (confine_rights(ROLE_READER, fd))
		_exit(1);
	while (!serve_one(fd, &in, &out))
		if (out.cap > MEMORY_MAX)
			buf_fini(&out);
	_exit(0);
}
