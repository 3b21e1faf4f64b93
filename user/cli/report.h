/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `ascribe report`: its options, and each kind of its text. */
#ifndef ASCRIBE_CLI_REPORT_H
#define ASCRIBE_CLI_REPORT_H

#include "cli/cmd.h"
#include "query/lengths.h"

struct report_changes;
struct report_ratios;
struct sql_texts;

struct report {
	struct filter filter;
	struct opt_list by;
	int64_t step_ns; /* 0: no series */
	bool full_names;
	int64_t before_ns;		/* INT64_MIN: no earlier range */
	struct report_changes *changes; /* of this table; NULL: no column of them */
	const char *per;		/* an event; NULL: no ratio */
	struct report_ratios *ratios;	/* to that event; NULL: no columns of them */
	bool exact;
	bool tree;
	const char *postgres; /* a connection string; NULL: none */
	struct sql_texts *sql;
	const char *peek;	       /* a function, or a part of its name; NULL: none */
	bool top;		       /* the answer is query_top's */
	struct query_lengths *lengths; /* of waits, by `by`; NULL: not asked for */
	const char *buckets;	       /* histograms of lengths instead of a table; NULL: no */
};

/* Time, not samples: what is counted are nanoseconds. */
bool report_is_time(const struct reading *r);
double report_seconds(const struct reading *r, uint64_t samples);
double report_share(const struct reading *r, uint64_t samples);

/* The unit of what the query sums: samples, or with a metric that of its event. */
const char *report_unit(const struct reading *r);
/*
 * An amount in a unit: "12.500 s", "1.25 MiB", "1,000 objects", "1000 samples"; its number alone:
 * "12.500", "1.25 MiB"; and the head of a column of these. The first two return out.
 */
#define REPORT_AMOUNT_MAX 64
const char *report_amount(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX]);
const char *report_number(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX]);
const char *report_unit_head(const char *unit);
/* How long a wait was, or the value of a hit: "1.25 ms", else as report_number. Returns out. */
const char *report_length(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX]);

/* The lines above a table. */
void report_header(const struct reading *r, const struct report *opts);

/* Another question of the same store; in ClickHouse a store of its own. */
struct report_other {
	struct reading fleet;
	struct query *query;
};

/* ret is zeroed, and closed also after an error. 0 or -errno. */
int report_ask_other(const struct reading *r, const struct filter *f, const struct opt_list *by,
		     struct report_other *ret, struct err *err);
void report_other_close(struct report_other *o);

/*
 * Compare r->query, by opts->by or by function, with the same question of the same length of time
 * from opts->before_ns on.
 */
int report_changes_open(struct report_changes **ret, const struct reading *r,
			const struct report *opts, struct err *err);
void report_changes_close(struct report_changes *c);
/* Print a row's cell, of 9 columns; and below the table, what the column says. */
void report_change_print(const struct report_changes *c, const struct reading *r,
			 const struct query_table_row *row);
void report_change_note(const struct report_changes *c, const struct reading *r, bool functions);

/*
 * Divide what each row of t has of r's event by what it has of opts->per. t outlives *ret. 0 or
 * -errno.
 */
int report_ratios_open(struct report_ratios **ret, const struct reading *r,
		       const struct report *opts, const struct query_table *t, struct err *err);
void report_ratios_close(struct report_ratios *s);
const struct answer_ratios *report_ratios_answer(const struct report_ratios *s);
/* Print the heads of the columns, or the cells of row i: RATIOS_WIDTH columns. */
#define RATIOS_WIDTH 19
void report_ratios_heads(void);
void report_ratios_print(const struct report_ratios *s, size_t i);
/* Below the table: what the columns say. */
void report_ratios_note(const struct report_ratios *s, const struct reading *r);

/*
 * Print the statements behind the query ids of a table's first rows; nothing without opts->by
 * query_id.
 */
void report_sql(struct sql_texts *sql, const struct report *opts, const struct query_table *t,
		size_t limit);

/* A table by function or by opts->by, of at most `limit` rows. 0 or -ENOMEM. */
int report_table(const struct reading *r, const struct report *opts, const struct query_table *t,
		 size_t limit);

/*
 * The label that says best for whom the samples are: one that programs set, where it covers half of
 * them, else `service`, where the store has it, else `comm`. ret has room for 256 bytes.
 */
int report_who_key(struct reading *r, const struct filter *f, char *ret, struct err *err);

/* Print the `limit` largest nodes of the call tree. An exit status. */
int report_tree(struct reading *r, const struct report *opts, size_t limit);
/* Print the histograms of the lengths of the `limit` groups with the most. An exit status. */
int report_lengths(struct reading *r, const struct report *opts, size_t limit);
/* Print the callers and the callees of opts->peek. An exit status. */
int report_peek(struct reading *r, const struct report *opts, size_t limit);

#endif
