/* SPDX-License-Identifier: Apache-2.0 */
/* The statement of a question: which tables hold its range, and how they are summed. */
#ifndef ASCRIBE_FLEET_STATEMENT_H
#define ASCRIBE_FLEET_STATEMENT_H

#include "fleet/ask.h"
#include "query/selector.h"

/* The tables of samples, from the finest on. The last two have neither hosts nor label sets. */
enum fleet_level { FLEET_RAW, FLEET_MINUTE, FLEET_HOUR, FLEET_DAY, FLEET_LEVELS };

extern const uint32_t fleet_level_s[FLEET_LEVELS];

/* What is asked for; two of them are compared. */
struct statement_side {
	const struct selector *selector;
	uint32_t from, to; /* seconds, [from, to): whole ones of the finest level that is left */
};

struct statement {
	struct statement_side side[2];
	size_t n_sides;
	uint32_t from, to;		      /* what the sides span */
	const char *keep[2 * FLEET_KEYS_MAX]; /* labels that rows keep */
	size_t n_keep;
	bool all_labels, stacks;
	const char *events[256];
	size_t n_events;
	/* Seconds: of a window; 0: the first one of each part (statement_parts) has all rows */
	uint32_t step;
	uint32_t slot; /* without a step: of the windows, which say when there was a recording */
	/* From these seconds on a level has rows; UINT32_MAX: none */
	uint32_t since[FLEET_LEVELS];
	size_t limit; /* rows; the engine gives one more where there are more */
};

/* Of functions: how many, and which. */
struct statement_functions {
	size_t limit;
	bool by_total; /* the first by samples with callees; else by their own */
	bool time;     /* in nanoseconds instead of samples */
};

/* A part of the range that the same sides ask for: bits of their places. */
struct statement_part {
	uint32_t from, to;
	unsigned sides;
};
#define STATEMENT_PARTS_MAX 3
size_t statement_parts(const struct statement *s, struct statement_part ret[STATEMENT_PARTS_MAX]);

/* Sums instead of rows: exact, for what is beyond the limit. */
enum statement_sums { STATEMENT_ROWS, STATEMENT_BY_LABELS };

/*
 * Append the statement, ended by a NUL, and bind its values. Its rows in RowBinary: bucket UInt32,
 * event String, ns_per_sample UInt64, labels Map(String, String), integers Array(String), stack
 * UInt128, samples UInt64, value UInt64; the largest values first. 0 or -ENOMEM.
 */
int statement_write(const struct statement *s, enum statement_sums sums, struct ask *a,
		    struct buf *to);

/*
 * The same for all keys of the labels that the rows have: key String, then as UInt64 its different
 * values, samples. Idle ones only where `idle`.
 */
int statement_write_keys(const struct statement *s, bool idle, struct ask *a, struct buf *to);

/*
 * The same for functions instead of rows, without idle samples: name and module String, inlined
 * UInt8, then as UInt64 what they have of their own, with callees, how many functions there are,
 * and what samples have whose functions are not known.
 */
int statement_write_functions(const struct statement *s, const struct statement_functions *f,
			      struct ask *a, struct buf *to);

/*
 * The same for the function of a file that grew beyond chance on most hosts that have a build of it
 * since the second part began (statement_parts): name String, as UInt64 on how many it grew and how
 * many they are, then its nanoseconds in the second part and in the first. A sample is of the
 * file's function nearest to the leaf. No row: none grew. s keeps the label host alone.
 */
int statement_write_grown(const struct statement *s, const char *file, const char *build,
			  struct ask *a, struct buf *to);

/* The seconds of the finest level that has rows of that time. */
uint32_t statement_unit(const struct statement *s, uint32_t at);

/*
 * Append the statement of the windows, ended by a NUL: bucket UInt32 and in it slot UInt32, start
 * and end DateTime64(9), fired, stored, outside, own_cpu_ns, own_rss UInt64, lost and flagged
 * Map(String, UInt64).
 */
int statement_write_windows(const struct statement *s, struct buf *to);

/* Move the ends of the sides to whole units of what is left there of that time. */
void statement_round(struct statement *s);

#endif
