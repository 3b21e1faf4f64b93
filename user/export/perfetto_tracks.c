/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a Perfetto trace: their descriptions, and lanes. Slices of a track must not
 * overlap. The waits of a thread follow each other; of several threads they lie on lanes, which are
 * tracks below the first one.
 */
#include "export/perfetto_int.h"
#include "util/array.h"

#include <errno.h>

#define OVERLAP_NS 3000 /* of waits that follow each other: their times are rounded to 1 us */
#define LANE_SHIFT 32	/* uuid of lane i: that of its track + (i << LANE_SHIFT) */
#define PROCESS_UUID ((uint64_t)1 << 60)

int perfetto_tracks_init(struct perfetto_tracks *t, const char *const *keys, size_t n_keys)
{
	*t = (struct perfetto_tracks){ 0 };
	return threads_init(&t->of, keys, n_keys);
}

void perfetto_tracks_fini(struct perfetto_tracks *t)
{
	threads_fini(&t->of);
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].lanes);
	free(t->v);
	intern_fini(&t->processes);
}

static int put_descriptor(struct perfetto_out *o, Perfetto__TrackDescriptor *d)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	p.track_descriptor = d;
	return perfetto_put(o, &p);
}

static int put_process(struct perfetto_tracks *t, uint32_t pid, size_t name_len,
		       struct perfetto_out *o)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
	uint32_t id;
	bool new;
	int rc = intern_add(&t->processes, &pid, sizeof(pid), &id, &new);
	if (rc || !new)
		return rc;
	d.has_uuid = process.has_pid = process.has_process_name = true;
	d.uuid = PROCESS_UUID + pid;
	process.pid = (int32_t)pid;
	process.process_name = perfetto_text(t->of.text.data, name_len);
	d.process = &process;
	return put_descriptor(o, &d);
}

static int put_thread(struct perfetto_tracks *t, const struct perfetto_track *v, size_t process_len,
		      struct perfetto_out *o)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ThreadDescriptor thread = PERFETTO__THREAD_DESCRIPTOR__INIT;
	d.has_uuid = d.has_parent_uuid = true;
	d.uuid = v->uuid;
	d.parent_uuid = PROCESS_UUID + v->pid;
	thread.has_pid = thread.has_tid = thread.has_thread_name = true;
	thread.pid = (int32_t)v->pid;
	thread.tid = (int32_t)v->tid;
	thread.thread_name =
		perfetto_text(t->of.text.data + process_len, t->of.text.len - process_len);
	d.thread = &thread;
	return put_descriptor(o, &d);
}

int perfetto_tracks_get(struct perfetto_tracks *t, uint32_t set, struct perfetto_out *o,
			struct perfetto_track **ret)
{
	const uint32_t track = t->of.of_set[set];
	size_t process_len = 0;
	int rc = ARRAY_RESERVE(t->v, t->cap, t->of.n);
	if (rc)
		return rc;
	for (; t->n < t->of.n; t->n++)
		t->v[t->n] = (struct perfetto_track){ .uuid = t->n + 1,
						      .pid = t->of.v[t->n].pid,
						      .tid = t->of.v[t->n].tid };
	struct perfetto_track *v = *ret = &t->v[track];
	if (v->written)
		return 0;
	v->written = true;
	rc = threads_names(&t->of, track, &process_len);
	rc = rc ? rc : put_process(t, v->pid, process_len, o);
	return rc ? rc : put_thread(t, v, process_len, o);
}

/* ---- lanes ---- */

static int put_lane(const struct perfetto_track *of, size_t lane, struct perfetto_out *o)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = d.has_parent_uuid = d.has_name = true;
	d.uuid = of->uuid + ((uint64_t)lane << LANE_SHIFT);
	d.parent_uuid = of->uuid;
	d.name = perfetto_text("waits", 5);
	return put_descriptor(o, &d);
}

int perfetto_tracks_lane(struct perfetto_tracks *t, struct perfetto_track *of, int64_t *begin_ns,
			 int64_t end_ns, struct perfetto_out *o, uint64_t *ret_uuid)
{
	size_t i = 0;
	(void)t;
	while (i < of->n_lanes && (*begin_ns + OVERLAP_NS < of->lanes[i] || end_ns <= of->lanes[i]))
		i++;
	if (i == PERFETTO_LANES_MAX)
		return -E2BIG;
	if (i == of->n_lanes) {
		int rc = ARRAY_RESERVE(of->lanes, of->cap_lanes, i + 1);
		rc = rc || !i ? rc : put_lane(of, i, o);
		if (rc)
			return rc;
		of->lanes[of->n_lanes++] = INT64_MIN;
	}
	*begin_ns = *begin_ns > of->lanes[i] ? *begin_ns : of->lanes[i];
	of->lanes[i] = end_ns;
	*ret_uuid = of->uuid + ((uint64_t)i << LANE_SHIFT);
	return 0;
}
