/* SPDX-License-Identifier: Apache-2.0 */
/* `report --buckets`: how many waits were how long, or how many hits had which value, by group. */
#include "cli/report.h"

#include "cli/accounting.h"
#include "export/answer.h"
#include "hist/prometheus.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <string.h>

#define BAR 40 /* columns of the longest one */

static void print_value(const char *unit, uint64_t v, int width)
{
	char text[REPORT_AMOUNT_MAX];
	printf("%*s", width, report_length(v, unit, text));
}

static void print_group_name(const struct answer *a, const struct query_lengths_group *g)
{
	for (size_t i = 0; i < a->n_keys; i++) {
		printf("%s", i ? ", " : "");
		text_put(stdout, a->keys[i], 0);
		putchar('=');
		text_put(stdout, g->present[i] ? g->values[i] : "(none)", 0);
	}
	if (!a->n_keys)
		fputs("all", stdout);
}

/* One line for each bucket, from the first to the last that has something. */
static void print_buckets(const struct answer *a, const char *unit, const struct hist_snapshot *h)
{
	uint64_t count[HIST_BOUNDS_MAX + 1], most = 1;
	size_t first = 0, last = a->n_bounds;
	hist_bucket_counts(h, a->bounds, a->n_bounds, count);
	for (size_t i = 0; i <= a->n_bounds; i++)
		most = count[i] > most ? count[i] : most;
	while (first < last && !count[first])
		first++;
	while (last > first && !count[last])
		last--;
	for (size_t i = first; i <= last; i++) {
		if (i < a->n_bounds)
			print_value(unit, a->bounds[i], 12);
		else
			printf("%12s", "more");
		printf(" %10llu %6.2f%%%s", (unsigned long long)count[i],
		       100 * (double)count[i] / (double)h->total, count[i] ? "  " : "");
		for (uint64_t n = (count[i] * BAR + most - 1) / most; n; n--)
			putchar('#');
		putchar('\n');
	}
}

static void print_text(const struct reading *r, const struct answer *a,
		       const struct query_lengths *l, const struct query_lengths_group *groups,
		       size_t n)
{
	const char *unit = reading_event(r)->unit, *what = query_lengths_what(l);
	for (size_t i = 0; i < n; i++) {
		const struct hist_snapshot *h = groups[i].hist;
		term_begin(stdout, TERM_HEAD);
		print_group_name(a, &groups[i]);
		term_end(stdout);
		printf(": %llu %s, mean ", (unsigned long long)h->total, what);
		print_value(unit, (uint64_t)hist_snapshot_moments(h).mean, 0);
		printf("\n%12s %10s %7s\n", "UP TO", !strcmp(what, "waits") ? "WAITS" : "HITS",
		       "SHARE");
		print_buckets(a, unit, h);
		putchar('\n');
	}
	printf("%s within %.1f%% of a bound may be counted on its other side; means are within "
	       "%.2f%%\n",
	       !strcmp(what, "waits") ? "whole waits that ended in this time; lengths" : "values",
	       100 * LENGTHS_BOUND_ERROR, 100 * LENGTHS_ERROR);
}

static bool has_lengths(const struct store *s, const struct query_spec *spec)
{
	static const char *const some = "comm"; /* one group has what the groups of a label have */
	struct query_spec of = *spec;
	if (!of.n_keys) {
		of.keys = &some;
		of.n_keys = 1;
	}
	return query_lengths_serve(s, &of);
}

int report_lengths(struct reading *r, const struct report *opts, size_t limit)
{
	const struct query_spec spec = reading_spec(&opts->filter, QUERY_KEYS, &opts->by);
	struct answer a = { .store = r->store,
			    .where = opts->filter.where,
			    .keys = (const char *const *)opts->by.v,
			    .n_keys = opts->by.n,
			    .limit = limit,
			    .metric = opts->filter.metric };
	struct query_lengths *l = NULL;
	struct query_lengths_group *groups = NULL;
	struct err err = { 0 };
	size_t n = 0;
	int rc = !has_lengths(r->store, &spec)
			 ? err_set(&err, -EINVAL,
				   "--buckets: nothing here has lengths by these labels; they are "
				   "kept of waits (--metric off or runq, of a recording with "
				   "--wall) and of the hits of a probe with values (-e), by labels "
				   "of the work")
			 : answer_choose_buckets(&a, r->query, opts->buckets, &err);
	rc = rc ? rc : query_lengths(&l, r->store, &spec, &err);
	rc = rc ? rc : query_lengths_groups(l, &groups, &n);
	if (!rc && opts->filter.json) {
		rc = cmd_print_json(answer_lengths(&a, r->query, l));
	} else if (!rc) {
		report_header(r, opts);
		if (n)
			print_text(r, &a, l, groups, n < limit ? n : limit);
		if (n > limit)
			printf("\nnot shown: %zu groups; -n 0 prints all\n", n - limit);
		accounting_footer(r->store, query_info(r->query));
	}
	if (rc)
		cmd_error("report: %s", err.text[0] ? err.text : "out of memory");
	reading_step(r, "print");
	reading_explain(r);
	query_lengths_groups_free(groups);
	query_lengths_free(l);
	return rc ? EXIT_FAILED : EXIT_OK;
}
