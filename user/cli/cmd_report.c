/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe report: the table, by function or by label keys. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/groups.h"
#include "cli/series.h"
#include "cli/term.h"
#include "cli/text.h"
#include "export/answer.h"
#include "query/lengths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROWS 30

struct report {
	struct filter filter;
	struct opt_list by;
	int64_t step_ns; /* 0: no series */
	bool full_names;
	bool exact;
	bool top; /* the answer is query_top's */
	struct query_lengths *lengths; /* of waits, by `by`; NULL: not asked for */
};

static const struct opt options[] = {
	{ "by", 'b', OPT_LIST, "KEY,..", "by these label keys (event, comm, tenant, ...);\n\"function\" is the default",
	  offsetof(struct report, by), 0, 0 },
	{ "step", 's', OPT_DURATION, "TIME", "over time, in steps of so long (1m); windows are never split",
	  offsetof(struct report, step_ns), 0, 0 },
	WHERE_OPTIONS(struct report, filter),
	METRIC_OPTION(struct report, filter),
	NAMES_OPTIONS(struct report, filter),
	LIMIT_OPTION(struct report, filter,
		     "rows to print, 0 for all (default: 30; with --json all; with --step 10, the\n"
		     "others are summed)"),
	{ "full-names", 0, OPT_FLAG, NULL, "print function names whole, however long",
	  offsetof(struct report, full_names), 0, 0 },
	{ "exact", 0, OPT_FLAG, NULL,
	  "with --by and one key that has very many values: read every window, not\nonly the most frequent values of long ranges",
	  offsetof(struct report, exact), 0, 0 },
	JSON_OPTION(struct report, filter),
	EXPLAIN_OPTION(struct report, filter),
};

static const struct opt_command command = {
	.name = "report",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Print who and which code used the CPU. STORE is a directory written by `ascribe record`,\n"
		 "by default " DEFAULT_STORE ". A share is printed with its 95% interval. Several stores are read\n"
		 "as one; their rows have the label `host`.\n",
	.examples = "  ascribe report                                 # functions, by their own time\n"
		    "  ascribe report --by tenant                     # who used the CPU\n"
		    "  ascribe report --by tenant,endpoint -n 10      # by two labels\n"
		    "  ascribe report --where '{tenant=\"a\"}'          # the code of one tenant\n"
		    "  ascribe report --step 1m --by tenant           # who, over time\n"
		    "  ascribe report --metric off --by comm          # who was blocked, of a recording with --wall\n"
		    "  ascribe report --metric off --by wait_in,wait  # in which function of the program, and why\n"
		    "  ascribe report web1 web2 db --by host          # several stores, by their hosts\n"
		    "  ascribe report --from now-1h --json            # for a program\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = STORE_UNION_MAX,
};

/* What a row stands for in seconds; 0 when the event is not time. */
static double seconds(const struct reading *r, uint64_t samples)
{
	return (double)samples * (double)reading_event(r)->ns_per_sample / 1e9;
}

/* Time, not samples: what is counted are nanoseconds. */
static bool is_time(const struct reading *r)
{
	return reading_event(r)->ns_per_sample == 1;
}

static double share(const struct reading *r, uint64_t samples)
{
	const struct query_info *info = query_info(r->query);
	return info->samples ? (double)samples / (double)info->samples : 0;
}

static const struct hist_snapshot *row_lengths(const struct report *opts, const struct query_table_row *r)
{
	return opts->lengths && !r->other ? query_lengths_of(opts->lengths, r->values, r->present) : NULL;
}

static int print_json(const struct reading *r, const struct report *opts, const struct query_table *t, size_t limit)
{
	const struct opt_list *by = &opts->by;
	const struct answer a = { .store = r->store, .where = opts->filter.where, .keys = (const char *const *)by->v, .n_keys = by->n,
				  .limit = limit, .metric = opts->filter.metric, .lengths = opts->lengths };
	return cmd_print_json(answer_table(&a, r->query, t));
}

/* ---- text ---- */

static void print_header(const struct reading *r, const struct report *opts)
{
	const struct query_info *info = query_info(r->query);
	char range[120];
	uint64_t seen = info->samples + info->idle;
	accounting_title(r->store);
	if (info->blocks) {
		text_range(info->from_ns, info->to_ns, range);
		puts(range);
	}
	if (opts->filter.where && *opts->filter.where) {
		fputs("where ", stdout);
		text_put(stdout, opts->filter.where, 0);
		putchar('\n');
	}
	text_put(stdout, *reading_event(r)->name ? reading_event(r)->name : "nothing", 0);
	if (is_time(r))
		printf(": %.3f s", info->seconds);
	else
		printf(": %llu samples", (unsigned long long)info->samples);
	if (!is_time(r) && reading_event(r)->ns_per_sample)
		printf(" = %.3f s", info->seconds);
	if (!opts->filter.idle && info->idle)
		printf(is_time(r) ? "; idle CPUs left out: %.3f s"
				  : "; idle CPUs left out: %.0f samples",
		       is_time(r) ? seconds(r, info->idle) : (double)info->idle);
	/* They are of the whole host: what a selector leaves is no base for a share. */
	if (!opts->filter.idle && info->idle && !(opts->filter.where && *opts->filter.where))
		printf(" (%.1f%%)", 100.0 * (double)info->idle / (double)seen);
	if (info->idle_waits && is_time(r))
		printf("; idle waits left out: %.3f s", seconds(r, info->idle_waits));
	else if (info->idle_waits)
		printf("; idle waits left out: %llu samples", (unsigned long long)info->idle_waits);
	puts("\n");
}

/* Waits are measured: no chance is in them. */
static bool has_interval(const struct reading *rd)
{
	return !is_time(rd) || query_info(rd->query)->grain_ns;
}

static void print_numbers(const struct reading *rd, const struct query_table_row *r, bool by_function)
{
	if (!is_time(rd))
		printf("%9llu ", (unsigned long long)r->samples);
	if (reading_event(rd)->ns_per_sample)
		printf("%10.3f ", seconds(rd, r->samples));
	printf("%6.2f%%  ", 100 * share(rd, r->samples));
	if (has_interval(rd))
		printf("%6.2f%% - %6.2f%% ", 100 * r->low, 100 * r->high);
	if (by_function && is_time(rd))
		printf("%10.3f %6.2f%%", seconds(rd, r->self), 100 * share(rd, r->self));
	else if (by_function)
		printf("%9llu %6.2f%%", (unsigned long long)r->self, 100 * share(rd, r->self));
	fputs("  ", stdout);
}

static void print_columns(const struct reading *rd, bool by_function)
{
	if (!is_time(rd))
		printf("%9s ", "SAMPLES");
	if (reading_event(rd)->ns_per_sample)
		printf("%10s ", "SECONDS");
	printf("%7s  ", "SHARE");
	if (has_interval(rd))
		printf("%-17s ", "     95% INTERVAL");
	if (by_function)
		printf("%*s %7s", is_time(rd) ? 10 : 9, "SELF", "SELF%");
	fputs("  ", stdout);
}

static int print_functions(const struct reading *rd, const struct report *opts, const struct query_table *t, size_t limit)
{
	uint64_t rest = query_info(rd->query)->samples;
	term_begin(stdout, TERM_HEAD);
	print_columns(rd, true);
	fputs("FUNCTION", stdout);
	term_end(stdout);
	putchar('\n');
	for (size_t i = 0; i < t->n_rows && i < limit; i++) {
		const struct query_table_row *r = &t->rows[i];
		print_numbers(rd, r, true);
		if (function_print(r->text, r->module, r->inlined, opts->full_names ? 0 : NAME_WIDTH))
			return -ENOMEM;
		rest -= r->self < rest ? r->self : rest;
	}
	if (limit < t->n_rows && is_time(rd))
		printf("\nnot shown: %zu, with %.3f s of their own; -n 0 prints all\n", t->n_rows - (size_t)limit,
		       seconds(rd, rest));
	else if (limit < t->n_rows)
		printf("\nnot shown: %zu, with %llu samples of their own; -n 0 prints all\n", t->n_rows - (size_t)limit,
		       (unsigned long long)rest);
	return 0;
}

static void print_length_heads(void)
{
	printf("%9s", "WAITS");
	for (size_t i = 0; i < ANSWER_QUANTILES; i++)
		printf(" %9s", answer_quantiles[i].head);
	fputs("  ", stdout);
}

/* How many waits, and their quantiles. */
static void print_lengths(const struct hist_snapshot *h)
{
	char text[32];
	printf("%9llu", (unsigned long long)(h ? h->total : 0));
	for (size_t i = 0; i < ANSWER_QUANTILES; i++) {
		text_duration(h && h->total ? hist_snapshot_quantile(h, answer_quantiles[i].q).value : 0, text);
		printf(" %9s", h && h->total ? text : "-");
	}
	fputs("  ", stdout);
}

struct printer {
	const struct reading *rd;
	const struct report *opts;
	const struct query_table *t;
};

static void group_numbers(void *ctx, size_t i)
{
	const struct printer *p = ctx;
	if (i == GROUP_HEAD)
		print_columns(p->rd, false);
	else
		print_numbers(p->rd, &p->t->rows[i], false);
	if (p->opts->lengths && i == GROUP_HEAD)
		print_length_heads();
	else if (p->opts->lengths)
		print_lengths(row_lengths(p->opts, &p->t->rows[i]));
}

static uint64_t most_error(const struct query_table *t)
{
	uint64_t most = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		most = t->rows[i].error > most ? t->rows[i].error : most;
	return most;
}

static int print_groups(const struct reading *rd, const struct report *opts, const struct query_table *t, size_t limit)
{
	const struct opt_list *by = &opts->by;
	size_t shown = t->n_rows < limit ? t->n_rows : limit;
	struct group *rows = calloc(shown + 1, sizeof(*rows));
	struct printer p = { rd, opts, t };
	uint64_t rest = query_info(rd->query)->samples;
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < shown; i++) {
		rows[i] = (struct group){ t->rows[i].other ? NULL : t->rows[i].values, t->rows[i].present };
		rest -= t->rows[i].samples;
	}
	int rc = groups_print(by, rows, shown, group_numbers, &p);
	free(rows);
	if (!rc && opts->lengths)
		printf("\nquantiles are of whole waits that ended in this time, within %.2f%% of the true ones\n", 100 * LENGTHS_ERROR);
	if (!rc && t->approximate)
		printf("\napproximate: a value of %s has at most %llu samples more than are printed; one that is not printed has\n"
		       "at most %llu. --exact counts them all by reading every window.\n",
		       by->v[0], (unsigned long long)most_error(t), (unsigned long long)t->bound);
	if (!rc && shown < t->n_rows && is_time(rd))
		printf("\nnot shown: %zu, with %.3f s; -n 0 prints all\n", t->n_rows - shown, seconds(rd, rest));
	else if (!rc && shown < t->n_rows)
		printf("\nnot shown: %zu, with %llu samples; -n 0 prints all\n", t->n_rows - shown,
		       (unsigned long long)rest);
	return rc;
}

static int print_text(const struct reading *r, const struct report *opts, const struct query_table *t, size_t limit)
{
	print_header(r, opts);
	int rc = 0;
	if (t->n_rows)
		rc = opts->by.n ? print_groups(r, opts, t, limit) : print_functions(r, opts, t, limit);
	accounting_footer(r->store, query_info(r->query));
	return rc;
}

/* Waits have lengths, by label keys; not by thread. */
static int open_lengths(struct reading *r, struct report *opts, struct err *err)
{
	struct query_spec spec = reading_spec(&opts->filter, QUERY_KEYS, &opts->by);
	return query_lengths_serve(&spec) ? query_lengths(&opts->lengths, r->store, &spec, err) : 0;
}

static int report(struct reading *r, struct report *opts)
{
	const char *const *keys = (const char *const *)opts->by.v;
	struct query_table *t = NULL;
	struct err err = { 0 };
	uint64_t limit = opts->filter.limit;
	if (limit == UINT64_MAX && !opts->filter.json)
		limit = DEFAULT_ROWS;
	if (!limit)
		limit = UINT64_MAX;
	int rc = opts->top ? query_top(r->query, opts->by.v[0], &t, &err)
			   : query_table(r->query, opts->by.n ? keys : NULL, opts->by.n, &t, &err);
	if (rc) {
		cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	if (!rc)
		rc = open_lengths(r, opts, &err);
	if (rc) {
		cmd_error("%s", err.text);
		query_table_free(t);
		return EXIT_FAILED;
	}
	reading_step(r, "table");
	if (opts->filter.json)
		rc = print_json(r, opts, t, limit);
	else
		rc = print_text(r, opts, t, limit);
	query_table_free(t);
	query_lengths_free(opts->lengths);
	reading_step(r, "print");
	reading_explain(r);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* `--by function` is the default spelt out; with other keys it would be another question. */
static int check_keys(struct report *opts)
{
	for (size_t i = 0; i < opts->by.n; i++) {
		if (strcmp(opts->by.v[i], "function"))
			continue;
		if (opts->step_ns) {
			cmd_error("report: --step is for label keys: one function over time is not there yet");
			return EXIT_USAGE;
		}
		if (opts->by.n > 1) {
			cmd_error("report: --by function stands alone; to see one label's functions use "
				  "--where '{key=\"value\"}'");
			return EXIT_USAGE;
		}
		opt_release(&command, opts);
	}
	return EXIT_OK;
}

/* One wide key over a long range: the stacks alone are read first, which are what the shares are of. */
static int open_report(struct reading *r, const struct opt_args *args, struct report *opts)
{
	const struct filter *f = &opts->filter;
	int status = reading_check(f, "--where", "--from");
	if (!status)
		status = reading_open_store(r, args->v, args->n, f);
	if (status)
		return status;
	if (opts->by.n == 1 && !opts->exact && !f->metric && !(f->where && *f->where) && store_is_wide(r->store, opts->by.v[0])) {
		status = reading_query(r, f, QUERY_TOTALS, NULL);
		opts->top = !status && query_top_serves(r->query, opts->by.v[0]);
		if (status || opts->top)
			return status;
		query_close(r->query);
		r->query = NULL;
	}
	return reading_query(r, f, opts->by.n ? QUERY_KEYS : QUERY_NO_LABELS, &opts->by);
}

int cmd_report(int argc, char **argv)
{
	struct report opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = check_keys(&opts);
	if (!status && opts.step_ns)
		status = series_report(&r, &args, &opts.filter, &opts.by, opts.step_ns, opts.exact);
	else if (!status)
		status = open_report(&r, &args, &opts);
	if (!status && !opts.step_ns)
		status = report(&r, &opts);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
