/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's part for weights (bpf/latency.bpf.h): take threads out of their groups whose end
 * was not seen.
 *
 *   window 2k      threads are counted in part k mod 2; some are still in the other one
 *   its end        the iterator moves these, too
 *   window 2k + 1  nobody is counted in the other part
 *   its end        what is left there for a whole window is nobody's: take it out
 */
#include "sampler/sampler_int.h"

#include "ascribe/label_abi.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(SAMPLER_LATENCY_KEY == ASCRIBE_KEY_MAX + 1, "any key of the label ABI");

int sampler_set_latency(struct sampler_config *cfg, const char *key, struct err *err)
{
	bool clock = false;
	size_t len = key ? strlen(key) : 0;
	memset(cfg->latency, 0, sizeof(cfg->latency));
	if (!key)
		return 0;
	if (!len || len >= sizeof(cfg->latency))
		return err_set(err, -EINVAL, "--latency '%.80s': a label's key has 1 to %d bytes",
			       key, ASCRIBE_KEY_MAX);
	for (unsigned i = 0; i < cfg->n_events; i++)
		clock |= event_is_clock(&cfg->event[i]);
	if (!clock)
		return err_set(err, -EINVAL,
			       "--latency weighs samples of a clock: record -e cpu-clock, too");
	memcpy(cfg->latency, key, len);
	return 0;
}

int sampler_map_latency(struct sampler *s, struct err *err)
{
	const struct sampler_table groups = { MAP_latency_groups,
					      LATENCY_GROUPS * sizeof(*s->groups),
					      (void **)&s->groups };
	return s->latency ? sampler_map_tables(s, &groups, 1, err) : 0;
}

void sampler_unmap_latency(struct sampler *s)
{
	if (s->groups)
		munmap(s->groups, LATENCY_GROUPS * sizeof(*s->groups));
}

/*
 * Take out what is left in a part of a group; return how many threads. It is below 0 where a
 * thread was taken out that the iterator had not seen.
 */
static uint64_t take_out(struct latency_group *g, unsigned part)
{
	uint64_t left = __atomic_load_n(&g->count[part], __ATOMIC_RELAXED), n = 0;
	if (!left)
		return 0;
	__atomic_fetch_sub(&g->count[part], left, __ATOMIC_SEQ_CST);
	if (!(left >> 63))
		n = latency_members(left);
	return n ? n : 1;
}

void sampler_latency_end_window(struct sampler *s, struct sampler_latency *ret)
{
	*ret = (struct sampler_latency){ 0 };
	if (!s->groups)
		return;
	const uint32_t window = s->bss->latency_window;
	for (uint32_t i = 0; window & 1 && i < LATENCY_GROUPS; i++)
		ret->recounted += take_out(&s->groups[i], !(window >> 1 & 1));
	__atomic_store_n(&s->bss->latency_window, window + 1, __ATOMIC_SEQ_CST);
	const uint64_t locked = __atomic_load_n(&s->bss->latency_flaws.locked, __ATOMIC_RELAXED),
		       alone = __atomic_load_n(&s->bss->latency_flaws.alone, __ATOMIC_RELAXED);
	ret->locked = locked - s->flaws.locked;
	ret->alone = alone - s->flaws.alone;
	s->flaws.locked = locked;
	s->flaws.alone = alone;
}
