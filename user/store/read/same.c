/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/same.h"

#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>

static bool same_function(const void *ctx, uint32_t id, const void *key)
{
	return store_same_function(&((const struct dicts *)ctx)->frames[id], key);
}

static int find_function(const struct dicts *d, struct idhash *h, uint32_t frame, uint32_t *ret)
{
	const struct store_frame *f = &d->frames[frame];
	const struct store_function_key key = store_function_key(f);
	uint32_t hash = idhash_hash(h, &key, sizeof(key)),
		 id = idhash_find(h, hash, same_function, d, f);
	int rc = id == IDHASH_NONE ? idhash_reserve(h) : 0;
	if (!rc && id == IDHASH_NONE)
		idhash_put(h, hash, frame);
	*ret = id == IDHASH_NONE ? frame : id;
	return rc;
}

/* functions: [n_frames], the first frame of each frame's function. */
static int same_frames(const struct dicts *d, uint32_t *functions, bool *ret_any)
{
	struct idhash h = { 0 };
	int rc = 0;
	*ret_any = false;
	for (uint32_t i = 1; !rc && i < d->n_frames; i++) {
		rc = find_function(d, &h, i, &functions[i]);
		*ret_any |= functions[i] != i;
	}
	idhash_fini(&h);
	return rc;
}

/* nodes: room for [n_stacks], by function. */
static int merge_stacks(const struct dicts *d, const uint32_t *functions, struct stack_node *nodes,
			uint32_t *same)
{
	struct stack_index x = { 0 };
	int rc = 0;
	same[0] = 0;
	for (uint32_t id = 1; !rc && id < d->n_stacks; id++) {
		nodes[id] = (struct stack_node){ same[d->stacks[id].parent],
						 functions[d->stacks[id].frame] };
		same[id] = stack_index_find(&x, nodes, nodes[id]);
		if (same[id])
			continue;
		same[id] = id;
		rc = stack_index_reserve(&x, nodes);
		if (!rc)
			stack_index_put(&x, nodes, id);
	}
	stack_index_fini(&x);
	return rc;
}

int same_stacks(const struct dicts *d, uint32_t **ret)
{
	uint32_t *functions = calloc(d->n_frames, sizeof(*functions));
	bool any;
	int rc = functions ? same_frames(d, functions, &any) : -ENOMEM;
	*ret = NULL;
	if (!rc && any) {
		struct stack_node *nodes = malloc(d->n_stacks * sizeof(*nodes));
		*ret = malloc(d->n_stacks * sizeof(**ret));
		rc = nodes && *ret ? merge_stacks(d, functions, nodes, *ret) : -ENOMEM;
		free(nodes);
		if (rc) {
			free(*ret);
			*ret = NULL;
		}
	}
	free(functions);
	return rc;
}
