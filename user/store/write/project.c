/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Projections in the making. Values are told apart as they come; when they take too much memory the
 * key with the largest ones is left out.
 */
#include "store/write/project.h"

#include "store/read/block_data.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of the values in the making: above, the key with the largest ones is left out. */
#define MEMORY_MAX (8u << 20)
#define CELL_HEAP 16 /* what malloc adds to a piece of memory */

int project_failed(const struct project *p, int rc)
{
	return merge_failed(p->m, rc);
}

int project_damaged(const struct project *p, const struct block_ref *r)
{
	return block_damaged(&p->m->w->s, r, p->m->err);
}

void project_key_fini(struct column_key *k)
{
	for (size_t i = 0; i < k->n; i++) {
		for (size_t c = 0; c < k->v[i].n_cells; c++)
			cell_fini(&k->v[i].cells[c]);
		free(k->v[i].cells);
		free((char *)k->v[i].label.str);
	}
	free(k->v);
	idhash_fini(&k->hash);
	k->v = NULL;
	k->n = k->cap = 0;
}

static size_t cell_bytes(const struct cell *c)
{
	return sizeof(*c) + c->groups.cap + CELL_HEAP;
}

static size_t value_bytes(const struct value *v)
{
	size_t sum = sizeof(*v) + v->label.len + 2 * CELL_HEAP;
	for (size_t i = 0; i < v->n_cells; i++)
		sum += cell_bytes(&v->cells[i]);
	return sum;
}

static size_t key_bytes(const struct column_key *k)
{
	size_t sum = 0;
	for (size_t i = 0; i < k->n; i++)
		sum += value_bytes(&k->v[i]);
	return sum;
}

static void leave_out(struct project *p, struct column_key *k)
{
	p->bytes -= key_bytes(k);
	k->left_out = true;
	project_key_fini(k);
}

static void limit_memory(struct project *p)
{
	while (p->bytes > MEMORY_MAX) {
		struct column_key *largest = NULL;
		size_t most = 0;
		for (size_t i = 0; i < p->n_keys; i++) {
			size_t bytes = key_bytes(&p->keys[i]);
			if (bytes > most) {
				most = bytes;
				largest = &p->keys[i];
			}
		}
		if (!largest)
			return;
		leave_out(p, largest);
	}
}

static bool same_value(const void *ctx, uint32_t id, const void *key)
{
	return !value_compare(&((const struct column_key *)ctx)->v[id].label, key);
}

static uint32_t hash_value(struct column_key *k, const struct settable_label *v)
{
	return v->type == LABEL_INT ? idhash_hash(&k->hash, &v->num, sizeof(v->num))
				    : idhash_hash(&k->hash, v->str, v->len);
}

static int find_key(struct project *p, const char *key, size_t len, size_t *ret)
{
	struct merge_key *k;
	for (*ret = 0; *ret < p->n_keys; (*ret)++) {
		k = &p->m->keys[p->keys[*ret].key];
		if (k->len == len && !memcmp(k->key, key, len))
			return 0;
	}
	int rc = merge_need_key(p->m, key, len, &k);
	if (rc || !k) {
		*ret = SIZE_MAX;
		return rc;
	}
	rc = ARRAY_RESERVE(p->keys, p->keys_cap, p->n_keys + 1);
	if (!rc)
		p->keys[p->n_keys++] = (struct column_key){ .key = (size_t)(k - p->m->keys) };
	return rc;
}

int project_find_value(struct project *p, const char *key, size_t len,
		       const struct settable_label *label, uint32_t *ret)
{
	size_t i;
	*ret = NO_VALUE;
	int rc = find_key(p, key, len, &i);
	if (rc || i == SIZE_MAX || p->keys[i].left_out)
		return rc;
	struct column_key *k = &p->keys[i];
	uint32_t hash = hash_value(k, label),
		 id = idhash_find(&k->hash, hash, same_value, k, label);
	if (id == IDHASH_NONE) {
		if (k->n >= PROJECTED_MAX) {
			leave_out(p, k);
			return 0;
		}
		rc = idhash_reserve(&k->hash);
		if (!rc)
			rc = ARRAY_RESERVE(k->v, k->cap, k->n + 1);
		char *text = rc || label->type == LABEL_INT ? NULL : malloc((size_t)label->len + 1);
		if (rc || (label->type != LABEL_INT && !text))
			return -ENOMEM;
		if (text)
			memcpy(text, label->str, label->len);
		id = (uint32_t)k->n;
		k->v[k->n] = (struct value){ .label = *label };
		k->v[k->n++].label.str = text;
		idhash_put(&k->hash, hash, id);
		p->bytes += value_bytes(&k->v[id]);
	}
	*ret = VALUE_OF(i, id);
	return 0;
}

int project_touch(struct project *p, uint32_t value, const struct store_row *row)
{
	struct column_key *k = &p->keys[KEY_OF(value)];
	if (k->left_out)
		return 0;
	struct value *v = &k->v[INDEX_OF(value)];
	if (v->touched != p->group) {
		if (ARRAY_RESERVE(p->touched, p->touched_cap, p->n_touched + 1))
			return project_failed(p, -ENOMEM);
		p->touched[p->n_touched++] = value;
		v->touched = p->group;
		v->samples = v->value = 0;
	}
	v->samples += row->samples;
	v->value += row->value;
	return 0;
}

int project_find_cell(struct project *p, struct value *v, uint32_t event, bool idle,
		      struct cell **ret)
{
	for (size_t i = 0; i < v->n_cells; i++)
		if (v->cells[i].event == event && v->cells[i].idle == idle) {
			*ret = &v->cells[i];
			return 0;
		}
	/* Few values have more than one or two. */
	struct cell *cells = realloc(v->cells, (v->n_cells + 1) * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	v->cells = cells;
	*ret = &cells[v->n_cells++];
	**ret = (struct cell){ .event = event,
			       .idle = idle,
			       .period = merge_dicts(p->m)->events[event].period };
	p->bytes += cell_bytes(*ret);
	return 0;
}

int project_flush_group(struct project *p, uint32_t event, uint32_t leaf, bool idle)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_touched; i++) {
		struct column_key *k = &p->keys[KEY_OF(p->touched[i])];
		struct cell *c;
		if (k->left_out)
			continue;
		struct value *v = &k->v[INDEX_OF(p->touched[i])];
		rc = project_find_cell(p, v, event, idle, &c);
		if (rc)
			break;
		p->bytes -= cell_bytes(c);
		rc = cell_add(c, leaf, v->samples, v->value);
		p->bytes += cell_bytes(c);
		k->samples += v->samples;
	}
	p->n_touched = 0;
	limit_memory(p);
	return rc ? project_failed(p, rc) : 0;
}

int project_begin(struct project **ret, struct merge *m)
{
	struct project *p = calloc(1, sizeof(*p));
	bool all = true;
	*ret = NULL;
	if (!p)
		return merge_failed(m, -ENOMEM);
	p->m = m;
	p->out.lists = &m->lists;
	p->out.groups = &m->groups;
	int rc = m->level == 2 ? project_list_windows(p, &all) : 0;
	if (rc || !all)
		project_free(p);
	else
		*ret = p;
	return rc;
}

int project_step(struct project *p, size_t *budget, bool *ret_done)
{
	return p->m->level == 2 ? project_step_windows(p, budget, ret_done)
				: project_step_parts(p, budget, ret_done);
}

void project_free(struct project *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_windows; i++)
		project_window_fini(&p->windows[i]);
	free(p->windows);
	for (size_t i = 0; i < p->n_keys; i++)
		project_key_fini(&p->keys[i]);
	free(p->keys);
	free(p->narrow.first);
	free(p->narrow.list);
	free(p->touched);
	for (size_t i = 0; i < p->n_parts; i++) {
		value_list_fini(&p->parts[i].list);
		buf_fini(&p->parts[i].raw);
		block_keys_fini(&p->parts[i].keys);
		block_data_fini(&p->parts[i].d);
	}
	free(p->parts);
	free(p->entries);
	projections_fini(&p->out);
	free(p);
}
