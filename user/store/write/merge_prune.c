/* SPDX-License-Identifier: Apache-2.0 */
/* A parent with more stacks than its dictionaries may have. */
#include "store/write/merge.h"

#include "store/block/prune.h"

#include <stdlib.h>

/* Events and the text of label sets keep their ids, which sums and lists have. */
static int copy_ids(struct translation *t)
{
	const struct strings *text = &t->from->label_text;
	uint32_t id;
	int rc = 0;
	for (uint32_t i = 0; !rc && i < t->from->n_events; i++)
		rc = translate_event(t, i, &id);
	for (uint32_t i = 1; !rc && i < text->n; i++) {
		size_t len;
		const char *s = strings_get(text, i, &len);
		rc = strings_add(&t->to->label_text, s, len, &id);
	}
	return rc;
}

/* The sums so far, by the leaves of other dictionaries. */
static int move_sums(struct merge *m, struct translation *t)
{
	struct merge to = { 0 };
	int rc = 0;
	for (uint32_t e = 0; !rc && e < m->n_events; e++)
		for (uint32_t i = 0; !rc && i < m->leaves_cap[e]; i++) {
			const struct rows_sum *from = &m->leaves[e][i];
			struct rows_sum *sum;
			uint32_t leaf;
			if (!from->samples)
				continue;
			rc = translate_leaf(t, i, &leaf);
			if (!rc)
				rc = merge_leaf_sum(&to, e, leaf, &sum);
			if (rc)
				break;
			sum->samples += from->samples;
			sum->value += from->value;
		}
	struct merge *old = rc ? &to : m;
	for (size_t e = 0; e < old->n_events; e++)
		free(old->leaves[e]);
	free(old->leaves);
	free(old->leaves_cap);
	if (rc)
		return rc;
	m->leaves = to.leaves;
	m->leaves_cap = to.leaves_cap;
	m->n_events = to.n_events;
	return 0;
}

/* The nodes of the largest stacks of the sums so far. */
static int choose(const struct prune_sums *of, size_t most, struct idset *ret)
{
	struct prune_nodes used = { 0 };
	int rc = prune_used(of, &used);
	if (!rc)
		rc = prune_choose(of, &used, most, 0, ret);
	prune_nodes_fini(&used);
	return rc;
}

/* The sums so far, with lists of the leaves that have any. */
static int list_leaves(const struct merge *m, struct leaf_sums *events)
{
	for (size_t e = 0; e < m->n_events; e++) {
		events[e].v = m->leaves[e];
		events[e].leaves = malloc(m->leaves_cap[e] * sizeof(*events[e].leaves));
		if (!events[e].leaves)
			return -ENOMEM;
		for (uint32_t i = 0; i < m->leaves_cap[e]; i++)
			if (m->leaves[e][i].samples)
				events[e].leaves[events[e].n++] = i;
	}
	return 0;
}

/* Add the largest stacks, at most `most`, to the other dictionaries. */
static int move_stacks(const struct merge *m, size_t most, struct translation *t)
{
	struct leaf_sums *events = calloc(m->n_events, sizeof(*events));
	struct shape shape = { 0 };
	const struct prune_sums of = { t->from, &shape, events, m->n_events };
	struct idset keep = { 0 };
	uint32_t id;
	int rc = events ? list_leaves(m, events) : -ENOMEM;
	if (!rc)
		rc = shape_init(&shape, t->from, NULL);
	if (!rc)
		rc = choose(&of, most, &keep);
	for (uint32_t i = rc ? IDSET_NONE : idset_next(&keep, 1); !rc && i != IDSET_NONE;
	     i = idset_next(&keep, i + 1))
		rc = translate_stack(t, shape.v[i].last, &id);
	for (size_t e = 0; events && e < m->n_events; e++)
		free(events[e].leaves);
	free(events);
	shape_fini(&shape);
	idset_fini(&keep);
	return rc;
}

/*
 * The parent has more stacks than its dictionaries or a block may have: it goes on with the largest
 * ones, in new dictionaries, and what is below them becomes (other).
 */
int merge_prune(struct merge *m, size_t most)
{
	struct dicts fresh;
	struct translation t = { .from = merge_dicts(m), .to = &fresh };
	int rc = dicts_init(&fresh, true);
	if (!rc)
		rc = copy_ids(&t);
	if (!rc)
		rc = move_stacks(m, most, &t);
	t.most_bytes = TRANSLATE_FROZEN;
	if (!rc)
		rc = move_sums(m, &t);
	translation_fini(&t);
	if (rc) {
		dicts_fini(&fresh);
		return merge_failed(m, rc);
	}
	writer_replace_parent(m->w, m->level, &fresh);
	for (size_t i = 0; i < m->n_sources; i++)
		translation_fini(&m->sources[i]->to);
	m->pruned = true;
	return 0;
}
