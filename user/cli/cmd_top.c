/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe top: who and which code uses the CPU now. One thread records into a store in memory
 * (collect/live), this one asks that store as any command would, and shows it; or it shows the
 * store that a daemon writes.
 */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/groups.h"
#include "cli/known.h"
#include "collect/live.h"
#include "daemon/settings.h"
#include "daemon/shares.h"
#include "export/answer.h"
#include "labels/recipe.h"
#include "opt/old_store.h"
#include "opt/signals.h"
#include "opt/target.h"
#include "opt/term.h"
#include "opt/text.h"
#include "proc/proc.h"
#include "record/local.h"
#include "top/numbers.h"
#include "top/ui.h"
#include "util/own.h"

#include <curses.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND 1000000000ll
/* what is in memory: twice the longest time that can be shown */
#define LIVE_KEPT_NS (600 * SECOND)
#define STORE_SPAN_MAX_NS (86400 * SECOND)
#define ONCE_SECONDS 5
#define DEFAULT_ROWS 30

struct top_options {
	struct filter filter; /* where, event, idle, names, json, limit */
	const char *by, *latency;
	struct opt_list stores;
	struct target_options target;
	uint64_t hz, seconds;
	int64_t delay_ns, span_ns;
	bool once;
};

static const struct opt options[] = {
	{ "by", 'b', OPT_STRING, "KEY", "by this label key, or by \"function\" (default: comm)",
	  offsetof(struct top_options, by), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR",
	  "only samples with these labels: {tenant=\"a\",query_id=~\"4.*\",comm!=\"sh\"}",
	  offsetof(struct top_options, filter.where), 0, 0 },
	{ "span", 0, OPT_DURATION, "TIME", "show so much of the past (default 10s)",
	  offsetof(struct top_options, span_ns), 0, 0 },
	{ "delay", 'd', OPT_DURATION, "TIME",
	  "look again after this time, whole seconds (default 2s)",
	  offsetof(struct top_options, delay_ns), 0, 0 },
	{ "frequency", 'F', OPT_UINT, "HZ", "samples per second and CPU (default 99)",
	  offsetof(struct top_options, hz), 1, 50000 },
	{ "event", 'e', OPT_STRING, "EVENT",
	  "what to sample (default: cycles where there is a PMU, else cpu-clock)",
	  offsetof(struct top_options, filter.event), 0, 0 },
	METRIC_OPTION(struct top_options, filter),
	{ "latency", 0, OPT_STRING, "KEY",
	  "record the wall-clock time of the values of this label, and show it: --metric latency",
	  offsetof(struct top_options, latency), 0, 0 },
	{ "pid", 'p', OPT_LIST, "PID,..", "only these processes and their children to come",
	  offsetof(struct top_options, target.tgids), 0, 0 },
	{ "tid", 't', OPT_LIST, "TID,..", "only these threads",
	  offsetof(struct top_options, target.tids), 0, 0 },
	{ "cgroup", 'G', OPT_LIST, "CGROUP,..", "only what runs in these v2 cgroups or below them",
	  offsetof(struct top_options, target.cgroups), 0, 0 },
	{ "exclude-cgroup", 0, OPT_LIST, "CGROUP,..", "all but what runs in these",
	  offsetof(struct top_options, target.excluded), 0, 0 },
	{ "idle", 'i', OPT_FLAG, NULL, "include the samples of idle CPUs, and idle waits",
	  offsetof(struct top_options, filter.idle), 0, 0 },
	NAMES_OPTIONS(struct top_options, filter),
	{ "store", 's', OPT_LIST, "STORE,..",
	  "record nothing: show what is written there, by a daemon or by record; several stores "
	  "are shown as one, with the label host",
	  offsetof(struct top_options, stores), 0, 0 },
	{ "once", 0, OPT_FLAG, NULL, "no screen: record for some seconds, print the table and end",
	  offsetof(struct top_options, once), 0, 0 },
	{ "seconds", 'S', OPT_UINT, "N", "with --once: so long (default 5)",
	  offsetof(struct top_options, seconds), 1, 3600 },
	LIMIT_OPTION(struct top_options, filter,
		     "with --once: rows to print, 0 for all (default: 30; with --json all)"),
	JSON_OPTION(struct top_options, filter),
};

static const struct opt_command command = {
	.name = "top",
	.usage = "[OPTIONS]",
	.about =
		"Show who and which code uses the CPU, while it does, by process or by any label. "
		"From a label's value a key leads to its functions and their callers. Press ? for "
		"the keys. As root; --store needs only the right to read the store, and members of a "
		"daemon's group see what it records. Nothing is written to disk.",
	.examples =
		"  ascribe top                          # processes\n  ascribe top --by function            "
		"# functions\n  ascribe top --by tenant              # who\n  ascribe top -p 1234 "
		"-F 999           # one process, closely\n  ascribe top --store /var/lib/ascribe "
		"--span 1m --by comm    # what a daemon records\n  ascribe top --once --seconds "
		"10 --by tenant --json          # for a program\n  ascribe top --metric off --by "
		"wait_in      # where threads are blocked\n  ascribe top --latency query_id --by "
		"query_id # wall-clock time of queries\n",
	.notes_title = "Keys",
	.notes = top_help,
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 0,
};

/* Everything that lives meanwhile. */
struct top {
	struct top_options *o;
	struct sampler_config cfg;
	struct target target;
	struct recipes recipes;
	struct live *live; /* NULL: stores of others */
	const char *dirs[STORE_UNION_MAX];
	size_t n_dirs;
	char what[600];
	int signals;
	struct top_ui ui;
};

/* ---- what is recorded ---- */

static int choose_target(struct top *t, struct err *err)
{
	const struct top_options *o = t->o;
	const unsigned n = target_kinds(&o->target);
	if (n > 1)
		return err_set(err, -EINVAL, "-p, -t and -G exclude each other");
	if (n && o->stores.n)
		return err_set(
			err, -EINVAL,
			"-p, -t and -G choose what to record; --store records nothing (--where chooses there)");
	int rc = target_choose(&t->target, &o->target, err);
	target_configure(&t->target, &t->cfg);
	return rc;
}

/* Choose what has to be recorded to show the metric. */
static int choose_events(struct top *t, struct err *err)
{
	const struct top_options *o = t->o;
	const enum query_metric metric = t->ui.view.metric;
	struct sampler_config *cfg = &t->cfg;
	const char *name = o->filter.event		  ? o->filter.event
			   : query_metric_is_heap(metric) ? "heap"
			   : o->latency			  ? "cpu-clock"
							  : event_default();
	int rc = event_parse(&cfg->event[0], name, cfg->hz, err);
	if (!rc && cfg->event[0].wait)
		rc = err_set(err, -EINVAL, "%s is a wait: use --metric off, runq or wall", name);
	if (!rc && metric == QUERY_VALUE && !cfg->event[0].values)
		rc = err_set(err, -EINVAL,
			     "the hits of %s have no value: use -e uretprobe:..., or a probe with "
			     ":argN=bytes, ns or count",
			     name);
	cfg->n_events = 1;
	cfg->wakers = metric == QUERY_WAKER;
	if (!rc && (o->latency || query_metric_is_of_waits(metric)))
		rc = events_add_waits(cfg->event, &cfg->n_events, MAX_EVENTS, err);
	return rc ? rc : sampler_set_latency(cfg, o->latency, err);
}

static int open_live(struct top *t, struct err *err)
{
	struct collector_detail detail;
	struct err warning = { 0 };
	shares_fit(&t->cfg, &detail);
	t->cfg.hz = (unsigned)t->o->hz;
	t->cfg.window_s = (unsigned)(t->o->delay_ns / SECOND);
	int fd, rc = choose_events(t, err);
	rc = rc ? rc : recipes_load_built_in(&t->recipes, err);
	if (rc)
		return rc;
	t->cfg.recipes = &t->recipes;
	if (!t->cfg.event[0].probe) {
		rc = event_open(&t->cfg.event[0], 0, &fd, err); /* may we at all? */
		if (rc && rc != -ENODEV)
			return rc;
		if (!rc)
			close(fd);
	}
	own_raise_file_limit();
	snprintf(t->what, sizeof(t->what), "top, %s at %u Hz", t->cfg.event[0].name, t->cfg.hz);
	rc = live_open(&t->live, &t->cfg, &detail, t->what, LIVE_KEPT_NS, &warning, err);
	if (!rc && warning.code && t->o->once)
		cmd_warn("%s", warning.text);
	return rc ? rc : live_start(t->live, err);
}

/* ---- once ---- */

/* The rows of report's answer, and what their shares are in CPUs. */
struct rated {
	const struct top_view *v;
	struct json_rows rows;
};

static json_t *rated_row(const void *ctx, size_t i)
{
	const struct rated *of = ctx;
	const struct top_view *v = of->v;
	const struct query_table_row *r = &v->table->rows[i];
	json_t *row = of->rows.row(of->rows.ctx, i);
	double low, high;
	view_interval(v, v->level[0].kind == TOP_FUNCTION ? r->self : r->samples, &low, &high);
	int rc = json_put(row, "rate", json_real(view_rate(v, r->samples)));
	rc = rc ? rc : json_put(row, "self_rate", json_real(view_rate(v, r->self)));
	rc = rc ? rc : json_put(row, "self_rate_low", json_real(low));
	rc = rc ? rc : json_put(row, "self_rate_high", json_real(high));
	return json_done(row, rc);
}

static int print_json(const struct top_view *v, const struct filter *f, uint64_t limit)
{
	const char *keys[] = { v->level[0].key };
	const struct answer a = { .store = v->store,
				  .where = f->where,
				  .keys = keys,
				  .n_keys = v->level[0].key != NULL,
				  .metric = f->metric,
				  .limit = limit };
	const struct answer_table of = { &a, v->query, v->table };
	const struct rated rated = { v, answer_table_rows(&of) };
	const struct json_rows rows = { rated.rows.n, rated_row, &rated };
	json_t *answer = answer_table(&of);
	int rc = json_put(answer, "cpus", json_count(v->head.n_cpus));
	rc = rc ? rc : json_put(answer, "covered", json_real(v->head.seconds));
	rc = rc ? rc : json_put(answer, "rate", json_real(v->head.busy));
	return cmd_print_json_rows(json_done(answer, rc), &rows);
}

static int print_table(const struct top_view *v, uint64_t limit)
{
	const struct top_level *l = &v->level[0];
	const struct top_head *h = &v->head;
	char text[NUMBER_MAX];
	text_put(stdout, h->event, 0);
	printf(", %.1f s: %s", h->seconds, numbers_all(h, text));
	printf("; own %.2f%% CPU, %.0f MiB\n\n", 100 * h->own_cpu, (double)h->own_rss / 1048576);
	printf("%8s %19s %8s %9s  ", numbers_rate_head(h), "95% INTERVAL",
	       l->key ? "SHARE" : numbers_total_head(h), numbers_samples_head(h));
	text_put(stdout, l->key ? l->key : "FUNCTION", 0);
	putchar('\n');
	for (size_t i = 0; i < v->n_rows && i < limit; i++) {
		const struct top_row *r = &v->rows[i];
		uint64_t n = view_row_samples(v, r);
		double low, high;
		view_interval(v, n, &low, &high);
		printf("%8s ", numbers_rate(h, view_rate(v, n), text));
		printf("%19s ", numbers_interval(h, low, high, text));
		if (l->key)
			printf("%7.1f%% ", h->samples ? 100.0 * (double)n / (double)h->samples : 0);
		else
			printf("%8s ", numbers_rate(h, view_rate(v, r->samples), text));
		printf("%9s  ", numbers_samples(h, n, text));
		if (!l->key && function_print(r->text, r->module, r->inlined, term_room(48)))
			return -ENOMEM;
		if (l->key)
			text_put(stdout, r->missing ? "(none)" : *r->text ? r->text : "\"\"", 0);
		if (l->key)
			putchar('\n');
	}
	if (v->n_rows > limit)
		printf("\nnot shown: %zu; -n 0 prints all\n", v->n_rows - (size_t)limit);
	accounting_footer(v->store, query_info(v->query));
	return 0;
}

/*
 * Until the time is over, or somebody asks to end: what was sampled until then is printed either
 * way.
 */
static int wait_once(struct top *t, struct err *err)
{
	uint64_t end = proc_now_ns() + t->o->seconds * (uint64_t)SECOND, now;
	struct live_state s;
	cmd_say("recording for %" PRIu64 " s", t->o->seconds);
	while ((now = proc_now_ns()) < end) {
		struct pollfd p[] = { { .fd = t->signals, .events = POLLIN },
				      { .fd = live_fd(t->live), .events = POLLIN } };
		if (poll(p, 2, (int)((end - now + 999999) / 1000000)) < 0 && errno != EINTR)
			return err_sys(err, -errno, "waiting");
		if (p[0].revents)
			break;
		live_look(t->live, &s);
		if (s.ended)
			break; /* live_stop says why */
	}
	return live_stop(t->live, err);
}

static int run_once(struct top *t, struct err *err)
{
	struct top_view *v = &t->ui.view;
	const struct filter *f = &t->o->filter;
	uint64_t limit = f->limit == UINT64_MAX && !f->json ? DEFAULT_ROWS
			 : f->limit			    ? f->limit
							    : UINT64_MAX;
	int rc = t->live ? wait_once(t, err) : 0;
	if (t->live)
		v->span_ns = INT64_MAX / 2; /* all of it */
	rc = rc ? rc : view_load(v, err);
	if (rc == -ENODATA)
		return err_set(err, rc, "there are no samples");
	rc = rc ? rc : known_keys(v->store, f->where, &t->o->by, t->o->by != NULL, err);
	if (rc)
		return rc;
	return f->json ? print_json(v, f, limit) : print_table(v, limit);
}

/* ---- the screen ---- */

/* What is new since the last look. Without a recorder of ours the store is looked at every time. */
static int look(struct top *t, struct err *err)
{
	struct top_ui *ui = &t->ui;
	struct live_state s;
	if (t->live) {
		live_look(t->live, &s);
		ui->started_ns = s.started_ns;
		ui->processes = s.progress.alive;
		if (s.ended) {
			*err = s.err;
			return s.err.code ? s.err.code : -EIO;
		}
	}
	ui->stale |= !ui->view.frozen_ns;
	return 0;
}

static void load(struct top_ui *ui)
{
	struct err err = { 0 };
	ui->stale = false;
	int rc = view_load(&ui->view, &err);
	if (rc == -ESTALE) /* retention was quicker */
		rc = view_load(&ui->view, &err);
	if (rc && rc != -ENODATA)
		snprintf(ui->message, sizeof(ui->message), "%s", err.text);
	/* While others than those of now may come it is no error. */
	if (!rc && ui->view.head.samples &&
	    known_keys(ui->view.store, view_level(&ui->view)->where,
		       (const char *const *)&view_level(&ui->view)->key,
		       view_level(&ui->view)->key != NULL, &err))
		snprintf(ui->message, sizeof(ui->message), "%s", err.text);
	if (!rc && ui->mode == TOP_CHOOSE)
		top_list_keys(ui);
}

static int run_screen(struct top *t, struct err *err)
{
	struct top_ui *ui = &t->ui;
	int64_t delay_ms = t->o->delay_ns / 1000000;
	uint64_t next = 0;
	int rc = look(t, err);
	while (!rc && !ui->quit) {
		if (ui->stale)
			load(ui);
		top_draw(ui);
		struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				      { .fd = t->signals, .events = POLLIN },
				      { .fd = t->live ? live_fd(t->live) : -1, .events = POLLIN } };
		uint64_t now = proc_now_ns() / 1000000;
		if (next <= now)
			next = now + (uint64_t)delay_ms;
		/* SIGWINCH ends this wait too; getch() says so. */
		if (poll(p, 3, t->live ? 1000 : (int)(next - now)) < 0 && errno != EINTR)
			return err_sys(err, -errno, "waiting for keys");
		if (p[1].revents || p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			break;
		for (int key; (key = getch()) != ERR && !ui->quit;)
			if (key != KEY_RESIZE)
				top_key(ui, key);
		if (t->live ? p[2].revents : proc_now_ns() / 1000000 >= next)
			rc = look(t, err);
	}
	return rc;
}

static int run_live(struct top *t, struct err *err)
{
	int rc = screen_open(&t->ui.screen, term_colors(stdout), err);
	if (rc)
		return rc;
	rc = run_screen(t, err);
	screen_close(&t->ui.screen);
	return rc;
}

/* ---- life ---- */

static int check(struct top_options *o)
{
	if (o->delay_ns % SECOND || o->delay_ns > 60 * SECOND) {
		cmd_error("top: --delay must be whole seconds, at most 60");
		return EXIT_USAGE;
	}
	if (o->filter.json && !o->once) {
		cmd_error("top: --json goes with --once");
		return EXIT_USAGE;
	}
	int64_t most = o->stores.n ? STORE_SPAN_MAX_NS : LIVE_KEPT_NS / 2;
	if (o->span_ns > most) {
		cmd_error("top: --span: at most %s",
			  o->stores.n ? "24h"
				      : "5m, which is what is kept in memory; --store shows more");
		return EXIT_USAGE;
	}
	if (o->latency && !o->filter.metric)
		o->filter.metric = "latency";
	int status = reading_check(&o->filter, "--where", "--from");
	if (status)
		return status;
	const bool latency = reading_metric(&o->filter) == QUERY_LATENCY;
	if (o->latency && (o->stores.n || !latency)) {
		cmd_error(
			"top: --latency says what to record for --metric latency; --store records "
			"nothing");
		return EXIT_USAGE;
	}
	if (latency && !o->latency && !o->stores.n) {
		cmd_error("top: --metric latency: of which label? --latency KEY says it");
		return EXIT_USAGE;
	}
	if (!o->by)
		o->by = "comm";
	else if (!strcmp(o->by, "function"))
		o->by = NULL;
	return EXIT_OK;
}

/* Stores of others, where they are named. Who may not record sees what the daemon records. */
static int open_stores(struct top *t, struct err *err)
{
	const struct opt_list *l = &t->o->stores;
	if (!l->n && !target_kinds(&t->o->target) && !t->o->target.excluded.n &&
	    !local_may_record() && !access(DAEMON_STORE "/HEADER", R_OK)) {
		t->dirs[t->n_dirs++] = DAEMON_STORE;
		if (t->o->once)
			cmd_say("without the rights to record: showing " DAEMON_STORE);
		return 0;
	}
	if (l->n > STORE_UNION_MAX)
		return err_set(err, -EINVAL, "--store: more than %d stores", STORE_UNION_MAX);
	for (t->n_dirs = 0; t->n_dirs < l->n; t->n_dirs++)
		t->dirs[t->n_dirs] = l->v[t->n_dirs];
	return old_store_copies(t->dirs, t->n_dirs, err);
}

static int run(struct top *t, struct err *err)
{
	const struct filter *f = &t->o->filter;
	struct top_ui *ui = &t->ui;
	int rc = choose_target(t, err);
	if (rc)
		return rc;
	static const char *const styles[] = { "full", "folded", "simple" };
	for (int i = 0; f->names && i < 3; i++)
		if (!strcmp(f->names, styles[i]))
			ui->view.names = (enum query_names)i;
	ui->view.idle = f->idle;
	ui->view.metric = (enum query_metric)reading_metric(f);
	ui->view.span_ns = t->o->span_ns;
	ui->interval_s = (unsigned)(t->o->delay_ns / SECOND);
	ui->hz = (unsigned)t->o->hz;
	if (!t->o->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return err_set(err, -ENOTTY, "this is no terminal: use --once, or --once --json");
	rc = open_stores(t, err);
	if (rc)
		return rc;
	ui->live = !t->n_dirs;
	ui->span_max_ns = t->n_dirs ? STORE_SPAN_MAX_NS : LIVE_KEPT_NS / 2;
	t->signals = signals_take(0);
	rc = view_init(&ui->view, t->o->by, f->where, err);
	if (!rc && ui->live)
		rc = open_live(t, err);
	if (rc)
		return rc;
	if (t->live) {
		t->dirs[0] = live_store(t->live);
		t->n_dirs = 1;
	}
	ui->view.dirs = t->dirs;
	ui->view.n_dirs = t->n_dirs;
	ui->view.event = t->live && !ui->view.metric ? NULL : f->event;
	return t->o->once ? run_once(t, err) : run_live(t, err);
}

int cmd_top(int argc, char **argv)
{
	struct top_options o = { .filter = FILTER_INIT,
				 .hz = 99,
				 .seconds = ONCE_SECONDS,
				 .delay_ns = 2 * SECOND,
				 .span_ns = 10 * SECOND };
	struct top t = { .o = &o, .signals = -1 };
	struct opt_args args;
	struct err err = { 0 };
	int status;
	if (!cmd_parse(&command, argc, argv, &o, &args, &status))
		return status;
	status = check(&o);
	if (!status) {
		int rc = run(&t, &err);
		if (rc && rc != -EIO)
			cmd_error("top: %s", err.text[0] ? err.text : strerror(-rc));
		if (rc == -EACCES || rc == -EPERM)
			local_advise("`ascribe top` shows what it records");
		status = rc == -EINVAL ? EXIT_USAGE : rc ? EXIT_FAILED : EXIT_OK;
	}
	view_keys_fini(&t.ui.keys);
	view_fini(&t.ui.view);
	live_close(t.live);
	recipes_fini(&t.recipes);
	target_fini(&t.target);
	if (t.signals >= 0)
		close(t.signals);
	opt_release(&command, &o);
	return status;
}
