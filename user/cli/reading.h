/* SPDX-License-Identifier: Apache-2.0 */
/* A store that a command reads: open it, ask it, say what is missing of the answer. */
#ifndef ASCRIBE_CLI_READING_H
#define ASCRIBE_CLI_READING_H

#include "opt/filter.h"

/* A store and a query on it, open. Several stores are read as one. */
struct reading {
	const char *dirs[STORE_UNION_MAX];
	/*
	 * Of a store that is filled from ClickHouse. `one`: for one question, with these labels and
	 * keys; else for several, with what has few values and short windows.
	 */
	bool fleet, one;
	enum query_labels labels;
	const struct opt_list *keys;
	const struct filter *against; /* `one`: of what is compared, too; NULL: it is not */
	bool rest;		      /* what the selector does not admit, too */
	bool blame;		      /* `one`: also of who was running or woke */
	uint32_t every_s;	      /* `one`: of a series with such steps; 0: of no series */
	size_t functions;	      /* `one`: so many rows of a table of functions alone; 0: no */
	struct fleet_result filled;
	size_t n_dirs;
	struct store *store;
	struct query *query;
	bool explain;
	unsigned tries;		     /* how often the store was opened again */
	int64_t started_ns, step_ns; /* CLOCK_MONOTONIC */
};

/*
 * Open the stores in dirs, DEFAULT_STORE where there are none. Print what is wrong and return an
 * exit status; 0 when open. Close in any case. f NULL: no questions are asked.
 */
int reading_open_store(struct reading *r, char *const *dirs, size_t n, const struct filter *f);
/* Before: the store is for one question alone, with these labels and keys. */
void reading_ask_one(struct reading *r, enum query_labels labels, const struct opt_list *keys);
void reading_ask_series(struct reading *r, int64_t step_ns, const struct opt_list *keys);
int reading_open(struct reading *r, char *const *dirs, size_t n, const struct filter *f);
int reading_open_keys(struct reading *r, char *const *dirs, size_t n, const struct filter *f,
		      enum query_labels labels, const struct opt_list *keys);
/*
 * What reading_open checks before it opens the store: the range, and the selector, which is shown
 * with a mark under the place that is wrong. where, from: what the options are called. 0 or
 * EXIT_USAGE.
 */
int reading_check(const struct filter *f, const char *where, const char *from);
/* Show a text on stderr, and a caret under its byte `at`, whatever stands before it. */
void reading_show_place(const char *text, size_t at);
/* The metric that a filter names; -1: there is none of that name. */
int reading_metric(const struct filter *f);
/*
 * Whether keys or selector tell threads or processes apart, which the lengths of waits and who had
 * the CPU are not kept by.
 */
bool reading_of_threads(const struct filter *f, const struct opt_list *keys);
/* What to ask: of a filter and the labels and keys (NULL: none) that the rows are to keep. */
struct query_spec reading_spec(const struct filter *f, enum query_labels labels,
			       const struct opt_list *keys);
/*
 * Label keys, and after an answer values, that nothing in the store has: said with the nearest that
 * there is. 0 or EXIT_USAGE. reading_query does both.
 */
int reading_check_keys(struct reading *r, const struct filter *f, const char *const *keys,
		       size_t n);
int reading_check_values(struct reading *r, const struct filter *f, const struct query_info *info);
/*
 * Say whether to ask once more, after a question that ended with *rc: retention has cut a file that
 * it needed, and the store is open anew. No other query of r->store may be open. A failure to open
 * it is in *rc and err.
 */
bool reading_again(struct reading *r, const struct filter *f, int *rc, struct err *err);
/*
 * The query alone, on the store that is open; labels and keys (NULL: none) as in query_spec. Says
 * on stderr why there is no data, where there is none.
 */
int reading_query(struct reading *r, const struct filter *f, enum query_labels labels,
		  const struct opt_list *keys);
/* That part of it, for who asks the store directly: nothing of the store is in [from, to). */
void reading_no_data(struct store *s, int64_t from_ns, int64_t to_ns);
/* Say that the budget cut an answer to f. */
void reading_bounded(const struct filter *f, bool bounded);
/* Warn of windows whose labels are no longer there, or that are not there for these labels. */
void reading_labels_gone(const struct query_info *info);
/* All of these, of the answer to f. */
void reading_lacks(struct store *s, const struct filter *f, const struct query_info *info);
/* The query's event; one without a name when the store is empty. */
const struct store_event *reading_event(const struct reading *r);
/* --explain: one line for the step that ends now. */
void reading_step(struct reading *r, const char *what);
/* --explain: the blocks, rows and files. */
void reading_explain(struct reading *r);
void reading_close(struct reading *r);

#endif
