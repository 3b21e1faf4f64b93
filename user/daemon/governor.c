/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/governor.h"

#define NS 1000000000ull
#ifndef MINUTE_NS /* a build for tests has shorter minutes, */
#define MINUTE_NS (60 * NS)
#endif
#ifndef CPU_PATIENCE   /* and less patience */
#define CPU_PATIENCE 5 /* minutes */
#endif
#define CPU_PATIENCE_MAX (16 * CPU_PATIENCE)
#define MEMORY_PATIENCE 60 /* looks: 5 minutes */
#define MEMORY_PATIENCE_MAX (16 * MEMORY_PATIENCE)
#define MEMORY_HIGH 0.95 /* of the limit: what a step frees takes a moment to show */
#define MEMORY_CALM 0.75

/*
 * Take a step back when use is below this share of the limit. Twice the rate costs at most twice as
 * much.
 */
static const double cpu_calm[CPU_STEPS] = { 0, 0.6, 0.6, 0.6, 0.45, 0.45, 0.45 };

#define FAR 2 /* times the limit: one step seldom saves half, so two are given up at once */

#define SAMPLING_SMALL 4 /* one part in so many of the use, or less, is a small part */

#define BIT(step) (1u << (step))

struct ladder_rules {
	unsigned steps;	   /* the last one that may be reached */
	unsigned skip;	   /* bits of steps that have nothing to give up */
	double high, calm; /* shares of the limit */
	unsigned patience, patience_max;
};

static void ladder_move(struct ladder *l, const struct ladder_rules *r, int by)
{
	unsigned from = l->step;
	do
		l->step += (unsigned)by;
	while (r->skip >> l->step & 1);
	l->moved |= BIT(by > 0 ? l->step : from);
	l->calm = 0;
}

static void ladder_give_up(struct ladder *l, const struct ladder_rules *r)
{
	l->n_given_up++;
	ladder_move(l, r, 1);
}

/* Look at one period's use, as a share of the limit. */
static enum governor_move ladder_look(struct ladder *l, const struct ladder_rules *r, double use)
{
	if (!l->patience)
		l->patience = r->patience;
	l->moved = 0;
	l->calm = use < r->calm ? l->calm + 1 : 0;
	l->since_back += l->since_back != 0;
	if (use > r->high && l->step < r->steps) {
		bool too_early = l->since_back && l->since_back <= 2 * l->patience;
		l->patience = !too_early		      ? r->patience
			      : l->patience < r->patience_max ? 2 * l->patience
							      : l->patience;
		l->since_back = 0;
		ladder_give_up(l, r);
		if (use > FAR && l->step < r->steps)
			ladder_give_up(l, r);
		return GOVERNOR_GIVE_UP;
	}
	bool allowed = l->step <= r->steps && !(r->skip >> l->step & 1);
	if (!l->step || (l->calm < l->patience && allowed))
		return GOVERNOR_STAY;
	ladder_move(l, r, -1);
	l->since_back = 1;
	return GOVERNOR_TAKE_BACK;
}

static struct ladder_rules cpu_rules(const struct governor *g, const struct governor_limits *l)
{
	struct ladder_rules r = { CPU_NO_WAITS,	   0, 1, cpu_calm[g->cpu.step], CPU_PATIENCE,
				  CPU_PATIENCE_MAX };
	if (!l->waits)
		r.skip |= BIT(CPU_NO_WAIT_STACKS) | BIT(CPU_NO_WAITS);
	if (l->only_waits)
		r.skip |= BIT(CPU_NO_WAITS);
	if (l->weight_max < 2 || g->keep_rate)
		r.skip |= BIT(CPU_HALF_RATE);
	if (l->weight_max < 4 || g->keep_rate)
		r.skip |= BIT(CPU_QUARTER_RATE);
	while (r.skip >> r.steps & 1)
		r.steps--;
	return r;
}

/* Measure the minute up to now. */
static void measure(struct governor *g, const struct governor_limits *l,
		    const struct governor_reading *r)
{
	uint64_t used = r->cpu_ns - g->since_cpu_ns,
		 sampling = r->sampling_ns - g->since_sampling_ns;
	g->cpu_share =
		(double)used / (double)(r->now_ns - g->since_ns) / (r->n_cpus ? r->n_cpus : 1);
	if (g->cpu.step < CPU_HALF_RATE) /* later the rate is lower, or waits are given up */
		g->keep_rate = l->waits && sampling < used / SAMPLING_SMALL;
	g->measured = true;
}

static void begin_minute(struct governor *g, const struct governor_reading *r)
{
	g->since_ns = r->now_ns;
	g->since_cpu_ns = r->cpu_ns;
	g->since_sampling_ns = r->sampling_ns;
}

enum governor_move governor_look_at_cpu(struct governor *g, const struct governor_limits *l,
					const struct governor_reading *r)
{
	g->weight_max = l->weight_max;
	g->cpu.moved = 0;
	if (!g->since_ns || r->cpu_ns < g->since_cpu_ns) {
		begin_minute(g, r);
		return GOVERNOR_STAY;
	}
	if (r->now_ns - g->since_ns < MINUTE_NS)
		return GOVERNOR_STAY;
	measure(g, l, r);
	begin_minute(g, r);
	const struct ladder_rules rules = cpu_rules(g, l);
	return ladder_look(&g->cpu, &rules, l->cpu > 0 ? g->cpu_share / l->cpu : 0);
}

enum governor_move governor_look_at_memory(struct governor *g, const struct governor_limits *l,
					   const struct governor_reading *r)
{
	const struct ladder_rules rules = {
		MEMORY_FEWER_ROWS, l->waits ? 0 : BIT(MEMORY_NO_WAIT_STACKS),
		MEMORY_HIGH,	   MEMORY_CALM,
		MEMORY_PATIENCE,   MEMORY_PATIENCE_MAX
	};
	return ladder_look(&g->memory, &rules,
			   l->memory ? (double)r->memory / (double)l->memory : 0);
}

void governor_new_minute(struct governor *g)
{
	g->since_ns = 0;
	g->measured = false;
}

void governor_new_limits(struct governor *g)
{
	g->cpu.patience = g->memory.patience = 0;
	g->cpu.since_back = g->memory.since_back = 0;
	governor_new_minute(g);
}

unsigned governor_weight(const struct governor *g)
{
	unsigned weight = g->cpu.step >= CPU_QUARTER_RATE ? 4
			  : g->cpu.step >= CPU_HALF_RATE  ? 2
							  : 1;
	return g->keep_rate ? 1 : g->weight_max && g->weight_max < weight ? g->weight_max : weight;
}

bool governor_waits(const struct governor *g)
{
	return g->cpu.step < CPU_NO_WAITS;
}

bool governor_cpu_is_last(const struct governor *g, const struct governor_limits *l)
{
	return g->cpu.step >= cpu_rules(g, l).steps;
}
