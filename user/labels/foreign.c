/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/foreign.h"

#include <linux/types.h>
#include "label_wire.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct decoding {
	struct label *out;
	size_t n;
	struct foreign_side *side;
};

size_t utf8_cut(const char *text, size_t len)
{
	size_t back = 0;
	while (back < len && back < 4 && ((uint8_t)text[len - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back == len || back == 4)
		return len; /* not UTF-8: there is no border */
	uint8_t lead = (uint8_t)text[len - 1 - back];
	size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
	return want > back + 1 ? len - 1 - back : len;
}

static void add_text(struct decoding *d, const char *key, size_t key_len, const char *text,
		     size_t len)
{
	if (d->n == FOREIGN_LABELS_MAX || !key_len)
		return;
	d->out[d->n++] = (struct label){ .key = key,
					 .key_len = (uint32_t)key_len,
					 .str = text,
					 .str_len = (uint32_t)len,
					 .type = LABEL_STRING };
}

static void add_int(struct decoding *d, const char *key, int64_t num)
{
	if (d->n == FOREIGN_LABELS_MAX)
		return;
	d->out[d->n++] = (struct label){
		.key = key, .key_len = (uint32_t)strlen(key), .num = num, .type = LABEL_INT
	};
}

/* Room for text of our own, or NULL. */
static char *room(struct decoding *d, size_t n)
{
	struct foreign_side *s = d->side;
	if (n > sizeof(s->text) - s->used)
		return NULL;
	s->used += n;
	return s->text + s->used - n;
}

static void add_hex(struct decoding *d, const char *key, const uint8_t *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *t = room(d, 2 * n);
	if (!t)
		return;
	for (size_t i = 0; i < n; i++) {
		t[2 * i] = digits[bytes[i] >> 4];
		t[2 * i + 1] = digits[bytes[i] & 15];
	}
	add_text(d, key, strlen(key), t, 2 * n);
}

static void add_uint(struct decoding *d, const char *key, uint64_t num, const char *format)
{
	char *t = room(d, 21);
	if (t)
		add_text(d, key, strlen(key), t, (size_t)snprintf(t, 21, format, num));
}

/* An id of which all zero means none. */
static void add_id(struct decoding *d, const char *key, const uint8_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (id[i]) {
			add_hex(d, key, id, n);
			return;
		}
	}
}

/* ---- OpenTelemetry: OTEP 4947 ---- */

#define OTEL_HEADER 28

static bool decode_otel(struct decoding *d, const struct foreign_source *s, const uint8_t *p,
			size_t len)
{
	uint16_t size, place[512];
	uint8_t seen[256] = { 0 };
	size_t n = 0;
	if (len < OTEL_HEADER)
		return false;
	memcpy(&size, p + 26, sizeof(size));
	if (p[24] != 1 || size != len - OTEL_HEADER)
		return false;
	const uint8_t *attrs = p + OTEL_HEADER;
	for (size_t at = 0; at < size; at += 2u + attrs[at + 1]) {
		if (size - at < 2 || size - at - 2u < attrs[at + 1] ||
		    n == sizeof(place) / sizeof(place[0]))
			return false;
		place[n++] = (uint16_t)at;
	}
	add_id(d, "trace_id", p, 16);
	add_id(d, "span_id", p + 16, 8);
	while (n) {
		const uint8_t *a = attrs + place[--n];
		if (seen[a[0]])
			continue;
		seen[a[0]] = 1;
		if (a[0] >= s->n_keys || !s->keys[a[0]])
			d->side->unknown_keys++;
		else
			add_text(d, s->keys[a[0]], strlen(s->keys[a[0]]), (const char *)a + 2,
				 a[1]);
	}
	return true;
}

/* ---- fields of label paths ---- */

/* u16 minor, u8 valid, u8 trace present, u8 flags, trace id, span id, transaction id. */
static bool decode_elastic(struct decoding *d, const uint8_t *p, size_t len)
{
	if (len != 37)
		return false;
	if (!p[2])
		return true; /* being changed */
	if (p[2] != 1 || p[3] > 1)
		return false;
	if (!p[3])
		return true;
	add_id(d, "trace_id", p + 5, 16);
	add_id(d, "span_id", p + 21, 8);
	add_id(d, "transaction_id", p + 29, 8);
	return true;
}

/* Span id, root span id, checksum of both, ten numbers. A checksum of 0: being changed. */
static bool decode_datadog(struct decoding *d, const uint8_t *p, size_t len)
{
	const uint64_t knuth = 0x9e3779b97f4a7c15ull;
	static const char key[10][16] = { "datadog.tag0", "datadog.tag1", "datadog.tag2",
					  "datadog.tag3", "datadog.tag4", "datadog.tag5",
					  "datadog.tag6", "datadog.tag7", "datadog.tag8",
					  "datadog.tag9" };
	uint64_t v[3];
	uint32_t tag[10];
	if (len != 64)
		return false;
	memcpy(v, p, sizeof(v));
	memcpy(tag, p + sizeof(v), sizeof(tag));
	if (!v[2])
		return true;
	uint64_t sum = (v[0] * knuth) ^ ((v[1] << 32 | v[1] >> 32) * knuth);
	if (v[2] != (sum ? sum : ~0ull))
		return false;
	if (v[0])
		add_uint(d, "span_id", v[0], "%" PRIu64);
	if (v[1])
		add_uint(d, "local_root_span_id", v[1], "%" PRIu64);
	for (size_t i = 0; i < 10; i++)
		if (tag[i])
			add_int(d, key[i], tag[i]);
	return true;
}

static void decode_number(struct decoding *d, const struct foreign_field *f, uint64_t v)
{
	for (size_t i = 0; i < f->n_names; i++) {
		if (f->names[i].number == (int64_t)v) {
			add_text(d, f->key, strlen(f->key), f->names[i].name,
				 strlen(f->names[i].name));
			return;
		}
	}
	if (f->form == FOREIGN_HEX)
		add_uint(d, f->key, v, "%016" PRIx64);
	else if (f->form == FOREIGN_UINT && v > INT64_MAX)
		add_uint(d, f->key, v, "%" PRIu64);
	else
		add_int(d, f->key, (int64_t)v);
}

static bool decode_field(struct decoding *d, const struct foreign_source *s,
			 const struct label_entry *e, const uint8_t *p)
{
	uint64_t v;
	if (s->kind != LABEL_PATH || e->len2 >= s->n_fields)
		return false;
	const struct foreign_field *f = &s->fields[e->len2];
	if (e->what == ENTRY_INT) {
		memcpy(&v, p, sizeof(v));
		decode_number(d, f, v);
		return true;
	}
	switch (f->form) {
	case FOREIGN_TEXT:
		if (e->len) /* empty: as if it were not there */
			add_text(d, f->key, strlen(f->key), (const char *)p,
				 e->cut ? utf8_cut((const char *)p, e->len) : e->len);
		return true;
	case FOREIGN_ELASTIC:
		return decode_elastic(d, p, e->len);
	case FOREIGN_DATADOG:
		return decode_datadog(d, p, e->len);
	default:
		add_hex(d, f->key, p, e->len);
		return true;
	}
}

/* ---- entries ---- */

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* Bytes of the entry behind its head; 0 length parts included. */
static size_t entry_size(const struct label_entry *e)
{
	bool two = e->what == ENTRY_PAIR || e->what == ENTRY_ABSENT;
	return padded(e->len) + (two ? padded(e->len2) : 0);
}

/* A value that was not resident when the sample was taken. */
static bool decode_absent(struct decoding *d, const struct label_entry *e, const uint8_t *p)
{
	struct label_absent a;
	if (e->len2 != sizeof(a))
		return false;
	memcpy(&a, p + padded(e->len), sizeof(a));
	if (a.len > LABEL_TEXT_BYTES)
		return false;
	char *text = d->side->read ? room(d, a.len) : NULL;
	if (text && !d->side->read(d->side->ctx, a.at, text, a.len))
		add_text(d, (const char *)p, e->len, text, e->cut ? utf8_cut(text, a.len) : a.len);
	else
		d->side->unread |= 1u << e->source;
	return true;
}

/* An argument of a probe: its entry stands behind those of the sources. */
static bool decode_argument(struct decoding *d, const struct label_entry *e, const uint8_t *p)
{
	char *key = room(d, sizeof("arg65535"));
	int64_t num;
	if (!key)
		return true;
	const int len = snprintf(key, sizeof("arg65535"), "arg%u", e->len2);
	if (e->what == ENTRY_BYTES) {
		add_text(d, key, (size_t)len, (const char *)p,
			 e->cut ? utf8_cut((const char *)p, e->len) : e->len);
	} else if (e->what == ENTRY_INT) {
		memcpy(&num, p, sizeof(num));
		add_int(d, key, num);
	}
	return e->what == ENTRY_BYTES || e->what == ENTRY_INT;
}

/* The timed call in which the thread was: likewise. */
static bool decode_call(struct decoding *d, const struct label_entry *e)
{
	const struct foreign_side *s = d->side;
	const char *name = e->len2 < s->n_calls ? s->calls[e->len2] : NULL;
	if (name && e->what == ENTRY_BYTES)
		add_text(d, "in", 2, name, strlen(name));
	return name && e->what == ENTRY_BYTES;
}

static bool decode_entry(struct decoding *d, const struct foreign_source *s,
			 const struct label_entry *e, const uint8_t *p)
{
	switch (e->what) {
	case ENTRY_OTEL:
		return (s->kind == LABEL_OTEL || s->kind == LABEL_NODE) &&
		       decode_otel(d, s, p, e->len);
	case ENTRY_PAIR: {
		const char *value = (const char *)p + padded(e->len);
		add_text(d, (const char *)p, e->len, value,
			 e->cut ? utf8_cut(value, e->len2) : e->len2);
		return true;
	}
	case ENTRY_ABSENT:
		return decode_absent(d, e, p);
	case ENTRY_INT:
	case ENTRY_BYTES:
		return decode_field(d, s, e, p);
	default:
		return false;
	}
}

/* Decode the entries of the sources of one rank. */
static void decode_rank(struct decoding *d, const void *capture, size_t len,
			const struct foreign_source *sources, size_t n_sources, unsigned rank)
{
	const uint8_t *p = capture;
	for (size_t at = 0; len - at >= sizeof(struct label_entry);) {
		struct label_entry e;
		memcpy(&e, p + at, sizeof(e));
		at += sizeof(e);
		const bool argument = e.source == ENTRY_ARGUMENT, call = e.source == ENTRY_CALL,
			   of_source = !argument && !call;
		if ((of_source && (e.source >= n_sources || e.source >= 32)) ||
		    entry_size(&e) > len - at || (e.what == ENTRY_INT && e.len != 8))
			break;
		size_t before = d->n;
		if (argument && !rank && !decode_argument(d, &e, p + at))
			break;
		if (call && !rank && !decode_call(d, &e))
			break;
		if (of_source && sources[e.source].rank == rank &&
		    !decode_entry(d, &sources[e.source], &e, p + at)) {
			d->n = before;
			d->side->invalid |= 1u << e.source;
		}
		at += entry_size(&e);
	}
}

bool foreign_has_sources(const void *capture, size_t len)
{
	struct label_entry first;
	if (len < sizeof(first))
		return false;
	memcpy(&first, capture, sizeof(first));
	return first.source != ENTRY_ARGUMENT && first.source != ENTRY_CALL;
}

size_t foreign_decode(const void *capture, size_t len, const struct foreign_source *sources,
		      size_t n_sources, struct label *out, struct foreign_side *side)
{
	struct decoding d = { .out = out, .side = side };
	side->used = 0;
	side->unknown_keys = side->invalid = side->unread = 0;
	for (unsigned rank = 0; rank < FOREIGN_RANKS; rank++)
		decode_rank(&d, capture, len, sources, n_sources, rank);
	return d.n;
}
