/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which a program changes files, recorded or made to fail. Two ways to use it:
 *
 *   as LD_PRELOAD of a program that does not use it: FAULT_ROOT names a directory, FAULT_LOG a
 *   file. Every change below the directory is appended to the file in the form of log.h, and what
 *   the program writes to its standard output, between them where it belongs;
 *
 *   linked into a test, for faults.h: the n-th call fails.
 *
 * Every call goes to the kernel by syscall(2): nothing of the C library is replaced that is needed
 * here.
 */
#include "fault/faults.h"
#include "fault/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_len;
static int log_fd = -1;
struct faults faults;

__attribute__((constructor)) static void begin(void)
{
	const char *dir = getenv("FAULT_ROOT"), *name = getenv("FAULT_LOG");
	if (!dir || !name)
		return;
	root_len = (size_t)snprintf(root, sizeof(root), "%s", dir);
	log_fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			      0600);
	if (log_fd < 0)
		_exit(99);
}

void faults_below(const char *dir)
{
	root_len = (size_t)snprintf(root, sizeof(root), "%s", dir);
}

/* ---- where ---- */

/* The path of a name in a directory, or of a descriptor when there is no name. */
static void path_of(int fd, const char *name, char out[PATH_MAX])
{
	char link[40], dir[PATH_MAX / 2] = "";
	ssize_t n = 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (name && name[0] != '/')
		n = fd == AT_FDCWD ? readlink("/proc/self/cwd", dir, sizeof(dir) - 1)
				   : readlink(link, dir, sizeof(dir) - 1);
	else if (!name)
		n = readlink(link, dir, sizeof(dir) - 1);
	dir[n < 0 ? 0 : n] = 0;
	if (name && !strcmp(name, "."))
		name = NULL;
	snprintf(out, PATH_MAX, "%s%s%s", dir, name && *dir ? "/" : "", name ? name : "");
}

static bool is_below(const char *path)
{
	return root_len && !strncmp(path, root, root_len) &&
	       (path[root_len] == '/' || !path[root_len]);
}

static bool fd_is_below(int fd, char out[PATH_MAX])
{
	path_of(fd, NULL, out);
	return is_below(out);
}

static bool below(int dir, const char *name, char out[PATH_MAX])
{
	path_of(dir, name, out);
	return is_below(out);
}

static uint64_t ino_of(int fd)
{
	struct stat st;
	return fstat(fd, &st) ? 0 : (uint64_t)st.st_ino;
}

static bool is_dir(int fd)
{
	struct stat st;
	return !fstat(fd, &st) && S_ISDIR(st.st_mode);
}

/* ---- recording ---- */

static void record(enum op_kind kind, uint64_t ino, uint64_t offset, const char *path,
		   const char *to, const void *data, size_t len)
{
	struct op_record r = { kind,
			       path ? (uint32_t)strlen(path) : 0,
			       to ? (uint32_t)strlen(to) : 0,
			       (uint32_t)len,
			       ino,
			       offset };
	struct iovec v[4] = { { &r, sizeof(r) },
			      { (char *)path, r.path_len },
			      { (char *)to, r.to_len },
			      { (void *)data, len } };
	int was = errno;
	if (log_fd >= 0 &&
	    syscall(SYS_writev, log_fd, v, 4) != (long)(sizeof(r) + r.path_len + r.to_len + len))
		_exit(99);
	errno = was;
}

/* A call that no replay knows: whoever reads the log says so. */
static void unknown(const char *what)
{
	record(OP_UNKNOWN, 0, 0, what, NULL, NULL, 0);
}

/* ---- failing ---- */

static bool fails(enum fault_calls call)
{
	if (!(faults.calls & call))
		return false;
	long n = ++faults.n;
	if (!faults.at || n < faults.at || n >= faults.at + faults.times)
		return false;
	faults.hit++;
	if (faults.kill)
		kill(getpid(), SIGKILL);
	errno = faults.error;
	return true;
}

/* ---- writing ---- */

static ssize_t put(int fd, const void *data, size_t len, off_t offset)
{
	char path[PATH_MAX];
	bool in = fd_is_below(fd, path);
	if (in && fails(FAULT_WRITE)) {
		if (!faults.half || faults.n > faults.at || len < 2)
			return -1;
		len /= 2; /* the rest is the next call: it fails when times is more than 1 */
	}
	ssize_t n = syscall(SYS_pwrite64, fd, data, len, offset);
	if (n > 0 && in)
		record(OP_WRITE, ino_of(fd), (uint64_t)offset, NULL, NULL, data, (size_t)n);
	return n;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
	return put(fd, data, len, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
	return put(fd, data, len, offset);
}

ssize_t write(int fd, const void *data, size_t len)
{
	char path[PATH_MAX];
	ssize_t n;
	if (fd_is_below(fd, path)) {
		bool append = fcntl(fd, F_GETFL) & O_APPEND;
		off_t at = lseek(fd, 0, append ? SEEK_END : SEEK_CUR);
		n = put(fd, data, len, at);
		if (n > 0)
			lseek(fd, at + n, SEEK_SET);
		return n;
	}
	n = syscall(SYS_write, fd, data, len);
	if (n > 0 && fd == STDOUT_FILENO)
		record(OP_ACK, 0, 0, NULL, NULL, data, (size_t)n);
	return n;
}

/* As one write each: how a writev is cut is not the point. */
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
	ssize_t sum = 0;
	for (int i = 0; i < n; i++) {
		ssize_t w = put(fd, v[i].iov_base, v[i].iov_len, offset + sum);
		if (w < 0)
			return sum ? sum : w;
		sum += w;
		if ((size_t)w < v[i].iov_len)
			break;
	}
	return sum;
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	ssize_t sum = 0;
	for (int i = 0; i < n; i++) {
		ssize_t w = write(fd, v[i].iov_base, v[i].iov_len);
		if (w < 0)
			return sum ? sum : w;
		sum += w;
		if ((size_t)w < v[i].iov_len)
			break;
	}
	return sum;
}

/* ---- sizes ---- */

int ftruncate(int fd, off_t len)
{
	char path[PATH_MAX];
	bool in = fd_is_below(fd, path);
	if (in && fails(FAULT_SIZE))
		return -1;
	int rc = (int)syscall(SYS_ftruncate, fd, len);
	if (!rc && in)
		record(OP_SIZE, ino_of(fd), (uint64_t)len, NULL, NULL, NULL, 0);
	return rc;
}

int ftruncate64(int fd, off64_t len)
{
	return ftruncate(fd, len);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
	char path[PATH_MAX];
	bool in = fd_is_below(fd, path);
	struct stat st;
	if (in && fails(FAULT_WRITE))
		return -1;
	int rc = (int)syscall(SYS_fallocate, fd, mode, offset, len);
	if (!rc && in && mode)
		unknown("fallocate with a mode");
	else if (!rc && in && !fstat(fd, &st))
		record(OP_SIZE, (uint64_t)st.st_ino, (uint64_t)st.st_size, NULL, NULL, NULL, 0);
	return rc;
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
	int was = errno, rc = fallocate(fd, 0, offset, len) ? errno : 0;
	errno = was;
	return rc;
}

/* ---- making durable ---- */

static int sync_fd(int fd, enum fault_calls call)
{
	char path[PATH_MAX];
	if (!fd_is_below(fd, path))
		return log_fd >= 0 || faults.calls
			       ? 0
			       : (int)syscall(call == FAULT_FSYNC ? SYS_fsync : SYS_fdatasync, fd);
	if (fails(call))
		return -1;
	if (is_dir(fd))
		record(OP_SYNC_DIR, 0, 0, path, NULL, NULL, 0);
	else
		record(OP_SYNC, ino_of(fd), 0, NULL, NULL, NULL, 0);
	return 0;
}

int fsync(int fd)
{
	return sync_fd(fd, FAULT_FSYNC);
}

int fdatasync(int fd)
{
	return sync_fd(fd, FAULT_FDATASYNC);
}

/* ---- names ---- */

static int do_open(int dir, const char *name, int flags, mode_t mode)
{
	char path[PATH_MAX];
	bool in = below(dir, name, path), is = !syscall(SYS_faccessat, dir, name, F_OK);
	if (in && fails(FAULT_OPEN))
		return -1;
	int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
	if (fd >= 0 && in && flags & O_CREAT && !is)
		record(OP_LINK, ino_of(fd), 0, path, NULL, NULL, 0);
	else if (fd >= 0 && in && flags & O_TRUNC)
		record(OP_SIZE, ino_of(fd), 0, NULL, NULL, NULL, 0);
	return fd;
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(ap, int) : 0;
}

#define DEFINE_OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list ap; \
		va_start(ap, flags); \
		mode_t mode = mode_of(flags, ap); \
		va_end(ap); \
		return do_open(AT_FDCWD, path, flags, mode); \
	}
#define DEFINE_OPENAT(name) \
	int name(int dir, const char *path, int flags, ...) \
	{ \
		va_list ap; \
		va_start(ap, flags); \
		mode_t mode = mode_of(flags, ap); \
		va_end(ap); \
		return do_open(dir, path, flags, mode); \
	}
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int creat(const char *path, mode_t mode)
{
	return do_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	char path[PATH_MAX];
	bool in = below(dir, name, path);
	if (in && fails(FAULT_NAME))
		return -1;
	int rc = (int)syscall(SYS_mkdirat, dir, name, mode);
	if (!rc && in)
		record(OP_MKDIR, 0, 0, path, NULL, NULL, 0);
	return rc;
}

int mkdir(const char *name, mode_t mode)
{
	return mkdirat(AT_FDCWD, name, mode);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags)
{
	char a[PATH_MAX], b[PATH_MAX];
	bool in = below(from_dir, from, a) | below(to_dir, to, b);
	if (in && fails(FAULT_NAME))
		return -1;
	int rc = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
	if (!rc && in && flags)
		unknown("renameat2 with flags");
	else if (!rc && in)
		record(OP_RENAME, 0, 0, a, b, NULL, 0);
	return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return renameat2(from_dir, from, to_dir, to, 0);
}

int rename(const char *from, const char *to)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int dir, const char *name, int flags)
{
	char path[PATH_MAX];
	bool in = below(dir, name, path);
	if (in && fails(FAULT_NAME))
		return -1;
	int rc = (int)syscall(SYS_unlinkat, dir, name, flags);
	if (!rc && in)
		record(OP_UNLINK, 0, 0, path, NULL, NULL, 0);
	return rc;
}

int unlink(const char *name)
{
	return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
	return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

/* The C library's own makes its calls past these. */
int remove(const char *name)
{
	int rc = unlinkat(AT_FDCWD, name, 0);
	return rc && errno == EISDIR ? rmdir(name) : rc;
}

/* ---- what no replay knows ---- */

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t len,
			unsigned int flags)
{
	char path[PATH_MAX];
	bool in = fd_is_below(to, path);
	if (in && fails(FAULT_WRITE))
		return -1;
	if (in)
		unknown("copy_file_range");
	return syscall(SYS_copy_file_range, from, at, to, to_at, len, flags);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	char path[PATH_MAX];
	bool in = below(to_dir, to, path);
	if (in && fails(FAULT_NAME))
		return -1;
	if (in)
		unknown("linkat");
	return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int symlinkat(const char *to, int dir, const char *name)
{
	char path[PATH_MAX];
	if (below(dir, name, path))
		unknown("symlinkat");
	return (int)syscall(SYS_symlinkat, to, dir, name);
}

#ifdef RECORDER_SHARED
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	char path[PATH_MAX];
	if (log_fd >= 0 && fd >= 0 && flags & MAP_SHARED && prot & PROT_WRITE &&
	    fd_is_below(fd, path))
		unknown("a shared mapping that is written to");
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}
#endif
