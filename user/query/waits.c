/* SPDX-License-Identifier: Apache-2.0 */
#include "query/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void wait_reasons_fini(struct wait_reasons *w)
{
	free(w->frames);
	free(w->frame_known);
	free(w->stacks);
	*w = (struct wait_reasons){ 0 };
}

size_t wait_reasons_bytes(const struct wait_reasons *w)
{
	return w->n_frames * (sizeof(*w->frames) + 1) + w->n_stacks * sizeof(*w->stacks);
}

/* Dictionaries may be loaded while rows are read: make room for what the store has now. */
static int reserve(struct wait_reasons *w, const struct store *s)
{
	size_t frames = store_n_frames(s), stacks = store_n_stacks(s);
	if (frames > w->n_frames) {
		struct wait_frame *v = realloc(w->frames, frames * sizeof(*v));
		w->frames = v ? v : w->frames;
		uint8_t *known = v ? realloc(w->frame_known, frames) : NULL;
		if (!known)
			return -ENOMEM;
		w->frame_known = known;
		memset(known + w->n_frames, 0, frames - w->n_frames);
		w->n_frames = frames;
	}
	if (stacks > w->n_stacks) {
		struct wait_reason *v = realloc(w->stacks, stacks * sizeof(*v));
		if (!v)
			return -ENOMEM;
		w->stacks = v;
		memset(v + w->n_stacks, 0, (stacks - w->n_stacks) * sizeof(*v));
		w->n_stacks = stacks;
	}
	return 0;
}

static const struct wait_frame *frame_of(struct wait_reasons *w, const struct store *s, uint32_t id)
{
	static const struct wait_frame none;
	const struct store_frame *f = store_frame(s, id);
	if (!f || id >= w->n_frames)
		return &none;
	if (!w->frame_known[id]) {
		w->frames[id] = wait_frame_of(f->kind, store_string(s, f->function, NULL), store_string(s, f->module, NULL),
					      store_string(s, f->file, NULL));
		w->frame_known[id] = 1;
	}
	return &w->frames[id];
}

static bool began_earlier(const struct store *s, uint32_t frame)
{
	const struct store_frame *f = store_frame(s, frame);
	return f && f->kind == FRAME_KERNEL && !strcmp(store_string(s, f->function, NULL), WAIT_EARLIER);
}

/* Walk from the leaf to the root. */
static struct wait_reason work_out(struct wait_reasons *w, const struct store *s, uint32_t stack)
{
	struct wait_reason r = { 0 };
	enum wait_rule rule = WAIT_RULE_NONE;
	enum wait_owner owner = WAIT_OWNER_KERNEL;
	uint32_t frame, last = 0;
	bool futex = false;
	for (uint32_t parent; stack; stack = parent) {
		store_stack(s, stack, &parent, &frame);
		const struct wait_frame *f = frame_of(w, s, frame);
		if (!r.frame || (f->owner > owner && owner != WAIT_OWNER_PROGRAM)) {
			r.frame = frame;
			owner = f->owner;
		}
		futex |= f->futex;
		last = frame;
		if (rule == WAIT_RULE_FIRM || !f->rule)
			continue;
		rule = f->rule;
		r.class = f->class;
	}
	/* Its user frames are not known. Locks are not held for that long. */
	if (rule == WAIT_RULE_NONE && futex && began_earlier(s, last))
		r.class = WAIT_CLASS_IDLE;
	return r;
}

int wait_reason_of(struct wait_reasons *w, const struct store *s, uint32_t stack, const struct wait_reason **ret)
{
	static const struct wait_reason none;
	int rc = stack >= w->n_stacks ? reserve(w, s) : 0;
	if (rc)
		return rc;
	*ret = &none;
	if (!stack || stack >= w->n_stacks)
		return 0;
	if (!w->stacks[stack].frame)
		w->stacks[stack] = work_out(w, s, stack);
	*ret = &w->stacks[stack];
	return 0;
}
