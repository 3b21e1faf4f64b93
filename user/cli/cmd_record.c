/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe record: sample until the time, the command, the processes or the user say stop; write a
 * store.
 */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/record_options.h"
#include "collect/collector.h"
#include "collect/rights.h"
#include "daemon/shares.h"
#include "labels/recipe.h"
#include "opt/debuginfod.h"
#include "opt/label_rules.h"
#include "opt/signals.h"
#include "opt/target.h"
#include "opt/term.h"
#include "proc/proc.h"
#include "record/child.h"
#include "record/local.h"
#include "record/progress.h"
#include "record/remarks.h"
#include "record/remote.h"
#include "record/rotate.h"
#include "store/writer.h"
#include "util/own.h"
#include "util/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WINDOW_S 10
#define NS 1000000000ll
#define PROGRESS_TTY_NS 1000000000ull
#define PROGRESS_LOG_NS 5000000000ull

/* Everything that lives while recording. */
struct recording {
	struct record_options *o;
	struct sampler_config cfg;
	struct collector_detail detail;
	struct target target;
	struct child child;
	struct store_writer *writer;
	struct collector *collector;
	struct recipes recipes;
	struct label_filter *filter;
	struct redactor redactor;
	struct downloads *downloads;
	int signals;
	uint64_t start_ns;
	bool moved; /* an earlier recording was moved out of the way */
	char what[256];
};

/* ---- what to sample ---- */

static int parse_events(struct recording *r, struct err *err)
{
	const struct opt_list *l = &r->o->events;
	r->cfg.hz = (unsigned)r->o->hz;
	r->cfg.window_s = WINDOW_S;
	shares_fit(&r->cfg, &r->detail);
	const char *mib = getenv("ASCRIBE_UNWIND_MIB"); /* for tests: rows that do not fit */
	if (mib)
		r->cfg.unwind_bytes = (size_t)strtoul(mib, NULL, 10) << 20;
	const char *labels = getenv("ASCRIBE_LABELS");	 /* for tests/bench/bench_foreign.c */
	const char *sets = getenv("ASCRIBE_LABEL_SETS"); /* for tests: more sets than are kept */
	if (sets)
		r->cfg.label_sets = (size_t)strtoul(sets, NULL, 10);
	r->cfg.no_labels = labels && !strcmp(labels, "none");
	static char clock_name[] = "cpu-clock",
		    *const clock = clock_name; /* what --latency weighs, with a PMU too */
	int rc = r->o->latency && !l->n
			 ? events_parse(r->cfg.event, &r->cfg.n_events, &clock, 1, r->cfg.hz, err)
			 : events_parse(r->cfg.event, &r->cfg.n_events, l->v, l->n, r->cfg.hz, err);
	if (!rc && r->o->period)
		rc = events_set_period(r->cfg.event, r->cfg.n_events, r->o->period, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < r->cfg.n_events; i++)
		r->o->wall |= r->cfg.event[i].wait;
	r->o->wall |= r->o->latency != NULL;
	if (r->o->wall && (rc = events_add_waits(r->cfg.event, &r->cfg.n_events, MAX_EVENTS, err)))
		return rc;
	if (r->o->waker && !r->o->wall)
		return err_set(err, -EINVAL, "--waker goes with --wall");
	r->cfg.wakers = r->o->waker;
	rc = sampler_set_latency(&r->cfg, r->o->latency, err);
	if (rc)
		return rc;
	r->cfg.instants = r->o->tracks;
	r->cfg.jvm_attach = r->o->jvm_attach;
	r->cfg.cmdline = !r->filter || filter_find(r->filter, "cmdline", 7) != FILTER_DROP;
	/* May we at all? Asked before any file is touched. */
	int fd;
	if (r->cfg.event[0].wait || r->cfg.event[0].probe)
		return 0;
	rc = event_open(&r->cfg.event[0], 0, &fd, err);
	if (rc)
		return rc == -ENODEV ? 0 : rc;
	close(fd);
	return 0;
}

static int load_recipes(struct recording *r, struct err *err)
{
	int rc = r->o->no_recipes ? 0 : recipes_load_built_in(&r->recipes, err);
	if (!rc && r->o->recipes)
		rc = recipes_load(&r->recipes, r->o->recipes, err);
	r->cfg.recipes = &r->recipes;
	return rc;
}

static int choose_target(struct recording *r, bool has_command, struct err *err)
{
	struct record_options *o = r->o;
	const unsigned n = target_kinds(&o->target);
	const bool all_but = !o->target.cgroups.n && o->target.excluded.n;
	if (n > 1 || (n && o->all && !all_but))
		return err_set(err, -EINVAL, "-a, -p, -t and -G exclude each other");
	if (n && has_command)
		return err_set(err, -EINVAL, "-p, -t and -G do not go with a command; -a does");
	int rc = target_choose(&r->target, &o->target, err);
	if (!n && has_command && !o->all)
		r->target.selection = SELECTION_TGIDS;
	target_configure(&r->target, &r->cfg);
	return rc;
}

static void describe(struct recording *r, const struct opt_args *args)
{
	size_t at = (size_t)snprintf(r->what, sizeof(r->what), "%s",
				     args->n && !r->o->all ? args->v[0] : target_text(&r->target));
	bool rate = false;
	for (unsigned i = 0; i < r->cfg.n_events && at < sizeof(r->what); i++) {
		const struct event *e = &r->cfg.event[i];
		const bool clock = event_is_clock(e);
		const uint64_t period =
			e->fixed_period && !clock && !e->wait ? e->attr.sample_period : 0;
		rate |= clock || !(e->fixed_period || e->tracepoint);
		at += (size_t)snprintf(r->what + at, sizeof(r->what) - at, ", %s", e->name);
		if (period > 1 && at < sizeof(r->what))
			at += (size_t)snprintf(r->what + at, sizeof(r->what) - at,
					       " (1 in %" PRIu64 ")", period);
	}
	if (rate && at < sizeof(r->what))
		at += (size_t)snprintf(r->what + at, sizeof(r->what) - at, " at %u Hz", r->cfg.hz);
	utf8_mark_cut(r->what, sizeof(r->what), at);
}

/* ---- the store ---- */

static int open_store(struct recording *r, struct err *err)
{
	if (!r->o->append) {
		int rc = rotate_store(r->o->out, &r->moved, err);
		if (rc)
			return rc;
	}
	struct store_options keep;
	store_options_default(&keep);
	keep.windows_only = true;
	keep.tracks_ns = r->o->tracks ? INT64_MAX : 0;
	return collector_open_store(&r->writer, r->o->out, r->what, &keep, err);
}

/* ---- by a daemon ---- */

static unsigned remote_seconds(const struct record_options *o)
{
	return (unsigned)((o->duration_ns ? o->duration_ns : 10 * NS) / NS);
}

/* What a daemon does not do for others: it records all, by its own rules for labels. */
static bool is_for_us(const struct record_options *o, const struct opt_args *args)
{
	const struct label_rules *l = &o->labels;
	return args->n || target_kinds(&o->target) || o->target.excluded.n || o->events.n ||
	       o->wall || o->waker || o->latency || o->tracks || o->jvm_attach || o->debuginfod.n ||
	       o->recipes || o->no_recipes || l->keep.n || l->drop.n || l->redact.n;
}

/* Without the rights to record, use the daemon of this host where it does what is asked for. */
static void choose_daemon(struct record_options *o, const struct opt_args *args)
{
	if (o->host || local_may_record() || is_for_us(o, args) || local_daemon())
		return;
	o->host = "unix:" LOCAL_SOCKET;
	if (!o->quiet)
		cmd_say("without the rights to record: the daemon of this host records for %u s",
			remote_seconds(o));
}

static int record_remotely(const struct record_options *o, const struct opt_args *args)
{
	struct remote_recording r = {
		.host = o->host,
		.token_file = o->token_file,
		.ca_file = o->ca_file,
		.where = o->where,
		.hz = (unsigned)o->hz,
		.seconds = remote_seconds(o),
		.out = o->out,
		.append = o->append,
	};
	struct err err = { 0 };
	if (!o->host) {
		cmd_error("record: --where, --token-file and --ca-file go with --host");
		return EXIT_USAGE;
	}
	if (is_for_us(o, args)) {
		cmd_error("record: --host goes with -F, -d, --where, -o and --append alone");
		return EXIT_USAGE;
	}
	int rc = remote_record(&r, &err);
	if (rc) {
		cmd_error("record: %s", err.text);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	if (!o->quiet && r.moved)
		fprintf(stderr, "ascribe: the earlier recording is now %s.old\n", o->out);
	if (!o->quiet && strcmp(o->out, "-") != 0)
		fprintf(stderr, "ascribe: %s: %" PRIu64 " stacks and label sets of %s\n", o->out,
			r.samples, o->host);
	return EXIT_OK;
}

/* ---- the summary ---- */

static void print_summary(struct recording *r, bool tty)
{
	struct collector_progress p;
	collector_progress(r->collector, &p);
	if (tty)
		fputs("\r\033[K", stderr);
	const struct accounting counted = { p.fired, p.stored, p.lost, p.asleep };
	fprintf(stderr, "ascribe: %s: ", r->o->out);
	accounting_print(stderr, &counted);
	if (p.outside)
		fprintf(stderr, "; %" PRIu64 " outside the selection", p.outside);
	fputc('\n', stderr);
	remarks_print(&p, r->cfg.event);
	if (r->downloads)
		debuginfod_print(r->downloads);
	if (r->o->explain)
		remarks_explain(&p);
	if (p.stored && !p.failed)
		fprintf(stderr, "ascribe: next: ascribe report%s%s\n",
			strcmp(r->o->out, DEFAULT_STORE) ? " " : "",
			strcmp(r->o->out, DEFAULT_STORE) ? r->o->out : "");
}

/* ---- recording ---- */

/* Until the end has come: 0, or an error. */
static int record_until_end(struct recording *r, struct err *err)
{
	bool tty = term_columns(stderr);
	uint64_t every = tty ? PROGRESS_TTY_NS : PROGRESS_LOG_NS, end = UINT64_MAX;
	uint64_t next = r->start_ns + every;
	int fds[1 + TARGET_FDS_MAX];
	if (r->o->duration_ns)
		end = r->start_ns + (uint64_t)r->o->duration_ns;
	for (;;) {
		size_t n = 0;
		fds[n++] = r->signals;
		if (r->child.fd >= 0)
			fds[n++] = r->child.fd;
		n += target_fds(&r->target, fds + n);
		uint64_t until = next < end ? next : end;
		int rc = collector_run(r->collector, until, fds, n, err);
		if (rc == 0)
			return 0; /* a signal */
		if (rc > 0 && r->child.fd >= 0)
			return 0; /* the command has ended */
		if (rc > 0) {
			target_gone(&r->target, fds[rc]);
			if (target_all_gone(&r->target)) {
				if (!r->o->quiet)
					fprintf(stderr, "%sascribe: the selected %s ended\n",
						tty ? "\r\033[K" : "",
						r->target.selection == SELECTION_TGIDS
							? "processes have"
							: "threads have");
				return 0;
			}
			continue;
		}
		if (rc != -ETIME)
			return rc;
		if (proc_now_ns() >= end)
			return 0;
		next += every;
		if (!r->o->quiet) {
			struct collector_progress p;
			collector_progress(r->collector, &p);
			progress_print(&p, r->start_ns, tty);
		}
	}
}

static int start(struct recording *r, struct err *err)
{
	struct err warning = { 0 };
	int rc = collector_open(&r->collector, &r->cfg, r->writer, &warning, err);
	if (rc)
		return rc;
	collector_set_detail(r->collector, &r->detail);
	if (warning.code)
		cmd_warn("%s", warning.text);
	if (collector_hides_processes(r->collector))
		cmd_warn(PROC_NAMESPACE_WARNING);
	if (r->downloads)
		collector_set_downloads(r->collector, r->downloads);
	rc = redactor_init(&r->redactor);
	if (rc)
		return err_sys(err, rc, "a key for redacted labels");
	rc = collector_set_filter(r->collector, r->filter, &r->redactor);
	if (rc)
		return err_sys(err, rc, "rules for labels");
	if (r->child.tgid && r->cfg.selection == SELECTION_TGIDS) {
		rc = collector_select(r->collector, (uint32_t)r->child.tgid);
		if (rc)
			return err_sys(err, rc, "selecting the command");
	}
	rc = collector_start(r->collector, err);
	if (rc)
		return rc;
	rc = r->child.tgid ? child_go(&r->child, err) : 0;
	if (rc)
		return rc;
	r->start_ns = proc_now_ns();
	if (!r->o->quiet) {
		if (r->moved)
			fprintf(stderr, "ascribe: the earlier recording is now %s.old\n",
				r->o->out);
		struct collector_progress p;
		collector_progress(r->collector, &p);
		fprintf(stderr, "ascribe: recording %s on %u CPUs%s\n", r->what, p.n_cpus,
			r->child.tgid || r->o->duration_ns ? "" : "; Ctrl-C stops");
		if (r->o->explain)
			fprintf(stderr, "ascribe: tables of %.1f MiB, drained every %.3g s\n",
				(double)p.kernel.tables / (1 << 20), p.drain_s);
	}
	return 0;
}

/* Stop, write, say what was recorded. */
static int finish(struct recording *r, struct err *err)
{
	int rc = collector_stop(r->collector, err);
	struct collector_progress p;
	collector_progress(r->collector, &p);
	if (!r->o->quiet)
		print_summary(r, term_columns(stderr));
	if (!r->o->quiet && collector_warning(r->collector)[0])
		fprintf(stderr, "ascribe: recipe not used: %s\n", collector_warning(r->collector));
	if (!p.failed)
		return rc;
	struct err cause = rc ? *err : p.failure;
	return err_set(err, cause.code,
		       "%" PRIu64
		       " windows could not be written, their samples are lost (store_failed): %s",
		       p.failed, cause.text);
}

static void release(struct recording *r)
{
	collector_close(r->collector);
	keeper_end();
	downloads_free(r->downloads);
	filter_free(r->filter);
	store_writer_close(r->writer);
	recipes_fini(&r->recipes);
	child_fini(&r->child);
	target_fini(&r->target);
}

int cmd_record(int argc, char **argv)
{
	struct record_options o = { .hz = 99, .out = DEFAULT_STORE };
	struct recording r = { .o = &o, .signals = -1, .child = CHILD_INIT };
	struct opt_args args;
	struct err err = { 0 };
	int status = EXIT_OK;
	if (!cmd_parse(&record_command, argc, argv, &o, &args, &status))
		return status;
	choose_daemon(&o, &args);
	if (o.host || o.where || o.token_file || o.ca_file) {
		status = record_remotely(&o, &args);
		opt_release(&record_command, &o);
		return status;
	}
	own_raise_file_limit();
	int rc = proc_namespace(&r.cfg.pid_namespace, &err); /* before a store is made */
	rc = rc ? rc : choose_target(&r, args.n > 0, &err);
	if (rc == -EINVAL)
		status = EXIT_USAGE;
	rc = rc ? rc : label_rules_filter(&o.labels, &r.filter, &err);
	r.redactor.credentials = o.labels.credentials;
	if (rc == -EINVAL || rc == -E2BIG)
		status = EXIT_USAGE;
	/* Its process is forked here, before anything is open. */
	if (!rc && o.debuginfod.n)
		rc = debuginfod_start(&r.downloads, &o.debuginfod, o.debuginfod_cache, &err);
	if (rc == -EINVAL)
		status = EXIT_USAGE;
	rc = rc ? rc : parse_events(&r, &err);
	rc = rc ? rc : load_recipes(&r, &err);
	if (rc == -EINVAL)
		status = EXIT_USAGE;
	if (rc)
		goto out;
	describe(&r, &args);
	rc = collector_keep_rights(&err);
	if (rc)
		goto out;
	r.signals = signals_take_once();
	if (args.n)
		rc = child_prepare(&r.child, args.v, &err);
	/*
	 * A host is recorded because it is busy: a drain that waits for a CPU behind twenty others
	 * comes too late. The recorder needs little. Without the right it stays as it is.
	 */
	setpriority(PRIO_PROCESS, 0, -20);
	/*
	 * Nobody may read our progress any more: no reason to lose the samples. The command, forked
	 * above, keeps its own.
	 */
	signal(SIGPIPE, SIG_IGN);
	rc = rc ? rc : open_store(&r, &err);
	rc = rc ? rc : start(&r, &err);
	rc = rc ? rc : collector_drop_rights(o.out, &err);
	if (rc) {
		/* Nothing was recorded: leave things as they were. */
		store_writer_close(r.writer);
		collector_close(r.collector);
		r.writer = NULL;
		r.collector = NULL;
		if (r.moved)
			rotate_undo(o.out);
	} else {
		rc = record_until_end(&r, &err);
		struct err later = { 0 };
		int rc2 = finish(&r, rc ? &later : &err);
		rc = rc ? rc : rc2;
	}
out:
	if (rc) {
		cmd_error("record: %s", err.text[0] ? err.text : strerror(-rc));
		if (rc == -EACCES || rc == -EPERM)
			local_advise("`ascribe record -d 10s` has it record all processes");
		status = status					? status
			 : r.child.exec_failed && rc == -ENOENT ? 127
			 : r.child.exec_failed			? 126
								: EXIT_FAILED;
	} else if (args.n) {
		if (!o.quiet && child_runs(&r.child))
			fprintf(stderr,
				"ascribe: %s is written; the command still runs, waiting for it\n",
				o.out);
		status = child_status(&r.child);
	}
	release(&r);
	opt_release(&record_command, &o);
	return status;
}
