/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry profiles. The labels of a row become attributes of its resource (container, pod,
 * host, service), a link (trace and span), or attributes of its sample. A resource has one profile,
 * whose samples are distinct in stack, attributes and link.
 *
 * Concatenated messages are one message in which repeated fields are joined. So the resources are
 * written one by one as Requests of their own, and the dictionary as the last one.
 */
#include "export/otel_names.h"
#include "export/otlp_dictionary.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SAMPLE_OVERHEAD 12 /* bytes of a sample beside its indices: tags, length, value */

struct resource {
	struct intern samples; /* sample_key, attributes */
	struct buf values;     /* int64_t by number of the sample */
};

/* What a label set says of its samples. */
struct known_set {
	uint32_t resource;
	size_t at, len; /* of the samples' keys, in set_keys */
};

struct otlp {
	const struct export_source *src;
	const struct store_event *event;
	enum export_unit unit;
	struct otlp_dictionary d;
	struct intern packed_resources; /* Otlp__Resource */
	struct resource *resources;	/* by number of these */
	size_t n_resources, cap_resources;
	struct intern sets;	 /* label sets of the query */
	struct known_set *known; /* by number of these */
	size_t cap_known;
	struct buf set_keys;	  /* of their samples */
	struct buf key;		  /* of a sample */
	struct buf resource_text; /* Otlp__Resource */
	struct buf text, packed;
	size_t sample_bytes; /* of all samples, about */
	FILE *f;
};

/* What makes a sample, in `key`; its attributes follow. */
struct sample_key {
	int32_t stack, link;
};

static bool is(const struct label *l, const char *key)
{
	return l->key_len == strlen(key) && !memcmp(l->key, key, l->key_len);
}

/* ---- label sets ---- */

static bool hex(const struct label *l, size_t n, uint8_t *ret)
{
	if (!l || l->type != LABEL_STRING || l->str_len != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char digits[3] = { l->str[2 * i], l->str[2 * i + 1], 0 }, *end;
		ret[i] = (uint8_t)strtoul(digits, &end, 16);
		if (end != digits + 2 || digits[0] == ' ' || digits[0] == '+' || digits[0] == '-')
			return false;
	}
	return true;
}

/* Make the labels trace_id and span_id a link. False: they stay attributes. */
static bool find_link(const struct label *labels, size_t n, uint8_t trace_id[16],
		      uint8_t span_id[8])
{
	const struct label *trace = NULL, *span = NULL;
	for (size_t i = 0; i < n; i++) {
		trace = is(&labels[i], "trace_id") ? &labels[i] : trace;
		span = is(&labels[i], "span_id") ? &labels[i] : span;
	}
	return hex(trace, 16, trace_id) && hex(span, 8, span_id);
}

/* The attributes of a resource that are packed, and their names. */
struct packing {
	struct otlp *o;
	struct {
		const char *key;
		size_t len;
	} have[2 * STORE_SET_MAX];
	size_t n;
};

/* Of two attributes of one name the first counts. */
static int add_resource_attribute(struct packing *p, const char *key, size_t len,
				  const struct label *value)
{
	struct otlp *o = p->o;
	Otlp__KeyValue kv = OTLP__KEY_VALUE__INIT, *ptr = &kv;
	Otlp__Resource part = OTLP__RESOURCE__INIT;
	Otlp__AnyValue v;
	for (size_t i = 0; i < p->n; i++)
		if (p->have[i].len == len && !memcmp(p->have[i].key, key, len))
			return 0;
	if (p->n == sizeof(p->have) / sizeof(p->have[0]))
		return -E2BIG;
	p->have[p->n].key = key;
	p->have[p->n++].len = len;
	int rc = otlp_value(&o->d, value, &v);
	kv.key = (ProtobufCBinaryData){ len, (uint8_t *)key };
	kv.value = &v;
	part.n_attributes = 1;
	part.attributes = &ptr;
	rc = rc ? rc : otlp_pack(&o->packed, &part.base);
	return rc ? rc : buf_add(&o->resource_text, o->packed.data, o->packed.len);
}

static int add_external(struct packing *p)
{
	const struct export_source *src = p->o->src;
	int rc = 0;
	for (size_t i = 0; !rc && i < src->n_external; i++)
		rc = add_resource_attribute(p, src->external[i].key, src->external[i].key_len,
					    &src->external[i]);
	return rc;
}

static int add_host(struct packing *p)
{
	const char *host = store_meta(p->o->src->store)->host;
	const struct label l = { .str = host, .str_len = (uint32_t)strlen(host) };
	return l.str_len ? add_resource_attribute(p, "host.name", 9, &l) : 0;
}

static int add_sample_attribute(struct otlp *o, const char *name, size_t len, const struct label *l)
{
	int32_t index;
	o->text.len = 0;
	int rc = otel_is_published(l, name)
			 ? buf_add(&o->text, OTEL_CONTEXT_LABEL, strlen(OTEL_CONTEXT_LABEL))
			 : 0;
	rc = rc ? rc : buf_add(&o->text, name, len);
	rc = rc ? rc
		: otlp_add_attribute(&o->d, (const char *)o->text.data, o->text.len, l, &index);
	return rc ? rc : buf_add(&o->key, &index, sizeof(index));
}

static int find_resource(struct otlp *o, uint32_t *ret)
{
	bool new;
	int rc = intern_add(&o->packed_resources, o->resource_text.data, o->resource_text.len, ret,
			    &new);
	if (rc || !new)
		return rc;
	rc = ARRAY_RESERVE(o->resources, o->cap_resources, o->packed_resources.n);
	if (!rc)
		o->resources[o->n_resources++] = (struct resource){ 0 };
	return rc;
}

/* The names live as long as those of the resource are compared. */
static int add_labels(struct packing *p, const struct label *labels, size_t n, bool linked)
{
	char names[STORE_SET_MAX][OTEL_NAME_MAX];
	int rc = add_external(p);
	for (size_t i = 0; !rc && i < n && i < STORE_SET_MAX; i++) {
		const struct label *l = &labels[i];
		size_t len;
		if (!otel_is_wanted(p->o->src->keys, p->o->src->n_keys, l))
			continue;
		const char *name = otel_name(labels, n, i, names[i], &len);
		if (!name || (linked && (is(l, "trace_id") || is(l, "span_id"))))
			continue;
		rc = otel_is_of_resource(name, len) ? add_resource_attribute(p, name, len, l)
						    : add_sample_attribute(p->o, name, len, l);
	}
	return rc ? rc : add_host(p);
}

static int make_set(struct otlp *o, uint32_t set, struct known_set *ret)
{
	const struct label *labels;
	struct packing p = { .o = o };
	struct sample_key key = { 0 };
	uint8_t trace_id[16], span_id[8];
	size_t n = query_set(o->src->query, set, &labels);
	bool linked = find_link(labels, n, trace_id, span_id);
	o->key.len = o->resource_text.len = 0;
	int rc = linked ? otlp_add_link(&o->d, trace_id, span_id, &key.link) : 0;
	rc = rc ? rc : buf_add(&o->key, &key, sizeof(key));
	rc = rc ? rc : add_labels(&p, labels, n, linked);
	rc = rc ? rc : find_resource(o, &ret->resource);
	ret->at = o->set_keys.len;
	ret->len = o->key.len;
	return rc ? rc : buf_add(&o->set_keys, o->key.data, o->key.len);
}

static int find_set(struct otlp *o, uint32_t set, const struct known_set **ret)
{
	uint32_t id;
	bool new;
	int rc = intern_add(&o->sets, &set, sizeof(set), &id, &new);
	if (!rc && new)
		rc = ARRAY_RESERVE(o->known, o->cap_known, o->sets.n);
	if (!rc && new)
		rc = make_set(o, set, &o->known[id]);
	if (!rc)
		*ret = &o->known[id];
	return rc;
}

/* ---- samples ---- */

/* Counted in samples, each of which stands for a period; else the value itself. */
static bool counts_samples(const struct otlp *o)
{
	bool times = o->event->ns_per_sample > 1;
	return o->unit == EXPORT_SAMPLES || (o->unit == EXPORT_BY_EVENT && times);
}

static int add_row(struct otlp *o, const struct store_row *row)
{
	uint64_t value = counts_samples(o) ? row->samples : export_value(o->event, row);
	const struct known_set *set;
	struct sample_key key;
	int64_t *sum;
	uint32_t id;
	bool new;
	int rc = find_set(o, row->set, &set);
	o->key.len = 0;
	rc = rc ? rc : buf_add(&o->key, o->set_keys.data + set->at, set->len);
	if (rc)
		return rc;
	struct resource *r = &o->resources[set->resource];
	memcpy(&key, o->key.data, sizeof(key));
	rc = otlp_add_stack(&o->d, row, &key.stack);
	memcpy(o->key.data, &key, sizeof(key));
	rc = rc ? rc : intern_add(&r->samples, o->key.data, o->key.len, &id, &new);
	if (!rc && new)
		rc = buf_add_u64(&r->values, 0);
	if (rc)
		return rc;
	o->sample_bytes += new ? o->key.len + SAMPLE_OVERHEAD : 0;
	sum = (int64_t *)(void *)r->values.data + id;
	if (value > INT64_MAX || __builtin_add_overflow(*sum, (int64_t)value, sum))
		*sum = INT64_MAX;
	return 0;
}

/* ---- messages ---- */

static int put_request(struct otlp *o, const Otlp__Request *m)
{
	int rc = otlp_pack(&o->packed, &m->base);
	if (rc)
		return rc;
	return fwrite(o->packed.data, 1, o->packed.len, o->f) == o->packed.len ? 0 : -EIO;
}

/* Packed elements in a row, and where each of them begins. */
struct elements {
	struct buf bytes;
	ProtobufCBinaryData *v;
	size_t n;
};

static void elements_fini(struct elements *e)
{
	buf_fini(&e->bytes);
	free(e->v);
}

/* The bytes have moved while they grew: the addresses come last. */
static void elements_place(struct elements *e)
{
	size_t at = 0;
	for (size_t i = 0; i < e->n; i++) {
		e->v[i].data = e->bytes.data + at;
		at += e->v[i].len;
	}
}

static int pack_samples(struct otlp *o, const struct resource *r, struct elements *ret)
{
	int rc = 0;
	ret->v = calloc(r->samples.n, sizeof(*ret->v));
	if (!ret->v)
		return -ENOMEM;
	for (uint32_t i = 0; !rc && i < r->samples.n; i++) {
		Otlp__Sample m = OTLP__SAMPLE__INIT;
		struct sample_key key;
		size_t len;
		const uint8_t *bytes = intern_get(&r->samples, i, &len);
		memcpy(&key, bytes, sizeof(key));
		o->text.len = 0; /* aligned */
		rc = buf_add(&o->text, bytes + sizeof(key), len - sizeof(key));
		m.stack_index = key.stack;
		m.link_index = key.link;
		m.n_attribute_indices = (len - sizeof(key)) / sizeof(int32_t);
		m.attribute_indices = (int32_t *)(void *)o->text.data;
		m.n_values = 1;
		m.values = (int64_t *)(void *)r->values.data + i;
		rc = rc ? rc : otlp_pack(&o->packed, &m.base);
		rc = rc ? rc : buf_add(&ret->bytes, o->packed.data, o->packed.len);
		ret->v[ret->n++].len = o->packed.len;
	}
	elements_place(ret);
	return rc;
}

static int add_type(struct otlp *o, const char *type, const char *unit, Otlp__ValueType *ret)
{
	char name[256];
	snprintf(name, sizeof(name), "%s", type);
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : *c;
	otlp__value_type__init(ret);
	int rc = otlp_add_string(&o->d, name, strlen(name), &ret->type_strindex);
	return rc ? rc : otlp_add_string(&o->d, unit, strlen(unit), &ret->unit_strindex);
}

/* Where the rows of a message begin. */
static int64_t place_of(const struct export_part *part)
{
	return part ? (int64_t)((uint64_t)part->share << 40 | part->from) : 0;
}

/* The same for the same rows of the same store: a receiver may tell that it has them. */
static int make_profile_id(struct otlp *o, uint32_t resource, uint8_t ret[16])
{
	const struct store_meta *meta = store_meta(o->src->store);
	const struct query_info *info = query_info(o->src->query);
	const int64_t numbers[] = { meta->created_ns, info->from_ns, info->to_ns,
				    place_of(o->src->part) };
	XXH128_canonical_t out;
	size_t len;
	const void *bytes = intern_get(&o->packed_resources, resource, &len);
	o->text.len = 0;
	int rc = buf_add(&o->text, numbers, sizeof(numbers));
	rc = rc ? rc : buf_printf(&o->text, "%s %s ", meta->host, o->event->name);
	rc = rc ? rc : buf_add(&o->text, bytes, len);
	if (rc)
		return rc;
	XXH128_canonicalFromHash(&out, XXH3_128bits(o->text.data, o->text.len));
	memcpy(ret, out.digest, 16);
	return 0;
}

static int describe(struct otlp *o, Otlp__Profile *m, Otlp__ValueType types[2])
{
	const struct store_event *e = o->event;
	const struct query_info *info = query_info(o->src->query);
	bool times = e->ns_per_sample > 1;
	int rc = counts_samples(o) ? add_type(o, "samples", "count", &types[0])
		 : times	   ? add_type(o, "cpu", "nanoseconds", &types[0])
				   : add_type(o, e->name, e->unit, &types[0]);
	m->sample_type = &types[0];
	m->period = (int64_t)(times ? e->ns_per_sample : e->period);
	if (!rc && m->period) {
		rc = times ? add_type(o, "cpu", "nanoseconds", &types[1])
			   : add_type(o, e->name, e->unit, &types[1]);
		m->period_type = &types[1];
	}
	m->time_unix_nano = info->from_ns > 0 ? (uint64_t)info->from_ns : 0;
	m->duration_nano = (uint64_t)(info->to_ns - info->from_ns);
	return rc;
}

static int put_resource(struct otlp *o, uint32_t i)
{
	Otlp__Profile profile = OTLP__PROFILE__INIT, *profiles = &profile;
	Otlp__Scope name = OTLP__SCOPE__INIT;
	Otlp__ScopeProfiles scope = OTLP__SCOPE_PROFILES__INIT, *scopes = &scope;
	Otlp__ResourceProfiles resource = OTLP__RESOURCE_PROFILES__INIT, *resources = &resource;
	Otlp__Request request = OTLP__REQUEST__INIT;
	Otlp__ValueType types[2];
	struct elements samples = { 0 };
	uint8_t id[16];
	int rc = pack_samples(o, &o->resources[i], &samples);
	rc = rc ? rc : describe(o, &profile, types);
	rc = rc ? rc : make_profile_id(o, i, id);
	profile.profile_id = (ProtobufCBinaryData){ sizeof(id), id };
	profile.n_samples = samples.n;
	profile.samples = samples.v;
	name.name = (char *)"ascribe";
	scope.scope = &name;
	scope.n_profiles = 1;
	scope.profiles = &profiles;
	resource.resource.data =
		(uint8_t *)intern_get(&o->packed_resources, i, &resource.resource.len);
	resource.n_scope_profiles = 1;
	resource.scope_profiles = &scopes;
	request.n_resource_profiles = 1;
	request.resource_profiles = &resources;
	rc = rc ? rc : put_request(o, &request);
	elements_fini(&samples);
	return rc;
}

static int put_dictionary(struct otlp *o)
{
	Otlp__Dictionary m = OTLP__DICTIONARY__INIT;
	Otlp__Request request = OTLP__REQUEST__INIT;
	const struct {
		size_t *n;
		ProtobufCBinaryData **v;
	} to[OTLP_TABLES] = {
		[OTLP_MAPPINGS] = { &m.n_mapping_table, &m.mapping_table },
		[OTLP_LOCATIONS] = { &m.n_location_table, &m.location_table },
		[OTLP_FUNCTIONS] = { &m.n_function_table, &m.function_table },
		[OTLP_LINKS] = { &m.n_link_table, &m.link_table },
		[OTLP_STRINGS] = { &m.n_string_table, &m.string_table },
		[OTLP_ATTRIBUTES] = { &m.n_attribute_table, &m.attribute_table },
		[OTLP_STACKS] = { &m.n_stack_table, &m.stack_table },
	};
	int rc = 0;
	for (int t = 0; !rc && t < OTLP_TABLES; t++) {
		const struct intern *table = &o->d.table[t];
		*to[t].n = table->n;
		*to[t].v = calloc(table->n, sizeof(**to[t].v));
		rc = *to[t].v ? 0 : -ENOMEM;
		for (uint32_t i = 0; !rc && i < table->n; i++)
			(*to[t].v)[i].data = (uint8_t *)intern_get(table, i, &(*to[t].v)[i].len);
	}
	request.dictionary = &m;
	rc = rc ? rc : put_request(o, &request);
	for (int t = 0; t < OTLP_TABLES; t++)
		free(*to[t].v);
	return rc;
}

static int put_rows(struct otlp *o)
{
	struct export_part *part = o->src->part;
	size_t n, i = part ? part->from : 0;
	const struct store_row *rows = query_rows(o->src->query, &n);
	size_t end = part && part->to < n ? part->to : n;
	int rc = 0;
	while (!rc && i < end) {
		rc = add_row(o, &rows[i++]);
		if (part && otlp_dictionary_bytes(&o->d) + o->sample_bytes >= part->max_bytes)
			break;
	}
	if (part)
		part->end = i;
	for (uint32_t r = 0; !rc && r < o->n_resources; r++)
		rc = put_resource(o, r);
	return rc ? rc : put_dictionary(o);
}

int export_otlp(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	static const struct store_event no_event = { "samples", "count", 0, 0 };
	const struct query_info *info = query_info(src->query);
	struct otlp o = {
		.src = src, .event = info->event ? info->event : &no_event, .unit = unit, .f = f
	};
	errno = 0;
	int rc = otlp_dictionary_init(&o.d, src);
	rc = rc ? rc : put_rows(&o);
	if (!rc && fflush(f))
		rc = -EIO;
	if (rc)
		rc = err_sys(err, rc == -EIO && errno ? -errno : rc, "OTLP profiles");
	for (size_t i = 0; i < o.n_resources; i++) {
		intern_fini(&o.resources[i].samples);
		buf_fini(&o.resources[i].values);
	}
	free(o.resources);
	intern_fini(&o.packed_resources);
	intern_fini(&o.sets);
	free(o.known);
	buf_fini(&o.set_keys);
	otlp_dictionary_fini(&o.d);
	buf_fini(&o.key);
	buf_fini(&o.text);
	buf_fini(&o.packed);
	buf_fini(&o.resource_text);
	return rc;
}
