/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `report --per EVENT`: what each row has of one event for each of another, as instructions per
 * cycle by tenant. Both events are sampled by themselves, so that no group of counters is needed,
 * and a ratio has the error of both.
 */
#include "cli/report.h"

#include "export/answer.h"
#include "opt/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct report_ratios {
	struct report_other other;
	struct query_table *t;
	const struct query_table_row **rows; /* of t, by what they show */
	double *ratio, *error;		     /* of the rows of the first table */
	struct answer_ratios answer;
};

static int by_text(const void *pa, const void *pb)
{
	const struct query_table_row *a = *(const struct query_table_row *const *)pa,
				     *b = *(const struct query_table_row *const *)pb;
	return a->other != b->other ? a->other - b->other : strcmp(a->text, b->text);
}

/* Seconds of a clock, the sum of what has values, else the number of events. */
static double amount(const struct query *q, const struct query_table *t,
		     const struct query_table_row *row)
{
	const struct store_event *e = answer_event(q);
	if (e->ns_per_sample)
		return (double)row->samples * (double)e->ns_per_sample / 1e9;
	return t->has_values ? (double)row->value
			     : (double)row->samples * (double)(e->period ? e->period : 1);
}

/* The square of the relative standard error: none of what was not sampled. */
static double variance(const struct query *q, const struct query_table_row *row)
{
	return row->samples ? (double)query_info(q)->grain / (double)row->samples : 0;
}

static int divide(struct report_ratios *s, const struct query *q, const struct query_table *t)
{
	s->rows = calloc(s->t->n_rows + 1, sizeof(*s->rows));
	s->ratio = calloc(t->n_rows + 1, sizeof(*s->ratio));
	s->error = calloc(t->n_rows + 1, sizeof(*s->error));
	if (!s->rows || !s->ratio || !s->error)
		return -ENOMEM;
	for (size_t i = 0; i < s->t->n_rows; i++)
		s->rows[i] = &s->t->rows[i];
	if (s->t->n_rows)
		qsort(s->rows, s->t->n_rows, sizeof(*s->rows), by_text);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *row = &t->rows[i], **found = NULL;
		if (s->t->n_rows)
			found = bsearch(&row, s->rows, s->t->n_rows, sizeof(*s->rows), by_text);
		double of = found ? amount(s->other.query, s->t, *found) : 0;
		s->ratio[i] = of > 0 ? amount(q, t, row) / of : NAN;
		s->error[i] =
			of > 0 ? 1.96 * sqrt(variance(q, row) + variance(s->other.query, *found))
			       : NAN;
	}
	return 0;
}

int report_ratios_open(struct report_ratios **ret, const struct reading *r,
		       const struct report *opts, const struct query_table *t, struct err *err)
{
	const char *const *keys = (const char *const *)opts->by.v;
	struct report_ratios *s = calloc(1, sizeof(*s));
	struct filter f = opts->filter;
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	f.event = opts->per;
	int rc = report_ask_other(r, &f, &opts->by, &s->other, err);
	rc = rc ? rc : query_table(s->other.query, keys, opts->by.n, &s->t, err);
	if (!rc && divide(s, r->query, t))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc) {
		report_ratios_close(s);
		return rc;
	}
	s->answer =
		(struct answer_ratios){ answer_event(s->other.query)->name, s->ratio, s->error };
	*ret = s;
	return 0;
}

void report_ratios_close(struct report_ratios *s)
{
	if (!s)
		return;
	query_table_free(s->t);
	report_other_close(&s->other);
	free(s->rows);
	free(s->ratio);
	free(s->error);
	free(s);
}

const struct answer_ratios *report_ratios_answer(const struct report_ratios *s)
{
	return s ? &s->answer : NULL;
}

void report_ratios_heads(void)
{
	printf("%10s %7s ", "RATIO", "ERROR");
}

void report_ratios_print(const struct report_ratios *s, size_t i)
{
	if (isnan(s->ratio[i]))
		printf("%10s %7s ", "-", "-");
	else
		printf("%10.*f %6.1f%% ", s->ratio[i] < 100 ? 4 : 0, s->ratio[i],
		       100 * s->error[i]);
}

static void put_unit(const struct query *q)
{
	const struct store_event *e = answer_event(q);
	if (e->ns_per_sample)
		fputs("seconds of ", stdout);
	else if (query_has_values(query_info(q)) && *e->unit && strcmp(e->unit, e->name)) {
		text_put(stdout, e->unit, 0);
		fputs(" of ", stdout);
	}
	text_put(stdout, e->name, 0);
}

void report_ratios_note(const struct report_ratios *s, const struct reading *r)
{
	fputs("\nRATIO: ", stdout);
	put_unit(r->query);
	fputs(" / ", stdout);
	put_unit(s->other.query);
	puts("; ERROR: of chance, for 95%");
}
