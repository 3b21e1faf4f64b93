/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/otel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * ProcessContext { Resource resource = 1; repeated KeyValue attributes = 2; }
 * Resource { repeated KeyValue attributes = 1; }
 * KeyValue { string key = 1; AnyValue value = 2; }
 * AnyValue { string = 1; ...; ArrayValue = 5; }
 * ArrayValue { repeated AnyValue values = 1; }
 */
struct bytes {
	const uint8_t *p;
	size_t len;
};

struct field {
	uint32_t number;
	bool is_bytes;
	struct bytes bytes;
};

static bool take_varint(struct bytes *b, uint64_t *ret)
{
	uint64_t v = 0;
	for (unsigned shift = 0; b->len && shift < 64; shift += 7) {
		uint8_t c = *b->p++;
		b->len--;
		v |= (uint64_t)(c & 0x7f) << shift;
		if (c & 0x80)
			continue;
		*ret = v;
		return true;
	}
	return false;
}

static bool skip(struct bytes *b, size_t n)
{
	if (n > b->len)
		return false;
	b->p += n;
	b->len -= n;
	return true;
}

/* The next field; false at the end or where the message is malformed, which *ok tells apart. */
static bool next(struct bytes *b, struct field *f, bool *ok)
{
	uint64_t tag, v;
	if (!b->len)
		return false;
	*ok = false;
	if (!take_varint(b, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return false;
	*f = (struct field){ .number = (uint32_t)(tag >> 3) };
	switch (tag & 7) {
	case 0:
		*ok = take_varint(b, &v);
		break;
	case 1:
		*ok = skip(b, 8);
		break;
	case 2:
		if (!take_varint(b, &v) || v > b->len)
			break;
		f->is_bytes = true;
		f->bytes = (struct bytes){ b->p, (size_t)v };
		*ok = skip(b, (size_t)v);
		break;
	case 5:
		*ok = skip(b, 4);
		break;
	default:
		break;
	}
	return *ok;
}

/* The last field of this number that holds bytes: protobuf's rule for what is not repeated. */
static bool last(struct bytes b, uint32_t number, struct bytes *ret)
{
	struct field f;
	bool ok = true, found = false;
	while (next(&b, &f, &ok)) {
		if (f.number == number && f.is_bytes) {
			*ret = f.bytes;
			found = true;
		}
	}
	return ok && found;
}

static bool is(struct bytes b, const char *text)
{
	return b.len == strlen(text) && !memcmp(b.p, text, b.len);
}

static int take_keys(struct otel_context *c, struct bytes array)
{
	struct field f;
	bool ok = true;
	while (next(&array, &f, &ok)) {
		struct bytes s;
		if (f.number != 1 || !f.is_bytes || c->n_keys == OTEL_KEYS_MAX)
			continue;
		free(c->keys[c->n_keys]);
		c->keys[c->n_keys] = NULL;
		if (last(f.bytes, 1, &s) && s.len && s.len <= OTEL_KEY_MAX &&
		    !memchr(s.p, 0, s.len)) {
			c->keys[c->n_keys] = strndup((const char *)s.p, s.len);
			if (!c->keys[c->n_keys])
				return -ENOMEM;
		}
		c->n_keys++;
	}
	return ok ? 0 : -EBADMSG;
}

static int take_attribute(struct otel_context *c, struct bytes b)
{
	struct bytes key, value, v;
	if (!last(b, 1, &key) || !last(b, 2, &value))
		return 0;
	if (is(key, "threadlocal.schema_version") && last(value, 1, &v) &&
	    v.len < sizeof(c->schema)) {
		memcpy(c->schema, v.p, v.len);
		c->schema[v.len] = 0;
	}
	if (is(key, "threadlocal.attribute_key_map") && last(value, 5, &v) && !c->n_keys)
		return take_keys(c, v);
	return 0;
}

int otel_context_parse(struct otel_context *ret, const void *message, size_t len)
{
	struct otel_context *c = calloc(1, sizeof(*c));
	struct bytes b = { message, len }, resource;
	struct field f, g;
	bool ok = true;
	int rc = c ? 0 : -ENOMEM;
	while (!rc && next(&b, &f, &ok)) {
		if (f.number == 2 && f.is_bytes)
			rc = take_attribute(c, f.bytes);
		if (f.number != 1 || !f.is_bytes)
			continue;
		for (resource = f.bytes; !rc && next(&resource, &g, &ok);)
			if (g.number == 1 && g.is_bytes)
				rc = take_attribute(c, g.bytes);
	}
	if (!rc && !ok)
		rc = -EBADMSG;
	if (!rc) {
		otel_context_fini(ret);
		*ret = *c;
		free(c);
		return 0;
	}
	if (c)
		otel_context_fini(c);
	free(c);
	return rc;
}

void otel_context_fini(struct otel_context *c)
{
	for (size_t i = 0; i < OTEL_KEYS_MAX; i++)
		free(c->keys[i]);
	memset(c, 0, sizeof(*c));
}
