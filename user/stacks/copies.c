/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/copies.h"
#include "util/clock.h"
#include "util/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS 20000000ull

struct copy {
	struct copy *next;
	struct row row;
	uint32_t half; /* its id */
	unsigned cpu;
	uint32_t user; /* proc_image_user */
	uint32_t weight;
	bool taken;
	enum counter end;    /* set after unwinding */
	uint64_t *frames;    /* [n_kernel + n_user], set after unwinding */
	struct wire_copy *w; /* with its stack; NULL after unwinding */
};

struct copies {
	struct unwinding *unwinding;
	struct copy *first, **last;
	struct copy *next; /* the first that is not unwound */
	size_t waiting;
	struct quota bytes;
	uint64_t news_ns;
	bool again; /* something has changed since the last try */
};

int copies_new(struct copies **ret, struct unwinding *u)
{
	struct copies *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->unwinding = u;
	c->last = &c->first;
	c->bytes.max = COPIES_BYTES_MAX;
	*ret = c;
	return 0;
}

static void copy_free(struct copy *p)
{
	free(p->w);
	free(p->frames);
	free(p);
}

void copies_free(struct copies *c)
{
	if (!c)
		return;
	for (struct copy *p = c->first, *next; p; p = next) {
		next = p->next;
		copy_free(p);
	}
	free(c);
}

/* ---- unwinding ---- */

struct memory {
	const uint8_t *bytes;
	uint64_t at;
	size_t n;
	const uint8_t *other;
	uint64_t other_at;
	size_t n_other;
	bool beyond; /* the walk asked for memory beyond the copy */
};

static bool read_piece(const uint8_t *bytes, uint64_t begin, size_t len, void *to, size_t n,
		       uint64_t at)
{
	if (at < begin || at - begin > len || n > len - (at - begin))
		return false;
	memcpy(to, bytes + (at - begin), n);
	return true;
}

static bool read_copy(void *ctx, void *to, size_t n, uint64_t at)
{
	struct memory *m = ctx;
	if (read_piece(m->bytes, m->at, m->n, to, n, at) ||
	    read_piece(m->other, m->other_at, m->n_other, to, n, at))
		return true;
	m->beyond |= at >= m->at;
	return false;
}

static size_t copy_bytes(const struct wire_copy *w)
{
	return sizeof(*w) + w->n_stack + w->n_other;
}

/* Unwind a copy. False: its rules are not compiled yet. With `now`, use the rules that exist. */
static bool unwind_copy(struct copies *c, struct copy *p, bool now)
{
	uint64_t user[USER_FRAMES_MAX];
	struct wire_copy *w = p->w;
	const uint8_t *stack = (const uint8_t *)(w + 1);
	struct memory m = { stack,	 w->regs.reg[UNWIND_REG_SP] - COPY_BELOW,
			    w->n_stack,	 stack + w->n_stack,
			    w->other_at, w->n_other,
			    false };
	struct unwind_memory memory = { read_copy, &m };
	unsigned n = 0;
	const struct proc_id id = { p->row.start_ns, p->row.tgid, p->row.exec_id };
	if (unwinding_walk(c->unwinding, &id, p->row.last_ns, &w->regs, &memory, now, user, &n,
			   &p->end))
		return false;
	if (p->end == COUNTER_unwind_fault && m.beyond && m.n == COPY_STACK_MAX)
		p->end = COUNTER_truncated;
	uint64_t *frames = malloc((p->row.n_kernel + n + 1u) * sizeof(*frames));
	if (frames) {
		memcpy(frames, w->kernel, p->row.n_kernel * sizeof(*frames));
		memcpy(frames + p->row.n_kernel, user, n * sizeof(*frames));
		p->row.n_user = (uint16_t)n;
	} else { /* keep the sample with the frames so far */
		p->row.n_kernel = 0;
		p->end = COUNTER_no_user_stack;
	}
	p->frames = frames;
	p->w = NULL;
	while (c->next && !c->next->w)
		c->next = c->next->next;
	c->waiting--;
	quota_give(&c->bytes, p->user, copy_bytes(w));
	free(w);
	return true;
}

/*
 * Have room for n bytes more: unwind the oldest copy as it is, of this user where it has its share.
 */
static void make_room(struct copies *c, uint32_t user, size_t n)
{
	while (!quota_take(&c->bytes, user, n)) {
		struct copy *p = c->next;
		while (p && quota_is_greedy(&c->bytes, user, n) && (!p->w || p->user != user))
			p = p->next;
		unwind_copy(c, p ? p : c->next, true);
	}
}

int copies_add(struct copies *c, const struct wire_copy *w, const uint8_t *stack, uint32_t user)
{
	struct copy *p = calloc(1, sizeof(*p));
	if (p)
		p->w = malloc(copy_bytes(w));
	if (!p || !p->w || w->row.n_kernel > KERNEL_FRAMES_MAX) {
		free(p ? p->w : NULL);
		free(p);
		return -ENOMEM;
	}
	memcpy(p->w, w, sizeof(*w));
	memcpy(p->w + 1, stack, w->n_stack + w->n_other);
	p->row = w->row;
	/* An allocation has both (struct heap_hit of the programs) */
	p->row.samples += !p->row.samples;
	p->row.first_ns = p->row.first_ns ? p->row.first_ns : p->row.last_ns;
	p->weight = w->weight;
	p->half = w->half;
	p->cpu = w->cpu;
	p->user = user;
	make_room(c, user, copy_bytes(w));
	*c->last = p;
	c->last = &p->next;
	if (!c->next)
		c->next = p;
	c->waiting++;
	c->again = true;
	return 0;
}

void copies_go_on(struct copies *c)
{
	c->again = true;
}

static bool is_of(const struct copy *p, const struct proc_id *id)
{
	return p->row.tgid == id->tgid && p->row.exec_id == id->exec_id &&
	       p->row.start_ns == id->start_ns;
}

int copies_tick(struct copies *c, uint64_t news_ns)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + TICK_NS;
	struct proc_id blocked = { 0 };
	if (!c->waiting || (!c->again && news_ns == c->news_ns))
		return -1;
	for (struct copy *p = c->next; p && c->waiting; p = p->next) {
		if (!p->w || p->row.last_ns >= news_ns || is_of(p, &blocked))
			continue;
		if (!unwind_copy(c, p, false))
			blocked = (struct proc_id){ p->row.start_ns, p->row.tgid, p->row.exec_id };
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			return 0;
	}
	c->again = false;
	c->news_ns = news_ns;
	return -1;
}

uint64_t copies_newest(const struct copies *c, uint32_t key)
{
	uint64_t newest = 0;
	for (const struct copy *p = c->next; p; p = p->next)
		if (p->w && !p->taken && p->half == key && p->row.last_ns > newest)
			newest = p->row.last_ns;
	return newest;
}

void copies_take(struct copies *c, uint32_t key)
{
	for (struct copy *p = c->first; p; p = p->next)
		p->taken |= p->half == key;
}

bool copies_hand_out(struct copies *c, bool now,
		     void (*row)(void *ctx, unsigned cpu, const struct row *row,
				 const uint64_t *frames, uint64_t weight, enum counter end),
		     void *ctx)
{
	struct proc_id blocked = { 0 };
	bool left = false;
	for (struct copy **at = &c->first; *at;) {
		struct copy *p = *at;
		if (p->taken && p->w && (now || !is_of(p, &blocked)) && !unwind_copy(c, p, now))
			blocked = (struct proc_id){ p->row.start_ns, p->row.tgid, p->row.exec_id };
		if (!p->taken || p->w) {
			left |= p->taken;
			at = &p->next;
			continue;
		}
		*at = p->next;
		if (!*at)
			c->last = at;
		row(ctx, p->cpu, &p->row, p->frames, p->weight, p->end);
		copy_free(p);
	}
	return left;
}
