/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a Perfetto trace. By thread, a track is one (tgid, tid). By labels, each of their
 * values is a process of one thread, whose numbers count tracks from 1.
 *
 *   label set of an instant --> labels that make the track --> track --> lanes
 *
 * Slices of a track must not overlap. The waits of a thread follow each other; of several threads
 * they lie on lanes, which are tracks below the first one.
 */
#include "export/perfetto_int.h"
#include "export/text.h"
#include "util/array.h"
#include "util/utf8.h"

#include <errno.h>
#include <string.h>

#define OVERLAP_NS 3000 /* of waits that follow each other: their times are rounded to 1 us */
#define LANE_SHIFT 32	/* uuid of lane i: that of its track + (i << LANE_SHIFT) */
#define PROCESS_UUID ((uint64_t)1 << 60)

static const char *const thread_keys[] = { "tgid", "tid" };

int perfetto_tracks_init(struct perfetto_tracks *t, const char *const *keys, size_t n_keys)
{
	*t = (struct perfetto_tracks){ .keys = n_keys ? keys : thread_keys,
				       .n_keys = n_keys ? n_keys : 2 };
	int rc = setpool_init(&t->sets);
	return rc ? rc : setpool_init(&t->values);
}

void perfetto_tracks_fini(struct perfetto_tracks *t)
{
	setpool_fini(&t->sets);
	setpool_fini(&t->values);
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].lanes);
	free(t->v);
	free(t->of_set);
	intern_fini(&t->processes);
	buf_fini(&t->text);
}

static bool by_thread(const struct perfetto_tracks *t)
{
	return t->keys == thread_keys;
}

static const struct label *find(const struct label *labels, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (labels[i].key_len == strlen(key) && !memcmp(labels[i].key, key, strlen(key)))
			return &labels[i];
	return NULL;
}

/* ---- from label sets to tracks ---- */

static int64_t number(const struct label *l, int64_t none)
{
	return l && l->type == LABEL_INT && l->num >= 0 && l->num <= INT32_MAX ? l->num : none;
}

/* Values beyond the limit share the track of the empty set. */
static int find_track(struct perfetto_tracks *t, const struct label *labels, size_t n,
		      uint32_t *ret)
{
	struct label of[STORE_SET_MAX];
	size_t k = 0;
	for (size_t i = 0; i < t->n_keys && k < STORE_SET_MAX; i++) {
		const struct label *l = find(labels, n, t->keys[i]);
		if (l)
			of[k++] = *l;
	}
	*ret = 0;
	if (t->values.n >= PERFETTO_TRACKS_MAX && !setpool_find(&t->values, of, k, ret))
		return 0;
	int rc = setpool_add(&t->values, of, k, ret);
	rc = rc ? rc : ARRAY_RESERVE(t->v, t->cap, t->values.n);
	if (rc)
		return rc;
	for (; t->n < t->values.n; t->n++)
		t->v[t->n] = (struct perfetto_track){ .uuid = t->n + 1,
						      .pid = (uint32_t)t->n + 1,
						      .tid = (uint32_t)t->n + 1 };
	if (by_thread(t)) {
		struct perfetto_track *v = &t->v[*ret];
		v->tid = (uint32_t)number(find(of, k, "tid"), 0);
		v->pid = (uint32_t)number(find(of, k, "tgid"), v->tid);
	}
	return 0;
}

/* Keep of a label set what names its thread: without room for more. */
static size_t cut(const struct perfetto_tracks *t, const struct label *labels, size_t n,
		  struct label out[4])
{
	static const char *const names[] = { "tgid", "tid", "thread", "comm" };
	size_t k = 0;
	for (size_t i = 0; by_thread(t) && i < 4; i++)
		if (find(labels, n, names[i]))
			out[k++] = *find(labels, n, names[i]);
	return k;
}

int perfetto_tracks_set(struct perfetto_tracks *t, const struct label *labels, size_t n,
			uint32_t *ret)
{
	struct label few[4];
	size_t cap = t->cap_sets;
	if (setpool_bytes(&t->sets) > PERFETTO_SETS_BYTES &&
	    !setpool_find(&t->sets, labels, n, ret)) {
		n = cut(t, labels, n, few);
		labels = few;
	}
	int rc = setpool_add(&t->sets, labels, n, ret);
	rc = rc ? rc : ARRAY_RESERVE(t->of_set, t->cap_sets, t->sets.n);
	if (rc)
		return rc;
	for (; cap < t->cap_sets; cap++)
		t->of_set[cap] = UINT32_MAX;
	return t->of_set[*ret] == UINT32_MAX ? find_track(t, labels, n, &t->of_set[*ret]) : 0;
}

/* ---- descriptions ---- */

static int add_text(struct perfetto_tracks *t, const struct label *l, bool key)
{
	char value[TEXT_NAME_MAX];
	size_t len = l ? label_text(l, value, sizeof(value)) : 0;
	len = len < sizeof(value) ? len : sizeof(value) - 1;
	int rc = key && l ? utf8_repair(&t->text, l->key, l->key_len) : 0;
	rc = rc || !key || !l ? rc : buf_add(&t->text, "=", 1);
	return rc ? rc : utf8_repair(&t->text, value, len);
}

/* "tenant=acme, endpoint=/pay" */
static int add_values(struct perfetto_tracks *t, uint32_t track)
{
	const struct label *labels;
	const size_t n = setpool_get(&t->values, track, &labels);
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = i ? buf_add(&t->text, ", ", 2) : 0;
		rc = rc ? rc : add_text(t, &labels[i], true);
	}
	return rc || n ? rc : buf_add(&t->text, "(none)", 6);
}

/* Names of the process and, behind it, of the thread: two texts. */
static int make_names(struct perfetto_tracks *t, uint32_t set, uint32_t track, size_t *ret_process)
{
	const struct label *labels;
	const size_t n = setpool_get(&t->sets, set, &labels);
	const struct label *comm = find(labels, n, "comm"), *thread = find(labels, n, "thread");
	t->text.len = 0;
	int rc = by_thread(t) ? add_text(t, comm, false) : add_values(t, track);
	*ret_process = t->text.len;
	return rc || !by_thread(t) ? rc : add_text(t, thread ? thread : comm, false);
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
	process.process_name = perfetto_text(t->text.data, name_len);
	d.process = &process;
	return put_descriptor(o, &d);
}

static int put_thread(struct perfetto_tracks *t, const struct perfetto_track *v, size_t process_len,
		      struct perfetto_out *o)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ThreadDescriptor thread = PERFETTO__THREAD_DESCRIPTOR__INIT;
	const size_t at = by_thread(t) ? process_len : 0;
	d.has_uuid = d.has_parent_uuid = true;
	d.uuid = v->uuid;
	d.parent_uuid = PROCESS_UUID + v->pid;
	thread.has_pid = thread.has_tid = thread.has_thread_name = true;
	thread.pid = (int32_t)v->pid;
	thread.tid = (int32_t)v->tid;
	thread.thread_name = perfetto_text(t->text.data + at, t->text.len - at);
	d.thread = &thread;
	return put_descriptor(o, &d);
}

int perfetto_tracks_get(struct perfetto_tracks *t, uint32_t set, struct perfetto_out *o,
			struct perfetto_track **ret)
{
	const uint32_t track = t->of_set[set];
	struct perfetto_track *v = &t->v[track];
	size_t process_len = 0;
	*ret = v;
	if (v->written)
		return 0;
	v->written = true;
	int rc = make_names(t, set, track, &process_len);
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
