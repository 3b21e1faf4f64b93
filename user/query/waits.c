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

/*
 * Dictionaries may be loaded while rows are read: make room for the frames that the store has now.
 */
static int reserve(struct wait_reasons *w, const struct store *s)
{
	size_t frames = store_n_frames(s);
	if (!w->stacks && !(w->stacks = calloc(WAIT_STACKS, sizeof(*w->stacks))))
		return -ENOMEM;
	if (frames <= w->n_frames)
		return 0;
	struct wait_frame *v = realloc(w->frames, frames * sizeof(*v));
	w->frames = v ? v : w->frames;
	uint8_t *known = v ? realloc(w->frame_known, frames) : NULL;
	if (!known)
		return -ENOMEM;
	w->frame_known = known;
	memset(known + w->n_frames, 0, frames - w->n_frames);
	w->n_frames = frames;
	return 0;
}

static const struct wait_frame *frame_of(struct wait_reasons *w, const struct store *s, uint32_t id)
{
	static const struct wait_frame none;
	const struct store_frame *f = store_frame(s, id);
	if (!f || id >= w->n_frames)
		return &none;
	if (!w->frame_known[id]) {
		w->frames[id] = wait_frame_of(f->kind, store_string(s, f->function, NULL),
					      store_string(s, f->module, NULL),
					      store_string(s, f->file, NULL));
		w->frame_known[id] = true;
	}
	return &w->frames[id];
}

static bool began_earlier(const struct store *s, uint32_t frame)
{
	const struct store_frame *f = store_frame(s, frame);
	return f && f->kind == FRAME_KERNEL &&
	       !strcmp(store_string(s, f->function, NULL), WAIT_EARLIER);
}

/* Walk from the leaf to the root. */
static struct wait_reason work_out(struct wait_reasons *w, const struct store *s, uint32_t stack)
{
	struct wait_reason r = { 0 };
	struct wait_decision d = { 0 };
	enum wait_owner owner = WAIT_OWNER_KERNEL;
	uint32_t frame, last = 0;
	for (uint32_t parent; stack; stack = parent) {
		store_stack(s, stack, &parent, &frame);
		const struct wait_frame *f = frame_of(w, s, frame);
		if (!r.frame || (f->owner > owner && owner != WAIT_OWNER_PROGRAM)) {
			r.frame = frame;
			owner = f->owner;
		}
		wait_see_towards_root(&d, f);
		last = frame;
	}
	r.class = (uint8_t)wait_decided(&d, began_earlier(s, last));
	r.weak = d.rule == WAIT_RULE_WEAK;
	return r;
}

int wait_reason_of(struct wait_reasons *w, const struct store *s, uint32_t stack,
		   const struct wait_reason **ret)
{
	static const struct wait_reason none = { .class = WAIT_CLASS_UNKNOWN };
	*ret = &none;
	if (!stack || stack >= store_n_stacks(s))
		return 0;
	int rc = reserve(w, s);
	if (rc)
		return rc;
	struct wait_cached *c = &w->stacks[stack * 2654435761u >> 17];
	_Static_assert(WAIT_STACKS == 1u << (32 - 17), "the upper bits of a hash");
	if (c->stack != stack)
		*c = (struct wait_cached){ stack, work_out(w, s, stack) };
	*ret = &c->reason;
	return 0;
}
