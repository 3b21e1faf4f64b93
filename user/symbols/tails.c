/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each byte of the code is looked at as though it were the opcode of a jump or a call, each word of
 * the file as an address. Where a jump seems to lead to a function without a name, the function
 * around it is decoded, to see whether it is one. What only looks like another reference costs a
 * name and never makes one.
 */
#include "symbols/tails.h"

#include "util/bisect.h"

#include <Zydis/Zydis.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16u << 20)
#define SPAN_MAX (64u << 20)	 /* bytes from the first function to the last one */
#define FUNCTIONS_MAX (1u << 17) /* of the table */
#define DECODE_MAX (8u << 20)	 /* bytes of code that are decoded */
#define FUNCTION_MAX (64u << 10) /* bytes of one function that are decoded */
#define AT_ONCE (64u << 10)	 /* bytes that are read */
#define PIECE_BEFORE 8		 /* bytes of the piece before: an opcode and its distance */
#define FROM_MAX 3		 /* functions that end in one */
#define JOINED_MAX 512		 /* bytes of their names together */
#define ROUNDS 4		 /* a function that was named so may end in another one */
#define GRAIN 4			 /* log2 of the bytes for which the filter has a bit */

/* What is known of a function without a name. */
struct tail {
	uint32_t from[FROM_MAX]; /* entries of functions that jump to it */
	uint8_t n;
	bool other; /* something else may refer to it, or more functions do */
};

struct search {
	struct table *t;
	const struct elf_image *img;
	struct tail *tails;  /* for each entry */
	uint8_t *filter;     /* a bit where a function without a name may begin */
	uint64_t span;	     /* from the table's base */
	uint8_t *code;	     /* FUNCTION_MAX: what is decoded */
	uint64_t left;	     /* of DECODE_MAX */
	uint8_t before[256]; /* enum before, of each byte */
	ZydisDecoder decoder;
};

static bool is_named(const struct table *t, const struct table_entry *e)
{
	return t->names[e->name] != 0;
}

/* ---- what begins where ---- */

static int make_filter(struct search *s)
{
	struct table *t = s->t;
	s->span = (uint64_t)t->entries[t->n - 1].addr + 1;
	if (s->span > SPAN_MAX)
		return -E2BIG;
	s->filter = calloc(1, (s->span >> GRAIN) / 8 + 1);
	if (!s->filter)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		if (!is_named(t, &t->entries[i]))
			s->filter[t->entries[i].addr >> GRAIN >> 3] |=
				(uint8_t)(1u << (t->entries[i].addr >> GRAIN & 7));
	return 0;
}

/* The entry of the function without a name that begins at addr (from the base); -1: none. */
static int64_t unnamed_at(const struct search *s, uint64_t addr)
{
	const struct table *t = s->t;
	if (addr >= s->span || !(s->filter[addr >> GRAIN >> 3] >> (addr >> GRAIN & 7) & 1))
		return -1;
	size_t at = bisect(i, 0, t->n, t->entries[i].addr < addr);
	return at < t->n && t->entries[at].addr == addr && !is_named(t, &t->entries[at])
		       ? (int64_t)at
		       : -1;
}

/* ---- references ---- */

enum place { NOTHING, JUMP, OTHER };

/*
 * Is what has a distance of `bytes` at vaddr a jump? Decode the function around it, from its
 * beginning. Any byte may look like a short jump.
 */
static enum place look(struct search *s, const struct table_entry *f, uint64_t vaddr, size_t bytes)
{
	uint64_t start = s->t->base + f->addr, len = vaddr + bytes - start, offset;
	ZydisDecodedInstruction in = { 0 };
	uint64_t at = 0;
	if (len > FUNCTION_MAX || len > s->left || elf_image_offset(s->img, start, &offset) ||
	    elf_image_read(s->img, offset, s->code, len))
		return OTHER;
	s->left -= len;
	for (; at < len; at += in.length)
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&s->decoder, NULL, s->code + at,
								len - at, &in)))
			return bytes == 1 && len - at < ZYDIS_MAX_INSTRUCTION_LENGTH ? NOTHING
										     : OTHER;
	bool jump = in.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    in.meta.category == ZYDIS_CATEGORY_COND_BR;
	return jump && in.raw.imm[0].size == 8 * bytes ? JUMP : bytes == 1 ? NOTHING : OTHER;
}

/* Note that the function `from` jumps to a function without a name. */
static void add_from(const struct search *s, struct tail *tail, uint32_t from)
{
	const struct table_entry *f = &s->t->entries[from];
	for (size_t i = 0; i < tail->n; i++)
		if (tail->from[i] == from)
			return;
	/* Without its size, what is behind a named function may be another one. */
	if (tail->n == FROM_MAX || (is_named(s->t, f) && f->size & TABLE_SIZE_GUESSED))
		tail->other = true;
	else
		tail->from[tail->n++] = from;
}

/* A distance of `bytes` at vaddr leads to the function `to`, from what looks like a jump. */
static void see_jump(struct search *s, uint64_t vaddr, size_t bytes, size_t to)
{
	struct tail *tail = &s->tails[to];
	int64_t from = tail->other ? -1 : table_find(s->t, vaddr - 1);
	if (from < 0) {
		tail->other = true;
		return;
	}
	enum place is = look(s, &s->t->entries[from], vaddr, bytes);
	if (is == OTHER)
		tail->other = true;
	else if (is == JUMP && (size_t)from != to) /* else a loop */
		add_from(s, tail, (uint32_t)from);
}

/* What may end with this byte: the opcode of a jump or a call, or a ModR/M byte that says RIP. */
enum before { NO_DISTANCE, NEAR, FAR, REFERENCE };

static void make_before(uint8_t before[256])
{
	for (unsigned i = 0; i < 256; i++)
		before[i] = i == 0xeb || (i & 0xf0) == 0x70   ? NEAR
			    : i == 0xe9 || (i & 0xf0) == 0x80 ? FAR
			    : i == 0xe8 || (i & 0xc7) == 0x05 ? REFERENCE
							      : NO_DISTANCE;
}

/* Look at distances in b[n], which is at vaddr, from b[from] on. */
static void see_code(struct search *s, uint64_t vaddr, const uint8_t *b, size_t from, size_t n)
{
	uint64_t at = vaddr - s->t->base;
	uint32_t word;
	int64_t to;
	for (size_t p = from; p < n; p++) {
		enum before is = s->before[b[p - 1]];
		if (is == NO_DISTANCE)
			continue;
		if (is == NEAR) {
			to = unnamed_at(s, at + p + 1 + (uint64_t)(int8_t)b[p]);
			if (to >= 0)
				see_jump(s, vaddr + p, 1, (size_t)to);
			continue;
		}
		if (n - p < sizeof(word))
			continue;
		memcpy(&word, b + p, sizeof(word));
		to = unnamed_at(s, at + p + sizeof(word) + (uint64_t)(int32_t)word);
		if (to < 0 || (is == FAR && b[p - 1] != 0xe9 && b[p - 2] != 0x0f))
			continue;
		if (is == FAR)
			see_jump(s, vaddr + p, sizeof(word), (size_t)to);
		else
			s->tails[to].other = true;
	}
}

/* Addresses of 32 bits, in a program that is linked to its place. */
static void see_absolute(struct search *s, const uint8_t *b, size_t n)
{
	uint32_t word;
	for (size_t p = 0; p + sizeof(word) <= n; p++) {
		memcpy(&word, b + p, sizeof(word));
		int64_t to = unnamed_at(s, word - s->t->base);
		if (to >= 0)
			s->tails[to].other = true;
	}
}

static int read_code(struct search *s, uint8_t *piece)
{
	for (size_t i = 0; i < s->img->n_text; i++) {
		const struct elf_text *text = &s->img->text[i];
		uint64_t offset, some;
		int rc = elf_image_offset(s->img, text->vaddr, &offset);
		for (uint64_t at = 0; !rc && at < text->size; at += AT_ONCE) {
			uint64_t ahead = at < PIECE_BEFORE ? at : PIECE_BEFORE;
			some = text->size - at < AT_ONCE ? text->size - at : AT_ONCE;
			memset(piece, 0, PIECE_BEFORE);
			rc = elf_image_read(s->img, offset + at - ahead,
					    piece + PIECE_BEFORE - ahead, some + ahead);
			if (!rc && s->img->type == ET_EXEC)
				see_absolute(s, piece, PIECE_BEFORE + some);
			if (!rc)
				see_code(s, text->vaddr + at - PIECE_BEFORE, piece,
					 at ? 2 : PIECE_BEFORE + 1, PIECE_BEFORE + some);
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* Addresses in data, and those that the dynamic linker is told to write there. */
static int read_words(struct search *s, uint64_t *piece)
{
	for (uint64_t at = 0; at < s->img->size; at += AT_ONCE) {
		uint64_t some = s->img->size - at < AT_ONCE ? s->img->size - at : AT_ONCE;
		int rc = elf_image_read(s->img, at, piece, some);
		if (rc)
			return rc;
		for (uint64_t i = 0; i < some / sizeof(*piece); i++) {
			int64_t to = unnamed_at(s, piece[i] - s->t->base);
			if (to >= 0)
				s->tails[to].other = true;
		}
	}
	return 0;
}

/* ---- names ---- */

/* Put the names of all that end in a function in `out`. Length; 0: not all have one yet. */
static size_t join(const struct table *t, const struct tail *tail, char out[JOINED_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < tail->n; i++) {
		const char *name = t->names + t->entries[tail->from[i]].name;
		bool mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
		int more = snprintf(out + n, JOINED_MAX - n, "%s%s", i ? "|" : "", name);
		if (!*name || (mangled && tail->n > 1) || more < 0 ||
		    (size_t)more >= JOINED_MAX - n)
			return 0;
		n += (size_t)more;
	}
	return n;
}

/* Give entry i this name. 0, -E2BIG or -ENOMEM. */
static int set_name(struct table *t, size_t i, const char *name, size_t len)
{
	if (t->names_len + len + 1 > TABLE_NAMES_MAX)
		return -E2BIG;
	char *names = realloc(t->names, t->names_len + len + 1);
	if (!names)
		return -ENOMEM;
	memcpy(names + t->names_len, name, len + 1);
	t->names = names;
	t->entries[i].name = (uint32_t)t->names_len;
	t->names_len += len + 1;
	return 0;
}

/* Name what can be named now. */
static int name_some(struct search *s, size_t *ret_n)
{
	struct table *t = s->t;
	char name[JOINED_MAX];
	int rc = 0;
	*ret_n = 0;
	for (size_t i = 0; !rc && i < t->n; i++) {
		struct tail *tail = &s->tails[i];
		size_t len = tail->other ? 0 : join(t, tail, name);
		if (!len)
			continue;
		if (tail->n == 1)
			t->entries[i].name = t->entries[tail->from[0]].name;
		else
			rc = set_name(t, i, name, len);
		tail->n = 0;
		++*ret_n;
	}
	return rc;
}

static int search(struct search *s)
{
	uint64_t *piece = malloc(PIECE_BEFORE + AT_ONCE);
	int rc = piece ? read_words(s, piece) : -ENOMEM;
	size_t n = 1;
	rc = rc ? rc : read_code(s, (uint8_t *)piece);
	for (unsigned i = 0; !rc && n && i < ROUNDS; i++)
		rc = name_some(s, &n);
	free(piece);
	return rc;
}

/* Sections may overlap, in a file that lies: each byte of the file is read as code once at most. */
static bool is_wanted(const struct table *t, const struct elf_image *img)
{
	uint64_t code = 0;
	for (size_t i = 0; i < img->n_text && code <= img->size; i++)
		code += img->text[i].size;
	return img->machine == EM_X86_64 && img->size <= FILE_MAX && code <= img->size && t->n &&
	       t->n <= FUNCTIONS_MAX;
}

int tails_name(struct table *t, const struct elf_image *img)
{
	struct search s = { .t = t, .img = img, .left = DECODE_MAX };
	if (!is_wanted(t, img))
		return 0;
	make_before(s.before);
	int rc = make_filter(&s);
	s.tails = rc ? NULL : calloc(t->n, sizeof(*s.tails));
	s.code = malloc(FUNCTION_MAX);
	if (!rc && (!s.tails || !s.code))
		rc = -ENOMEM;
	ZydisDecoderInit(&s.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	rc = rc ? rc : search(&s);
	free(s.filter);
	free(s.tails);
	free(s.code);
	return rc == -E2BIG ? 0 : rc;
}
