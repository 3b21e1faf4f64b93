/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read one process from /proc, after its first sample or its first child. The kernel takes locks of
 * the process for maps, cmdline and memory: a reader reads those (reader.h). status, stat, cgroup
 * and the link exe take none and are read here.
 */
#include "proc/proc_int.h"
#include "proc/links.h"
#include "proc/reader_int.h"
#include "util/shared_text.h"
#include "util/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "wire.h"

/* Read at most cap - 1 bytes of a small file, and terminate them with NUL. */
static ssize_t read_small(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size_t len = 0;
	while (len < cap - 1) {
		ssize_t n = read(fd, out + len, cap - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	out[len] = 0;
	return (ssize_t)len;
}

int proc_identity(uint32_t tgid, uint32_t *ret_inner, uint32_t *ret_uid)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/%u/status", tgid);
	if (read_small(path, text, sizeof(text)) <= 0 ||
	    !proc_parse_status(text, tgid, ret_inner, ret_uid))
		return -ESRCH;
	return 0;
}

bool proc_has_ids_of_here(uint32_t tgid)
{
	char path[64], text[256];
	unsigned inside, here, n;
	int end = 0;
	snprintf(path, sizeof(path), "/proc/%u/uid_map", tgid);
	return read_small(path, text, sizeof(text)) > 0 &&
	       sscanf(text, "%u %u %u%n", &inside, &here, &n, &end) == 3 &&
	       !strcmp(text + end, "\n") && !inside && !here && n == UINT32_MAX;
}

static char *read_cgroup(uint32_t tgid)
{
	char path[64], text[8192];
	snprintf(path, sizeof(path), "/proc/%u/cgroup", proc_thread(tgid));
	if (read_small(path, text, sizeof(text)) <= 0)
		return NULL;
	const char *best = proc_parse_cgroups(text);
	return best ? shared_text_new(best) : NULL;
}

/* What /proc/TGID/stat says, and the target of /proc/TGID/exe. */
struct process {
	char text[1024];
	struct proc_stat stat;
	char exe[PATH_MAX]; /* "": none, or not readable */
};

static void read_exe(uint32_t tid, char out[PATH_MAX])
{
	char path[64];
	int fd = proc_link_open(tid, PROC_LINK_EXE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = fd < 0 ? 0 : readlink(path, out, PATH_MAX - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	proc_path_unmark(out);
}

static int read_stat(uint32_t tgid, struct process *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/stat", tgid);
	if (read_small(path, ret->text, sizeof(ret->text)) <= 0)
		return -ENOENT;
	return proc_parse_stat(ret->text, &ret->stat) ? 0 : -EBADMSG;
}

int proc_start(uint32_t tgid, uint64_t *ret)
{
	struct process found;
	int rc = read_stat(tgid, &found);
	if (!rc)
		*ret = found.stat.start_ns;
	return rc;
}

static void add_line(struct procs *p, struct proc_image *im, char *line)
{
	struct proc_line l;
	char *path;
	if (!proc_parse_line(line, &l, &path) || !l.exec)
		return;
	proc_path_unmark(path);
	if (!*path)
		path = (char *)"[anon]";
	struct proc_map m = { .start = l.start, .end = l.end, .pgoff = l.pgoff };
	proc_map_add(p, im, m, path, l.dev, l.ino, NULL, 0);
}

/* Send a request whose answer has exactly this many bytes. */
static int ask_bytes(const struct reader_request *q, const char *text, void *out, size_t len)
{
	struct buf reply = BUF_INIT;
	int rc = reader_ask(q, text, &reply, NULL);
	if (!rc && reply.len != len)
		rc = -EBADMSG;
	if (!rc)
		memcpy(out, reply.data, len);
	buf_fini(&reply);
	return rc;
}

int proc_line_at(uint32_t tgid, uint64_t addr, struct proc_line *ret)
{
	const struct reader_request q = { .op = READ_LINE, .tgid = tgid, .a = addr };
	int rc = ask_bytes(&q, NULL, ret, sizeof(*ret));
	if (!rc)
		ret->name[sizeof(ret->name) - 1] = 0;
	return rc;
}

int proc_find_mapping(uint32_t tgid, const char *texts, uint64_t *ret_start)
{
	const struct reader_request q = { .op = FIND_LINE, .tgid = tgid };
	return ask_bytes(&q, texts, ret_start, sizeof(*ret_start));
}

int proc_read_memory(uint32_t tgid, uint64_t addr, void *out, size_t len)
{
	const struct reader_request q = { .op = READ_MEMORY, .tgid = tgid, .a = addr, .b = len };
	int rc = ask_bytes(&q, NULL, out, len);
	return rc && rc != -EINPROGRESS ? -EFAULT : rc;
}

int proc_read_stack(uint32_t tgid, uint64_t addr, void *out, size_t cap, size_t *ret_len)
{
	const struct reader_request q = { .op = READ_STACK, .tgid = tgid, .a = addr, .b = cap };
	struct buf reply = BUF_INIT;
	int rc = reader_ask(&q, NULL, &reply, NULL);
	if (!rc && (reply.len > cap || !reply.len))
		rc = -EFAULT;
	if (!rc) {
		memcpy(out, reply.data, reply.len);
		*ret_len = reply.len;
	}
	buf_fini(&reply);
	return rc && rc != -EINPROGRESS ? -EFAULT : rc;
}

int proc_read_text(uint32_t tgid, const char *name, char *out, size_t cap, size_t *ret_len)
{
	const struct reader_request q = { .op = READ_TEXT, .tgid = tgid, .b = cap };
	struct buf reply = BUF_INIT;
	int rc = reader_ask(&q, name, &reply, NULL);
	if (!rc && reply.len > cap)
		rc = -EBADMSG;
	if (!rc && reply.len)
		memcpy(out, reply.data, reply.len);
	if (!rc)
		*ret_len = reply.len;
	buf_fini(&reply);
	return rc;
}

static void add_maps(struct procs *p, struct proc_image *im, char *text, char *end)
{
	char *newline;
	proc_maps_clear(p, im);
	for (char *line = text; line < end && (newline = memchr(line, '\n', (size_t)(end - line)));
	     line = newline + 1) {
		*newline = 0;
		add_line(p, im, line);
	}
}

/* ---- mappings ---- */

void proc_maps_answered(struct procs *p, struct proc_image *im)
{
	if (im->since) {
		proc_maps_clear(p, im->since);
		free(im->since);
	}
	im->since = NULL;
	im->asked_ns = 0;
}

/* Note that the answer is missing. Mappings of records from here on go on top of it. */
static void await_maps(const struct procs *p, struct proc_image *im)
{
	if (im->asked_ns)
		return;
	im->since = calloc(1, sizeof(*im->since));
	if (im->since)
		im->since->tgid = im->tgid;
	im->asked_ns = proc_now_ns();
	im->asked_gap = p->gap;
}

/* Put mappings on top of those of an image. */
static void add_on_top(struct procs *p, struct proc_image *im, const struct proc_image *more)
{
	for (uint32_t i = 0; i < more->n_maps; i++) {
		const struct proc_map *m = &more->maps[i], *is = proc_image_map(im, m->start);
		const struct proc_file *f = m->file;
		if (!is || memcmp(is, m, sizeof(*m)))
			proc_map_add(p, im, *m, f->path, f->dev, f->ino, f->build_id,
				     f->build_id_len);
	}
}

/* Apply the lines of READ_MAPS. asked_ns: when they were asked for at the latest. */
static void set_maps(struct procs *p, struct proc_image *im, struct buf *reply, uint64_t asked_ns,
		     uint32_t gap)
{
	add_maps(p, im, (char *)reply->data, (char *)reply->data + reply->len);
	if (im->since)
		add_on_top(p, im, im->since);
	im->complete = true;
	im->heir = false;
	im->gap = gap;
	im->read_ns = asked_ns;
	im->tried_ns = 0;
}

/*
 * False where the process runs another program by now, and the record of that is missing or not
 * read yet.
 */
static bool runs_program(const struct proc_image *im)
{
	char exe[PATH_MAX];
	if (im->to_ns != UINT64_MAX || !im->exe)
		return true;
	read_exe(proc_thread(im->tgid), exe);
	return !exe[0] || !strcmp(exe, im->exe->path);
}

/*
 * Ask for the mappings, or take the answer. -EINPROGRESS: it has not come yet. -ESRCH: it is of a
 * later program, or the process has ended.
 */
static int read_maps(struct procs *p, struct proc_image *im)
{
	const struct reader_request q = { .op = READ_MAPS, .tgid = im->tgid, .b = im->from_ns };
	struct buf reply = BUF_INIT;
	uint64_t asked_ns = im->asked_ns ? im->asked_ns : proc_now_ns(), read_ns;
	uint32_t gap = im->asked_ns ? im->asked_gap : p->gap;
	p->n_reads += !im->asked_ns;
	int rc = reader_ask(&q, NULL, &reply, NULL);
	if (!rc && reply.len < sizeof(read_ns))
		rc = -EBADMSG;
	if (!rc) {
		reply.len -= sizeof(read_ns);
		memcpy(&read_ns, reply.data + reply.len, sizeof(read_ns));
		rc = read_ns > im->to_ns || (im->asked_ns && !runs_program(im)) ? -ESRCH : 0;
	}
	if (!rc)
		set_maps(p, im, &reply, asked_ns, gap);
	if (rc == -EINPROGRESS)
		await_maps(p, im);
	else
		proc_maps_answered(p, im);
	if (rc && rc != -EINPROGRESS)
		im->tried_ns = proc_now_ns();
	buf_fini(&reply);
	return rc;
}

/* Take the mappings that an image waits for, if they have come. */
static void take_maps(struct procs *p, struct proc_image *im)
{
	if (!read_maps(p, im) && im->exe)
		proc_set_exe(p, im, im->exe->path);
}

#define ANCESTORS_MAX 32 /* of an heir */

/*
 * Give an image that has ended the mappings of the process that forked it, or was to have them from
 * its own parent. They may have come by now.
 */
static void inherit_maps(struct procs *p, struct proc_image *im)
{
	struct proc_image *from = im;
	for (int i = 0; i < ANCESTORS_MAX && from && from->heir; i++) {
		from = procs_find(p, from->parent, from->from_ns);
		if (from && from->asked_ns)
			take_maps(p, from);
	}
	if (from && from->asked_ns)
		return;
	im->heir = false;
	if (!from)
		return;
	struct proc_image own = { .maps = im->maps, .n_maps = im->n_maps };
	im->maps = NULL;
	im->n_maps = 0;
	proc_maps_share(im, from);
	add_on_top(p, im, &own);
	proc_maps_clear(p, &own);
}

/* ---- one process ---- */

void proc_image_read_cgroup(struct proc_image *im)
{
	char *cgroup = im->cgroup_inherited ? read_cgroup(im->tgid) : NULL;
	im->cgroup_inherited = false;
	if (!cgroup)
		return;
	shared_text_put(im->cgroup);
	im->cgroup = cgroup;
}

/* Make a command line printable, in place: at most PROC_CMDLINE_MAX bytes, and a NUL. */
static void clean_cmdline(char *text, size_t len)
{
	size_t out = 0, n;
	while (len && !text[len - 1])
		len--;
	for (size_t i = 0; i < len; i += n) {
		n = utf8_char(text + i, len - i);
		bool hidden = !n || utf8_is_hidden(text + i, n);
		char c = text[i] ? '?' : ' ';
		n = n ? n : 1;
		if (out + (hidden ? 1 : n) > PROC_CMDLINE_MAX)
			break;
		if (hidden)
			text[out++] = c;
		else
			memmove(text + out, text + i, n);
		out += hidden ? 0 : n;
	}
	text[out] = '\0';
}

#define CMDLINE_TEXT (PROC_CMDLINE_MAX + 8) /* a character that is cut has no place to be shown */

void proc_image_set_cmdline(struct proc_image *im, const char *arguments, size_t len)
{
	char text[CMDLINE_TEXT];
	if (im->cmdline_read || !len || proc_image_is_kernel(im))
		return;
	len = len < sizeof(text) - 1 ? len : sizeof(text) - 1;
	memcpy(text, arguments, len);
	clean_cmdline(text, len);
	im->cmdline = shared_text_new(text);
	im->cmdline_read = true;
	im->cmdline_late = false;
}

void proc_image_read_cmdline(struct proc_image *im)
{
	char text[CMDLINE_TEXT];
	size_t len = 0;
	if (im->cmdline_read || im->to_ns != UINT64_MAX || proc_image_is_kernel(im))
		return;
	int rc = proc_read_text(im->tgid, "cmdline", text, sizeof(text) - 1, &len);
	im->cmdline_late = rc == -EINPROGRESS || rc == -EINTR;
	if (im->cmdline_late)
		return;
	if (rc || !len || !runs_program(im)) {
		im->cmdline_read = rc != 0; /* in the middle of an exec there is nothing to read */
		return;
	}
	proc_image_set_cmdline(im, text, len);
}

bool proc_image_is_since(const struct proc_image *im, uint64_t start_ns)
{
	if (im->start_ns)
		return im->start_ns - start_ns < PROC_TICK_NS;
	if (im->tick_ns)
		return im->tick_ns == start_ns;
	if (im->to_ns != UINT64_MAX)
		return start_ns + PROC_TICK_NS <= im->to_ns;
	return proc_image_holds(im, start_ns);
}

/*
 * Return the begin of the image that /proc shows, where a record is missing; 0 when the newest
 * image is the same. id: the identity in a row at ns, or NULL. Without a row the time of the exec
 * is unknown: return now, because rows of the program before the exec have earlier times.
 */
static uint64_t missed(const struct proc_image *im, const struct process *found,
		       const struct proc_id *id, uint64_t ns, uint64_t now)
{
	if (!proc_image_is_since(im, found->stat.start_ns))
		return found->stat.start_ns;
	if (id && im->exec_known && im->exec_id != id->exec_id)
		return ns;
	return found->exe[0] && im->exe && strcmp(found->exe, im->exe->path) ? now : 0;
}

/*
 * Return the image of a process, a new one where its begin was missed. NULL: no memory, or it has
 * ended by now.
 */
static struct proc_image *image_for(struct procs *p, uint32_t tgid, const struct process *found,
				    const struct proc_id *id, uint64_t ns, uint64_t now)
{
	struct proc_image *im = proc_newest(p, tgid);
	uint64_t begin = im ? missed(im, found, id, ns, now) : 0;
	if (im && !begin)
		return im->to_ns == UINT64_MAX ? im : NULL;
	return proc_image_add(p, tgid, begin);
}

/* Without the record of its fork, name the parent that it has now. */
static void read_parent(struct proc_image *im)
{
	struct process parent;
	if (im->parent_comm[0] || !im->parent || proc_image_is_kernel(im) ||
	    read_stat(im->parent, &parent))
		return;
	snprintf(im->parent_comm, sizeof(im->parent_comm), "%.*s", PROC_COMM_SIZE,
		 parent.stat.comm);
}

static int read_process(struct procs *p, uint32_t tgid, const struct proc_id *id, uint64_t ns,
			enum proc_need need)
{
	uint64_t now = proc_now_ns();
	struct process found;
	int rc = read_stat(tgid, &found);
	if (rc)
		return rc;
	uint32_t tid = strchr("ZXx", found.stat.state) ? proc_thread(tgid) : tgid;
	read_exe(tid, found.exe);
	const struct proc_image *bound = id ? procs_lookup(p, id) : NULL;
	struct proc_image *im = image_for(p, tgid, &found, id, ns, now);
	if (!im)
		return -ESRCH;
	/*
	 * Where the record of an exec is missing, /proc may show the program after the one with
	 * this identity.
	 */
	if (id && (!bound || bound == im) && id->start_ns - found.stat.start_ns < PROC_TICK_NS)
		proc_image_bind(im, id, ns);
	proc_set_comm(im, found.stat.comm);
	im->parent = found.stat.parent;
	read_parent(im);
	im->tick_ns = found.stat.start_ns;
	im->cgroup_inherited = im->named = true;
	im->threaded |= found.stat.n_threads > 1;
	if (tid != tgid)
		proc_image_leaderless(p, im);
	if (need == PROC_MAPS) {
		proc_image_read_cgroup(im);
		rc = read_maps(p, im);
	}
	if (found.exe[0])
		proc_set_exe(p, im, found.exe);
	return rc;
}

int procs_scan_one(struct procs *p, uint32_t tgid)
{
	return read_process(p, tgid, NULL, 0, PROC_MAPS);
}

/*
 * True within PROC_RETRY_NS of a failure: do not read a process that hangs again for each sample.
 */
static bool was_tried(const struct proc_image *im)
{
	return im->tried_ns && proc_now_ns() - im->tried_ns < PROC_RETRY_NS;
}

/*
 * True within PROC_RETRY_NS of a read: a process that makes the kernel drop records all the time
 * does not have all others read again each time.
 */
static bool was_read(const struct proc_image *im)
{
	return im->complete && im->read_ns && proc_now_ns() - im->read_ns < PROC_RETRY_NS;
}

struct proc_image *procs_identify(struct procs *p, const struct proc_id *id, uint64_t ns,
				  enum proc_need need)
{
	struct proc_image *im = proc_image_of(p, id, ns), *newest = proc_newest(p, id->tgid);
	if (id->tgid & ID_HIDDEN)
		return NULL;
	if (im && im->asked_ns && need == PROC_MAPS) {
		take_maps(p, im);
		return im;
	}
	if (im && proc_image_is_late(im) && need == PROC_MAPS)
		inherit_maps(p, im);
	if (im && (im != newest || im->to_ns != UINT64_MAX))
		return im;
	if (im && (need == PROC_MAPS ? proc_image_is_read(p, im) || was_tried(im) || was_read(im)
				     : im->named))
		return im;
	if (!im && newest && (ns < newest->from_ns || proc_is_past(newest, id)))
		return NULL; /* of an earlier image: /proc shows the newest one */
	read_process(p, id->tgid, id, ns, need);
	return proc_image_of(p, id, ns);
}

uint64_t procs_reads(const struct procs *p)
{
	return p->n_reads;
}
