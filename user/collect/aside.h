/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that wait for the names of their frames, which workers read. They are kept with their labels
 * and mappings, for at most ASIDE_NS and ASIDE_BYTES_MAX, which users share (quota.h), and not
 * beyond the end of their window. Not thread-safe.
 */
#ifndef ASCRIBE_COLLECT_ASIDE_H
#define ASCRIBE_COLLECT_ASIDE_H

#include "collect/heap.h"
#include "sampler/sampler.h"
#include "stacks/resolve.h"
#include "util/quota.h"

#define ASIDE_NS 2000000000ull
#define ASIDE_BYTES_MAX (8u << 20)

/* A row with everything but the names of its frames. */
struct sample {
	struct row row;
	unsigned cpu;
	uint32_t user; /* proc_image_user */
	/* Some labels have no answer yet (proc/reader.h): find them again */
	bool unset;
	uint32_t set;	      /* of the store */
	uint64_t label_flags; /* labelling_find */
	bool by_trampolines;  /* it has labels of trampolines */
	bool no_binding;      /* the label of a trampoline is missing */
	bool news_lost;	      /* records of the side-band were missing at its time */
	uint32_t number;      /* of its instants (instants.h) */
	uint32_t blocked; /* ROW_WAKER: stack_lengths_word of the blocked thread's stack; 0: none */
	struct heap_hit heap; /* of an allocation */
	struct resolver_stack stack;
};

struct aside_row {
	struct aside_row *next;
	struct sample sample; /* with pointers behind this struct */
	uint64_t until_ns;    /* BOOTTIME */
	size_t bytes;
};

struct aside {
	struct aside_row *first, **last;
	size_t n;
	struct quota bytes;
};

void aside_init(struct aside *a);
void aside_clear(struct aside *a);

/* Keep a copy of a sample and its frames. False: there is no room for this user, or no memory. */
bool aside_add(struct aside *a, const struct sample *s, uint64_t now_ns);

/*
 * Call try for each row, and remove the row if it returns true. last: the row must not wait longer,
 * because its time is over or `now` is set.
 */
void aside_try(struct aside *a, uint64_t now_ns, bool now,
	       bool (*try)(void *ctx, const struct sample *s, bool last), void *ctx);

#endif
