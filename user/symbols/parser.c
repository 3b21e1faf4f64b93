/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/parser.h"

#include "elf/section.h"
#include "symbols/gopclntab.h"
#include "symbols/hotspot.h"
#include "symbols/luajit.h"
#include "symbols/perl.h"
#include "symbols/php.h"
#include "symbols/python.h"
#include "symbols/ruby.h"
#include "symbols/v8.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DYNSYM_SMALL (64u << 10) /* bytes: it is read anew for each request for parts */

/* ---- facts ---- */

static uint32_t what_it_has(const struct elf_image *img)
{
	struct elf_place at;
	uint32_t has = img->symtab.size ? FACT_SYMTAB : 0;
	if (!elf_section_find(img, ".debug_info", &at) ||
	    !elf_section_find(img, ".zdebug_info", &at))
		has |= FACT_DWARF;
	if (!gopclntab_is_there(img))
		return has;
	if (!(has & FACT_SYMTAB) && img->dynsym.size <= DYNSYM_SMALL)
		has |= FACT_GO;
	return has & FACT_DWARF ? has : has | FACT_GO_LINES;
}

int facts_encode(const struct elf_image *img, struct buf *out)
{
	char link[DEBUGLINK_NAME_MAX] = "";
	uint32_t crc = 0;
	struct binary_script script = { 0 };
	struct binary_hotspot hs = { 0 };
	struct binary_v8 v8 = { 0 };
	if (python_find(img, &script) && php_find(img, &script) && ruby_find(img, &script))
		if (perl_find(img, &script))
			luajit_find(img, &script);
	hotspot_find(img, &hs);
	v8_find(img, &v8);
	if (debuglink_read(img, link, &crc))
		link[0] = '\0';
	int rc = buf_add_u32(out, img->machine);
	rc = rc ? rc : buf_add_u32(out, img->type);
	rc = rc ? rc : buf_add_u32(out, what_it_has(img));
	rc = rc ? rc : buf_add_u32(out, (uint32_t)img->n_loads);
	for (size_t i = 0; !rc && i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		rc = buf_add_u64(out, s->offset);
		rc = rc ? rc : buf_add_u64(out, s->filesz);
		rc = rc ? rc : buf_add_u64(out, s->vaddr);
		rc = rc ? rc : buf_add_u64(out, s->memsz);
		rc = rc ? rc : buf_add_u32(out, s->flags);
	}
	rc = rc ? rc : buf_add_u8(out, (uint8_t)img->build_id_len);
	rc = rc ? rc : buf_add(out, img->build_id, img->build_id_len);
	rc = rc ? rc : buf_add_u32(out, (uint32_t)-img->label_rc);
	rc = rc ? rc : buf_add_u64(out, img->label_vaddr);
	rc = rc ? rc : buf_add_u32(out, (uint32_t)-img->trampolines_rc);
	rc = rc ? rc : buf_add_u64(out, img->trampolines_vaddr);
	rc = rc ? rc : buf_add_u32(out, script.language);
	rc = rc ? rc : buf_add_u32(out, script.version);
	rc = rc ? rc : buf_add_u64(out, script.at);
	rc = rc ? rc : buf_add_u64(out, script.eval);
	rc = rc ? rc : buf_add_u64(out, script.eval_size);
	for (size_t i = 0; !rc && i < HOTSPOT_SYMBOLS; i++)
		rc = buf_add_u64(out, hs.at[i]);
	rc = rc ? rc : buf_add_u8(out, (uint8_t)v8.found);
	if (v8.found) {
		rc = rc ? rc : buf_add(out, &v8.layout, sizeof(v8.layout));
		rc = rc ? rc : buf_add(out, v8.missing, sizeof(v8.missing));
	}
	rc = rc ? rc : buf_add_u32(out, crc);
	return rc ? rc : buf_add(out, link, strlen(link) + 1);
}

static int decode_loads(struct elf_image *img, struct cursor *c)
{
	size_t n = cursor_u32(c);
	if (c->bad || n > ELF_SEGMENTS_MAX)
		return -EBADMSG;
	img->loads = calloc(n ? n : 1, sizeof(*img->loads));
	if (!img->loads)
		return -ENOMEM;
	for (; img->n_loads < n; img->n_loads++) {
		struct elf_segment s;
		s.offset = cursor_u64(c);
		s.filesz = cursor_u64(c);
		s.vaddr = cursor_u64(c);
		s.memsz = cursor_u64(c);
		s.flags = cursor_u32(c);
		if (s.filesz > UINT64_MAX - s.offset || s.memsz > UINT64_MAX - s.vaddr ||
		    s.filesz > s.memsz)
			return -EBADMSG;
		img->loads[img->n_loads] = s;
	}
	return 0;
}

static int decode_v8(struct binary_v8 *v, struct cursor *c)
{
	v->found = cursor_u8(c);
	if (!v->found)
		return 0;
	const uint8_t *layout = cursor_bytes(c, sizeof(v->layout)),
		      *missing = cursor_bytes(c, sizeof(v->missing));
	if (!layout || !missing || v->found != 1 || missing[sizeof(v->missing) - 1])
		return -EBADMSG;
	memcpy(&v->layout, layout, sizeof(v->layout));
	memcpy(v->missing, missing, sizeof(v->missing));
	return 0;
}

int facts_decode(struct facts *ret, const struct buf *in)
{
	struct facts f = { .img = { .fd = -1 } };
	struct cursor c = cursor_of(in);
	f.img.machine = (uint16_t)cursor_u32(&c);
	f.img.type = (uint16_t)cursor_u32(&c);
	f.has = cursor_u32(&c);
	int rc = decode_loads(&f.img, &c);
	f.img.build_id_len = cursor_u8(&c);
	const uint8_t *id = f.img.build_id_len <= ELF_BUILD_ID_MAX
				    ? cursor_bytes(&c, f.img.build_id_len)
				    : NULL;
	uint32_t label_rc = cursor_u32(&c);
	f.img.label_vaddr = cursor_u64(&c);
	uint32_t trampolines_rc = cursor_u32(&c);
	f.img.trampolines_vaddr = cursor_u64(&c);
	f.script.language = cursor_u32(&c);
	f.script.version = cursor_u32(&c);
	f.script.at = cursor_u64(&c);
	f.script.eval = cursor_u64(&c);
	f.script.eval_size = cursor_u64(&c);
	for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++)
		f.hotspot.at[i] = cursor_u64(&c);
	rc = rc ? rc : decode_v8(&f.v8, &c);
	f.link_crc = cursor_u32(&c);
	size_t left = cursor_left(&c);
	const uint8_t *link = left <= sizeof(f.link) ? cursor_bytes(&c, left) : NULL;
	if (!rc &&
	    (c.bad || !id || !link || !left || label_rc > 4095 || trampolines_rc > 4095 ||
	     f.script.language >= SCRIPT_LANGUAGES || link[left - 1] || memchr(link, '/', left)))
		rc = -EBADMSG;
	if (rc) {
		facts_fini(&f);
		return rc;
	}
	memcpy(f.img.build_id, id, f.img.build_id_len);
	memcpy(f.link, link, left);
	f.img.label_rc = -(int)label_rc;
	f.img.trampolines_rc = -(int)trampolines_rc;
	*ret = f;
	return 0;
}

void facts_fini(struct facts *f)
{
	elf_image_fini(&f->img);
}

/* ---- tables ---- */

static int add_table(struct buf *out, const struct table *t)
{
	int rc = buf_reserve(out, 16 + 12 * t->n + t->names_len);
	if (rc)
		return rc;
	/* None of these fails: there is room. */
	buf_add_u64(out, t->base);
	buf_add_u32(out, (uint32_t)t->n);
	buf_add_u32(out, (uint32_t)t->names_len);
	for (size_t i = 0; i < t->n; i++) {
		buf_add_u32(out, t->entries[i].addr);
		buf_add_u32(out, t->entries[i].size);
		buf_add_u32(out, t->entries[i].name);
	}
	return buf_add(out, t->names, t->names_len);
}

/* A table, after what was wrong with the first source that failed. */
static int encode_table(struct table *t, int load_rc, const char *text, struct buf *out)
{
	int rc = buf_add_u32(out, (uint32_t)-load_rc);
	rc = rc ? rc : buf_add_u32(out, (uint32_t)strlen(text));
	rc = rc ? rc : buf_add(out, text, strlen(text));
	rc = rc ? rc : add_table(out, t);
	table_fini(t);
	return rc;
}

int parser_encode_table(const struct elf_image *img, const struct elf_image *debug,
			const char *name, struct buf *out)
{
	struct elf_image packed;
	const struct elf_image *all[3] = { img };
	struct err err = { 0 };
	struct table t;
	size_t n = 1;
	int unpacked = img->symtab.size ? -ENOENT : debugdata_open(&packed, img, name, &err),
	    first = 0;
	if (!unpacked)
		all[n++] = &packed;
	else if (unpacked != -ENOENT)
		first = unpacked;
	if (debug)
		all[n++] = debug;
	int rc = table_read(&t, all, n, name, first ? NULL : &err);
	rc = encode_table(&t, first ? first : rc, err.text, out);
	if (!unpacked)
		elf_image_fini(&packed);
	return rc;
}

/* Sorted, with every name inside the names. */
static bool is_whole(const struct table *t)
{
	uint32_t last = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (t->entries[i].addr < last || t->entries[i].name >= t->names_len)
			return false;
		last = t->entries[i].addr;
	}
	return !t->names_len || !t->names[t->names_len - 1];
}

/*
 * What follows a text in the answer. A table may have tens of MiB, so it is not copied. The answer
 * is moved to the beginning of its memory, where entries are aligned, and its numbers are put into
 * this machine's order.
 */
static int decode_table(struct table *t, struct cursor *c, struct buf *in)
{
	t->base = cursor_u64(c);
	t->n = cursor_u32(c);
	t->names_len = cursor_u32(c);
	if (c->bad || t->n > 2 * (size_t)TABLE_SYMBOLS_MAX ||
	    cursor_left(c) != 12 * t->n + t->names_len)
		return -EBADMSG;
	size_t len = cursor_left(c);
	memmove(in->data, c->p, len);
	void *fitted = realloc(in->data, len ? len : 1);
	t->memory = fitted ? fitted : in->data;
	*in = (struct buf)BUF_INIT;
	t->entries = t->memory;
	t->names = (char *)(t->entries + t->n);
	for (size_t i = 0; i < t->n; i++) {
		struct table_entry *e = &t->entries[i];
		*e = (struct table_entry){ le32toh(e->addr), le32toh(e->size), le32toh(e->name) };
	}
	return is_whole(t) ? table_make_reach(t) : -EBADMSG;
}

_Static_assert(sizeof(struct table_entry) == 12, "as in an answer");

int parser_decode_table(struct table *ret, struct buf *in, int *ret_load_rc, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct table t = { 0 };
	char why[sizeof(err->text)];
	uint32_t load = cursor_u32(&c);
	uint32_t len = cursor_u32(&c);
	const uint8_t *text = len < sizeof(why) ? cursor_bytes(&c, len) : NULL;
	if (text)
		snprintf(why, sizeof(why), "%.*s", (int)len, (const char *)text);
	int rc = !text || load > 4095 ? -EBADMSG : decode_table(&t, &c, in);
	if (rc) {
		table_fini(&t);
		return rc;
	}
	if (load && err)
		err_set(err, -(int)load, "%s", why);
	*ret_load_rc = -(int)load;
	*ret = t;
	return 0;
}

/* ---- requests ---- */

static void name_of(const struct sandbox_request *q, char *out, size_t cap)
{
	size_t len = q->len < cap ? q->len : cap - 1;
	if (len)
		memcpy(out, q->bytes, len);
	out[len] = '\0';
}

/* The first descriptor as an image; on failure out holds the text. */
static int open_first(const struct sandbox_request *q, struct elf_image *img, char *name,
		      size_t cap, struct buf *out)
{
	struct err err = { 0 };
	name_of(q, name, cap);
	if (!q->n_fds)
		return -EINVAL;
	int rc = elf_image_open(img, q->fds[0], name, &err);
	if (rc && buf_add(out, err.text, strlen(err.text)))
		out->len = 0;
	return rc;
}

int parser_op_open(const struct sandbox_request *q, struct buf *out)
{
	struct elf_image img;
	char name[256], magic[SELFMAG] = "";
	int rc = open_first(q, &img, name, sizeof(name), out);
	if (rc == -EBADMSG && pread(q->fds[0], magic, SELFMAG, 0) == SELFMAG &&
	    memcmp(magic, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (rc)
		return rc;
	rc = facts_encode(&img, out);
	elf_image_fini(&img);
	return rc;
}

int parser_op_load(const struct sandbox_request *q, struct buf *out)
{
	struct elf_image img, debug;
	char name[256];
	int rc = open_first(q, &img, name, sizeof(name), out);
	if (rc)
		return rc;
	bool has_debug = q->n_fds > 1 && !elf_image_open(&debug, q->fds[1], name, NULL);
	rc = parser_encode_table(&img, has_debug ? &debug : NULL, name, out);
	if (has_debug)
		elf_image_fini(&debug);
	elf_image_fini(&img);
	return rc;
}

int parser_op_crc(const struct sandbox_request *q, struct buf *out)
{
	struct elf_image img;
	char name[256];
	uint32_t crc;
	int rc = open_first(q, &img, name, sizeof(name), out);
	if (rc)
		return rc;
	rc = debuglink_crc(&img, &crc);
	elf_image_fini(&img);
	return rc ? rc : buf_add_u32(out, crc);
}

static int by_address(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

int parser_op_parts(const struct sandbox_request *q, struct buf *out)
{
	const struct sandbox_request file = { .fds = q->fds, .n_fds = q->n_fds };
	struct cursor c = { q->bytes, (const uint8_t *)q->bytes + q->len, 0 };
	struct table_parts p = { .n = q->len / sizeof(uint64_t) };
	struct elf_image img;
	struct err err = { 0 };
	struct table t;
	char name[1];
	if (p.n > TABLE_PARTS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < p.n; i++)
		p.vaddr[i] = cursor_u64(&c);
	qsort(p.vaddr, p.n, sizeof(p.vaddr[0]), by_address);
	int rc = open_first(&file, &img, name, sizeof(name), out);
	if (rc)
		return rc;
	rc = table_read_parts(&t, &img, &p, "", &err);
	rc = encode_table(&t, rc, err.text, out);
	elf_image_fini(&img);
	return rc;
}
