/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message.h"

#include "export/json.h"
#include "util/array.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 8
#define FIELD_NAME_MAX 64

/* ---- names ---- */

/* profile_typeID -> profileTypeID */
static void camel_case(const char *name, char out[FIELD_NAME_MAX])
{
	size_t n = 0;
	for (const char *p = name; *p && n + 1 < FIELD_NAME_MAX; p++) {
		bool up = p > name && p[-1] == '_';
		if (*p != '_')
			out[n++] = up && *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
	}
	out[n] = 0;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *d,
						  const char *name)
{
	char camel[FIELD_NAME_MAX];
	for (unsigned i = 0; i < d->n_fields; i++) {
		camel_case(d->fields[i].name, camel);
		if (!strcmp(camel, name) || !strcmp(d->fields[i].name, name))
			return &d->fields[i];
	}
	return NULL;
}

static size_t width(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_INT32:
		return 4;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default:
		return 8;
	}
}

/* ---- from JSON ---- */

static int from_object(const json_t *o, const ProtobufCMessageDescriptor *d,
		       struct message_memory *m, int depth, ProtobufCMessage **ret,
		       struct err *err);

static int wrong(const ProtobufCFieldDescriptor *f, struct err *err)
{
	return err_set(err, -EINVAL, "the body: %s has the wrong type", f->name);
}

static int from_number(const json_t *v, const ProtobufCFieldDescriptor *f, double *ret_real,
		       int64_t *ret, struct err *err)
{
	char *end;
	const char *s = json_string_value(v);
	errno = 0;
	*ret = s ? strtoll(s, &end, 10) : json_is_integer(v) ? json_integer_value(v) : 0;
	if (s && (end == s || *end || errno))
		return wrong(f, err);
	*ret_real = s ? (double)*ret : json_number_value(v);
	if (!s && !json_is_number(v))
		return wrong(f, err);
	if (json_is_real(v) && *ret_real > -9e18 && *ret_real < 9e18)
		*ret = (int64_t)*ret_real;
	return 0;
}

/* Does it have something to be freed? */
static bool is_set(const ProtobufCFieldDescriptor *f, const void *at)
{
	const void *v = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE
				? *(void *const *)at
				: NULL;
	return v && v != protobuf_c_empty_string;
}

static int from_value(const json_t *v, const ProtobufCFieldDescriptor *f, struct message_memory *m,
		      int depth, void *at, struct err *err)
{
	double real = 0;
	int64_t num = 0;
	int rc;
	if (is_set(f, at)) /* by its other name */
		return wrong(f, err);
	if (f->type == PROTOBUF_C_TYPE_STRING) {
		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
			return wrong(f, err);
		size_t n = json_string_length(v) + 1;
		char *s = m->allocator.alloc(m, n);
		if (!s)
			return err_set(err, -EINVAL, "the body is too large");
		memcpy(s, json_string_value(v), n);
		*(char **)at = s;
		return 0;
	}
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return from_object(v, f->descriptor, m, depth + 1, at, err);
	if (f->type == PROTOBUF_C_TYPE_BYTES) /* base64: whoever sends profiles sends protobuf */
		return err_set(err, -EINVAL, "the body: %s is taken as application/proto alone",
			       f->name);
	if (f->type == PROTOBUF_C_TYPE_BOOL) {
		*(protobuf_c_boolean *)at = json_is_true(v);
		return json_is_boolean(v) ? 0 : wrong(f, err);
	}
	/* the name of an enum's value: none of them matters here */
	if (f->type == PROTOBUF_C_TYPE_INT32 && json_is_string(v))
		return 0;
	rc = from_number(v, f, &real, &num, err);
	if (rc)
		return rc;
	if (f->type == PROTOBUF_C_TYPE_DOUBLE)
		*(double *)at = real;
	else if (f->type == PROTOBUF_C_TYPE_INT32)
		*(int32_t *)at = (int32_t)num;
	else
		*(int64_t *)at = num;
	return 0;
}

static int from_array(const json_t *v, const ProtobufCFieldDescriptor *f, struct message_memory *m,
		      int depth, ProtobufCMessage *msg, struct err *err)
{
	size_t n = json_array_size(v), *count = (size_t *)((char *)msg + f->quantifier_offset),
	       w = width(f);
	void **array = (void **)((char *)msg + f->offset);
	if (!json_is_array(v) || *array)
		return wrong(f, err);
	if (!n)
		return 0;
	*array = m->allocator.alloc(m, n * w);
	if (!*array)
		return err_set(err, -EINVAL, "the body is too large");
	int rc = 0;
	/* An element that failed may be there in part; whoever frees the message frees it, too. */
	for (; !rc && *count < n; ++*count)
		rc = from_value(json_array_get(v, *count), f, m, depth, (char *)*array + *count * w,
				err);
	return rc;
}

static int from_object(const json_t *o, const ProtobufCMessageDescriptor *d,
		       struct message_memory *m, int depth, ProtobufCMessage **ret, struct err *err)
{
	const char *key;
	json_t *v;
	if (!json_is_object(o) || depth > DEPTH_MAX)
		return err_set(err, -EINVAL, "the body: an object is wanted");
	ProtobufCMessage *msg = m->allocator.alloc(m, d->sizeof_message);
	if (!msg)
		return err_set(err, -EINVAL, "the body is too large");
	d->message_init(msg);
	*ret = msg; /* whoever called frees it, whatever comes */
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		const ProtobufCFieldDescriptor *f = find_field(d, key);
		if (!f || json_is_null(v)) /* of newer clients */
			continue;
		int rc = f->label == PROTOBUF_C_LABEL_REPEATED
				 ? from_array(v, f, m, depth, msg, err)
				 : from_value(v, f, m, depth, (char *)msg + f->offset, err);
		if (rc)
			return rc;
	}
	return 0;
}

int message_read(const struct request *r, const ProtobufCMessageDescriptor *d,
		 struct message_memory *m, ProtobufCMessage **ret, bool *ret_json, struct err *err)
{
	size_t type = strcspn(r->content_type, "; ");
	bool json = type == 16 && !strncasecmp(r->content_type, "application/json", type);
	bool proto = type == 17 && !strncasecmp(r->content_type, "application/proto", type);
	*ret_json = json;
	if (!json && !proto)
		return err_set(err, -EINVAL,
			       "the Content-Type is application/proto or application/json");
	if (r->encoding[0] && strcasecmp(r->encoding, "identity"))
		return err_set(err, -EINVAL, "no Content-Encoding here");
	if (proto) {
		*ret = protobuf_c_message_unpack(d, &m->allocator, r->body.len,
						 r->body.data ? r->body.data : (const uint8_t *)"");
		return *ret ? 0 : err_set(err, -EINVAL, "the body is no %s", d->short_name);
	}
	json_error_t why;
	json_t *o = r->body.len ? json_loadb((const char *)r->body.data, r->body.len,
					     JSON_REJECT_DUPLICATES, &why)
				: json_object();
	if (!o)
		return err_set(err, -EINVAL, "the body is no JSON: line %d: %s", why.line,
			       why.text);
	*ret = NULL;
	int rc = from_object(o, d, m, 0, ret, err);
	json_decref(o);
	if (rc) {
		message_free(*ret, m);
		*ret = NULL;
	}
	return rc;
}

/* ---- to JSON ---- */

static json_t *to_object(const ProtobufCMessage *msg);

static json_t *to_value(const ProtobufCFieldDescriptor *f, const void *at)
{
	char text[24];
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		return json_text(*(char *const *)at, strlen(*(char *const *)at));
	case PROTOBUF_C_TYPE_MESSAGE:
		return to_object(*(ProtobufCMessage *const *)at);
	case PROTOBUF_C_TYPE_BOOL:
		return json_boolean(*(const protobuf_c_boolean *)at);
	case PROTOBUF_C_TYPE_DOUBLE:
		return json_real(*(const double *)at);
	case PROTOBUF_C_TYPE_INT32:
		return json_integer(*(const int32_t *)at);
	default:
		snprintf(text, sizeof(text), "%lld", (long long)*(const int64_t *)at);
		return json_string(text);
	}
}

static json_t *to_object(const ProtobufCMessage *msg)
{
	json_t *o = json_object();
	int rc = 0;
	for (unsigned i = 0; !rc && i < msg->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &msg->descriptor->fields[i];
		const char *at = (const char *)msg + f->offset;
		char name[FIELD_NAME_MAX];
		camel_case(f->name, name);
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)((const char *)msg + f->quantifier_offset);
			json_t *v = json_array();
			for (size_t k = 0; !rc && k < n; k++)
				rc = json_array_append_new(
					v, to_value(f, *(char *const *)at + k * width(f)));
			rc = json_put(o, name, v) ? -1 : rc;
		} else if (f->type != PROTOBUF_C_TYPE_MESSAGE || *(void *const *)at) {
			rc = json_put(o, name, to_value(f, at));
		}
	}
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

/* ---- to protobuf ---- */

/* A string that was no UTF-8 while it is packed. */
struct repaired {
	char **at, *was;
};

struct repairs {
	struct repaired *v;
	size_t n, cap;
};

static int repair_string(char **at, struct repairs *r)
{
	struct buf b = BUF_INIT;
	size_t len = strlen(*at);
	if (utf8_is_whole(*at, len))
		return 0;
	if (ARRAY_RESERVE(r->v, r->cap, r->n + 1) || utf8_repair(&b, *at, len) ||
	    buf_add_u8(&b, 0)) {
		buf_fini(&b);
		return -ENOMEM;
	}
	r->v[r->n++] = (struct repaired){ at, *at };
	*at = (char *)b.data;
	return 0;
}

/* A reader of protobuf refuses the whole message for one string that is no UTF-8. */
static int repair(ProtobufCMessage *msg, struct repairs *r)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < msg->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &msg->descriptor->fields[i];
		char *base = (char *)msg;
		bool several = f->label == PROTOBUF_C_LABEL_REPEATED;
		void **at = (void **)(base + f->offset);
		size_t n = several ? *(size_t *)(base + f->quantifier_offset) : 1;
		if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (several)
			at = *at;
		for (size_t k = 0; !rc && k < n; k++)
			rc = !at[k] ? 0
			     : f->type == PROTOBUF_C_TYPE_MESSAGE
				     ? repair(at[k], r)
				     : repair_string((char **)&at[k], r);
	}
	return rc;
}

static void undo(struct repairs *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(*r->v[i].at);
		*r->v[i].at = r->v[i].was;
	}
	free(r->v);
}

static int pack(struct request *r, ProtobufCMessage *msg)
{
	struct repairs repairs = { 0 };
	int rc = repair(msg, &repairs);
	rc = rc ? rc : buf_reserve(&r->out, protobuf_c_message_get_packed_size(msg) + 1);
	if (!rc)
		r->out.len += protobuf_c_message_pack(msg, r->out.data + r->out.len);
	undo(&repairs);
	return rc;
}

int message_write(struct request *r, ProtobufCMessage *msg, bool json, struct err *err)
{
	if (json)
		return request_json(r, to_object(msg), err);
	r->type = "application/proto";
	return pack(r, msg) ? err_set(err, -ENOMEM, "out of memory") : 0;
}
