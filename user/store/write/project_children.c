/* SPDX-License-Identifier: Apache-2.0 */
/* Above level 2 a value's groups are the sum of those that the children have, value by value. */
#include "store/dict/translate.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/write/project.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int open_parts(struct project *p)
{
	struct merge *m = p->m;
	struct store *s = &m->w->s;
	int rc = 0;
	p->parts = calloc(m->n_children, sizeof(*p->parts));
	if (!p->parts)
		return project_failed(p, -ENOMEM);
	while (!rc && p->n_parts < m->n_children) {
		struct part *part = &p->parts[p->n_parts];
		part->child = &m->children[p->n_parts++]; /* counted first: freed after a failure */
		rc = merge_source(m, part->child, &part->source);
		rc = rc ? rc : block_read(s, &part->child->ref, WANT_KEYS, &part->d, m->err);
		rc = rc ? rc : contents_keys(s, &part->child->ref, &part->d, &part->keys, m->err);
	}
	return rc;
}

static int next_value(struct project *p, struct part *part)
{
	int more = value_list_next(&part->list);
	part->live = more > 0;
	return more == -ENOMEM ? project_failed(p, more)
	       : more < 0      ? project_damaged(p, &part->child->ref)
			       : 0;
}

/* The list of a key in each child, at its first value. */
static int open_lists(struct project *p, const struct merge_key *key)
{
	struct store *s = &p->m->w->s;
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_parts; i++) {
		struct part *part = &p->parts[i];
		const struct block_key *k = block_keys_find(&part->keys, key->key, key->len);
		value_list_fini(&part->list);
		part->raw.len = 0;
		part->live = false;
		if (!k)
			continue;
		const struct block_column at = { k->at, k->raw_len, k->stored_len, k->crc,
						 k->codec };
		rc = merge_source(p->m, part->child, &part->source);
		rc = rc ? rc
			: block_read_piece(s, &part->child->ref, &part->d.head, COLUMN_VALUES, &at,
					   &part->raw, p->m->err);
		if (!rc && value_list_begin(&part->list, &part->raw, part->source->n_events,
					    part->source->events))
			rc = project_damaged(p, &part->child->ref);
		rc = rc ? rc : next_value(p, part);
	}
	return rc;
}

static const struct part *least(const struct project *p)
{
	const struct part *best = NULL;
	for (size_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].live &&
		    (!best || value_compare(&p->parts[i].list.value, &best->list.value) < 0))
			best = &p->parts[i];
	return best;
}

/* How many values the key has in all children together; the lists are at their ends then. */
static int count_values(struct project *p, size_t *ret)
{
	const struct part *best;
	int rc = 0;
	for (*ret = 0; !rc && (best = least(p)); (*ret)++) {
		struct part *first = (struct part *)best;
		for (size_t i = 0; !rc && i < p->n_parts; i++)
			if (&p->parts[i] != first && p->parts[i].live &&
			    !value_compare(&p->parts[i].list.value, &first->list.value))
				rc = next_value(p, &p->parts[i]);
		rc = rc ? rc : next_value(p, first);
	}
	return rc;
}

static int add_entries(struct project *p, struct part *part, size_t *budget)
{
	struct store *s = &p->m->w->s;
	const struct value_list *l = &part->list;
	const struct block_column at = { l->at, l->raw_len, l->stored_len, l->crc, l->codec };
	struct groups_reader in;
	struct buf raw = BUF_INIT;
	int more, rc = merge_source(p->m, part->child, &part->source);
	rc = rc ? rc
		: block_read_piece(s, &part->child->ref, &part->d.head, COLUMN_PROJECTIONS, &at,
				   &raw, p->m->err);
	if (!rc)
		groups_begin(&in, l, &raw, part->source->to.from->n_leaves);
	while (!rc && (more = groups_next(&in))) {
		struct entry e = { .idle = in.idle,
				   .samples = in.row.samples,
				   .value = in.row.value };
		if (more < 0) {
			rc = project_damaged(p, &part->child->ref);
			break;
		}
		rc = translate_leaf(&part->source->to, in.row.stack, &e.leaf);
		if (!rc)
			rc = translate_event(&part->source->to, in.row.event, &e.event);
		if (!rc)
			rc = ARRAY_RESERVE(p->entries, p->entries_cap, p->n_entries + 1);
		if (!rc)
			p->entries[p->n_entries++] = e;
		rc = rc ? project_failed(p, rc) : 0;
		*budget -= *budget > 0;
	}
	buf_fini(&raw);
	return rc;
}

static int by_place(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;
	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	if (a->idle != b->idle)
		return a->idle ? 1 : -1;
	return (a->leaf > b->leaf) - (a->leaf < b->leaf);
}

static int put_entries(struct project *p, const struct settable_label *label)
{
	struct value v = { .label = *label };
	int rc = 0;
	qsort(p->entries, p->n_entries, sizeof(*p->entries), by_place);
	for (size_t i = 0, end; !rc && i < p->n_entries; i = end) {
		struct entry e = p->entries[i];
		struct cell *c;
		for (end = i + 1; end < p->n_entries && !by_place(&p->entries[end], &e); end++) {
			e.samples += p->entries[end].samples;
			e.value += p->entries[end].value;
		}
		rc = project_find_cell(p, &v, e.event, e.idle, &c);
		if (!rc)
			rc = cell_add(c, e.leaf, e.samples, e.value);
	}
	if (!rc)
		rc = projections_add(&p->out, label, v.cells, v.n_cells);
	for (size_t i = 0; i < v.n_cells; i++)
		cell_fini(&v.cells[i]);
	free(v.cells);
	return rc ? project_failed(p, rc) : 0;
}

/* The next value of the key at hand, from the children that have it. */
static int add_value(struct project *p, size_t *budget)
{
	struct part *first = (struct part *)least(p);
	int rc = 0;
	p->n_entries = 0;
	for (size_t i = 0; !rc && i < p->n_parts; i++) {
		struct part *part = &p->parts[i];
		if (!part->live || value_compare(&part->list.value, &first->list.value))
			continue;
		rc = add_entries(p, part, budget);
	}
	rc = rc ? rc : put_entries(p, &first->list.value);
	for (size_t i = 0; !rc && i < p->n_parts; i++) {
		struct part *part = &p->parts[i];
		if (part != first && part->live &&
		    !value_compare(&part->list.value, &first->list.value))
			rc = next_value(p, part);
	}
	*budget -= *budget > 0;
	return rc ? rc : next_value(p, first);
}

static int open_key(struct project *p, struct merge_key *key)
{
	size_t n = 0;
	int rc = open_lists(p, key);
	rc = rc ? rc : count_values(p, &n);
	key->unprojected |= n > PROJECTED_MAX;
	if (rc || key->unprojected)
		return rc;
	p->open = true;
	return open_lists(p, key);
}

int project_step_parts(struct project *p, size_t *budget, bool *ret_done)
{
	struct merge *m = p->m;
	int rc = p->parts ? 0 : open_parts(p);
	while (!rc && *budget && p->key < m->n_keys) {
		struct merge_key *key = &m->keys[p->key];
		if (!p->open && !key->unprojected) {
			rc = open_key(p, key);
			continue;
		}
		if (p->open && least(p)) {
			rc = add_value(p, budget);
			continue;
		}
		if (p->open && projections_end_key(&p->out, &key->out))
			rc = project_failed(p, -ENOMEM);
		p->open = false;
		p->key++;
	}
	*ret_done = !rc && p->key == m->n_keys;
	return rc;
}
