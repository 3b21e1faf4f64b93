/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/frame_reasons.h"

#include "store/writer.h"
#include "util/array.h"

void frame_reasons_fini(struct frame_reasons *r)
{
	free(r->v);
	*r = (struct frame_reasons){ 0 };
}

void frame_reasons_clear(struct frame_reasons *r)
{
	if (r->v)
		memset(r->v, 0, r->cap * sizeof(*r->v));
}

void frame_reasons_put(struct frame_reasons *r, uint32_t frame, const struct wait_frame *f)
{
	if (ARRAY_RESERVE_CLEARED(r->v, r->cap, (size_t)frame + 1))
		return;
	r->v[frame] = *f;
}

const struct wait_frame *frame_reasons_get(const struct frame_reasons *r, uint32_t frame)
{
	static const struct wait_frame none;
	return frame < r->cap ? &r->v[frame] : &none;
}

int frame_reasons_add(struct frame_reasons *r, struct store_writer *w, const struct store_frame *f,
		      const struct frame_names *names, uint32_t *ret_id)
{
	int rc = store_add_frame(w, f, ret_id);
	if (rc || !r)
		return rc;
	const struct wait_frame says =
		wait_frame_of(f->kind, names->function ? names->function : "",
			      names->module ? names->module : "", names->file ? names->file : "");
	frame_reasons_put(r, *ret_id, &says);
	return 0;
}
