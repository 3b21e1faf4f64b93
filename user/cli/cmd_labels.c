/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe labels: which keys there are, and the values of one key. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/report.h"
#include "export/answer.h"
#include "opt/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_ROWS 100

struct labels {
	struct filter filter;
};

static const struct opt options[] = {
	WHERE_OPTIONS(struct labels, filter),
	METRIC_OPTION(struct labels, filter),
	LIMIT_OPTION(struct labels, filter,
		     "values to print, 0 for all (default: 100; with --json all)"),
	JSON_OPTION(struct labels, filter),
	EXPLAIN_OPTION(struct labels, filter),
};

static const struct opt_command command = {
	.name = "labels",
	.usage = "[STORE ...] [KEY] [OPTIONS]",
	.about = "Print the label keys of a store with the number of their values, or the values "
		 "of KEY with their samples. The last argument is a KEY, unless it has a slash or "
		 "names a store; if it is the only one, unless it has a slash or names any "
		 "existing path.",
	.examples = "  ascribe labels                        # the keys of " DEFAULT_STORE "\n"
		    "  ascribe labels tenant                 # the tenants, by CPU time\n"
		    "  ascribe labels /var/lib/ascribe comm  # another store\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = STORE_UNION_MAX + 1,
};

static int print_json(const struct reading *r, const struct filter *f, const struct found_list *l,
		      size_t limit)
{
	const struct answer a = {
		.store = r->store, .where = f->where, .metric = f->metric, .limit = limit
	};
	return cmd_print_json(answer_found(&a, l));
}

static int print_found(const struct found_list *l, const struct found *f)
{
	const struct label *label = &f->label;
	size_t len = label->key_len;
	char *value = l->keys ? NULL : found_text(label, &len);
	char *text = l->keys || value ? text_printable(l->keys ? label->key : value, len) : NULL;
	free(value);
	if (!text)
		return -ENOMEM;
	char sum[REPORT_AMOUNT_MAX];
	double low, high;
	query_interval(f->samples, l->samples, &low, &high);
	if (l->keys)
		printf("%9llu ", (unsigned long long)f->values);
	if (!l->info.amounts || !l->time)
		printf("%9s ", report_number(f->samples, query_counts(&l->info), sum));
	if (l->time)
		printf("%10.3f ", f->seconds);
	printf("%6.2f%%  ", 100.0 * (double)f->samples / (double)l->samples);
	if (l->info.grain)
		printf("%6.2f%% - %6.2f%%   ", 100 * low, 100 * high);
	puts(*text ? text : "\"\"");
	free(text);
	return 0;
}

static int print_text(const struct reading *r, const struct found_list *l, size_t limit)
{
	int rc = 0;
	if (l->n)
		printf("%s%s%s%7s  %s%s\n", l->keys ? "   VALUES " : "",
		       !l->info.amounts ? "  SAMPLES "
		       : l->time	? ""
					: "      SUM ",
		       l->time ? "   SECONDS " : "", "SHARE",
		       l->info.grain ? "     95% INTERVAL    " : "", l->keys ? "KEY" : "VALUE");
	for (size_t i = 0; !rc && i < l->n && i < limit; i++)
		rc = print_found(l, &l->v[i]);
	if (l->n > limit)
		printf("\n%zu more; -n 0 prints all\n", l->n - limit);
	accounting_footer(r->store, query_info(r->query));
	return rc;
}

static int labels(struct reading *r, const struct filter *f, const char *key)
{
	struct found_list l = { 0 };
	struct err err = { .text = "out of memory" };
	const struct query_spec spec = reading_spec(f, QUERY_TOTALS, NULL);
	uint64_t limit = f->limit;
	if (limit == UINT64_MAX && !f->json)
		limit = DEFAULT_ROWS;
	if (!limit)
		limit = UINT64_MAX;
	int rc = r->fleet && !key
			 ? found_list_keys(&l, r->query, r->filled.keys, r->filled.n_keys, &err)
			 : found_collect(&l, r->store, r->query, &spec, key, &err);
	if (!rc) {
		reading_step(r, "merge");
		if (!key && l.info.blocks)
			reading_lacks(r->store, f, &l.info);
		rc = f->json ? print_json(r, f, &l, limit) : print_text(r, &l, limit);
	}
	if (!rc && key && !l.n && query_info(r->query)->samples)
		cmd_warn("no sample has a label '%s'; `ascribe labels` lists the keys", key);
	if (rc && rc != -EIO)
		cmd_error("%s", err.text);
	found_fini(&l);
	reading_explain(r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* Whether an argument is a key, not a store; alone: there is no other one. */
static bool is_key(const char *arg, bool alone)
{
	char path[PATH_MAX];
	if (strchr(arg, '/') || snprintf(path, sizeof(path), "%s/HEADER", arg) >= (int)sizeof(path))
		return false;
	return access(alone ? arg : path, F_OK) != 0;
}

int cmd_labels(int argc, char **argv)
{
	static const char no_events[] =
		"labels: the samples of each event are counted: leave --metric out";
	struct labels opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	const char *key =
		args.n && is_key(args.v[args.n - 1], args.n == 1) ? args.v[--args.n] : NULL;
	if (key && !strcmp(key, "event") && opts.filter.metric) {
		cmd_error("%s", no_events);
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	char *keys[] = { (char *)key };
	const struct opt_list list = { keys, 1 };
	status = reading_open_keys(&r, args.v, args.n, &opts.filter,
				   key ? QUERY_KEYS : QUERY_TOTALS, key ? &list : NULL);
	if (!status)
		status = labels(&r, &opts.filter, key);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
