/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Weigh samples and waits by how many threads of the same label value are active at that instant
 * (include/latency.h has the arithmetic). Loaded only for record --latency.
 *
 *   switch out   RUN -> QUEUED, OUTSIDE or INSIDE   mark = clock of the new tier
 *   wake-up      -> QUEUED                          off  += clock - mark; mark = clock of tier 0
 *   switch in    -> RUN                             runq += clock - mark
 *   sample       period / threads in tier 0
 *
 * 1. A thread is a member of at most one group. Its word `member` says which, in which state and
 *    part; only who changes it by compare-and-swap moves the thread's count. So counts never leak,
 *    but for threads whose exit is not seen: those the recorder takes out (sampler_latency.c).
 * 2. Counts are changed by atomic additions. Only the clocks need the lock. The tracepoints hold
 *    it with interrupts off, for some 20 ns. Who does not get it leaves the clock to the next one.
 * 3. A group's slot is taken for another key only where no thread is counted. Who joins counts
 *    itself first and then looks at the key again.
 *
 * Which group a thread is in is seen at switches out and at samples. A change between them counts
 * from when it probably was: for a thread that was woken and has a new label, from its switch in;
 * otherwise from the middle.
 */
#ifndef ASCRIBE_LATENCY_BPF_H
#define ASCRIBE_LATENCY_BPF_H

#include "labels.bpf.h"
#include "latency_state.bpf.h"
#include "offcpu_types.bpf.h"
#include "table.bpf.h"

#define LATENCY_SPINS 128

/* latency_thread.member: 1 + the slot, the state, the part of the counts; 0: no group */
#define MEMBER_SLOT 0xffff
#define MEMBER_STATE_SHIFT 16
#define MEMBER_PART_SHIFT 18
#define MEMBER_PART (1u << MEMBER_PART_SHIFT)
_Static_assert(LATENCY_GROUPS < MEMBER_SLOT && LATENCY_STATES <= 4, "a member's word");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.latency_mask + 1 */
	__type(key, __u32);
	__type(value, struct latency_group);
} latency_groups SEC(".maps");

/* Windows so far, by the recorder: every other one, threads are counted in the other part. */
volatile __u32 latency_window;

/* Counted here, since not all programs may step into a half; the recorder adds them to windows. */
struct latency_flaws latency_flaws;

static __always_inline __u32 latency_part(void)
{
	return latency_window >> 1 & 1;
}

static __always_inline __u32 member_slot(__u32 member)
{
	return (member & MEMBER_SLOT) - 1;
}

static __always_inline __u32 member_state(__u32 member)
{
	return member >> MEMBER_STATE_SHIFT & 3;
}

static __always_inline __u32 member_part(__u32 member)
{
	return member >> MEMBER_PART_SHIFT & 1;
}

static __always_inline __u32 member_word(__u32 slot, __u32 state)
{
	return (slot + 1) | state << MEMBER_STATE_SHIFT | latency_part() << MEMBER_PART_SHIFT;
}

static __always_inline struct latency_group *latency_group_at(__u32 slot)
{
	slot &= cfg.latency_mask;
	return bpf_map_lookup_elem(&latency_groups, &slot);
}

static __always_inline __u64 latency_counts(const struct latency_group *g)
{
	const volatile __u64 *count = g->count;
	return count[0] + count[1];
}

static __always_inline void latency_count(struct latency_group *g, __u32 part, __u64 lanes)
{
	__sync_fetch_and_add(&g->count[part & 1], lanes);
}

/* Read the clock of a state's tier, without its lock. */
static __always_inline __u64 latency_read(const struct latency_group *g, __u32 state)
{
	const volatile __u64 *tier = g->clock.tier;
	return state <= LATENCY_QUEUED ? tier[0] : state == LATENCY_OUTSIDE ? tier[1] : tier[2];
}

/* Advance the clocks of the group in a slot to `now`. */
__noinline int latency_advance_to(__u32 slot, __u64 now)
{
	struct latency_group *g = cfg.latency ? latency_group_at(slot) : 0;
	if (!g)
		return 0;
	bool locked = false;
	for (int i = 0; i < LATENCY_SPINS && !locked; i++)
		locked = !__sync_val_compare_and_swap(&g->lock, 0, 1);
	if (!locked) {
		__sync_fetch_and_add(&latency_flaws.locked, 1);
		return 0;
	}
	latency_advance(&g->clock, latency_counts(g), now);
	__sync_lock_test_and_set(&g->lock, 0);
	return 0;
}

/* ---- joining and leaving ---- */

/* Find the slot of a key, or claim one. Return 1 + the slot; 0: none of those probed is free. */
__noinline __u32 latency_slot(__u64 key)
{
	__u32 at = (__u32)(key >> 20);
	if (!cfg.latency)
		return 0;
	for (__u32 i = 0; i < LATENCY_PROBES; i++) {
		struct latency_group *g = latency_group_at(at + i);
		if (g && *(volatile __u64 *)&g->key == key)
			return ((at + i) & cfg.latency_mask) + 1;
	}
	for (__u32 i = 0; i < LATENCY_PROBES; i++) {
		struct latency_group *g = latency_group_at(at + i);
		if (!g || latency_counts(g))
			continue;
		__u64 was = g->key;
		if (__sync_val_compare_and_swap(&g->key, was, key) != was)
			continue;
		g->debt = 0;
		return ((at + i) & cfg.latency_mask) + 1;
	}
	return 0;
}

/* Add the thread, which is in no group, to this one: it has been running since `since`. */
__noinline int latency_join(struct thread_wait *w, __u64 key, __u64 since, __u64 now)
{
	if (!w || !cfg.latency)
		return 0;
	__u32 slot = latency_slot(key);
	struct latency_group *g = slot ? latency_group_at(slot - 1) : 0;
	if (!g || latency_members(latency_counts(g)) >= LATENCY_THREADS_MAX) {
		__sync_fetch_and_add(&latency_flaws.alone, 1);
		return 0;
	}
	latency_advance_to(slot - 1, since);
	__u64 others = latency_counts(g);
	__u32 member = member_word(slot - 1, LATENCY_RUN);
	latency_count(g, member_part(member), latency_lane(LATENCY_RUN));
	if (*(volatile __u64 *)&g->key != key) { /* claimed for another key meanwhile */
		latency_count(g, member_part(member), -latency_lane(LATENCY_RUN));
		__sync_fetch_and_add(&latency_flaws.alone, 1);
		return 0;
	}
	__s32 debt = latency_debt(now - since, others);
	if (debt && g->debt < LATENCY_DEBT_MAX)
		__sync_fetch_and_add(&g->debt, debt);
	w->latency.key = key;
	__sync_lock_test_and_set(&w->latency.member, member);
	return 0;
}

/* The thread has left its group at `at`; it is `now`. */
__noinline int latency_leave(struct thread_wait *w, __u64 at, __u64 now)
{
	__u32 member = w && cfg.latency ? __sync_lock_test_and_set(&w->latency.member, 0) : 0;
	struct latency_group *g = member ? latency_group_at(member_slot(member)) : 0;
	if (!w || !g)
		return 0;
	latency_advance_to(member_slot(member), at);
	latency_count(g, member_part(member), -latency_lane(member_state(member)));
	__s32 debt = member_state(member) ? 0 : latency_debt(now - at, latency_counts(g));
	if (debt && g->debt > -LATENCY_DEBT_MAX)
		__sync_fetch_and_add(&g->debt, -debt);
	return 0;
}

/* Return the key of the group of a label set. */
static __always_inline __u64 latency_key_of(const struct image *im, __u64 set_id)
{
	__u64 what = image_hash(im, set_id), group = set_group_get(what);
	return group ? group : what;
}

/* ---- states ---- */

/*
 * Put the thread into a state at `now`, and mark the time. Return ns that it weighed since the mark
 * before, in the state that it leaves.
 */
__noinline __u64 latency_move(struct thread_wait *w, __u32 state, __u64 now)
{
	if (!w || !cfg.latency || state >= LATENCY_STATES)
		return 0;
	__u32 member = *(volatile __u32 *)&w->latency.member, was = member_state(member);
	struct latency_group *g = member ? latency_group_at(member_slot(member)) : 0;
	if (!g)
		return 0;
	latency_advance_to(member_slot(member), now);
	for (int i = 0; state != was && i < 2; i++) { /* the iterator changes the part, once */
		__u32 to = member_word(member_slot(member), state);
		if (__sync_val_compare_and_swap(&w->latency.member, member, to) == member) {
			latency_count(g, member_part(to), latency_lane(state));
			latency_count(g, member_part(member), -latency_lane(was));
			break;
		}
		member = *(volatile __u32 *)&w->latency.member;
	}
	__u64 clock = latency_read(g, was), mark = latency_read(g, state);
	return latency_ns(__sync_lock_test_and_set(&w->latency.mark, mark), clock);
}

/* The blocked thread is woken, or it runs and its wake-up was missed. */
static __always_inline void latency_woken(struct thread_wait *w, __u64 now)
{
	w->latency.weight[0] += latency_move(w, LATENCY_QUEUED, now);
}

/* It has a CPU. */
static __always_inline void latency_runs(struct thread_wait *w, __u64 now)
{
	if (member_state(w->latency.member) > LATENCY_QUEUED)
		latency_woken(w, now);
	if (member_state(w->latency.member) == LATENCY_QUEUED)
		w->latency.weight[1] += latency_move(w, LATENCY_RUN, now);
}

/*
 * The running thread's label value was read: key, 0: it has none. Let it be in that group, from
 * when it probably has it. leaves_now: it has just put its label down.
 */
static __always_inline void latency_see(struct thread_wait *w, __u64 key, __u64 now,
					bool leaves_now)
{
	struct latency_thread *l = &w->latency;
	__u64 seen = l->seen && l->seen < now ? l->seen : now, middle = seen + (now - seen) / 2,
	      since = l->arrived ? seen : middle;
	if (l->member && l->key != key)
		latency_leave(w, key ? since : leaves_now ? now : middle, now);
	if (key && !l->member)
		latency_join(w, key, since, now);
	l->seen = now;
	l->arrived = 0;
}

/* ---- hooks of the context switch ---- */

/* The thread is switched out at `now`; state: LATENCY_QUEUED when it is not blocked. */
__noinline int latency_switched_out(struct thread_wait *w, __u32 state, __u64 now)
{
	if (!w || !cfg.latency || now < waits_from)
		return 0;
	const struct image im = { .start_ns = w->who.start_ns,
				  .tgid = w->who.tgid,
				  .exec_id = w->who.exec_id };
	latency_see(w, w->who.set_id ? latency_key_of(&im, w->who.set_id) : 0, now, true);
	if (w->latency.member) {
		latency_runs(w, now); /* its switch in was missed, else nothing */
		latency_move(w, state, now);
	}
	return 0;
}

/* The thread is switched in. */
__noinline int latency_switched_in(struct thread_wait *w, __u64 now)
{
	if (!w || !cfg.latency)
		return 0;
	struct latency_thread *l = &w->latency;
	if (l->member)
		latency_runs(w, now);
	l->seen = now;
	l->arrived = 1;
	return 0;
}

/* What waits weighed that are in no row with their stack goes into the sums. */
static __always_inline void latency_sum(struct thread_wait *w, __u64 now)
{
	struct latency_thread *l = &w->latency;
	if (!(l->weight[0] | l->weight[1]) || *(const volatile __u32 *)&w->held)
		return;
	for (int i = 0; i < 2; i++) {
		l->sum[i].n += l->weight[i] != 0;
		l->sum[i].ns += l->weight[i];
		l->weight[i] = 0;
	}
	if (!w->summed_since)
		w->summed_since = now;
}

/* ---- hooks of the sample ---- */

/*
 * Weigh a sample of the current thread, which stands for row->value ns: into row->first_ns, 0 where
 * it has no label.
 */
__noinline int latency_weigh_sample(const struct image *im, struct row *row)
{
	struct thread_wait *w;
	if (!im || !row || !cfg.latency)
		return 0;
	__u64 now = row->last_ns, ns = row->value,
	      key = row->set_id ? latency_key_of(im, row->set_id) : 0;
	row->first_ns = key ? ns : 0;
	w = bpf_task_storage_get(&waits, bpf_get_current_task_btf(), 0, 0);
	if (!w)
		return 0; /* counted as wait_untracked */
	if (w->latency.member)
		latency_runs(w, now); /* its switch in was missed, else nothing */
	latency_see(w, key, now, false);
	struct latency_group *g =
		w->latency.member ? latency_group_at(member_slot(w->latency.member)) : 0;
	if (!g)
		return 0;
	__s32 debt = *(volatile __s32 *)&g->debt, paid;
	row->first_ns = latency_weigh(ns, latency_counts(g), debt, &paid);
	if (paid)
		__sync_fetch_and_add(&g->debt, -paid);
	return 0;
}

/* Add the weight of the sample whose row was stored. */
__noinline int latency_add_row(__u32 half_key, struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &half_key);
	if (!h || !row || !cfg.latency || !row->first_ns)
		return 0;
	row->kind = ROW_LATENCY;
	row->thinning = 0;
	row->value = row->first_ns;
	if (row_add(half_key, row) < 0)
		count(h, COUNTER_latency_rows_full);
	return 0;
}

/* ---- the scheduler's other tracepoints ---- */

SEC("tp_btf/sched_wakeup")
int on_wakeup_latency(__u64 *ctx)
{
	struct thread_wait *w = bpf_task_storage_get(&waits, (struct task_struct *)ctx[0], 0, 0);
	if (w && w->latency.member && member_state(w->latency.member) > LATENCY_QUEUED)
		latency_woken(w, bpf_ktime_get_boot_ns());
	return 0;
}

/* ---- the iterator ---- */

/*
 * Count the thread in the part of this window. The iterator may be preempted, so it takes no lock;
 * between the two additions the thread counts twice.
 */
static __always_inline void latency_recount(struct thread_wait *w)
{
	__u32 member = *(volatile __u32 *)&w->latency.member, to = member ^ MEMBER_PART;
	struct latency_group *g = member ? latency_group_at(member_slot(member)) : 0;
	if (!g || member_part(member) == latency_part() ||
	    __sync_val_compare_and_swap(&w->latency.member, member, to) != member)
		return;
	latency_count(g, member_part(to), latency_lane(member_state(to)));
	latency_count(g, member_part(member), -latency_lane(member_state(member)));
}

/*
 * Take what a wait weighed until `now`, without the lock: read the clock between two looks at it.
 * 0: not now. *ret_runq: the wait is for a CPU.
 */
static __always_inline __u64 latency_take(struct thread_wait *w, __u64 now, bool *ret_runq)
{
	__u32 member = *(volatile __u32 *)&w->latency.member, state = member_state(member),
	      tier = latency_tier(state);
	struct latency_group *g = member ? latency_group_at(member_slot(member)) : 0;
	__u64 mark = *(volatile __u64 *)&w->latency.mark;
	if (!g || state == LATENCY_RUN)
		return 0;
	__u64 last = __sync_fetch_and_add(&g->clock.last, 0), counts = latency_counts(g),
	      clock = latency_read(g, state);
	if (__sync_fetch_and_add(&g->lock, 0) || __sync_fetch_and_add(&g->clock.last, 0) != last)
		return 0;
	if (latency_active(counts) == tier && now > last)
		clock += latency_share(counts, tier, now - last);
	__u64 ns = latency_ns(mark, clock);
	*ret_runq = !tier;
	return ns && __sync_val_compare_and_swap(&w->latency.mark, mark, clock) == mark ? ns : 0;
}

#endif
