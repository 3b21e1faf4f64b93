/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/walk.h"

#include <string.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define barrier_var(v) __asm__ volatile("" : "+r"(v))
#define UNWIND_GLOBAL static
#define UNWIND_MEMORY_IS_A_COPY

#include "unwind_walk.h"

uint64_t unwind_address_bits(void)
{
	int here;
	return UINT64_MAX >> __builtin_clzll((uintptr_t)&here);
}

static struct walk {
	const struct unwind_tables *t;
	const struct unwind_memory *m;
	struct unwind_state state;
} walk;

static __always_inline struct unwind_state *unwind_state(void)
{
	return &walk.state;
}

static __always_inline const struct unwind_range *unwind_range_at(__u32 i)
{
	return i < walk.t->n_ranges ? &walk.t->ranges[i] : NULL;
}

static __always_inline const struct unwind_page *unwind_page_at(__u32 i)
{
	return i < UNWIND_PAGES ? &walk.t->pages[i] : NULL;
}

static __always_inline const struct unwind_rule *unwind_rule_at(__u32 i)
{
	return i < UNWIND_RULES ? &walk.t->rules[i] : NULL;
}

static __always_inline const struct unwind_rows *unwind_rows_at(__u32 shard)
{
	const struct unwind_tables *t = walk.t;
	if (shard >= UNWIND_SHARDS)
		return NULL;
	return (const struct unwind_rows *)(t->shard ? t->shard(t->ctx, shard) : t->shards[shard]);
}

static __always_inline long unwind_read(void *to, __u32 n, __u64 at)
{
	return walk.m->read(walk.m->ctx, to, n, at) ? 0 : -1;
}

/* A copy is walked once. */
static __always_inline __u32 unwind_recall(const struct unwind_state *s, __u64 at)
{
	(void)s, (void)at;
	return 0;
}

static __always_inline void unwind_remember(const struct unwind_state *s, __u64 at, __u32 rule)
{
	(void)s, (void)at, (void)rule;
}

static __always_inline bool unwind_is_known(struct unwind_state *s)
{
	(void)s;
	return false;
}

/* The copy is of the stack alone. */
static __always_inline int unwind_made(struct unwind_state *s)
{
	(void)s;
	return -1;
}

static __always_inline int unwind_unruled(struct unwind_state *s)
{
	(void)s;
	return -1;
}

static __always_inline int unwind_luajit(struct unwind_state *s, bool is_interpreter)
{
	(void)s, (void)is_interpreter;
	return -1;
}

#if defined(UNWIND_FOR_ARM64)
static __always_inline __u64 unwind_address_mask(void)
{
	return unwind_address_bits();
}
#endif

unsigned unwind_walk(const struct unwind_tables *t, const struct unwind_memory *m,
		     const struct user_registers *regs, uint64_t *out, enum counter *ret_end)
{
	walk.t = t;
	walk.m = m;
	memcpy(walk.state.reg, regs->reg, sizeof(walk.state.reg));
	unwind_begin(&walk.state, regs->pc, UNWIND_LIST(0, t->n_ranges, 0, 0));
	__u64 frames[USER_FRAMES_MAX];
	__u32 n = 0, found;
	do {
		found = unwind_frames(&walk.state, frames, n, USER_FRAMES_MAX - n);
		n += found >> 8;
	} while ((found & 0xff) == COUNTER_truncated && n < USER_FRAMES_MAX);
	memcpy(out, frames, n * sizeof(*out));
	*ret_end = found & 0xff;
	return n;
}
