/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe report: who and which code used the CPU, as tables, as a tree, or around one function. */
#include "cli/report.h"

#include "cli/accounting.h"
#include "cli/series.h"
#include "export/answer.h"
#include "hist/bounds.h"
#include "opt/term.h"
#include "sql/texts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WHO_ROWS 10
#define WHERE_ROWS 15
#define DEFAULT_ROWS 30
#define TREE_ROWS 40
#define PEEK_ROWS 10

static const struct opt options[] = {
	{ "by", 'b', OPT_LIST, "KEY,..",
	  "by these label keys (comm, tenant, event, ...), or by \"function\"",
	  offsetof(struct report, by), 0, 0 },
	{ "step", 's', OPT_DURATION, "TIME",
	  "over time, in steps of so long (1m); windows are never split",
	  offsetof(struct report, step_ns), 0, 0 },
	{ "before", 0, OPT_TIME, "T",
	  "with a column of the change since an earlier range of the same length, which begins "
	  "here",
	  offsetof(struct report, before_ns), 0, 0 },
	{ "per", 0, OPT_STRING, "EVENT",
	  "with --by: for each row the ratio to this event, as -e instructions --per cycles",
	  offsetof(struct report, per), 0, 0 },
	{ "tree", 0, OPT_FLAG, NULL, "the calls from the roots on, those with most samples",
	  offsetof(struct report, tree), 0, 0 },
	{ "peek", 0, OPT_STRING, "FUNCTION",
	  "who calls a function, and what it calls; a part of its name is enough",
	  offsetof(struct report, peek), 0, 0 },
	WHERE_OPTIONS(struct report, filter),
	METRIC_OPTION(struct report, filter),
	NAMES_OPTIONS(struct report, filter),
	LIMIT_OPTION(
		struct report, filter,
		"rows to print, 0 for all. Default: 10 and 15, 30 with --by, 40 with --tree, all "
		"with --json, 10 with --step, where the others are summed"),
	{ "buckets", 0, OPT_STRING, "BOUNDS",
	  "with --metric off or runq, or the event of a probe with values: histograms in these "
	  "buckets (" HIST_BOUNDS_SYNTAX ")",
	  offsetof(struct report, buckets), 0, 0 },
	{ "full-names", 0, OPT_FLAG, NULL,
	  "print names whole, with template arguments and parameters",
	  offsetof(struct report, full_names), 0, 0 },
	{ "exact", 0, OPT_FLAG, NULL,
	  "with --by and one key that has very many values: read every window, not only the most "
	  "frequent values of long ranges",
	  offsetof(struct report, exact), 0, 0 },
	{ "postgres", 0, OPT_STRING, "CONNINFO",
	  "with --by query_id: print the SQL from pg_stat_statements of this PostgreSQL server "
	  "(a connection string of libpq)",
	  offsetof(struct report, postgres), 0, 0 },
	JSON_OPTION(struct report, filter),
	EXPLAIN_OPTION(struct report, filter),
};

static const struct opt_command command = {
	.name = "report",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Print who used the CPU, then which code. STORE is a directory written by "
		 "`ascribe record`, "
		 "by default " DEFAULT_STORE
		 ". The first table is by a label that programs set, such as tenant, where one "
		 "covers half of the samples; else by process. A share is printed with its 95% "
		 "interval where there is room. Several stores are read as one; their rows have "
		 "the label `host`.",
	.examples =
		"  ascribe report                                 # who, then where\n  ascribe "
		"report --by function                   # functions, by their own time\n  ascribe "
		"report --by tenant                     # who used the CPU\n  ascribe report --by "
		"tenant,endpoint -n 10      # by two labels\n  ascribe report --where "
		"'{tenant=\"acme\"}'       # the code of one tenant\n  ascribe report --from -15m "
		"--before -30m       # and how that changed\n  ascribe report --tree                          "
		"# the calls\n  ascribe report --peek memcpy                   # who calls it, "
		"and what it calls\n  ascribe report --step 1m --by tenant           # who, over "
		"time\n  ascribe report --by query_id --postgres \"host=/run/postgresql "
		"user=monitor\"  # with SQL\n  ascribe report "
		"-e instructions --per cycles --by tenant  # instructions per cycle\n"
		"  ascribe report --metric off --by comm          # "
		"who was blocked, of a recording with --wall\n  ascribe report --metric off --by "
		"wait_in,wait  # in which function of the program, and why\n  ascribe report "
		"--metric runq --by tenant --buckets log:1us:1s  # how long each waited\n"
		"  ascribe report web1 "
		"web2 db --by host          # several stores, by their hosts\n  ascribe report "
		"--from -1h --json               # for a program\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = STORE_UNION_MAX,
};

static int print_json(const struct reading *r, const struct report *opts,
		      const struct query_table *t, size_t limit)
{
	const struct opt_list *by = &opts->by;
	const struct answer a = { .store = r->store,
				  .where = opts->filter.where,
				  .keys = (const char *const *)by->v,
				  .n_keys = by->n,
				  .limit = limit,
				  .metric = opts->filter.metric,
				  .lengths = opts->lengths,
				  .ratios = report_ratios_answer(opts->ratios) };
	const struct answer_table of = { &a, r->query, t };
	const struct json_rows rows = answer_table_rows(&of);
	return cmd_print_json_rows(answer_table(&of), &rows);
}

/* ---- text ---- */

static size_t rows_of(const struct report *opts, size_t by_default)
{
	uint64_t limit = opts->filter.limit;
	return limit == UINT64_MAX ? by_default : limit ? limit : SIZE_MAX;
}

static int print_text(const struct reading *r, const struct report *opts,
		      const struct query_table *t, size_t limit)
{
	report_header(r, opts);
	int rc = report_table(r, opts, t, limit);
	if (opts->changes)
		report_change_note(opts->changes, r, !opts->by.n);
	if (opts->ratios)
		report_ratios_note(opts->ratios, r);
	report_sql(opts->sql, opts, t, limit);
	accounting_footer(r->store, query_info(r->query));
	return rc;
}

static bool with_changes(const struct report *opts)
{
	return opts->before_ns != INT64_MIN;
}

/* Print the table by the label that says for whom the samples are. */
static int print_who(struct reading *r, const struct report *opts, struct err *err)
{
	char key[256], *keys[1] = { key };
	struct report who = *opts;
	struct reading other = *r; /* the same store, another question */
	struct query_table *t = NULL;
	int rc = report_who_key(r, &opts->filter, key, err);
	if (rc)
		return rc;
	who.by = (struct opt_list){ keys, 1 };
	struct query_spec spec = reading_spec(&opts->filter, QUERY_KEYS, &who.by);
	other.query = NULL;
	rc = query_open(&other.query, r->store, &spec, err);
	rc = rc ? rc : query_table(other.query, spec.keys, 1, &t, err);
	rc = rc || !with_changes(opts) ? rc : report_changes_open(&who.changes, &other, &who, err);
	rc = rc ? rc : report_table(&other, &who, t, rows_of(opts, WHO_ROWS));
	report_changes_close(who.changes);
	query_table_free(t);
	query_close(other.query);
	return rc;
}

/* "Who", then "where". */
static int print_both(struct reading *r, const struct report *opts, struct err *err)
{
	struct query_table *t = NULL;
	struct report where = *opts;
	report_header(r, opts);
	int rc = query_info(r->query)->samples ? print_who(r, opts, err) : 0;
	rc = rc ? rc : query_table(r->query, NULL, 0, &t, err);
	rc = rc || !with_changes(opts) ? rc : report_changes_open(&where.changes, r, opts, err);
	if (!rc && t->n_rows) {
		putchar('\n');
		rc = report_table(r, &where, t, rows_of(opts, WHERE_ROWS));
	}
	if (!rc && where.changes)
		report_change_note(where.changes, r, true);
	report_changes_close(where.changes);
	query_table_free(t);
	accounting_footer(r->store, query_info(r->query));
	return rc;
}

static int report_calls(struct reading *r, const struct report *opts)
{
	int status = opts->peek ? report_peek(r, opts, rows_of(opts, PEEK_ROWS))
				: report_tree(r, opts, rows_of(opts, TREE_ROWS));
	if (!status)
		accounting_footer(r->store, query_info(r->query));
	reading_explain(r);
	return status;
}

static int report_who_where(struct reading *r, const struct report *opts)
{
	struct err err = { 0 };
	int rc = print_both(r, opts, &err);
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : "out of memory");
	reading_step(r, "print");
	reading_explain(r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* Waits have lengths, and hits of probes values, by label keys; not by thread. */
static int open_lengths(struct reading *r, struct report *opts, struct err *err)
{
	struct query_spec spec = reading_spec(&opts->filter, QUERY_KEYS, &opts->by);
	return query_lengths_serve(r->store, &spec)
		       ? query_lengths(&opts->lengths, r->store, &spec, err)
		       : 0;
}

static int report(struct reading *r, struct report *opts)
{
	const char *const *keys = (const char *const *)opts->by.v;
	struct query_table *t = NULL;
	struct err err = { 0 };
	size_t limit = rows_of(opts, opts->filter.json ? SIZE_MAX : DEFAULT_ROWS);
	int rc = opts->top ? query_top(r->query, opts->by.v[0], &t, &err)
		 : r->filled.by_function
			 ? query_table_counted(r->query, &r->filled.functions, &t, &err)
			 : query_table(r->query, opts->by.n ? keys : NULL, opts->by.n, &t, &err);
	rc = rc ? rc : open_lengths(r, opts, &err);
	rc = rc || !with_changes(opts) ? rc : report_changes_open(&opts->changes, r, opts, &err);
	rc = rc || !opts->per ? rc : report_ratios_open(&opts->ratios, r, opts, t, &err);
	if (rc) {
		cmd_error("%s", err.text);
	} else {
		reading_step(r, "table");
		rc = opts->filter.json ? print_json(r, opts, t, limit)
				       : print_text(r, opts, t, limit);
		reading_step(r, "print");
		reading_explain(r);
		if (rc == -ENOMEM)
			cmd_error("out of memory");
	}
	query_table_free(t);
	query_lengths_free(opts->lengths);
	report_changes_close(opts->changes);
	report_ratios_close(opts->ratios);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* `--by function` stands alone: with other keys it would be another question. */
static int check_keys(struct report *opts, bool *ret_function)
{
	bool calls = opts->tree || opts->peek;
	if (opts->per &&
	    (!opts->by.n || opts->step_ns || with_changes(opts) || opts->filter.metric)) {
		cmd_error(
			"report: --per needs --by KEY,.. and goes without --step, --before and --metric");
		return EXIT_USAGE;
	}
	if (opts->buckets && (calls || opts->step_ns || with_changes(opts) || opts->per)) {
		cmd_error(
			"report: --buckets goes without --tree, --peek, --step, --before and --per");
		return EXIT_USAGE;
	}
	if (calls &&
	    (opts->by.n || opts->step_ns || (opts->tree && opts->peek) || opts->filter.json)) {
		cmd_error(
			"report: --tree and --peek stand alone; `ascribe flame --json` is the tree as JSON");
		return EXIT_USAGE;
	}
	if (with_changes(opts) && (calls || opts->step_ns || opts->filter.json)) {
		cmd_error(
			"report: --before is for tables; `ascribe diff --json` is the difference as JSON");
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < opts->by.n; i++) {
		if (strcmp(opts->by.v[i], "function"))
			continue;
		if (opts->per) {
			cmd_error("report: --per is for label keys: functions have no ratios yet");
			return EXIT_USAGE;
		}
		if (opts->step_ns) {
			cmd_error(
				"report: --step is for label keys: one function over time is not there yet");
			return EXIT_USAGE;
		}
		if (opts->by.n > 1) {
			cmd_error(
				"report: --by function stands alone; to see one label's functions "
				"use "
				"--where '{key=\"value\"}'");
			return EXIT_USAGE;
		}
		opt_release(&command, opts);
		*ret_function = true;
	}
	return EXIT_OK;
}

/*
 * One wide key over a long range: the stacks alone are read first, which are what the shares are
 * of.
 */
static int open_report(struct reading *r, const struct opt_args *args, struct report *opts,
		       bool functions)
{
	const struct filter *f = &opts->filter;
	int status = reading_check(f, "--where", "--from");
	if (functions && !opts->by.n && !with_changes(opts))
		r->functions = rows_of(opts, f->json ? SIZE_MAX : DEFAULT_ROWS);
	functions |= opts->tree || opts->peek;
	reading_ask_one(r,
			opts->by.n  ? QUERY_KEYS
			: functions ? QUERY_NO_LABELS
				    : QUERY_KEYS_STACKS,
			&opts->by);
	if (!status)
		status = reading_open_store(r, args->v, args->n, f);
	if (status)
		return status;
	if (opts->by.n == 1 && !opts->exact && !opts->buckets && !with_changes(opts) &&
	    !opts->per && !f->metric && !(f->where && *f->where) &&
	    store_is_wide(r->store, opts->by.v[0])) {
		status = reading_query(r, f, QUERY_TOTALS, NULL);
		opts->top = !status && query_top_serves(r->query, opts->by.v[0]);
		if (status || opts->top)
			return status;
		query_close(r->query);
		r->query = NULL;
	}
	return reading_query(r, f, opts->by.n || opts->buckets ? QUERY_KEYS : QUERY_NO_LABELS,
			     &opts->by);
}

int cmd_report(int argc, char **argv)
{
	struct report opts = { .filter = FILTER_INIT, .before_ns = INT64_MIN };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	bool by_function = opts.filter.json;
	struct err err = { 0 };
	struct sql_asker asker = SQL_ASKER_NONE;
	int rc = opts.postgres ? sql_asker_start(&asker, opts.postgres, &err) : 0;
	if (!rc && opts.postgres && sql_texts_new(&opts.sql, asker.fd))
		rc = err_set(&err, -ENOMEM, "out of memory");
	if (rc) {
		cmd_error("%s", err.text);
		sql_asker_stop(&asker);
		return EXIT_FAILED;
	}
	if (!opts.filter.names && !opts.filter.json)
		opts.filter.names = opts.full_names ? "full" : "simple";
	status = check_keys(&opts, &by_function);
	if (!status && opts.step_ns)
		status = series_report(&r, &args, &opts.filter, &opts.by, opts.step_ns, opts.exact);
	else if (!status)
		status = open_report(&r, &args, &opts, by_function);
	if (!status && !opts.step_ns)
		status = opts.buckets ? report_lengths(&r, &opts, rows_of(&opts, WHO_ROWS))
			 : opts.tree || opts.peek     ? report_calls(&r, &opts)
			 : !opts.by.n && !by_function ? report_who_where(&r, &opts)
						      : report(&r, &opts);
	reading_close(&r);
	sql_texts_free(opts.sql);
	sql_asker_stop(&asker);
	opt_release(&command, &opts);
	return status;
}
