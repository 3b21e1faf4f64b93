/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto traces (https://perfetto.dev/docs): times, threads, stacks. Samples are PerfSample
 * packets, waits slices with a stack and the labels of their work. Read and written window by
 * window: the reader sorts packets by time.
 *
 *   clocks, defaults | track | new names, frames, stack | sample | ... | begin, end of a wait ...
 */
#include "export/perfetto_int.h"
#include "export/text.h"
#include "export/timed.h"
#include "query/instants.h"
#include "util/utf8.h"

#include <errno.h>
#include <string.h>

/* Numbers of the format. */
enum { CLOCK_REAL = 1, CLOCK_BOOT = 6 };
enum { STATE_CLEARED = 1, MODE_KERNEL = 1, MODE_USER = 2, SLICE_BEGIN = 1, SLICE_END = 2 };
#define PACKET_FIELD 0x0a /* field 1, of bytes */

struct perfetto {
	const struct export_source *src;
	struct store *s;
	struct timed timed;
	struct perfetto_out out;
	struct perfetto_stacks stacks;
	struct perfetto_tracks tracks;
	struct buf text;
	struct export_times times;
};

/* ---- packets ---- */

static size_t put_varint(uint8_t *to, size_t n)
{
	size_t len = 0;
	for (; n >= 0x80; n >>= 7)
		to[len++] = (uint8_t)(n | 0x80);
	to[len++] = (uint8_t)n;
	return len;
}

int perfetto_put(struct perfetto_out *o, Perfetto__TracePacket *p)
{
	uint8_t head[12] = { PACKET_FIELD };
	p->has_trusted_packet_sequence_id = true;
	p->trusted_packet_sequence_id = PERFETTO_SEQUENCE;
	if (!p->has_sequence_flags)
		p->sequence_flags = PERFETTO_NEEDS_STATE;
	p->has_sequence_flags = true;
	const size_t n = protobuf_c_message_get_packed_size(&p->base);
	o->packed.len = 0;
	if (buf_reserve(&o->packed, n + 1))
		return -ENOMEM;
	protobuf_c_message_pack(&p->base, o->packed.data);
	const size_t head_len = 1 + put_varint(head + 1, n);
	return fwrite(head, 1, head_len, o->f) == head_len &&
			       fwrite(o->packed.data, 1, n, o->f) == n
		       ? 0
		       : -EIO;
}

/* Realtime is the clock of the trace. How it stood beside the time since boot, for other traces. */
static int put_clocks(struct perfetto *x)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__ClockSnapshot m = PERFETTO__CLOCK_SNAPSHOT__INIT;
	Perfetto__ClockSnapshot__Clock real = PERFETTO__CLOCK_SNAPSHOT__CLOCK__INIT,
				       boot = PERFETTO__CLOCK_SNAPSHOT__CLOCK__INIT;
	Perfetto__ClockSnapshot__Clock *clocks[] = { &real, &boot };
	const int64_t at = query_info(x->src->query)->from_ns;
	const struct store_anchor *a = store_anchor(x->s, 0);
	real.has_clock_id = real.has_timestamp = boot.has_clock_id = boot.has_timestamp = true;
	real.clock_id = CLOCK_REAL;
	real.timestamp = (uint64_t)at;
	boot.clock_id = CLOCK_BOOT;
	boot.timestamp =
		(uint64_t)(a && a->real_minus_boot_ns < at ? at - a->real_minus_boot_ns : at);
	m.n_clocks = 2;
	m.clocks = clocks;
	m.has_primary_trace_clock = true;
	m.primary_trace_clock = CLOCK_REAL;
	p.clock_snapshot = &m;
	return perfetto_put(&x->out, &p);
}

static int put_defaults(struct perfetto *x)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__TracePacketDefaults d = PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
	Perfetto__PerfSampleDefaults samples = PERFETTO__PERF_SAMPLE_DEFAULTS__INIT;
	Perfetto__Timebase base = PERFETTO__TIMEBASE__INIT;
	const struct store_event *e = x->timed.sampled;
	if (e) {
		const uint64_t ns = e->ns_per_sample;
		base.has_name = true;
		base.name = perfetto_text(e->name, strlen(e->name));
		base.has_frequency = ns != 0;
		base.frequency = ns ? (1000000000 + ns / 2) / ns : 0;
		base.has_period = !ns && e->period;
		base.period = e->period;
		samples.timebase = &base;
		d.perf_sample_defaults = &samples;
	}
	d.has_timestamp_clock_id = true;
	d.timestamp_clock_id = CLOCK_REAL;
	p.trace_packet_defaults = &d;
	p.has_sequence_flags = true;
	p.sequence_flags = STATE_CLEARED;
	return perfetto_put(&x->out, &p);
}

/* ---- samples ---- */

static uint32_t mode_of(const struct perfetto *x, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(x->s, stack, &parent, &frame);
	const struct store_frame *f = frame ? store_frame(x->s, frame) : NULL;
	return f && f->kind == FRAME_KERNEL ? MODE_KERNEL : MODE_USER;
}

static int put_sample(struct perfetto *x, const struct store_instant *v,
		      const struct store_row *row, const struct perfetto_track *track)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__PerfSample m = PERFETTO__PERF_SAMPLE__INIT;
	m.has_cpu = m.has_pid = m.has_tid = m.has_cpu_mode = true;
	m.cpu = v->cpu;
	m.pid = track->pid;
	m.tid = track->tid;
	m.cpu_mode = mode_of(x, row->stack);
	m.has_callstack_iid = row->stack != 0;
	m.callstack_iid = row->stack;
	p.has_timestamp = true;
	p.timestamp = (uint64_t)v->at_ns;
	p.perf_sample = &m;
	x->times.samples++;
	return perfetto_put(&x->out, &p);
}

/* ---- waits ---- */

/* The labels of a wait's work; those that name its thread are said by the track. */
struct annotations {
	Perfetto__DebugAnnotation v[STORE_SET_MAX], *of[STORE_SET_MAX];
	size_t key_at[STORE_SET_MAX], value_at[STORE_SET_MAX + 1];
	size_t n;
};

static int add_annotation(struct perfetto *x, const struct label *l, struct annotations *a)
{
	Perfetto__DebugAnnotation *m = &a->v[a->n];
	char value[TEXT_NAME_MAX];
	perfetto__debug_annotation__init(m);
	a->of[a->n] = m;
	a->key_at[a->n] = x->text.len;
	int rc = utf8_repair(&x->text, l->key, l->key_len);
	a->value_at[a->n] = x->text.len;
	m->has_name = true;
	m->has_int_value = l->type == LABEL_INT;
	m->int_value = l->num;
	m->has_string_value = l->type != LABEL_INT;
	if (!rc && l->type != LABEL_INT) {
		size_t len = label_text(l, value, sizeof(value));
		rc = utf8_repair(&x->text, value, len < sizeof(value) ? len : sizeof(value) - 1);
	}
	a->n++;
	return rc;
}

static int make_annotations(struct perfetto *x, uint32_t set, struct annotations *a)
{
	const struct label *labels;
	const size_t n = setpool_get(&x->tracks.of.sets, set, &labels);
	int rc = 0;
	a->n = 0;
	x->text.len = 0;
	for (size_t i = 0; !rc && i < n && a->n < STORE_SET_MAX; i++)
		if (!threads_say(&labels[i]))
			rc = add_annotation(x, &labels[i], a);
	for (size_t i = 0; !rc && i < a->n; i++) {
		const size_t end = i + 1 < a->n ? a->key_at[i + 1] : x->text.len;
		a->v[i].name =
			perfetto_text(x->text.data + a->key_at[i], a->value_at[i] - a->key_at[i]);
		a->v[i].string_value =
			perfetto_text(x->text.data + a->value_at[i], end - a->value_at[i]);
	}
	return rc;
}

static int put_event(struct perfetto *x, int64_t at_ns, Perfetto__TrackEvent *m)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	p.has_timestamp = true;
	p.timestamp = (uint64_t)at_ns;
	p.track_event = m;
	return perfetto_put(&x->out, &p);
}

static int put_wait(struct perfetto *x, const struct store_instant *v, const struct store_row *row,
		    struct perfetto_track *track)
{
	Perfetto__TrackEvent begin = PERFETTO__TRACK_EVENT__INIT, end = begin;
	ProtobufCBinaryData category = perfetto_text("wait", 4);
	const char *name = store_event(x->s, row->event)->name;
	int64_t begin_ns = v->at_ns - (int64_t)v->length_us * 1000;
	struct annotations a;
	int rc = perfetto_tracks_lane(&x->tracks, track, &begin_ns, v->at_ns, &x->out,
				      &begin.track_uuid);
	x->times.crowded += rc == -E2BIG;
	x->times.waits += !rc;
	if (rc)
		return rc == -E2BIG ? 0 : rc;
	rc = make_annotations(x, row->set, &a);
	begin.has_type = begin.has_track_uuid = begin.has_name = true;
	begin.type = SLICE_BEGIN;
	begin.name = perfetto_text(name, strlen(name));
	begin.n_categories = 1;
	begin.categories = &category;
	begin.has_callstack_iid = row->stack != 0;
	begin.callstack_iid = row->stack;
	begin.n_debug_annotations = a.n;
	begin.debug_annotations = a.of;
	end.has_type = end.has_track_uuid = true;
	end.type = SLICE_END;
	end.track_uuid = begin.track_uuid;
	rc = rc ? rc : put_event(x, begin_ns, &begin);
	return rc ? rc : put_event(x, v->at_ns, &end);
}

/* ---- all ---- */

static int on_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct perfetto *x = ctx;
	return threads_set(&x->tracks.of, labels, n, ret);
}

static int on_instant(void *ctx, const struct store_instant *v, const struct store_instant_row *of)
{
	struct perfetto *x = ctx;
	struct perfetto_track *track;
	bool wait = timed_is_wait(store_event(x->s, of->row.event));
	if (ferror(x->out.f))
		return -EIO;
	if (wait && !v->length_us)
		return 0;
	int rc = perfetto_tracks_get(&x->tracks, of->row.set, &x->out, &track);
	rc = rc ? rc : perfetto_stacks_put(&x->stacks, of->row.stack, &x->out);
	if (rc)
		return rc;
	return wait ? put_wait(x, v, &of->row, track) : put_sample(x, v, &of->row, track);
}

static int choose_events(struct perfetto *x, struct err *err)
{
	int rc = timed_choose(x->src, &x->timed);
	return rc != -EINVAL ? rc
			     : err_set(err, rc,
				       "perfetto: only cpu, off, runq and wall have times; leave "
				       "--metric out");
}

static int put_all(struct perfetto *x, struct err *err)
{
	const struct query_info *info = query_info(x->src->query);
	struct query_instants_spec spec = { .range = *x->src->asked,
					    .events = x->timed.events,
					    .stacks = true,
					    .set = on_set,
					    .instant = on_instant,
					    .ctx = x };
	struct query_instants *q;
	/* The range as it was rounded: the sums of report are over it. */
	spec.range.from_ns = info->from_ns;
	spec.range.to_ns = info->to_ns;
	spec.range.keys = x->src->n_keys ? x->src->keys : NULL;
	spec.range.n_keys = x->src->n_keys;
	int rc = query_instants_open(&q, x->s, &spec, err);
	if (rc)
		return rc;
	const struct store_cover *c = query_instants_cover(q);
	for (size_t i = 0; i < c->n; i++)
		x->times.windows += c->blocks[i]->n_windows;
	rc = put_clocks(x);
	rc = rc ? rc : put_defaults(x);
	rc = rc ? rc : query_instants_read(q, &x->times.untracked, err);
	query_instants_close(q);
	if (!rc && x->times.windows && x->times.untracked == x->times.windows)
		rc = err_set(err, -ENODATA,
			     "perfetto: the store keeps no times for this range: record with "
			     "--tracks, or ask for the last minutes of a daemon (tracks)");
	return rc;
}

int export_perfetto(const struct export_source *src, enum export_unit unit, FILE *f,
		    struct err *err)
{
	struct perfetto x = { .src = src, .s = src->store, .out = { .f = f } };
	struct err why = { 0 };
	(void)unit;
	errno = 0;
	int rc = choose_events(&x, &why);
	rc = rc ? rc : perfetto_stacks_init(&x.stacks, src);
	rc = rc ? rc : perfetto_tracks_init(&x.tracks, src->keys, src->n_keys);
	rc = rc ? rc : put_all(&x, &why);
	if (!rc && (ferror(f) || fflush(f)))
		rc = -EIO;
	if (rc && why.text[0])
		*err = why;
	else if (rc)
		err_sys(err, rc == -EIO && errno ? -errno : rc, "Perfetto trace");
	if (!rc && src->times)
		*src->times = x.times;
	perfetto_stacks_fini(&x.stacks);
	perfetto_tracks_fini(&x.tracks);
	free(x.timed.events);
	buf_fini(&x.out.packed);
	buf_fini(&x.text);
	return rc;
}
