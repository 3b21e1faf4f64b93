/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe daemon: record for years, keep the store within its quota, answer over HTTP.
 *
 * This process is the recorder. Another one serves (daemon/serving.h): it reads the store as
 * anybody would, and knows of the recorder what it is told.
 */
#include "cli/cmd.h"
#include "daemon/log.h"
#include "daemon/keeper_unit.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/rights.h"
#include "daemon/running.h"
#include "daemon/shares.h"
#include "daemon/socket_store.h"
#include "opt/files.h"
#include "opt/old_store.h"
#include "opt/signals.h"
#include "proc/proc.h"
#include "sampler/loader.h"
#include "sandbox/keeper.h"
#include "store/old/old.h"
#include "store/writer.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TICK_NS /* the tests have a build with shorter ones */
#define TICK_NS 5000000000ull
#endif
#ifndef LATE_NS
#define LATE_NS (3 * DAEMON_WINDOW_S * 1000000000ull) /* without a window: /readyz says so */
#endif
#define STALLED_NS 60000000000ull /* without a drain: the watchdog gets nothing any more */
#define END_S 9
#ifndef MINUTE_NS
#define MINUTE_NS 60000000000ull
#endif
#define RULE_TICKS (MINUTE_NS / TICK_NS) /* until rules that match nothing are in the log */
#define STAND_BY_MS 50
#define SPARE_BYTES (4u << 20)

/* ---- what is looked at now and then ---- */

static void look_at_switch(struct daemon *d)
{
	struct err err = { 0 };
	bool there = d->s.o.kill_switch && !access(d->s.o.kill_switch, F_OK);
	if (there == d->killed)
		return;
	d->killed = there;
	published_killed(&d->published, there);
	if (there) {
		daemon_end_collector(d);
		log_line(LOG_LINE_WARNING, "%s is there: nothing is sampled until it goes",
			 d->s.o.kill_switch);
	} else if (daemon_switch_collector(d, &err)) {
		log_line(LOG_LINE_ERROR, "recording again: %s", err.text);
	} else {
		log_line(LOG_LINE_INFO, "%s is gone: recording again", d->s.o.kill_switch);
	}
}

static void look_at_store(struct daemon *d)
{
	bool gone = d->writer && !store_writer_is_there(d->writer);
	if (gone && !d->gone)
		log_line(LOG_LINE_ERROR,
			 "%s was deleted or moved: what is recorded is lost until the daemon is "
			 "restarted",
			 d->s.o.store);
	d->gone = gone;
	published_store(&d->published, !gone);
}

static void look_at_use(struct daemon *d, const struct collector_progress *p)
{
	const struct saving_limits limits = daemon_saving_limits(d);
	struct saving_todo todo = saving_look(&d->saving, &limits, d->collector, p,
					      serving_memory(&d->serving), d->capture.memory);
	if (todo.caches) {
		daemon_limit_server(d);
		if (d->writer)
			store_give_back(d->writer);
		malloc_trim(0);
	}
	if (todo.rate || todo.waits || todo.tables)
		daemon_restart(d, todo.rate    ? "at another rate"
				  : todo.waits ? "with or without waits"
					       : "with larger tables");
	published_use(&d->published, &d->saving);
}

/* Log who names pods when that changes, and while nobody does another reason, once a minute. */
static void look_at_pods(struct daemon *d)
{
	const uint64_t now_ns = proc_now_ns();
	struct pods_stats st;
	if (!d->pods)
		return;
	pods_stats(d->pods, &st);
	published_pods(&d->published, &st);
	bool changed = st.ok != d->pods_ok || !*d->pods_said;
	bool other = !st.ok && strcmp(st.text, d->pods_said) && now_ns >= d->pods_next_ns;
	if (!*st.text || (!changed && !other))
		return;
	log_line(st.ok ? LOG_LINE_INFO : LOG_LINE_WARNING, "names of pods and containers: %s%s",
		 st.text, st.ok ? "" : "; new ones have ids alone until then");
	snprintf(d->pods_said, sizeof(d->pods_said), "%s", st.text);
	d->pods_ok = st.ok;
	d->pods_next_ns = now_ns + MINUTE_NS;
}

/* Tell how pushing goes, and say once when a receiver has failed for long. */
static void look_at_push(struct daemon *d)
{
	pushing_look(&d->pushing);
	published_push(&d->published, &d->pushing);
}

/* Say once which rules match nothing: they may be misspelt. */
static void look_at_rules(struct daemon *d)
{
	struct selection_rules *r = &d->s.selection;
	const struct {
		const char *option;
		struct selection_list *of;
	} lists[] = { { "select", &r->in }, { "exclude", &r->out }, { "rate", &r->rate } };
	if (++d->rule_ticks != RULE_TICKS)
		return;
	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
		for (size_t i = 0; i < lists[l].of->n; i++)
			if (!lists[l].of->v[i].matched)
				log_line(LOG_LINE_WARNING, "%s: nothing matches %s so far",
					 lists[l].option, lists[l].of->v[i].text);
}

/*
 * Threads that only read now and then need no heaps of their own. Arrays that grow have mappings of
 * their own: in a heap each growth leaves a hole, which counts against memory-max until the next
 * trim. Compacting five minutes of a busy host left 100 MiB of holes.
 */
static void limit_heaps(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_MMAP_MAX, 16384); /* of the 65,530 mappings that a process may have */
	mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

/* What drains and commits needed for a moment: the allocator would keep 8 MiB of it. */
static void give_back(void)
{
	uint64_t used = mallinfo2().uordblks, resident = own_private_bytes();
	if (resident > used + SPARE_BYTES)
		malloc_trim(0);
}

/* Once in a while: tell how it goes, and whether it goes at all. */
static void tick(struct daemon *d)
{
	struct collector_progress p = { 0 };
	uint64_t now = proc_now_ns();
	look_at_switch(d);
	look_at_store(d);
	look_at_pods(d);
	look_at_push(d);
	look_at_rules(d);
	give_back();
	if (d->collector) {
		collector_progress(d->collector, &p);
		published_progress(&d->published, &p, store_writer_state(d->writer));
		if (p.drains + d->drains_before != d->drains) {
			d->drains = p.drains + d->drains_before;
			d->drained_ns = now;
		}
		if (p.failed > d->failed)
			log_line(LOG_LINE_ERROR, "%" PRIu64 " windows could not be written: %s",
				 p.failed - d->failed, p.failure.text);
		d->failed = p.failed;
		if (*p.stale && strcmp(p.stale, d->stale) != 0)
			log_line(LOG_LINE_WARNING,
				 "%s is counted no more: its file was written to; restart the "
				 "daemon to count hits of the new one",
				 p.stale);
		memcpy(d->stale, p.stale, sizeof(d->stale));
		look_at_use(d, &p);
	}
	if (d->collector)
		daemon_look_at_rules_of_freezes(d, p.windows);
	if (d->killed || now - d->drained_ns < STALLED_NS)
		notify("WATCHDOG=1\nSTATUS=%s; %" PRIu64 " windows, %" PRIu64 " samples, %" PRIu64
		       " lost",
		       d->killed ? "switched off" : "recording", p.windows, p.stored, p.lost);
}

/* ---- life ---- */

/* True: it is time to end. */
static bool on_signal(struct daemon *d)
{
	struct signalfd_siginfo info;
	bool end = false, again = false, freeze = false;
	while (read(d->signals, &info, sizeof(info)) == sizeof(info)) {
		again |= info.ssi_signo == SIGHUP;
		freeze |= info.ssi_signo == SIGUSR2;
		end |= info.ssi_signo != SIGHUP && info.ssi_signo != SIGUSR2;
	}
	if (freeze)
		(void)daemon_freeze(d, "SIGUSR2", NULL, NULL);
	if (again && !end)
		daemon_reload(d);
	return end;
}

/*
 * Wait for signals, requests of the process that serves, samples. 0: a signal came; otherwise look
 * what it is time for.
 */
static int wait_for(struct daemon *d, uint64_t until, struct err *err)
{
	const int fds[] = { d->signals, daemon_server_fd(d) };
	struct pollfd p[] = { { .fd = fds[0], .events = POLLIN },
			      { .fd = fds[1], .events = POLLIN } };
	if (d->collector)
		return collector_run(d->collector, until, fds, 2, err);
	/* There is nothing to drain. */
	const uint64_t now = proc_now_ns(), ms = until > now ? (until - now) / 1000000 + 1 : 0;
	int n = poll(p, 2, ms < 1000 ? (int)ms : 1000);
	look_at_switch(d);
	return n > 0 && p[0].revents ? 0 : -ETIME;
}

static int record(struct daemon *d, struct err *err)
{
	const uint64_t begin = proc_now_ns(), length = (uint64_t)d->s.o.capture_ns,
		       end = length ? begin + length : UINT64_MAX;
	for (uint64_t next = begin + TICK_NS;;) {
		uint64_t until = next < end ? next : end;
		int rc = daemon_serve(d, &until, err);
		if (rc)
			return rc;
		rc = wait_for(d, until, err);
		if (rc == 0 && on_signal(d))
			return 0;
		if (rc < 0 && rc != -ETIME)
			return rc;
		if (proc_now_ns() >= end)
			return 0;
		if (proc_now_ns() < next)
			continue;
		tick(d);
		rc = daemon_look_at_keeper(d, err);
		if (rc)
			return rc;
		next = proc_now_ns() + TICK_NS;
	}
}

static void too_late(int sig)
{
	(void)sig;
	_exit(EXIT_FAILED); /* what was sampled is written by then, or cannot be */
}

static void end(struct daemon *d)
{
	notify("STOPPING=1");
	signal(SIGALRM, too_late);
	alarm(END_S);
	daemon_end_collector(d);
	store_writer_close(d->writer);
	d->writer = NULL;
	daemon_end_server(d);
	alarm(0);
	ingest_fini(&d->ingest);
}

static int load_recipes(struct daemon *d, struct err *err)
{
	int rc = d->s.o.no_recipes ? 0 : recipes_load_built_in(&d->recipes, err);
	if (rc || !d->s.o.recipes)
		return rc;
	rc = recipes_load(&d->recipes, d->s.o.recipes, err);
	if (rc)
		daemon_settings_blame(&d->s, "recipes", err);
	return rc;
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	char line[1000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	log_line(LOG_LINE_INFO, "%s", line);
}

/* It may take minutes. A signal ends it: the next start begins again. */
static int rewrite_old_store(struct daemon *d, struct err *err)
{
	uint64_t bytes;
	if (store_is_old(d->s.o.store))
		notify("EXTEND_TIMEOUT_USEC=3600000000\nSTATUS=rewriting the store of an older version");
	return old_store_rewrite(d->s.o.store, say, &bytes, err);
}

/*
 * Answer questions until the one who writes the store ends: the recorder begins within a moment of
 * that. 1: asked to end.
 */
static int stand_by(struct daemon *d, struct err *err)
{
	uint64_t ignored = 0; /* looked at again soon in any case */
	published_standing_by(&d->published, true);
	int rc = daemon_start_server(d, err);
	if (rc)
		return rc;
	log_line(LOG_LINE_INFO, "standing by: %s is being written by another process",
		 d->s.o.store);
	notify("READY=1\nSTATUS=standing by");
	for (;;) {
		rc = daemon_serve(d, &ignored, err);
		if (rc)
			break;
		struct pollfd p[] = { { .fd = d->signals, .events = POLLIN },
				      { .fd = daemon_server_fd(d), .events = POLLIN } };
		if (poll(p, 2, STAND_BY_MS) > 0 && p[0].revents && on_signal(d)) {
			rc = 1;
			break;
		}
		notify("WATCHDOG=1");
		rc = d->writer ? 0 : daemon_open_writer(d, err); /* a reload may have opened it */
		if (rc != -EBUSY)
			break;
	}
	published_standing_by(&d->published, false);
	return rc;
}

/* Print the token that a daemon with these settings asks for; it is never made here. */
static int print_token(struct daemon_settings *s)
{
	struct err err = { 0 };
	char path[512], *token = NULL;
	int rc = s->o.anonymous ? err_set(&err, -EINVAL, "anonymous: requests need no token") : 0;
	if (!rc && s->own_token)
		rc = daemon_settings_token_path(s, path, &err);
	if (!rc)
		rc = cmd_read_token(s->own_token ? path : s->o.token_file, &token, &err);
	if (rc)
		cmd_error("daemon: %s", err.text);
	else
		puts(token);
	free(token);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* 1: asked to end before there was anything to record. */
static int begin(struct daemon *d, struct err *err)
{
	umask(027); /* the group reads the store */
	int fd, rc = daemon_join_keeper(d, err);
	if (rc)
		return rc;
	/* May we at all? Before any file is touched. Waits are no event that could be opened. */
	rc = d->s.event[0].wait ? -ENODEV : loader_event(&d->s.event[0], 0, &fd, err);
	if (rc && rc != -ENODEV)
		return rc;
	if (!rc)
		close(fd);
	/* Their processes are forked here, before anything is open. */
	rc = d->joined ? 0 : daemon_keep_rights(d, err);
	rc = rc || d->joined ? rc : daemon_start_clients(d, err);
	rc = rc ? rc
		: pushing_start(&d->pushing, d->s.o.store, d->s.push, d->s.o.push.v, d->s.n_push,
				err);
	rc = rc ? rc : daemon_drop_rights(err);
	rc = rc ? rc : load_recipes(d, err);
	if (rc)
		return rc;
	rc = redactor_init(&d->redactor);
	if (rc)
		return err_sys(err, rc, "a key for redacted labels");
	limit_heaps();
	saving_init(&d->saving);
	daemon_warn_of_limit(d->s.o.memory_max);
	own_raise_file_limit();
	rc = rewrite_old_store(d, err);
	if (rc)
		return rc;
	d->signals = signals_take(SIGUSR2);
	d->rules_from_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	signal(SIGPIPE, SIG_IGN);
	rc = daemon_open_writer(d, err);
	if (rc == -EBUSY && d->s.o.stand_by)
		rc = stand_by(d, err);
	rc = rc ? rc : daemon_limit_paths(d, err);
	if (rc)
		return rc;
	d->killed = d->s.o.kill_switch && !access(d->s.o.kill_switch, F_OK);
	published_killed(&d->published, d->killed);
	if (!d->killed)
		rc = daemon_new_collector(d, &d->collector, err);
	if (!rc && d->collector)
		rc = collector_start(d->collector, err);
	if (rc)
		return rc;
	d->drained_ns = proc_now_ns();
	rc = d->serving.wanted ? 0 : daemon_start_server(d, err); /* who stood by serves already */
	if (rc)
		return rc;
	log_line(LOG_LINE_INFO, "recording %s into %s", d->s.what, d->s.o.store);
	notify("READY=1\nSTATUS=recording %s", d->s.what);
	return 0;
}

int cmd_daemon(int argc, char **argv)
{
	struct daemon d = { .argc = argc,
			    .argv = argv,
			    .signals = -1,
			    .sql = SQL_ASKER_NONE,
			    .audit = { .fd = -1 },
			    .rules_fd = -1,
			    .memory_fd = -1 };
	struct err err = { 0 };
	int status = EXIT_OK;
	bool help;
	int rc = notify_start(&err); /* before there is a secret in memory */
	if (rc) {
		cmd_error("daemon: %s", err.text);
		return EXIT_FAILED;
	}
	rc = daemon_read_settings(&d, &d.s, &help, &err);
	if (help) {
		status = cmd_help(&daemon_command);
		goto out;
	}
	if (rc) {
		cmd_error("daemon: %s", err.text);
		status = rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
		goto out;
	}
	if (d.s.o.check_config) {
		rc = load_recipes(&d, &err);
		if (rc)
			cmd_error("daemon: %s", err.text);
		else
			cmd_say("the configuration is good: %s into %s", d.s.what, d.s.o.store);
		status = rc ? EXIT_USAGE : EXIT_OK;
		goto out;
	}
	if (d.s.o.print_token) {
		status = print_token(&d.s);
		goto out;
	}
	if (d.s.o.keeper) {
		rc = daemon_be_keeper(&d, &err);
		if (rc)
			cmd_error("ascribe-keeper: %s", err.text);
		status = rc ? EXIT_FAILED : EXIT_OK;
		goto out;
	}
	published_init(&d.published, LATE_NS);
	ingest_init(&d.ingest);
	serving_init(&d.serving);
	capture_init(&d.capture, d.s.o.store);
	if (d.s.o.capture_ns) /* who waits for it has ended */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	socket_store_take(&d.sockets);
	rc = begin(&d, &err);
	rc = rc ? rc : record(&d, &err);
	end(&d);
	if (rc < 0) {
		log_line(LOG_LINE_ERROR, "%s", err.text[0] ? err.text : strerror(-rc));
		status = EXIT_FAILED;
	}
	if (d.signals >= 0)
		close(d.signals);
out:
	pushing_end(&d.pushing);
	keeper_end();
	downloads_free(d.downloads);
	pods_close(d.pods);
	sql_asker_stop(&d.sql);
	recipes_fini(&d.recipes);
	daemon_settings_fini(&d.s);
	return status;
}
