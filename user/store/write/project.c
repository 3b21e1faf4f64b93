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

#define MEMORY_MAX \
	(16u \
	 << 20) /* of the values in the making: above, the key with the most of them is left   \
		       out */

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

static size_t key_bytes(const struct column_key *k)
{
	size_t sum = k->cap * sizeof(*k->v);
	for (size_t i = 0; i < k->n; i++) {
		sum += k->v[i].cells_cap * sizeof(*k->v[i].cells) + k->v[i].label.len;
		for (size_t c = 0; c < k->v[i].n_cells; c++)
			sum += k->v[i].cells[c].leaves.cap + k->v[i].cells[c].counts.cap +
			       k->v[i].cells[c].values.cap;
	}
	return sum;
}

static void leave_out(struct project *p, struct column_key *k)
{
	size_t bytes = key_bytes(k);
	k->left_out = true;
	project_key_fini(k);
	p->bytes -= bytes < p->bytes ? bytes : p->bytes;
}

/* The estimate only grows; what there really is decides. */
static void limit_memory(struct project *p)
{
	if (p->bytes <= MEMORY_MAX)
		return;
	struct column_key *largest = NULL;
	size_t most = 0;
	p->bytes = 0;
	for (size_t i = 0; i < p->n_keys; i++) {
		size_t bytes = key_bytes(&p->keys[i]);
		p->bytes += bytes;
		if (bytes > most) {
			most = bytes;
			largest = &p->keys[i];
		}
	}
	if (p->bytes > MEMORY_MAX && largest)
		leave_out(p, largest);
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
		       const struct settable_label *label, uint64_t *ret)
{
	size_t i;
	*ret = 0;
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
		p->bytes += sizeof(struct value) + label->len;
	}
	*ret = VALUE_OF(i, id) + 1;
	return 0;
}

int project_touch(struct project *p, uint64_t value, const struct store_row *row)
{
	struct column_key *k = &p->keys[value >> 32];
	if (k->left_out)
		return 0;
	struct value *v = &k->v[(uint32_t)value];
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
	int rc = ARRAY_RESERVE(v->cells, v->cells_cap, v->n_cells + 1);
	if (rc)
		return rc;
	*ret = &v->cells[v->n_cells++];
	**ret = (struct cell){ .event = event, .idle = idle };
	p->bytes += sizeof(**ret);
	return 0;
}

int project_flush_group(struct project *p, uint32_t event, uint32_t leaf, bool idle)
{
	uint64_t period = merge_dicts(p->m)->events[event].period;
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_touched; i++) {
		struct column_key *k = &p->keys[p->touched[i] >> 32];
		struct cell *c;
		if (k->left_out)
			continue;
		struct value *v = &k->v[(uint32_t)p->touched[i]];
		rc = project_find_cell(p, v, event, idle, &c);
		if (!rc)
			rc = cell_add(c, leaf, v->samples, v->value, period);
		k->samples += v->samples;
		p->bytes += 6;
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
