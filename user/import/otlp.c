/* SPDX-License-Identifier: Apache-2.0 */
#include "import/otlp.h"

#include "export/intern.h"
#include "import/otlp_tables.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1000000000ll
#define PERIOD_MIN_NS 1000
#define PERIOD_MAX_NS (10 * NS)
#define VERSION "opentelemetry-proto 1.10 or later"

/* Where a Profile is in the request. */
struct place {
	size_t resource, scope, profile;
};

struct otlp_reader {
	struct message_memory memory;
	Otlp__Request *m;
	Otlp__Dictionary empty;
	struct otlp_tables t;
	struct place at; /* the next Profile */
	unsigned ranges;
	struct otlp_result result;
	/* Of the profile that is being made: */
	size_t resource; /* base_labels are of this one */
	struct profile_labels resource_labels;
	struct intern sets;	       /* attributes and link of a sample, of one Profile */
	struct otlp_range *set_labels; /* [sets.n]: of the profile's labels */
	size_t set_labels_cap;
	struct buf key;
};

/* What the values of a Profile are. */
struct values {
	size_t type;
	uint64_t scale;
};

int otlp_open(struct otlp_reader **ret, const uint8_t *data, size_t len,
	      const struct profile_limits *limits, struct err *err)
{
	if (len > limits->bytes)
		return err_set(err, -EMSGSIZE, "a request of %zu bytes: at most %zu", len,
			       limits->bytes);
	struct otlp_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	message_memory_init(&r->memory, limits->message);
	r->m = (Otlp__Request *)protobuf_c_message_unpack(&otlp__request__descriptor,
							  &r->memory.allocator, len, data);
	int rc = r->m ? 0
		 : r->memory.exceeded
			 ? err_set(err, -E2BIG, "the request has too many samples or elements")
			 : err_set(err, -EINVAL,
				   "it is no ExportProfilesServiceRequest of " VERSION);
	otlp__dictionary__init(&r->empty);
	if (!rc && otlp_tables_init(&r->t, r->m->dictionary ? r->m->dictionary : &r->empty,
				    limits->message))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc)
		otlp_close(r);
	else
		*ret = r;
	return rc;
}

void otlp_close(struct otlp_reader *r)
{
	if (!r)
		return;
	message_free(r->m ? &r->m->base : NULL, &r->memory);
	otlp_tables_fini(&r->t);
	intern_fini(&r->sets);
	free(r->set_labels);
	buf_fini(&r->key);
	free(r);
}

const struct otlp_result *otlp_result(const struct otlp_reader *r)
{
	return &r->result;
}

/* ---- labels ---- */

static int push_labels(struct profile *p, struct profile_sample *s, const struct label *v, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = profile_push_label(p, s, &v[i]);
	return rc;
}

static void add_labels(struct profile_labels *to, const struct otlp_labels *l)
{
	for (size_t i = 0; i < l->n && to->n < PROFILE_LABELS_MAX; i++)
		to->v[to->n++] = l->v[i];
}

static int read_resource(struct otlp_reader *r, const struct profile_labels *l, struct err *err)
{
	if (r->resource == r->at.resource)
		return 0;
	ProtobufCMessage *msg =
		otlp_tables_decode(&r->t, &otlp__resource__descriptor,
				   &r->m->resource_profiles[r->at.resource]->resource);
	const Otlp__Resource *m = (const Otlp__Resource *)msg;
	int rc = m ? 0 : err_set(err, -EINVAL, "its resource cannot be decoded");
	r->resource_labels = *l;
	for (size_t i = 0; !rc && i < m->n_attributes; i++) {
		struct otlp_labels one;
		rc = otlp_tables_resource(&r->t, m->attributes[i], &one, err);
		if (!rc)
			add_labels(&r->resource_labels, &one);
	}
	otlp_tables_free(&r->t, msg);
	r->resource = rc ? SIZE_MAX : r->at.resource;
	return rc;
}

static int push_attributes(struct otlp_reader *r, struct profile_sample *s, const int32_t *v,
			   size_t n, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n && s->n_labels < PROFILE_LABELS_MAX; i++) {
		const struct otlp_labels *l;
		rc = otlp_tables_labels(&r->t, v[i], &l, err);
		rc = rc ? rc : push_labels(r->t.p, s, l->v, l->n);
	}
	return rc;
}

static int push_set(struct otlp_reader *r, const Otlp__Profile *profile, const Otlp__Sample *m,
		    struct profile_sample *s, struct err *err)
{
	struct otlp_labels link;
	int rc = push_labels(r->t.p, s, r->resource_labels.v, r->resource_labels.n);
	rc = rc ? rc : otlp_tables_link(&r->t, m->link_index, &link, err);
	rc = rc ? rc : push_labels(r->t.p, s, link.v, link.n);
	rc = rc ? rc : push_attributes(r, s, m->attribute_indices, m->n_attribute_indices, err);
	return rc ? rc
		  : push_attributes(r, s, profile->attribute_indices, profile->n_attribute_indices,
				    err);
}

/* Samples with the same attributes and link share their labels. */
static int read_labels(struct otlp_reader *r, const Otlp__Profile *profile, const Otlp__Sample *m,
		       struct profile_sample *s, struct err *err)
{
	uint32_t id;
	bool new;
	r->key.len = 0;
	int rc = buf_add(&r->key, &m->link_index, sizeof(m->link_index));
	rc = rc ? rc
		: buf_add(&r->key, m->attribute_indices,
			  m->n_attribute_indices * sizeof(*m->attribute_indices));
	rc = rc ? rc : ARRAY_RESERVE(r->set_labels, r->set_labels_cap, r->sets.n + 1);
	rc = rc ? rc : intern_add(&r->sets, r->key.data, r->key.len, &id, &new);
	if (rc)
		return rc;
	struct otlp_range *labels = &r->set_labels[id];
	if (new || !labels->known) {
		*labels = (struct otlp_range){ .first = s->label };
		rc = push_set(r, profile, m, s, err);
		labels->n = s->n_labels;
		labels->known = !rc;
	}
	s->label = labels->first;
	s->n_labels = labels->n;
	return rc;
}

/* ---- values ---- */

static int read_type(struct otlp_reader *r, const Otlp__ValueType *t, const char **ret_type,
		     const char **ret_unit, struct err *err)
{
	*ret_type = *ret_unit = "";
	int rc = t ? otlp_tables_string(&r->t, t->type_strindex, ret_type, err) : 0;
	return rc || !t ? rc : otlp_tables_string(&r->t, t->unit_strindex, ret_unit, err);
}

/*
 * A number of samples with a period of time is that time: "samples" of "cpu" becomes cpu. So is
 * a time itself, of which a sample has the period, or PROFILE_PERIOD_NS.
 */
static int choose_type(struct otlp_reader *r, const Otlp__Profile *m, struct values *ret,
		       struct err *err)
{
	const char *type, *unit, *period_type, *period_unit;
	int rc = read_type(r, m->sample_type, &type, &unit, err);
	rc = rc ? rc : read_type(r, m->period_type, &period_type, &period_unit, err);
	if (rc)
		return rc;
	if (!*type)
		return err_set(err, -EINVAL, "it has no sample type");
	bool period = !strcmp(period_unit, "nanoseconds") && m->period >= PERIOD_MIN_NS &&
		      m->period <= PERIOD_MAX_NS;
	bool time = !strcmp(unit, "nanoseconds"), counted = period && !strcmp(type, "samples");
	ret->scale = counted ? (uint64_t)m->period : 1;
	return profile_add_type(r->t.p, counted ? period_type : type, counted ? period_unit : unit,
				period && (time || counted) ? (uint64_t)m->period
				: time			    ? PROFILE_PERIOD_NS
							    : 0,
				&ret->type);
}

/* Without values each timestamp is one. */
static uint64_t sum_values(const Otlp__Sample *m, uint64_t scale)
{
	uint64_t sum = m->n_values ? 0 : m->n_timestamps_unix_nano;
	for (size_t i = 0; i < m->n_values; i++)
		if (m->values[i] > 0 && __builtin_add_overflow(sum, (uint64_t)m->values[i], &sum))
			sum = UINT64_MAX;
	return __builtin_mul_overflow(sum, scale, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}

/* ---- profiles ---- */

static int read_sample(struct otlp_reader *r, const Otlp__Profile *profile, const Otlp__Sample *m,
		       const struct values *of, struct err *err)
{
	static const struct profile_labels none = { .n = 0 };
	struct profile_sample *s;
	if (!m->n_values && !m->n_timestamps_unix_nano)
		return err_set(err, -EINVAL,
			       "a sample has neither values nor timestamps; is it of " VERSION "?");
	uint64_t value = sum_values(m, of->scale);
	if (!value)
		return 0;
	int rc = profile_new_sample(r->t.p, &none, &s);
	if (rc)
		return rc;
	s->value[of->type] = value;
	rc = read_labels(r, profile, m, s, err);
	return rc ? rc : otlp_tables_stack(&r->t, m->stack_index, s, err);
}

static int read_profile(struct otlp_reader *r, const Otlp__Profile *m,
			const struct profile_labels *l, struct err *err)
{
	struct values of;
	if (!m->n_samples)
		return 0;
	intern_fini(&r->sets);
	int rc = read_resource(r, l, err);
	rc = rc ? rc : choose_type(r, m, &of, err);
	for (size_t i = 0; !rc && i < m->n_samples; i++) {
		ProtobufCMessage *msg =
			otlp_tables_decode(&r->t, &otlp__sample__descriptor, &m->samples[i]);
		rc = msg ? read_sample(r, m, (const Otlp__Sample *)msg, &of, err)
			 : err_set(err, -EINVAL,
				   "a sample cannot be decoded; is it of " VERSION "?");
		otlp_tables_free(&r->t, msg);
	}
	return rc;
}

/* The next Profile; NULL: there are no more. */
static const Otlp__Profile *find_next(struct otlp_reader *r)
{
	struct place *at = &r->at;
	for (; at->resource < r->m->n_resource_profiles; at->resource++, at->scope = 0) {
		const Otlp__ResourceProfiles *of = r->m->resource_profiles[at->resource];
		for (; at->scope < of->n_scope_profiles; at->scope++, at->profile = 0)
			if (at->profile < of->scope_profiles[at->scope]->n_profiles)
				return of->scope_profiles[at->scope]->profiles[at->profile];
	}
	return NULL;
}

static void read_range(const Otlp__Profile *m, int64_t *ret_from, int64_t *ret_to)
{
	bool fits = m->time_unix_nano < INT64_MAX / 2 && m->duration_nano < INT64_MAX / 2;
	*ret_from = fits ? (int64_t)m->time_unix_nano : 0;
	*ret_to = *ret_from ? *ret_from + (m->duration_nano ? (int64_t)m->duration_nano : NS) : 0;
}

static void reject(struct otlp_reader *r, const struct err *why)
{
	if (!r->result.rejected++)
		snprintf(r->result.why, sizeof(r->result.why), "%.290s", why->text);
}

int otlp_next(struct otlp_reader *r, const struct profile_labels *l, struct profile *p,
	      struct err *err)
{
	const Otlp__Profile *m;
	otlp_tables_begin(&r->t, p);
	r->resource = SIZE_MAX;
	r->ranges++;
	for (; (m = find_next(r)); r->at.profile++) {
		struct err why = { 0 };
		size_t before = p->n_samples, types = p->n_types;
		int64_t from, to;
		int rc = 0;
		read_range(m, &from, &to);
		if (before && (from != p->from_ns || to != p->to_ns))
			return 1;
		p->from_ns = from;
		p->to_ns = to;
		if (r->ranges > OTLP_RANGES_MAX)
			rc = err_set(&why, -E2BIG, "a request has at most %d ranges of time",
				     OTLP_RANGES_MAX);
		rc = rc ? rc : read_profile(r, m, l, &why);
		if (rc == -ENOMEM)
			return err_set(err, rc, "out of memory");
		if (rc) {
			p->n_samples = before;
			p->n_types = types;
		}
		if (rc == -E2BIG && before) /* it may fit into a profile of its own */
			return 1;
		if (rc == -E2BIG && !why.text[0])
			err_set(&why, rc, "it has too many samples, frames or labels");
		if (rc)
			reject(r, &why);
		else
			r->result.taken++;
	}
	return p->n_samples != 0;
}
