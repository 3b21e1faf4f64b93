/* SPDX-License-Identifier: Apache-2.0 */
#include "import/pprof.h"

#include "export/profile.pb-c.h"
#include "import/message_memory.h"
#include "util/gunzip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_MIN_NS 1000
#define PERIOD_MAX_NS 10000000000

struct by_id {
	uint64_t id;
	size_t index;
};

struct pprof_reader {
	struct profile *p;
	const Pprof__Profile *m;
	struct by_id *functions, *mappings, *locations;
	char **strings;
	struct {
		uint32_t first, n;
	} *frames; /* [n_location] */
	size_t type[PROFILE_TYPES_MAX], value[PROFILE_TYPES_MAX],
		n_values; /* of the profile; of the message */
	bool starved;	  /* a text is missing for want of memory */
};

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct by_id *)a)->id, y = ((const struct by_id *)b)->id;
	return (x > y) - (x < y);
}

static const struct by_id *find(const struct by_id *v, size_t n, uint64_t id)
{
	struct by_id key = { id, 0 };
	return n ? bsearch(&key, v, n, sizeof(*v), compare_ids) : NULL;
}

#define INDEX(to, field, type) \
	do { \
		(to) = calloc(m->n_##field + 1, sizeof(*(to))); \
		for (size_t i_ = 0; (to) && i_ < m->n_##field; i_++) \
			(to)[i_] = (struct by_id){ m->field[i_]->id, i_ }; \
		if (to) \
			qsort((to), m->n_##field, sizeof(*(to)), compare_ids); \
	} while (0)

/* Return a text of the table, as long as the profile lives; "": there is none, see r->starved. */
static const char *string(struct pprof_reader *r, int64_t i)
{
	if (i < 0 || (uint64_t)i >= r->m->n_string_table)
		return "";
	if (!r->strings[i])
		r->strings[i] =
			profile_text(r->p, r->m->string_table[i].data, r->m->string_table[i].len);
	r->starved |= !r->strings[i];
	return r->strings[i] ? r->strings[i] : "";
}

static int location_frames(struct pprof_reader *r, size_t at)
{
	const Pprof__Profile *m = r->m;
	const Pprof__Location *l = m->location[at];
	const struct by_id *map = find(r->mappings, m->n_mapping, l->mapping_id);
	struct profile_frame f = { .function = "", .module = PROFILE_MODULE, .file = "" };
	char text[32];
	uint32_t id;
	int rc = 0;
	if (map && *string(r, m->mapping[map->index]->filename))
		f.module = string(r, m->mapping[map->index]->filename);
	f.kernel = !strncmp(f.module, "[kernel", 7);
	r->frames[at].first = (uint32_t)r->p->n_frames;
	for (size_t i = 0; !rc && i < l->n_line; i++) {
		const struct by_id *fn = find(r->functions, m->n_function, l->line[i]->function_id);
		f.function = fn ? string(r, m->function[fn->index]->name) : "";
		f.file = fn ? string(r, m->function[fn->index]->filename) : "";
		f.line = l->line[i]->line > 0 && l->line[i]->line < UINT32_MAX
				 ? (uint32_t)l->line[i]->line
				 : 0;
		f.inlined = i + 1 < l->n_line;
		if (!*f.function)
			f.function = "[unknown]";
		rc = profile_new_frame(r->p, &f, &id);
	}
	if (!rc && !l->n_line) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)l->address);
		f.function = profile_text(r->p, text, strlen(text));
		rc = f.function ? profile_new_frame(r->p, &f, &id) : -ENOMEM;
	}
	r->frames[at].n = (uint32_t)r->p->n_frames - r->frames[at].first;
	return rc;
}

static bool is_time(struct pprof_reader *r, size_t i)
{
	return !strcmp(string(r, r->m->sample_type[i]->unit), "nanoseconds");
}

/* The time that one sample stands for, when the profile says one that can be. */
static uint64_t period_of(struct pprof_reader *r)
{
	const Pprof__Profile *m = r->m;
	bool time = m->period_type && !strcmp(string(r, m->period_type->unit), "nanoseconds");
	return time && m->period >= PERIOD_MIN_NS && m->period <= PERIOD_MAX_NS
		       ? (uint64_t)m->period
		       : PROFILE_PERIOD_NS;
}

/* Beside a time, "samples" says nothing more. */
static int choose_types(struct pprof_reader *r)
{
	const Pprof__Profile *m = r->m;
	bool any_time = false;
	for (size_t i = 0; i < m->n_sample_type; i++)
		any_time |= is_time(r, i);
	for (size_t i = 0; i < m->n_sample_type && i < PROFILE_TYPES_MAX; i++) {
		const char *type = string(r, m->sample_type[i]->type),
			   *unit = string(r, m->sample_type[i]->unit);
		if (any_time && !strcmp(type, "samples") && !is_time(r, i))
			continue;
		int rc = profile_add_type(r->p, type, unit, is_time(r, i) ? period_of(r) : 0,
					  &r->type[r->n_values]);
		if (rc)
			return rc;
		r->value[r->n_values++] = i;
	}
	return r->n_values ? 0 : -EINVAL;
}

static int sample_labels(struct pprof_reader *r, const Pprof__Sample *m, struct profile_sample *s)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < m->n_label; i++) {
		const Pprof__Label *l = m->label[i];
		const char *key = string(r, l->key), *text = string(r, l->str);
		size_t n = strlen(key), len = strnlen(text, PROFILE_VALUE_MAX);
		if (!n || n > PROFILE_KEY_MAX || !strncmp(key, "__", 2) ||
		    !strcmp(key, "event")) /* the key of our own events */
			continue;
		struct label v = l->str ? (struct label){ .key = key,
							  .key_len = (uint32_t)n,
							  .str = text,
							  .type = LABEL_STRING,
							  .str_len = (uint32_t)len }
					: (struct label){ .key = key,
							  .key_len = (uint32_t)n,
							  .num = l->num,
							  .type = LABEL_INT };
		rc = profile_push_label(r->p, s, &v);
	}
	return rc;
}

static int add_sample(struct pprof_reader *r, const Pprof__Sample *m,
		      const struct profile_labels *l)
{
	struct profile_sample *s;
	int rc = profile_new_sample(r->p, l, &s);
	for (size_t i = 0; !rc && i < m->n_location_id; i++) {
		const struct by_id *at = find(r->locations, r->m->n_location, m->location_id[i]);
		for (uint32_t k = 0; !rc && at && k < r->frames[at->index].n; k++)
			rc = profile_push_frame(r->p, s, r->frames[at->index].first + k);
	}
	for (size_t i = 0; !rc && i < r->n_values; i++)
		if (r->value[i] < m->n_value && m->value[r->value[i]] > 0)
			s->value[r->type[i]] = (uint64_t)m->value[r->value[i]];
	return rc ? rc : sample_labels(r, m, s);
}

static void read_time(struct profile *p, const Pprof__Profile *m)
{
	if (p->from_ns || m->time_nanos <= 0)
		return;
	p->from_ns = m->time_nanos;
	if (m->duration_nanos > 0 && m->duration_nanos < INT64_MAX - p->from_ns)
		p->to_ns = p->from_ns + m->duration_nanos;
}

static int read_pprof(struct profile *p, const Pprof__Profile *m, const struct profile_labels *l)
{
	struct pprof_reader r = { .p = p, .m = m };
	INDEX(r.functions, function, );
	INDEX(r.mappings, mapping, );
	INDEX(r.locations, location, );
	r.strings = calloc(m->n_string_table + 1, sizeof(*r.strings));
	r.frames = calloc(m->n_location + 1, sizeof(*r.frames));
	int rc = r.functions && r.mappings && r.locations && r.strings && r.frames
			 ? choose_types(&r)
			 : -ENOMEM;
	for (size_t i = 0; !rc && i < m->n_location; i++)
		rc = location_frames(&r, i);
	for (size_t i = 0; !rc && i < m->n_sample; i++)
		rc = add_sample(&r, m->sample[i], l);
	rc = r.starved ? -ENOMEM : rc;
	read_time(p, m);
	free(r.functions);
	free(r.mappings);
	free(r.locations);
	free(r.strings);
	free(r.frames);
	return rc;
}

static int explain(int rc, const struct profile_limits *limits, struct err *err)
{
	if (rc == -E2BIG)
		return err_set(err, rc,
			       "the profile has too many samples, frames or types (at most %zu, "
			       "%zu, %u): `go tool pprof -proto` merges samples of one stack",
			       limits->samples, limits->frames, PROFILE_TYPES_MAX);
	if (rc == -EINVAL)
		return err_set(err, rc, "the profile has no sample type");
	return rc ? err_set(err, rc, "out of memory") : 0;
}

int profile_add_pprof(struct profile *p, const uint8_t *data, size_t len,
		      const struct profile_labels *l, struct err *err)
{
	const struct profile_limits *limits = profile_limits_of(p);
	struct message_memory memory;
	struct buf plain = BUF_INIT;
	int rc = 0;
	if (len >= 2 && data[0] == 0x1f && data[1] == 0x8b) {
		rc = gunzip(data, len, limits->bytes, &plain, err);
		data = plain.data;
		len = plain.len;
	}
	if (!rc && (!len || len > limits->bytes))
		rc = err_set(err, len ? -EMSGSIZE : -EINVAL, "a profile of %zu bytes", len);
	if (!rc) {
		message_memory_init(&memory, limits->message);
		ProtobufCMessage *m = protobuf_c_message_unpack(&pprof__profile__descriptor,
								&memory.allocator, len, data);
		if (m || memory.exceeded)
			rc = explain(m ? read_pprof(p, (const Pprof__Profile *)m, l) : -E2BIG,
				     limits, err);
		else
			rc = err_set(err, -EINVAL, "it is no pprof profile");
		message_free(m, &memory);
	}
	buf_fini(&plain);
	return rc;
}
