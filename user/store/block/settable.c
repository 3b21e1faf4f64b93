/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/settable.h"

#include "store/file/columns.h"
#include "util/array.h"

#define T(c) (COLUMN_TABLE_##c - COLUMN_TABLE_NARROW)

void settable_fini(struct settable *t)
{
	free(t->sets);
	free(t->labels);
	buf_fini(&t->text);
	memset(t, 0, sizeof(*t));
}

int settable_add(struct settable *t, uint32_t narrow, const struct settable_label *labels, size_t n)
{
	int rc = ARRAY_RESERVE(t->sets, t->cap, t->n + 1);
	if (!rc && n)
		rc = ARRAY_RESERVE(t->labels, t->labels_cap, t->n_labels + n);
	if (rc)
		return rc;
	t->sets[t->n++] = (struct settable_set){ narrow, (uint32_t)t->n_labels, (uint32_t)n };
	if (n)
		memcpy(t->labels + t->n_labels, labels, n * sizeof(*labels));
	t->n_labels += n;
	return 0;
}

static int compare_label(const struct settable_label *a, const struct settable_label *b)
{
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == LABEL_INT)
		return a->num < b->num ? -1 : a->num > b->num;
	int c = memcmp(a->str, b->str, a->len < b->len ? a->len : b->len);
	return c ? c : (a->len > b->len) - (a->len < b->len);
}

int settable_compare(const struct settable *t, const struct settable_set *a,
		     const struct settable_set *b)
{
	if (a->narrow != b->narrow)
		return a->narrow < b->narrow ? -1 : 1;
	for (uint32_t i = 0; i < a->n && i < b->n; i++) {
		int c = compare_label(&t->labels[a->first + i], &t->labels[b->first + i]);
		if (c)
			return c;
	}
	return (a->n > b->n) - (a->n < b->n);
}

/* ---- values of a fixed form ---- */

#define UUID_LEN 36
#define HEX_LEN 32

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool dash_at(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

/* What is not of the form exactly stays a text: nothing is lost. */
static enum value_type pack(const struct settable_label *l, uint8_t out[16])
{
	bool uuid = l->len == UUID_LEN;
	size_t n = 0;
	if (l->type == LABEL_INT)
		return VALUE_INT;
	if (!uuid && l->len != HEX_LEN)
		return VALUE_TEXT;
	memset(out, 0, 16);
	for (size_t i = 0; i < l->len; i++) {
		if (uuid && dash_at(i)) {
			if (l->str[i] != '-')
				return VALUE_TEXT;
			continue;
		}
		int d = digit(l->str[i]);
		if (d < 0)
			return VALUE_TEXT;
		out[n / 2] = (uint8_t)(out[n / 2] << 4 | d);
		n++;
	}
	return uuid ? VALUE_UUID : VALUE_HEX;
}

static uint32_t unpack(enum value_type type, const uint8_t in[16], char *out)
{
	static const char digits[] = "0123456789abcdef";
	char *p = out;
	for (size_t i = 0; i < 16; i++) {
		if (type == VALUE_UUID && (i == 4 || i == 6 || i == 8 || i == 10))
			*p++ = '-';
		*p++ = digits[in[i] >> 4];
		*p++ = digits[in[i] & 15];
	}
	return (uint32_t)(p - out);
}

int value_encode(struct buf *out, const struct settable_label *l)
{
	uint8_t bin[16];
	enum value_type type = pack(l, bin);
	int rc = buf_add_u8(out, (uint8_t)type);
	if (type == VALUE_INT)
		return rc | buf_add_varint(out, zigzag((uint64_t)l->num));
	if (type != VALUE_TEXT)
		return rc | buf_add(out, bin, sizeof(bin));
	rc |= buf_add_varint(out, l->len);
	return rc | buf_add(out, l->str, l->len);
}

int value_decode(struct cursor *c, struct settable_label *ret, char *text)
{
	uint8_t type = cursor_u8(c);
	const uint8_t *p;
	*ret = (struct settable_label){ .type = type == VALUE_INT ? LABEL_INT : LABEL_STRING,
					.str = "" };
	if (type == VALUE_INT) {
		ret->num = (int64_t)unzigzag(cursor_varint(c));
	} else if (type == VALUE_TEXT) {
		uint64_t len = cursor_varint(c);
		p = len <= STRING_MAX ? cursor_bytes(c, len) : NULL;
		if (!p)
			return -EBADMSG;
		ret->str = (const char *)p;
		ret->len = (uint32_t)len;
	} else {
		p = type <= VALUE_HEX ? cursor_bytes(c, 16) : NULL;
		if (!p)
			return -EBADMSG;
		ret->str = text;
		ret->len = unpack(type, p, text);
	}
	return c->bad ? -EBADMSG : 0;
}

/* ---- the table ---- */

static int encode_label(struct buf *c, const struct settable_label *l, uint64_t *last_int)
{
	uint8_t bin[16];
	enum value_type type = pack(l, bin);
	int rc = buf_add_varint(&c[T(KEY)], l->key);
	rc |= buf_add_u8(&c[T(TYPE)], (uint8_t)type);
	if (type == VALUE_INT) {
		rc |= buf_add_varint(&c[T(INT)], zigzag((uint64_t)l->num - *last_int));
		*last_int = (uint64_t)l->num;
		return rc;
	}
	if (type != VALUE_TEXT)
		return rc | buf_add(&c[T(BIN)], bin, sizeof(bin));
	rc |= buf_add_varint(&c[T(LEN)], l->len);
	return rc | buf_add(&c[T(TEXT)], l->str, l->len);
}

int settable_encode(struct block *b, const struct settable *t)
{
	struct buf *c = &b->column[COLUMN_TABLE_NARROW];
	uint64_t last_int = 0;
	uint32_t last = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < t->n; i++) {
		const struct settable_set *s = &t->sets[i];
		rc = buf_add_varint(&c[T(NARROW)], s->narrow - last);
		rc |= buf_add_varint(&c[T(COUNT)], s->n);
		for (uint32_t k = 0; !rc && k < s->n; k++)
			rc = encode_label(c, &t->labels[s->first + k], &last_int);
		last = s->narrow;
	}
	b->info.n_table = (uint32_t)t->n;
	b->has |= 0xffu << COLUMN_TABLE_NARROW;
	return rc;
}

struct decoder {
	struct settable *t;
	struct cursor c[8];
	uint64_t last_int;
	uint32_t n_keys;
	const struct settable_keys *keys;
};

/*
 * Texts are put into t->text, whose size was found before: it does not move. *ret_wanted: *ret was
 * written.
 */
static int decode_label(struct decoder *d, struct settable_label *ret, bool *ret_wanted)
{
	struct buf *text = &d->t->text;
	uint64_t key = cursor_varint(&d->c[T(KEY)]);
	const uint8_t *t = cursor_bytes(&d->c[T(TYPE)], 1);
	if (d->c[T(KEY)].bad || !t || key >= d->n_keys || *t > VALUE_HEX)
		return -EBADMSG;
	uint8_t type = *t;
	*ret_wanted = !d->keys || d->keys->wants(d->keys->ctx, (uint32_t)key);
	if (type == VALUE_INT) {
		d->last_int += unzigzag(cursor_varint(&d->c[T(INT)]));
		*ret = (struct settable_label){ .key = (uint32_t)key,
						.type = LABEL_INT,
						.str = (char *)text->data + text->len,
						.num = (int64_t)d->last_int };
		return d->c[T(INT)].bad ? -EBADMSG : 0;
	}
	uint64_t len = type == VALUE_TEXT ? cursor_varint(&d->c[T(LEN)]) : 16;
	const uint8_t *p = len <= STRING_MAX
				   ? cursor_bytes(&d->c[type == VALUE_TEXT ? T(TEXT) : T(BIN)], len)
				   : NULL;
	if (!p || d->c[T(LEN)].bad)
		return -EBADMSG;
	if (!*ret_wanted)
		return 0;
	*ret = (struct settable_label){ .key = (uint32_t)key,
					.str = (char *)text->data + text->len };
	if (type == VALUE_TEXT)
		memcpy(text->data + text->len, p, len);
	ret->len = type == VALUE_TEXT ? (uint32_t)len
				      : unpack(type, p, (char *)text->data + text->len);
	text->len += ret->len;
	return 0;
}

static int decode_set(struct decoder *d, uint64_t *narrow, uint32_t n_narrow)
{
	struct settable *t = d->t;
	*narrow += cursor_varint(&d->c[T(NARROW)]);
	uint64_t n = cursor_varint(&d->c[T(COUNT)]);
	if (d->c[T(NARROW)].bad || d->c[T(COUNT)].bad || *narrow >= n_narrow || n > SET_LABELS_MAX)
		return -EBADMSG;
	int rc = n ? ARRAY_RESERVE(t->labels, t->labels_cap, t->n_labels + n) : 0;
	uint32_t first = (uint32_t)t->n_labels;
	for (uint64_t i = 0; !rc && i < n; i++) {
		bool wanted = false;
		rc = decode_label(d, &t->labels[t->n_labels], &wanted);
		t->n_labels += !rc && wanted;
	}
	if (!rc)
		t->sets[t->n++] = (struct settable_set){ (uint32_t)*narrow, first,
							 (uint32_t)t->n_labels - first };
	return rc;
}

int settable_decode(struct settable *ret, const struct buf *raw, size_t n, uint32_t n_narrow,
		    uint32_t n_keys, const struct settable_keys *keys)
{
	struct settable t = { 0 };
	struct decoder d = { .t = &t, .n_keys = n_keys, .keys = keys };
	uint64_t narrow = 0;
	int rc = n > raw[T(NARROW)].len ? -EBADMSG : ARRAY_RESERVE(t.sets, t.cap, n + 1);
	/* 16 bytes become 36 at most. */
	if (!rc)
		rc = buf_reserve(&t.text, raw[T(TEXT)].len + raw[T(BIN)].len / 16 * UUID_LEN + 1);
	for (size_t i = 0; i < 8; i++)
		d.c[i] = cursor_of(&raw[i]);
	for (size_t i = 0; !rc && i < n; i++)
		rc = decode_set(&d, &narrow, n_narrow);
	for (size_t i = 0; !rc && i < 8; i++)
		rc = d.c[i].bad || cursor_left(&d.c[i]) ? -EBADMSG : 0;
	if (rc)
		settable_fini(&t);
	else
		*ret = t;
	return rc;
}

int settable_decode_narrow(struct settable *ret, const struct buf *raw, size_t n, uint32_t n_narrow)
{
	struct settable t = { 0 };
	struct cursor c = cursor_of(&raw[T(NARROW)]);
	uint64_t narrow = 0;
	int rc = n > raw[T(NARROW)].len ? -EBADMSG : ARRAY_RESERVE(t.sets, t.cap, n + 1);
	for (size_t i = 0; !rc && i < n; i++) {
		narrow += cursor_varint(&c);
		rc = c.bad || narrow >= n_narrow ? -EBADMSG : 0;
		t.sets[t.n++] = (struct settable_set){ .narrow = (uint32_t)narrow };
	}
	if (!rc && cursor_left(&c))
		rc = -EBADMSG;
	if (rc)
		settable_fini(&t);
	else
		*ret = t;
	return rc;
}

/* ---- one value in many tables ---- */

uint32_t settable_columns(const struct settable_label *value)
{
	uint8_t bin[16];
	enum value_type type = pack(value, bin);
	return 1u << (type == VALUE_INT	   ? COLUMN_TABLE_INT
		      : type == VALUE_TEXT ? COLUMN_TABLE_TEXT
					   : COLUMN_TABLE_BIN);
}

bool settable_may_have(const struct buf *raw, const struct settable_label *value)
{
	uint8_t bin[16];
	enum value_type type = pack(value, bin);
	const struct buf *b = &raw[type == VALUE_INT	? T(INT)
				   : type == VALUE_TEXT ? T(TEXT)
							: T(BIN)];
	if (type == VALUE_TEXT)
		return !value->len || (b->len && memmem(b->data, b->len, value->str, value->len));
	if (type == VALUE_INT) {
		struct cursor c = cursor_of(b);
		uint64_t last = 0;
		while (cursor_left(&c) && !c.bad)
			if ((last += unzigzag(cursor_varint(&c))) == (uint64_t)value->num)
				return true;
		return c.bad;
	}
	for (size_t i = 0; i + sizeof(bin) <= b->len; i += sizeof(bin))
		if (!memcmp(b->data + i, bin, sizeof(bin)))
			return true;
	return false;
}
