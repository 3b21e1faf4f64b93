/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `ascribe report` as text: by function, or by label keys. */
#include "cli/report.h"

#include "cli/accounting.h"
#include "cli/groups.h"
#include "export/answer.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 100 /* columns of a terminal; on a narrower one shares and times have to do */

double report_seconds(const struct reading *r, uint64_t samples)
{
	return (double)samples * (double)reading_event(r)->ns_per_sample / 1e9;
}

bool report_is_time(const struct reading *r)
{
	return reading_event(r)->ns_per_sample == 1;
}

const char *report_unit(const struct reading *r)
{
	return query_info(r->query)->amounts ? reading_event(r)->unit : "samples";
}

const char *report_unit_head(const char *unit)
{
	return !strcmp(unit, "nanoseconds") ? "SECONDS"
	       : !strcmp(unit, "bytes")	    ? "BYTES"
	       : !strcmp(unit, "objects")   ? "OBJECTS"
	       : !strcmp(unit, "samples")   ? "SAMPLES"
					    : "VALUE";
}

const char *report_number(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX])
{
	if (!strcmp(unit, "bytes"))
		text_bytes(n, out);
	else if (!strcmp(unit, "objects"))
		text_count(n, out);
	else if (!strcmp(unit, "nanoseconds"))
		snprintf(out, REPORT_AMOUNT_MAX, "%.3f", (double)n / 1e9);
	else
		snprintf(out, REPORT_AMOUNT_MAX, "%llu", (unsigned long long)n);
	return out;
}

const char *report_amount(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX])
{
	char number[REPORT_AMOUNT_MAX];
	report_number(n, unit, number);
	snprintf(out, REPORT_AMOUNT_MAX, "%.31s%s%.32s", number, !strcmp(unit, "bytes") ? "" : " ",
		 !strcmp(unit, "bytes")		? ""
		 : !strcmp(unit, "nanoseconds") ? "s"
						: unit);
	return out;
}

const char *report_length(uint64_t n, const char *unit, char out[REPORT_AMOUNT_MAX])
{
	if (strcmp(unit, "nanoseconds"))
		return report_number(n, unit, out);
	text_duration(n, out);
	return out;
}

double report_share(const struct reading *r, uint64_t samples)
{
	const struct query_info *info = query_info(r->query);
	return info->samples ? (double)samples / (double)info->samples : 0;
}

void report_header(const struct reading *r, const struct report *opts)
{
	const struct query_info *info = query_info(r->query);
	bool is_time = report_is_time(r);
	char range[120], amount[REPORT_AMOUNT_MAX];
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
	fputs(": ", stdout);
	text_put(stdout, report_amount(info->samples, report_unit(r), amount), 0);
	if (query_has_values(info)) {
		fputs(", ", stdout);
		text_put(stdout, report_amount(info->value, info->event->unit, amount), 0);
	}
	if (!is_time && reading_event(r)->ns_per_sample)
		printf(" = %.3f s", info->seconds);
	if (!opts->filter.idle && info->idle)
		printf("; idle CPUs left out: %s",
		       report_amount(info->idle, report_unit(r), amount));
	/* They are of the whole host: what a selector leaves is no base for a share. */
	if (!opts->filter.idle && info->idle && !(opts->filter.where && *opts->filter.where))
		printf(" (%.1f%%)", 100.0 * (double)info->idle / (double)seen);
	if (info->idle_waits)
		printf("; idle waits left out: %s",
		       report_amount(info->idle_waits, report_unit(r), amount));
	puts("\n");
}

/* ---- the columns of numbers ---- */

struct columns {
	bool self, samples, amounts, seconds, values, interval, change, ratio;
	const struct query_lengths *lengths; /* NULL: none */
	unsigned width;
	const char *unit; /* of amounts, or of the values beside samples */
};

static struct columns choose_columns(const struct reading *r, const struct report *opts,
				     const struct query_table *t)
{
	const bool wide = !term_width() || term_width() >= WIDE, is_time = report_is_time(r);
	struct columns c = { .self = !opts->by.n,
			     .seconds = reading_event(r)->ns_per_sample,
			     .amounts = query_info(r->query)->amounts && !is_time,
			     .values = t->has_values,
			     /* What was not sampled has no sampling error; that of objects is
				unknown. */
			     .interval = wide && query_info(r->query)->grain,
			     .lengths = opts->lengths,
			     .change = opts->changes,
			     .ratio = opts->ratios };
	c.samples = !is_time && !c.amounts && (wide || !c.seconds);
	c.unit = reading_event(r)->unit;
	c.width = 9 + 10 * c.samples + 11 * (c.amounts + c.values + c.seconds) + 8 * c.self +
		  18 * c.interval + 9 * c.change + RATIOS_WIDTH * c.ratio +
		  (11 + 10 * ANSWER_QUANTILES) * (c.lengths != NULL);
	return c;
}

static bool is_of_waits(const struct columns *c)
{
	return !strcmp(query_lengths_what(c->lengths), "waits");
}

static void print_heads(const struct columns *c)
{
	if (c->samples)
		printf("%9s ", "SAMPLES");
	if (c->amounts || c->values)
		printf("%10s ", report_unit_head(c->unit));
	if (c->seconds)
		printf("%10s ", "SECONDS");
	printf("%7s ", c->self ? "SELF%" : "SHARE");
	if (c->self)
		printf("%7s ", "TOTAL%");
	if (c->change)
		printf("%8s ", "CHANGE");
	if (c->ratio)
		report_ratios_heads();
	if (c->interval)
		printf("%-17s ", "     95% INTERVAL");
	for (size_t i = 0; c->lengths && i < ANSWER_QUANTILES + 1; i++)
		printf("%9s ", i		? answer_quantiles[i - 1].head
			       : is_of_waits(c) ? "WAITS"
						: "HITS");
	fputs(c->lengths ? "  " : " ", stdout);
}

/* How many waits or hits, and their quantiles. */
static void print_lengths(const struct columns *c, const struct hist_snapshot *h)
{
	char text[REPORT_AMOUNT_MAX];
	printf("%9llu ", (unsigned long long)(h ? h->total : 0));
	for (size_t i = 0; i < ANSWER_QUANTILES; i++) {
		uint64_t v =
			h && h->total ? hist_snapshot_quantile(h, answer_quantiles[i].q).value : 0;
		printf("%9s ", h && h->total ? report_length(v, c->unit, text) : "-");
	}
	fputs("  ", stdout);
}

/* Functions go by their own samples; the interval is that of the total. */
static void print_numbers(const struct reading *rd, const struct columns *c,
			  const struct report *opts, const struct query_table *t,
			  const struct query_table_row *r)
{
	uint64_t n = c->self ? r->self : r->samples;
	if (c->samples)
		printf("%9llu ", (unsigned long long)n);
	char text[REPORT_AMOUNT_MAX];
	if (c->values && !strcmp(c->unit, "nanoseconds"))
		printf("%10.6f ", (double)r->value / 1e9);
	else if (c->values || c->amounts)
		printf("%10s ", report_number(c->values ? r->value : n, c->unit, text));
	if (c->seconds)
		printf("%10.3f ", report_seconds(rd, n));
	printf("%6.2f%% ", 100 * report_share(rd, n));
	if (c->self)
		printf("%6.2f%% ", 100 * report_share(rd, r->samples));
	if (c->change)
		report_change_print(opts->changes, rd, r);
	if (c->ratio)
		report_ratios_print(opts->ratios, (size_t)(r - t->rows));
	if (c->interval)
		printf("%6.2f%% - %6.2f%% ", 100 * r->low, 100 * r->high);
}

/* ---- rows ---- */

/* own: of functions, who have the rest as leaves. */
static void print_rest(const struct reading *r, size_t rows, uint64_t rest, bool own)
{
	char amount[REPORT_AMOUNT_MAX];
	printf("\nnot shown: %zu, with ", rows);
	text_put(stdout, report_amount(rest, report_unit(r), amount), 0);
	printf("%s; -n 0 prints all\n", own ? " of their own" : "");
}

static int print_functions(const struct reading *rd, const struct report *opts,
			   const struct query_table *t, size_t limit)
{
	const struct columns c = choose_columns(rd, opts, t);
	unsigned room = opts->full_names ? 0 : term_room(c.width);
	uint64_t rest = query_info(rd->query)->samples;
	term_begin(stdout, TERM_HEAD);
	print_heads(&c);
	fputs("FUNCTION", stdout);
	term_end(stdout);
	putchar('\n');
	for (size_t i = 0; i < t->n_rows && i < limit; i++) {
		const struct query_table_row *r = &t->rows[i];
		print_numbers(rd, &c, opts, t, r);
		putchar(' ');
		if (function_print(r->text, r->module, r->inlined, room))
			return -ENOMEM;
		rest -= r->self < rest ? r->self : rest;
	}
	const size_t shown = t->n_rows < limit ? t->n_rows : limit;
	if (shown < t->n_rows + t->n_left)
		print_rest(rd, t->n_rows + t->n_left - shown, rest, true);
	return 0;
}

struct printer {
	const struct reading *rd;
	const struct report *opts;
	const struct query_table *t;
	struct columns columns;
};

static void group_numbers(void *ctx, size_t i)
{
	const struct printer *p = ctx;
	const struct query_table_row *r = i == GROUP_HEAD ? NULL : &p->t->rows[i];
	if (!r) {
		print_heads(&p->columns);
		return;
	}
	print_numbers(p->rd, &p->columns, p->opts, p->t, r);
	if (p->columns.lengths)
		print_lengths(&p->columns,
			      r->other ? NULL
				       : query_lengths_of(p->opts->lengths, r->values, r->present));
	else
		putchar(' ');
}

static uint64_t most_error(const struct query_table *t)
{
	uint64_t most = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		most = t->rows[i].error > most ? t->rows[i].error : most;
	return most;
}

static int print_groups(const struct reading *rd, const struct report *opts,
			const struct query_table *t, size_t limit)
{
	const struct opt_list *by = &opts->by;
	size_t shown = t->n_rows < limit ? t->n_rows : limit;
	struct group *rows = calloc(shown + 1, sizeof(*rows));
	struct printer p = { rd, opts, t, choose_columns(rd, opts, t) };
	uint64_t rest = query_info(rd->query)->samples;
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < shown; i++) {
		rows[i] = (struct group){ t->rows[i].other ? NULL : t->rows[i].values,
					  t->rows[i].present };
		rest -= t->rows[i].samples;
	}
	int rc = groups_print(by, rows, shown, opts->full_names ? 0 : term_room(p.columns.width),
			      group_numbers, &p);
	free(rows);
	if (!rc && opts->lengths)
		printf("\nquantiles are of %s in this time, within %.2f%% of the true ones\n",
		       is_of_waits(&p.columns) ? "whole waits that ended" : "the values of hits",
		       100 * LENGTHS_ERROR);
	if (!rc && t->approximate)
		printf("\napproximate: a value of %s has at most %llu samples more than are "
		       "printed; one that is not printed has\n"
		       "at most %llu. --exact counts them all by reading every window.\n",
		       by->v[0], (unsigned long long)most_error(t), (unsigned long long)t->bound);
	if (!rc && shown < t->n_rows)
		print_rest(rd, t->n_rows - shown, rest, false);
	return rc;
}

int report_table(const struct reading *r, const struct report *opts, const struct query_table *t,
		 size_t limit)
{
	if (!t->n_rows)
		return 0;
	return opts->by.n ? print_groups(r, opts, t, limit) : print_functions(r, opts, t, limit);
}
