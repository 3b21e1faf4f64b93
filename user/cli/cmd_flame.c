/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe flame: the samples as one HTML page. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/output.h"
#include "export/export.h"

#include <errno.h>
#include <unistd.h>

#define DEFAULT_FILE "flame.html"

struct flame_options {
	struct filter filter;
	const char *output;
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
	{ "json", 0, OPT_FLAG, NULL, "write the page's data only, as JSON", offsetof(struct flame_options, filter.json),
	  0, 0 },
	EXPLAIN_OPTION(struct flame_options, filter),
};

static const struct opt_command command = {
	.name = "flame",
	.usage = "[STORE] [OPTIONS]",
	.about = "Write a flame graph as one self-contained HTML page: zoom, search, hover; no network needed.\n",
	.examples = "  ascribe flame -o flame.html\n"
		    "  ascribe flame --where '{tenant=\"a\",endpoint=\"/search\"}' -o a.html\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 1,
};

static int flame(struct reading *r, const struct flame_options *opts)
{
	struct export_source src = { r->store, r->query, opts->filter.where, opts->filter.idle };
	struct export_flame_spec spec = { .max_nodes = opts->filter.limit == UINT64_MAX ? 0 : opts->filter.limit };
	const char *path = opts->output;
	struct output out = OUTPUT_INIT;
	struct err err = { 0 };
	if (!path && !opts->filter.json && isatty(STDOUT_FILENO))
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
	return EXIT_OK;
}

int cmd_flame(int argc, char **argv)
{
	struct flame_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = reading_open_keys(&r, args.n ? args.v[0] : NULL, &opts.filter, QUERY_NO_LABELS, NULL);
	if (!status)
		status = flame(&r, &opts);
	reading_close(&r);
	return status;
}
