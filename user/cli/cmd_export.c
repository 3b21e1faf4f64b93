/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe export: the samples in the formats of other tools. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/output.h"
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct export_options {
	struct filter filter;
	struct opt_list by;
	const char *format, *output, *unit, *label_names;
};

static char comm[] = "comm", tgid[] = "tgid", tid[] = "tid", *comm_alone[] = { comm },
	    *script_labels[] = { comm, tgid, tid };
static char thread[] = "thread", *thread_labels[] = { comm, thread };

static const struct format {
	const char *name;
	int (*write)(const struct export_source *src, enum export_unit unit, FILE *f,
		     struct err *err);
	bool binary, has_styles;
	struct opt_list keys; /* the labels that are written; none: all of them */
	bool by;	      /* --by chooses others */
	bool times;	      /* writes the time of each sample and wait, from tracks */
} formats[] = {
	{ "pprof", export_pprof, true, true, { NULL, 0 }, false, false },
	{ "otlp", export_otlp, true, false, { NULL, 0 }, false, false },
	{ "folded", export_folded, false, false, { comm_alone, 1 }, false, false },
	{ "speedscope", export_speedscope, false, false, { comm_alone, 1 }, false, false },
	{ "csv", export_csv, false, false, { NULL, 0 }, true, false },
	{ "perf-script", export_perf_script, false, false, { script_labels, 3 }, false, false },
	{ "firefox", export_firefox, false, false, { thread_labels, 2 }, true, false },
	{ "perfetto", export_perfetto, true, false, { NULL, 0 }, true, true },
};

#define FORMATS "pprof, otlp, folded, speedscope, csv, perf-script, firefox, perfetto"

static const struct opt options[] = {
	{ "format", 'f', OPT_STRING, "FORMAT",
	  "pprof: profile.proto, gzipped, each label a tag. otlp: OpenTelemetry profiles, a request "
	  "in protobuf (opentelemetry-proto 1.10), each label an attribute. folded: one stack a "
	  "line, for flame graph scripts. speedscope: its JSON. csv: a line for each label set and "
	  "stack, each label a column. perf-script: the text of perf script, an entry for each "
	  "sample, their times spread over the range. firefox: for profiler.firefox.com, a thread for "
	  "each program and thread name. perfetto: for ui.perfetto.dev, samples and waits with their "
	  "times, of a recording with --tracks or the last minutes of a daemon",
	  offsetof(struct export_options, format), 0, 0 },
	{ "unit", 'u', OPT_STRING, "UNIT",
	  "samples, or value: nanoseconds of CPU time or of a wait, else the event's own unit. "
	  "Default: samples, value for waits (off-cpu, runq); pprof has both, and shows value "
	  "first unless this says samples; otlp has samples with their period; csv and "
	  "perf-script have both; firefox has value",
	  offsetof(struct export_options, unit), 0, 0 },
	{ "by", 0, OPT_LIST, "KEY,..",
	  "firefox: the labels that have a thread for each value (default: comm,thread). perfetto: "
	  "the labels that have a track for each value (default: each thread). csv: the labels that "
	  "have a column (default: all)",
	  offsetof(struct export_options, by), 0, 0 },
	{ "label-names", 0, OPT_STRING, "STYLE",
	  "pprof: ascribe (default), or otel: labels have OpenTelemetry's names, as "
	  "k8s.pod.name for pod",
	  offsetof(struct export_options, label_names), 0, 0 },
	{ "output", 'o', OPT_STRING, "FILE", "where to write (default: stdout)",
	  offsetof(struct export_options, output), 0, 0 },
	WHERE_OPTIONS(struct export_options, filter),
	METRIC_OPTION(struct export_options, filter),
	NAMES_OPTIONS(struct export_options, filter),
	EXPLAIN_OPTION(struct export_options, filter),
};

static const struct opt_command command = {
	.name = "export",
	.usage = "[STORE ...] --format FORMAT [OPTIONS]",
	.about = "Write the samples of a store in another tool's format: " FORMATS ".",
	.examples =
		"  ascribe export --format pprof -o cpu.pb.gz && go tool pprof -top cpu.pb.gz\n  "
		"ascribe export --format pprof --where '{tenant=\"acme\"}' -o acme.pb.gz\n  ascribe "
		"export --format otlp -o cpu.otlp      # for OpenTelemetry collectors\n  ascribe "
		"export --format folded > stacks.txt\n  ascribe export --format speedscope -o "
		"cpu.speedscope.json   # open at speedscope.app\n  ascribe export --format "
		"perfetto --from -1m -o last.perfetto    # open at ui.perfetto.dev\n  ascribe export "
		"--format folded --metric "
		"off > blocked.txt    # nanoseconds\n  ascribe export --format pprof --metric "
		"wall -o wall.pb.gz      # and CPU time, and waits for a CPU\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

static const struct format *find_format(const char *name)
{
	const char *names[sizeof(formats) / sizeof(formats[0]) + 1] = { NULL };
	if (!name) {
		cmd_error("export: --format is missing; there are: " FORMATS);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (!strcmp(formats[i].name, name))
			return &formats[i];
		names[i] = formats[i].name;
	}
	const char *near = opt_suggest(name, names);
	cmd_error("export: no format '%s'%s%s%s; there are: " FORMATS, name,
		  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return NULL;
}

static int unit_of(const char *name)
{
	static const char *const names[] = { "", "samples", "value" }; /* enum export_unit */
	for (int i = EXPORT_SAMPLES; name && i <= EXPORT_VALUE; i++)
		if (!strcmp(name, names[i]))
			return i;
	return name ? -1 : EXPORT_BY_EVENT;
}

/* The metrics of memory, by enum export_memory. All but r's own are opened. */
struct memory {
	struct query *own[EXPORT_MEMORY], *all[EXPORT_MEMORY];
};

static int open_memory(struct memory *m, struct reading *r, const struct export_options *opts,
		       const struct format *format, struct err *err)
{
	struct query_spec spec =
		reading_spec(&opts->filter, format->keys.n ? QUERY_KEYS_STACKS : QUERY_ALL_LABELS,
			     &format->keys);
	const enum query_metric own = spec.metric;
	int rc = 0;
	spec.parts = EXPORT_MEMORY;
	for (unsigned i = 0; !rc && i < EXPORT_MEMORY; i++) {
		spec.metric = QUERY_ALLOC_OBJECTS + i;
		if (spec.metric != own)
			rc = query_open(&m->own[i], r->store, &spec, err);
		m->all[i] = spec.metric == own ? r->query : m->own[i];
	}
	return rc;
}

/* Say what an export with times lacks: samples have one each where nothing was left out. */
static void say_times(const struct export_times *t, const struct query_info *info)
{
	cmd_say("%" PRIu64 " samples and %" PRIu64 " waits have times", t->samples, t->waits);
	if (t->untracked)
		cmd_warn("export: %zu of %zu windows keep no times: nothing of them is written",
			 t->untracked, t->windows);
	else if (t->samples && t->samples < info->samples)
		cmd_warn("export: %" PRIu64 " of %" PRIu64
			 " samples have no time, and are not written",
			 info->samples - t->samples, info->samples);
	if (t->crowded)
		cmd_warn("export: %" PRIu64
			 " waits are not written: too many overlapped on their track; see --by",
			 t->crowded);
}

static int export(struct reading *r, const struct export_options *opts, const struct format *format)
{
	struct memory memory = { 0 };
	struct export_times times = { 0 };
	struct query_spec asked = reading_spec(&opts->filter, QUERY_ALL_LABELS, NULL);
	struct export_source src = { .store = r->store,
				     .query = r->query,
				     .where = opts->filter.where,
				     .idle = opts->filter.idle,
				     .otel = opts->label_names &&
					     !strcmp(opts->label_names, "otel"),
				     .asked = &asked,
				     .times = &times,
				     .keys = (const char *const *)opts->by.v,
				     .n_keys = opts->by.n };
	struct output out = OUTPUT_INIT;
	struct err err = { 0 };
	int rc = output_open(&out, opts->output, &err);
	if (!rc && format->write == export_pprof &&
	    query_metric_is_heap(reading_metric(&opts->filter))) {
		rc = open_memory(&memory, r, opts, format, &err);
		src.memory = memory.all;
	}
	rc = rc ? rc : format->write(&src, (enum export_unit)unit_of(opts->unit), out.f, &err);
	rc = rc ? rc : output_commit(&out, &err);
	output_close(&out);
	for (unsigned i = 0; i < EXPORT_MEMORY; i++)
		query_close(memory.own[i]);
	reading_step(r, "export");
	reading_explain(r);
	if (rc) {
		if (rc != -EPIPE) /* main() ends quietly */
			cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	if (format->times)
		say_times(&times, query_info(r->query));
	return EXIT_OK;
}

/* Open what is exported. Of formats with times it only says how many samples there are. */
static int open_answer(struct reading *r, const struct opt_args *args,
		       const struct export_options *opts, const struct format *format)
{
	const struct opt_list *keys = opts->by.n ? &opts->by : &format->keys;
	struct filter f = opts->filter;
	if (!format->times)
		return reading_open_keys(r, args->v, args->n, &f,
					 keys->n ? QUERY_KEYS_STACKS : QUERY_ALL_LABELS, keys);
	f.metric = NULL;
	return reading_open_keys(r, args->v, args->n, &f, QUERY_KEYS, keys);
}

int cmd_export(int argc, char **argv)
{
	struct export_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	const struct format *format = find_format(opts.format);
	if (!format)
		return EXIT_USAGE;
	if (unit_of(opts.unit) < 0) {
		cmd_error("export: --unit: %s is none of samples, value", opts.unit);
		return EXIT_USAGE;
	}
	if (opts.label_names && strcmp(opts.label_names, "otel") &&
	    strcmp(opts.label_names, "ascribe")) {
		cmd_error("export: --label-names: %s is none of ascribe, otel", opts.label_names);
		return EXIT_USAGE;
	}
	if (opts.label_names && !format->has_styles) {
		cmd_error("export: --label-names is for --format pprof, not %s", format->name);
		return EXIT_USAGE;
	}
	if (opts.filter.metric && unit_of(opts.unit) == EXPORT_SAMPLES) {
		cmd_error("export: --metric sums amounts: --unit samples is for events");
		return EXIT_USAGE;
	}
	if (format->binary && !opts.output && isatty(STDOUT_FILENO)) {
		cmd_error("export: %s is binary: name a file with -o, or redirect stdout",
			  format->name);
		return EXIT_USAGE;
	}
	if (opts.by.n && !format->by) {
		cmd_error("export: --by is for --format firefox, perfetto and csv, not %s",
			  format->name);
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	status = open_answer(&r, &args, &opts, format);
	if (!status)
		status = export(&r, &opts, format);
	if (!status && opts.filter.metric && !format->times)
		cmd_say("the numbers are %s of %s", reading_event(&r)->unit,
			reading_event(&r)->name);
	if (!status)
		accounting_footer(r.store, query_info(r.query));
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
