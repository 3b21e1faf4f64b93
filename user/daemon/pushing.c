/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pushing.h"

#include "daemon/log.h"
#include "util/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifndef LONG_NS /* a receiver that has failed for so long is in the log */
#define LONG_NS 60000000000ull
#endif
#define END_MS 1000

int pushing_start(struct pushing *p, const char *store, const struct push_section *of,
		  char *const *texts, size_t n, struct err *err)
{
	int rc = 0;
	*p = (struct pushing){ .n = 0 };
	for (size_t i = 0; !rc && i < n && i < DAEMON_PUSH_MAX; i++) {
		struct push_config c = of[i].r.c;
		c.store = store;
		rc = pusher_start(&p->of[i], &c, texts[i], err);
		p->n += !rc;
	}
	return rc;
}

void pushing_end(struct pushing *p)
{
	for (size_t i = 0; i < p->n; i++)
		pusher_stop(p->of[i]);
	for (size_t i = 0; i < p->n; i++)
		pusher_free(p->of[i], END_MS);
	p->n = 0;
}

/* Windows and messages that will never be there: said when there are more, ten times a minute. */
static void look_at_lost(struct pushing *p, size_t i, const struct push_stats *st)
{
	const char *name = pusher_name(p->of[i]);
	if (st->refused > p->state[i].refused)
		log_line(LOG_LINE_WARNING, "push: refused for good: %" PRIu64 " messages: %s",
			 st->refused - p->state[i].refused, st->text);
	if (st->cut > p->state[i].cut)
		log_line(LOG_LINE_WARNING,
			 "push: %s: retention cut %" PRIu64 " windows before they were sent", name,
			 st->cut - p->state[i].cut);
	if (st->too_old > p->state[i].too_old)
		log_line(LOG_LINE_WARNING,
			 "push: %s: %" PRIu64 " windows are older than it takes (max-age)", name,
			 st->too_old - p->state[i].too_old);
	p->state[i].refused = st->refused;
	p->state[i].cut = st->cut;
	p->state[i].too_old = st->too_old;
}

void pushing_look(struct pushing *p)
{
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < p->n; i++) {
		const struct push_stats *st = pusher_look(p->of[i]);
		look_at_lost(p, i, st);
		if (!st->failing) {
			if (p->state[i].said)
				log_line(LOG_LINE_INFO, "push: %s: sends again",
					 pusher_name(p->of[i]));
			p->state[i].failing_ns = 0;
			p->state[i].said = false;
			continue;
		}
		if (!p->state[i].failing_ns)
			p->state[i].failing_ns = now;
		if (p->state[i].said || now - p->state[i].failing_ns < LONG_NS)
			continue;
		log_line(LOG_LINE_WARNING,
			 "push: failing for %" PRIu64 " s, the store keeps the windows: %s",
			 (now - p->state[i].failing_ns) / 1000000000, st->text);
		p->state[i].said = true;
	}
}

size_t pushing_publish(struct pushing *p, struct push_published ret[DAEMON_PUSH_MAX])
{
	for (size_t i = 0; i < p->n; i++) {
		size_t same = 1; /* two tenants of one receiver */
		for (size_t k = 0; k < i; k++)
			same += !strcmp(pusher_name(p->of[k]), pusher_name(p->of[i]));
		snprintf(ret[i].name, sizeof(ret[i].name), "%s", pusher_name(p->of[i]));
		if (same > 1)
			snprintf(ret[i].name, sizeof(ret[i].name), "%.200s (%zu)",
				 pusher_name(p->of[i]), same);
		ret[i].st = *pusher_look(p->of[i]);
	}
	return p->n;
}

/* ---- metrics ---- */

static double lag(const struct push_stats *st)
{
	const int64_t now = (int64_t)clock_ns(CLOCK_REALTIME);
	return st->oldest_ns && now > st->oldest_ns ? (double)(now - st->oldest_ns) / 1e9 : 0;
}

/* A line for each receiver; further: `,result="x"` or "". */
static int add_lines(const struct push_published *p, size_t n, const char *metric,
		     const char *further, double (*value)(const struct push_stats *),
		     struct buf *out)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_printf(out, "%s{target=\"%s\"%s} %.15g\n", metric, p[i].name, further,
				value(&p[i].st));
	return rc;
}

#define VALUE(member) \
	static double member##_of(const struct push_stats *st) \
	{ \
		return (double)st->member; \
	}
VALUE(windows)
VALUE(coarse)
VALUE(too_old)
VALUE(cut)
VALUE(messages)
VALUE(refused)
VALUE(rejected)
VALUE(rows)
VALUE(bytes)
VALUE(failures)
VALUE(failing)

int pushing_metrics(const struct push_published *p, size_t n, struct buf *out)
{
	static const struct {
		const char *name, *type, *help, *further;
		double (*value)(const struct push_stats *);
	} metrics[] = {
		{ "ascribe_push_windows_total", "counter",
		  "Windows by what became of them: sent, too old for the receiver, cut by retention "
		  "before.",
		  ",result=\"sent\"", windows_of },
		{ "ascribe_push_windows_total", NULL, NULL, ",result=\"too_old\"", too_old_of },
		{ "ascribe_push_windows_total", NULL, NULL, ",result=\"cut\"", cut_of },
		{ "ascribe_push_coarse_windows_total", "counter",
		  "Windows that were sent, but are older than the receiver keeps them whole: it has "
		  "their sums.",
		  "", coarse_of },
		{ "ascribe_push_messages_total", "counter",
		  "Messages that the receiver took, and that it refused for good.",
		  ",result=\"sent\"", messages_of },
		{ "ascribe_push_messages_total", NULL, NULL, ",result=\"refused\"", refused_of },
		{ "ascribe_push_rejected_profiles_total", "counter",
		  "Profiles that the receiver says it did not keep.", "", rejected_of },
		{ "ascribe_push_rows_total", "counter",
		  "Rows sent: a stack of a label set in a window.", "", rows_of },
		{ "ascribe_push_bytes_total", "counter", "Bytes of messages sent.", "", bytes_of },
		{ "ascribe_push_failures_total", "counter", "Tries that were repeated.", "",
		  failures_of },
		{ "ascribe_push_failing", "gauge", "1 while the last try failed.", "", failing_of },
		{ "ascribe_push_lag_seconds", "gauge",
		  "Since the end of the oldest window that is to be sent; 0: there is none.", "",
		  lag },
	};
	int rc = 0;
	for (size_t i = 0; n && !rc && i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		if (metrics[i].help)
			rc = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name,
					metrics[i].help, metrics[i].name, metrics[i].type);
		rc = rc ? rc
			: add_lines(p, n, metrics[i].name, metrics[i].further, metrics[i].value,
				    out);
	}
	return rc;
}
