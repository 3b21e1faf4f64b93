/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/budget.h"

#include "proc/proc.h"
#include "util/own.h"

#include <stdio.h>
#include <unistd.h>

#define NS 1000000000ull
#ifndef MINUTE_NS /* the tests have a build with shorter ones */
#define MINUTE_NS (60 * NS)
#endif
#define LOW_MINUTES 5
#define LOW_SHARE 0.3 /* twice the rate costs at most twice as much */
#define HIGH_LOOKS 3  /* more than a moment */

struct budget_reading budget_read(const struct collector_progress *p)
{
	/*
	 * Called by the recorder's thread, whose CPU time counts. The server's threads are left out: a lower rate would
	 * not make questions cheaper.
	 */
	/* Shared memory of the maps is ours as far as we have touched it; the tables are counted in whole, which resident
	 * memory has in part; of unwind rules it has what is mapped just now. */
	return (struct budget_reading){ proc_now_ns(), p->parsing.cpu_ns + own_thread_cpu_ns(),
					own_rss_bytes() + p->table_bytes + p->unwinding.unmapped };
}

static enum budget_verdict look_at_cpu(struct budget *b, const struct budget_limits *l, const struct budget_reading *r, unsigned weight)
{
	uint64_t now = r->now_ns, used = r->cpu_ns;
	if (!b->since_ns || used < b->cpu_ns) {
		b->since_ns = now;
		b->cpu_ns = used;
		return BUDGET_FINE;
	}
	if (now - b->since_ns < MINUTE_NS)
		return BUDGET_FINE;
	b->cpu = (double)(used - b->cpu_ns) / (double)(now - b->since_ns);
	b->since_ns = now;
	b->cpu_ns = used;
	b->low_minutes = b->cpu < l->cpu * LOW_SHARE ? b->low_minutes + 1 : 0;
	if (l->cpu > 0 && b->cpu > l->cpu)
		return BUDGET_SLOWER;
	if (weight == 1 || (l->cpu > 0 && b->low_minutes < LOW_MINUTES))
		return BUDGET_FINE;
	b->low_minutes = 0;
	return BUDGET_FASTER;
}

static enum budget_verdict look_at_memory(struct budget *b, const struct budget_limits *l, const struct budget_reading *r)
{
	b->memory = r->memory;
	if (!l->memory || b->memory <= l->memory) {
		b->high_looks = 0;
		return BUDGET_FINE;
	}
	b->high_looks++;
	if (b->high_looks == HIGH_LOOKS)
		return BUDGET_TRIM;
	/* Not again before it had the time to show. */
	return b->high_looks % (10 * HIGH_LOOKS) == 2 * HIGH_LOOKS ? BUDGET_RESTART : BUDGET_FINE;
}

enum budget_verdict budget_look(struct budget *b, const struct budget_limits *l, const struct budget_reading *r, unsigned weight)
{
	enum budget_verdict v = look_at_memory(b, l, r);
	return v ? v : look_at_cpu(b, l, r, weight);
}

void budget_restarted(struct budget *b)
{
	b->since_ns = 0;
	b->low_minutes = 0;
}
