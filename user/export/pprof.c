/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, streamed. Concatenated messages are one message in which repeated fields
 * are joined, so each sample, location, ... is packed as a Profile that holds it alone and goes
 * straight into gzip: memory grows with the number of distinct strings, frames and functions, not
 * with the samples.
 *
 * Every location has a line, also a frame without a symbol: its function is called "file+0x12". So
 * the functions of pprof are those of `ascribe report`, and has_functions keeps pprof from looking
 * for symbols of its own.
 */
#include "export/export.h"
#include "export/intern.h"
#include "export/otel_names.h"
#include "export/profile.pb-c.h"
#include "util/array.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define STRING_OVERHEAD 3 /* bytes before a string: its tag, and its length below 16 KiB */

/*
 * A label's value 0 means "no string" in the format, also for an empty value. So this key, which no
 * UTF-8 text equals, gets another number and is written as an empty string.
 */
#define EMPTY_VALUE "\xff"

struct known_set {
	size_t first, n; /* of its labels */
};

struct pprof {
	struct export_source source; /* its query: the one whose rows are written */
	const struct export_source *src;
	unsigned type; /* enum export_memory of that query */
	const struct query_info *info;
	enum export_unit unit;
	z_stream z;
	FILE *f;
	struct buf packed;
	struct intern strings, functions, mappings, locations;
	uint32_t *by_frame; /* locations of one frame alone; 0: not known yet */
	size_t n_frames;
	struct intern sets;	 /* label sets of the query */
	struct known_set *known; /* by number of these */
	size_t cap_known;
	Pprof__Label *labels; /* of all of them */
	size_t n_labels, cap_labels;
	Pprof__Label **label_ptrs; /* of one */
	size_t cap_ptrs;
	struct buf text;
};

/* ---- output ---- */

static int deflate_all(struct pprof *p, const void *data, size_t len, int flush)
{
	uint8_t out[32768];
	p->z.next_in = (uint8_t *)data;
	p->z.avail_in = (uInt)len;
	do {
		p->z.next_out = out;
		p->z.avail_out = sizeof(out);
		deflate(&p->z, flush);
		size_t n = sizeof(out) - p->z.avail_out;
		if (n && fwrite(out, 1, n, p->f) != n)
			return -EIO;
	} while (!p->z.avail_out);
	return 0;
}

static int emit(struct pprof *p, const Pprof__Profile *m)
{
	size_t n = pprof__profile__get_packed_size(m);
	p->packed.len = 0;
	int rc = n > UINT32_MAX ? -E2BIG : buf_reserve(&p->packed, n + 1);
	if (rc)
		return rc;
	pprof__profile__pack(m, p->packed.data);
	return deflate_all(p, p->packed.data, n, Z_NO_FLUSH);
}

/* ---- strings ---- */

/* As UTF-8. */
static int add_text(struct pprof *p, const char *s, size_t len, int64_t *ret)
{
	uint32_t id;
	p->text.len = 0;
	int rc = utf8_repair(&p->text, s, len);
	rc = rc ? rc : intern_add(&p->strings, p->text.data, p->text.len, &id, NULL);
	if (!rc)
		*ret = id;
	return rc;
}

static int add_string(struct pprof *p, const char *s, int64_t *ret)
{
	return add_text(p, s, strlen(s), ret);
}

static int add_store_string(struct pprof *p, uint32_t string, int64_t *ret)
{
	size_t len;
	const char *s = store_string(p->src->store, string, &len);
	return add_text(p, s, len, ret);
}

static int emit_strings(struct pprof *p)
{
	for (uint32_t i = 0; i < p->strings.n; i++) {
		ProtobufCBinaryData data;
		data.data = (uint8_t *)intern_get(&p->strings, i, &data.len);
		if (data.len == 1 && data.data[0] == (uint8_t)EMPTY_VALUE[0])
			data.len = 0;
		Pprof__Profile m = PPROF__PROFILE__INIT;
		m.n_string_table = 1;
		m.string_table = &data;
		int rc = emit(p, &m);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- mappings, functions, locations ---- */

static int add_mapping(struct pprof *p, const struct store_frame *frame, uint64_t *ret_id)
{
	const uint32_t key[2] = { frame->module, frame->build_id };
	uint32_t id;
	bool new;
	int rc = intern_add(&p->mappings, key, sizeof(key), &id, &new);
	if (rc)
		return rc;
	*ret_id = id + 1;
	if (!new)
		return 0;
	Pprof__Mapping m = PPROF__MAPPING__INIT, *ms = &m;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	m.id = id + 1;
	m.has_functions = m.has_filenames = m.has_line_numbers = m.has_inline_frames = 1;
	/* Two mappings without names would be merged by pprof. */
	rc = frame->module ? add_store_string(p, frame->module, &m.filename)
			   : add_string(p, "[unknown]", &m.filename);
	rc = rc ? rc : add_store_string(p, frame->build_id, &m.build_id);
	part.n_mapping = 1;
	part.mapping = &ms;
	return rc ? rc : emit(p, &part);
}

static int add_function(struct pprof *p, uint32_t frame_id, const struct store_frame *frame,
			uint64_t *ret_id)
{
	char text[4096];
	int64_t key[2];
	uint32_t id;
	bool new;
	query_name(p->src->query, frame_id, text, sizeof(text));
	int rc = add_string(p, text, &key[0]);
	rc = rc ? rc : add_store_string(p, frame->file, &key[1]);
	rc = rc ? rc : intern_add(&p->functions, key, sizeof(key), &id, &new);
	if (rc)
		return rc;
	*ret_id = id + 1;
	if (!new)
		return 0;
	Pprof__Function m = PPROF__FUNCTION__INIT, *ms = &m;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	const struct start *start = export_start(p->src, frame);
	m.id = id + 1;
	m.name = m.system_name = key[0];
	m.filename = key[1];
	m.start_line = start ? start->line : 0;
	part.n_function = 1;
	part.function = &ms;
	return emit(p, &part);
}

/* One location from n frames: inlined calls, innermost first, and the function they are in. */
static int add_location(struct pprof *p, const uint32_t *frames, size_t n, uint64_t *ret_id)
{
	uint32_t id;
	bool new;
	int rc = intern_add(&p->locations, frames, n * sizeof(*frames), &id, &new);
	if (rc)
		return rc;
	*ret_id = id + 1;
	if (!new)
		return 0;
	Pprof__Line *lines = calloc(n, sizeof(*lines)), **ptrs = calloc(n, sizeof(*ptrs));
	Pprof__Location m = PPROF__LOCATION__INIT, *ms = &m;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	const struct store_frame *frame = NULL;
	rc = lines && ptrs ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		frame = export_frame(p->src->store, frames[i]);
		pprof__line__init(&lines[i]);
		ptrs[i] = &lines[i];
		lines[i].line = frame->line;
		rc = add_function(p, frames[i], frame, &lines[i].function_id);
	}
	rc = rc ? rc : add_mapping(p, frame, &m.mapping_id);
	if (!rc) {
		m.id = id + 1;
		m.address = frame->offset;
		m.n_line = n;
		m.line = ptrs;
		part.n_location = 1;
		part.location = &ms;
		rc = emit(p, &part);
	}
	free(lines);
	free(ptrs);
	return rc;
}

/* Most locations have one frame: those need no hash. */
static int find_location(struct pprof *p, const uint32_t *frames, size_t n, uint64_t *ret_id)
{
	bool alone = n == 1 && frames[0] < p->n_frames;
	if (alone && p->by_frame[frames[0]]) {
		*ret_id = p->by_frame[frames[0]];
		return 0;
	}
	int rc = add_location(p, frames, n, ret_id);
	if (!rc && alone)
		p->by_frame[frames[0]] = (uint32_t)*ret_id;
	return rc;
}

/* The locations of a stack, leaf first. */
static int add_stack(struct pprof *p, const struct store_row *row, uint64_t *ret, size_t *ret_n)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	size_t n = 0, depth = export_row_stack(p->src, row, frames);
	for (size_t i = 0, len; i < depth; i += len) {
		len = export_inlined(p->src->store, frames + i, depth - i);
		int rc = find_location(p, frames + i, len, &ret[n++]);
		if (rc)
			return rc;
	}
	*ret_n = n;
	return 0;
}

/* ---- labels ---- */

static int add_string_label(struct pprof *p, const char *key, size_t key_len, const char *value,
			    size_t len)
{
	Pprof__Label *m = &p->labels[p->n_labels];
	uint32_t id;
	pprof__label__init(m);
	int rc = add_text(p, key, key_len, &m->key);
	if (len)
		rc = rc ? rc : add_text(p, value, len, &m->str);
	else if (!rc && !(rc = intern_add(&p->strings, EMPTY_VALUE, 1, &id, NULL)))
		m->str = id;
	p->n_labels += !rc;
	return rc;
}

static int add_number_label(struct pprof *p, const struct label *l)
{
	Pprof__Label *m = &p->labels[p->n_labels];
	pprof__label__init(m);
	m->num = l->num;
	int rc = add_text(p, l->key, l->key_len, &m->key);
	/* Without a unit pprof takes the key for one, and a number 0 for no label. */
	rc = rc ? rc : add_string(p, "count", &m->num_unit);
	p->n_labels += !rc;
	return rc;
}

static int make_labels(struct pprof *p, uint32_t set)
{
	const struct label *labels;
	size_t n = p->src->bare ? 0 : query_set(p->src->query, set, &labels);
	int rc = ARRAY_RESERVE(p->labels, p->cap_labels, p->n_labels + n + 1);
	for (size_t i = 0; !rc && i < n; i++) {
		struct label l = labels[i];
		char name[OTEL_NAME_MAX];
		size_t len = l.key_len;
		if (p->src->otel)
			l.key = otel_name(labels, n, i, name, &len);
		l.key_len = (uint32_t)len;
		if (l.key && l.type == LABEL_INT)
			rc = add_number_label(p, &l);
		else if (l.key)
			rc = add_string_label(p, l.key, len, l.str, l.str_len);
	}
	const char *event = p->info->event->name;
	return rc || p->src->bare || p->src->memory
		       ? rc
		       : add_string_label(p, "event", 5, event, strlen(event));
}

static int find_labels(struct pprof *p, uint32_t set, Pprof__Sample *to)
{
	uint32_t id;
	bool new;
	const uint32_t key[] = { p->type, set }; /* sets are numbered by each query */
	int rc = intern_add(&p->sets, key, sizeof(key), &id, &new);
	if (!rc && new) {
		const size_t first = p->n_labels;
		rc = ARRAY_RESERVE(p->known, p->cap_known, p->sets.n);
		rc = rc ? rc : make_labels(p, set);
		if (!rc)
			p->known[id] = (struct known_set){ first, p->n_labels - first };
	}
	rc = rc ? rc : ARRAY_RESERVE(p->label_ptrs, p->cap_ptrs, p->known[id].n);
	if (rc)
		return rc;
	to->n_label = p->known[id].n;
	to->label = p->label_ptrs;
	for (size_t i = 0; i < to->n_label; i++)
		to->label[i] = &p->labels[p->known[id].first + i];
	return 0;
}

/* ---- the profile ---- */

uint64_t export_value(const struct store_event *e, const struct store_row *row)
{
	uint64_t v = row->value;
	if (e->ns_per_sample && __builtin_mul_overflow(row->samples, e->ns_per_sample, &v))
		v = INT64_MAX;
	return v > INT64_MAX ? INT64_MAX : v;
}

static int emit_row(struct pprof *p, const struct store_row *row)
{
	uint64_t locations[EXPORT_DEPTH_MAX + 1];
	int64_t values[2] = { (int64_t)row->samples, (int64_t)export_value(p->info->event, row) };
	int64_t memory[EXPORT_MEMORY] = { 0 };
	Pprof__Sample m = PPROF__SAMPLE__INIT, *ms = &m;
	Pprof__Profile part = PPROF__PROFILE__INIT;
	int rc = find_labels(p, row->set, &m);
	rc = rc ? rc : add_stack(p, row, locations, &m.n_location_id);
	m.location_id = locations;
	m.n_value = p->info->amounts ? 1 : 2;
	m.value = values + p->info->amounts;
	if (p->src->memory) { /* readers add up samples of the same stack and labels */
		memory[p->type] = (int64_t)row->samples;
		m.n_value = EXPORT_MEMORY;
		m.value = memory;
	}
	part.n_sample = 1;
	part.sample = &ms;
	return rc ? rc : emit(p, &part);
}

/* What `ascribe report` prints above and below its table, for `go tool pprof -comments`. */
static int add_comments(struct pprof *p, int64_t comments[4], size_t *ret_n)
{
	const struct store_meta *m = store_meta(p->src->store);
	const char *where = p->src->where && *p->src->where ? p->src->where : "{}";
	char line[300];
	uint64_t lost = 0;
	for (size_t i = 0; i < m->n_lost; i++)
		lost += p->info->lost[i];
	snprintf(line, sizeof(line), "%s; host %s, %s", m->what, m->host, m->os);
	int rc = add_string(p, line, &comments[0]);
	rc = rc ? rc : add_string(p, where, &comments[1]);
	snprintf(line, sizeof(line), "fired %llu = stored %llu + lost %llu",
		 (unsigned long long)p->info->fired, (unsigned long long)p->info->stored,
		 (unsigned long long)lost);
	rc = rc ? rc : add_string(p, line, &comments[2]);
	snprintf(line, sizeof(line), "idle samples %s: %llu",
		 p->src->idle ? "included" : "left out", (unsigned long long)p->info->idle);
	rc = rc ? rc : add_string(p, line, &comments[3]);
	*ret_n = 4;
	return rc;
}

/* Memory: the metrics of all queries. */
static int emit_memory_header(struct pprof *p)
{
	Pprof__ValueType types[EXPORT_MEMORY], *ptrs[EXPORT_MEMORY];
	Pprof__Profile m = PPROF__PROFILE__INIT;
	int64_t comments[4];
	int rc = add_comments(p, comments, &m.n_comment);
	for (unsigned i = 0; !rc && i < EXPORT_MEMORY; i++) {
		const struct store_event *e = query_info(p->src->memory[i])->event;
		const char *unit = !strcmp(e->unit, "objects") ? "count" : e->unit;
		types[i] = (Pprof__ValueType)PPROF__VALUE_TYPE__INIT;
		ptrs[i] = &types[i];
		rc = add_string(p, e->name, &types[i].type);
		rc = rc ? rc : add_string(p, unit, &types[i].unit);
		if (p->src->memory[i] == p->src->query)
			m.default_sample_type = types[i].type;
	}
	m.comment = comments;
	m.n_sample_type = EXPORT_MEMORY;
	m.sample_type = ptrs;
	m.period_type = &types[EXPORT_ALLOC_SPACE];
	m.period = QUERY_HEAP_MEAN;
	m.time_nanos = p->info->from_ns;
	m.duration_nanos = p->info->to_ns - p->info->from_ns;
	return rc ? rc : emit(p, &m);
}

static int emit_header(struct pprof *p)
{
	const struct store_event *e = p->info->event;
	const bool amounts = p->info->amounts, time = e->ns_per_sample > 0;
	Pprof__ValueType types[2] = { PPROF__VALUE_TYPE__INIT, PPROF__VALUE_TYPE__INIT };
	Pprof__ValueType *ptrs[2] = { &types[0], &types[1] };
	Pprof__Profile m = PPROF__PROFILE__INIT;
	int64_t comments[4];
	if (p->src->memory)
		return emit_memory_header(p);
	int rc = add_string(p, "samples", &types[0].type);
	rc = rc ? rc : add_string(p, "count", &types[0].unit);
	rc = rc ? rc : add_string(p, time && !amounts ? "cpu" : e->name, &types[1].type);
	rc = rc ? rc : add_string(p, time ? "nanoseconds" : e->unit, &types[1].unit);
	rc = rc ? rc : add_comments(p, comments, &m.n_comment);
	m.comment = comments;
	/* Of amounts there is nothing that could be counted. */
	m.n_sample_type = amounts ? 1 : 2;
	m.sample_type = ptrs + amounts;
	m.default_sample_type = types[p->unit != EXPORT_SAMPLES || amounts].type;
	m.period_type = &types[1];
	m.period = (int64_t)(time ? e->ns_per_sample : e->period);
	m.time_nanos = p->info->from_ns;
	m.duration_nanos = p->info->to_ns - p->info->from_ns;
	return rc ? rc : emit(p, &m);
}

/* What there will be before compression: strings come last. */
static size_t bytes_so_far(const struct pprof *p)
{
	return p->z.total_in + p->strings.bytes.len + p->strings.n * STRING_OVERHEAD;
}

static int emit_rows(struct pprof *p)
{
	struct export_part *part = p->src->part;
	size_t n, i = part ? part->from : 0;
	const struct store_row *rows = query_rows(p->src->query, &n);
	size_t end = part && part->to < n ? part->to : n;
	int rc = 0;
	while (!rc && i < end) {
		rc = emit_row(p, &rows[i++]);
		if (part && bytes_so_far(p) >= part->max_bytes)
			break;
	}
	if (part)
		part->end = i;
	return rc;
}

static int emit_profile(struct pprof *p)
{
	uint32_t empty;
	int rc = intern_add(&p->strings, "", 0, &empty, NULL);
	rc = rc ? rc : emit_header(p);
	for (p->type = 0; !rc && p->type < (p->src->memory ? EXPORT_MEMORY : 1); p->type++) {
		if (p->src->memory)
			p->source.query = p->src->memory[p->type];
		rc = emit_rows(p);
	}
	rc = rc ? rc : emit_strings(p);
	rc = rc ? rc : deflate_all(p, NULL, 0, Z_FINISH);
	if (p->src->part)
		p->src->part->bytes = p->z.total_in;
	return rc;
}

int export_pprof(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	static const struct store_event no_event = { "samples", "count", 0, 0 };
	struct query_info info;
	info = *query_info(src->query);
	if (!info.event)
		info.event = &no_event;
	struct pprof p = { .source = *src, .info = &info, .unit = unit, .f = f };
	p.src = &p.source;
	/* A part is sent at once and forgotten: half the time for a tenth more bytes. */
	int level = src->part ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION;
	/* 15 + 16: the largest window, a gzip header. */
	if (deflateInit2(&p.z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_sys(err, -ENOMEM, "pprof");
	errno = 0;
	p.n_frames = store_n_frames(src->store);
	p.by_frame = calloc(p.n_frames + 1, sizeof(*p.by_frame));
	int rc = p.by_frame ? emit_profile(&p) : -ENOMEM;
	if (!rc && fflush(f))
		rc = -EIO;
	if (rc)
		rc = err_sys(err, rc == -EIO && errno ? -errno : rc, "pprof");
	deflateEnd(&p.z);
	buf_fini(&p.packed);
	buf_fini(&p.text);
	intern_fini(&p.strings);
	intern_fini(&p.functions);
	intern_fini(&p.sets);
	free(p.known);
	intern_fini(&p.mappings);
	intern_fini(&p.locations);
	free(p.by_frame);
	free(p.labels);
	free(p.label_ptrs);
	return rc;
}
