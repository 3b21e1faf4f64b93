/* SPDX-License-Identifier: Apache-2.0 */
/* The process table: add images, apply records of the side-band, remove images that ended. */
#include "proc/proc_int.h"
#include "util/clock.h"
#include "util/shared_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Processes to look up in /proc in one procs_forget, after a loss of records */
#define SWEEP_MAX 1024
/*
 * The kernel increments exec_id some us after it writes the record of the exec; on virtual CPUs
 * that do not run, 11 ms were seen.
 */
#define EXEC_NS 30000000u

uint64_t proc_now_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

int procs_new(struct procs **ret, void (*release_file)(void *))
{
	struct procs *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->release_file = release_file;
	p->file_quota.max = PROC_FILES_BYTES_MAX;
	p->cgroup_mount = -1;
	*ret = p;
	return 0;
}

void procs_on_end(struct procs *p, enum proc_layer layer,
		  void (*on_end)(void *ctx, struct proc_image *im), void *ctx)
{
	p->layer[layer].on_end = on_end;
	p->layer[layer].ctx = ctx;
}

/* ---- the table ---- */

static struct proc_image **image_bucket(struct procs *p, uint32_t tgid)
{
	return &p->images[(tgid * 0x9e3779b1u) >> (32 - IMAGE_BITS)];
}

struct proc_image *proc_newest(struct procs *p, uint32_t tgid)
{
	struct proc_image *im = *image_bucket(p, tgid);
	while (im && im->tgid != tgid)
		im = im->next;
	return im;
}

static void move_to(struct procs *p, struct proc_image *im, enum proc_state state)
{
	list_remove(&p->list[im->state], &im->node);
	im->state = state;
	list_append(&p->list[state], &im->node);
}

void proc_image_end(struct procs *p, struct proc_image *im, uint64_t ns)
{
	if (im->to_ns > ns)
		im->to_ns = ns;
	im->settled |= im->gap == p->gap;
	if (im->state != PROC_LIVES && im->state != PROC_LEADERLESS)
		return;
	move_to(p, im, PROC_ENDED);
	p->n_ended_unread++;
}

void proc_image_leaderless(struct procs *p, struct proc_image *im)
{
	im->leader_exited = true;
	if (im->state == PROC_LIVES)
		move_to(p, im, PROC_LEADERLESS);
}

static void report_end(struct procs *p, struct proc_image *im, enum proc_layer layer)
{
	if (im->layer[layer] && p->layer[layer].on_end)
		p->layer[layer].on_end(p->layer[layer].ctx, im);
}

static void image_free(struct procs *p, struct proc_image *im)
{
	for (enum proc_layer l = 0; l < PROC_LAYERS; l++)
		report_end(p, im, l);
	list_remove(&p->list[im->state], &im->node);
	proc_maps_answered(p, im);
	proc_maps_clear(p, im);
	proc_file_put(p, im->exe);
	shared_text_put(im->cgroup);
	shared_text_put(im->cmdline);
	free(im);
	p->bytes -= sizeof(*im);
}

struct proc_image *proc_image_add(struct procs *p, uint32_t tgid, uint64_t from_ns)
{
	struct proc_image *im = calloc(1, sizeof(*im)), **at = image_bucket(p, tgid);
	if (!im)
		return NULL;
	im->tgid = tgid;
	im->from_ns = from_ns;
	im->to_ns = UINT64_MAX;
	im->gap = im->swept = p->gap;
	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	im->older = *at;
	if (*at) {
		im->next = (*at)->next;
		(*at)->next = NULL;
		proc_image_end(p, *at, from_ns);
	}
	*at = im;
	p->bytes += sizeof(*im);
	list_append(&p->list[PROC_LIVES], &im->node);
	return im;
}

void proc_set_comm(struct proc_image *im, const char *comm)
{
	snprintf(im->comm, sizeof(im->comm), "%.*s", PROC_COMM_SIZE, comm);
}

/* ---- the image of a row ---- */

bool proc_image_holds(const struct proc_image *im, uint64_t start_ns)
{
	if (im->start_ns)
		return im->start_ns == start_ns;
	if (im->tick_ns)
		return start_ns < im->tick_ns + 2 * PROC_TICK_NS &&
		       im->tick_ns < start_ns + PROC_TICK_NS;
	uint64_t seen = im->from_ns ? im->from_ns : im->read_ns; /* the process was running then */
	return !seen || start_ns <= seen + PROC_TICK_NS;
}

static bool is_of(const struct proc_image *im, const struct proc_id *id)
{
	return im->exec_known && im->exec_id == id->exec_id && im->start_ns == id->start_ns;
}

struct proc_image *procs_lookup(struct procs *p, const struct proc_id *id)
{
	struct proc_image *im = proc_newest(p, id->tgid);
	while (im && !is_of(im, id))
		im = im->older;
	return im;
}

bool proc_image_bind(struct proc_image *im, const struct proc_id *id, uint64_t ns)
{
	bool corrected = im->exec_doubtful && id->exec_id == im->exec_id + 1;
	if (!proc_image_holds(im, id->start_ns) ||
	    (im->exec_known && im->exec_id != id->exec_id && !corrected))
		return false;
	/* A row from between the record of an exec and the increment of exec_id has the old id. */
	if (!im->exec_known || im->exec_doubtful)
		im->exec_doubtful = !corrected && im->by_exec && ns - im->from_ns < EXEC_NS;
	im->start_ns = id->start_ns;
	im->exec_id = id->exec_id;
	im->exec_known = true;
	return true;
}

/* False where a lost record may say that another image ran at ns. */
static bool is_certain(const struct procs *p, const struct proc_image *im, uint64_t ns)
{
	return im->settled || im->gap == p->gap || (im->gap + 1 == p->gap && ns < p->lost_from_ns);
}

struct proc_image *proc_image_of(struct procs *p, const struct proc_id *id, uint64_t ns)
{
	struct proc_image *im = procs_lookup(p, id);
	if (im)
		return im;
	im = procs_find(p, id->tgid, ns);
	if (!im || !is_certain(p, im, ns))
		return NULL;
	return proc_image_bind(im, id, ns) ? im : NULL;
}

bool proc_is_past(const struct proc_image *newest, const struct proc_id *id)
{
	if (newest->start_ns && newest->start_ns != id->start_ns)
		return newest->start_ns > id->start_ns;
	return newest->exec_known && (int32_t)(id->exec_id - newest->exec_id) < 0;
}

struct proc_image *procs_find(struct procs *p, uint32_t tgid, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	while (im && im->from_ns > ns)
		im = im->older;
	return im;
}

/* ---- records of the side-band ---- */

/*
 * True for a record older than the image, or older than the read of /proc that created the image.
 */
static bool is_old_news(const struct proc_image *im, uint64_t ns)
{
	return im && (ns < im->read_ns || ns < im->from_ns);
}

static void copy_origin(struct proc_image *to, const struct proc_image *from)
{
	proc_set_comm(to, from->comm);
	to->cgroup = shared_text_get(from->cgroup);
	to->cmdline = shared_text_get(from->cmdline);
	to->cmdline_read = from->cmdline_read;
	to->exe = from->exe;
	if (to->exe)
		to->exe->refs++;
}

/* Return the image that forked at ns. Read it from /proc if it is missing. */
static struct proc_image *forking(struct procs *p, uint32_t parent, uint64_t ns)
{
	struct proc_image *from = proc_newest(p, parent);
	if (!from || (from->to_ns == UINT64_MAX && !proc_image_is_read(p, from))) {
		procs_scan_one(p, parent);
		from = proc_newest(p, parent);
	}
	while (from && from->from_ns > ns && from->older)
		from = from->older;
	return from;
}

void procs_fork(struct procs *p, uint32_t tgid, uint32_t parent, uint64_t ns)
{
	if (is_old_news(proc_newest(p, tgid), ns))
		return;
	struct proc_image *im = proc_image_add(p, tgid, ns), *from = forking(p, parent, ns);
	if (!im)
		return;
	im->parent = parent;
	im->cgroup_inherited = true;
	if (!from)
		return;
	copy_origin(im, from);
	memcpy(im->parent_comm, from->comm, sizeof(im->parent_comm));
	proc_maps_share(im, from);
	im->heir = from->asked_ns || from->heir;
	im->named = from->named;
	/*
	 * Mappings read after the fork may be of another program: incomplete, until the child
	 * itself is read.
	 */
	im->complete = proc_image_is_read(p, from) && from->read_ns <= ns && from->from_ns <= ns;
	im->exec_known = from->exec_known && im->complete;
	im->exec_doubtful = from->exec_doubtful;
	im->exec_id = from->exec_id;
}

void procs_thread(struct procs *p, uint32_t tgid)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (im)
		im->threaded = true;
}

void procs_exec(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns)
{
	struct proc_image *old = proc_newest(p, tgid);
	if (is_old_news(old, ns))
		return;
	struct proc_image *im = proc_image_add(p, tgid, ns);
	if (!im)
		return;
	proc_set_comm(im, comm);
	im->cgroup_inherited = true;
	im->by_exec = im->named = im->complete = true;
	if (!old)
		return;
	im->parent = old->parent;
	memcpy(im->parent_comm, old->parent_comm, sizeof(im->parent_comm));
	im->cgroup = shared_text_get(old->cgroup);
	im->start_ns = old->start_ns;
	im->tick_ns = old->tick_ns;
	/* else an exec may have been missed */
	im->exec_known = old->exec_known && old->gap == p->gap;
	im->exec_doubtful = old->exec_doubtful;
	im->exec_id = old->exec_id + 1;
}

void procs_comm(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (im && !is_old_news(im, ns))
		proc_set_comm(im, comm);
}

void procs_exit(struct procs *p, uint32_t tgid, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (!im || is_old_news(im, ns))
		return;
	im->leader_exited = true;
	im->leader_exit_ns = ns;
	/*
	 * Where a record is missing, or /proc was not read, there may be threads without a record.
	 */
	if (im->threaded || im->gap != p->gap || (!im->from_ns && !im->read_ns))
		proc_image_leaderless(p, im);
	else
		proc_image_end(p, im, ns);
}

struct proc_file *procs_mmap(struct procs *p, uint32_t tgid, uint64_t start, uint64_t len,
			     uint64_t pgoff, const char *path, uint64_t dev, uint64_t ino,
			     const uint8_t *id, size_t id_len, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (is_old_news(im, ns) || len > UINT64_MAX - start)
		return NULL;
	if (!im)
		im = proc_image_add(p, tgid, 0);
	if (!im)
		return NULL;
	struct proc_map m = { .start = start, .end = start + len, .pgoff = pgoff };
	struct proc_file *f = proc_map_add(p, im, m, path, dev, ino, id, id_len);
	/* That code was unmapped, no record says: /proc does. */
	if (!f && im->n_maps + 2 > PROC_MAPS_MAX && ns > im->read_ns + PROC_FULL_RETRY_NS)
		im->complete = false;
	if (im->since && ns >= im->asked_ns)
		proc_map_add(p, im->since, m, path, dev, ino, id, id_len);
	/* The kernel maps the executable itself before its interpreter. */
	if (f && !im->exe && im->by_exec && path[0] == '/') {
		im->exe = f;
		f->refs++;
	}
	return f;
}

void procs_lost(struct procs *p, uint64_t since_ns)
{
	p->gap++;
	p->lost_from_ns = since_ns;
}

/* ---- removing ---- */

/* Remove one image from the table; older images of its tgid stay. */
static void image_remove(struct procs *p, struct proc_image *im)
{
	struct proc_image **at = image_bucket(p, im->tgid);
	while ((*at)->tgid != im->tgid)
		at = &(*at)->next;
	if (*at == im) {
		*at = im->older ? im->older : im->next;
		if (im->older)
			im->older->next = im->next;
	} else {
		for (at = &(*at)->older; *at != im;)
			at = &(*at)->older;
		*at = im->older;
	}
	image_free(p, im);
}

static struct proc_image *first_of(const struct procs *p, enum proc_state state)
{
	return LIST_ENTRY(p->list[state].first, struct proc_image, node);
}

static struct proc_image *after(const struct proc_image *im)
{
	return LIST_ENTRY(im->node.after, struct proc_image, node);
}

/* End the leaderless images without a running thread. */
static void end_leaderless(struct procs *p)
{
	for (struct proc_image *im = first_of(p, PROC_LEADERLESS), *next; im; im = next) {
		next = after(im);
		if (!proc_image_alive(im))
			proc_image_end(p, im, proc_now_ns());
	}
}

/* The record of an exit may be lost: look up some of the processes from before the loss. */
static void sweep(struct procs *p)
{
	struct proc_image *im;
	uint64_t start;
	for (unsigned i = 0; i < SWEEP_MAX && (im = first_of(p, PROC_LIVES)) && im->swept != p->gap;
	     i++) {
		im->swept = p->gap;
		if (proc_start(im->tgid, &start) || !proc_image_is_since(im, start))
			proc_image_end(p, im, proc_now_ns());
		else if (!proc_thread(im->tgid))
			proc_image_leaderless(p, im);
		else
			move_to(p, im, PROC_LIVES);
	}
}

void procs_report_ended(struct procs *p, enum proc_layer layer)
{
	end_leaderless(p);
	for (struct proc_image *im = first_of(p, PROC_ENDED); im; im = after(im))
		report_end(p, im, layer);
}

void procs_forget(struct procs *p, uint64_t ns)
{
	struct proc_image *im;
	sweep(p);
	end_leaderless(p);
	while ((im = first_of(p, PROC_ENDED))) {
		for (enum proc_layer l = 0; l < PROC_LAYERS; l++)
			report_end(p, im, l);
		move_to(p, im, PROC_REPORTED);
	}
	while ((im = first_of(p, PROC_REPORTED)) && im->to_ns < ns)
		image_remove(p, im);
}

static size_t n_ended(const struct procs *p)
{
	return p->list[PROC_ENDED].n + p->list[PROC_REPORTED].n;
}

void procs_read(struct procs *p, uint64_t ns)
{
	p->read_ns = ns;
	p->n_ended_unread = 0;
}

bool procs_read_is_due(const struct procs *p)
{
	return p->n_ended_unread >= PROC_UNREAD_DUE;
}

/* The ended image that goes next; NULL: all are below their limits. */
static struct proc_image *next_to_trim(const struct procs *p)
{
	struct proc_image *im = first_of(p, PROC_REPORTED);
	im = im ? im : first_of(p, PROC_ENDED);
	bool over = n_ended(p) > PROC_ENDED_MAX || p->bytes > PROC_IMAGES_BYTES_MAX;
	over |= im && n_ended(p) > PROC_READ_MAX && im->to_ns < p->read_ns;
	return over ? im : NULL;
}

size_t procs_trim(struct procs *p)
{
	size_t n = 0;
	struct proc_image *im;
	while ((im = next_to_trim(p))) {
		n += im->to_ns >= p->read_ns;
		image_remove(p, im);
	}
	/* Then live images that were never sampled; /proc has them when they are. */
	for (size_t left = p->list[PROC_LIVES].n; left && p->bytes > PROC_IMAGES_BYTES_MAX;
	     left--) {
		im = first_of(p, PROC_LIVES);
		bool needed = im->older;
		if (im->swept != p->gap)
			break; /* sweep needs the order of the list */
		for (enum proc_layer l = 0; l < PROC_LAYERS; l++)
			needed |= im->layer[l] != NULL;
		if (needed)
			move_to(p, im, PROC_LIVES);
		else
			image_remove(p, im);
	}
	return n;
}

void procs_detach(struct procs *p, enum proc_layer layer)
{
	for (enum proc_state s = 0; s < PROC_STATES; s++)
		for (struct proc_image *im = first_of(p, s); im; im = after(im))
			report_end(p, im, layer);
	p->layer[layer] = (struct proc_listener){ 0 };
}

size_t procs_count(const struct procs *p)
{
	size_t n = 0;
	for (enum proc_state s = 0; s < PROC_STATES; s++)
		n += p->list[s].n;
	return n;
}

size_t procs_alive(const struct procs *p)
{
	return p->list[PROC_LIVES].n + p->list[PROC_LEADERLESS].n;
}

void procs_free(struct procs *p)
{
	struct proc_image *im;
	if (!p)
		return;
	for (enum proc_state s = 0; s < PROC_STATES; s++)
		while ((im = first_of(p, s)))
			image_remove(p, im);
	proc_cgroups_free(p);
	free(p);
}
