/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe export: the samples in the formats of other tools. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/output.h"
#include "export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct export_options {
	struct filter filter;
	struct opt_list by;
	const char *format, *output, *unit, *label_names, *binary;
};

static char comm[] = "comm", tgid[] = "tgid", tid[] = "tid", *comm_alone[] = { comm },
	    *script_labels[] = { comm, tgid, tid };
static char thread[] = "thread", *thread_labels[] = { comm, thread };

/* What a format has, and takes. */
enum {
	IS_BINARY = 1,
	HAS_STYLES = 2,	 /* --label-names */
	TAKES_KEYS = 4,	 /* --by chooses other labels than `keys` */
	HAS_TIMES = 8,	 /* writes the time of each sample and wait, from tracks */
	OF_PROGRAM = 16, /* --binary: is about one program, whose compiler reads it */
};

static const struct format {
	const char *name;
	int (*write)(const struct export_source *src, enum export_unit unit, FILE *f,
		     struct err *err);
	unsigned has;
	struct opt_list keys; /* the labels that are written; none: all of them */
} formats[] = {
	{ "pprof", export_pprof, IS_BINARY | HAS_STYLES, { NULL, 0 } },
	{ "otlp", export_otlp, IS_BINARY, { NULL, 0 } },
	{ "folded", export_folded, 0, { comm_alone, 1 } },
	{ "speedscope", export_speedscope, 0, { comm_alone, 1 } },
	{ "csv", export_csv, TAKES_KEYS, { NULL, 0 } },
	{ "perf-script", export_perf_script, 0, { script_labels, 3 } },
	{ "firefox", export_firefox, TAKES_KEYS, { thread_labels, 2 } },
	{ "perfetto", export_perfetto, IS_BINARY | TAKES_KEYS | HAS_TIMES, { NULL, 0 } },
	{ "go-pgo", export_pprof, IS_BINARY | OF_PROGRAM, { comm_alone, 1 } },
	{ "llvm-prof", export_llvm_prof, OF_PROGRAM, { comm_alone, 1 } },
};

#define FORMATS \
	"pprof, otlp, folded, speedscope, csv, perf-script, firefox, perfetto, go-pgo, llvm-prof"

static const struct opt options[] = {
	{ "format", 'f', OPT_STRING, "FORMAT",
	  "pprof: profile.proto, gzipped, each label a tag. otlp: OpenTelemetry profiles, a request "
	  "in protobuf (opentelemetry-proto 1.10), each label an attribute. folded: one stack a "
	  "line, for flame graph scripts. speedscope: its JSON. csv: a line for each label set and "
	  "stack, each label a column. perf-script: the text of perf script, an entry for each "
	  "sample, their times spread over the range. firefox: for profiler.firefox.com, with times "
	  "where perfetto has them, else a thread for each program and thread name, of sums. "
	  "perfetto: for ui.perfetto.dev, samples and waits with their times, of a recording with "
	  "--tracks or the last minutes of a daemon. go-pgo, llvm-prof: of "
	  "the program --binary, for go build -pgo and clang -fprofile-sample-use",
	  offsetof(struct export_options, format), 0, 0 },
	{ "unit", 'u', OPT_STRING, "UNIT",
	  "samples, or value: nanoseconds of CPU time or of a wait, else the event's own unit. "
	  "Default: samples, value for waits (off-cpu, runq); pprof has both, and shows value "
	  "first unless this says samples; otlp has samples with their period; csv and "
	  "perf-script have both; firefox has value",
	  offsetof(struct export_options, unit), 0, 0 },
	{ "by", 0, OPT_LIST, "KEY,..",
	  "firefox: the labels that have a thread for each value (default: each thread, of sums "
	  "comm,thread). perfetto: "
	  "the labels that have a track for each value (default: each thread). csv: the labels that "
	  "have a column (default: all)",
	  offsetof(struct export_options, by), 0, 0 },
	{ "label-names", 0, OPT_STRING, "STYLE",
	  "pprof: ascribe (default), or otel: labels have OpenTelemetry's names, as "
	  "k8s.pod.name for pod",
	  offsetof(struct export_options, label_names), 0, 0 },
	{ "binary", 0, OPT_STRING, "FILE",
	  "go-pgo, llvm-prof: the program that was recorded, or its debug file: its DWARF says where "
	  "functions begin",
	  offsetof(struct export_options, binary), 0, 0 },
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
		"wall -o wall.pb.gz      # and CPU time, and waits for a CPU\n  ascribe export --format "
		"llvm-prof --binary ./server --where '{tenant=\"acme\"}' -o acme.prof\n",
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

/* Where the functions of the program begin. */
static int read_program(struct export_program *ret, struct starts **ret_starts, const char *path,
			struct err *err)
{
	const char *slash = strrchr(path, '/');
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err why = { 0 };
	if (fd < 0)
		return err_sys(err, -errno, "cannot open %s", path);
	int rc = starts_read(ret_starts, fd, &why);
	close(fd);
	if (rc)
		return err_set(err, rc, "%s: %s", path, why.text);
	ret->starts = *ret_starts;
	ret->name = slash ? slash + 1 : path;
	return 0;
}

static int export(struct reading *r, const struct export_options *opts, const struct format *format)
{
	struct memory memory = { 0 };
	struct export_times times = { 0 };
	struct export_program program = { 0 };
	struct query_spec asked = reading_spec(&opts->filter, QUERY_ALL_LABELS, NULL);
	struct export_source src = { .store = r->store,
				     .query = r->query,
				     .where = opts->filter.where,
				     .idle = opts->filter.idle,
				     .otel = opts->label_names &&
					     !strcmp(opts->label_names, "otel"),
				     .asked = &asked,
				     .times = &times,
				     .program = opts->binary ? &program : NULL,
				     .bare = opts->binary,
				     .keys = (const char *const *)opts->by.v,
				     .n_keys = opts->by.n };
	struct output out = OUTPUT_INIT;
	struct starts *starts = NULL;
	struct err err = { 0 };
	int rc = opts->binary ? read_program(&program, &starts, opts->binary, &err) : 0;
	rc = rc ? rc : output_open(&out, opts->output, &err);
	if (!rc && format->write == export_pprof &&
	    query_metric_is_heap(reading_metric(&opts->filter))) {
		rc = open_memory(&memory, r, opts, format, &err);
		src.memory = memory.all;
	}
	rc = rc ? rc : format->write(&src, (enum export_unit)unit_of(opts->unit), out.f, &err);
	rc = rc ? rc : output_commit(&out, &err);
	output_close(&out);
	starts_free(starts);
	for (unsigned i = 0; i < EXPORT_MEMORY; i++)
		query_close(memory.own[i]);
	reading_step(r, "export");
	reading_explain(r);
	if (rc) {
		if (rc != -EPIPE) /* main() ends quietly */
			cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	if (format->has & HAS_TIMES || times.samples)
		say_times(&times, query_info(r->query));
	if (program.without)
		cmd_warn("export: %" PRIu64 " of %" PRIu64
			 " samples in %s have no line, and are not written: "
			 "lines were not looked up in time",
			 program.without, program.samples, program.name);
	return EXIT_OK;
}

/* Open what is exported. Of formats with times it only says how many samples there are. */
static int open_answer(struct reading *r, const struct opt_args *args,
		       const struct export_options *opts, const struct format *format)
{
	const struct opt_list *keys = opts->by.n ? &opts->by : &format->keys;
	struct filter f = opts->filter;
	if (!(format->has & HAS_TIMES))
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
	if (opts.label_names && !(format->has & HAS_STYLES)) {
		cmd_error("export: --label-names is for --format pprof, not %s", format->name);
		return EXIT_USAGE;
	}
	if (!opts.binary != !(format->has & OF_PROGRAM)) {
		cmd_error(opts.binary
				  ? "export: --binary is for --format go-pgo and llvm-prof, not %s"
				  : "export: --format %s needs --binary, the program it is for",
			  format->name);
		return EXIT_USAGE;
	}
	if (opts.filter.metric && unit_of(opts.unit) == EXPORT_SAMPLES) {
		cmd_error("export: --metric sums amounts: --unit samples is for events");
		return EXIT_USAGE;
	}
	if (format->has & IS_BINARY && !opts.output && isatty(STDOUT_FILENO)) {
		cmd_error("export: %s is binary: name a file with -o, or redirect stdout",
			  format->name);
		return EXIT_USAGE;
	}
	if (opts.by.n && !(format->has & TAKES_KEYS)) {
		cmd_error("export: --by is for --format firefox, perfetto and csv, not %s",
			  format->name);
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	status = open_answer(&r, &args, &opts, format);
	if (!status)
		status = export(&r, &opts, format);
	if (!status && opts.filter.metric && !(format->has & HAS_TIMES))
		cmd_say("the numbers are %s of %s", reading_event(&r)->unit,
			reading_event(&r)->name);
	if (!status)
		accounting_footer(r.store, query_info(r.query));
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
