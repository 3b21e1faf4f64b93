/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: symbols are streamed from the file, candidates of 16 bytes kept. They are sorted by name
 * offset, so that one forward pass over the strings fetches the names and only these. Then they are
 * sorted by address, aliases are resolved, and entries written. Peak memory is a few times the
 * result, whatever the size of the file's tables.
 */
#include "symbols/table.h"

#include "elf/headers.h"
#include "symbols/gopclntab.h"
#include "symbols/tails.h"
#include "symbols/unnamed.h"
#include "util/buf.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_AT_ONCE 2048u
#define STRINGS_AT_ONCE (128u * 1024)
#define NO_NAME UINT32_MAX

/*
 * rank orders symbols of one address, the least is the best. Function before bare label, .symtab
 * before .dynsym, global before weak before local, no leading underscore before some, short before
 * long.
 */
#define RANK_UNNAMED (1u << 21 | RANK_LABEL)
#define RANK_LABEL (1u << 20)
#define RANK_DYNSYM (1u << 19)
#define RANK_WEAK (1u << 17)
#define RANK_LOCAL (2u << 17)
#define RANK_UNDERSCORE (1u << 16)

struct candidate {
	uint32_t addr;
	uint32_t size;
	uint32_t name; /* offset in the file's strings, later in names */
	uint32_t rank;
};

struct reader {
	const struct elf_image *img; /* whose symbols are being read */
	const struct elf_image *const *all;
	size_t n_all;
	uint64_t base;
	struct candidate *v;
	size_t n;
	size_t cap;
	struct buf names;
	const struct table_parts *parts; /* NULL: all functions */
	bool stripped;			 /* of all names but .dynsym's */
};

/* ---- sorting ---- */

enum sort_key { BY_ADDR, BY_NAME };

static uint32_t key_of(const struct candidate *c, enum sort_key key)
{
	return key == BY_ADDR ? c->addr : c->name;
}

static int is_sorted(const struct candidate *v, size_t n, enum sort_key key)
{
	for (size_t i = 1; i < n; i++)
		if (key_of(&v[i], key) < key_of(&v[i - 1], key))
			return 0;
	return 1;
}

/* One stable pass of a radix sort over 11 bits. */
static void sort_pass(const struct candidate *from, struct candidate *to, size_t n,
		      enum sort_key key, unsigned shift)
{
	uint32_t at[2048] = { 0 };
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i++)
		at[key_of(&from[i], key) >> shift & 2047]++;
	for (size_t i = 0; i < 2048; i++) {
		uint32_t count = at[i];
		at[i] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		to[at[key_of(&from[i], key) >> shift & 2047]++] = from[i];
}

/* Stable, in linear time whatever the file holds. */
static int sort(struct candidate *v, size_t n, enum sort_key key)
{
	if (is_sorted(v, n, key))
		return 0;
	struct candidate *tmp = malloc(n * sizeof(*tmp));
	if (!tmp)
		return -ENOMEM;
	sort_pass(v, tmp, n, key, 0);
	sort_pass(tmp, v, n, key, 11);
	sort_pass(v, tmp, n, key, 22);
	memcpy(v, tmp, n * sizeof(*v));
	free(tmp);
	return 0;
}

/* ---- symbols -> candidates ---- */

static int add_candidate(struct reader *r, struct candidate c)
{
	if (r->n == TABLE_SYMBOLS_MAX)
		return -E2BIG;
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap + r->cap / 2 : 256;
		struct candidate *v = realloc(r->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	r->v[r->n++] = c;
	return 0;
}

/* 0 and *ret filled, or 1: not something that holds code. */
static int judge(const struct reader *r, const Elf64_Sym *sym, struct candidate *ret)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	unsigned bind = ELF64_ST_BIND(sym->st_info);
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 1;
	if (!sym->st_name || sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE)
		return 1;
	const struct elf_text *text = elf_image_text(r->img, sym->st_shndx);
	if (!text || sym->st_value < text->vaddr || sym->st_value - text->vaddr >= text->size)
		return 1;
	uint64_t left = text->size - (sym->st_value - text->vaddr);
	uint64_t size = sym->st_size < left ? sym->st_size : left;
	uint64_t addr = sym->st_value - r->base;
	if (addr >= UINT32_MAX)
		/* Code further than 4 GiB from the first: no linker makes such a file by default */
		return 1;
	if (size > INT32_MAX)
		size = INT32_MAX;
	*ret = (struct candidate){ .addr = (uint32_t)addr,
				   .size = (uint32_t)size,
				   .name = sym->st_name };
	ret->rank = (type == STT_NOTYPE ? RANK_LABEL : 0) | (bind == STB_WEAK	 ? RANK_WEAK
							     : bind == STB_LOCAL ? RANK_LOCAL
										 : 0);
	return 0;
}

static int scan(struct reader *r, const struct elf_symbols *s, uint32_t rank)
{
	uint64_t total = s->size / elf_symbol_size(r->img);
	int rc = total > TABLE_SCAN_MAX ? -E2BIG : 0;
	Elf64_Sym *sym = rc ? NULL : malloc(SYMBOLS_AT_ONCE * sizeof(*sym));
	if (!rc && !sym)
		rc = -ENOMEM;
	for (uint64_t at = 0; !rc && at < total; at += SYMBOLS_AT_ONCE) {
		size_t n = total - at < SYMBOLS_AT_ONCE ? (size_t)(total - at) : SYMBOLS_AT_ONCE;
		rc = elf_read_symbols(r->img, s, at, n, sym);
		for (size_t i = 0; !rc && i < n; i++) {
			struct candidate c;
			if (judge(r, &sym[i], &c))
				continue;
			c.rank |= rank;
			rc = add_candidate(r, c);
		}
	}
	free(sym);
	return rc;
}

/*
 * Drop what stands behind `before` at an address where .symtab, sorted before it, has a function:
 * its name wins.
 */
static int drop_known(struct reader *r, size_t before)
{
	size_t kept = before, at = 0;
	uint32_t addr = UINT32_MAX; /* no candidate's, see judge() */
	int known = 0;
	int rc = sort(r->v + before, r->n - before, BY_ADDR);
	for (size_t i = before; !rc && i < r->n; i++) {
		if (r->v[i].addr != addr) {
			addr = r->v[i].addr;
			for (known = 0; at < before && r->v[at].addr <= addr; at++)
				known |= r->v[at].addr == addr && !(r->v[at].rank & RANK_LABEL);
		}
		if (!known)
			r->v[kept++] = r->v[i];
	}
	r->n = rc ? before : kept;
	return rc;
}

/* ---- names ---- */

/*
 * Assembler labels that mark data or code inside functions ($x, $d.1), or that a compiler made up.
 */
static int is_marker(const char *name, uint32_t rank)
{
	return rank & RANK_LABEL && (name[0] == '$' || !strncmp(name, ".L", 2));
}

static void name_candidate(struct candidate *c, const char *name, uint32_t len, uint32_t at)
{
	if (!len || is_marker(name, c->rank)) {
		c->name = NO_NAME;
		return;
	}
	c->name = at;
	c->rank |= (name[0] == '_' ? RANK_UNDERSCORE : 0) | len;
}

struct window {
	char *bytes;
	uint64_t offset; /* in the strings */
	size_t len;
};

/*
 * Have the TABLE_NAME_MAX bytes from offset, or what the strings still have, in the window. Offsets
 * only grow.
 */
static int move_window(const struct reader *r, const struct elf_symbols *s, struct window *w,
		       uint64_t offset)
{
	uint64_t need = s->strings_size - offset < TABLE_NAME_MAX ? s->strings_size - offset
								  : TABLE_NAME_MAX;
	if (offset + need <= w->offset + w->len)
		return 0;
	uint64_t left = s->strings_size - offset;
	w->offset = offset;
	w->len = left < STRINGS_AT_ONCE ? (size_t)left : STRINGS_AT_ONCE;
	return elf_image_read(r->img, s->strings_offset + offset, w->bytes, w->len);
}

/* Fetch the names of v, sorted by name: forward over the strings, each byte once. */
static int fetch_names(struct reader *r, const struct elf_symbols *s, struct candidate *v, size_t n,
		       struct window *w)
{
	uint64_t last = 0, last_end = 0; /* of the name copied last, in the file */
	uint32_t copied = 0;		 /* its place in names */
	for (size_t i = 0; i < n; i++) {
		uint64_t at = v[i].name;
		if (at >= s->strings_size)
			return -EBADMSG;
		int rc = move_window(r, s, w, at);
		if (rc)
			return rc;
		const char *name = w->bytes + (at - w->offset);
		if (at < last_end) { /* the tail of another name, or the same */
			name_candidate(&v[i], name, (uint32_t)(last_end - at - 1),
				       copied + (uint32_t)(at - last));
			continue;
		}
		size_t room = w->len - (size_t)(at - w->offset);
		size_t len = strnlen(name, room < TABLE_NAME_MAX ? room : TABLE_NAME_MAX);
		if (len == TABLE_NAME_MAX || len == room) {
			/* Too long, or the strings end without a NUL */
			v[i].name = NO_NAME;
			continue;
		}
		if (r->names.len + len + 1 > TABLE_NAMES_MAX)
			return -E2BIG;
		copied = (uint32_t)r->names.len;
		last = at;
		last_end = at + len + 1;
		rc = buf_add(&r->names, name, len + 1);
		if (rc)
			return rc;
		name_candidate(&v[i], name, (uint32_t)len, copied);
	}
	return 0;
}

/* ---- one table ---- */

/*
 * Candidates from `before` on, with names in s: what an earlier source knows goes, the rest is
 * named and sorted in.
 */
static int take_candidates(struct reader *r, const struct elf_symbols *s, size_t before)
{
	int rc = before && r->n > before ? drop_known(r, before) : 0;
	size_t n = r->n - before;
	if (rc || !n) {
		r->n = before;
		return rc;
	}
	struct candidate *v = r->v + before;
	struct window w = { .bytes = malloc(STRINGS_AT_ONCE) };
	rc = w.bytes ? sort(v, n, BY_NAME) : -ENOMEM;
	if (!rc)
		rc = fetch_names(r, s, v, n, &w);
	free(w.bytes);
	size_t kept = before;
	for (size_t i = before; !rc && i < r->n; i++)
		if (r->v[i].name != NO_NAME)
			r->v[kept++] = r->v[i];
	r->n = rc ? before : kept;
	return !rc && r->n ? sort(r->v, r->n, BY_ADDR) : rc;
}

static int add_symbols(struct reader *r, const struct elf_image *img, const struct elf_symbols *s,
		       uint32_t rank)
{
	size_t before = r->n;
	if (!s->size)
		return 0;
	r->img = img;
	int rc = scan(r, s, rank);
	if (rc) {
		r->n = before;
		return rc;
	}
	return take_candidates(r, s, before);
}

static int add_go_function(void *ctx, const struct go_function *f)
{
	struct reader *r = ctx;
	if (f->vaddr < r->base || f->vaddr - r->base >= UINT32_MAX)
		return 0;
	return add_candidate(r,
			     (struct candidate){
				     .addr = (uint32_t)(f->vaddr - r->base),
				     .size = (uint32_t)(f->size < INT32_MAX ? f->size : INT32_MAX),
				     .name = f->name,
			     });
}

static int add_go(struct reader *r, const struct elf_image *img)
{
	struct go_names names = { 0 };
	size_t before = r->n;
	r->img = img;
	int rc = r->parts ? gopclntab_walk_at(img, r->parts->vaddr, r->parts->n, &names,
					      add_go_function, r)
			  : gopclntab_walk(img, TABLE_SYMBOLS_MAX, &names, add_go_function, r);
	if (rc) {
		r->n = before;
		return rc == -ENOENT ? 0 : rc;
	}
	struct elf_symbols s = { .strings_offset = names.offset, .strings_size = names.size };
	return take_candidates(r, &s, before);
}

/* The section around vaddr, of overlapping ones that which ends last. */
static const struct elf_text *text_around(const struct reader *r, uint64_t vaddr)
{
	const struct elf_text *found = NULL;
	for (size_t f = 0; f < r->n_all; f++) {
		for (size_t i = 0; i < r->all[f]->n_text; i++) {
			const struct elf_text *t = &r->all[f]->text[i];
			if (vaddr < t->vaddr || vaddr - t->vaddr >= t->size)
				continue;
			if (!found || t->vaddr + t->size > found->vaddr + found->size)
				found = t;
		}
	}
	return found;
}

static int add_unnamed_start(void *ctx, uint64_t vaddr)
{
	struct reader *r = ctx;
	uint64_t addr = vaddr - r->base;
	if (addr >= UINT32_MAX || !text_around(r, vaddr))
		return 0;
	return add_candidate(r, (struct candidate){ .addr = (uint32_t)addr,
						    .name = (uint32_t)r->names.len,
						    .rank = RANK_UNNAMED });
}

/* Add starts of functions without a name, so that their samples are one function's. */
static int add_unnamed(struct reader *r, const struct elf_image *img)
{
	size_t before = r->n;
	int rc = unnamed_walk(img, TABLE_SYMBOLS_MAX - before, add_unnamed_start, r);
	rc = rc || r->n == before ? rc : buf_add_u8(&r->names, 0);
	rc = rc || r->n == before ? rc : sort(r->v, r->n, BY_ADDR);
	if (rc)
		r->n = before;
	return rc == -ENOENT ? 0 : rc;
}

/* ---- candidates -> entries ---- */

/* Keep the best of each address, and before it the longest other one when that reaches further. */
static void drop_aliases(struct reader *r)
{
	size_t kept = 0;
	for (size_t i = 0, end; i < r->n; i = end) {
		struct candidate best = r->v[i], longest = r->v[i];
		for (end = i + 1; end < r->n && r->v[end].addr == best.addr; end++) {
			const struct candidate *c = &r->v[end];
			if (c->rank < best.rank)
				best = *c;
			if (c->size > longest.size ||
			    (c->size == longest.size && c->rank < longest.rank))
				longest = *c;
		}
		if (!best.size)
			best.size = longest.size;
		if (longest.size > best.size)
			r->v[kept++] = longest;
		r->v[kept++] = best;
	}
	r->n = kept;
}

/* Labels inside functions of known size name nothing that the function does not. */
static void drop_covered_labels(struct reader *r)
{
	uint64_t covered = 0;
	size_t kept = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct candidate *c = &r->v[i];
		if (c->rank & RANK_LABEL && c->addr < covered)
			continue;
		if (!(c->rank & RANK_LABEL) && (uint64_t)c->addr + c->size > covered)
			covered = (uint64_t)c->addr + c->size;
		r->v[kept++] = *c;
	}
	r->n = kept;
}

/* A symbol without a size reaches to the next or to the end of its section. */
static void guess_sizes(struct reader *r)
{
	uint64_t next = UINT64_MAX; /* the first address behind that is not this one */
	/* symbols come in order, the last one first: each section is searched for once */
	const struct elf_text *text = NULL;
	for (size_t i = r->n; i-- > 0;) {
		struct candidate *c = &r->v[i];
		uint64_t addr = r->base + c->addr;
		if (i + 1 < r->n && r->v[i + 1].addr != c->addr)
			next = r->base + r->v[i + 1].addr;
		if (c->size)
			continue;
		if (!text || addr < text->vaddr)
			text = text_around(r, addr);
		uint64_t end = text->vaddr + text->size; /* judge() saw that it is in one */
		uint64_t size = (end < next ? end : next) - addr;
		c->size = (uint32_t)(size < INT32_MAX ? size : INT32_MAX) | TABLE_SIZE_GUESSED;
	}
}

/* Names of dropped aliases leave holes: close them. v is sorted by address and is spoiled. */
static int pack_names(struct table *t, struct reader *r)
{
	char *names = (char *)r->names.data;
	size_t to = 0, from_end = 0;
	for (size_t i = 0; i < r->n; i++)
		r->v[i].rank = (uint32_t)i;
	int rc = r->n ? sort(r->v, r->n, BY_NAME) : 0;
	if (rc)
		return rc;
	for (size_t i = 0; i < r->n; i++) {
		size_t at = r->v[i].name;
		if (at >= from_end) {
			size_t len = strlen(names + at) + 1;
			memmove(names + to, names + at, len);
			to += len;
			from_end = at + len;
		}
		/*
		 * What was moved last ended at from_end and ends at to now: a tail keeps its
		 * distance to the end.
		 */
		t->entries[r->v[i].rank].name = (uint32_t)(to - (from_end - at));
	}
	char *fit = realloc(r->names.data, to ? to : 1);
	t->names = fit ? fit : names;
	t->names_len = to;
	r->names = (struct buf)BUF_INIT;
	return 0;
}

static int make_table(struct table *t, struct reader *r)
{
	drop_aliases(r);
	drop_covered_labels(r);
	guess_sizes(r);
	struct table_entry *entries = malloc((r->n ? r->n : 1) * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++)
		entries[i] = (struct table_entry){ r->v[i].addr, r->v[i].size, r->v[i].name };
	t->entries = entries;
	int rc = pack_names(t, r);
	if (rc)
		return rc;
	t->base = r->base;
	t->n = r->n;
	return table_make_reach(t);
}

/* Note the first failure; the other sources go on. */
static void note(int *first, int rc, const char *what, const char *path, struct err *err)
{
	if (rc && !*first)
		*first = err_sys(err, rc, "cannot use the %s of %s", what, path);
}

static int add_sources(struct reader *r, const char *path, struct err *err)
{
	int first = 0;
	for (size_t i = 0; i < r->n_all; i++)
		note(&first, add_symbols(r, r->all[i], &r->all[i]->symtab, 0), ".symtab", path,
		     err);
	if (!r->n)
		note(&first, add_go(r, r->all[0]), ".gopclntab", path, err);
	r->stripped = !r->n && !r->parts;
	note(&first, add_symbols(r, r->all[0], &r->all[0]->dynsym, RANK_DYNSYM), ".dynsym", path,
	     err);
	if (r->stripped)
		note(&first, add_unnamed(r, r->all[0]), ".eh_frame_hdr", path, err);
	return first;
}

static int read_images(struct table *ret, struct reader *r, const char *path, struct err *err)
{
	struct table t = { 0 };
	*ret = t;
	r->base = UINT64_MAX;
	for (size_t f = 0; f < r->n_all; f++)
		for (size_t i = 0; i < r->all[f]->n_text; i++)
			if (r->all[f]->text[i].vaddr < r->base)
				r->base = r->all[f]->text[i].vaddr;
	int first = add_sources(r, path, err);
	int rc = make_table(&t, r);
	if (rc) {
		err_sys(err, rc, "cannot build the symbol table of %s", path);
		table_fini(&t);
	} else {
		if (r->stripped)
			note(&first, tails_name(&t, r->all[0]), "code", path, err);
		*ret = t;
	}
	free(r->v);
	buf_fini(&r->names);
	return rc ? rc : first;
}

int table_read(struct table *ret, const struct elf_image *const *images, size_t n, const char *path,
	       struct err *err)
{
	struct reader r = { .all = images, .n_all = n, .names = BUF_INIT };
	return read_images(ret, &r, path, err);
}

int table_read_parts(struct table *ret, const struct elf_image *img,
		     const struct table_parts *parts, const char *path, struct err *err)
{
	struct reader r = { .all = &img, .n_all = 1, .names = BUF_INIT, .parts = parts };
	return read_images(ret, &r, path, err);
}

void table_fini(struct table *t)
{
	if (!t->memory) {
		free(t->entries);
		free(t->names);
	}
	free(t->reach);
	free(t->memory);
	*t = (struct table){ 0 };
}
