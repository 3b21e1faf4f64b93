/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/lock_names.h"

#include "symbols/variables.h"
#include "util/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX 64 /* mappings below an address that are looked at */
#define NAME_MAX_BYTES 256

struct lock_names {
	struct procs *procs;
	struct resolver *resolver;
	struct symbols_job job;
	/* In the request: addresses of one file */
	struct lock_place *asked[VARIABLES_MAX];
	uint64_t vaddr[VARIABLES_MAX];
	size_t n_asked;
	/* Places in files, for the next requests */
	struct lock_place *waiting[VARIABLES_MAX];
	size_t n_waiting;
};

int lock_names_new(struct lock_names **ret, struct procs *procs, struct resolver *resolver)
{
	struct lock_names *n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->procs = procs;
	n->resolver = resolver;
	*ret = n;
	return 0;
}

void lock_names_forget(struct lock_names *n)
{
	symbolizer_cancel(&n->job);
	n->n_asked = n->n_waiting = 0;
}

void lock_names_free(struct lock_names *n)
{
	if (n)
		lock_names_forget(n);
	free(n);
}

void lock_place_fini(struct lock_place *p)
{
	free(p->base);
	p->base = NULL;
}

static int set_name(struct lock_place *p, const char *base, uint64_t offset, uint64_t size)
{
	char *copy = base ? strdup(base) : NULL; /* without memory it is an address */
	free(p->base);
	p->base = copy;
	p->offset = copy ? offset : p->at;
	p->size = size;
	p->state = LOCK_NAMED;
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* ---- in files ---- */

/*
 * Find the executable mapping of the file whose data segment holds an address: among those below,
 * since data is behind the code. *ret_late: some file is not read yet.
 */
static const struct proc_map *data_map(struct lock_names *n, const struct proc_image *im,
				       uint64_t at, uint64_t *ret_vaddr, bool *ret_late)
{
	uint32_t i = im->n_maps;
	while (i > 0 && im->maps[i - 1].start > at)
		i--;
	for (uint32_t k = 0; i-- > 0 && k < MAPS_MAX; k++) {
		const struct proc_map *m = &im->maps[i];
		uint64_t bias;
		if (m->file->path[0] != '/')
			continue;
		const struct binary *b = resolver_binary(n->resolver, im, m);
		*ret_late |= !b && resolver_is_late(m);
		if (!b || binary_bias(b, m->start, m->pgoff, &bias) ||
		    !binary_has_data(b, at - bias))
			continue;
		*ret_vaddr = at - bias;
		return m;
	}
	return NULL;
}

/* Note in the place that it is in a file. */
static void found_in_file(struct lock_names *n, struct lock_place *p, const struct proc_image *im,
			  const struct proc_map *m, uint64_t vaddr)
{
	const uint8_t *content = resolver_content(n->resolver, im, m);
	set_name(p, base_name(m->file->path), vaddr, 0);
	if (!p->base || !content)
		return;
	memcpy(&p->file, content + 1, sizeof(p->file));
	p->state = LOCK_IN_FILE;
}

/* Take the answer about places of one file. */
static void take_answer(struct lock_names *n, const struct buf *reply)
{
	struct variable_name v[VARIABLES_MAX];
	bool sound = !variables_decode(v, n->n_asked, reply);
	for (size_t i = 0; i < n->n_asked; i++) {
		struct lock_place *p = n->asked[i];
		char text[NAME_MAX_BYTES + VARIABLE_NAME_MAX];
		p->state = LOCK_NAMED;
		if (!sound || !*v[i].name)
			continue;
		snprintf(text, sizeof(text), "%.*s:%s", NAME_MAX_BYTES, p->base, v[i].name);
		set_name(p, text, v[i].offset, v[i].size);
	}
}

/* The request of n->vaddr, in hand or new. im and m: of the file; NULL while it is in hand. */
static void ask(struct lock_names *n, const struct proc_image *im, const struct proc_map *m)
{
	const struct sandbox_call call = { .lane = 1,
					   .op = VARIABLES_OP,
					   .priority = PRIORITY_NAMES,
					   .bytes = n->vaddr,
					   .len = n->n_asked * sizeof(n->vaddr[0]),
					   .max_reply = VARIABLES_REPLY_MAX };
	struct buf reply = BUF_INIT;
	int rc = resolver_parse(n->resolver, im, m, &n->job, &call, &reply);
	if (!symbols_is_late(rc)) {
		take_answer(n, &reply);
		n->n_asked = 0;
	}
	buf_fini(&reply);
}

/* Begin a request about the first file that is waited for. */
static void ask_next(struct lock_names *n)
{
	size_t kept = 0;
	uint64_t file = n->waiting[0]->file, vaddr;
	const struct lock_place *first = n->waiting[0];
	bool late = false;
	const struct proc_image *im = procs_lookup(n->procs, &first->id);
	const struct proc_map *m = im ? data_map(n, im, first->at, &vaddr, &late) : NULL;
	for (size_t i = 0; i < n->n_waiting; i++) {
		struct lock_place *p = n->waiting[i];
		if (p->file != file) {
			n->waiting[kept++] = p;
			continue;
		}
		n->vaddr[n->n_asked] = p->offset;
		n->asked[n->n_asked++] = p;
	}
	n->n_waiting = kept;
	if (m) {
		ask(n, im, m);
		return;
	}
	take_answer(n, &(struct buf)BUF_INIT);
	n->n_asked = 0;
}

/* Go on with the request in hand; where it was not even made, all of its places wait again. */
static void go_on(struct lock_names *n)
{
	if (n->n_asked && n->job.job) {
		ask(n, NULL, NULL);
	} else if (n->n_asked) {
		for (size_t i = 0; i < n->n_asked && n->n_waiting < VARIABLES_MAX; i++)
			n->waiting[n->n_waiting++] = n->asked[i];
		n->n_asked = 0;
	}
	if (!n->n_asked && n->n_waiting)
		ask_next(n);
}

/* ---- elsewhere ---- */

static int find_in_memory(struct lock_place *p)
{
	struct proc_line l;
	int rc = proc_line_at(p->id.tgid, p->at, &l);
	if (rc == -EINPROGRESS || rc == -EINTR)
		return -EINPROGRESS;
	if (rc)
		return set_name(p, NULL, 0, 0);
	proc_path_unmark(l.name);
	if (l.shared && l.ino)
		return set_name(p, l.name, p->at - l.start + l.pgoff, 0);
	return set_name(p, l.name[0] == '[' ? l.name : "[anon]", p->at, 0);
}

static int find_new(struct lock_names *n, struct lock_place *p, uint64_t ns)
{
	struct proc_image *im = procs_identify(n->procs, &p->id, ns, PROC_MAPS);
	uint64_t vaddr = 0;
	bool late = false;
	if (im && proc_image_is_late(im))
		return -EINPROGRESS;
	const struct proc_map *m = im ? data_map(n, im, p->at, &vaddr, &late) : NULL;
	if (m)
		found_in_file(n, p, im, m, vaddr);
	else if (late)
		return -EINPROGRESS;
	else if (proc_image_alive(im))
		p->state = LOCK_IN_MEMORY;
	else
		set_name(p, NULL, 0, 0);
	return 0;
}

int lock_name_find(struct lock_names *n, struct lock_place *io_place, uint64_t ns)
{
	struct lock_place *p = io_place;
	int rc = p->state == LOCK_NEW ? find_new(n, p, ns) : 0;
	if (rc)
		return rc;
	if (p->state == LOCK_IN_FILE && n->n_waiting < VARIABLES_MAX) {
		n->waiting[n->n_waiting++] = p;
		p->state = LOCK_ASKED;
	}
	if (p->state == LOCK_IN_MEMORY)
		return find_in_memory(p);
	if (p->state != LOCK_NAMED)
		go_on(n);
	return p->state == LOCK_NAMED ? 0 : -EINPROGRESS;
}
