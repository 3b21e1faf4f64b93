/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe diff: what changed between two selections, two ranges or two stores, and what is noise.
 */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/diff_sides.h"
#include "cli/report.h"
#include "export/answer.h"
#include "opt/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROWS 30

static const struct opt options[] = {
	WHERE_OPTIONS(struct diff, filter),
	{ "against", 'a', OPT_STRING, "SELECTOR", "what to compare with (default: the same labels)",
	  offsetof(struct diff, against), 0, 0 },
	{ "against-from", 0, OPT_TIME, "T", "start of what to compare with",
	  offsetof(struct diff, against_from_ns), 0, 0 },
	{ "against-to", 0, OPT_TIME, "T",
	  "end of what to compare with; without both the range is the same as of A, or all of "
	  "another store",
	  offsetof(struct diff, against_to_ns), 0, 0 },
	{ "against-store", 0, OPT_LIST, "STORE,..",
	  "another recording to compare with, or several as one",
	  offsetof(struct diff, against_stores), 0, 0 },
	METRIC_OPTION(struct diff, filter),
	{ "by", 'b', OPT_LIST, "KEY,..",
	  "by these label keys (event, comm, tenant, ...); \"function\" is the default",
	  offsetof(struct diff, by), 0, 0 },
	{ "inclusive", 'I', OPT_FLAG, NULL,
	  "functions: with all that they call, not only their own time",
	  offsetof(struct diff, inclusive), 0, 0 },
	{ "absolute", 0, OPT_FLAG, NULL, "compare CPU time per time recorded, not shares",
	  offsetof(struct diff, absolute), 0, 0 },
	{ "changes", 'c', OPT_FLAG, NULL, "leave the noise out",
	  offsetof(struct diff, changes_only), 0, 0 },
	LIMIT_OPTION(struct diff, filter,
		     "rows to print, 0 for all (default: 30; with --json all)"),
	{ "full-names", 0, OPT_FLAG, NULL,
	  "print names whole, with template arguments and parameters",
	  offsetof(struct diff, full_names), 0, 0 },
	{ "fail-on", 0, OPT_TEXTS, "RULE",
	  "exit with 1 where something of A grew by certainly more than this: \"function > 2%\" "
	  "percentage points of all samples, \"function=~\\\"parse.*\\\" > 1.1x\" times the CPU time, "
	  "\"total > 10%\" of all CPU time; with --by also its keys. Time counts per recording with "
	  "--against-store, else per second recorded. Repeatable",
	  offsetof(struct diff, fail_on), 0, 0 },
	FORMAT_OPTION(struct diff, format),
	JSON_OPTION(struct diff, filter),
	EXPLAIN_OPTION(struct diff, filter),
};

static const struct opt_command command = {
	.name = "diff",
	.usage = "[STORE ...] [--where A] --against B [OPTIONS]",
	.about = "Compare two selections A and B, two time ranges, or two stores: which functions "
		 "(or label values) have more of A than of B. The stores named are those of A, and "
		 "of B where it has none of its own; several are read as one, with the label host. "
		 "A window counts where it begins, so that ranges side by side share none. Each "
		 "row is tested (Fisher's exact test for shares, the exact binomial test for "
		 "--absolute); of the rows called \"more\" or \"less\" at most 5% are wrong, on "
		 "average (Benjamini and Hochberg); the rest is noise. Samples are taken as "
		 "independent.",
	.examples =
		"  ascribe diff --where '{tenant=\"acme\"}' --against '{tenant=\"globex\"}'\n  ascribe "
		"diff --from now-1h --against-from now-2h --against-to now-1h\n  ascribe diff "
		"--from 2026-05-01T10:00:00Z --against-to 2026-05-01T10:00:00Z --by tenant\n  "
		"ascribe diff after.data --against-store before.data --absolute\n  ascribe diff "
		"a.data b.data --where '{host=\"a\"}' --against '{host=\"b\"}'\n  ascribe diff "
		"head.data --against-store base.data --fail-on 'function > 2%' --format junit\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = STORE_UNION_MAX,
};

static int print_json(const struct sides *s, size_t n)
{
	const struct diff *o = s->opts;
	struct answer_sides a = { .inclusive = o->inclusive,
				  .absolute = o->absolute,
				  .shared = s->shared };
	char names[2][4096];
	for (int i = 0; i < 2; i++) {
		text_join(names[i], sizeof(names[i]), s->r[i].dirs, s->r[i].n_dirs);
		a.query[i] = s->r[i].query;
		a.side[i] = (struct answer){ .store = s->r[i].store,
					     .dir = names[i],
					     .where = s->filter[i].where,
					     .metric = s->filter[i].metric,
					     .keys = (const char *const *)o->by.v,
					     .n_keys = o->by.n,
					     .limit = n };
	}
	const struct answer_diff of = { &a, s->d };
	const struct json_rows rows = answer_diff_rows(&of);
	json_t *answer = answer_diff(&of);
	int rc = answer ? gate_put_json(&s->gate, answer) : -ENOMEM;
	if (rc)
		json_decref(answer);
	return rc ? rc : cmd_print_json_rows(answer, &rows);
}

/* ---- for CI ---- */

static void put_key(const struct sides *s, const struct query_diff_row *r)
{
	const struct opt_list *by = &s->opts->by;
	if (!by->n)
		markdown_cell(stdout, r->text);
	for (size_t i = 0; i < by->n; i++) {
		fputs(i ? ", " : "", stdout);
		markdown_cell(stdout, r->other	      ? "(other)"
				      : r->present[i] ? r->values[i]
						      : "(none)");
	}
}

/* The rows that changed alone: what is noise is of no use there. */
static int print_markdown(struct sides *s, size_t n)
{
	size_t shown = 0;
	gate_print_markdown(&s->gate);
	printf("| %s | A | B | change |\n|---|--:|--:|--:|\n",
	       s->opts->by.n ? "label" : "function");
	for (; shown < n && s->d->rows[shown].verdict; shown++) {
		const struct query_diff_row *r = &s->d->rows[shown];
		fputs("| ", stdout);
		put_key(s, r);
		if (s->opts->absolute)
			printf(" | %.4f | %.4f | %+.4f |\n", diff_amount(s, 0, r),
			       diff_amount(s, 1, r), diff_amount(s, 0, r) - diff_amount(s, 1, r));
		else
			printf(" | %.2f%% | %.2f%% | %+.2f |\n", 100 * r->share[0],
			       100 * r->share[1], 100 * r->change);
	}
	printf("\n%zu of %zu rows changed by more than chance", s->d->n_changed, s->d->n_rows);
	printf(shown < s->d->n_changed ? "; %zu are not shown.\n" : ".\n", s->d->n_changed - shown);
	return 0;
}

static int print_junit(const struct sides *s)
{
	const struct gate_origin o = { .host = store_meta(s->r[0].store)->host,
				       .at_ns = query_info(s->r[0].query)->to_ns };
	gate_print_junit(&s->gate, &o);
	return 0;
}

static int print(struct sides *s, size_t n)
{
	switch (s->gate.format) {
	case GATE_JSON:
		return print_json(s, n);
	case GATE_JUNIT:
		return print_junit(s);
	case GATE_MARKDOWN:
		return print_markdown(s, n);
	case GATE_TEXT:
		break;
	}
	return diff_print_text(s, n);
}

static void warn_small(const struct sides *s, int side)
{
	const struct query_info *info = query_info(s->r[side].query);
	if (info->blocks && !info->samples)
		cmd_warn("no sample matches %c", 'A' + side);
	else if (info->blocks && !info->amounts && info->samples < 100)
		cmd_warn("%c has only %llu samples: only large changes can be told from noise",
			 'A' + side, (unsigned long long)info->samples);
}

/* What CPU time is per: whole recordings of the same work, or time recorded. */
static double exposure(const struct sides *s, int side)
{
	double ns = (double)reading_event(&s->r[side])->ns_per_sample;
	double per = s->opts->against_stores.n ? (double)s->r[side].n_dirs : s->d->covered_s[side];
	return ns > 0 ? per / ns : per;
}

static int judge(struct sides *s, struct err *err)
{
	const struct opt_list *by = &s->opts->by;
	struct gate_sides g = { .d = s->d,
				.keys = by->n ? (const char *const *)by->v : NULL,
				.n_keys = by->n };
	int rc = 0;
	for (int side = 0; side < 2; side++) {
		g.exposure[side] = exposure(s, side);
		g.bounded |= query_info(s->r[side].query)->bounded;
	}
	for (size_t i = 0; !rc && i < s->gate.n; i++) {
		rc = gate_judge_diff(&s->gate.rule[i], &g, &s->gate.result[i], err);
		s->gate.n_results += !rc;
	}
	return rc;
}

/* ---- the command ---- */

/* Not so of a metric, but for the values of an event. */
static bool is_of_event(const struct filter *f)
{
	return !f->metric || reading_metric(f) == QUERY_VALUE;
}

static int find_shared(struct sides *s, struct err *err)
{
	struct query_spec spec[2];
	for (int side = 0; side < 2; side++) {
		const struct query_info *info = query_info(s->r[side].query);
		spec[side] = reading_spec(&s->filter[side], QUERY_TOTALS, NULL);
		if (is_of_event(&s->filter[side]) && info->event)
			spec[side].event = info->event->name;
	}
	return s->r[0].store == s->r[1].store
		       ? query_diff_shared(s->r[0].store, &spec[0], &spec[1], &s->shared, err)
		       : 0;
}

static int compare(struct sides *s)
{
	const struct diff *opts = s->opts;
	struct query_diff_spec spec = { opts->by.n ? (const char *const *)opts->by.v : NULL,
					opts->by.n, opts->inclusive, opts->absolute };
	struct query_diff *d = NULL;
	struct err err = { 0 };
	char sum[REPORT_AMOUNT_MAX];
	uint64_t limit = opts->filter.limit;
	if (limit == UINT64_MAX && !opts->filter.json)
		limit = DEFAULT_ROWS;
	int rc = query_diff(&d, s->r[0].query, s->r[1].query, &spec, &err);
	s->d = d;
	rc = rc ? rc : find_shared(s, &err);
	rc = rc ? rc : judge(s, &err);
	if (rc) {
		query_diff_free(d);
		cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	if (s->shared)
		cmd_warn("A and B have %s%s in common; the tests take them for apart",
			 report_number(s->shared, query_counts(query_info(s->r[0].query)), sum),
			 diff_is_amounts(s) ? "" : " samples");
	size_t n = opts->changes_only ? d->n_changed : d->n_rows;
	n = limit && n > limit ? (size_t)limit : n;
	reading_step(&s->r[0], "compare");
	rc = print(s, n);
	cmd_flush();
	if (s->gate.format != GATE_JSON) {
		warn_small(s, 0);
		warn_small(s, 1);
	}
	query_diff_free(d);
	reading_step(&s->r[0], "print");
	for (int side = 0; side < 2; side++)
		reading_explain(&s->r[side]);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	return rc || !gate_holds(&s->gate) ? EXIT_FAILED : EXIT_OK;
}

/* What B is when its options are left out. */
static int choose_sides(struct sides *s)
{
	const struct diff *o = s->opts;
	bool range = o->against_from_ns != INT64_MIN || o->against_to_ns != INT64_MAX;
	if (!o->against && !o->against_stores.n && !range) {
		cmd_error("diff: nothing to compare with: --against SELECTOR, --against-from and "
			  "--against-to, or "
			  "--against-store");
		return EXIT_USAGE;
	}
	s->filter[0] = s->filter[1] = o->filter;
	/* So that no window is on both sides of a time that parts them. */
	s->filter[0].by_start = s->filter[1].by_start = true;
	s->filter[0].parts = s->filter[1].parts = 3; /* and the difference */
	if (o->against)
		s->filter[1].where = o->against;
	if (range || o->against_stores.n) {
		s->filter[1].from_ns = o->against_from_ns;
		s->filter[1].to_ns = o->against_to_ns;
	}
	int status = reading_check(&s->filter[0], "--where", "--from");
	return status ? status : reading_check(&s->filter[1], "--against", "--against-from");
}

static int open_sides(struct sides *s, const struct opt_args *args)
{
	const struct opt_list *others = &s->opts->against_stores;
	const struct opt_list *by = &s->opts->by;
	enum query_labels labels = by->n ? QUERY_KEYS : QUERY_NO_LABELS;
	reading_ask_one(&s->r[0], labels, by);
	s->r[0].against = &s->filter[1];
	int status = reading_open_store(&s->r[0], args->v, args->n, &s->filter[0]);
	status = status ? status : reading_query(&s->r[0], &s->filter[0], labels, by);
	if (status)
		return status;
	/* The same event on both sides, whatever each would choose. */
	if (is_of_event(&s->filter[0]) && *reading_event(&s->r[0])->name)
		s->filter[1].event = reading_event(&s->r[0])->name;
	if (others->n) {
		status = reading_open_store(&s->r[1], others->v, others->n, &s->filter[1]);
	} else {
		s->r[1] = s->r[0];
		s->r[1].query = NULL;
	}
	return status ? status : reading_query(&s->r[1], &s->filter[1], labels, by);
}

static void close_sides(struct sides *s)
{
	if (s->r[1].store == s->r[0].store)
		s->r[1].store = NULL;
	reading_close(&s->r[1]);
	reading_close(&s->r[0]);
}

/* `--by function` is the default spelt out. */
static int check_keys(struct diff *opts)
{
	for (size_t i = 0; i < opts->by.n; i++) {
		if (strcmp(opts->by.v[i], "function"))
			continue;
		if (opts->by.n > 1) {
			cmd_error("diff: --by function stands alone");
			return EXIT_USAGE;
		}
		free(opts->by.v[0]);
		opts->by.n = 0;
	}
	return EXIT_OK;
}

static int open_gate(struct sides *s, struct diff *opts)
{
	const struct opt_list *by = &opts->by;
	int status = gate_open(&s->gate, &opts->fail_on, opts->format, opts->filter.json);
	opts->filter.json = s->gate.format == GATE_JSON;
	for (size_t i = 0; !status && i < s->gate.n; i++) {
		struct err err = { 0 };
		if (gate_check_diff(&s->gate.rule[i], (const char *const *)by->v, by->n, &err))
			status = gate_refuse(&s->gate, i, &err);
	}
	return status;
}

int cmd_diff(int argc, char **argv)
{
	struct diff opts = { .filter = FILTER_INIT,
			     .against_from_ns = INT64_MIN,
			     .against_to_ns = INT64_MAX };
	struct sides s = { .opts = &opts, .gate = { .command = "diff", .option = "--fail-on" } };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = check_keys(&opts);
	status = status ? status : open_gate(&s, &opts);
	/* Rules are about the same names in every format. */
	if (!opts.full_names && (!opts.filter.json || s.gate.n))
		opts.filter.names = "simple";
	status = status ? status : choose_sides(&s);
	status = status ? status : open_sides(&s, &args);
	status = status ? status : compare(&s);
	close_sides(&s);
	gate_close(&s.gate);
	opt_release(&command, &opts);
	return status;
}
