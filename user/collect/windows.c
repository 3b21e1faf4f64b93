/* SPDX-License-Identifier: Apache-2.0 */
/* Drains, and the windows that what was drained is written in. */
#include "collect/collector_int.h"

#include "hist/metrics.h"
#include "proc/reader.h"
#include "store/writer.h"
#include "util/clock.h"

#define FORGET_AFTER_NS (30 * NS) /* images that ended stay for samples that come late */
#define ENDS_NS NS /* from the record of an exit to the last switch of its thread, at most */

/* ---- windows ---- */

/* The stack of rows that found no room. */
static int add_other_stack(struct collector *c)
{
	struct store_frame f = { .kind = FRAME_USER };
	uint32_t frame;
	int rc = store_add_string(c->store, "(other)", 7, &f.function);
	rc = rc ? rc : store_add_frame(c->store, &f, &frame);
	return rc ? rc : store_add_stack(c->store, 0, frame, &c->other_stack);
}

/* An event for each rate, as the same event recorded at that rate would have. */
static int add_rates(struct collector *c, unsigned event, struct store_event e)
{
	const struct sampler_config *cfg = &c->cfg;
	const uint64_t ns = e.ns_per_sample, period = e.period;
	int rc = 0;
	for (unsigned r = 0; r < RATES_MAX; r++)
		c->rate_id[event][r] = c->event_id[event];
	for (unsigned r = 0; !rc && ns && !cfg->event[event].wait && r < cfg->n_rates; r++) {
		e.ns_per_sample = sampler_rate_ns(cfg, event, r);
		e.period = period ? e.ns_per_sample : 0;
		rc = store_add_event(c->store, &e, &c->rate_id[event][r]);
	}
	return rc;
}

int windows_add_events(struct collector *c)
{
	bool heap = false;
	int rc = 0;
	for (unsigned i = 0; !rc && i < c->cfg.n_events; i++) {
		const struct event *e = &c->cfg.event[i];
		struct store_event se = { .name = e->heap ? HEAP_ALLOC_SPACE : e->name,
					  .unit = e->unit,
					  .ns_per_sample = e->ns_per_sample,
					  .period = e->tracepoint ? 1
						    : e->fixed_period
							    ? e->attr.sample_period / c->cfg.weight
							    : 0 };
		if (e->wait || e->values)
			se.period = 0;
		heap |= e->heap;
		rc = store_add_event(c->store, &se, &c->event_id[i]);
		rc = rc ? rc : add_rates(c, i, se);
	}
	rc = rc ? rc : spreads_renew(&c->waits.spreads, &c->cfg);
	rc = rc ? rc : waits_renew(&c->waits, &c->cfg);
	rc = rc ? rc : heap_renew(&c->heap, heap);
	return rc ? rc : add_other_stack(c);
}

/*
 * Between two windows the store may begin anew with its ids; when ours cannot be made now, rows are
 * lost until they can.
 */
static void renew(struct collector *c)
{
	if (store_renew(c->store)) {
		c->ids_void = true;
		heap_ids_void(&c->heap);
	}
	if (c->ids_void && !windows_add_events(c) && !resolver_renewed(c->resolver) &&
	    !scripts_renewed(c->scripts)) {
		c->ids_void = false;
		store_renew_end(c->store);
	}
}

void windows_tell_waits(struct collector *c)
{
	sampler_poll_ring(c->sampler);
	resolver_begin(c->resolver, sampler_drain_ms(c->sampler));
	sampler_waits(c->sampler, rows_on_wait, c);
	hangs_go_on(c, false);
}

void windows_close(struct collector *c)
{
	uint64_t window = c->cfg.window_s * NS,
		 patience = window / 2 < ASIDE_NS ? window / 2 : ASIDE_NS;
	if (!c->stopped)
		windows_tell_waits(c);
	window_end(c->window, c->stopped);
	c->closing = true;
	c->closing_end_ns = c->end_ns;
	c->closing_end_boot_ns = c->end_boot_ns;
	c->closing_ns = proc_now_ns() + patience;
	c->next_window_ns = (int64_t)(((uint64_t)c->end_ns / window + 1) * window);
}

static void add_own(struct collector *c, const struct reader_silence *silence,
		    const struct sandbox_stats *parsing)
{
	struct hotspots_stats java;
	struct v8s_stats v8;
	const struct script_unknown *script = labelling_scripts(c->labelling);
	const struct script_unknown *go = labelling_go(c->labelling);
	hotspots_stats(resolver_hotspots(c->resolver), &java);
	v8s_stats(resolver_v8s(c->resolver), &v8);
	own_add(&c->own, c->store,
		&(struct own_counts){ silence,
				      parsing->full,
				      { java.unknown, v8.unknown, script[SCRIPT_PYTHON].processes,
					script[SCRIPT_PHP].processes, script[SCRIPT_RUBY].processes,
					script[SCRIPT_PERL].processes,
					script[SCRIPT_LUAJIT].processes, go->processes },
				      { java.missing, v8.missing, script[SCRIPT_PYTHON].version,
					script[SCRIPT_PHP].version, script[SCRIPT_RUBY].version,
					script[SCRIPT_PERL].version, script[SCRIPT_LUAJIT].version,
					go->version } });
}

int windows_write(struct collector *c, struct err *err)
{
	struct store_totals t;
	struct reader_silence silence;
	struct sandbox_stats parsing;
	int64_t t1 = c->closing_end_ns;
	int rc = 0;
	c->closing = false;
	rows_go_on(c, true);
	rows_end_window(c);
	size_t n = window_totals(c->window, &t);
	if (t1 <= c->t0_ns)
		t1 = c->t0_ns + 1; /* the clock was set back: time in the store does not go back */
	for (size_t i = 0; i < n; i++) {
		uint64_t lost = t.cpu[i].fired - t.cpu[i].stored;
		c->sum.fired += t.cpu[i].fired;
		c->sum.stored += t.cpu[i].stored;
		c->sum.lost += lost;
		c->sum.asleep += t.cpu[i].lost[COUNTER_idle_not_run];
		c->sum.idle += t.cpu[i].flagged[window_idle_flag];
	}
	c->sum.outside += t.outside;
	if (n || t.outside || store_n_rows(c->store)) { /* profiles of others are rows, too */
		proc_reader_silence(&silence);
		sandbox_stats(c->sandbox, &parsing);
		/* Without memory, parts of it are missing */
		add_own(c, &silence, &parsing);
		store_set_instants(c->store, instants_give(&c->instants, c->other_stack));
		rc = store_commit_window(c->store, c->t0_ns, t1, c->closing_end_boot_ns, &t, err);
		if (rc) {
			c->sum.failed++;
			for (size_t i = 0; i < n; i++) { /* counted again with the next window */
				c->sum.fired -= t.cpu[i].fired;
				c->sum.stored -= t.cpu[i].stored;
				c->sum.lost -= t.cpu[i].fired - t.cpu[i].stored;
				c->sum.asleep -= t.cpu[i].lost[COUNTER_idle_not_run];
			}
			c->sum.outside -= t.outside;
			window_lost(c->window);
		} else {
			own_committed(&c->own);
			reader_silence_add(&c->sum.silence, &silence);
			proc_reader_forget_silence();
			c->sum.windows++;
			for (unsigned i = 0; i < c->n_cpus; i++)
				c->sum.thinned += window_cpu(c->window, i)->thinned;
			window_clear(c->window);
		}
	}
	instants_clear(&c->instants);
	renew(c);
	waits_window(&c->waits);
	if (c->locks)
		locks_window(c->locks);
	c->t0_ns = t1;
	procs_forget(c->procs, proc_now_ns() - FORGET_AFTER_NS);
	labelling_forget(c->labelling);
	trampolines_forget(c->trampolines);
	hangs_forget(c);
	unwinding_forget(c->unwinding);
	resolver_forget(c->resolver);
	scripts_forget(c->scripts, c->procs);
	return rc;
}

/* ---- drains ---- */

/*
 * The programs fill the other halves by now: there is time to write the window before, which these
 * rows are not part of.
 */
static void on_half(void *ctx, const struct sampler_half *h)
{
	struct collector *c = ctx;
	if (c->closing)
		windows_write(c, &c->sum.failure);
	rows_on_half(ctx, h);
}

void windows_drain(struct collector *c)
{
	METRIC_TIME(drain);
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	news_read(c);
	news_admit(c);
	resolver_begin(c->resolver, sampler_drain_ms(c->sampler));
	trampolines_begin(c->trampolines);
	ruled_begin(c->ruled);
	uint64_t now = proc_now_ns();
	if (!c->stopped) {
		c->end_ns = (int64_t)clock_ns(CLOCK_REALTIME);
		c->end_boot_ns = (int64_t)now;
	}
	c->filling = false; /* it may fill again while rows are added */
	sampler_drain(c->sampler, on_half, c);
	if (!rows_wait(c)) /* else allocations of before may still come */
		heap_drained(&c->heap, now);
	procs_read(c->procs, now - ENDS_NS);
	if (c->lost_to_ns < now) /* no row of that time is left */
		c->lost_from_ns = c->lost_to_ns = 0;
	uint64_t wait = sampler_drain_ms(c->sampler) * 1000000ull;
	if (trampolines_any(c->trampolines) && wait > TRAMPOLINES_DRAIN_NS)
		wait = TRAMPOLINES_DRAIN_NS; /* while they remember */
	c->next_drain_ns = now + wait;
	c->sum.drains++;
	c->sum.drain_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}
