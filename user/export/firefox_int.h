/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a Firefox profile: firefox.c has the whole and threads of sums, firefox_times.c threads
 * with times, firefox_tables.c what all threads share.
 */
#ifndef ASCRIBE_EXPORT_FIREFOX_INT_H
#define ASCRIBE_EXPORT_FIREFOX_INT_H

#include "export/functions.h"
#include "export/text.h"
#include "export/threads.h"

#define FIREFOX_OTHER 4 /* the category of what is no code */

struct firefox {
	const struct export_source *src;
	const struct query_info *info;
	struct functions functions;
	struct intern nodes; /* prefix and function; what the file calls a stack */
	uint32_t *by_stack;  /* [cap_stacks]: node + 1 of a stack; 0: not known yet */
	size_t cap_stacks;
	struct intern modules; /* string ids of the store */
	struct text text;
	FILE *f;
	bool values;
	size_t n_threads;
	struct firefox_times *times; /* NULL: sums */
};

/* What a row weighs: nanoseconds, bytes or samples, as its type in the file says. */
uint64_t firefox_amount(const struct firefox *x, const struct store_row *row);
/* Write an amount as such a weight. */
void firefox_put_weight(const struct firefox *x, uint64_t amount);
const char *firefox_weight_type(const struct firefox *x);
/* Write nanoseconds as milliseconds. */
void firefox_put_ms(FILE *f, int64_t ns);
/* Write the head of a thread behind its names, up to its markers. */
void firefox_put_thread(FILE *f, uint64_t tid);

/* ---- firefox_tables.c; 0, -ENOMEM, -E2BIG ---- */

/* The node + 1 of a stack, 0 of an empty one. */
int firefox_stack(struct firefox *x, uint32_t stack, uint32_t *ret);
/* The node + 1 of (other) below a node + 1. */
int firefox_other(struct firefox *x, uint32_t node, uint32_t *ret);
/* Number the modules of all functions; then the strings below are numbered. */
int firefox_modules(struct firefox *x);
/* The string of an event's name; firefox_modules was called, and x->times is there. */
size_t firefox_event_string(const struct firefox *x, uint32_t event);
/* Write the shared tables; no stack is new from here on. */
int firefox_put_shared(struct firefox *x);

/* ---- firefox_times.c ---- */

/*
 * Read when samples were taken and waits ended. *ret NULL: windows of the range keep no times, or
 * there are more than fit. 0, or an error with err set. firefox_times_free is due.
 */
int firefox_times_read(struct firefox *x, struct firefox_times **ret, struct err *err);
void firefox_times_free(struct firefox_times *t);
/* Write the threads. */
int firefox_put_times(struct firefox *x);

#endif
