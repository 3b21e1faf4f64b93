/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open the file of a mapping. The process controls the path: resolve it inside the root of that
 * process, without magic links, and never leave that root. A reader does this (reader.h), because
 * the process may make it hang.
 */
#include "proc/proc_int.h"
#include "proc/reader_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PARENTS 4

int proc_open_in_root(uint32_t tgid, uint32_t root, const char *file, struct proc_opened *ret)
{
	const struct reader_request q = { .op = OPEN_IN_ROOT, .tgid = tgid, .a = root };
	return proc_ask_file(&q, file, ret);
}

int proc_open_path(const char *path, bool place, struct proc_opened *ret)
{
	const struct reader_request q = { .op = OPEN_PATH, .tgid = (uint32_t)getpid(), .b = place };
	return proc_ask_file(&q, path, ret);
}

/* ---- roots that stay open ---- */

static int ask(const struct reader_request *q)
{
	struct buf none = BUF_INIT;
	int rc = reader_ask(q, NULL, &none, NULL);
	buf_fini(&none);
	return rc;
}

int proc_root_open(struct proc_root *io_root, uint32_t tgid)
{
	static uint64_t names;
	struct proc_root *r = io_root;
	int rc = r->name ? 0 : proc_identity(tgid, &r->inner, &r->uid);
	rc = rc || r->name ? rc : proc_start(tgid, &r->start);
	if (rc)
		return rc;
	r->tgid = tgid;
	r->name = r->name ? r->name : ++names;
	rc = ask(&(struct reader_request){ .op = ROOT_OPEN, .tgid = tgid, .a = r->name });
	if (rc && rc != -EINPROGRESS)
		r->name = 0;
	return rc;
}

/*
 * A new reader does not have this root: open it again. -ENOENT: the process is another by now.
 */
static int reopen(const struct proc_root *r)
{
	uint64_t start;
	int rc = proc_start(r->tgid, &start);
	if (rc || start != r->start)
		return -ENOENT;
	return ask(&(struct reader_request){ .op = ROOT_OPEN, .tgid = r->tgid, .a = r->name });
}

static int open_file(const struct proc_root *r, enum reader_op op, const char *file,
		     struct proc_opened *ret)
{
	const struct reader_request q = { .op = op, .tgid = r->tgid, .a = r->name, .b = r->uid };
	int rc = proc_ask_file(&q, file, ret);
	if (rc != -ESTALE)
		return rc;
	rc = reopen(r);
	rc = rc ? rc : proc_ask_file(&q, file, ret);
	return rc == -ESTALE ? -EINPROGRESS : rc; /* that reader ended, too */
}

int proc_root_file(const struct proc_root *r, const char *file, struct proc_opened *ret)
{
	return open_file(r, ROOT_FILE, file, ret);
}

int proc_root_tmp_file(const struct proc_root *r, const char *name, struct proc_opened *ret)
{
	return open_file(r, ROOT_TMP_FILE, name, ret);
}

int proc_root_tmp(const struct proc_root *r, int *ret_fd)
{
	struct proc_opened o;
	int rc = open_file(r, ROOT_TMP, "", &o);
	if (!rc)
		*ret_fd = o.fd;
	return rc;
}

void proc_root_close(struct proc_root *r)
{
	if (r->name)
		reader_close_root(&(struct reader_request){
			.op = ROOT_CLOSE, .tgid = r->tgid, .a = r->name });
	r->name = 0;
}

/* ---- mappings ---- */

/*
 * Return the process whose root the n-th try uses: the process, its parents, then 0 (ours). -ENOENT
 * past that.
 */
static int64_t nth_root(struct procs *p, const struct proc_image *im, unsigned n)
{
	for (unsigned i = 0; i < MAX_PARENTS && im; i++) {
		if (n-- == 0)
			return im->tgid;
		im = im->parent > 1 ? proc_newest(p, im->parent) : NULL;
	}
	return n == 0 ? 0 : -ENOENT;
}

int proc_map_open(struct procs *p, const struct proc_image *im, const struct proc_map *m,
		  unsigned *io_try, struct proc_opened *ret)
{
	int refused = 0;
	if (m->file->path[0] != '/')
		return -ENOENT;
	for (;;) {
		unsigned n = (*io_try)++;
		int rc;
		if (n == 0) {
			const struct reader_request q = {
				.op = OPEN_MAP, .tgid = im->tgid, .a = m->start, .b = m->end
			};
			rc = proc_ask_file(&q, NULL, ret);
		} else {
			int64_t root = nth_root(p, im, n - 1);
			if (root < 0)
				return refused ? refused : -ENOENT;
			rc = proc_open_in_root(im->tgid, (uint32_t)root, m->file->path, ret);
		}
		if (rc == -EINPROGRESS)
			(*io_try)--;
		if (!rc || rc == -EINTR || rc == -EINPROGRESS)
			return rc;
		if (rc == -EAGAIN || rc == -EBUSY)
			refused = rc;
	}
}
