/* SPDX-License-Identifier: Apache-2.0 */
#include "push/cursor.h"

#include "util/buf.h"
#include "util/crc32c.h"
#include "util/write_at.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 2048

static ssize_t read_file(const char *path, char *text, int64_t *ret_written_ns)
{
	struct stat st = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	ssize_t n = fstat(fd, &st) ? -1 : read(fd, text, FILE_MAX - 1);
	int e = errno;
	*ret_written_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	close(fd);
	return n < 0 ? -e : n;
}

/* The lines, or -EBADMSG. */
static int parse(struct push_cursor *c, char *text, size_t len)
{
	uint32_t crc;
	int end = 0;
	text[len] = 0;
	char *last = strstr(text, "\ncrc ");
	if (!last || sscanf(last, "\ncrc %8" SCNx32 "%n", &crc, &end) != 1 ||
	    strcmp(last + end, "\n") || crc32c(text, (size_t)(last + 1 - text)) != crc)
		return -EBADMSG;
	last[1] = 0;
	end = 0;
	c->event[0] = 0;
	if (sscanf(text,
		   "ascribe push cursor 1\nstore %" SCNx64 "\nwindow %" SCNu32 "\nrow %" SCNu64
		   "\nevent%n",
		   &c->store, &c->window, &c->row, &end) != 3 ||
	    !end)
		return -EBADMSG;
	if (text[end] == ' ')
		sscanf(text + end + 1, "%199[^\n]", c->event);
	last = strstr(text, "\nagain ");
	c->again = 0;
	return last && sscanf(last, "\nagain %" SCNu32, &c->again) != 1 ? -EBADMSG : 0;
}

int push_cursor_read(struct push_cursor *c, const char *path, const struct store *s,
		     struct err *err)
{
	char text[FILE_MAX];
	*c = (struct push_cursor){ .store = store_id(s) };
	if (snprintf(c->path, sizeof(c->path), "%s", path) >= (int)sizeof(c->path))
		return err_set(err, -ENAMETOOLONG, "cursor: %.40s...: too long a name", path);
	ssize_t n = read_file(path, text, &c->written_ns);
	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return err_sys(err, (int)n, "cannot read the cursor %s", path);
	if (parse(c, text, (size_t)n))
		return err_set(err, -EBADMSG,
			       "the cursor %s is damaged: remove it to send all windows again, or "
			       "name another one",
			       path);
	if (c->store != store_id(s))
		return err_set(err, -EINVAL,
			       "the cursor %s is of another store, or the store was written anew "
			       "since: remove it and begin with --from, or name another one",
			       path);
	c->there = true;
	return 0;
}

int push_cursor_lock(const char *path, struct err *err)
{
	char lock[sizeof(((struct push_cursor *)0)->path) + 8];
	snprintf(lock, sizeof(lock), "%s.lock", path);
	int fd = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "cannot write the cursor %s", path);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 0; /* open until the end */
	int rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return rc == -EBUSY ? err_set(err, rc, "another process sends by the cursor %s", path)
			    : err_sys(err, rc, "cannot lock the cursor %s", path);
}

static int put(const struct push_cursor *c, const struct buf *text)
{
	char temp[sizeof(c->path) + 8];
	snprintf(temp, sizeof(temp), "%s.new", c->path);
	int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int rc = write_at(fd, text->data, text->len, 0);
	if (!rc && fdatasync(fd))
		rc = -errno;
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc && rename(temp, c->path))
		rc = -errno;
	if (rc)
		unlink(temp);
	return rc;
}

int push_cursor_write(const struct push_cursor *c, struct err *err)
{
	struct buf text = BUF_INIT;
	int rc = buf_printf(&text,
			    "ascribe push cursor 1\nstore %016" PRIx64 "\nwindow %" PRIu32
			    "\nrow %" PRIu64 "\nevent %s\n",
			    c->store, c->window, c->row, c->event);
	if (!rc && c->again)
		rc = buf_printf(&text, "again %" PRIu32 "\n", c->again);
	rc = rc ? rc : buf_printf(&text, "crc %08" PRIx32 "\n", crc32c(text.data, text.len));
	rc = rc ? rc : put(c, &text);
	buf_fini(&text);
	return rc ? err_sys(err, rc, "cannot write the cursor %s", c->path) : 0;
}

void push_cursor_advance(struct push_cursor *c, uint32_t window)
{
	c->window = window;
	push_cursor_advance_row(c, "", 0);
}

void push_cursor_advance_row(struct push_cursor *c, const char *event, uint64_t row)
{
	snprintf(c->event, sizeof(c->event), "%s", event);
	c->row = row;
	c->again = 0;
}
