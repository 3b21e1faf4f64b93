/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/member.h"

#include "elf/section.h"
#include "util/buf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ABBREVIATIONS_MAX 65536u
#define DEPTH_MAX 64
#define NONE UINT64_MAX

/* dwarf.h has them all; these are what we look at. */
enum {
	TAG_CLASS = 0x02, TAG_MEMBER = 0x0d, TAG_STRUCTURE = 0x13, TAG_TYPEDEF = 0x16, TAG_UNION = 0x17,
	AT_NAME = 0x03, AT_MEMBER_LOCATION = 0x38, AT_DECLARATION = 0x3c, AT_TYPE = 0x49,
	OP_PLUS_UCONST = 0x23,
	UNIT_TYPE = 2, UNIT_SKELETON = 4, UNIT_SPLIT_COMPILE = 5, UNIT_SPLIT_TYPE = 6,
};

struct abbreviation {
	uint64_t code;
	uint32_t tag;
	uint32_t at; /* of its attributes in .debug_abbrev */
	bool has_children;
};

struct reader {
	struct elf_section info, abbrev, str, line_str;
	struct abbreviation *table;
	size_t n_table;
	uint64_t table_at; /* which table it is */
	const char *type, *member;
	/* of the unit */
	const uint8_t *unit, *unit_end;
	unsigned version, address_size, offset_size;
};

/* What a DIE says that we want. */
struct die {
	const char *name; /* NUL-terminated, inside of a section; NULL: none */
	uint64_t location, type; /* NONE: not given */
	bool variable; /* the location is not a number */
	bool declaration;
};

static int64_t take_sleb(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = cursor_u8(c);
		v |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return (int64_t)(b & 64 && shift + 7 < 64 ? v | ~0ull << (shift + 7) : v);
	}
	return 0;
}

static uint64_t take_fixed(struct cursor *c, unsigned size)
{
	const uint8_t *p = cursor_bytes(c, size);
	uint64_t v = 0;
	if (p && size <= 8)
		memcpy(&v, p, size);
	return v;
}

/* A text at an offset of a section, if it ends inside of it. */
static const char *text_at(const struct elf_section *s, uint64_t at)
{
	return s->bytes && at < s->size && memchr(s->bytes + at, 0, s->size - at) ? (const char *)s->bytes + at : NULL;
}

/* ---- abbreviations ---- */

static int read_abbreviations(struct reader *r, uint64_t at)
{
	if (r->n_table && r->table_at == at)
		return 0;
	if (at >= r->abbrev.size)
		return -EBADMSG;
	struct cursor c = { r->abbrev.bytes + at, r->abbrev.bytes + r->abbrev.size, 0 };
	r->n_table = 0;
	r->table_at = at;
	if (!r->table)
		r->table = malloc(ABBREVIATIONS_MAX * sizeof(*r->table));
	if (!r->table)
		return -ENOMEM;
	for (uint64_t code; (code = cursor_varint(&c)) && !c.bad;) {
		if (r->n_table == ABBREVIATIONS_MAX)
			return -E2BIG;
		struct abbreviation *a = &r->table[r->n_table++];
		a->code = code;
		a->tag = (uint32_t)cursor_varint(&c);
		a->has_children = cursor_u8(&c);
		a->at = (uint32_t)(c.p - r->abbrev.bytes);
		for (uint64_t attr = 1, form = 1; (attr || form) && !c.bad;) {
			attr = cursor_varint(&c);
			form = cursor_varint(&c);
			if (form == 0x21) /* implicit_const */
				take_sleb(&c);
		}
	}
	return c.bad ? -EBADMSG : 0;
}

/* Compilers number them from 1. */
static const struct abbreviation *find_abbreviation(const struct reader *r, uint64_t code)
{
	if (code && code <= r->n_table && r->table[code - 1].code == code)
		return &r->table[code - 1];
	for (size_t i = 0; i < r->n_table; i++)
		if (r->table[i].code == code)
			return &r->table[i];
	return NULL;
}

/* ---- attributes ---- */

struct value {
	uint64_t number;  /* NONE: it is none */
	const char *text;
	const uint8_t *block;
	uint64_t block_len;
};

static void take_block(struct cursor *c, uint64_t len, struct value *v)
{
	v->block_len = len;
	v->block = len <= cursor_left(c) ? cursor_bytes(c, (size_t)len) : NULL;
	if (!v->block)
		c->bad = 1;
}

static void take_string(struct cursor *c, struct value *v)
{
	const uint8_t *end = memchr(c->p, 0, cursor_left(c));
	if (!end) {
		c->bad = 1;
		return;
	}
	v->text = (const char *)c->p;
	c->p = end + 1;
}

/* Read or pass over one attribute. An unknown form makes the rest unreadable. */
static void take_form(const struct reader *r, struct cursor *c, uint64_t form, int64_t implicit, struct value *v)
{
	/* Sizes of what is fixed, by form; 0: not fixed. */
	static const uint8_t size[0x2d] = { [0x05] = 2, [0x06] = 4, [0x07] = 8, [0x0b] = 1, [0x0c] = 1, [0x11] = 1, [0x12] = 2,
					    [0x13] = 4, [0x14] = 8, [0x1c] = 4, [0x20] = 8, [0x24] = 8, [0x25] = 1, [0x26] = 2,
					    [0x27] = 3, [0x28] = 4, [0x29] = 1, [0x2a] = 2, [0x2b] = 3, [0x2c] = 4 };
	v->number = NONE;
	if (form < sizeof(size) && size[form]) {
		v->number = take_fixed(c, size[form]);
		return;
	}
	switch (form) {
	case 0x01: /* addr */
		take_fixed(c, r->address_size);
		break;
	case 0x03: /* block2 */
		take_block(c, take_fixed(c, 2), v);
		break;
	case 0x04:
		take_block(c, take_fixed(c, 4), v);
		break;
	case 0x0a:
		take_block(c, take_fixed(c, 1), v);
		break;
	case 0x09: /* block, exprloc */
	case 0x18:
		take_block(c, cursor_varint(c), v);
		break;
	case 0x08:
		take_string(c, v);
		break;
	case 0x0d:
		v->number = (uint64_t)take_sleb(c);
		break;
	case 0x0e: /* strp */
		v->text = text_at(&r->str, take_fixed(c, r->offset_size));
		break;
	case 0x1f: /* line_strp */
		v->text = text_at(&r->line_str, take_fixed(c, r->offset_size));
		break;
	case 0x0f: /* udata and what is like it: ref_udata, strx, addrx, loclistx, rnglistx, GNU's indices */
	case 0x15:
	case 0x1a:
	case 0x1b:
	case 0x22:
	case 0x23:
	case 0x1f01:
	case 0x1f02:
		v->number = cursor_varint(c);
		break;
	case 0x10: /* ref_addr */
		take_fixed(c, r->version <= 2 ? r->address_size : r->offset_size);
		break;
	case 0x17: /* sec_offset, strp_sup, GNU's */
	case 0x1d:
	case 0x1f20:
	case 0x1f21:
		take_fixed(c, r->offset_size);
		break;
	case 0x19: /* flag_present */
		v->number = 1;
		break;
	case 0x1e: /* data16 */
		cursor_bytes(c, 16);
		break;
	case 0x21:
		v->number = (uint64_t)implicit;
		break;
	default:
		c->bad = 1;
	}
}

static void take_location(const struct value *v, struct die *d)
{
	d->location = v->number;
	if (v->number != NONE)
		return;
	struct cursor c = { v->block, v->block ? v->block + v->block_len : NULL, 0 };
	d->variable = !v->block || cursor_u8(&c) != OP_PLUS_UCONST;
	d->location = d->variable ? NONE : cursor_varint(&c);
	d->variable |= c.bad || cursor_left(&c);
}

static void take_die(const struct reader *r, struct cursor *c, const struct abbreviation *a, struct die *d)
{
	struct cursor spec = { r->abbrev.bytes + a->at, r->abbrev.bytes + r->abbrev.size, 0 };
	*d = (struct die){ .location = NONE, .type = NONE };
	for (;;) {
		uint64_t attr = cursor_varint(&spec), form = cursor_varint(&spec);
		if (spec.bad || (!attr && !form))
			return;
		int64_t implicit = form == 0x21 ? take_sleb(&spec) : 0;
		struct value v = { .number = NONE };
		for (int i = 0; form == 0x16 && i < 4; i++) /* indirect */
			form = cursor_varint(c);
		take_form(r, c, form, implicit, &v);
		if (attr == AT_NAME)
			d->name = v.text;
		else if (attr == AT_MEMBER_LOCATION)
			take_location(&v, d);
		else if (attr == AT_DECLARATION)
			d->declaration = v.number == 1;
		else if (attr == AT_TYPE && form >= 0x11 && form <= 0x15) /* inside of the unit */
			d->type = v.number;
	}
}

/* ---- units ---- */

static bool is_record(uint32_t tag)
{
	return tag == TAG_STRUCTURE || tag == TAG_CLASS || tag == TAG_UNION;
}

static bool is_called(const struct die *d, const char *name)
{
	return d->name && !strcmp(d->name, name);
}

/*
 * From a DIE on to the end of the unit, or of the DIE's own children when `taken`: that one is the structure, whatever its name
 * is. -ENOENT: not here.
 */
static int search(struct reader *r, const uint8_t *from, bool taken, uint64_t *ret)
{
	struct cursor c = { from, r->unit_end, 0 };
	int depth = 0, inside = taken ? 0 : -1;
	bool first = true;
	struct die d;
	while (cursor_left(&c)) {
		uint64_t code = cursor_varint(&c);
		if (!code) {
			if (--depth <= inside)
				inside = -1;
			if (depth < 0 || (taken && depth <= 0))
				return c.bad ? -EBADMSG : -ENOENT;
			continue;
		}
		const struct abbreviation *a = find_abbreviation(r, code);
		if (!a)
			return -EBADMSG;
		take_die(r, &c, a, &d);
		if (c.bad)
			return -EBADMSG;
		if (inside >= 0 && depth == inside + 1 && a->tag == TAG_MEMBER && is_called(&d, r->member)) {
			*ret = d.location == NONE ? 0 : d.location;
			return d.variable ? -EOPNOTSUPP : 0;
		}
		if (!taken && inside < 0 && is_record(a->tag) && !d.declaration && a->has_children && is_called(&d, r->type))
			inside = depth;
		if (!taken && inside < 0 && a->tag == TAG_TYPEDEF && is_called(&d, r->type) &&
		    d.type < (uint64_t)(r->unit_end - r->unit)) {
			int rc = search(r, r->unit + d.type, true, ret);
			if (rc != -ENOENT)
				return rc;
		}
		if (taken && first && !(is_record(a->tag) && a->has_children))
			return -ENOENT;
		first = false;
		depth += a->has_children;
		if (depth > DEPTH_MAX)
			return -E2BIG;
	}
	return -ENOENT;
}

/* One unit's head; *ret_first is its first DIE. 1: nothing for us in it. */
static int begin_unit(struct reader *r, struct cursor *c, const uint8_t **ret_first)
{
	r->unit = c->p;
	uint64_t len = take_fixed(c, 4);
	r->offset_size = 4;
	if (len == 0xffffffff) {
		len = take_fixed(c, 8);
		r->offset_size = 8;
	}
	if (c->bad || len > cursor_left(c))
		return -EBADMSG;
	struct cursor u = { c->p, c->p + len, 0 };
	r->unit_end = u.end;
	c->p += len;
	r->version = (unsigned)take_fixed(&u, 2);
	unsigned kind = 1;
	uint64_t abbrev;
	if (r->version >= 5) {
		kind = cursor_u8(&u);
		r->address_size = cursor_u8(&u);
		abbrev = take_fixed(&u, r->offset_size);
	} else {
		abbrev = take_fixed(&u, r->offset_size);
		r->address_size = cursor_u8(&u);
	}
	if (kind == UNIT_SKELETON || kind == UNIT_SPLIT_COMPILE)
		cursor_bytes(&u, 8);
	if (kind == UNIT_TYPE || kind == UNIT_SPLIT_TYPE)
		cursor_bytes(&u, 8 + r->offset_size);
	if (u.bad || r->address_size > 8)
		return -EBADMSG;
	if (r->version < 2 || r->version > 5)
		return 1;
	*ret_first = u.p;
	return read_abbreviations(r, abbrev);
}

static int search_units(struct reader *r, uint64_t *ret)
{
	struct cursor c = { r->info.bytes, r->info.bytes + r->info.size, 0 };
	int rc = -ENOENT;
	while (rc == -ENOENT && cursor_left(&c)) {
		const uint8_t *first;
		rc = begin_unit(r, &c, &first);
		if (rc == 1)
			rc = -ENOENT;
		else if (!rc)
			rc = search(r, first, false, ret);
	}
	return rc;
}

int elf_member_offset(const struct elf_image *img, const char *type, const char *member, uint64_t *ret)
{
	struct reader r = { .type = type, .member = member };
	int rc = elf_section_read(img, ".debug_info", ELF_DWARF_MAX, &r.info);
	rc = rc ? rc : elf_section_read(img, ".debug_abbrev", ELF_DWARF_MAX / 8, &r.abbrev);
	if (!rc && elf_section_read(img, ".debug_str", ELF_DWARF_MAX, &r.str))
		r.str = (struct elf_section){ .bytes = NULL };
	if (!rc && elf_section_read(img, ".debug_line_str", ELF_DWARF_MAX, &r.line_str))
		r.line_str = (struct elf_section){ .bytes = NULL };
	rc = rc ? rc : search_units(&r, ret);
	free(r.table);
	elf_section_fini(&r.info);
	elf_section_fini(&r.abbrev);
	elf_section_fini(&r.str);
	elf_section_fini(&r.line_str);
	return rc;
}
