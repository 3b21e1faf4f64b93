/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user frames of threads that hang. The stack of a wait is taken when it begins, or not at all:
 * a thread that waited before the recording began, or unexpectedly long, has its kernel frames
 * alone. At the end of a window such a thread stands still, so its stack can be read:
 *
 *   iterator: registers of the system call -> a reader: memory of the stack
 *             -> the rules of user/unwind
 *
 * The number of the thread's context switches says whether it has run since. Of each window HANGS
 * waits are tried, those first that began first. What was found is kept until the wait is over, so
 * the next windows try others. CPython is left out: native frames of its locks without the Python
 * frames say less than none (docs/architecture-waits.md, "Threads that hang").
 */
#include "collect/collector_int.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANG_NS NS	  /* shortest part of a wait that is tried */
#define HANGS_KNOWN 1024u /* waits whose frames are kept; at most 1 KiB each */

struct hang {
	struct row row;
	uint64_t words[WAIT_WORDS]; /* kernel frames, then user frames */
	uint64_t futex;		    /* of struct wire_wait */
	struct wire_hang at;
	size_t n_stack; /* bytes read; 0: not yet */
	uint8_t stack[COPY_STACK_MAX];
};

struct hang_known {
	uint64_t start_ns, switches;
	uint32_t tid;
	uint16_t n_user; /* 0: they could not be found */
	bool seen;	 /* in this window */
	bool python;	 /* left out */
	uint64_t *user;
	uint32_t next; /* of the same bucket: index plus 1 */
};

/* ---- waits whose frames were looked for ---- */

static uint32_t *bucket_of(struct hangs *h, uint32_t tid)
{
	return &h->bucket[tid % (sizeof(h->bucket) / sizeof(h->bucket[0]))];
}

static void known_link(struct hangs *h, size_t i)
{
	uint32_t *bucket = bucket_of(h, h->known[i].tid);
	h->known[i].next = *bucket;
	*bucket = (uint32_t)i + 1;
}

static struct hang_known *known_find(struct hangs *h, const struct row *row, uint64_t switches)
{
	for (uint32_t i = *bucket_of(h, row->tid); i; i = h->known[i - 1].next) {
		struct hang_known *k = &h->known[i - 1];
		if (k->tid == row->tid && k->start_ns == row->start_ns && k->switches == switches)
			return k;
	}
	return NULL;
}

/*
 * Keep the user frames of a row, or that there are none to be found. Without memory it is tried
 * again.
 */
static void known_add(struct hangs *h, const struct row *row, uint64_t switches,
		      const uint64_t *user, bool python)
{
	struct hang_known k = { row->start_ns, switches, row->tid, row->n_user,
				true,	       python,	 NULL,	   0 };
	if (ARRAY_RESERVE(h->known, h->cap_known, h->n_known + 1))
		return;
	k.user = k.n_user ? malloc(k.n_user * sizeof(*user)) : NULL;
	if (k.n_user && !k.user)
		return;
	if (k.n_user)
		memcpy(k.user, user, k.n_user * sizeof(*user));
	h->known[h->n_known] = k;
	known_link(h, h->n_known++);
}

void hangs_forget(struct collector *c)
{
	struct hangs *h = &c->hangs;
	size_t n = 0;
	memset(h->bucket, 0, sizeof(h->bucket));
	for (size_t i = 0; i < h->n_known; i++) {
		if (h->known[i].seen) {
			h->known[n] = h->known[i];
			h->known[n].seen = false;
			known_link(h, n++);
		} else {
			free(h->known[i].user);
		}
	}
	h->n_known = n;
}

void hangs_fini(struct collector *c)
{
	hangs_forget(c);
	hangs_forget(c);
	free(c->hangs.known);
	for (size_t i = 0; i < c->hangs.n; i++)
		free(c->hangs.v[i]);
	c->hangs = (struct hangs){ 0 };
}

static void count_python(struct collector *c, const struct row *row)
{
	window_cpu(c->window, 0)->counter[COUNTER_wait_python] += row->samples;
}

/* ---- choosing ---- */

static void add_known(struct collector *c, const struct row *row, const uint64_t *words,
		      uint64_t futex, const struct hang_known *k)
{
	struct row of = *row;
	uint64_t all[WAIT_WORDS];
	of.n_user = k->n_user; /* it was made to fit */
	memcpy(all, words, of.n_kernel * sizeof(*all));
	memcpy(all + of.n_kernel, k->user, of.n_user * sizeof(*all));
	rows_add_part(c, &of, all, futex);
}

/* Find a place: a free one, or that of the wait that began last, if it began later. */
static struct hang *find_place(struct collector *c, uint64_t began)
{
	struct hangs *h = &c->hangs;
	struct hang *last = NULL;
	if (h->n < HANGS && h->n_known + h->n < HANGS_KNOWN) {
		struct hang *p = calloc(1, sizeof(*p));
		if (p)
			h->v[h->n++] = p;
		return p;
	}
	for (size_t i = 0; i < h->n; i++)
		if (!h->v[i]->n_stack && (!last || h->v[i]->at.began > last->at.began))
			last = h->v[i];
	if (!last || last->at.began <= began)
		return NULL;
	rows_add_part(c, &last->row, last->words, last->futex);
	return last;
}

bool hangs_take(struct collector *c, const struct row *row, const uint64_t *words, uint64_t futex,
		const struct wire_hang *hang)
{
	struct wire_hang at;
	memcpy(&at, hang, sizeof(at));
	struct hang_known *k = known_find(&c->hangs, row, at.switches);
	if (k && row->n_kernel + k->n_user <= WAIT_WORDS) {
		k->seen = true;
		if (k->n_user)
			add_known(c, row, words, futex, k);
		else if (k->python)
			count_python(c, row);
		return k->n_user;
	}
	if (row->value < HANG_NS || row->n_kernel > WAIT_WORDS || c->detail.no_wait_stacks)
		return false;
	struct hang *p = find_place(c, at.began);
	if (!p)
		return false;
	p->row = *row;
	p->futex = futex;
	p->at = at;
	p->n_stack = 0;
	memcpy(p->words, words, row->n_kernel * sizeof(*words));
	return true;
}

/* ---- finding ---- */

static bool read_memory(void *ctx, void *to, size_t n, uint64_t at)
{
	const struct hang *h = ctx;
	uint64_t begin = h->at.regs.reg[UNWIND_REG_SP] - COPY_BELOW;
	if (at < begin || at - begin > h->n_stack || n > h->n_stack - (at - begin))
		return false;
	memcpy(to, h->stack + (at - begin), n);
	return true;
}

/*
 * Read the stack of a thread that has not run since. 0, -EINPROGRESS, or another error: it cannot
 * be read.
 */
static int read_stack(struct hang *h)
{
	uint64_t switches;
	int rc = proc_read_stack(h->row.tgid, h->at.regs.reg[UNWIND_REG_SP] - COPY_BELOW, h->stack,
				 sizeof(h->stack), &h->n_stack);
	if (rc)
		return rc;
	rc = proc_thread_switches(h->row.tgid, h->row.tid, &switches);
	return rc ? rc : switches == h->at.switches ? 0 : -ESRCH;
}

/* Find the user frames. 0, -EINPROGRESS, or another error: there are none to be found. */
static int find_frames(struct collector *c, struct hang *h, bool last)
{
	const struct proc_id id = { h->row.start_ns, h->row.tgid, h->row.exec_id };
	struct proc_image *im = procs_identify(c->procs, &id, h->row.last_ns, PROC_MAPS);
	const struct unwind_memory memory = { read_memory, h };
	uint64_t user[USER_FRAMES_MAX];
	unsigned n = 0, room = WAIT_WORDS - h->row.n_kernel;
	enum counter end;
	if (!im)
		return -ESRCH;
	if (proc_image_is_late(im))
		return -EINPROGRESS;
	int rc = h->n_stack ? 0 : read_stack(h);
	rc = rc ? rc
		: unwinding_walk(c->unwinding, &id, h->row.last_ns, &h->at.regs, &memory, last,
				 user, &n, &end);
	if (rc)
		return rc;
	if (scripts_are_python(c->resolver, im))
		return -ENOTSUP;
	h->row.n_user = (uint16_t)(n < room ? n : room);
	memcpy(h->words + h->row.n_kernel, user, h->row.n_user * sizeof(*user));
	return 0;
}

void hangs_go_on(struct collector *c, bool now)
{
	struct hangs *h = &c->hangs;
	size_t n = 0, all = h->n;
	h->n = 0; /* rows that are added look for none */
	for (size_t i = 0; i < all; i++) {
		struct hang *p = h->v[i];
		int rc = find_frames(c, p, now);
		if (rc == -EINPROGRESS && !now) {
			h->v[n++] = p;
			continue;
		}
		if (rc == -ENOTSUP)
			count_python(c, &p->row);
		if (rc != -EINPROGRESS)
			known_add(h, &p->row, p->at.switches, p->words + p->row.n_kernel,
				  rc == -ENOTSUP);
		rows_add_part(c, &p->row, p->words, p->futex);
		free(p);
	}
	h->n = n;
}
