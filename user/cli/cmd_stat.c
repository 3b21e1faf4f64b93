/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe stat: every sample accounted for, per CPU and in total. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/gate.h"
#include "export/answer.h"
#include "opt/term.h"
#include "opt/text.h"
#include "query/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stat_options {
	struct filter filter;
	struct opt_list require;
	const char *format;
};

static const struct opt options[] = {
	RANGE_OPTIONS(struct stat_options, filter),
	{ "require", 0, OPT_TEXTS, "RULE",
	  "exit with 1 where this does not hold: \"lost < 1%\", \"rooted > 97%\", \"labelled > 90%\", "
	  "\"stored >= 1000\". lost (but of idle CPUs), stored, fired, labelled and each loss and "
	  "flag of --json are known. Repeatable",
	  offsetof(struct stat_options, require), 0, 0 },
	FORMAT_OPTION(struct stat_options, format),
	JSON_OPTION(struct stat_options, filter),
	EXPLAIN_OPTION(struct stat_options, filter),
	CLICKHOUSE_OPTIONS(struct stat_options, filter.clickhouse),
};

static const struct opt_command command = {
	.name = "stat",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Print the accounting of a store: samples due (fired) = stored + each loss, per "
		 "CPU and in total. Then comes what there is to say about the stored samples, and "
		 "what the recorder itself used and how long it took. Counters that are 0 are left "
		 "out; --json has them all.",
	.examples = "  ascribe stat\n"
		    "  ascribe stat --from now-1h --json\n"
		    "  ascribe stat --require 'lost < 1%' --require 'rooted > 97%'\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = STORE_UNION_MAX,
};

/* ---- text ---- */

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

#define HELP_COLUMN 44 /* behind name, count and share */

/* of 0: without a share. */
static void print_counter(const char *name, uint64_t count, uint64_t of)
{
	fputs("  ", stdout);
	text_put(stdout, name, 17);
	printf(" %12llu ", (unsigned long long)count);
	if (of)
		printf("%8.3f%%", percent(count, of));
	else
		printf("%9s", "");
	fputs("  ", stdout);
	text_fold(stdout, counter_help(name), HELP_COLUMN, HELP_COLUMN, term_width());
}

static void print_flags(const struct store_meta *m, const struct store_cpu_totals *all)
{
	for (size_t i = 0; i < m->n_flagged; i++)
		if (all->flagged[i])
			print_counter(
				m->flagged_names[i], all->flagged[i],
				account_base(m, all->flagged, all->stored, m->flagged_names[i]));
}

static void print_cpus(const struct account *t, const struct store_meta *m)
{
	printf("\n%-5s %12s %12s %12s", "CPU", "fired", "stored", "lost");
	for (size_t j = 0; j < m->n_lost; j++) {
		if (t->all.lost[j])
			text_put(stdout, m->lost_names[j], -16);
	}
	putchar('\n');
	for (size_t i = 0; i <= t->n_cpus; i++) {
		const struct store_cpu_totals *c = i < t->n_cpus ? &t->cpu[i] : &t->all;
		char name[16] = "all";
		if (i < t->n_cpus)
			snprintf(name, sizeof(name), "%u", c->cpu);
		printf("%-5s %12llu %12llu %12llu", name, (unsigned long long)c->fired,
		       (unsigned long long)c->stored,
		       (unsigned long long)counter_sum(c->lost, m->n_lost));
		for (size_t j = 0; j < m->n_lost; j++) {
			if (t->all.lost[j])
				printf("%16llu", (unsigned long long)c->lost[j]);
		}
		putchar('\n');
	}
}

/* A time, or a count of what the name of the metric says. */
static void put_value(enum metric m, double value)
{
	char text[32];
	if (metric_decimals(m) == 9)
		text_duration((uint64_t)value, text);
	else
		snprintf(text, sizeof(text), "%.0f", value);
	text_put(stdout, text, -10);
}

static void print_own(const struct hist_snapshot *own)
{
	bool head = false;
	for (enum metric m = 0; m < N_METRICS; m++) {
		if (!own[m].total)
			continue;
		if (!head)
			printf("\n%-30s %12s %9s", "own, within 6.25%", "count", "mean");
		for (size_t i = 0; !head && i < ANSWER_QUANTILES; i++)
			printf(" %9s", answer_quantiles[i].name);
		if (!head)
			putchar('\n');
		head = true;
		printf("%-30s %12llu", metric_name(m), (unsigned long long)own[m].total);
		put_value(m, hist_snapshot_moments(&own[m]).mean);
		for (size_t i = 0; i < ANSWER_QUANTILES; i++)
			put_value(m, (double)hist_snapshot_quantile(&own[m], answer_quantiles[i].q)
					     .value);
		putchar('\n');
	}
}

/* Whom the recorder gave up, so that names of samples may be missing. */
static void print_silent(const struct query_own *own)
{
	if (own->n_silent || own->other_requests)
		printf("\n%-30s %12s\n", "did not answer", "requests");
	for (size_t i = 0; i < own->n_silent; i++) {
		text_put(stdout, own->silent[i].name, 30);
		printf(" %12llu\n", (unsigned long long)own->silent[i].requests);
	}
	if (own->other_requests)
		printf("%-30s %12llu\n", "others", (unsigned long long)own->other_requests);
	if (own->jobs_refused)
		printf("\nfiles not read, the parsers' queue was full: %llu times\n",
		       (unsigned long long)own->jobs_refused);
}

static void print_native(const struct query_own *own)
{
	if (own->n_native)
		printf("\n%-50s %12s\n", "stacks that stay native, unknown version", "processes");
	for (size_t i = 0; i < own->n_native; i++) {
		text_put(stdout, own->native[i].what, 50);
		printf(" %12llu\n", (unsigned long long)own->native[i].processes);
	}
}

static int print_text(const struct store *s, const struct account *t, const struct query_own *own)
{
	const struct store_meta *m = store_meta(s);
	double wall = (double)(t->to_ns - t->from_ns) / 1e9;
	char range[120];
	accounting_title(s);
	if (!t->blocks)
		return 0;
	text_range(t->from_ns, t->to_ns, range);
	printf("%s, %llu blocks\n\n", range, (unsigned long long)t->blocks);
	printf("%-19s %12llu\n", "fired", (unsigned long long)t->all.fired);
	printf("%-19s %12llu %8.3f%%\n", "stored", (unsigned long long)t->all.stored,
	       percent(t->all.stored, t->all.fired));
	uint64_t lost = counter_sum(t->all.lost, m->n_lost);
	printf("%-19s %12llu %8.3f%%\n", "lost", (unsigned long long)lost,
	       percent(lost, t->all.fired));
	for (size_t i = 0; i < m->n_lost; i++)
		if (t->all.lost[i])
			print_counter(m->lost_names[i], t->all.lost[i], t->all.fired);
	puts("\nof the stored:");
	print_flags(m, &t->all);
	print_cpus(t, m);
	printf("\noutside the selection: %llu\n", (unsigned long long)t->outside);
	printf("own cost: %.3f s of CPU", (double)t->own_cpu_ns / 1e9);
	if (wall > 0)
		printf(" (%.3f%% of one CPU)", (double)t->own_cpu_ns / 1e7 / wall);
	printf(", %.1f MiB resident\n", (double)t->own_rss / 1048576);
	print_own(own->metric);
	print_silent(own);
	print_native(own);
	if (t->all.fired != t->all.stored + lost)
		cmd_warn("the counts do not add up: the store was written by a faulty version");
	return 0;
}

/* ---- for CI ---- */

static void markdown_row(const char *name, uint64_t count, uint64_t of)
{
	fputs("| ", stdout);
	markdown_cell(stdout, name);
	printf(of ? " | %llu | %.3f%% |\n" : " | %llu | |\n", (unsigned long long)count,
	       percent(count, of));
}

static int print_markdown(const struct gate *g, const struct store_meta *m,
			  const struct store_cpu_totals *all)
{
	gate_print_markdown(g);
	puts("| count | samples | share |\n|---|--:|--:|");
	markdown_row("fired", all->fired, 0);
	markdown_row("stored", all->stored, all->fired);
	for (size_t i = 0; i < m->n_lost; i++)
		if (all->lost[i])
			markdown_row(m->lost_names[i], all->lost[i], all->fired);
	for (size_t i = 0; i < m->n_flagged; i++)
		if (all->flagged[i])
			markdown_row(
				m->flagged_names[i], all->flagged[i],
				account_base(m, all->flagged, all->stored, m->flagged_names[i]));
	return 0;
}

static int print_json(const struct gate *g, const struct store *s, const struct account *t,
		      const struct query_own *own)
{
	json_t *answer = answer_account(s, t, own);
	int rc = answer ? gate_put_json(g, answer) : -ENOMEM;
	if (rc)
		json_decref(answer);
	return rc ? rc : cmd_print_json(answer);
}

static int print(const struct gate *g, const struct store *s, const struct account *t,
		 const struct query_own *own)
{
	const struct gate_origin o = { .host = store_meta(s)->host, .at_ns = t->to_ns };
	switch (g->format) {
	case GATE_JSON:
		return print_json(g, s, t, own);
	case GATE_JUNIT:
		gate_print_junit(g, &o);
		return 0;
	case GATE_MARKDOWN:
		return print_markdown(g, store_meta(s), &t->all);
	case GATE_TEXT:
		break;
	}
	int rc = print_text(s, t, own);
	gate_print_text(g);
	return rc;
}

static int judge(struct gate *g, const struct account *t, const struct store_meta *m,
		 struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < g->n; i++) {
		rc = gate_judge_account(&g->rule[i], t, m, &g->result[i], err);
		g->n_results += !rc;
	}
	return rc;
}

static int stat_store(struct reading *r, const struct filter *f, struct gate *g)
{
	struct account t = { 0 };
	struct query_own own = { 0 };
	struct err err = { .text = "out of memory" };
	int rc = account_sum(&t, r->store, f->from_ns, f->to_ns, &err);
	rc = rc ? rc : query_own(r->store, f->from_ns, f->to_ns, &own, &err);
	rc = rc ? rc : judge(g, &t, store_meta(r->store), &err);
	if (r->fleet)
		account_forget_cpus(&t);
	reading_step(r, "sum");
	if (!rc && !t.blocks)
		reading_no_data(r->store, f->from_ns, f->to_ns);
	if (!rc)
		rc = print(g, r->store, &t, &own);
	if (rc && rc != -EIO)
		cmd_error("%s", err.text);
	query_own_fini(&own);
	account_fini(&t);
	reading_explain(r);
	return rc || !gate_holds(g) ? EXIT_FAILED : EXIT_OK;
}

/* What a store knows decides which counters there are. */
static int check_gate(const struct gate *g, const struct reading *r)
{
	for (size_t i = 0; i < g->n; i++) {
		struct err err = { 0 };
		if (gate_check_account(&g->rule[i], store_meta(r->store), &err))
			return gate_refuse(g, i, &err);
	}
	return EXIT_OK;
}

int cmd_stat(int argc, char **argv)
{
	struct stat_options opts = { .filter = FILTER_INIT };
	struct gate gate = { .command = "stat", .option = "--require" };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = gate_open(&gate, &opts.require, opts.format, opts.filter.json);
	status = status ? status : reading_check(&opts.filter, "--where", "--from");
	if (!status)
		status = reading_open_store(&r, args.v, args.n, &opts.filter);
	status = status ? status : check_gate(&gate, &r);
	if (!status)
		status = stat_store(&r, &opts.filter, &gate);
	reading_close(&r);
	gate_close(&gate);
	opt_release(&command, &opts);
	return status;
}
