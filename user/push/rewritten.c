/* SPDX-License-Identifier: Apache-2.0 */
#include "push/rewritten.h"

#include "push/queue.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct rewriting {
	struct store *from, *to;
	struct store_cover old, new; /* all windows, in order of their numbers */
	const char *to_dir;
};

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	return n >= m && !strcmp(name + n - m, end);
}

/* The earliest window that is still to be sent; NULL: all were. */
static const struct store_block *first_unsent(const struct rewriting *r,
					      const struct push_cursor *c, bool *ret_next)
{
	const struct store_block *first = NULL, *next = NULL;
	for (size_t i = 0; i < r->old.n; i++) {
		const struct store_block *b = r->old.blocks[i];
		if (b->window_hi <= c->window)
			continue;
		next = next ? next : b;
		first = !first || b->t0_ns < first->t0_ns ? b : first;
	}
	*ret_next = first == next;
	return first;
}

static void move_cursor(const struct rewriting *r, struct push_cursor *c)
{
	bool next;
	const struct store_block *unsent = first_unsent(r, c, &next);
	size_t i = 0;
	while (i < r->new.n && (!unsent || r->new.blocks[i]->t0_ns < unsent->t0_ns))
		i++;
	c->store = store_id(r->to);
	c->window = i < r->new.n ? r->new.blocks[i]->window_lo
		    : i		 ? r->new.blocks[i - 1]->window_hi
				 : 0;
	c->row = 0;
	if (!next)
		c->event[0] = 0;
}

static int move_file(const struct rewriting *r, const char *from_dir, const char *name,
		     struct err *err)
{
	char path[sizeof(((struct push_cursor *)0)->path)];
	struct push_cursor c;
	int rc = snprintf(path, sizeof(path), "%s/push/%s", from_dir, name) < (int)sizeof(path)
			 ? push_cursor_read(&c, path, r->from, NULL)
			 : -ENAMETOOLONG;
	if (rc == -EBADMSG || rc == -EINVAL)
		return 0;
	if (rc)
		return err_sys(err, rc, "the cursor %s", path);
	move_cursor(r, &c);
	if (snprintf(c.path, sizeof(c.path), "%s/push/%s", r->to_dir, name) >= (int)sizeof(c.path))
		return err_set(err, -ENAMETOOLONG, "the cursor %s: too long a name", name);
	return push_cursor_write(&c, err);
}

static int move_files(const struct rewriting *r, const char *from_dir, DIR *d, struct err *err)
{
	char dir[1024];
	int rc = 0;
	if (snprintf(dir, sizeof(dir), "%s/push", r->to_dir) >= (int)sizeof(dir))
		return err_set(err, -ENAMETOOLONG, "%s: too long a name", r->to_dir);
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(err, -errno, "cannot make the directory %s", dir);
	for (struct dirent *e; !rc && (e = readdir(d));)
		if (e->d_name[0] != '.' && !ends_in(e->d_name, ".lock") &&
		    !ends_in(e->d_name, ".new"))
			rc = move_file(r, from_dir, e->d_name, err);
	return rc;
}

int push_cursors_move(const char *from, const char *to, struct err *err)
{
	struct rewriting r = { .to_dir = to };
	char path[1024];
	DIR *d = snprintf(path, sizeof(path), "%s/push", from) < (int)sizeof(path) ? opendir(path)
										   : NULL;
	if (!d)
		return 0; /* nothing was sent from there */
	int rc = store_open(&r.from, from, err);
	rc = rc ? rc : store_open(&r.to, to, err);
	rc = rc ? rc : push_queue_cover(r.from, &r.old, err);
	rc = rc ? rc : push_queue_cover(r.to, &r.new, err);
	rc = rc ? rc : move_files(&r, from, d, err);
	closedir(d);
	store_cover_free(&r.old);
	store_cover_free(&r.new);
	store_close(r.from);
	store_close(r.to);
	return rc;
}
