/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/series.h"

#include "cli/accounting.h"
#include "cli/groups.h"
#include "cli/report.h"
#include "export/answer.h"
#include "opt/text.h"
#include "query/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GROUPS 10
#define CHART_WIDTH 60
#define BAR_WIDTH 40

struct chart {
	const struct reading *r;
	const struct query_series *s;
	const struct opt_list *by;
	bool times; /* what is summed is nanoseconds */
	bool stock; /* points are averages */
	/* Of the row last given to spread: its points and their time by the steps they ran in */
	double *points;
	int64_t *ns;
};

static int print_json(const struct chart *c, const struct filter *f)
{
	const struct answer a = { .store = c->r->store,
				  .where = f->where,
				  .keys = (const char *const *)c->by->v,
				  .n_keys = c->by->n,
				  .metric = f->metric };
	return cmd_print_json(answer_series(&a, c->s));
}

/* ---- text ---- */

/*
 * A window that is longer than a step counts in that in which it begins. Draw it over all those
 * behind that begin no window.
 */
static void spread(const struct chart *c, const struct query_series_row *row)
{
	const struct query_series *s = c->s;
	for (size_t i = 0, next; i < s->n_steps; i = next) {
		int64_t left = s->covered_ns[i];
		for (next = i + 1; next < s->n_steps && !s->windows[next];)
			next++;
		for (size_t k = i; k < next; k++) {
			c->ns[k] = left < s->step_ns || k + 1 == next ? left : s->step_ns;
			/* An average counts for its time, a sum is divided by time */
			c->points[k] =
				!c->ns[k] ? 0
					  : (double)row->points[i] * (double)c->ns[k] /
						    (c->stock ? 1e9 : (double)s->covered_ns[i]);
			left -= c->ns[k];
		}
	}
}

/*
 * What n steps from `i` on show: CPUs in use, events or bytes per second, or bytes that are live;
 * per time that was recorded.
 * Negative: nothing was.
 */
static double rate(const struct chart *c, size_t i, size_t n)
{
	uint64_t ns = reading_event(c->r)->ns_per_sample;
	double points = 0, covered = 0;
	for (size_t k = i; k < i + n && k < c->s->n_steps; k++) {
		points += c->points[k];
		covered += (double)c->ns[k];
	}
	return covered > 0 ? points * (ns ? (double)ns : 1e9) / covered : -1;
}

static bool is_bytes(const struct chart *c)
{
	return !strcmp(report_unit(c->r), "bytes");
}

static const char *rate_name(const struct chart *c)
{
	return c->times				    ? "THREADS"
	       : reading_event(c->r)->ns_per_sample ? "CPUS"
	       : c->stock			    ? report_unit_head(report_unit(c->r))
						    : "PER S";
}

/* Of amounts. */
static const char *rate_unit(const struct chart *c)
{
	const bool bytes = is_bytes(c);
	return c->stock ? bytes ? "bytes" : "objects"
	       : bytes	? "bytes per second"
			: "the unit per second";
}

/* A rate, of 9 columns. */
static void print_rate(const struct chart *c, double x)
{
	char text[32];
	if (is_bytes(c))
		text_bytes((uint64_t)x, text);
	else
		snprintf(text, sizeof(text), "%.3f", x);
	printf("%9s  ", text);
}

static double peak(const struct chart *c, size_t per_column)
{
	double most = 0;
	for (size_t i = 0; i < c->s->n_steps; i += per_column) {
		double x = rate(c, i, per_column);
		most = x > most ? x : most;
	}
	return most;
}

static size_t steps_per_column(const struct query_series *s)
{
	return s->n_steps ? (s->n_steps + CHART_WIDTH - 1) / CHART_WIDTH : 1;
}

/*
 * One column per step, or per some steps: eighths of the row's peak; a blank where nothing was
 * recorded.
 */
static void sparkline(const struct chart *c)
{
	static const char *const eighths[] = { "\u2581", "\u2582", "\u2583", "\u2584",
					       "\u2585", "\u2586", "\u2587", "\u2588" };
	size_t per = steps_per_column(c->s);
	double most = peak(c, per);
	for (size_t i = 0; i < c->s->n_steps; i += per) {
		double x = rate(c, i, per);
		int level = x > 0 ? (int)(x / most * 8 - 1e-9) : 0;
		fputs(x > 0 ? eighths[level > 7 ? 7 : level] : x < 0 ? " " : "_", stdout);
	}
}

static void group_numbers(void *ctx, size_t i)
{
	const struct chart *c = ctx;
	const struct query_info *info = query_info(c->s->whole);
	uint64_t ns = reading_event(c->r)->ns_per_sample;
	size_t per = steps_per_column(c->s), columns = (c->s->n_steps + per - 1) / per;
	if (i == GROUP_HEAD) {
		if (!c->times)
			printf("%10s ", report_unit_head(report_unit(c->r)));
		if (ns)
			printf("%10s ", "SECONDS");
		printf("%7s %9s  %-*s  ", "SHARE", "PEAK", (int)columns,
		       columns < 9 ? "" : "OVER TIME");
		return;
	}
	char text[REPORT_AMOUNT_MAX];
	const struct query_series_row *row = &c->s->rows[i];
	spread(c, row);
	if (!c->times)
		printf("%10s ", report_number(row->samples, report_unit(c->r), text));
	if (ns)
		printf("%10.3f ", (double)row->samples * (double)ns / 1e9);
	printf("%6.2f%% ",
	       100.0 * (double)row->samples / (double)(info->samples ? info->samples : 1));
	print_rate(c, peak(c, per));
	sparkline(c);
	fputs("  ", stdout);
}

static int print_groups(struct chart *c)
{
	struct group *rows = calloc(c->s->n_rows + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < c->s->n_rows; i++)
		rows[i] = (struct group){ c->s->rows[i].values, c->s->rows[i].present };
	int rc = groups_print(c->by, rows, c->s->n_rows, 0, group_numbers, c);
	free(rows);
	if (!rc && c->s->other_groups)
		printf("\n(other): %zu of %zu groups; -n 0 prints all\n", c->s->other_groups,
		       c->s->n_groups);
	if (!rc && c->s->approximate)
		printf("\napproximate: values of %s have at least what is printed, the rest is in (other). --exact counts them all\n"
		       "by reading every window.\n",
		       c->by->v[0]);
	return rc;
}

/* A line per step. */
static void print_steps(const struct chart *c)
{
	const struct query_series *s = c->s;
	const struct query_series_row *row = &s->rows[0];
	spread(c, row);
	double most = peak(c, 1);
	printf("%-25s %9s %9s\n", "FROM", report_unit_head(report_unit(c->r)), rate_name(c));
	for (size_t i = 0; i < s->n_steps; i++) {
		double x = rate(c, i, 1);
		char at[40], text[REPORT_AMOUNT_MAX];
		text_time(s->from_ns + (int64_t)i * s->step_ns, at);
		if (x < 0) {
			printf("%-25s %9s\n", at, "-");
			continue;
		}
		if (!s->windows[i]) /* a window of a step above */
			printf("%-25s %9s ", at, "\"");
		else
			printf("%-25s %9s ", at,
			       report_number(row->points[i], report_unit(c->r), text));
		print_rate(c, x);
		for (int k = 0; most > 0 && k < (int)(x / most * BAR_WIDTH + 0.5); k++)
			putchar('#');
		putchar('\n');
	}
}

static void print_header(const struct chart *c, const struct filter *f, int64_t asked_ns)
{
	const struct query_series *s = c->s;
	size_t per = steps_per_column(s);
	char range[120], amount[REPORT_AMOUNT_MAX];
	accounting_title(c->r->store);
	if (f->where && *f->where) {
		fputs("where ", stdout);
		text_put(stdout, f->where, 0);
		putchar('\n');
	}
	if (!s->n_steps)
		return;
	text_range(s->from_ns, s->to_ns, range);
	printf("%s: %zu steps of %lld s", range, s->n_steps, (long long)(s->step_ns / 1000000000));
	if (asked_ns != s->step_ns)
		printf(" (asked: %.9g s; a step is whole windows of %lld s)",
		       (double)asked_ns / 1e9, QUERY_WINDOW_NS / 1000000000);
	puts("; a window counts where it begins, and is drawn where it ran");
	text_put(stdout, reading_event(c->r)->name, 0);
	fputs(": ", stdout);
	text_put(stdout, report_amount(query_info(s->whole)->samples, report_unit(c->r), amount),
		 0);
	if (c->by->n && s->n_rows)
		printf("; PEAK in %s, a column is %lld s",
		       c->times				    ? "threads"
		       : reading_event(c->r)->ns_per_sample ? "CPUs"
		       : query_info(s->whole)->amounts	    ? rate_unit(c)
							    : "events per second",
		       (long long)per * (long long)(s->step_ns / 1000000000));
	puts("\n");
}

static int print_text(struct chart *c, const struct filter *f, int64_t asked_ns)
{
	int rc = 0;
	print_header(c, f, asked_ns);
	if (c->s->n_rows && c->by->n)
		rc = print_groups(c);
	else if (c->s->n_rows)
		print_steps(c);
	accounting_footer(c->r->store, query_info(c->s->whole));
	return rc;
}

int series_report(struct reading *r, const struct opt_args *args, const struct filter *f,
		  const struct opt_list *by, int64_t step_ns, bool exact)
{
	struct query_series *s = NULL;
	struct err err = { 0 };
	struct query_series_spec spec = {
		.range = reading_spec(f, QUERY_NO_LABELS, NULL),
		.keys = by->n ? (const char *const *)by->v : NULL,
		.n_keys = by->n,
		.step_ns = step_ns,
		.top = f->limit == UINT64_MAX ? DEFAULT_GROUPS : f->limit,
		.exact = exact,
	};
	int status = reading_check(f, "--where", "--from");
	reading_ask_series(r, step_ns, by);
	status = status ? status : reading_open_store(r, args->v, args->n, f);
	status = status ? status : reading_check_keys(r, f, spec.keys, spec.n_keys);
	if (status)
		return status;
	int rc;
	do
		rc = query_series(&s, r->store, &spec, &err);
	while (reading_again(r, f, &rc, &err));
	if (rc) {
		cmd_error("%s", err.text);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	r->query = s->whole;
	struct chart c = { .r = r,
			   .s = s,
			   .by = by,
			   .times = report_is_time(r),
			   .stock = query_metric_is_stock(spec.range.metric) };
	status = reading_check_values(r, f, query_info(s->whole));
	if (status) {
		r->query = NULL;
		query_series_free(s);
		return status;
	}
	reading_lacks(r->store, f, query_info(s->whole));
	reading_bounded(f, s->bounded && !query_info(s->whole)->bounded);
	reading_step(r, "series");
	c.points = calloc(s->n_steps + 1, sizeof(*c.points));
	c.ns = calloc(s->n_steps + 1, sizeof(*c.ns));
	rc = !c.points || !c.ns ? -ENOMEM
	     : f->json		? print_json(&c, f)
				: print_text(&c, f, step_ns);
	free(c.points);
	free(c.ns);
	reading_step(r, "print");
	reading_explain(r);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	r->query = NULL;
	query_series_free(s);
	return rc ? EXIT_FAILED : EXIT_OK;
}
