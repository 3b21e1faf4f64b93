/* SPDX-License-Identifier: Apache-2.0 */
#include "import/otlp_tables.h"

#include "export/otel_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_TYPE "profile.frame.type"
#define TRACE_BYTES 16
#define SPAN_BYTES 8
#define ELEMENT_MAX 4096 /* bytes of a link, mapping or function: many samples may refer to one */

int otlp_tables_init(struct otlp_tables *t, const Otlp__Dictionary *m, size_t memory_max)
{
	*t = (struct otlp_tables){ .m = m, .memory_max = memory_max };
	t->strings = calloc(m->n_string_table + 1, sizeof(*t->strings));
	t->attributes = calloc(m->n_attribute_table + 1, sizeof(*t->attributes));
	t->locations = calloc(m->n_location_table + 1, sizeof(*t->locations));
	t->stacks = calloc(m->n_stack_table + 1, sizeof(*t->stacks));
	return t->strings && t->attributes && t->locations && t->stacks ? 0 : -ENOMEM;
}

void otlp_tables_begin(struct otlp_tables *t, struct profile *p)
{
	t->p = p;
	memset(t->strings, 0, (t->m->n_string_table + 1) * sizeof(*t->strings));
	memset(t->attributes, 0, (t->m->n_attribute_table + 1) * sizeof(*t->attributes));
	memset(t->locations, 0, (t->m->n_location_table + 1) * sizeof(*t->locations));
	memset(t->stacks, 0, (t->m->n_stack_table + 1) * sizeof(*t->stacks));
}

void otlp_tables_fini(struct otlp_tables *t)
{
	free(t->strings);
	free(t->attributes);
	free(t->locations);
	free(t->stacks);
	*t = (struct otlp_tables){ 0 };
}

ProtobufCMessage *otlp_tables_decode(struct otlp_tables *t, const ProtobufCMessageDescriptor *d,
				     const ProtobufCBinaryData *bytes)
{
	message_memory_init(&t->memory, t->memory_max);
	return protobuf_c_message_unpack(d, &t->memory.allocator, bytes->len, bytes->data);
}

void otlp_tables_free(struct otlp_tables *t, ProtobufCMessage *msg)
{
	message_free(msg, &t->memory);
}

static int outside(const char *what, int32_t i, size_t n, struct err *err)
{
	return err_set(err, -EINVAL, "%s %d of a table of %zu", what, i, n);
}

static int damaged(const char *what, int32_t i, struct err *err)
{
	return err_set(err, -EINVAL, "%s %d cannot be decoded", what, i);
}

/* An element that is decoded anew for each reference. */
static ProtobufCMessage *decode_small(struct otlp_tables *t, const ProtobufCMessageDescriptor *d,
				      const ProtobufCBinaryData *bytes)
{
	return bytes->len <= ELEMENT_MAX ? otlp_tables_decode(t, d, bytes) : NULL;
}

static bool is_inside(int32_t i, size_t n)
{
	return i >= 0 && (size_t)i < n;
}

/* Element 0 is the zero value, so a sender may leave out a table of nothing else. */
static bool is_null(int32_t i, size_t n)
{
	return !i && !n;
}

int otlp_tables_string(struct otlp_tables *t, int32_t i, const char **ret, struct err *err)
{
	if (!is_inside(i, t->m->n_string_table) && !is_null(i, t->m->n_string_table))
		return outside("string", i, t->m->n_string_table, err);
	if (!t->strings[i]) {
		const ProtobufCBinaryData none = { 0, NULL }, *s = t->m->n_string_table
									   ? &t->m->string_table[i]
									   : &none;
		t->strings[i] = profile_text(t->p, s->data, s->len);
	}
	*ret = t->strings[i];
	return *ret ? 0 : -ENOMEM;
}

/* ---- labels ---- */

static int keep_text(struct otlp_tables *t, const void *data, size_t len, const char **ret)
{
	*ret = profile_text(t->p, data, len);
	return *ret ? 0 : -ENOMEM;
}

/* 1: values of this type are no labels. */
static int read_value(struct otlp_tables *t, const Otlp__AnyValue *v, struct label *l,
		      struct err *err)
{
	char number[40];
	int rc = 0;
	l->type = LABEL_STRING;
	switch (v ? v->value_case : OTLP__ANY_VALUE__VALUE__NOT_SET) {
	case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
		rc = keep_text(t, v->string_value.data, v->string_value.len, &l->str);
		break;
	case OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
		rc = otlp_tables_string(t, v->string_value_strindex, &l->str, err);
		break;
	case OTLP__ANY_VALUE__VALUE_INT_VALUE:
		l->type = LABEL_INT;
		l->num = v->int_value;
		return 0;
	case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
		l->str = v->bool_value ? "true" : "false";
		break;
	case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
		snprintf(number, sizeof(number), "%.15g", v->double_value);
		rc = keep_text(t, number, strlen(number), &l->str);
		break;
	default:
		return 1;
	}
	l->str_len = rc ? 0 : (uint32_t)strnlen(l->str, PROFILE_VALUE_MAX);
	return rc;
}

static int make_labels(struct otlp_tables *t, const char *name, const Otlp__AnyValue *v,
		       struct otlp_labels *ret, struct err *err)
{
	char buf[OTEL_NAME_MAX];
	const char *kind, *key = otel_label(name, buf, &kind);
	size_t len = strlen(key);
	struct label *l = &ret->v[0];
	*ret = (struct otlp_labels){ .known = true };
	if (!len || len > PROFILE_KEY_MAX || !strncmp(key, "__", 2) ||
	    !strcmp(key, "event")) /* the key of our own events */
		return 0;
	int rc = read_value(t, v, l, err);
	if (rc)
		return rc < 0 ? rc : 0;
	l->key = key;
	l->key_len = (uint32_t)len;
	if (key == buf)
		rc = keep_text(t, key, len, &l->key);
	if (kind)
		ret->v[1] = (struct label){ .key = "workload_kind",
					    .key_len = strlen("workload_kind"),
					    .str = kind,
					    .str_len = (uint32_t)strlen(kind),
					    .type = LABEL_STRING };
	ret->n = rc ? 0 : kind ? 2 : 1;
	return rc;
}

int otlp_tables_labels(struct otlp_tables *t, int32_t i, const struct otlp_labels **ret,
		       struct err *err)
{
	const char *name;
	if (!is_inside(i, t->m->n_attribute_table))
		return outside("attribute", i, t->m->n_attribute_table, err);
	*ret = &t->attributes[i];
	if (t->attributes[i].known)
		return 0;
	ProtobufCMessage *msg =
		otlp_tables_decode(t, &otlp__attribute__descriptor, &t->m->attribute_table[i]);
	const Otlp__Attribute *a = (const Otlp__Attribute *)msg;
	int rc = a ? otlp_tables_string(t, a->key_strindex, &name, err)
		   : damaged("attribute", i, err);
	rc = rc ? rc : make_labels(t, name, a->value, &t->attributes[i], err);
	t->attributes[i].known = !rc;
	otlp_tables_free(t, msg);
	return rc;
}

int otlp_tables_resource(struct otlp_tables *t, const Otlp__KeyValue *kv, struct otlp_labels *ret,
			 struct err *err)
{
	const char *name;
	int rc = kv->key.len ? keep_text(t, kv->key.data, kv->key.len, &name)
			     : otlp_tables_string(t, kv->key_strindex, &name, err);
	return rc ? rc : make_labels(t, name, kv->value, ret, err);
}

static int make_id_label(struct otlp_tables *t, const char *key, const ProtobufCBinaryData *id,
			 size_t len, struct otlp_labels *to)
{
	char text[2 * TRACE_BYTES + 1];
	struct label *l = &to->v[to->n];
	if (id->len != len)
		return 0;
	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->data[i]);
	*l = (struct label){ .key = key,
			     .key_len = (uint32_t)strlen(key),
			     .str_len = (uint32_t)(2 * len),
			     .type = LABEL_STRING };
	to->n++;
	return keep_text(t, text, 2 * len, &l->str);
}

int otlp_tables_link(struct otlp_tables *t, int32_t i, struct otlp_labels *ret, struct err *err)
{
	*ret = (struct otlp_labels){ 0 };
	if (!i)
		return 0;
	if (!is_inside(i, t->m->n_link_table))
		return outside("link", i, t->m->n_link_table, err);
	ProtobufCMessage *msg = decode_small(t, &otlp__link__descriptor, &t->m->link_table[i]);
	const Otlp__Link *link = (const Otlp__Link *)msg;
	int rc = link ? make_id_label(t, "trace_id", &link->trace_id, TRACE_BYTES, ret)
		      : damaged("link", i, err);
	rc = rc ? rc : make_id_label(t, "span_id", &link->span_id, SPAN_BYTES, ret);
	otlp_tables_free(t, msg);
	return rc;
}

/* ---- frames ---- */

static int read_mapping(struct otlp_tables *t, int32_t i, const char **ret_module, struct err *err)
{
	if (!i)
		return 0;
	if (!is_inside(i, t->m->n_mapping_table))
		return outside("mapping", i, t->m->n_mapping_table, err);
	ProtobufCMessage *msg =
		decode_small(t, &otlp__mapping__descriptor, &t->m->mapping_table[i]);
	const Otlp__Mapping *m = (const Otlp__Mapping *)msg;
	const char *name;
	int rc = m ? otlp_tables_string(t, m->filename_strindex, &name, err)
		   : damaged("mapping", i, err);
	if (!rc && *name)
		*ret_module = name;
	otlp_tables_free(t, msg);
	return rc;
}

static int read_kernel(struct otlp_tables *t, const Otlp__Location *m, bool *ret, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < m->n_attribute_indices; i++) {
		const struct otlp_labels *l;
		rc = otlp_tables_labels(t, m->attribute_indices[i], &l, err);
		if (!rc && l->n && !strcmp(l->v[0].key, FRAME_TYPE) && l->v[0].type == LABEL_STRING)
			*ret = !strcmp(l->v[0].str, "kernel");
	}
	return rc;
}

static int read_function(struct otlp_tables *t, const Otlp__Line *line, struct profile_frame *f,
			 struct err *err)
{
	int32_t i = line->function_index;
	f->line = line->line > 0 && line->line < UINT32_MAX ? (uint32_t)line->line : 0;
	f->function = "[unknown]";
	f->file = "";
	if (!i)
		return 0;
	if (!is_inside(i, t->m->n_function_table))
		return outside("function", i, t->m->n_function_table, err);
	ProtobufCMessage *msg =
		decode_small(t, &otlp__function__descriptor, &t->m->function_table[i]);
	const Otlp__Function *m = (const Otlp__Function *)msg;
	const char *name;
	int rc = m ? otlp_tables_string(t, m->name_strindex, &name, err)
		   : damaged("function", i, err);
	if (!rc && *name)
		f->function = name;
	rc = rc ? rc : otlp_tables_string(t, m->filename_strindex, &f->file, err);
	otlp_tables_free(t, msg);
	return rc;
}

/* A location without lines is named by its address. */
static int add_address(struct otlp_tables *t, const Otlp__Location *m, struct profile_frame *f)
{
	char text[32];
	uint32_t id;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)m->address);
	f->file = "";
	int rc = keep_text(t, text, strlen(text), &f->function);
	return rc ? rc : profile_new_frame(t->p, f, &id);
}

static int add_frames(struct otlp_tables *t, const Otlp__Location *m, struct err *err)
{
	struct profile_frame f = { .module = PROFILE_MODULE };
	uint32_t id;
	int rc = read_mapping(t, m->mapping_index, &f.module, err);
	f.kernel = !strncmp(f.module, "[kernel", 7);
	rc = rc ? rc : read_kernel(t, m, &f.kernel, err);
	if (f.kernel && !strcmp(f.module, PROFILE_MODULE))
		f.module = "[kernel]";
	for (size_t i = 0; !rc && i < m->n_lines; i++) {
		rc = read_function(t, m->lines[i], &f, err);
		f.inlined = i + 1 < m->n_lines;
		rc = rc ? rc : profile_new_frame(t->p, &f, &id);
	}
	return rc || m->n_lines ? rc : add_address(t, m, &f);
}

static int find_location(struct otlp_tables *t, int32_t i, const struct otlp_range **ret,
			 struct err *err)
{
	if (!is_inside(i, t->m->n_location_table))
		return outside("location", i, t->m->n_location_table, err);
	struct otlp_range *r = &t->locations[i];
	*ret = r;
	if (r->known)
		return 0;
	ProtobufCMessage *msg =
		otlp_tables_decode(t, &otlp__location__descriptor, &t->m->location_table[i]);
	r->first = (uint32_t)t->p->n_frames;
	int rc =
		msg ? add_frames(t, (const Otlp__Location *)msg, err) : damaged("location", i, err);
	r->n = (uint32_t)t->p->n_frames - r->first;
	r->known = !rc;
	otlp_tables_free(t, msg);
	return rc;
}

static int push_stack(struct otlp_tables *t, const Otlp__Stack *m, struct profile_sample *s,
		      struct err *err)
{
	int rc = 0;
	s->stack = (uint32_t)t->p->n_stacks;
	s->depth = 0;
	for (size_t i = 0; !rc && i < m->n_location_indices && s->depth < PROFILE_DEPTH_MAX; i++) {
		const struct otlp_range *frames = NULL;
		rc = find_location(t, m->location_indices[i], &frames, err);
		for (uint32_t k = 0; !rc && k < frames->n; k++)
			rc = profile_push_frame(t->p, s, frames->first + k);
	}
	return rc;
}

int otlp_tables_stack(struct otlp_tables *t, int32_t i, struct profile_sample *s, struct err *err)
{
	if (is_null(i, t->m->n_stack_table))
		return 0;
	if (!is_inside(i, t->m->n_stack_table))
		return outside("stack", i, t->m->n_stack_table, err);
	struct otlp_range *r = &t->stacks[i];
	if (r->known) {
		s->stack = r->first;
		s->depth = r->n;
		return 0;
	}
	ProtobufCMessage *msg =
		otlp_tables_decode(t, &otlp__stack__descriptor, &t->m->stack_table[i]);
	int rc = msg ? push_stack(t, (const Otlp__Stack *)msg, s, err) : damaged("stack", i, err);
	*r = (struct otlp_range){ s->stack, s->depth, !rc };
	otlp_tables_free(t, msg);
	return rc;
}
