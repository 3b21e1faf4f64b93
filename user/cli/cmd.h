/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands share: messages, exit codes, the options of every command that reads a store.
 *
 * Data goes to stdout, messages to stderr. main() checks after the command that all data was written.
 */
#ifndef ASCRIBE_CLI_CMD_H
#define ASCRIBE_CLI_CMD_H

#include "cli/options.h"
#include "export/json.h"
#include "query/query.h"

#define ASCRIBE_VERSION "0.1.0"
#define ASCRIBE_DATE "2026-11-21"
#define DEFAULT_STORE "./ascribe.data"

enum cmd_exit {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* something that was asked for was not done */
	EXIT_USAGE = 2,  /* the command line makes no sense */
};

/* The commands; argv[0] is the command's name; the result is the exit status. */
#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* The options of the i-th command of commands.def, its name and what it is for; NULL: there are fewer. */
const struct opt_command *cmd_table(size_t i, const char **ret_name, const char **ret_summary);

/* One line on stderr: "ascribe: ..." */
void cmd_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ascribe: ..." on stderr: no complaint. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * A warning after which the command goes on, and ends with EXIT_FAILED all the same: not everything
 * that was asked for was there.
 */
void cmd_incomplete(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Let the data that was printed so far go before what follows on stderr; main() reports a failure. */
void cmd_flush(void);

/* A line of JSON on stdout, taking over the value. -EIO; -ENOMEM when there is none. */
int cmd_print_json(json_t *value);

/* How memory is kept and given back where questions are answered. Before there are threads. */
void cmd_server_memory(void);

/*
 * Read a file of less than max bytes. *ret ends in a NUL, has no other one (-EINVAL), and is to be
 * freed. Refuse a file that another user may change (-EPERM, see trust_check).
 */
int cmd_read_text(const char *path, size_t max, char **ret, struct err *err);
/* Read the first word of a file. */
int cmd_read_token(const char *path, char **ret, struct err *err);
/* Make a random token; to be freed. */
int cmd_make_token(char **ret, struct err *err);
/* Read the token in a file, or make one and write it there with mode 0600; to be freed. */
int cmd_keep_token(const char *path, char **ret, struct err *err);

/*
 * opt_parse with its messages printed. True: go on. False: stop with *ret_exit (0 after --help);
 * `out` is released.
 */
bool cmd_parse(const struct opt_command *cmd, int argc, char **argv, void *out, struct opt_args *ret_args,
	       int *ret_exit);

/* What --help prints. */
int cmd_help(const struct opt_command *cmd);

/* ---- commands that read a store ---- */

struct filter {
	const char *where;
	int64_t from_ns, to_ns;
	const char *event;
	bool idle, json, explain;
	const char *metric; /* NULL: samples of the event */
	const char *names; /* NULL: full */
	bool by_start; /* see struct query_spec; no option */
	uint64_t limit; /* UINT64_MAX: not given */
	uint64_t memory; /* of an answer, in bytes */
	unsigned parts;	 /* struct query_spec; no option */
	uint32_t least;	 /* likewise */
};

/* clang-format off: a table */
#define FILTER_INIT { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .limit = UINT64_MAX, .memory = QUERY_MEMORY }

#define NAMES_OPTIONS(type, member)                                                                               \
	{ "names", 0, OPT_STRING, "STYLE",                                                                         \
	  "full; folded: clones (.isra.0, .cold, ...) are their function;\nsimple: also without template arguments and parameters (default of tables for people)",  \
	  offsetof(type, member.names), 0, 0 }
#define RANGE_OPTIONS(type, member)                                                                               \
	{ "from", 0, OPT_TIME, "T", "start: -1h, \"10 minutes ago\", 14:05, \"2026-11-23 14:05\",\n2026-11-23T14:05:00Z, epoch seconds", \
	  offsetof(type, member.from_ns), 0, 0 },                                                                  \
	{ "to", 0, OPT_TIME, "T", "end; the windows that overlap the range are read whole",                        \
	  offsetof(type, member.to_ns), 0, 0 }
#define MEMORY_OPTION(type, member)                                                                               \
	{ "memory", 0, OPT_SIZE, "SIZE",                                                                           \
	  "memory for the answer: where that is too little the smallest rows\nare summed as (other) (default 64MiB)", \
	  offsetof(type, member.memory), 1 << 20, 0 }
#define WHERE_OPTIONS(type, member)                                                                               \
	{ "where", 'w', OPT_STRING, "SELECTOR",                                                            \
	  "only samples with these labels:\n{tenant=\"a\",query_id=~\"4.*\",comm!=\"sh\"}",                        \
	  offsetof(type, member.where), 0, 0 },                                                                    \
	RANGE_OPTIONS(type, member),                                                                               \
	{ "event", 'e', OPT_STRING, "EVENT", "the event to show (default: the first of the store)",                \
	  offsetof(type, member.event), 0, 0 },                                                                    \
	{ "idle", 'i', OPT_FLAG, NULL, "include the samples of idle CPUs, and idle waits", offsetof(type, member.idle), 0, 0 }, \
	MEMORY_OPTION(type, member)
#define METRIC_OPTION(type, member)                                                                               \
	{ "metric", 'm', OPT_STRING, "METRIC",                                                                     \
	  "time instead of samples: cpu, off (blocked), runq (waiting for a CPU), wall\n(all three); needs a recording with --wall. waker: blocked, by who ended it\n(--waker): stacks are the waker's, and its labels have by. before them", \
	  offsetof(type, member.metric), 0, 0 }
#define LIMIT_OPTION(type, member, text)                                                                          \
	{ "limit", 'n', OPT_UINT, "N", text, offsetof(type, member.limit), 0, 0 }
#define JSON_OPTION(type, member)                                                                                 \
	{ "json", 0, OPT_FLAG, NULL, "print JSON", offsetof(type, member.json), 0, 0 }
#define EXPLAIN_OPTION(type, member)                                                                              \
	{ "explain", 0, OPT_FLAG, NULL, "say on stderr what was read and how long each step took",                 \
	  offsetof(type, member.explain), 0, 0 }
/* clang-format on */

/* A store and a query on it, open. Several stores are read as one. */
struct reading {
	const char *dirs[STORE_UNION_MAX];
	size_t n_dirs;
	struct store *store;
	struct query *query;
	bool explain;
	int64_t started_ns, step_ns; /* CLOCK_MONOTONIC */
};

/*
 * Open the stores in dirs, DEFAULT_STORE where there are none. Print what is wrong and return an exit
 * status; 0 when open. Close in any case. f NULL: no questions are asked.
 */
int reading_open_store(struct reading *r, char *const *dirs, size_t n, const struct filter *f);
int reading_open(struct reading *r, char *const *dirs, size_t n, const struct filter *f);
int reading_open_keys(struct reading *r, char *const *dirs, size_t n, const struct filter *f, enum query_labels labels,
		      const struct opt_list *keys);
/*
 * What reading_open checks before it opens the store: the range, and the selector, which is shown
 * with a mark under the place that is wrong. where, from: what the options are called. 0 or
 * EXIT_USAGE.
 */
int reading_check(const struct filter *f, const char *where, const char *from);
/* The metric that a filter names; -1: there is none of that name. */
int reading_metric(const struct filter *f);
/*
 * Whether keys or selector tell threads or processes apart, which the lengths of waits and who had
 * the CPU are not kept by.
 */
bool reading_of_threads(const struct filter *f, const struct opt_list *keys);
/* What to ask: of a filter and the labels and keys (NULL: none) that the rows are to keep. */
struct query_spec reading_spec(const struct filter *f, enum query_labels labels, const struct opt_list *keys);
/*
 * Label keys, and after an answer values, that nothing in the store has: said with the nearest that
 * there is. 0 or EXIT_USAGE. reading_query does both.
 */
int reading_check_keys(struct reading *r, const struct filter *f, const char *const *keys, size_t n);
int reading_check_values(struct reading *r, const struct filter *f, const struct query_info *info);
/*
 * The query alone, on the store that is open; labels and keys (NULL: none) as in query_spec. Says
 * on stderr why there is no data, where there is none.
 */
int reading_query(struct reading *r, const struct filter *f, enum query_labels labels, const struct opt_list *keys);
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
