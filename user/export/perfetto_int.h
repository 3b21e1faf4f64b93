/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a Perfetto trace: perfetto.c has packets and events. */
#ifndef ASCRIBE_EXPORT_PERFETTO_INT_H
#define ASCRIBE_EXPORT_PERFETTO_INT_H

#include "export/functions.h"
#include "export/perfetto.pb-c.h"
#include "export/threads.h"
#include "util/idset.h"

/* The one sequence of packets: its defaults and interned data hold for all that follow. */
#define PERFETTO_SEQUENCE 1
#define PERFETTO_NEEDS_STATE 2

struct perfetto_out {
	FILE *f;
	struct buf packed;
};

/* Write a packet, with its sequence. 0, -ENOMEM, -EIO. */
int perfetto_put(struct perfetto_out *o, Perfetto__TracePacket *p);

static inline ProtobufCBinaryData perfetto_text(const void *s, size_t len)
{
	return (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)s };
}

/* ---- stacks (perfetto_stacks.c): written once, when they are first used ---- */

struct perfetto_stacks {
	const struct export_source *src;
	struct functions functions;
	struct intern modules;	    /* module and build id: string ids of the store */
	struct idset stacks;	    /* of the store, that were written */
	size_t n_frames, n_modules; /* that were written */
};

/* 0 or -ENOMEM; perfetto_stacks_fini is due in any case. */
int perfetto_stacks_init(struct perfetto_stacks *s, const struct export_source *src);
void perfetto_stacks_fini(struct perfetto_stacks *s);
/* Write what is new of a stack of the store, whose id is that of its callstack. */
int perfetto_stacks_put(struct perfetto_stacks *s, uint32_t stack, struct perfetto_out *o);

/* ---- tracks (perfetto_tracks.c) ---- */

#define PERFETTO_LANES_MAX 256 /* waits side by side on a track */

struct perfetto_track {
	uint64_t uuid;
	uint32_t pid, tid;
	bool written;
	int64_t *lanes; /* where the last wait of each ends */
	size_t n_lanes, cap_lanes;
};

struct perfetto_tracks {
	struct threads of;
	struct perfetto_track *v; /* by number of the track */
	size_t n, cap;
	struct intern processes; /* numbers of those that were described */
};

int perfetto_tracks_init(struct perfetto_tracks *t, const char *const *keys, size_t n_keys);
void perfetto_tracks_fini(struct perfetto_tracks *t);
/* The track of a label set, described in the trace. */
int perfetto_tracks_get(struct perfetto_tracks *t, uint32_t set, struct perfetto_out *o,
			struct perfetto_track **ret);
/*
 * A track on which a wait overlaps no other one: *begin_ns may move by some microseconds. -E2BIG:
 * there are too many side by side.
 */
int perfetto_tracks_lane(struct perfetto_tracks *t, struct perfetto_track *of, int64_t *begin_ns,
			 int64_t end_ns, struct perfetto_out *o, uint64_t *ret_uuid);

#endif
