/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Add rows of wakers to the sums of the window (collect/causes.h): the label set and stack of who
 * ended a wait, whether the wait was idle, and for which lock it was. The row names the blocked
 * thread's own stack where that was sampled; its frames say what the wait was for, by the rule of
 * all other waits.
 */
#include "collect/collector_int.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- stacks of blocked threads ---- */

void wakers_begin_half(struct collector *c)
{
	c->blocked.n = 0;
	c->blocked.listed = false;
}

static int by_at(const void *pa, const void *pb)
{
	const struct blocked_stack *a = pa, *b = pb;
	return (a->at > b->at) - (a->at < b->at);
}

/* List the stacks of all rows of blocked threads. Without memory some are missing. */
static void list_stacks(struct collector *c, const struct sampler_half *h)
{
	struct blocked_stacks *b = &c->blocked;
	size_t n = 0;
	b->listed = true;
	for (uint32_t i = 0; i < h->n_rows; i++) {
		const struct row *r = &h->rows[i];
		uint32_t n_words = sampler_row_words(r);
		bool has = r->samples && r->event == c->waits.off &&
			   (r->kind == ROW_TASK || r->kind == ROW_KTHREAD) && n_words;
		if (!has || r->stack > h->arena_words || n_words > h->arena_words - r->stack ||
		    ARRAY_RESERVE(b->v, b->cap, b->n + 1))
			continue;
		b->v[b->n++] = (struct blocked_stack){ .at = r->stack,
						       .lengths = stack_lengths_word(
							       r->n_kernel, r->n_user, r->n_script),
						       .part = CAUSE_UNKNOWN };
	}
	if (b->n)
		qsort(b->v, b->n, sizeof(*b->v), by_at);
	for (size_t i = 0; i < b->n; i++)
		if (!n || b->v[n - 1].at != b->v[i].at)
			b->v[n++] = b->v[i];
	b->n = n;
}

/* Find the blocked thread's stack that a ROW_WAKER of the half names; NULL: none. */
static struct blocked_stack *find_stack(struct collector *c, const struct sampler_half *h,
					const struct row *row)
{
	uint32_t at = row->waker_flags >> WAKER_BLOCKED_SHIFT;
	const struct blocked_stack key = { .at = at - 1 };
	if (!at)
		return NULL;
	if (!c->blocked.listed)
		list_stacks(c, h);
	return c->blocked.n ? bsearch(&key, c->blocked.v, c->blocked.n, sizeof(key), by_at) : NULL;
}

static struct resolver_stack stack_of(struct collector *c, const struct row *of,
				      const uint64_t *words, struct rows_script *script)
{
	struct resolver_stack s = { .frames = words,
				    .n_kernel = of->n_kernel,
				    .n_user = of->n_user };
	rows_script(c, of, script, &s);
	s.script_cut = s.n_kernel + s.n_user + s.n_script >= WAIT_WORDS;
	return s;
}

/*
 * Work out whether the wait of a blocked thread was idle, and for which kind of lock it was. 0, or
 * with put_off -EINPROGRESS: names are missing.
 */
static int blocked_part(struct collector *c, const struct row *row, const uint64_t *words,
			bool put_off, struct blocked_stack *io_b)
{
	const struct proc_id id = { row->start_ns, row->tgid, row->exec_id };
	bool kthread = row->waker_flags & WAIT_KTHREAD;
	struct row of = *row;
	struct rows_script script;
	struct resolver_flags flags;
	uint32_t stack;
	of.n_kernel = io_b->lengths & 0xff;
	of.n_user = io_b->lengths >> 8 & 0xfff;
	of.n_script = (uint16_t)(io_b->lengths >> 20);
	struct resolver_stack s = stack_of(c, &of, words, &script);
	struct proc_image *im = procs_identify(c->procs, &id, row->last_ns,
					       s.n_user && !kthread ? PROC_MAPS : PROC_NAME);
	s.put_off = put_off;
	if (row->earlier && !kthread && !s.n_user)
		s.root = c->waits.earlier;
	resolver_trim_switch(c->resolver, &s);
	int rc = resolver_stack(c->resolver, im, &s, &stack, &flags);
	if (rc == -EINPROGRESS)
		return rc;
	io_b->part = rc ? CAUSE_UNKNOWN : flags.wait == WAIT_CLASS_IDLE ? CAUSE_IDLE : CAUSE_BUSY;
	if (row->waker_flags & WAKER_FUTEX && !s.n_user && flags.wait == WAIT_CLASS_OTHER)
		io_b->part = CAUSE_UNKNOWN; /* other waits for the same lock say it */
	io_b->lock = rc ? LOCK_NONE : flags.lock;
	return 0;
}

/* ---- locks ---- */

/* Return the address of the futex in which the thread was blocked; 0: none, or it was lost. */
static uint64_t futex_of(const struct sampler_half *h, const struct row *row)
{
	uint64_t at = (uint64_t)row->occupant + OCCUPANT_WORDS;
	return row->waker_flags & WAKER_FUTEX && at < h->arena_words ? h->arena[at] : 0;
}

/*
 * Find the lock of a wait. stack: flags of the waker's; NULL: none was taken. 0, or with put_off
 * -EINPROGRESS: its name is being looked for.
 */
static int find_lock(struct collector *c, const struct sampler_half *h, const struct row *row,
		     const struct blocked_stack *b, const struct resolver_flags *stack,
		     bool put_off, struct waits_waker *ret)
{
	const struct proc_id id = { row->start_ns, row->tgid, row->exec_id };
	const char *name;
	const struct occupant *who = waits_occupant(h, row, &name);
	uint64_t futex = futex_of(h, row);
	bool known = true;
	ret->lock_end = who			       ? 0
			: !strcmp(name, "(interrupt)") ? LOCK_END_INTERRUPT
						       : LOCK_END_UNKNOWN;
	if (futex)
		ret->lock = locks_id(c->locks, &id, futex, row->last_ns, &known);
	if (!known && put_off)
		return -EINPROGRESS;
	if (b->lock)
		locks_note_kind(c->locks, ret->lock, b->lock);
	if (!ret->lock && !b->lock)
		return 0;
	ret->lock_end |= (uint32_t)b->lock << LOCK_END_KIND_SHIFT;
	ret->lock_end |= row->waker_flags & WAKER_RELEASED ? LOCK_END_RELEASED : 0;
	if (stack)
		ret->lock_end |= LOCK_END_STACK | (stack->release ? LOCK_END_RELEASE : 0);
	return 0;
}

/* ---- wakers ---- */

/* Find the waker's stack in the store. 0, -EINPROGRESS or -errno. */
static int waker_stack(struct collector *c, const struct sampler_half *h, const struct row *row,
		       const struct occupant *who, const struct proc_image *by, bool put_off,
		       uint32_t *ret, struct resolver_flags *ret_flags)
{
	const struct row of = { .start_ns = who->start_ns,
				.tgid = who->tgid,
				.exec_id = who->exec_id,
				.n_kernel = row->n_kernel,
				.n_user = row->n_user,
				.n_script = row->n_script };
	struct rows_script script;
	uint32_t before = OCCUPANT_WORDS + (row->waker_flags & WAKER_FUTEX ? FUTEX_WORDS : 0);
	struct resolver_stack s = stack_of(c, &of, h->arena + row->stack + before, &script);
	s.put_off = put_off;
	resolver_trim_waking(c->resolver, &s);
	return resolver_stack(c->resolver, by, &s, ret, ret_flags);
}

/*
 * Add blocked time by its waker: no samples, those are in the rows of the blocked thread. io_b: the
 * blocked thread's stack (lengths 0: none), and what it said before. False, only with put_off:
 * names or labels are missing.
 */
static bool add_waker(struct collector *c, const struct sampler_half *h, const struct row *row,
		      struct blocked_stack *io_b, bool put_off)
{
	const char *name;
	const struct occupant *who = waits_occupant(h, row, &name);
	uint64_t at = (row->waker_flags >> WAKER_BLOCKED_SHIFT) - 1;
	bool stacks = !limit_is_full(c), taken = who && row->n_kernel + row->n_user && stacks;
	struct waits_try try = { .put_off = put_off };
	struct waits_waker k = { 0 };
	struct resolver_flags flags;
	struct proc_image *by = NULL;
	uint32_t stack;
	int rc = 0;
	if (rows_left_out(c, h->cpu, row, !put_off))
		return true;
	if (who) {
		const struct proc_id id = { who->start_ns, who->tgid, who->exec_id };
		by = procs_identify(c->procs, &id, row->last_ns, taken ? PROC_MAPS : PROC_NAME);
	}
	if (taken)
		rc = waker_stack(c, h, row, who, by, put_off, &stack, &flags);
	if (rc != -EINPROGRESS && io_b->lengths && stacks && io_b->part == CAUSE_UNKNOWN &&
	    blocked_part(c, row, h->arena + at, put_off, io_b))
		rc = -EINPROGRESS;
	rc = rc ? rc : find_lock(c, h, row, io_b, taken ? &flags : NULL, put_off, &k);
	if (!rc) {
		k.image = rows_image(c, row);
		k.by = by;
		k.stack = taken ? &stack : NULL;
		k.part = io_b->part;
		rc = waits_add_waker(&c->waits, h, row, &k, &try);
	}
	if (rc == -EINPROGRESS)
		return false;
	struct window_cpu *w = window_cpu(c->window, h->cpu);
	if (try.cut)
		w->counter[COUNTER_waker_cut] += row->samples;
	if (rc)
		w->counter[COUNTER_wait_parts_full] += row->samples;
	return true;
}

/*
 * Put a row aside: the words of the waker and, behind them, those of the blocked thread's stack.
 * They are as the arena of a half that has nothing else.
 */
static bool put_aside(struct collector *c, const struct sampler_half *h, const struct row *row,
		      uint32_t lengths)
{
	uint64_t words[OCCUPANT_WORDS + FUTEX_WORDS + 2 * WAIT_WORDS];
	uint32_t at = (row->waker_flags >> WAKER_BLOCKED_SHIFT) - 1, n = 0;
	uint32_t n_blocked =
		lengths ? (lengths & 0xff) + (lengths >> 8 & 0xfff) + (lengths >> 20) : 0;
	struct sample s = { .row = *row, .cpu = h->cpu, .blocked = lengths };
	uint32_t all = sampler_row_words(row);
	if (n_blocked > WAIT_WORDS)
		return false;
	if (row->occupant <= h->arena_words && h->arena_words - row->occupant >= all) {
		n = all;
		if (n > OCCUPANT_WORDS + FUTEX_WORDS + WAIT_WORDS)
			return false;
		memcpy(words, h->arena + row->stack, n * sizeof(*words));
		s.row.stack = 0;
	}
	s.row.waker_flags &= (1u << WAKER_BLOCKED_SHIFT) - 1;
	if (lengths) {
		memcpy(words + n, h->arena + at, n_blocked * sizeof(*words));
		s.row.waker_flags |= (n + 1) << WAKER_BLOCKED_SHIFT;
	}
	s.stack = (struct resolver_stack){ .frames = words, .n_user = n + n_blocked };
	return rows_put_aside(c, &s);
}

void wakers_add(struct collector *c, const struct sampler_half *h, const struct row *row)
{
	struct blocked_stack none = { .part = CAUSE_UNKNOWN }, *b = find_stack(c, h, row);
	b = b ? b : &none;
	if (!add_waker(c, h, row, b, true) && !put_aside(c, h, row, b->lengths))
		add_waker(c, h, row, b, false);
}

bool wakers_try(struct collector *c, const struct sampler_half *h, const struct sample *s,
		bool last)
{
	struct blocked_stack b = { .lengths = s->blocked, .part = CAUSE_UNKNOWN };
	return add_waker(c, h, &s->row, &b, !last);
}

void wakers_add_part(struct collector *c, const struct row *row, const uint64_t *words,
		     uint64_t futex)
{
	uint64_t all[OCCUPANT_WORDS + FUTEX_WORDS + WAIT_WORDS] = { 0 };
	uint32_t before = OCCUPANT_WORDS + FUTEX_WORDS, n = sampler_row_words(row);
	const struct occupant nobody = { .start_ns = OCCUPANT_OTHER };
	struct row of = *row;
	if (n > WAIT_WORDS)
		return;
	memcpy(all, &nobody, sizeof(nobody));
	all[OCCUPANT_WORDS] = futex;
	memcpy(all + before, words, n * sizeof(*words));
	const struct sampler_half h = { .arena = all, .arena_words = before + n };
	struct blocked_stack b = { .lengths = stack_lengths_word(row->n_kernel, row->n_user,
								 row->n_script),
				   .part = CAUSE_UNKNOWN };
	of.kind = ROW_WAKER;
	of.occupant = 0;
	of.n_kernel = of.n_user = of.n_script = 0;
	of.waker_flags = (row->kind == ROW_KTHREAD ? WAIT_KTHREAD : 0) | (futex ? WAKER_FUTEX : 0) |
			 (before + 1) << WAKER_BLOCKED_SHIFT;
	if (!add_waker(c, &h, &of, &b, true) && !put_aside(c, &h, &of, b.lengths))
		add_waker(c, &h, &of, &b, false);
}
