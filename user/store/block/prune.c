/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CLASSES 64 /* a node of class k has a share of 2^-k to 2^(1-k) */

/* The share of each node in the samples and the values of all events, [n_stacks], to be freed. */
static float *shares(const struct dicts *d, struct rows_sum *const *sums, const size_t *n_leaves,
		     size_t n_events)
{
	float *share = calloc(d->n_stacks, sizeof(*share));
	for (size_t e = 0; share && e < n_events; e++) {
		double samples = 0, value = 0;
		for (size_t i = 0; sums[e] && i < n_leaves[e] && i < d->n_leaves; i++) {
			samples += (double)sums[e][i].samples;
			value += (double)sums[e][i].value;
		}
		for (size_t i = 0; samples > 0 && i < n_leaves[e] && i < d->n_leaves; i++)
			if (sums[e][i].samples)
				share[d->leaves[i]] +=
					(float)((double)sums[e][i].samples / samples +
						(value > 0 ? (double)sums[e][i].value / value : 0));
	}
	for (uint32_t id = share ? d->n_stacks : 0; id-- > 1;)
		share[d->stacks[id].parent] += share[id];
	return share;
}

static int class_of(float share)
{
	int k = share > 0 ? -ilogbf(share) : CLASSES - 1;
	return k < 0 ? 0 : k < CLASSES ? k : CLASSES - 1;
}

size_t prune_count(const struct dicts *d, struct rows_sum *const *sums, const size_t *n_leaves,
		   size_t n_events)
{
	bool *used = calloc(d->n_stacks, sizeof(*used));
	size_t n = 0;
	for (size_t e = 0; used && e < n_events; e++)
		for (size_t i = 0; sums[e] && i < n_leaves[e] && i < d->n_leaves; i++)
			for (uint32_t id = sums[e][i].samples ? d->leaves[i] : 0; id && !used[id];
			     id = d->stacks[id].parent) {
				used[id] = true;
				n++;
			}
	free(used);
	return n;
}

int prune_choose(const struct dicts *d, struct rows_sum *const *sums, const size_t *n_leaves,
		 size_t n_events, size_t most, bool **ret)
{
	float *share = shares(d, sums, n_leaves, n_events);
	bool *keep = calloc(d->n_stacks, sizeof(*keep));
	size_t n[CLASSES] = { 0 }, sum = 0;
	int last = 0;
	if (!share || !keep) {
		free(share);
		free(keep);
		return -ENOMEM;
	}
	for (uint32_t id = 1; id < d->n_stacks; id++)
		n[class_of(share[id])] += share[id] > 0;
	while (last < CLASSES - 1 && sum + n[last] <= most)
		sum += n[last++];
	/* Sums of parts are rounded: a parent counts as large as its largest child. */
	for (uint32_t id = d->n_stacks; id-- > 1;) {
		keep[id] |= share[id] > 0 && (class_of(share[id]) < last || dicts_is_idle(d, id));
		keep[d->stacks[id].parent] |= keep[id];
	}
	free(share);
	*ret = keep;
	return 0;
}

int prune_translate(struct translation *t, const bool *keep)
{
	uint32_t mine;
	int rc = 0;
	for (uint32_t id = 1; !rc && id < t->from->n_stacks; id++)
		rc = keep[id] ? translate_stack(t, id, &mine) : 0;
	return rc;
}
