/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/translate.h"

#include "util/array.h"

#define OTHER "(other)"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void translation_fini(struct translation *t)
{
	struct id_map *const maps[] = { &t->strings, &t->frames,      &t->stacks,
					&t->leaves,  &t->leaf_stacks, &t->events };
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		free(maps[i]->v);
		*maps[i] = (struct id_map){ 0 };
	}
}

size_t translation_bytes(const struct translation *t)
{
	return (t->strings.cap + t->frames.cap + t->stacks.cap + t->leaves.cap +
		t->leaf_stacks.cap + t->events.cap) *
	       sizeof(uint32_t);
}

/* Room for the ids below n. */
static int reserve(struct id_map *m, size_t n)
{
	return ARRAY_RESERVE_CLEARED(m->v, m->cap, n);
}

static int translate_string(struct translation *t, uint32_t id, uint32_t *ret)
{
	size_t len;
	if (!id) {
		*ret = 0;
		return 0;
	}
	int rc = reserve(&t->strings, t->from->strings.n);
	if (rc)
		return rc;
	if (!t->strings.v[id]) {
		const char *text = strings_get(&t->from->strings, id, &len);
		rc = strings_add(&t->to->strings, text, len, ret);
		if (rc)
			return rc;
		t->strings.v[id] = *ret + 1;
	}
	*ret = t->strings.v[id] - 1;
	return 0;
}

static struct store_frame frame_of(const struct translation *t, uint32_t id)
{
	struct store_frame f = t->from->frames[id];
	if (t->no_lines) {
		f.file = 0;
		f.line = 0;
		f.offset = f.function ? 0 : f.offset;
	}
	return f;
}

int translate_frame(struct translation *t, uint32_t id, uint32_t *ret)
{
	int rc = reserve(&t->frames, t->from->n_frames);
	if (rc)
		return rc;
	if (t->frames.v[id]) {
		*ret = t->frames.v[id] - 1;
		return 0;
	}
	struct store_frame f = frame_of(t, id);
	rc = translate_string(t, f.function, &f.function);
	if (!rc)
		rc = translate_string(t, f.module, &f.module);
	if (!rc)
		rc = translate_string(t, f.build_id, &f.build_id);
	if (!rc)
		rc = translate_string(t, f.file, &f.file);
	if (!rc)
		rc = dicts_add_frame(t->to, &f, ret);
	if (!rc)
		t->frames.v[id] = *ret + 1;
	return rc;
}

/* The same frame where the other has it; 0: it has not. */
static uint32_t find_frame(const struct translation *t, uint32_t id)
{
	struct store_frame f = frame_of(t, id);
	uint32_t *const texts[] = { &f.function, &f.module, &f.build_id, &f.file };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t len;
		const char *text = strings_get(&t->from->strings, *texts[i], &len);
		*texts[i] = strings_find(&t->to->strings, text, len);
		if (*texts[i] == UINT32_MAX)
			return 0;
	}
	return dicts_find_frame(t->to, &f);
}

int translate_find_frame(struct translation *t, uint32_t id, uint32_t *ret)
{
	int rc = reserve(&t->frames, t->from->n_frames);
	if (rc)
		return rc;
	*ret = t->frames.v[id] ? t->frames.v[id] - 1 : find_frame(t, id);
	t->frames.v[id] = *ret ? *ret + 1 : 0;
	return 0;
}

static int need_other(struct translation *t)
{
	struct store_frame f = { .kind = FRAME_USER };
	int rc = t->other_frame
			 ? 0
			 : strings_add(&t->to->strings, OTHER, sizeof(OTHER) - 1, &f.function);
	return rc || t->other_frame ? rc : dicts_add_frame(t->to, &f, &t->other_frame);
}

/* A node whose parent is there. */
static int find_or_fold(struct translation *t, uint32_t parent, uint32_t frame, uint32_t *ret)
{
	int rc = need_other(t);
	if (rc)
		return rc;
	*ret = parent;
	if (t->to->stacks[parent].frame == t->other_frame)
		return 0;
	uint32_t mine;
	rc = translate_find_frame(t, frame, &mine);
	if (rc)
		return rc;
	*ret = mine ? dicts_find_stack(t->to, parent, mine) : 0;
	if (!*ret && t->cut)
		*t->cut = true;
	return *ret ? 0 : dicts_add_stack(t->to, parent, t->other_frame, ret);
}

static int translate_node(struct translation *t, uint32_t parent, uint32_t frame, uint32_t *ret)
{
	uint32_t mine;
	if (t->most_bytes && dicts_bytes(t->to) >= t->most_bytes)
		return find_or_fold(t, parent, frame, ret);
	int rc = translate_frame(t, frame, &mine);
	return rc ? rc : dicts_add_stack(t->to, parent, mine, ret);
}

/*
 * Climb to what was met before, then come down. On the way up each node that was not met keeps the
 * child from which it was reached: a chain costs its length, however deep it is.
 */
int translate_stack(struct translation *t, uint32_t id, uint32_t *ret)
{
	const struct stack_node *nodes = t->from->stacks;
	int rc = reserve(&t->stacks, t->from->n_stacks);
	if (rc)
		return rc;
	uint32_t *v = t->stacks.v, at = v[id] ? 0 : id, next;
	v[0] = 1;
	for (; at && !v[nodes[at].parent]; at = nodes[at].parent)
		v[nodes[at].parent] = at;
	for (; at; at = next) {
		uint32_t mine = 0;
		next = at == id ? 0 : v[at];
		if (!rc)
			rc = translate_node(t, v[nodes[at].parent] - 1, nodes[at].frame, &mine);
		v[at] = rc ? 0 : mine + 1;
	}
	if (!rc)
		*ret = v[id] - 1;
	return rc;
}

int translate_leaf_stack(struct translation *t, uint32_t leaf, uint32_t *ret)
{
	int rc = reserve(&t->leaf_stacks, t->from->n_leaves);
	if (rc)
		return rc;
	uint32_t *known = &t->leaf_stacks.v[leaf];
	if (!*known) {
		rc = translate_stack(t, t->from->leaves[leaf], ret);
		if (rc)
			return rc;
		*known = *ret + 1;
	}
	*ret = *known - 1;
	return 0;
}

int translate_leaf(struct translation *t, uint32_t leaf, uint32_t *ret)
{
	uint32_t stack;
	int rc = reserve(&t->leaves, t->from->n_leaves);
	if (rc)
		return rc;
	if (!t->leaves.v[leaf]) {
		rc = translate_stack(t, t->from->leaves[leaf], &stack);
		if (!rc)
			rc = dicts_add_leaf(t->to, stack, ret);
		if (rc)
			return rc;
		t->leaves.v[leaf] = *ret + 1;
	}
	*ret = t->leaves.v[leaf] - 1;
	return 0;
}

int translate_event(struct translation *t, uint32_t id, uint32_t *ret)
{
	int rc = reserve(&t->events, t->from->n_events);
	if (rc)
		return rc;
	if (!t->events.v[id]) {
		if (t->no_new_events)
			rc = dicts_find_event(t->to, &t->from->events[id], ret) ? 0 : -EBADMSG;
		else
			rc = dicts_add_event(t->to, &t->from->events[id], ret);
		if (rc)
			return rc;
		t->events.v[id] = *ret + 1;
	}
	*ret = t->events.v[id] - 1;
	return 0;
}
