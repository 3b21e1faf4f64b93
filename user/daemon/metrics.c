/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics.h"

#include "hist/metrics.h"
#include "proc/proc.h"
#include "sandbox/keeper.h"
#include "store/writer.h"
#include "util/own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void published_init(struct published *p, uint64_t late_ns)
{
	*p = (struct published){ .changed = true };
	p->late_ns = late_ns;
	p->committed_ns = p->at_ns = proc_now_ns();
}

void published_progress(struct published *p, const struct collector_progress *now,
			const struct store_writer_state *store)
{
	p->changed = true;
	p->at_ns = proc_now_ns();
	if (now->windows != p->now.windows)
		p->committed_ns = p->at_ns;
	p->now = *now;
	p->store = *store;
}

void published_ended(struct published *p, const struct collector_progress *last)
{
	p->changed = true;
	struct collector_progress *b = &p->before;
	b->fired += last->fired;
	b->stored += last->stored;
	b->lost += last->lost;
	b->idle += last->idle;
	b->outside += last->outside;
	b->thinned += last->thinned;
	b->windows += last->windows;
	b->failed += last->failed;
	b->drains += last->drains;
	b->drain_ns += last->drain_ns;
	b->sideband_lost += last->sideband_lost;
	b->folded += last->folded;
	b->reading.late += last->reading.late;
	b->reading.abandoned += last->reading.abandoned;
	b->reading.refused += last->reading.refused;
	b->parsing.full += last->parsing.full;
	b->symbols.debug_unchecked += last->symbols.debug_unchecked;
	memset(&p->now, 0, sizeof(p->now));
}

void published_use(struct published *p, const struct saving *s)
{
	p->changed = true;
	p->governor = s->governor;
	p->account = s->account;
}

void published_pods(struct published *p, const struct pods_stats *st)
{
	p->changed = true;
	p->pods = *st;
	p->pods.text = NULL;
}

void published_push(struct published *p, struct pushing *of)
{
	p->changed = true;
	p->n_push = pushing_publish(of, p->push);
}

void published_store(struct published *p, bool is_there)
{
	p->changed = true;
	p->gone = !is_there;
}

void published_freezes(struct published *p, const struct freeze_counts *n)
{
	p->changed = true;
	p->freezes = *n;
}

void published_killed(struct published *p, bool killed)
{
	p->changed = true;
	p->killed = killed;
	p->committed_ns = proc_now_ns();
}

void published_standing_by(struct published *p, bool standing_by)
{
	p->changed = true;
	p->standing_by = standing_by;
	p->committed_ns = proc_now_ns();
}

void published_starts(struct published *p, uint64_t n)
{
	p->changed |= n != p->server_starts;
	p->server_starts = n;
}

/* Where the memory goes. */
static int add_parts(const struct account *a, struct buf *out)
{
	int rc = buf_printf(
		out,
		"# HELP ascribe_memory_bytes Parts of ascribe_memory_used_bytes.\n# TYPE ascribe_memory_bytes gauge\n");
	for (unsigned i = 0; !rc && i < N_ACCOUNT; i++)
		rc = buf_printf(out, "ascribe_memory_bytes{part=\"%s\"} %.15g\n", account_names[i],
				(double)a->part[i]);
	return rc;
}

static int add_metrics(const struct published *p, const struct ingest *i, struct buf *out)
{
	const struct collector_progress *n = &p->now, *b = &p->before;
	const struct {
		const char *name, *type, *help;
		double value;
	} v[] = {
		{ "ascribe_samples_fired_total", "counter",
		  "Samples that were due, in windows that ended.", (double)(n->fired + b->fired) },
		{ "ascribe_samples_stored_total", "counter", "Samples in the store.",
		  (double)(n->stored + b->stored) },
		{ "ascribe_samples_lost_total", "counter",
		  "Samples that were due and not stored; ascribe stat tells why.",
		  (double)(n->lost + b->lost) },
		{ "ascribe_samples_idle_total", "counter", "Stored samples of idle CPUs.",
		  (double)(n->idle + b->idle) },
		{ "ascribe_windows_total", "counter", "Windows written.",
		  (double)(n->windows + b->windows) },
		{ "ascribe_windows_failed_total", "counter", "Windows that could not be written.",
		  (double)(n->failed + b->failed) },
		{ "ascribe_drains_total", "counter", "Drains of the tables.",
		  (double)(n->drains + b->drains) },
		{ "ascribe_drain_cpu_seconds_total", "counter", "CPU time of the drains.",
		  (double)(n->drain_ns + b->drain_ns) / 1e9 },
		{ "ascribe_sideband_lost_total", "counter",
		  "News of processes that the kernel could not deliver.",
		  (double)(n->sideband_lost + b->sideband_lost) },
		{ "ascribe_processes", "gauge", "Processes that are followed.",
		  (double)n->processes },
		{ "ascribe_sample_weight", "gauge",
		  "How many samples each one stands for: more than 1 when the CPU budget lowered "
		  "the rate.",
		  governor_weight(&p->governor) },
		{ "ascribe_cpu_share", "gauge",
		  "Share of all CPUs used in the last minute: recorder, children, BPF programs.",
		  p->governor.cpu_share },
		{ "ascribe_cpu_step", "gauge",
		  "What the CPU budget gave up: 1 lines, 2 names of cold files, 3 stacks of waits, "
		  "4 half the rate, 5 a quarter, 6 waits.",
		  p->governor.cpu.step },
		{ "ascribe_memory_step", "gauge",
		  "What the memory budget gave up: 1 caches, 2 stacks of waits, 3 small rows.",
		  p->governor.memory.step },
		{ "ascribe_cpu_given_up_total", "counter", "Steps that the CPU budget gave up.",
		  (double)p->governor.cpu.n_given_up },
		{ "ascribe_memory_given_up_total", "counter",
		  "Steps that the memory budget gave up.", (double)p->governor.memory.n_given_up },
		{ "ascribe_rows_other_samples_total", "counter",
		  "Samples whose stack is called (other) for want of memory.",
		  (double)(n->folded + b->folded) },
		{ "ascribe_memory_used_bytes", "gauge", "All memory, as memory-max counts it.",
		  (double)p->account.total },
		{ "ascribe_memory_more_bytes", "gauge",
		  "Of our own pages, what came and went between two looks.",
		  (double)p->account.more },
		{ "ascribe_memory_reserved_bytes", "gauge",
		  "What parsers and a capture may allocate beyond that; memory-max leaves room for it.",
		  (double)p->account.reserved },
		{ "ascribe_switched_off", "gauge", "1 while the kill switch is there.", p->killed },
		{ "ascribe_standing_by", "gauge", "1 while another process writes the store.",
		  p->standing_by },
		{ "ascribe_store_written_bytes_total", "counter", "Bytes written into the store.",
		  (double)p->store.bytes_written },
		{ "ascribe_store_shed_files_total", "counter",
		  "Files of the store that went since the disk was full.", (double)p->store.shed },
		{ "ascribe_tracks_bytes", "gauge", "Bytes of tracks in the store.",
		  (double)p->store.tracks_bytes },
		{ "ascribe_tracks_failed_total", "counter",
		  "Windows whose track could not be written.", (double)p->store.tracks_failed },
		{ "ascribe_freezes_total", "counter", "Stores that were frozen.",
		  (double)p->freezes.made },
		{ "ascribe_freezes_refused_total", "counter",
		  "Freezes for which freeze-keep and freeze-max had no room.",
		  (double)p->freezes.refused },
		{ "ascribe_freezes_failed_total", "counter", "Freezes that failed.",
		  (double)p->freezes.failed },
		{ "ascribe_ingest_profiles_total", "counter",
		  "Profiles that others sent and that were stored.", (double)i->profiles },
		{ "ascribe_ingest_samples_total", "counter", "Samples of those.",
		  (double)i->samples },
		{ "ascribe_ingest_refused_total", "counter",
		  "Profiles that could not be stored when they came.", (double)i->refused },
		{ "ascribe_ingest_credentials_total", "counter",
		  "Values of labels in these that looked like credentials, and became hashes.",
		  (double)i->credentials },
		{ "ascribe_reads_late_total", "counter",
		  "Reads of other processes without an answer at once.",
		  (double)(n->reading.late + b->reading.late) },
		{ "ascribe_reads_abandoned_total", "counter",
		  "Reads of other processes that did not answer in time; ascribe stat names them.",
		  (double)(n->reading.abandoned + b->reading.abandoned) },
		{ "ascribe_reads_refused_total", "counter",
		  "Reads that were not made, of processes or users that had not answered.",
		  (double)(n->reading.refused + b->reading.refused) },
		{ "ascribe_jobs_refused_total", "counter",
		  "Files for which the parsers had no room.",
		  (double)(n->parsing.full + b->parsing.full) },
		{ "ascribe_debug_links_unchecked_total", "counter",
		  "Debug links to files without a build id that are too large to check their CRC.",
		  (double)(n->symbols.debug_unchecked + b->symbols.debug_unchecked) },
		{ "ascribe_samples_outside_total", "counter", "Samples outside of the selection.",
		  (double)(n->outside + b->outside) },
		{ "ascribe_samples_thinned_total", "counter",
		  "Samples at the highest rate that cgroups with a lower rate do not take.",
		  (double)(n->thinned + b->thinned) },
		{ "ascribe_pods", "gauge",
		  "Pods whose names are known, also of some that are gone.",
		  (double)p->pods.table.pods },
		{ "ascribe_containers", "gauge", "Containers whose names are known.",
		  (double)p->pods.table.containers },
		{ "ascribe_pods_source_ok", "gauge", "1 while somebody names pods and containers.",
		  p->pods.ok },
		{ "ascribe_containers_late_total", "counter",
		  "Containers that nobody named in time: their samples have ids alone.",
		  (double)p->pods.late },
		{ "ascribe_pods_refused_total", "counter",
		  "Pods for whose names there was no room.", (double)p->pods.table.refused },
		{ "ascribe_server_starts_total", "counter",
		  "Times that the process that serves was started.", (double)p->server_starts },
		{ "ascribe_keeper_late_total", "counter",
		  "Times that ascribe-keeper, which has the rights to record, was found not to "
		  "answer.",
		  (double)p->keeper_late },
		{ "ascribe_keeper_refused_total", "counter",
		  "Times that ascribe-keeper was asked for more than a recording needs.",
		  (double)keeper_refused() },
		{ "process_cpu_seconds_total", "counter",
		  "User and system time of the recorder's process.", (double)own_cpu_ns() / 1e9 },
		{ "process_resident_memory_bytes", "gauge",
		  "Resident memory of the recorder's process.", (double)own_rss_bytes() },
		{ "ascribe_unwind_files", "gauge", "Files whose unwind rules were compiled.",
		  (double)n->unwinding.compiled },
	};
	int rc = 0;
	for (size_t k = 0; !rc && k < sizeof(v) / sizeof(v[0]); k++)
		rc = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", v[k].name, v[k].help,
				v[k].name, v[k].type, v[k].name, v[k].value);
	rc = rc ? rc : add_parts(&p->account, out);
	return rc ? rc : pushing_metrics(p->push, p->n_push, out);
}

/* Why it is not ready whatever the time is; "": it is. */
static const char *why_not_ready(const struct published *p)
{
	return p->killed ? "switched off by the kill switch"
	       : p->gone ? "the store was deleted or moved: restart the daemon"
			 : "";
}

int published_state(struct published *p, const struct ingest *i, struct web_state *ret,
		    struct buf *metrics)
{
	const uint64_t since_ns = p->standing_by ? proc_now_ns() : p->committed_ns;
	struct err err;
	int rc = add_metrics(p, i, metrics);
	rc = rc ? rc : metrics_prometheus(metrics, &err);
	if (rc || metrics->len > WEB_METRICS_MAX)
		return rc ? rc : -E2BIG;
	*ret = (struct web_state){ .what = WEB_STATE,
				   .metrics_len = (uint32_t)metrics->len,
				   .ready_until_ns = since_ns + p->late_ns };
	snprintf(ret->why, sizeof(ret->why), "%s", why_not_ready(p));
	p->changed = false;
	return 0;
}
