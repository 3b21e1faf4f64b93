/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls a function, or whom it calls, as a tree: of all stacks that have it, seen from its
 * outermost call. Functions are told apart by name and module, so that a tree of one query can be
 * held against that of the next.
 */
#ifndef ASCRIBE_TOP_CALLS_H
#define ASCRIBE_TOP_CALLS_H

#include "query/query.h"

struct calls_node {
	uint64_t id;	   /* of the path down to here: the same in every query */
	uint64_t function; /* calls_function of its frame */
	uint32_t frame;
	uint32_t parent, first_child, next_sibling; /* 0: none; by samples, descending */
	uint64_t samples, self;			    /* self: of callees alone */
};

struct calls {
	/* v[0] is the function itself, its frame 0 when no stack has it; parents before children */
	struct calls_node *v;
	size_t n, cap;
};

/* The identity of a function by what a table shows of it. */
uint64_t calls_function(const char *name, const char *module);

/* Zeroed before; to be released either way. */
int calls_build(struct calls *c, struct query *q, struct store *s, uint64_t function, bool callers,
		struct err *err);
void calls_fini(struct calls *c);

#endif
