/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CLASSES 64 /* a node of class k has a share of 2^-k to 2^(1-k) */

static size_t leaves_of(const struct prune_sums *of, size_t event)
{
	size_t n = of->v[event] ? of->n_leaves[event] : 0;
	return n < of->d->n_leaves ? n : of->d->n_leaves;
}

/*
 * Return the node that a node's samples are carried to: the one that stands for it, else its
 * parent.
 */
static uint32_t above(const struct prune_sums *of, uint32_t id)
{
	return of->same && of->same[id] != id ? of->same[id] : of->d->stacks[id].parent;
}

int prune_used(const struct prune_sums *of, struct idset *ret)
{
	const struct dicts *d = of->d;
	int rc = idset_init(ret, d->n_stacks);
	for (size_t e = 0; !rc && e < of->n_events; e++)
		for (size_t i = 0, n = leaves_of(of, e); i < n; i++)
			for (uint32_t id = of->v[e][i].samples ? d->leaves[i] : 0;
			     id && !idset_has(ret, id); id = above(of, id))
				idset_add(ret, id);
	if (!rc)
		idset_add(ret, 0);
	return rc;
}

/* Add the shares that the leaves have in the samples and the values of an event. */
static void add_shares(const struct prune_sums *of, size_t e, float *share)
{
	const struct dicts *d = of->d;
	size_t n = leaves_of(of, e);
	double samples = 0, value = 0;
	for (size_t i = 0; i < n; i++) {
		const struct rows_sum *sum = &of->v[e][i];
		if (sum->samples && !dicts_is_idle(d, d->leaves[i])) {
			samples += (double)sum->samples;
			value += (double)sum->value;
		}
	}
	for (size_t i = 0; i < n; i++) {
		const struct rows_sum *sum = &of->v[e][i];
		if (sum->samples)
			share[d->leaves[i]] +=
				(float)((samples > 0 ? (double)sum->samples / samples : 1) +
					(value > 0 ? (double)sum->value / value : 0));
	}
}

/* [n_stacks], set for those that are used, to be freed. */
static float *shares(const struct prune_sums *of, const struct idset *used)
{
	float *share = malloc(of->d->n_stacks * sizeof(*share));
	if (!share)
		return NULL;
	for (uint32_t id = 0; id != IDSET_NONE; id = idset_next(used, id + 1))
		share[id] = 0;
	for (size_t e = 0; e < of->n_events; e++)
		add_shares(of, e, share);
	for (uint32_t id = idset_before(used, of->d->n_stacks); id && id != IDSET_NONE;
	     id = idset_before(used, id))
		share[above(of, id)] += share[id];
	return share;
}

static int class_of(float share)
{
	int k = share > 0 ? -ilogbf(share) : CLASSES - 1;
	return k < 0 ? 0 : k < CLASSES ? k : CLASSES - 1;
}

/* Return the first class of which not all fit. */
static int last_class(const float *share, const struct idset *used, size_t most)
{
	size_t n[CLASSES] = { 0 }, sum = 0;
	int last = 0;
	for (uint32_t id = idset_next(used, 1); id != IDSET_NONE; id = idset_next(used, id + 1))
		n[class_of(share[id])]++;
	while (last < CLASSES - 1 && sum + n[last] <= most)
		sum += n[last++];
	return last;
}

int prune_choose(const struct prune_sums *of, const struct idset *used, size_t most, double least,
		 struct idset *ret)
{
	float *share = shares(of, used);
	int rc = share ? idset_init(ret, of->d->n_stacks) : -ENOMEM;
	int last = rc ? 0 : last_class(share, used, most);
	/* Sums of parts are rounded: a parent counts as large as its largest child. */
	for (uint32_t id = rc ? 0 : idset_before(used, of->d->n_stacks); id && id != IDSET_NONE;
	     id = idset_before(used, id)) {
		bool stands = !of->same || of->same[id] == id;
		if (stands && ((class_of(share[id]) < last && share[id] >= least) ||
			       dicts_is_idle(of->d, id)))
			idset_add(ret, id);
		if (idset_has(ret, id))
			idset_add(ret, above(of, id));
	}
	free(share);
	return rc;
}

int prune_translate(struct translation *t, const struct idset *keep)
{
	uint32_t mine;
	int rc = 0;
	for (uint32_t id = idset_next(keep, 1); !rc && id != IDSET_NONE;
	     id = idset_next(keep, id + 1))
		rc = translate_stack(t, id, &mine);
	return rc;
}
