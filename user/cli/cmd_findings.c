/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe findings: what is worth a look in a range, in sentences. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/groups.h"
#include "export/findings.h"
#include "fleet/grown.h"
#include "opt/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FINDINGS 10
#define NAME 60 /* columns of a function's name */

struct findings_options {
	struct filter filter;
	struct opt_list by;
};

static const struct opt options[] = {
	{ "by", 'b', OPT_LIST, "KEY[,KEY...]",
	  "the labels to look at (default: service, container or comm, and "
	  "labels that programs gave their work)",
	  offsetof(struct findings_options, by), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR", "only samples with these labels: {service=\"a\"}",
	  offsetof(struct findings_options, filter.where), 0, 0 },
	{ "from", 0, OPT_TIME, "T",
	  "start of the range (default: the last 15 minutes that were recorded)",
	  offsetof(struct findings_options, filter.from_ns), 0, 0 },
	{ "to", 0, OPT_TIME, "T", "end of the range",
	  offsetof(struct findings_options, filter.to_ns), 0, 0 },
	LIMIT_OPTION(struct findings_options, filter, "findings to print (default 10; 0: all)"),
	JSON_OPTION(struct findings_options, filter),
	MEMORY_OPTION(struct findings_options, filter),
	CLICKHOUSE_OPTIONS(struct findings_options, filter.clickhouse),
};

static const struct opt_command command = {
	.name = "findings",
	.usage = "[STORE ...] [OPTIONS]",
	.about =
		"Print what is worth a look in a range of time. That is who needs more CPU than "
		"before, for a moment or since when, and who waits longer. It is also whether the "
		"CPUs are saturated, and which programs are of a new build. A finding differs from "
		"the time before by more than chance; one that was there a day before is marked as "
		"usual.",
	.examples = "  ascribe findings\n"
		    "  ascribe findings --from now-1h --by tenant\n",
	.opts = options,
	.pages = true,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

/* The clock of a time, in local time. */
static const char *clock_of(int64_t ns, char out[static 40])
{
	text_time(ns, out);
	memmove(out, out + 11, 8); /* 2026-05-01T10:00:00 */
	out[8] = 0;
	return out;
}

static void put_label(const char *key, const char *value)
{
	printf("%s ", key);
	text_put(stdout, *value ? value : "\"\"", 0);
}

static void put_who(const struct finding *f)
{
	put_label(f->key, f->value);
}

#define NONE 0.005 /* what is less is no number with two digits */

static void put_rest(const struct finding *f)
{
	if (f->before < NONE)
		fputs(", none before", stdout);
	else
		printf(", %.2f before", f->before);
	if (f->usual)
		printf(", and %.2f a day ago", f->day);
	putchar('\n');
}

/* Where else it was, or who else waits. */
static void put_places(const struct finding *f)
{
	for (size_t i = 0; i < f->n_places && i < FINDING_PLACES; i++) {
		fputs(i				? ", "
		      : f->kind == FINDING_RUNQ ? "      and so do "
						: "      in ",
		      stdout);
		put_label(f->places[i].key, f->places[i].value);
	}
	if (f->n_places > FINDING_PLACES)
		printf(" and %zu more", f->n_places - FINDING_PLACES);
	if (f->n_places)
		putchar('\n');
}

static void put_parent(const struct finding *f)
{
	if (!f->parent)
		return;
	fputs("      ", stdout);
	if (f->comm)
		put_label("comm", f->comm);
	fputs(f->comm ? ", started by " : "started by ", stdout);
	text_put(stdout, f->parent, 0);
	putchar('\n');
}

static int put_function(const struct finding *f)
{
	if (!f->function)
		return 0;
	printf("      %+.2f ", f->function_now - f->function_before);
	if (f->n_hosts)
		printf("on %zu of %zu hosts ", f->n_grew, f->n_hosts);
	fputs("in ", stdout);
	int rc = function_print(f->function, f->module, false, NAME);
	if (rc || !f->holder)
		return rc;
	fputs("      held in ", stdout);
	text_put(stdout, f->holder, 0);
	fputs(", by ", stdout);
	text_put(stdout, f->holder_comm, 0);
	putchar('\n');
	return 0;
}

static void put_saturated(const struct finding *f, const struct findings *of)
{
	char span[32];
	text_duration((uint64_t)f->span_ns, span);
	printf("The %zu CPUs are saturated for %s", of->n_cpus, span);
	if (f->value) {
		fputs("; who waits most for one: ", stdout);
		put_who(f);
	}
	putchar('\n');
}

static void put_build(const struct finding *f)
{
	text_put(stdout, f->value, 0);
	printf(" has a new build: %.12s, %.12s before\n", f->build[0], f->build[1]);
}

static int put_finding(const struct finding *f, const struct findings *of)
{
	char at[40], span[32];
	fputs("  ", stdout);
	if (f->kind == FINDING_SATURATED) {
		put_saturated(f, of);
		return 0;
	}
	if (f->kind == FINDING_BUILD) {
		put_build(f);
		return put_function(f);
	}
	put_who(f);
	clock_of(f->since_ns, at);
	text_duration((uint64_t)f->span_ns, span);
	if (f->kind == FINDING_OFF)
		printf(" is blocked (%s)", f->wait);
	printf("%s: %.2f %s ", f->kind == FINDING_RUNQ ? " waits for a CPU" : "", f->now,
	       f->kind == FINDING_RUNQ || f->kind == FINDING_OFF ? "s per second" : "CPUs");
	if (f->since_ns + f->span_ns < of->to_ns)
		printf("for %s at %s", span, at);
	else
		printf("since %s", at);
	put_rest(f);
	put_places(f);
	put_parent(f);
	return put_function(f);
}

static int print_text(const struct reading *r, const struct findings *f)
{
	char range[120];
	accounting_title(r->store);
	text_range(f->from_ns, f->to_ns, range);
	printf("findings of %s\n\n", range);
	int rc = 0;
	for (size_t i = 0; !rc && i < f->n; i++)
		rc = put_finding(&f->v[i], f);
	if (!f->n)
		puts("  none: nothing differs from before by more than chance");
	if (f->n < f->n_all)
		printf("\n  and %zu more; -n 0 prints all\n", f->n_all - f->n);
	if (!f->has_before)
		puts("\nNothing was recorded before this range: changes within it alone were looked for.");
	if (f->without_waits_ns) {
		char span[32];
		text_duration((uint64_t)f->without_waits_ns, span);
		printf("\nWaits were not measured for %s, to keep cpu-max.\n", span);
	}
	if (f->n)
		fputs("\nNext: ascribe why --where SELECTOR, for one of them\n", stdout);
	return rc;
}

static int findings(struct reading *r, const struct findings_options *o)
{
	struct err err = { 0 };
	struct findings *f = NULL;
	const struct findings_spec spec = {
		.where = o->filter.where,
		.from_ns = o->filter.from_ns,
		.to_ns = o->filter.to_ns,
		.keys = (const char *const *)o->by.v,
		.n_keys = o->by.n,
		.limit = o->filter.limit == UINT64_MAX ? DEFAULT_FINDINGS : o->filter.limit,
	};
	int rc;
	do
		rc = query_findings(&f, r->store, &spec, &err);
	while (reading_again(r, &o->filter, &rc, &err));
	if (!rc && r->fleet)
		rc = fleet_grown(&r->filled, r->store, spec.where, f, &err);
	reading_step(r, "query");
	if (!rc && !f->n && f->from_ns < f->to_ns) {
		int status =
			reading_check_values(r, &o->filter, &(struct query_info){ .blocks = 1 });
		if (status) {
			query_findings_free(f);
			return status;
		}
	}
	if (!rc && f->from_ns == f->to_ns)
		reading_no_data(r->store, o->filter.from_ns, o->filter.to_ns);
	else if (!rc)
		rc = o->filter.json ? cmd_print_json(answer_findings(f, o->filter.where))
				    : print_text(r, f);
	cmd_flush();
	if (!rc)
		reading_bounded(&o->filter, f->bounded);
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : strerror(-rc));
	query_findings_free(f);
	return !rc ? EXIT_OK : rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

int cmd_findings(int argc, char **argv)
{
	struct findings_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = opts.by.n > FINDINGS_KEYS_MAX ? EXIT_USAGE
					       : reading_check(&opts.filter, "--where", "--from");
	if (opts.by.n > FINDINGS_KEYS_MAX)
		cmd_error("findings: --by takes at most %d keys", FINDINGS_KEYS_MAX);
	if (!status)
		status = reading_open_store(&r, args.v, args.n, &opts.filter);
	if (!status)
		status = reading_check_keys(&r, &opts.filter, (const char *const *)opts.by.v,
					    opts.by.n);
	if (!status)
		status = findings(&r, &opts);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
