/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `ascribe top` shows, without a terminal. That is a stack of levels (a label's values,
 * functions, a tree of calls), each with its own sorting, search and mark. It also holds a span of
 * time, and the rows that a store has for all that. view_load asks the store anew, view_arrange
 * makes the rows of what was read last. Not thread-safe.
 */
#ifndef ASCRIBE_TOP_VIEW_H
#define ASCRIBE_TOP_VIEW_H

#include "query/query.h"
#include "top/calls.h"

enum top_kind {
	TOP_KEY,      /* the values of a label key */
	TOP_FUNCTION, /* functions */
	TOP_CALLERS,  /* who calls a function */
	TOP_CALLEES,  /* whom it calls */
};

/* What samples and rates are in. */
enum top_unit {
	TOP_CPUS,  /* time on CPUs */
	TOP_TIME,  /* other time */
	TOP_BYTES, /* memory, or what hits measured */
	TOP_COUNT, /* hits, objects */
};

enum top_sort {
	TOP_BY_SELF,
	TOP_BY_TOTAL,
	TOP_BY_NAME,
	TOP_BY_MODULE,
	TOP_N_SORTS,
};

struct top_row {
	const char *text; /* borrowed; of trees made when asked for: view_row_text */
	const char *module;
	uint64_t id; /* the same when rows are made anew */
	uint64_t samples, self;
	uint32_t node;	/* of a tree */
	unsigned depth; /* of a tree: how many branches lie between it and the top */
	bool missing;	/* the samples without this label */
	/* The samples without a row: of no one value or function, so it cannot be entered */
	bool other;
	/* branch: it has siblings, and is the last of them */
	bool inlined, has_children, open, branch, last;
};

#define TOP_FILTER_MAX 128

struct top_ids {
	uint64_t *v;
	size_t n, cap;
};

struct top_level {
	enum top_kind kind;
	char *key;		 /* TOP_KEY */
	char *where;		 /* the selector down to here, NULL: none */
	char *title;		 /* how one came here: tenant=a; NULL at the bottom */
	char *function, *module; /* trees */
	enum top_sort sort;
	bool reverse;
	char filter[TOP_FILTER_MAX];   /* rows whose name or module has this, whatever its case */
	struct top_ids opened, closed; /* of a tree; the rest is open where most of it goes on */
	uint64_t marked;	       /* the row that the cursor is on, 0: whatever comes first */
	size_t at, first;	       /* rows: the cursor, the first on the screen */
};

/* What was read, for the head of the screen. */
struct top_head {
	double seconds; /* of time that was read */
	double busy;	/* the rate of all that the selector lets pass (numbers.h) */
	uint64_t samples, fired, lost, idle_lost, stored, unlabelled, truncated;
	uint64_t sampled; /* of the stored, those that are no waits: unlabelled and truncated are
			     shares of them */
	unsigned n_cpus;
	double own_cpu; /* CPUs used by the recorder */
	uint64_t own_rss;
	int64_t to_ns;
	const char *event; /* or the metric */
	enum top_unit unit;
	bool amounts;	   /* samples are amounts of a metric, not counted samples */
	bool stock;	   /* which are averages of the time shown, not sums */
	uint64_t matching; /* rows before the filter */
};

#define TOP_LEVELS_MAX 16

struct top_view {
	/* Set by whoever shows it. */
	const char *const *dirs; /* stores, read as one */
	size_t n_dirs;
	const char *event;
	enum query_metric metric;
	enum query_names names;
	bool idle;
	int64_t span_ns;
	int64_t frozen_ns; /* 0: live; else the end of what is shown */
	/* Shown. */
	struct top_level level[TOP_LEVELS_MAX];
	size_t n_levels;
	struct top_head head;
	struct top_row *rows;
	size_t n_rows, rows_cap;
	/* What was read. */
	struct store *store;
	struct query *query;
	struct query_table *table;
	struct calls calls;
};

/* The bottom level: by key, NULL: by function. where: a selector or NULL. Strings are copied. */
int view_init(struct top_view *v, const char *key, const char *where, struct err *err);
void view_fini(struct top_view *v);

struct top_level *view_level(struct top_view *v);

/*
 * Read the store again, and make the rows. -ENODATA: there is nothing in it yet. What was read
 * before goes in any case.
 */
int view_load(struct top_view *v, struct err *err);
/* Make the rows again: another sorting, another filter, a branch that was opened. */
int view_arrange(struct top_view *v);

/* One level up: what the row stands for. True: there is something new to load. */
bool view_enter(struct top_view *v, size_t row);
/* One level down; false at the bottom. */
bool view_leave(struct top_view *v);
/* Another way to see the same selection. key NULL: by function. */
int view_regroup(struct top_view *v, const char *key);
/*
 * Callers instead of callees, and the other way; of a function's row as well. False: there is
 * neither here.
 */
bool view_turn(struct top_view *v);
/* A branch of a tree. */
int view_open(struct top_view *v, size_t row, bool open);

void view_sort_next(struct top_view *v);
/* Put the cursor on a row, or near to it. */
void view_mark(struct top_view *v, long row);

/* The name of a row; out of cap bytes is used where there is none to borrow. */
const char *view_row_text(const struct top_view *v, const struct top_row *r, char *out, size_t cap);

/* Where the span begins that ends at to_ns. */
int64_t view_from(const struct top_view *v, int64_t to_ns);

/* The label keys of what is shown, those with most samples first. */
struct top_keys {
	struct top_key {
		char *key;
		uint64_t values, samples;
	} *v;
	size_t n;
	uint64_t samples; /* of which the shares are */
};

/* Zeroed before; to be released either way. What was loaded stays. */
int view_keys(const struct top_view *v, struct top_keys *k, struct err *err);
void view_keys_fini(struct top_keys *k);

/*
 * selector and key="value" as one selector, to be freed; NULL: out of memory. value NULL: the label
 * is not there.
 */
char *view_narrow(const char *selector, const char *key, const char *value);

#endif
