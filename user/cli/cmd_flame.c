/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe flame: the samples as one HTML page. */
#include "cli/accounting.h"
#include "cli/browser.h"
#include "cli/cmd.h"
#include "cli/output.h"
#include "export/export.h"
#include "query/view.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_FILE "flame.html"

struct flame_options {
	struct filter filter;
	const char *output;
	bool open;
	const char *view, *function, *module;
	const char *against;
	int64_t against_from_ns, against_to_ns;
};

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, "FILE",
	  "where to write (default: stdout; " DEFAULT_FILE " when that is a terminal)",
	  offsetof(struct flame_options, output), 0, 0 },
	WHERE_OPTIONS(struct flame_options, filter),
	METRIC_OPTION(struct flame_options, filter),
	NAMES_OPTIONS(struct flame_options, filter),
	LIMIT_OPTION(struct flame_options, filter,
		     "most frames to keep, the rest is summed in (other);\n0 and default: 20000"),
	{ "view", 0, OPT_STRING, "VIEW",
	  "down (from the root, the default), inverted (from the leaves), callees or callers (of "
	  "--function)",
	  offsetof(struct flame_options, view), 0, 0 },
	{ "function", 0, OPT_STRING, "NAME", "whose callees or callers",
	  offsetof(struct flame_options, function), 0, 0 },
	{ "module", 0, OPT_STRING, "FILE",
	  "the function's file, where several have one of that name",
	  offsetof(struct flame_options, module), 0, 0 },
	{ "against", 'a', OPT_STRING, "SELECTOR",
	  "colour by what is more or less than there; noise is grey",
	  offsetof(struct flame_options, against), 0, 0 },
	{ "against-from", 0, OPT_TIME, "T", "start of what to compare with",
	  offsetof(struct flame_options, against_from_ns), 0, 0 },
	{ "against-to", 0, OPT_TIME, "T",
	  "end of what to compare with (default of both: the same range)",
	  offsetof(struct flame_options, against_to_ns), 0, 0 },
	{ "open", 0, OPT_FLAG, NULL,
	  "start the browser; without a desktop say how to fetch the page",
	  offsetof(struct flame_options, open), 0, 0 },
	{ "json", 0, OPT_FLAG, NULL, "write the page's data only, as JSON",
	  offsetof(struct flame_options, filter.json), 0, 0 },
	EXPLAIN_OPTION(struct flame_options, filter),
};

static const struct opt_command command = {
	.name = "flame",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Write a flame graph as one self-contained HTML page: zoom, search, hover; no "
		 "network needed.",
	.examples =
		"  ascribe flame -o flame.html\n  ascribe flame --open                           "
		"# in the browser\n  ascribe flame --where '{tenant=\"acme\",endpoint=\"/sort\"}' "
		"-o acme.html\n  ascribe flame --view callers --function memcpy -o callers.html\n  "
		"ascribe flame --from now-1h --against-from now-2h --against-to now-1h -o "
		"diff.html\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

/* 0 or EXIT_USAGE. */
static int choose_view(const struct flame_options *o, struct query_view_spec *ret)
{
	static const char *const views[] = { "down", "inverted", "callees", "callers" };
	int i = 0;
	while (o->view && i < 4 && strcmp(o->view, views[i]))
		i++;
	*ret = (struct query_view_spec){ (enum query_view)i, o->function, o->module };
	if (i == 4)
		cmd_error("--view: %s is none of down, inverted, callees, callers", o->view);
	else if (i >= QUERY_VIEW_CALLEES && !(o->function && *o->function))
		cmd_error("--view %s: of which --function?", o->view);
	else if (i < QUERY_VIEW_CALLEES && (o->function || o->module))
		cmd_error("--function and --module are for --view callees and callers");
	else
		return EXIT_OK;
	return EXIT_USAGE;
}

/* Whether the function is in any of the samples, where there are some. */
static int find_function(struct reading *r, const struct query_view_spec *view)
{
	struct query_view_tree t;
	struct err err = { 0 };
	if (view->view < QUERY_VIEW_CALLEES || !query_info(r->query)->samples)
		return EXIT_OK;
	int rc = query_view(&t, r->query, view, &err);
	size_t n = rc ? 0 : t.n;
	if (!rc)
		query_view_free(&t);
	if (n > 1)
		return EXIT_OK;
	cmd_error("--function: %s",
		  rc ? err.text
		     : "no such function in these samples; ascribe report has their names");
	return EXIT_FAILED;
}

static bool has_baseline(const struct flame_options *o)
{
	return o->against || o->against_from_ns != INT64_MIN || o->against_to_ns != INT64_MAX;
}

static struct filter baseline(const struct flame_options *o)
{
	struct filter f = o->filter;
	if (o->against)
		f.where = o->against;
	if (o->against_from_ns != INT64_MIN || o->against_to_ns != INT64_MAX) {
		f.from_ns = o->against_from_ns;
		f.to_ns = o->against_to_ns;
	}
	return f;
}

/* The other side is of the same event. */
static int open_baseline(struct reading *r, const struct filter *side, struct query **ret)
{
	struct query_spec spec = reading_spec(side, QUERY_NO_LABELS, NULL);
	struct err err = { 0 };
	if ((!side->metric || spec.metric == QUERY_VALUE) && *reading_event(r)->name)
		spec.event = reading_event(r)->name;
	if (!query_open(ret, r->store, &spec, &err))
		return EXIT_OK;
	cmd_error("what to compare with: %s", err.text);
	return EXIT_FAILED;
}

static int flame(struct reading *r, const struct flame_options *opts,
		 const struct query_view_spec *view, struct query *against)
{
	struct export_source src = { .store = r->store,
				     .query = r->query,
				     .where = opts->filter.where,
				     .idle = opts->filter.idle };
	struct export_flame_spec spec = { .max_nodes = opts->filter.limit == UINT64_MAX
							       ? 0
							       : opts->filter.limit,
					  .view = *view,
					  .against = against };
	const char *path = opts->output;
	struct output out = OUTPUT_INIT;
	struct err err = { 0 };
	if (!path && !opts->filter.json && (opts->open || isatty(STDOUT_FILENO)))
		path = DEFAULT_FILE;
	int rc = output_open(&out, path, &err);
	if (!rc && opts->filter.json)
		rc = export_flame_json(&src, &spec, out.f, &err);
	else if (!rc)
		rc = export_flame(&src, &spec, out.f, &err);
	rc = rc ? rc : output_commit(&out, &err);
	output_close(&out);
	reading_step(r, "page");
	reading_explain(r);
	if (rc) {
		if (rc != -EPIPE) /* main() ends quietly */
			cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	accounting_footer(r->store, query_info(r->query));
	if (path)
		fprintf(stderr, "wrote %s\n", path);
	if (path && opts->open)
		browser_open_file(path);
	return EXIT_OK;
}

int cmd_flame(int argc, char **argv)
{
	struct flame_options opts = { .filter = FILTER_INIT,
				      .against_from_ns = INT64_MIN,
				      .against_to_ns = INT64_MAX };
	struct query_view_spec view;
	struct query *against = NULL;
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	opts.filter.parts = has_baseline(&opts) ? 3 : 1;
	opts.filter.by_start = has_baseline(&opts); /* of ranges that meet, no window is in both */
	struct filter other = baseline(&opts);
	status = choose_view(&opts, &view);
	opts.filter.least = export_flame_least(&(struct export_flame_spec){ .view = view },
					       has_baseline(&opts));
	r.against = has_baseline(&opts) ? &other : NULL;
	status = status || !has_baseline(&opts)
			 ? status
			 : reading_check(&other, "--against", "--against-from");
	status =
		status ? status
		       : reading_open_keys(&r, args.v, args.n, &opts.filter, QUERY_NO_LABELS, NULL);
	status = status || !has_baseline(&opts) ? status : open_baseline(&r, &other, &against);
	status = status ? status : find_function(&r, &view);
	status = status ? status : flame(&r, &opts, &view, against);
	query_close(against);
	reading_close(&r);
	return status;
}
