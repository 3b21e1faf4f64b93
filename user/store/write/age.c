/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The age of blocks: the time that the host has been up since they were written.
 *
 * Realtime cannot be trusted to delete history: one wrong step of the clock would make everything
 * old. So age is counted on the store's clock, which knows CLOCK_BOOTTIME alone:
 *
 *  1. within a boot it advances as BOOTTIME does, whatever realtime does, whether a writer runs or
 *     not;
 *  2. a boot begins where the blocks of the boot before end. Time in which the host was off does
 *     not count;
 *  3. so a block is never thought to be older than it is.
 *
 * A block names its anchor, and an anchor its boot: that and the block's BOOTTIME are its place on
 * this clock.
 */
#include "store/write/writer_int.h"

#include "store/writer.h"
#include "util/array.h"

#include <errno.h>

/* ns of one boot, 36 years: whatever a damaged store says, sums do not overflow */
#define UP_MAX (1ll << 60)

static int64_t bounded(int64_t ns)
{
	return ns < 0 ? 0 : ns < UP_MAX ? ns : UP_MAX;
}

static int note_up(struct store_writer *w, const struct store_block *b)
{
	size_t anchor = b->anchor;
	if (anchor >= w->s.manifest.n_anchors)
		return 0;
	if (anchor >= w->n_up && ARRAY_RESERVE(w->up_ns, w->up_cap, anchor + 1))
		return -ENOMEM;
	while (w->n_up <= anchor)
		w->up_ns[w->n_up++] = 0;
	int64_t up = bounded(b->boot_ns);
	if (w->up_ns[anchor] < up)
		w->up_ns[anchor] = up;
	return 0;
}

int age_note(struct store_writer *w, struct segment *g, const struct store_block *b)
{
	int rc = note_up(w, b);
	if (rc)
		return rc;
	g->dated = true;
	g->last_anchor = b->anchor;
	g->last_boot_ns = bounded(b->boot_ns);
	return 0;
}

static int date_segment(struct store_writer *w, struct segment *g)
{
	bool loaded = g->loaded;
	int rc = segment_load(&w->s, g, NULL);
	if (rc)
		return rc == -ENOMEM ? rc : 0; /* damaged: age_of_segment knows what to do */
	for (size_t k = 0; !rc && k < g->n_refs; k++)
		rc = age_note(w, g, &g->refs[k].b);
	if (!loaded)
		segment_unload(&w->s, g);
	return rc;
}

int age_date(struct store_writer *w)
{
	int rc = 0;
	for (size_t i = 0; !rc && !w->dated && i < w->s.n_segments; i++)
		rc = date_segment(w, &w->s.segments[i]);
	w->dated |= !rc;
	return rc;
}

/*
 * When the boot of an anchor began; n_anchors: when a boot would that has no anchor yet. Anchors of
 * one boot follow each other.
 */
static int64_t boot_began(const struct store_writer *w, size_t anchor)
{
	const struct manifest *m = &w->s.manifest;
	int64_t began = 0, up = 0;
	for (size_t i = 0; i <= anchor && i < m->n_anchors; i++) {
		if (i && memcmp(m->anchors[i].boot_id, m->anchors[i - 1].boot_id, 16)) {
			began = began < 2 * UP_MAX ? began + up : began;
			up = 0;
		}
		if (i < w->n_up && w->up_ns[i] > up)
			up = w->up_ns[i];
	}
	return anchor < m->n_anchors ? began : began + up;
}

int64_t age_now(const struct store_writer *w, int64_t boot_ns)
{
	const struct manifest *m = &w->s.manifest;
	bool known = m->n_anchors && !memcmp(m->anchors[m->n_anchors - 1].boot_id, w->boot_id, 16);
	return boot_began(w, m->n_anchors - known) + bounded(boot_ns);
}

static int64_t written(const struct store_writer *w, const struct segment *g)
{
	return boot_began(w, g->last_anchor) + g->last_boot_ns;
}

/* One that cannot be read was written before the next one of its level was. */
int64_t age_of_segment(const struct store_writer *w, size_t i, int64_t now_ns)
{
	const struct segment *g = &w->s.segments[i], *next = g->dated ? g : NULL;
	for (size_t k = 0; !g->dated && k < w->s.n_segments; k++) {
		const struct segment *c = &w->s.segments[k];
		if (c->dated && c->m.level == g->m.level && c->m.serial > g->m.serial &&
		    (!next || c->m.serial < next->m.serial))
			next = c;
	}
	return next ? now_ns - written(w, next) : 0;
}
