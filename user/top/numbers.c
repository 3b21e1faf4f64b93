/* SPDX-License-Identifier: Apache-2.0 */
#include "top/numbers.h"

#include "opt/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS 1000000000.0

void numbers_choose(struct top_head *h, const struct query_info *info, enum query_metric metric)
{
	const struct store_event *e = info->event;
	const bool cpu = metric == QUERY_SAMPLES || metric == QUERY_CPU;
	h->amounts = info->amounts;
	h->stock = query_metric_is_stock(metric);
	h->unit = e && e->ns_per_sample			    ? cpu ? TOP_CPUS : TOP_TIME
		  : h->amounts && !strcmp(e->unit, "bytes") ? TOP_BYTES
							    : TOP_COUNT;
}

static bool is_time(const struct top_head *h)
{
	return h->unit == TOP_CPUS || h->unit == TOP_TIME;
}

double view_rate(const struct top_view *v, uint64_t samples)
{
	const struct query_info *info = query_info(v->query);
	double each = is_time(&v->head) ? (double)info->event->ns_per_sample / NS : 1;
	if (v->head.stock)
		return (double)samples;
	return v->head.seconds > 0 ? (double)samples * each / v->head.seconds : 0;
}

/*
 * Of CPU time: every CPU was looked at so many times, and so many of them hit, so that the interval
 * is one of the CPU used. Of all else: the share of all that are shown, times what those are.
 * Nothing is left to chance where each hit is there, or was measured.
 */
void view_interval(const struct top_view *v, uint64_t samples, double *ret_low, double *ret_high)
{
	const struct query_info *info = query_info(v->query);
	const uint64_t grain = v->head.amounts ? info->grain : 1;
	double all = v->head.busy;
	if (!info->grain) {
		*ret_low = *ret_high = view_rate(v, samples);
		return;
	}
	uint64_t n = info->samples / grain, k = samples / grain;
	if (v->head.unit == TOP_CPUS) {
		const double ns = (double)(v->head.amounts ? grain : info->event->ns_per_sample);
		all = v->head.n_cpus;
		n = (uint64_t)(v->head.seconds * all * NS / ns);
		n = n < k ? k : n;
	}
	query_interval(k, n, ret_low, ret_high);
	*ret_low *= all;
	*ret_high *= all;
}

uint64_t view_row_samples(const struct top_view *v, const struct top_row *r)
{
	return v->level[v->n_levels - 1].kind == TOP_FUNCTION ? r->self : r->samples;
}

const char *numbers_rate_head(const struct top_head *h)
{
	static const char *const heads[] = { [TOP_CPUS] = "CPU%",
					     [TOP_TIME] = "TIME%",
					     [TOP_BYTES] = "BYTES/S",
					     [TOP_COUNT] = "RATE/S" };
	return !h->stock ? heads[h->unit] : h->unit == TOP_BYTES ? "BYTES" : "OBJECTS";
}

const char *numbers_total_head(const struct top_head *h)
{
	return h->stock ? "TOTAL" : is_time(h) ? "TOTAL%" : "TOTAL/S";
}

const char *numbers_samples_head(const struct top_head *h)
{
	return !h->amounts	      ? "SAMPLES"
	       : is_time(h)	      ? "SECONDS"
	       : h->unit == TOP_BYTES ? "BYTES"
				      : "COUNT";
}

static void write_rate(const struct top_head *h, double rate, char out[32])
{
	if (h->unit == TOP_BYTES)
		text_bytes((uint64_t)(rate + 0.5), out);
	else
		snprintf(out, 32, "%.*f", !h->stock, (is_time(h) ? 100 : 1) * rate);
}

const char *numbers_rate(const struct top_head *h, double rate, char out[NUMBER_MAX])
{
	write_rate(h, rate, out);
	return out;
}

const char *numbers_interval(const struct top_head *h, double low, double high,
			     char out[NUMBER_MAX])
{
	char from[32], to[32];
	write_rate(h, low, from);
	write_rate(h, high, to);
	snprintf(out, NUMBER_MAX, "%s-%s", from, to);
	return out;
}

const char *numbers_samples(const struct top_head *h, uint64_t samples, char out[NUMBER_MAX])
{
	if (h->amounts && is_time(h))
		snprintf(out, NUMBER_MAX, "%.3f", (double)samples / NS);
	else if (h->amounts && h->unit == TOP_BYTES)
		text_bytes(samples, out);
	else
		snprintf(out, NUMBER_MAX, "%" PRIu64, samples);
	return out;
}

const char *numbers_all(const struct top_head *h, char out[NUMBER_MAX])
{
	char rate[32];
	write_rate(h, h->busy, rate);
	if (h->unit == TOP_CPUS)
		snprintf(out, NUMBER_MAX, "CPU %s%% of %u%%", rate, 100 * h->n_cpus);
	else
		snprintf(out, NUMBER_MAX, "%s%s", rate,
			 h->unit == TOP_TIME ? "% of one thread's time"
			 : h->stock	     ? " live"
					     : "/s");
	return out;
}
