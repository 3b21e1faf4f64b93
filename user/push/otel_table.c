/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of otel_profiles, the table of OpenTelemetry's exporter to ClickHouse (contrib pull request
 * 49304): a row a sample, with its whole stack and all its attributes.
 */
#include "export/otel_names.h"
#include "push/row_binary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TARGET \
	"otel_profiles (Timestamp, ProfileId, SampleType, SampleUnit, ServiceName, " \
	"ResourceAttributes, ScopeName, SampleAttributes, StackHash, Addresses, FunctionNames, " \
	"FileNames, LineNumbers, MappingFileNames, Values, DurationNano, Period, PeriodType, " \
	"PeriodUnit, TraceId, SpanId)"

/* Attributes as a map: of two of one name the first counts. */
struct attributes {
	struct buf pairs;
	size_t n;
	struct {
		const char *name;
		size_t len;
	} have[2 * STORE_SET_MAX];
};

/* What the rows of a message share, and those of a label set. */
struct rows {
	struct push_message *m;
	const struct store_event *e;
	char id[33];
	bool times; /* counted in samples of a period */
	uint32_t set;
	bool set_valid;
	struct attributes resource, sample;
	const struct label *service, *trace, *span; /* NULL: there is none */
	struct label host;
	char names[STORE_SET_MAX][OTEL_NAME_MAX];
	struct buf text;
};

static bool is(const struct label *l, const char *key)
{
	return l->key_len == strlen(key) && !memcmp(l->key, key, l->key_len);
}

/* ---- label sets ---- */

static int add_attribute(struct attributes *a, const char *prefix, const char *name, size_t len,
			 const struct label *l)
{
	const size_t prefix_len = strlen(prefix);
	for (size_t i = 0; i < a->n; i++)
		if (a->have[i].len == len && !memcmp(a->have[i].name, name, len))
			return 0;
	if (a->n == sizeof(a->have) / sizeof(a->have[0]))
		return -E2BIG;
	a->have[a->n].name = name;
	a->have[a->n++].len = len;
	int rc = buf_add_varint(&a->pairs, prefix_len + len);
	rc = rc ? rc : buf_add(&a->pairs, prefix, prefix_len);
	rc = rc ? rc : buf_add(&a->pairs, name, len);
	return rc ? rc : row_binary_value(&a->pairs, l);
}

static int add_label(struct rows *r, const struct label *v, size_t n, size_t i)
{
	const struct label *l = &v[i];
	size_t len;
	const char *name = otel_name(v, n, i, r->names[i], &len);
	if (!name)
		return 0;
	if (is(l, "service") || (is(l, "service_name") && !r->service))
		r->service = l;
	if (is(l, "trace_id") || is(l, "span_id")) {
		*(is(l, "trace_id") ? &r->trace : &r->span) = l;
		return 0;
	}
	if (otel_is_of_resource(name, len))
		return add_attribute(&r->resource, "", name, len, l);
	return add_attribute(&r->sample, otel_is_published(l, name) ? OTEL_CONTEXT_LABEL : "", name,
			     len, l);
}

static int load_set(struct rows *r, uint32_t set)
{
	const struct export_source *src = &r->m->src;
	const struct label *v;
	const char *host = store_meta(src->store)->host;
	if (r->set_valid && r->set == set)
		return 0;
	r->service = r->trace = r->span = NULL;
	r->resource.n = r->sample.n = r->resource.pairs.len = r->sample.pairs.len = 0;
	size_t n = query_set(src->query, set, &v);
	int rc = 0;
	for (size_t i = 0; !rc && i < src->n_external; i++)
		rc = add_attribute(&r->resource, "", src->external[i].key, src->external[i].key_len,
				   &src->external[i]);
	for (size_t i = 0; !rc && i < n && i < STORE_SET_MAX; i++)
		rc = otel_is_wanted(src->keys, src->n_keys, &v[i]) ? add_label(r, v, n, i) : 0;
	r->host = (struct label){ .str = host, .str_len = (uint32_t)strlen(host) };
	rc = rc || !*host ? rc : add_attribute(&r->resource, "", "host.name", 9, &r->host);
	r->set = set;
	r->set_valid = !rc;
	return rc;
}

static int add_map(struct buf *b, const struct attributes *a)
{
	int rc = buf_add_varint(b, a->n);
	return rc ? rc : buf_add(b, a->pairs.data, a->pairs.len);
}

static int add_optional(struct buf *b, const struct label *l)
{
	return l ? row_binary_value(b, l) : row_binary_name(b, "");
}

/* ---- stacks ---- */

/* XXH64 over function, NUL, file, NUL of each frame, the leaf first. */
static int hash_stack(struct rows *r, const struct store_frame *const *f, size_t n, uint64_t *ret)
{
	const struct store *s = r->m->src.store;
	int rc = 0;
	r->text.len = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const char *function = store_string(s, f[i]->function, NULL),
			   *file = store_string(s, f[i]->file, NULL);
		rc = buf_add(&r->text, function, strlen(function) + 1);
		rc = rc ? rc : buf_add(&r->text, file, strlen(file) + 1);
	}
	*ret = XXH64(r->text.data, r->text.len, 0);
	return rc;
}

static int add_stack(struct rows *r, struct buf *b, const struct store_row *row)
{
	const struct store *s = r->m->src.store;
	const struct store_frame *f[EXPORT_DEPTH_MAX + 1];
	uint64_t hash;
	size_t n = row_binary_frames(&r->m->src, row, f);
	int rc = hash_stack(r, f, n, &hash);
	rc = rc ? rc : buf_add_u64(b, hash);
	rc = rc ? rc : buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add_u64(b, f[i]->offset);
	rc = rc ? rc : row_binary_strings(b, s, f, n, offsetof(struct store_frame, function));
	rc = rc ? rc : row_binary_strings(b, s, f, n, offsetof(struct store_frame, file));
	rc = rc ? rc : buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add_u32(b, f[i]->line);
	return rc ? rc : row_binary_strings(b, s, f, n, offsetof(struct store_frame, module));
}

/* ---- rows ---- */

/* A type's name: off_cpu for off-cpu. */
static int add_type(struct buf *b, const char *name)
{
	int rc = row_binary_name(b, name);
	for (size_t i = b->len - (rc ? 0 : strlen(name)); i < b->len; i++)
		b->data[i] = b->data[i] == '-' ? '_' : b->data[i];
	return rc;
}

static int add_row(struct rows *r, const struct store_row *row)
{
	const struct query_info *info = query_info(r->m->src.query);
	const struct store_event *e = r->e;
	struct buf *b = &r->m->posts[0].body;
	int rc = load_set(r, row->set);
	rc = rc ? rc : buf_add_u64(b, (uint64_t)info->from_ns);
	rc = rc ? rc : row_binary_name(b, r->id);
	rc = rc ? rc : add_type(b, r->times ? "samples" : e->name);
	rc = rc ? rc : row_binary_name(b, r->times ? "count" : e->unit);
	rc = rc ? rc : add_optional(b, r->service);
	rc = rc ? rc : add_map(b, &r->resource);
	rc = rc ? rc : row_binary_name(b, "ascribe");
	rc = rc ? rc : add_map(b, &r->sample);
	rc = rc ? rc : add_stack(r, b, row);
	rc = rc ? rc : buf_add_varint(b, 1);
	rc = rc ? rc : buf_add_u64(b, r->times ? row->samples : export_value(e, row));
	rc = rc ? rc : buf_add_u64(b, (uint64_t)(info->to_ns - info->from_ns));
	rc = rc ? rc : buf_add_u64(b, r->times ? e->ns_per_sample : e->period);
	rc = rc ? rc : add_type(b, r->times ? "cpu" : e->name);
	rc = rc ? rc : row_binary_name(b, r->times ? "nanoseconds" : e->unit);
	rc = rc ? rc : add_optional(b, r->trace);
	return rc ? rc : add_optional(b, r->span);
}

/* A window's rows of an event are a profile. */
static int name_profile(struct rows *r)
{
	const struct push_message *m = r->m;
	r->text.len = 0;
	int rc = buf_printf(&r->text, "%016llx %u %s", (unsigned long long)store_id(m->src.store),
			    m->block->window_lo, r->e->name);
	XXH128_hash_t id = XXH3_128bits(r->text.data, r->text.len);
	snprintf(r->id, sizeof(r->id), "%016llx%016llx", (unsigned long long)id.high64,
		 (unsigned long long)id.low64);
	return rc;
}

static int add_rows(struct rows *r)
{
	struct push_message *m = r->m;
	size_t n, i = m->part.from;
	const struct store_row *v = query_rows(m->src.query, &n);
	int rc = name_profile(r);
	while (!rc && i < m->part.to &&
	       (i == m->part.from || m->posts[0].body.len < m->part.max_bytes))
		rc = add_row(r, &v[i++]);
	m->part.end = i;
	return rc;
}

int push_encode_otel_table(struct push_message *m, struct err *err)
{
	struct rows *r = calloc(1, sizeof(*r));
	char token[ROW_BINARY_TOKEN];
	if (!r)
		return err_sys(err, -ENOMEM, "cannot push");
	r->m = m;
	r->e = query_info(m->src.query)->event;
	r->times = r->e->ns_per_sample > 1;
	int rc = add_rows(r);
	m->n_posts = 1;
	row_binary_token(m, token);
	row_binary_post(m, &m->posts[0], TARGET, token);
	buf_fini(&r->resource.pairs);
	buf_fini(&r->sample.pairs);
	buf_fini(&r->text);
	free(r);
	return rc ? err_sys(err, rc, "cannot push") : 0;
}
