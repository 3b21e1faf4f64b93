/* SPDX-License-Identifier: Apache-2.0 */
#include "http/profile.h"

#include "export/profile.pb-c.h"
#include "http/message.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define UNPACKED_MAX (8u << 20)
#define MESSAGE_MAX (40u << 20) /* the profile's structures */
#define KEY_MAX 255
#define VALUE_MAX 1024
#define CHUNK 65536
#define NODE_BYTES 16 /* of a frame, a label, a node of a stack, a row: about what one costs in the store */

size_t profile_size(const struct profile *p)
{
	size_t n = NODE_BYTES * (p->n_frames + p->n_labels + p->n_stacks + p->n_samples);
	for (size_t i = 0; i < p->n_frames; i++)
		n += strlen(p->frames[i].function) + strlen(p->frames[i].module) + strlen(p->frames[i].file);
	for (size_t i = 0; i < p->n_labels; i++)
		n += p->labels[i].key_len + (p->labels[i].type == LABEL_STRING ? p->labels[i].str_len : 0);
	return n;
}

void profile_fini(struct profile *p)
{
	for (size_t i = 0; i < p->n_texts; i++)
		free(p->texts[i]);
	free(p->texts);
	free(p->frames);
	free(p->stacks);
	free(p->labels);
	free(p->samples);
	*p = (struct profile){ 0 };
}

int profile_gunzip(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err)
{
	z_stream z = { .next_in = (uint8_t *)(uintptr_t)data, .avail_in = (uInt)len };
	int rc = Z_OK;
	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return err_set(err, -ENOMEM, "out of memory");
	while (rc == Z_OK && out->len <= max) {
		if (buf_reserve(out, CHUNK)) {
			inflateEnd(&z);
			return err_set(err, -ENOMEM, "out of memory");
		}
		z.next_out = out->data + out->len;
		z.avail_out = CHUNK;
		rc = inflate(&z, Z_NO_FLUSH);
		out->len += CHUNK - z.avail_out;
	}
	inflateEnd(&z);
	if (out->len > max)
		return err_set(err, -EMSGSIZE, "it unpacks to more than %zu bytes", max);
	return rc == Z_STREAM_END ? 0 : err_set(err, -EINVAL, "it is no whole gzip stream");
}

/* ---- labels ---- */

int profile_labels_add(struct profile_labels *l, const char *name, const char *value, struct err *err)
{
	size_t n = strlen(name), m = strlen(value);
	if (!strncmp(name, "__", 2))
		return 0;
	if (!n || n > KEY_MAX || m > VALUE_MAX)
		return err_set(err, -EINVAL, "a label's name has 1 to %d bytes, its value at most %d", KEY_MAX, VALUE_MAX);
	if (l->n == PROFILE_LABELS_MAX)
		return err_set(err, -E2BIG, "more than %d labels", PROFILE_LABELS_MAX);
	l->v[l->n++] = (struct label){ .key = name, .key_len = (uint32_t)n, .str = value, .str_len = (uint32_t)m, .type = LABEL_STRING };
	return 0;
}

int profile_labels_of_name(struct profile_labels *l, char *text, struct err *err)
{
	char *brace = strchr(text, '{'), *rest = brace ? brace + 1 : NULL;
	size_t n = strlen(text);
	if (brace && text[n - 1] != '}')
		return err_set(err, -EINVAL, "name: app{key=value,...}");
	if (brace) {
		text[n - 1] = 0;
		*brace = 0;
	}
	/* The kind of profile stands behind the last dot, for clients that send one kind a name. */
	int rc = *text ? profile_labels_add(l, "service_name", text, err) : err_set(err, -EINVAL, "name: whose profile? app{key=value,...}");
	for (char *pair; !rc && rest && *rest && (pair = strsep(&rest, ","));) {
		char *value = strchr(pair, '=');
		if (!value)
			return err_set(err, -EINVAL, "name: app{key=value,...}");
		*value++ = 0;
		size_t m = strlen(value);
		if (m >= 2 && value[0] == '"' && value[m - 1] == '"') {
			value[m - 1] = 0;
			value++;
		}
		rc = profile_labels_add(l, pair, value, err);
	}
	return rc;
}

/* ---- parts ---- */

static char *keep(struct profile *p, const void *s, size_t len)
{
	if (ARRAY_RESERVE(p->texts, p->texts_cap, p->n_texts + 1))
		return NULL;
	len = len > PROFILE_TEXT_MAX ? PROFILE_TEXT_MAX : len;
	char *c = malloc(len + 1);
	if (!c)
		return NULL;
	memcpy(c, s ? s : "", len);
	c[len] = 0;
	return p->texts[p->n_texts++] = c;
}

static int add_type(struct profile *p, const char *type, const char *unit, bool time, size_t *ret)
{
	struct profile_type t = { .time = time };
	snprintf(t.event, sizeof(t.event), "ingest:%.60s", type);
	snprintf(t.unit, sizeof(t.unit), "%.30s", unit);
	for (char *c = t.event; *c; c++) /* a name for selectors, files and pages */
		if ((unsigned char)*c <= ' ' || strchr("{}\"',<>&", *c) || (unsigned char)*c > '~')
			*c = '_';
	for (size_t i = 0; i < p->n_types; i++) {
		if (strcmp(p->type[i].event, t.event))
			continue;
		*ret = i;
		return 0;
	}
	if (p->n_types == PROFILE_TYPES_MAX)
		return -E2BIG;
	p->type[p->n_types] = t;
	*ret = p->n_types++;
	return 0;
}

static int push_label(struct profile *p, struct profile_sample *s, const struct label *l)
{
	if (s->n_labels == PROFILE_LABELS_MAX)
		return 0;
	if (ARRAY_RESERVE(p->labels, p->labels_cap, p->n_labels + 1))
		return -ENOMEM;
	p->labels[p->n_labels++] = *l;
	s->n_labels++;
	return 0;
}

static int new_sample(struct profile *p, const struct profile_labels *l, struct profile_sample **ret)
{
	if (p->n_samples == PROFILE_SAMPLES_MAX)
		return -E2BIG;
	if (ARRAY_RESERVE(p->samples, p->samples_cap, p->n_samples + 1))
		return -ENOMEM;
	struct profile_sample *s = &p->samples[p->n_samples++];
	memset(s, 0, sizeof(*s));
	s->stack = (uint32_t)p->n_stacks;
	s->label = (uint32_t)p->n_labels;
	*ret = s;
	int rc = 0;
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = push_label(p, s, &l->v[i]);
	return rc;
}

static int push_frame(struct profile *p, struct profile_sample *s, uint32_t frame)
{
	if (s->depth == PROFILE_DEPTH_MAX)
		return 0; /* its root side is left out, as of our own */
	if (p->n_stacks == PROFILE_STACKS_MAX)
		return -E2BIG;
	if (ARRAY_RESERVE(p->stacks, p->stacks_cap, p->n_stacks + 1))
		return -ENOMEM;
	p->stacks[p->n_stacks++] = frame;
	s->depth++;
	return 0;
}

static int new_frame(struct profile *p, const struct profile_frame *f, uint32_t *ret)
{
	if (p->n_frames == PROFILE_FRAMES_MAX)
		return -E2BIG;
	if (ARRAY_RESERVE(p->frames, p->frames_cap, p->n_frames + 1))
		return -ENOMEM;
	p->frames[p->n_frames] = *f;
	*ret = (uint32_t)p->n_frames++;
	return 0;
}

/* ---- pprof ---- */

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
	size_t type[PROFILE_TYPES_MAX], value[PROFILE_TYPES_MAX], n_values;
	struct err *err;
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

#define INDEX(to, field, type)                                                                    \
	do {                                                                                      \
		(to) = calloc(m->n_##field + 1, sizeof(*(to)));                                   \
		for (size_t i_ = 0; (to) && i_ < m->n_##field; i_++)                              \
			(to)[i_] = (struct by_id){ m->field[i_]->id, i_ };                        \
		if (to)                                                                           \
			qsort((to), m->n_##field, sizeof(*(to)), compare_ids);                    \
	} while (0)

/* A text of the table, as long as the profile lives; NULL: out of memory. */
static const char *string(struct pprof_reader *r, int64_t i)
{
	if (i < 0 || (uint64_t)i >= r->m->n_string_table)
		return "";
	if (!r->strings[i])
		r->strings[i] = keep(r->p, r->m->string_table[i].data, r->m->string_table[i].len);
	return r->strings[i];
}

static int location_frames(struct pprof_reader *r, size_t at)
{
	const Pprof__Profile *m = r->m;
	const Pprof__Location *l = m->location[at];
	const struct by_id *map = find(r->mappings, m->n_mapping, l->mapping_id);
	struct profile_frame f = { "", "[ingest]", "", 0 };
	char text[32];
	uint32_t id;
	int rc = 0;
	if (map && *string(r, m->mapping[map->index]->filename))
		f.module = string(r, m->mapping[map->index]->filename);
	r->frames[at].first = (uint32_t)r->p->n_frames;
	for (size_t i = 0; !rc && i < l->n_line; i++) {
		const struct by_id *fn = find(r->functions, m->n_function, l->line[i]->function_id);
		f.function = fn ? string(r, m->function[fn->index]->name) : "";
		f.file = fn ? string(r, m->function[fn->index]->filename) : "";
		f.line = l->line[i]->line > 0 && l->line[i]->line < UINT32_MAX ? (uint32_t)l->line[i]->line : 0;
		if (!f.function || !f.file || !f.module)
			return -ENOMEM;
		if (!*f.function)
			f.function = "[unknown]";
		rc = new_frame(r->p, &f, &id);
	}
	if (!rc && !l->n_line) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)l->address);
		f.function = keep(r->p, text, strlen(text));
		rc = f.function ? new_frame(r->p, &f, &id) : -ENOMEM;
	}
	r->frames[at].n = (uint32_t)r->p->n_frames - r->frames[at].first;
	return rc;
}

/* Counts of samples beside a time say nothing more than that. */
static int choose_types(struct pprof_reader *r)
{
	const Pprof__Profile *m = r->m;
	bool any_time = false;
	for (size_t i = 0; i < m->n_sample_type; i++)
		any_time |= !strcmp(string(r, m->sample_type[i]->unit), "nanoseconds");
	for (size_t i = 0; i < m->n_sample_type && i < PROFILE_TYPES_MAX; i++) {
		const char *type = string(r, m->sample_type[i]->type), *unit = string(r, m->sample_type[i]->unit);
		bool time = !strcmp(unit, "nanoseconds");
		if (any_time && !strcmp(type, "samples") && !time)
			continue;
		int rc = add_type(r->p, type, unit, time, &r->type[r->n_values]);
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
		if (!key || !text)
			return -ENOMEM;
		size_t n = strlen(key), len = strlen(text);
		if (!n || n > KEY_MAX || !strncmp(key, "__", 2))
			continue;
		struct label v = l->str ? (struct label){ .key = key, .key_len = (uint32_t)n, .str = text, .type = LABEL_STRING,
								   .str_len = (uint32_t)(len > VALUE_MAX ? VALUE_MAX : len) }
						 : (struct label){ .key = key, .key_len = (uint32_t)n, .num = l->num, .type = LABEL_INT };
		rc = push_label(r->p, s, &v);
	}
	return rc;
}

static int add_sample(struct pprof_reader *r, const Pprof__Sample *m, const struct profile_labels *l)
{
	struct profile_sample *s;
	int rc = new_sample(r->p, l, &s);
	for (size_t i = 0; !rc && i < m->n_location_id; i++) {
		const struct by_id *at = find(r->locations, r->m->n_location, m->location_id[i]);
		for (uint32_t k = 0; !rc && at && k < r->frames[at->index].n; k++)
			rc = push_frame(r->p, s, r->frames[at->index].first + k);
	}
	for (size_t i = 0; !rc && i < r->n_values; i++)
		if (r->value[i] < m->n_value && m->value[r->value[i]] > 0)
			s->value[r->type[i]] = (uint64_t)m->value[r->value[i]];
	return rc ? rc : sample_labels(r, m, s);
}

static int read_pprof(struct profile *p, const Pprof__Profile *m, const struct profile_labels *l)
{
	struct pprof_reader r = { .p = p, .m = m };
	INDEX(r.functions, function, );
	INDEX(r.mappings, mapping, );
	INDEX(r.locations, location, );
	r.strings = calloc(m->n_string_table + 1, sizeof(*r.strings));
	r.frames = calloc(m->n_location + 1, sizeof(*r.frames));
	int rc = r.functions && r.mappings && r.locations && r.strings && r.frames ? choose_types(&r) : -ENOMEM;
	for (size_t i = 0; !rc && i < m->n_location; i++)
		rc = location_frames(&r, i);
	for (size_t i = 0; !rc && i < m->n_sample; i++)
		rc = add_sample(&r, m->sample[i], l);
	free(r.functions);
	free(r.mappings);
	free(r.locations);
	free(r.strings);
	free(r.frames);
	return rc;
}

static int explain(int rc, struct err *err)
{
	if (rc == -E2BIG)
		return err_set(err, rc, "the profile has too many samples, frames or types");
	if (rc == -EINVAL)
		return err_set(err, rc, "the profile has no sample type");
	return rc ? err_set(err, rc, "out of memory") : 0;
}

int profile_add_pprof(struct profile *p, const uint8_t *data, size_t len, const struct profile_labels *l, struct err *err)
{
	struct message_memory memory;
	struct buf plain = BUF_INIT;
	int rc = 0;
	if (len >= 2 && data[0] == 0x1f && data[1] == 0x8b) {
		rc = profile_gunzip(data, len, UNPACKED_MAX, &plain, err);
		data = plain.data;
		len = plain.len;
	}
	if (!rc && (!len || len > UNPACKED_MAX))
		rc = err_set(err, len ? -EMSGSIZE : -EINVAL, "a profile of %zu bytes", len);
	if (!rc) {
		message_memory_init(&memory, MESSAGE_MAX);
		ProtobufCMessage *m = protobuf_c_message_unpack(&pprof__profile__descriptor, &memory.allocator, len, data);
		rc = m ? explain(read_pprof(p, (const Pprof__Profile *)m, l), err) : err_set(err, -EINVAL, "it is no pprof profile");
		message_free(m, &memory);
	}
	buf_fini(&plain);
	return rc;
}

/* ---- folded ---- */

static int add_line(struct profile *p, char *line, uint64_t rate, size_t type, const struct profile_labels *l)
{
	struct profile_sample *s;
	char *space = strrchr(line, ' '), *end;
	if (!space || space == line)
		return -EINVAL;
	unsigned long long n = strtoull(space + 1, &end, 10);
	if (end == space + 1 || *end || n > UINT32_MAX)
		return -EINVAL;
	*space = 0;
	int rc = new_sample(p, l, &s);
	while (!rc) { /* the leaf is last */
		char *semicolon = strrchr(line, ';');
		struct profile_frame f = { semicolon ? semicolon + 1 : line, "[ingest]", "", 0 };
		uint32_t id;
		rc = new_frame(p, &f, &id);
		rc = rc ? rc : push_frame(p, s, id);
		if (!semicolon)
			break;
		*semicolon = 0;
	}
	if (!rc)
		s->value[type] = n * 1000000000ull / rate;
	return rc;
}

int profile_add_folded(struct profile *p, const uint8_t *data, size_t len, uint64_t rate, const struct profile_labels *l, struct err *err)
{
	char *text = malloc(len + 1);
	size_t type, number = 0;
	if (!text || ARRAY_RESERVE(p->texts, p->texts_cap, p->n_texts + 1)) {
		free(text);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->texts[p->n_texts++] = text;
	memcpy(text, data ? (const char *)data : "", len);
	text[len] = 0;
	int rc = add_type(p, "cpu", "nanoseconds", true, &type);
	for (char *line; !rc && (line = strsep(&text, "\n"));) {
		number++;
		size_t n = strlen(line);
		if (n && line[n - 1] == '\r')
			line[n - 1] = 0;
		if (*line)
			rc = add_line(p, line, rate, type, l);
	}
	if (rc == -EINVAL)
		return err_set(err, rc, "line %zu is not \"root;leaf count\"", number);
	return explain(rc, err);
}
