/* SPDX-License-Identifier: Apache-2.0 */
/* `report --before`: what each row of a table has more or less than in an earlier range. */
#include "cli/report.h"

#include "cli/cmd.h"
#include "opt/text.h"
#include "query/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct report_changes {
	struct report_other before;
	struct query_diff *diff;
	const struct query_diff_row **rows; /* by what they show */
};

static int compare_modules(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int by_text(const void *pa, const void *pb)
{
	const struct query_diff_row *a = *(const struct query_diff_row *const *)pa,
				    *b = *(const struct query_diff_row *const *)pb;
	int c = strcmp(a->text, b->text);
	return c ? c : compare_modules(a->module, b->module);
}

/* The same length of time from `before` on, up to where the range itself begins. */
static struct filter earlier(const struct query_info *now, const struct report *opts)
{
	struct filter f = opts->filter;
	f.from_ns = opts->before_ns;
	f.to_ns = opts->before_ns + (now->to_ns - now->from_ns);
	if (f.from_ns < now->from_ns && f.to_ns > now->from_ns)
		f.to_ns = now->from_ns;
	f.by_start = true;
	return f;
}

int report_ask_other(const struct reading *r, const struct filter *f, const struct opt_list *by,
		     struct report_other *ret, struct err *err)
{
	const enum query_labels labels = by->n ? QUERY_KEYS : QUERY_NO_LABELS;
	const struct query_spec spec = reading_spec(f, labels, by);
	if (!r->fleet)
		return query_open(&ret->query, r->store, &spec, err);
	reading_ask_one(&ret->fleet, labels, by);
	if (reading_open_store(&ret->fleet, NULL, 0, f))
		return err_set(err, -EIO, "ClickHouse gave no answer to compare with");
	return query_open(&ret->query, ret->fleet.store, &spec, err);
}

void report_other_close(struct report_other *o)
{
	query_close(o->query);
	reading_close(&o->fleet);
}

int report_changes_open(struct report_changes **ret, const struct reading *r,
			const struct report *opts, struct err *err)
{
	const struct opt_list *by = &opts->by;
	const struct filter f = earlier(query_info(r->query), opts);
	const struct query_diff_spec how = { .keys = by->n ? (const char *const *)by->v : NULL,
					     .n_keys = by->n,
					     .inclusive = !by->n,
					     .absolute = true };
	struct report_changes *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = report_ask_other(r, &f, by, &c->before, err);
	rc = rc ? rc : query_diff(&c->diff, r->query, c->before.query, &how, err);
	c->rows = rc ? NULL : calloc(c->diff->n_rows + 1, sizeof(*c->rows));
	if (!rc && !c->rows)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc) {
		report_changes_close(c);
		return rc;
	}
	for (size_t i = 0; i < c->diff->n_rows; i++)
		c->rows[i] = &c->diff->rows[i];
	if (c->diff->n_rows)
		qsort(c->rows, c->diff->n_rows, sizeof(*c->rows), by_text);
	*ret = c;
	return 0;
}

void report_changes_close(struct report_changes *c)
{
	if (!c)
		return;
	query_diff_free(c->diff);
	report_other_close(&c->before);
	free(c->rows);
	free(c);
}

void report_change_print(const struct report_changes *c, const struct reading *r,
			 const struct query_table_row *row)
{
	const struct query_diff_row key = { .text = row->text, .module = row->module }, *at = &key,
				    **found = NULL;
	if (!row->other && c->diff->n_rows)
		found = bsearch(&at, c->rows, c->diff->n_rows, sizeof(*c->rows), by_text);
	double unit = (double)reading_event(r)->ns_per_sample / 1e9;
	if (!found || (*found)->verdict == DIFF_NOISE)
		printf("%8s ", ".");
	else
		printf("%+8.2f ", ((*found)->rate[0] - (*found)->rate[1]) * (unit > 0 ? unit : 1));
}

void report_change_note(const struct report_changes *c, const struct reading *r, bool functions)
{
	const struct query_info *info = query_info(c->before.query);
	char range[120];
	if (!info->blocks) {
		puts("\nCHANGE: nothing was recorded in the earlier range");
		return;
	}
	text_range(info->from_ns, info->to_ns, range);
	printf("\nCHANGE: %s against %s;\n%sa dot may be chance\n",
	       reading_event(r)->ns_per_sample ? "in CPUs (seconds per second)" : "per second",
	       range, functions ? "of functions with all that they call; " : "");
}
