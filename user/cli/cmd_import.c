/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe import: profiles of other tools into a store. */
#include "cli/cmd.h"
#include "collect/collector.h"
#include "import/folded.h"
#include "import/otlp.h"
#include "import/perf_script.h"
#include "import/pprof.h"
#include "import/write.h"
#include "opt/text.h"
#include "proc/proc.h"
#include "store/file/tree.h"
#include "store/writer.h"
#include "util/gunzip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ll
#define DAY_NS (86400 * NS)
#define WINDOW_NS (10 * NS)
#define BATCH 4096	 /* samples of perf script in memory */
#define CHUNK (1u << 20) /* bytes of folded stacks */

struct import_options {
	const char *output;
	struct opt_list labels;
	int64_t from_ns;
	uint64_t rate;
};

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, "STORE", "the store: new, or one to add to",
	  offsetof(struct import_options, output), 0, 0 },
	{ "label", 'l', OPT_LIST, "KEY=VALUE,..", "labels of all samples",
	  offsetof(struct import_options, labels), 0, 0 },
	{ "from", 0, OPT_TIME, "T",
	  "when the first sample was taken. Default: as the profile says; where it does not say "
	  "it, when FILE was last changed",
	  offsetof(struct import_options, from_ns), 0, 0 },
	{ "rate", 'r', OPT_UINT, "HZ", "folded: samples a second (default: 100)",
	  offsetof(struct import_options, rate), 1, 1000000 },
};

enum { PPROF, OTLP, FOLDED, PERF_SCRIPT, N_FORMATS };
static const struct opt_note formats[N_FORMATS + 1] = {
	[PPROF] = { "pprof", "profile.proto, gzipped or not; its tags become labels" },
	[OTLP] = { "otlp",
		   "an ExportProfilesServiceRequest of OpenTelemetry (opentelemetry-proto 1.10 or "
		   "later), gzipped or not; attributes become labels" },
	[FOLDED] = { "folded", "lines of \"root;leaf count\"" },
	[PERF_SCRIPT] = { "perf-script",
			  "what `perf script` prints; comm, tgid and tid become labels. perf script itself "
			  "reads perf.data" },
};

static const struct opt_command command = {
	.name = "import",
	.usage = "pprof|otlp|folded|perf-script FILE -o STORE [OPTIONS]",
	.about = "Add a profile of another tool to a store, where all commands can read it. FILE - "
		 "is the standard input.",
	.examples = "  perf script -i perf.data | ascribe import perf-script - -o ./perf.ascribe\n"
		    "  ascribe import pprof cpu.pb.gz -o ./cpu.ascribe -l service=shop && ascribe "
		    "report ./cpu.ascribe\n",
	.notes_title = "Formats",
	.notes = formats,
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 2,
};

struct import {
	const struct import_options *opts;
	int format;
	const char *name;
	FILE *f;
	int64_t default_from_ns;
	struct profile_labels labels;
	struct store_writer *w;	   /* NULL until there is something to store */
	uint64_t samples, skipped; /* records of the file; lines */
	int64_t from_ns, to_ns;	   /* of all */
	bool made_store, made_dir; /* by this run */
};

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

/* Write the open window. */
static int commit(struct import *i, int64_t from_ns, int64_t to_ns, struct err *err)
{
	if (!i->w)
		return 0;
	const struct store_totals none = { 0 };
	i->from_ns = !i->from_ns || from_ns < i->from_ns ? from_ns : i->from_ns;
	i->to_ns = to_ns > i->to_ns ? to_ns : i->to_ns;
	return store_commit_window(i->w, from_ns, to_ns, (int64_t)proc_now_ns(), &none, err);
}

static int open_store(struct import *i, struct err *err)
{
	struct store_options keep;
	char what[300];
	store_options_default(&keep);
	keep.windows_only = true;
	snprintf(what, sizeof(what), "imported from %s: %.200s", formats[i->format].term, i->name);
	/* Whether this run makes the store, and the directory. */
	char header[PATH_MAX];
	i->made_dir = access(i->opts->output, F_OK) != 0;
	i->made_store = snprintf(header, sizeof(header), "%s/HEADER", i->opts->output) <
				(int)sizeof(header) &&
			access(header, F_OK) != 0;
	return collector_open_store(&i->w, i->opts->output, what, &keep, err);
}

/* Remove a store that this run made: an import that failed leaves nothing of its own. */
static void remove_made(const struct import *i)
{
	int rc = !i->made_store ? 0
		 : i->made_dir	? tree_remove(i->opts->output)
				: tree_empty(i->opts->output);
	if (rc)
		cmd_warn("import: %s: cannot remove what was written: %s", i->opts->output,
			 strerror(-rc));
}

/* Add a profile to the open window. */
static int add(struct import *i, const struct profile *p, struct err *err)
{
	if (!p->n_samples)
		return 0;
	int rc = i->w ? 0 : open_store(i, err);
	if (rc)
		return rc;
	rc = profile_write(i->w, p, NULL);
	i->samples += p->n_samples;
	return rc ? err_set(err, rc, "%s: it cannot be stored: %s", i->opts->output, strerror(-rc))
		  : 0;
}

/* ---- formats ---- */

/* Read until b has max bytes, or the file ends. */
static int read_chunk(struct import *i, struct buf *b, size_t max, struct err *err)
{
	while (b->len < max && !feof(i->f) && !ferror(i->f)) {
		if (buf_reserve(b, CHUNK))
			return err_set(err, -ENOMEM, "out of memory");
		size_t want = max - b->len < CHUNK ? max - b->len : CHUNK;
		b->len += fread(b->data + b->len, 1, want, i->f);
	}
	return ferror(i->f) ? err_set(err, -EIO, "it cannot be read") : 0;
}

/* The time that a profile says, unless it cannot be right. */
static int64_t time_of(const struct import *i, int64_t from_ns)
{
	if (from_ns >= DAY_NS && from_ns <= now_ns() + DAY_NS)
		return from_ns;
	if (from_ns)
		cmd_warn("import: %s: the profile's time cannot be right; using the time of the "
			 "file",
			 i->name);
	return i->default_from_ns;
}

static int import_pprof(struct import *i, struct err *err)
{
	struct profile p = { .limits = &profile_file };
	struct buf b = BUF_INIT;
	int rc = read_chunk(i, &b, profile_file.bytes + 1, err);
	rc = rc ? rc : profile_add_pprof(&p, b.data, b.len, &i->labels, err);
	buf_fini(&b);
	int64_t length = p.to_ns > p.from_ns ? p.to_ns - p.from_ns : NS;
	int64_t from = rc || i->opts->from_ns ? i->opts->from_ns : time_of(i, p.from_ns);
	rc = rc ? rc : add(i, &p, err);
	profile_fini(&p);
	return rc ? rc : commit(i, from, from + length, err);
}

/* Add what the request has of one range of time, as a window. */
static int import_range(struct import *i, struct otlp_reader *r, int64_t *io_first, struct err *err)
{
	struct profile p = { .limits = &profile_file };
	int more = otlp_next(r, &i->labels, &p, err), rc = more < 0 ? more : 0;
	if (more > 0) {
		int64_t length = p.to_ns > p.from_ns ? p.to_ns - p.from_ns : NS;
		*io_first = *io_first ? *io_first : p.from_ns;
		int64_t from = i->opts->from_ns ? i->opts->from_ns + p.from_ns - *io_first
						: time_of(i, p.from_ns);
		rc = add(i, &p, err);
		rc = rc ? rc : commit(i, from, from + length, err);
	}
	profile_fini(&p);
	return rc ? rc : more;
}

static int import_otlp(struct import *i, struct err *err)
{
	struct buf b = BUF_INIT, plain = BUF_INIT;
	struct otlp_reader *r = NULL;
	int64_t first = 0;
	int rc = read_chunk(i, &b, profile_file.bytes + 1, err);
	if (!rc && b.len >= 2 && b.data[0] == 0x1f && b.data[1] == 0x8b)
		rc = gunzip(b.data, b.len, profile_file.bytes, &plain, err);
	const struct buf *request = plain.len ? &plain : &b;
	rc = rc ? rc : otlp_open(&r, request->data, request->len, &profile_file, err);
	rc = rc ? rc : 1;
	while (rc > 0)
		rc = import_range(i, r, &first, err);
	const struct otlp_result *result = r ? otlp_result(r) : NULL;
	if (!rc && result->rejected && !result->taken)
		rc = err_set(err, -EINVAL, "%s", result->why);
	else if (!rc && result->rejected)
		cmd_warn("import: %s: %" PRIu64 " of %" PRIu64 " profiles are left out: %s",
			 i->name, result->rejected, result->rejected + result->taken, result->why);
	otlp_close(r);
	buf_fini(&b);
	buf_fini(&plain);
	return rc;
}

/* Return the length of the whole lines in b. The end of the file ends a line, too. */
static size_t whole_lines(const struct import *i, const struct buf *b)
{
	if (feof(i->f))
		return b->len;
	const uint8_t *end = memrchr(b->data, '\n', b->len);
	return end ? (size_t)(end - b->data) + 1 : 0;
}

static int import_folded(struct import *i, struct err *err)
{
	int64_t from = i->opts->from_ns ? i->opts->from_ns : i->default_from_ns;
	const struct folded_form form = { i->opts->rate ? i->opts->rate : 100, true };
	uint64_t value_ns = 0;
	struct buf b = BUF_INIT;
	size_t line = 0;
	int rc = 0;
	do {
		struct profile p = { .limits = &profile_file };
		rc = read_chunk(i, &b, CHUNK, err);
		size_t n = rc ? 0 : whole_lines(i, &b);
		if (!rc && !n && b.len)
			rc = err_set(err, -EMSGSIZE, "line %zu is longer than %u bytes", line + 1,
				     CHUNK);
		rc = rc ? rc : profile_add_folded(&p, b.data, n, &form, &line, &i->labels, err);
		for (size_t k = 0; !rc && k < p.n_samples; k++)
			value_ns += p.samples[k].value[0];
		rc = rc ? rc : add(i, &p, err);
		profile_fini(&p);
		if (!rc && b.len)
			memmove(b.data, b.data + n, b.len - n);
		b.len -= rc ? 0 : n;
	} while (!rc && (b.len || !feof(i->f)));
	buf_fini(&b);
	int64_t length = value_ns < DAY_NS ? (int64_t)value_ns + 1 : DAY_NS; /* as if of one CPU */
	return rc ? rc : commit(i, from, from + length, err);
}

/* Batches of less than WINDOW_NS share a window, [from, to) of perf's clock. */
static int import_perf_script(struct import *i, struct err *err)
{
	struct perf_script s = { 0 };
	int64_t begin = i->opts->from_ns ? i->opts->from_ns : i->default_from_ns, from = 0, to = 0;
	int rc = 0, more = 1;
	while (!rc && more) {
		struct profile p = { .limits = &profile_file };
		more = perf_script_read(&s, i->f, WINDOW_NS, BATCH, &i->labels, &p, err);
		rc = more < 0 ? more : 0;
		if (!to)
			from = p.from_ns;
		if (!rc && p.n_samples && p.from_ns - from >= WINDOW_NS) {
			rc = commit(i, begin + from - s.first_ns, begin + to - s.first_ns, err);
			from = p.from_ns;
		}
		to = p.to_ns > to ? p.to_ns : to;
		rc = rc ? rc : add(i, &p, err);
		profile_fini(&p);
	}
	rc = rc || !to ? rc : commit(i, begin + from - s.first_ns, begin + to - s.first_ns, err);
	i->skipped = s.skipped;
	perf_script_fini(&s);
	return rc;
}

/* ---- the command ---- */

static int (*const importers[N_FORMATS])(struct import *i, struct err *err) = {
	[PPROF] = import_pprof,
	[OTLP] = import_otlp,
	[FOLDED] = import_folded,
	[PERF_SCRIPT] = import_perf_script,
};

/* Does a regular file begin as perf.data does, of either byte order, or of its version 1? */
static bool is_perf_data(FILE *f)
{
	char magic[8];
	ssize_t n = pread(fileno(f), magic, sizeof(magic), 0); /* -1 of a pipe */
	return n == sizeof(magic) && (!memcmp(magic, "PERFILE2", sizeof(magic)) ||
				      !memcmp(magic, "2ELIFREP", sizeof(magic)) ||
				      !memcmp(magic, "PERFFILE", sizeof(magic)));
}

/* `ascribe import perf.data`: say how. */
static bool explain_perf_data(const char *name)
{
	FILE *f = fopen(name, "re");
	bool is = f && is_perf_data(f);
	if (is)
		cmd_error("import: %s is a recording of perf: run perf script -i %s | ascribe "
			  "import perf-script - -o STORE",
			  name, name);
	if (f)
		fclose(f);
	return is;
}

/* N_FORMATS: there is none of that name, which is told. */
static int find_format(const char *name)
{
	for (int i = 0; name && i < N_FORMATS; i++)
		if (!strcmp(formats[i].term, name))
			return i;
	if (name && explain_perf_data(name))
		return N_FORMATS;
	cmd_error("import: %s%s%s; there are %s, %s, %s and %s",
		  name ? "no format '" : "which format", name ? name : "", name ? "'" : "?",
		  formats[PPROF].term, formats[OTLP].term, formats[FOLDED].term,
		  formats[PERF_SCRIPT].term);
	return N_FORMATS;
}

/* The values are cut out of the options' own text. */
static int take_labels(struct import *i, struct err *err)
{
	int rc = 0;
	for (size_t k = 0; !rc && k < i->opts->labels.n; k++) {
		char *key = i->opts->labels.v[k], *value = strchr(key, '=');
		if (!value)
			return err_set(err, -EINVAL, "--label %s: KEY=VALUE", key);
		*value++ = 0;
		rc = profile_labels_add(&i->labels, key, value, err);
	}
	return rc;
}

static int open_input(struct import *i, struct err *err)
{
	struct stat st;
	i->f = !strcmp(i->name, "-") ? stdin : fopen(i->name, "re");
	if (!i->f || fstat(fileno(i->f), &st))
		return err_set(err, -errno, "%s: %s", i->name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "%s: it is a directory", i->name);
	if (is_perf_data(i->f))
		return err_set(err, -EINVAL,
			       "%s: it is a recording of perf, not %s: run perf script -i %s | "
			       "ascribe import perf-script - -o %s",
			       i->name, formats[i->format].term, i->name, i->opts->output);
	i->default_from_ns =
		S_ISREG(st.st_mode) ? st.st_mtim.tv_sec * NS + st.st_mtim.tv_nsec : now_ns();
	return 0;
}

static int import(struct import *i, struct err *err)
{
	int rc = open_input(i, err);
	if (rc)
		return rc;
	rc = importers[i->format](i, err);
	if (rc) {
		char text[sizeof(err->text)];
		memcpy(text, err->text, sizeof(text));
		return err_set(err, rc, "%s: %s", i->name, text);
	}
	if (!i->samples)
		return err_set(err, -ENODATA, "%s: it has no samples in the format %s", i->name,
			       formats[i->format].term);
	return 0;
}

static void print_sum(const struct import *i)
{
	char range[120];
	text_range(i->from_ns, i->to_ns, range);
	printf("%s: %" PRIu64 " records of %s, %s; see ascribe report %s\n", i->opts->output,
	       i->samples, i->name, range, i->opts->output);
	if (i->skipped)
		cmd_warn("import: %s: %" PRIu64 " lines are not of the format, and were skipped",
			 i->name, i->skipped);
}

int cmd_import(int argc, char **argv)
{
	struct import_options opts = { 0 };
	struct err err = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	int format = find_format(args.n ? args.v[0] : NULL);
	if (format == N_FORMATS)
		return EXIT_USAGE;
	if (args.n < 2 || !opts.output) {
		cmd_error("import: %s (see ascribe import --help)",
			  args.n < 2 ? "which file?" : "where to? -o STORE");
		return EXIT_USAGE;
	}
	struct import i = { .opts = &opts, .format = format, .name = args.v[1] };
	int rc = take_labels(&i, &err);
	status = rc ? EXIT_USAGE : EXIT_OK;
	if (!rc && (rc = import(&i, &err)))
		status = EXIT_FAILED;
	if (rc)
		cmd_error("import: %s", err.text);
	else
		print_sum(&i);
	if (i.f && i.f != stdin)
		fclose(i.f);
	store_writer_close(i.w);
	if (rc && i.w)
		remove_made(&i);
	opt_release(&command, &opts);
	return status;
}
