/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Attribute run queue time to the threads that ran on that CPU meanwhile. Each CPU keeps its last
 * runs (cfg.run_mask); time that they do not cover is OCCUPANT_OTHER. The parts add up to the wait,
 * to the nanosecond.
 */
#ifndef ASCRIBE_RUNQ_BLAME_BPF_H
#define ASCRIBE_RUNQ_BLAME_BPF_H

#include "offcpu_account.bpf.h"
#include "offcpu_clock.bpf.h"

#define RUN_BEFORE ~0ull /* blame_run: the run ended before the wait began */

/* ---- sums by occupant ---- */

/* Return where an occupant's sum is; its neighbour (index ^ 1) is the second place. */
static __always_inline __u64 blame_index(const struct occupant *who)
{
	__u64 k = who->tgid ? who->tgid ^ (who->set_id >> 32) : who->start_ns;
	barrier_var(k);
	return k & (BLAME_SUMS - 1);
}

static __always_inline void blame_sum_add(struct blame_sum *sum, __u64 ns)
{
	sum->n++;
	sum->ns += ns;
}

/* Add a part of a wait whose occupant is not in its first place. */
__noinline int blame_add_slow(__u32 cpu, struct thread_wait *w, const struct occupant *who,
			      __u64 ns)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc || !w || !who)
		return 0;
	__u64 k = blame_index(who);
	struct blame_sum *sum = &w->blame[k], *second = &w->blame[k ^ 1];
	bool held = sums_are_held(w);
	if (!held && second->n && same_occupant(who, &second->who)) {
		blame_sum_add(second, ns);
		return 0;
	}
	if (sum->n && !second->n)
		sum = second;
	__u32 key = half_enter(c, sc);
	row_begin(sc, w);
	if (held)
		row_add_blame(key, who, ns, 1);
	else if (sum->n)
		row_add_blame(key, &sum->who, sum->ns, sum->n);
	half_leave(c);
	if (!held)
		*sum = (struct blame_sum){ .who = *who, .ns = ns, .n = 1 };
	return 0;
}

static __always_inline void blame_add(__u32 cpu, struct thread_wait *w, const struct occupant *who,
				      __u64 ns)
{
	struct blame_sum *sum = &w->blame[blame_index(who)];
	if (unlikely(!sum->n || sums_are_held(w) || !same_occupant(who, &sum->who)))
		blame_add_slow(cpu, w, who, ns);
	else
		blame_sum_add(sum, ns);
}

/* ---- runs ---- */

/* Return the ns of [from, to) during which the i-th newest run of a CPU had it. */
static __always_inline __u64 run_overlap(struct sched_cpu *on, __u32 i, __u64 from, __u64 to,
					 struct cpu_run **ret)
{
	struct cpu_run *r = run_at(on, on->head - i);
	__u64 begin = r->begin, end = r->end;
	*ret = r;
	if (!begin)
		return 0;
	if (end > to)
		end = to;
	if (begin < from)
		begin = from;
	return end > begin ? end - begin : 0;
}

/*
 * Attribute what the i-th newest run of CPU `on_cpu` had of [sc->from, sc->until), at most `left`
 * ns, and return it. A global function: the verifier cannot follow clang 19's loop otherwise.
 */
__noinline __u64 blame_run(__u32 cpu, struct thread_wait *w, __u32 on_cpu, __u32 i, __u64 left)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	struct sched_cpu *on = bpf_map_lookup_elem(&sched_cpus, &on_cpu);
	struct cpu_run *r;
	if (!sc || !on || !w)
		return 0;
	__u64 part = run_overlap(on, i, sc->from, sc->until, &r);
	if (!part)
		return r->end > sc->from ? 0 : RUN_BEFORE;
	part = part < left ? part : left; /* the other CPU may be writing this run */
	blame_add(cpu, w, &r->who, part);
	return part;
}

#define RUNS_PART 64 /* that one call looks at: the verifier checks its loop once */
#define RUNS_END (1ull << 63)

/*
 * Attribute what RUNS_PART runs, from the one numbered `first` on, had of `left` ns. Return what is
 * left, with RUNS_END when no older run had any of it.
 */
__noinline __u64 blame_part(__u32 cpu, struct thread_wait *w, __u32 on, __u32 first, __u64 left)
{
	if (!w)
		return left;
	for (__u32 i = 0; i < RUNS_PART && left; i++) {
		__u64 part = blame_run(cpu, w, on, first + i, left);
		if (part == RUN_BEFORE)
			return left | RUNS_END;
		left -= part;
	}
	return left;
}

/*
 * Attribute [from, to) to those who ran on CPU `on`; the rest, and `elsewhere` ns more, to
 * OCCUPANT_OTHER.
 */
__noinline int blame_runs(__u32 cpu, struct thread_wait *w, __u64 from, __u64 to, __u64 elsewhere)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!sc || !w)
		return 0;
	__u64 left = to - from;
	__u32 on = BACKEND(queue, w, cpu);
	sc->from = from;
	sc->until = to;
	sc->other.start_ns = OCCUPANT_OTHER;
	for (__u32 i = 0; i <= cfg.run_mask && left && !(left & RUNS_END); i += RUNS_PART)
		left = blame_part(cpu, w, on, i, left);
	left &= ~RUNS_END;
	if (left + elsewhere)
		blame_add(cpu, w, &sc->other, left + elsewhere);
	return 0;
}

/*
 * Does one run, which ends at `to`, cover [from, to) of this CPU's queue? The usual case, at a
 * fraction of the cost.
 */
static __always_inline bool run_covers(const struct cpu_run *run, __u64 from, __u64 to)
{
	return run->begin <= from && run->end == to;
}

/* Attribute run queue time that ended at `arrived` on this CPU. */
static __always_inline void blame_wait(const struct switch_ctx *s, __u64 arrived, __u64 here,
				       __u64 elsewhere)
{
	if (unlikely(elsewhere || BACKEND(queue, s->wait, s->cpu) != s->cpu ||
		     !run_covers(s->last, arrived - here, arrived)))
		blame_runs(s->cpu, s->wait, arrived - here, arrived, elsewhere);
	else
		blame_add(s->cpu, s->wait, &s->last->who, here);
}

#endif
