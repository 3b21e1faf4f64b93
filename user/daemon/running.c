/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/running.h"

#include "daemon/log.h"
#include "daemon/shares.h"
#include "proc/proc.h"
#include "util/clock.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

struct saving_limits daemon_saving_limits(const struct daemon *d)
{
	unsigned n_waits = 0, n_hits = 0;
	for (unsigned i = 0; i < d->s.n_events; i++) {
		n_waits += d->s.event[i].wait;
		n_hits += d->s.event[i].tracepoint || d->s.event[i].probe;
	}
	return (struct saving_limits){ .cpu = d->s.cpu_max,
				       .memory = d->s.o.memory_max,
				       .hz = d->s.o.hz,
				       .waits = n_waits,
				       .only_waits = n_waits == d->s.n_events,
				       .hits = n_hits };
}

static void configure_selection(struct selection_rules *r, struct sampler_config *ret)
{
	if (!selection_rules_any(r))
		return;
	ret->selection_rules = r;
	ret->chooses = true;
	ret->selects = selection_rules_select(r);
	ret->n_rates = r->n_rates > 1 ? r->n_rates : 0;
	memcpy(ret->rates, r->rates, sizeof(ret->rates));
}

int daemon_new_collector(struct daemon *d, struct collector **ret, struct err *err)
{
	struct err warning = { 0 };
	struct shares share;
	const struct saving_limits limits = daemon_saving_limits(d);
	const unsigned weight = limits.hits ? 1 : governor_weight(&d->saving.governor);
	shares_of(d->s.o.memory_max, d->saving.governor.memory.step, &share);
	struct sampler_config cfg = {
		.hz = (daemon_settings_hz(&d->s) + weight - 1) / weight,
		.window_s = DAEMON_WINDOW_S,
		.weight = weight,
		.claim_cpus = (unsigned)d->s.o.claim_cpus,
		.table_rows = d->saving.tables.rows,
		.resumed = d->resumed,
		.recipes = &d->recipes,
		.wakers = d->s.o.waker && governor_waits(&d->saving.governor),
		.waits_saved = limits.waits && !governor_waits(&d->saving.governor),
		.jvm_attach = d->s.o.jvm_attach,
		.cmdline = d->s.o.cmdline,
		.instants = d->s.store.tracks_ns > 0,
	};
	shares_configure(&share, &cfg);
	if (d->s.o.unwind_max)
		cfg.unwind_bytes = (size_t)d->s.o.unwind_max;
	target_configure(&d->s.target, &cfg);
	configure_selection(&d->s.selection, &cfg);
	for (unsigned i = 0; i < d->s.n_events; i++) {
		if (d->s.event[i].wait && cfg.waits_saved)
			continue;
		struct event *e = &cfg.event[cfg.n_events++];
		*e = d->s.event[i];
		if (!e->attr.freq) {
			e->attr.sample_period *= weight;
			continue;
		}
		/*
		 * The kernel takes whole Hz: 10 for half of 19. What each stands for follows;
		 * queries add up such rates.
		 */
		e->attr.sample_freq = cfg.hz;
		if (e->ns_per_sample && weight > 1)
			e->ns_per_sample = 1000000000ull / (cfg.hz * weight);
	}
	struct collector *c;
	int rc = sampler_set_latency(&cfg, d->s.o.latency, err);
	rc = rc ? rc : collector_open(&c, &cfg, d->writer, &warning, err);
	if (rc)
		return rc;
	d->redactor.credentials = d->s.o.labels.credentials;
	rc = collector_set_filter(c, d->s.filter, &d->redactor);
	if (rc) {
		collector_close(c);
		return err_sys(err, rc, "rules for labels");
	}
	rc = d->resumed ? 0 : saving_check(&d->saving, &limits, c, err);
	if (rc) {
		collector_close(c);
		return rc;
	}
	saving_apply(&d->saving, &limits, c);
	if (d->downloads)
		collector_set_downloads(c, d->downloads);
	collector_set_pods(c, d->pods);
	if (warning.code)
		log_line(LOG_LINE_WARNING, "%s", warning.text);
	if (!d->resumed && collector_hides_processes(c))
		log_line(LOG_LINE_WARNING, PROC_NAMESPACE_WARNING);
	*ret = c;
	return 0;
}

void daemon_end_collector(struct daemon *d)
{
	struct collector_progress p;
	struct err err = { 0 };
	if (!d->collector)
		return;
	/* A capture ends at its time, and a kill switch ends all sampling at once. */
	if (!d->s.o.capture_ns && !d->killed)
		collector_settle(d->collector);
	if (collector_stop(d->collector, &err))
		log_line(LOG_LINE_ERROR, "the last window: %s", err.text);
	collector_progress(d->collector, &p);
	published_ended(&d->published, &p);
	d->drains_before += p.drains;
	collector_close(d->collector);
	d->collector = NULL;
	d->resumed = true;
	d->failed = 0;
}

int daemon_switch_collector(struct daemon *d, struct err *err)
{
	struct collector *c;
	const struct saving_limits limits = daemon_saving_limits(d);
	if (d->collector && !saving_has_room(&d->saving, &limits))
		daemon_end_collector(d);
	int rc = daemon_new_collector(d, &c, err);
	if (!rc) {
		daemon_end_collector(d);
		d->collector = c;
		rc = collector_start(c, err);
		d->drained_ns = proc_now_ns();
	}
	return rc;
}

void daemon_restart(struct daemon *d, const char *why)
{
	struct err err = { 0 };
	if (daemon_switch_collector(d, &err))
		log_line(LOG_LINE_ERROR, "recording anew (%s): %s", why, err.text);
	malloc_trim(0);
	governor_new_minute(&d->saving.governor);
}

bool daemon_same_list(const struct opt_list *a, const struct opt_list *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = !strcmp(a->v[i], b->v[i]);
	return same;
}

void daemon_renew_push(struct daemon *d, const struct daemon_settings *old)
{
	struct err err = { 0 };
	if (daemon_same_list(&old->o.push, &d->s.o.push))
		return;
	pushing_end(&d->pushing);
	if (pushing_start(&d->pushing, d->s.o.store, d->s.push, d->s.o.push.v, d->s.n_push, &err))
		log_line(LOG_LINE_ERROR, "reload: %s", err.text);
	published_push(&d->published, &d->pushing);
}

int daemon_freeze(struct daemon *d, const char *why, struct freeze_made *ret, struct err *err)
{
	const struct freeze_limits limits = { (unsigned)d->s.o.freeze_keep, d->s.o.freeze_max };
	const uint64_t begin = proc_now_ns();
	struct err own = { 0 }, *e = err ? err : &own;
	struct freeze_made made;
	int rc = freeze_may(d->s.o.store, &limits, e);
	if (!rc)
		rc = d->collector && d->writer ? collector_cut(d->collector, e)
					       : err_set(e, -EAGAIN, "nothing is recorded now");
	const int64_t since_ns = (int64_t)clock_ns(CLOCK_REALTIME) - d->s.store.tracks_ns;
	rc = rc ? rc : freeze_store(d->s.o.store, since_ns, &made, e);
	d->freezes.made += !rc;
	d->freezes.refused += rc == -EDQUOT;
	d->freezes.failed += rc && rc != -EDQUOT;
	published_freezes(&d->published, &d->freezes);
	if (rc) {
		log_line(LOG_LINE_WARNING, "freeze (%s): %s", why, e->text);
		return rc;
	}
	log_line(LOG_LINE_INFO, "frozen (%s): %s/" FREEZE_DIR "/%s, %zu windows, %.1f MiB, %.0f ms",
		 why, d->s.o.store, made.name, made.windows, (double)made.bytes / (1 << 20),
		 (double)(proc_now_ns() - begin) / 1e6);
	if (ret)
		*ret = made;
	return 0;
}

/* Of several that hold the first is the reason. */
void daemon_look_at_rules_of_freezes(struct daemon *d, uint64_t windows)
{
	const uint64_t now = proc_now_ns();
	const bool window = windows != d->freeze_windows;
	if (d->froze_ns && now - d->froze_ns < (uint64_t)d->s.o.freeze_every_ns)
		return;
	d->freeze_windows = windows;
	for (size_t i = 0; i < d->s.n_freeze; i++) {
		const struct freeze_rule *r = &d->s.freeze[i];
		struct err err = { 0 };
		bool holds = false;
		double seen = 0;
		char why[200];
		if (!*r->pressure && (!window || !windows))
			continue;
		int rc = freeze_rule_holds(r, d->s.o.store, &holds, &seen, &err);
		if (rc && !d->freeze_failed)
			log_line(LOG_LINE_WARNING, "freeze-when: %s: %s", r->text, err.text);
		d->freeze_failed |= rc;
		if (!holds)
			continue;
		snprintf(why, sizeof(why), "%.100s, seen: %.1f%s", r->text,
			 *r->pressure ? seen : seen / 1e6, *r->pressure ? "%" : " ms");
		d->froze_ns = now;
		(void)daemon_freeze(d, why, NULL, NULL);
		struct collector_progress p;
		collector_progress(d->collector, &p);
		d->freeze_windows = p.windows; /* that of the freeze, too */
		return;
	}
}
