/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe why: one page about a selection: its time, its waits, who was in its way and its code,
 * against the rest and against the time before.
 */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/groups.h"
#include "cli/why_memory.h"
#include "export/why.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES 5 /* of each list */

struct why_options {
	struct filter filter;
	int64_t before_ns; /* INT64_MIN: just before */
};

static const struct opt options[] = {
	{ "where", 'w', OPT_STRING, "SELECTOR", "what it is about: {tenant=\"a\"}",
	  offsetof(struct why_options, filter.where), 0, 0 },
	RANGE_OPTIONS(struct why_options, filter),
	{ "before", 0, OPT_TIME, "T",
	  "where the earlier range begins that it is compared with, of the same length "
	  "(default: the time just before)",
	  offsetof(struct why_options, before_ns), 0, 0 },
	{ "metric", 'm', OPT_STRING, "METRIC",
	  "heap: who holds more memory at the end of the range than at its beginning, by the label "
	  "that says best for whom it is (record -e heap); --where is not needed",
	  offsetof(struct why_options, filter.metric), 0, 0 },
	{ "idle", 'i', OPT_FLAG, NULL, "include idle waits: of a worker for its next work",
	  offsetof(struct why_options, filter.idle), 0, 0 },
	NAMES_OPTIONS(struct why_options, filter),
	JSON_OPTION(struct why_options, filter),
	MEMORY_OPTION(struct why_options, filter),
	CLICKHOUSE_OPTIONS(struct why_options, filter.clickhouse),
	EXPLAIN_OPTION(struct why_options, filter),
};

static const struct opt_command command = {
	.name = "why",
	.usage = "[STORE ...] {--where SELECTOR | --metric heap} [OPTIONS]",
	.about = "Where the time of a selection went, on one page: beside everything else of the "
		 "same time, and beside itself in an earlier range. Functions are named only where "
		 "they differ by more than chance. Waits need a recording with --wall.",
	.examples = "  ascribe why --where '{tenant=\"acme\"}'\n"
		    "  ascribe why --where '{query_id=\"42\"}' --from now-5m --before now-1d\n"
		    "  ascribe why --metric heap --from now-5m    # who leaks memory\n",
	.opts = options,
	.pages = true,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

static const char *const side_names[] = { "this", "the rest", "before" };
static const char *const part_names[] = {
	[WHY_CPU] = "on a CPU", [WHY_RUNQ] = "waiting for a CPU", [WHY_OFF] = "blocked"
};

/* ---- times ---- */

static void print_head(const struct why *w, const char *what)
{
	printf("\n%-20s", what);
	for (int i = 0; i < WHY_SIDES; i++)
		if (w->side[i].there)
			printf("  %21s", side_names[i]);
	putchar('\n');
}

static void print_times(const struct why *w)
{
	print_head(w, "TIME");
	for (int p = 0; p < WHY_PARTS; p++) {
		printf("%-20s", part_names[p]);
		for (int i = 0; i < WHY_SIDES; i++)
			if (w->side[i].there)
				printf("  %10.3f s %7.2f%%%s", w->side[i].seconds[p],
				       100 * why_share(&w->side[i], p), " ");
		putchar('\n');
	}
	printf("%-20s", "all");
	for (int i = 0; i < WHY_SIDES; i++)
		if (w->side[i].there)
			printf("  %10.3f s %9s", why_wall(&w->side[i]), "");
	putchar('\n');
	if (w->side[WHY_THIS].idle_s > 0 || w->side[WHY_REST].idle_s > 0)
		printf("%-20s", "left out: idle");
	for (int i = 0;
	     i < WHY_SIDES && (w->side[WHY_THIS].idle_s > 0 || w->side[WHY_REST].idle_s > 0); i++)
		if (w->side[i].there)
			printf("  %10.3f s %9s%s", w->side[i].idle_s, "",
			       i == WHY_SIDES - 1 || !w->side[i + 1].there ? "\n" : "");
}

static void print_lengths(const struct why *w, enum why_part part)
{
	static const double quantiles[] = { 0.5, 0.99, 1 };
	char text[3][32], line[120];
	printf("%-20s", part_names[part]);
	for (int i = 0; i < WHY_SIDES; i++) {
		const struct hist_snapshot *h = why_lengths(&w->side[i], part);
		if (!w->side[i].there)
			continue;
		for (size_t q = 0; h && h->total && q < 3; q++)
			text_duration(hist_snapshot_quantile(h, quantiles[q]).value, text[q]);
		if (h && h->total)
			snprintf(line, sizeof(line), "%s/%s/%s", text[0], text[1], text[2]);
		else
			snprintf(line, sizeof(line), "none");
		/* "1.2 ms": without the blank, three fit */
		for (char *p = line, *o = line; (*o = *p); p++)
			o += *p != ' ';
		printf("  %21s", line);
	}
	putchar('\n');
}

/* ---- code ---- */

static int print_changes(const struct query_diff *d, int against)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n_rows && d->rows[i].verdict != DIFF_NOISE; i++) {
		const struct query_diff_row *r = &d->rows[i];
		/* the code of other programs */
		bool others = against == WHY_REST && r->verdict == DIFF_LESS;
		if (others || n++ >= LINES)
			continue;
		printf("  %6.2f%% here, %6.2f%% %-8s  ", 100 * r->share[0], 100 * r->share[1],
		       against == WHY_REST ? "there" : "before");
		if (function_print(r->text, r->module, false, term_room(34)))
			return -ENOMEM;
	}
	if (n > LINES)
		printf("  and %zu more: see `ascribe diff`\n", n - LINES);
	if (!n)
		puts("  none");
	return 0;
}

static int print_code_by(const struct why *w, int against, bool inclusive, struct err *err)
{
	struct why_changes c;
	char line[160];
	snprintf(line, sizeof(line),
		 "CODE that differs from %s by more than chance, %s (%llu samples here)",
		 side_names[against], inclusive ? "with all that it calls" : "by its own samples",
		 (unsigned long long)w->side[WHY_THIS].cpu_samples);
	putchar('\n');
	text_fold(stdout, line, 0, 2, term_width());
	int rc = why_changes(w, against, inclusive, &c, err);
	rc = rc ? rc : print_changes(c.diff, against);
	why_changes_free(&c);
	return rc;
}

/*
 * Beside the rest, all callers of what is special differ as well, from main on: own samples say
 * enough there.
 */
static int print_code(const struct why *w, int against, struct err *err)
{
	int rc = 0;
	if (!w->side[against].there)
		return 0;
	if (against == WHY_BEFORE)
		rc = print_code_by(w, against, true, err);
	return rc ? rc : print_code_by(w, against, false, err);
}

/* ---- waits ---- */

static void put_value(const struct query_table_row *r, size_t i)
{
	if (r->present[i])
		text_put(stdout, *r->values[i] ? r->values[i] : "\"\"", 0);
	else
		fputs("(none)", stdout);
}

/* Print the rows that it has most of, beside the other sides. */
static int print_tables(const struct why *w, const struct why_tables *t, enum why_list list)
{
	const struct query_table *first = t->table[WHY_THIS];
	int rc = 0;
	for (size_t k = 0; !rc && first && k < first->n_rows && k < LINES && first->rows[k].self;
	     k++) {
		const struct query_table_row *r = &first->rows[k];
		unsigned used = 13;
		if (r->other)
			continue;
		fputs("  ", stdout);
		for (int i = 0; i < WHY_SIDES; i++) {
			if (!w->side[i].there)
				continue;
			printf("%6.2f%% %-9s", 100 * why_row_share(t, i, r), side_names[i]);
			used += 17;
		}
		fputs("  ", stdout);
		if (list == WHY_BLOCKED)
			printf("%-8s ", r->values[1]);
		else
			put_value(r, 0);
		if (list == WHY_WAKERS)
			fputs(": ", stdout);
		if (list == WHY_OCCUPANTS)
			putchar('\n');
		else
			rc = function_print(r->values[list == WHY_WAKERS], r->module, false,
					    term_room(used));
	}
	return rc;
}

static int print_wakers(const struct why *w, const struct why_tables *blocked, struct err *err)
{
	struct why_tables wakers;
	int rc = why_wakers(w, &wakers, err);
	if (!rc && wakers.table[WHY_THIS]) {
		const struct query_table_row *holder = why_holder(blocked, &wakers);
		puts("\nWHO ENDED ITS WAITS");
		rc = print_tables(w, &wakers, WHY_WAKERS);
		if (holder) {
			fputs("  The locks were held by ", stdout);
			put_value(holder, 0);
			fputs(", in ", stdout);
			put_value(holder, 1);
			putchar('\n');
		}
	}
	why_tables_free(&wakers);
	return rc;
}

static int print_waits(const struct why *w, struct err *err)
{
	struct why_tables blocked, occupants;
	int rc = why_blocked(w, &blocked, err);
	int rc2 = why_occupants(w, &occupants, err);
	rc = rc ? rc : rc2;
	if (!rc && blocked.table[WHY_THIS]) {
		puts("\nBLOCKED in");
		rc = print_tables(w, &blocked, WHY_BLOCKED);
		rc = rc ? rc : print_wakers(w, &blocked, err);
	}
	if (!rc && occupants.table[WHY_THIS]) {
		puts("\nWHO WAS RUNNING while it waited for one");
		rc = print_tables(w, &occupants, WHY_OCCUPANTS);
	}
	why_tables_free(&blocked);
	why_tables_free(&occupants);
	return rc;
}

/* ---- the page ---- */

static void print_title(const struct why *w)
{
	char range[120];
	accounting_title(w->store);
	fputs("why ", stdout);
	text_put(stdout, w->spec.where, 0);
	putchar('\n');
	for (int i = WHY_THIS; i < WHY_SIDES; i++) {
		if (i == WHY_REST || !w->side[i].there)
			continue;
		text_range(w->side[i].from_ns, w->side[i].to_ns, range);
		printf("%-8s %s\n", side_names[i], range);
	}
	if (!w->side[WHY_BEFORE].there)
		puts("before   nothing was recorded");
}

static int print_page(const struct why *w, struct err *err)
{
	print_title(w);
	print_times(w);
	if (w->side[WHY_THIS].waits && w->by_work) {
		print_head(w, "WAITS p50/p99/max");
		print_lengths(w, WHY_RUNQ);
		print_lengths(w, WHY_OFF);
	}
	int rc = print_waits(w, err);
	rc = rc ? rc : print_code(w, WHY_BEFORE, err);
	return rc ? rc : print_code(w, WHY_REST, err);
}

static int print_json(const struct why *w, struct err *err)
{
	json_t *o = NULL;
	int rc = answer_why(w, &o, err);
	return rc ? rc : cmd_print_json(o);
}

static int why(struct reading *r, const struct why_options *o)
{
	struct err err = { 0 };
	struct why w;
	const struct query_spec spec = reading_spec(&o->filter, QUERY_NO_LABELS, NULL);
	int rc;
	do {
		rc = why_open(&w, r->store, &spec, o->before_ns, &err);
		if (rc)
			why_close(&w);
	} while (reading_again(r, &o->filter, &rc, &err));
	const struct why_side *it = &w.side[WHY_THIS];
	reading_step(r, "query");
	if (!rc && it->there && why_wall(it) <= 0) {
		int status = reading_check_values(r, &o->filter, query_info(it->part[WHY_CPU]));
		if (status) {
			why_close(&w);
			return status;
		}
	}
	if (!rc && !it->there)
		reading_no_data(r->store, o->filter.from_ns, o->filter.to_ns);
	else if (!rc)
		rc = o->filter.json ? print_json(&w, &err) : print_page(&w, &err);
	cmd_flush();
	if (!rc)
		reading_labels_gone(query_info(it->part[WHY_CPU]));
	if (!rc)
		reading_bounded(&o->filter, why_bounded(&w));
	if (!rc && it->there && why_wall(it) <= 0)
		cmd_warn("nothing matches");
	if (!rc && !it->waits)
		cmd_warn("this store has no waits: record with --wall");
	else if (!rc && !w.by_work)
		cmd_warn(
			"lengths of waits, and who was running, are not kept by tgid, tid or thread");
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : strerror(-rc));
	reading_explain(r);
	why_close(&w);
	return !rc ? EXIT_OK : rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

int cmd_why(int argc, char **argv)
{
	struct why_options opts = { .filter = FILTER_INIT, .before_ns = INT64_MIN };
	struct reading r = { .rest = true };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	if (!opts.filter.where && !opts.filter.metric) {
		cmd_error("why: --where SELECTOR says about what (see ascribe why --help)");
		return EXIT_USAGE;
	}
	if (!opts.filter.names && !opts.filter.json)
		opts.filter.names = "simple";
	status = reading_check(&opts.filter, "--where", "--from");
	if (!status)
		status = reading_open_store(&r, args.v, args.n, &opts.filter);
	if (!status)
		status = reading_check_keys(&r, &opts.filter, NULL, 0);
	if (!status)
		status = opts.filter.metric ? why_memory(&r, &opts.filter) : why(&r, &opts);
	reading_close(&r);
	return status;
}
