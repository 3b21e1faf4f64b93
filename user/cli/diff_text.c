/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe diff, for people: which two, then a row for each function or label value. */
#include "cli/cmd.h"
#include "cli/diff_sides.h"
#include "cli/groups.h"
#include "cli/report.h"
#include "export/answer.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double seconds(const struct sides *s, int side, uint64_t samples)
{
	return (double)samples * (double)reading_event(&s->r[side])->ns_per_sample / 1e9;
}

static bool is_time(const struct sides *s)
{
	return reading_event(&s->r[0])->ns_per_sample && reading_event(&s->r[1])->ns_per_sample;
}

bool diff_is_amounts(const struct sides *s)
{
	return query_info(s->r[0].query)->amounts;
}

double diff_amount(const struct sides *s, int side, const struct query_diff_row *r)
{
	double ns = (double)reading_event(&s->r[side])->ns_per_sample;
	return ns > 0 ? r->rate[side] * ns / 1e9 : r->rate[side];
}

static void print_side(const struct sides *s, int side, FILE *f)
{
	const struct query_info *info = query_info(s->r[side].query);
	const char *where = s->filter[side].where;
	char range[120];
	fprintf(f, "%c: ", 'A' + side);
	if (s->opts->against_stores.n) {
		char names[4096];
		text_put(f, text_join(names, sizeof(names), s->r[side].dirs, s->r[side].n_dirs), 0);
		fputs(", ", f);
	}
	if (where && *where) {
		text_put(f, where, 0);
		fputs(", ", f);
	}
	if (info->blocks) {
		text_range(info->from_ns, info->to_ns, range);
		fprintf(f, "%s: ", range);
	}
	char sum[REPORT_AMOUNT_MAX];
	if (!diff_is_amounts(s))
		fprintf(f, "%llu samples%s", (unsigned long long)info->samples,
			is_time(s) ? " = " : "");
	else if (!is_time(s))
		fputs(report_number(info->samples, query_counts(info), sum), f);
	if (is_time(s))
		fprintf(f, "%.3f s", info->seconds);
	fputc('\n', f);
}

static void write_header(const struct sides *s, FILE *f)
{
	const struct query_diff *d = s->d;
	print_side(s, 0, f);
	print_side(s, 1, f);
	text_put(f, reading_event(&s->r[0])->name, 0);
	fprintf(f,
		", %s%s: %zu of %zu rows changed (5%% of such rows may be wrong), %zu have too "
		"few samples to tell\n",
		!s->opts->absolute   ? "shares"
		: diff_is_amounts(s) ? is_time(s) ? "time per time" : "sum per second"
		: is_time(s)	     ? "CPUs"
				     : "events per second",
		s->opts->by.n	     ? ""
		: s->opts->inclusive ? ", with callees"
				     : ", own time",
		d->n_changed, d->n_rows, d->n_rows - d->n_tested);
}

/* Fold its lines to the terminal. */
static void print_header(const struct sides *s)
{
	char *text = NULL, *save = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return;
	write_header(s, f);
	if (!fclose(f))
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			text_fold(stdout, line, 0, 3, term_width());
	putchar('\n');
	free(text);
}

/* Columns of a terminal; a narrower one shows the shares, the change and the verdict */
#define WIDE 130

static bool is_wide(void)
{
	return !term_width() || term_width() >= WIDE;
}

/* Of a metric that is time, the seconds say all. */
static bool has_counts(const struct sides *s)
{
	return !diff_is_amounts(s) || !is_time(s);
}

static unsigned heads_width(const struct sides *s)
{
	if (!is_wide())
		return s->opts->absolute ? 37 : 35;
	return 20 * has_counts(s) + 22 * is_time(s) + (s->opts->absolute ? 30 : 47) + 25;
}

static void print_heads(const struct sides *s)
{
	bool wide = is_wide();
	if (wide && has_counts(s))
		printf("%9s %9s ", diff_is_amounts(s) ? "SUM A" : "SAMPLES A", "B");
	if (wide && is_time(s))
		printf("%10s %10s ", "SECONDS A", "B");
	if (s->opts->absolute)
		printf("%9s %9s %9s ",
		       !is_time(s)	    ? "PER S A"
		       : diff_is_amounts(s) ? "S/S A"
					    : "CPUS A",
		       "B", "CHANGE");
	else
		printf("%8s %8s %8s  ", "SHARE A", "B", "CHANGE");
	if (wide && !s->opts->absolute)
		printf("%-18s ", "    95% INTERVAL");
	if (wide)
		printf("%7s %8s  ", "RATIO", "Q");
	printf("%-5s  ", "");
}

static void print_ratio(double ratio)
{
	if (isfinite(ratio))
		printf(ratio < 1000 ? "%7.2f " : "%7.3g ", ratio);
	else
		printf("%7s ", "only A");
}

static void print_numbers(const struct sides *s, const struct query_diff_row *r)
{
	bool wide = is_wide();
	const char *unit = query_counts(query_info(s->r[0].query));
	char sum[REPORT_AMOUNT_MAX];
	for (int side = 0; side < 2 && wide && has_counts(s); side++)
		printf("%9s ", report_number(r->count[side], unit, sum));
	if (wide && is_time(s))
		printf("%10.3f %10.3f ", seconds(s, 0, r->count[0]), seconds(s, 1, r->count[1]));
	if (s->opts->absolute) {
		double a = diff_amount(s, 0, r), b = diff_amount(s, 1, r);
		printf("%9.4f %9.4f %+9.4f ", a, b, a - b);
	} else {
		printf("%7.2f%% %7.2f%% %+8.2f  ", 100 * r->share[0], 100 * r->share[1],
		       100 * r->change);
	}
	if (wide && !s->opts->absolute)
		printf("%+7.2f .. %+7.2f ", 100 * r->low, 100 * r->high);
	if (wide)
		print_ratio(r->ratio);
	if (wide)
		printf(r->q < 0.001 ? "%8.0e  " : "%8.3f  ", r->q);
	term_begin(stdout, r->verdict == DIFF_MORE   ? TERM_BAD
			   : r->verdict == DIFF_LESS ? TERM_GOOD
						     : TERM_DIM);
	printf("%-5s", answer_verdicts[r->verdict]);
	term_end(stdout);
	fputs("  ", stdout);
}

static void group_numbers(void *ctx, size_t i)
{
	const struct sides *s = ctx;
	if (i == GROUP_HEAD)
		print_heads(s);
	else
		print_numbers(s, &s->d->rows[i]);
}

static int print_rows(struct sides *s, size_t n)
{
	const struct query_diff *d = s->d;
	struct group *rows = NULL;
	int rc = 0;
	if (s->opts->by.n) {
		rows = calloc(n + 1, sizeof(*rows));
		for (size_t i = 0; rows && i < n; i++)
			rows[i] = (struct group){ d->rows[i].other ? NULL : d->rows[i].values,
						  d->rows[i].present };
		rc = rows ? groups_print(&s->opts->by, rows, n, term_room(heads_width(s)),
					 group_numbers, s)
			  : -ENOMEM;
		free(rows);
		return rc;
	}
	print_heads(s);
	puts("FUNCTION");
	for (size_t i = 0; !rc && i < n; i++) {
		print_numbers(s, &d->rows[i]);
		rc = function_print(d->rows[i].text, d->rows[i].module, false,
				    s->opts->full_names ? 0 : term_room(heads_width(s)));
	}
	return rc;
}

int diff_print_text(struct sides *s, size_t n)
{
	int rc = 0;
	print_header(s);
	if (n)
		rc = print_rows(s, n);
	if (n < s->d->n_rows && !s->opts->changes_only)
		printf("\nnot shown: %zu rows; -n 0 prints all\n", s->d->n_rows - n);
	gate_print_text(&s->gate);
	return rc;
}
