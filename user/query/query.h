/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a store: which rows (selector, time range), and their merges: rows, tree, table.
 *
 * Labels seen by a query are the labels of the set plus the virtual label `event`. Blocked threads
 * (off-cpu) also have `wait`, the class of the wait. In tables they have `wait_in`, the program's
 * function, as waits for a CPU (runq) do (query/waits.h). Wakers have `by.function`.
 */
#ifndef ASCRIBE_QUERY_QUERY_H
#define ASCRIBE_QUERY_QUERY_H

#include "store/store.h"

#include <string.h>

/* Of QUERY_WAKER: the function of its program in which the waker was */
#define QUERY_WAKER_FUNCTION "by.function"
#define QUERY_WINDOW_NS 10000000000ll /* the windows of a recorder are no longer than this */

/* The fewer labels the rows keep, the fewer blocks are read. */
enum query_labels {
	QUERY_ALL_LABELS = 0, /* the sets as they were recorded: every window is read */
	QUERY_KEYS,	      /* these keys; all rows have stack 0 */
	QUERY_NO_LABELS,      /* all rows have set 0, or QUERY_OTHER */
	QUERY_KEYS_STACKS,    /* as QUERY_KEYS, with the stacks */
	/* One row with set 0 and stack 0: for who wants no more than query_info */
	QUERY_TOTALS,
};

/*
 * A query keeps within a budget of memory, that of its store (store_limit), or QUERY_MEMORY where
 * that has none. What does not fit is summed as (other), the smallest rows
 * first, and query_info.bounded is set. Sums stay exact, and so is every row that is shown:
 *  - QUERY_KEYS: one row has the label set QUERY_OTHER, for all sets that have no row.
 *  - QUERY_NO_LABELS: a row with the set QUERY_OTHER has the samples below its stack that have no
 *    row. (Also with query_spec.least, without query_info.bounded.)
 *  - else: a row with the stack QUERY_OTHER_STACK has the samples of its set that have no row, and
 *    its set is QUERY_OTHER for all sets that have no row.
 */
#define QUERY_MEMORY ((size_t)64 << 20)
#define QUERY_OTHER STORE_OTHER
/* No stack of the store; its frame is 0, as that of all that is (other) */
#define QUERY_OTHER_STACK UINT32_MAX

/*
 * What is summed: the samples of one event, or its values; or nanoseconds, of sampled CPU time and
 * of waits that were measured (record --wall); or memory (record -e heap).
 */
enum query_metric {
	QUERY_SAMPLES = 0,
	QUERY_CPU,   /* time on a CPU, by its samples */
	QUERY_OFF,   /* blocked */
	QUERY_RUNQ,  /* waiting for a CPU */
	QUERY_WALL,  /* all three */
	QUERY_BLAME, /* waiting for a CPU, by whom (labels by.*) */
	/* Blocked, by who ended it (labels by.*), with that one's stacks (record --waker) */
	QUERY_WAKER,
	/* All time, weighed by label values: wall-clock time of them (record --latency) */
	QUERY_LATENCY,
	/* What the hits of an event measured, in its unit: of one event, as QUERY_SAMPLES */
	QUERY_VALUE,
	QUERY_ALLOC_OBJECTS, /* allocations that were made, */
	QUERY_ALLOC_SPACE,   /* and their bytes */
	QUERY_INUSE_OBJECTS, /* allocations that were live, on average of the time covered, */
	QUERY_INUSE_SPACE,   /* and their bytes */
};

/* Memory: samples are objects or bytes. */
static inline bool query_metric_is_heap(enum query_metric metric)
{
	return metric >= QUERY_ALLOC_OBJECTS;
}

/* Is it measured by the recorder of waits (record --wall)? latency needs its key, too. */
static inline bool query_metric_is_of_waits(enum query_metric metric)
{
	return metric >= QUERY_OFF && metric <= QUERY_LATENCY;
}

/* Averages over time: those of two ranges do not add up. */
static inline bool query_metric_is_stock(enum query_metric metric)
{
	return metric >= QUERY_INUSE_OBJECTS;
}

/* The usual mean distance of samples of allocations, in bytes: HEAP_MEAN of wire.h. */
#define QUERY_HEAP_MEAN (512u << 10)

/* The names that query_metric_named takes, but for blame, which has a command of its own. */
#define QUERY_METRICS \
	"cpu, off, runq, wall, waker, latency, value, heap (that is inuse_space), inuse_objects, alloc_space, " \
	"alloc_objects"

/* How functions are called, and which of them are one. */
enum query_names {
	QUERY_NAMES_FULL = 0, /* as they were recorded */
	QUERY_NAMES_FOLDED,   /* without the marks of clones (.isra.0, .cold) */
	QUERY_NAMES_SIMPLE,   /* without template arguments and parameters either */
};

/*
 * Is it an event to ask for? Not one of a histogram's buckets (NAME.lengths), without stacks
 * (blame), or a part of another (waker.idle, latency.off).
 */
bool query_is_profile(const struct store_event *e);

/*
 * Does each hit or row of it have a value of its own, in its unit? Not of events that stand for
 * time or have a fixed period.
 */
static inline bool query_event_has_values(const struct store_event *e)
{
	return !e->ns_per_sample && !e->period;
}

/*
 * Return the name of the event that is CPU time, the first that stands for time; "": there is none.
 * A store that was appended to at another rate has two of its name.
 */
const char *query_cpu_event(const struct store *s);

/*
 * Do its rows count as samples of the recorder? Not those of `waker` and `latency`: they have the
 * time of other events once more.
 */
bool query_counts_samples(const struct store_event *e);

/*
 * `wait`, `wait_in` and QUERY_WAKER_FUNCTION: known by the stack, so there is no set that has them.
 */
bool query_is_wait_key(const char *key);

struct query_spec {
	enum query_names names;
	const char *where; /* selector text, NULL or "" for everything; see selector.h */
	/* What the selector does not admit; not with matchers of `event` or `wait` */
	bool rest;
	/*
	 * Realtime; INT64_MIN / INT64_MAX for open ends; rounded to whole windows
	 * (store_cover_nearest)
	 */
	int64_t from_ns, to_ns;
	/*
	 * Not QUERY_SAMPLES: samples are nanoseconds, bytes or objects, and event is of no
	 * consequence; but for QUERY_VALUE
	 */
	enum query_metric metric;
	/* Only this event; NULL: the first event of the store that the selector admits */
	const char *event;
	bool idle;		  /* include the samples of idle CPUs, and idle waits */
	enum query_labels labels; /* which labels the rows keep */
	const char *const *keys;  /* QUERY_KEYS: these */
	size_t n_keys;
	bool rows_alone; /* QUERY_NO_LABELS: no tree or table of functions will be asked for */
	bool by_start;	 /* windows that begin in [from, to), not rounded */
	/* Only this block of the store (store_cover), whatever the range; not QUERY_NO_LABELS */
	const struct store_block *block;
	uint32_t least; /* QUERY_NO_LABELS: stacks with less than 1/least of the samples may be
			   summed as (other) below their parents, and lines left out; 0: no */
	/*
	 * Of QUERY_ALL_LABELS and QUERY_KEYS_STACKS: only the label sets of one of so many shares,
	 * by their hash; 0: all
	 */
	uint32_t shares, share;
	unsigned parts; /* so many answers are kept at a time, and each has that part of the budget;
			   0: 1 */
	/*
	 * Of an event that was recorded at several rates: count in these; 0: the longest that the
	 * range has
	 */
	uint64_t ns_per_sample;
};

/*
 * The metric of this name (QUERY_METRICS, or blame); QUERY_SAMPLES for NULL. -EINVAL: there is
 * none.
 */
int query_metric_named(const char *name, enum query_metric *ret);

/*
 * Whether the selector or keys tell threads or processes apart (tgid, tid, thread), which the
 * lengths of waits and who was running are not kept by.
 */
bool query_of_threads(const char *where, const char *const *keys, size_t n_keys);

/*
 * Whether the recorder gives this label to samples of its own, also to those of idle CPUs: comm,
 * exe, container, ...
 */
bool query_is_system_key(const char *key);

/*
 * Whether a range that is compared with another takes the windows that begin in it (by_start), so
 * that none is in both. Shorter ones are cut by tracks instead.
 */
static inline bool query_takes_starts(int64_t from_ns, int64_t to_ns)
{
	return from_ns <= INT64_MIN / 2 || to_ns >= INT64_MAX / 2 ||
	       to_ns - from_ns >= STORE_CUT_NS;
}

struct query;

/*
 * Parse the selector, choose the windows, merge their rows. The store must outlive the query.
 * -EINVAL: a bad selector (the text shows the place; selector_parse gives it as a number), an
 * unknown event, a key that only other events have (`wait`, `wait_in`, `by.function`). -E2BIG: a
 * regular expression that went over its limits. -EAGAIN: the question shall end (store_limit). No
 * matching data is no error. info.event is NULL in a store without events.
 */
int query_open(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err);
void query_close(struct query *q);

struct query_info {
	/* The range really used: whole windows; both 0 when there is none */
	int64_t from_ns, to_ns;
	uint64_t samples, value; /* of the rows that matched */
	double seconds;		 /* samples * ns_per_sample; 0 for events that are not time */
	uint64_t idle;		 /* samples of idle CPUs in the range, left out or not */
	/*
	 * Of the rows that matched: idle waits, left out unless asked for by spec.idle or by the
	 * selector
	 */
	uint64_t idle_waits;
	uint64_t blocks;  /* of the segment tree, that were merged */
	uint64_t windows; /* that they hold */
	/*
	 * windows of them without the labels in question: older than what is kept whole, or short
	 * of space
	 */
	uint64_t coarse;
	/*
	 * windows of the range that are not among them: cut, where these labels are only in windows
	 */
	uint64_t gone;
	/* The budget cut something: the smallest rows are summed as (other) */
	bool bounded;
	/* Sum of their lengths, at most: less than to - from where nothing was recorded */
	int64_t covered_ns;
	uint64_t fired, stored;	 /* of all rows in the range, whatever the selector */
	const uint64_t *lost;	 /* [store_meta()->n_lost] in the range */
	const uint64_t *flagged; /* [store_meta()->n_flagged] */
	uint64_t outside, own_cpu_ns, own_rss_max;
	/*
	 * With a metric: its name and unit, and 1 ns a sample, of memory no time, or the unit of
	 * the values. Of several rates the lowest: the samples of others are converted, so their
	 * sum is the time.
	 */
	const struct store_event *event;
	/* With a metric: samples are amounts in the unit of the event */
	bool amounts;
	/*
	 * What one sample stands for in the sampled part, in that unit, of bytes about; 0: nothing
	 * was sampled, every hit or wait is there, or it is not known (objects)
	 */
	uint64_t grain;
};

const struct query_info *query_info(const struct query *q);

/* What the samples of an answer are: "samples", or the unit of the amounts. */
const char *query_counts(const struct query_info *info);

/* Did each hit of the event measure a value of its own, and are samples its hits? */
bool query_has_values(const struct query_info *info);

/* How many queries of this process the budget has cut. */
uint64_t query_bounded_total(void);

/*
 * The matched rows, each (set, stack, event) once, in order of (set, stack). Borrowed until
 * query_close.
 */
const struct store_row *query_rows(const struct query *q, size_t *ret_n);
/* Put them in order of (stack, set), for who writes a stack once. -ENOMEM: they are as before. */
int query_rows_by_stack(struct query *q);

/* The labels of a row's set, borrowed until query_close; for QUERY_OTHER one label that says so. */
size_t query_set(const struct query *q, uint32_t set, const struct label **ret);

/* Whether a row has samples that were cut: of stacks below its stack, or of its set. */
bool query_row_is_other(const struct query *q, const struct store_row *row);

/*
 * ---- merged tree: one node per distinct path of frames, for flame graphs and folded stacks ----
 */

struct query_node {
	uint32_t stack;	 /* store stack id; 0 for the root; QUERY_OTHER_STACK for what was cut below
			    its parent */
	uint32_t parent; /* index; the root is node 0, its own parent */
	uint32_t first_child, next_sibling; /* index, 0: none; children by total, ties by name */
	uint64_t self, total;		    /* samples */
};

/* Nodes with parents before children. Borrowed until query_close; built at the first call. */
int query_tree(struct query *q, const struct query_node **ret_nodes, size_t *ret_n,
	       struct err *err);
/*
 * For qsort_r: compare indices (uint32_t) of ctx, an array of nodes, by total, descending; ties by
 * index.
 */
int query_by_total(const void *a, const void *b, void *ctx);

/* ---- table: by function or by label keys ---- */

struct query_table_row {
	/* String id, when by function; frames without a name: see text */
	uint32_t function;
	/* function: the name to show ("file+0x12" when unresolved); keys: "a,b" */
	const char *text;
	const char *module;	   /* by function: the module's name */
	const char *const *values; /* by keys: one text per key, "" where the label is missing */
	const bool *present;	   /* by keys: whether the label is there at all */
	/* total: stacks that contain the function, once per stack; or of the group */
	uint64_t samples;
	uint64_t self;	/* by function: as the leaf; by keys: = samples */
	uint64_t error; /* it may have so many samples more (query_top; functions of a query that is
			   bounded) */
	bool inlined;	/* by function: all of its calls are inlined ones */
	bool other; /* all that has no row: of values or sets, then it is the last; of functions,
		       what was cut */
	/*
	 * 95% interval of samples / info.samples (Wilson score); the share itself where nothing
	 * was sampled
	 */
	double low, high;
	uint64_t value; /* of the group; see has_values */
};

struct query_table {
	/* By self, then samples, descending; ties by values (integers as such), text, module */
	struct query_table_row *rows;
	size_t n_rows;
	size_t n_left;	  /* rows behind the last one, which are not there */
	bool has_values;  /* by keys: each hit had its own value, and rows have their sums */
	bool approximate; /* rows have errors, or some values have no row */
	uint64_t bound;	  /* what a value without a row has at most */
};

/*
 * keys == NULL: by function, a row for each function of each module. Freed with query_table_free,
 * before the query and the store are closed.
 */
int query_table(struct query *q, const char *const *keys, size_t n_keys, struct query_table **ret,
		struct err *err);
void query_table_free(struct query_table *t);

/* Functions that were counted elsewhere (fleet/fleet.h), the first of n_all. */
struct query_counted {
	struct query_function {
		const char *name, *module;
		uint64_t self, samples;
		bool inlined;
	} *v;
	size_t n, n_all;
};
/* Their table, which borrows them; q has the same samples. */
int query_table_counted(struct query *q, const struct query_counted *c, struct query_table **ret,
			struct err *err);

/*
 * By one wide key, from what the blocks of the query keep of it. That is the most frequent values,
 * at least so many samples each, and what is left in a row for all others. q must have no selector
 * and QUERY_TOTALS. query_top_serves: the key is wide and blocks above the windows would be read.
 */
bool query_top_serves(struct query *q, const char *key);
int query_top(struct query *q, const char *key, struct query_table **ret, struct err *err);

/* Wilson score interval at 95% for k of n; n == 0 gives [0, 1]. */
void query_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high);

/*
 * Of the stacks of a query's rows, and the ancestors of these, those that differ in source lines
 * only: one stands for all, as in query_tree. -ENOMEM.
 */
struct query_same;
int query_same_new(struct query_same **ret, const struct query *q);
void query_same_free(struct query_same *s);
/* Return the one that stands for a row's stack. */
uint32_t query_same_stack(const struct query_same *s, uint32_t stack);

/*
 * The name to show for a frame: the function, or "basename(module)+0xoffset". Writes at most cap
 * bytes with a NUL.
 */
void query_frame_name(const struct store *s, uint32_t frame, char *out, size_t cap);

/* The same as the query's spec.names wants it. */
void query_name(const struct query *q, uint32_t frame, char *out, size_t cap);

#endif
