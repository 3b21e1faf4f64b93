/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .eh_frame and .debug_frame: the entries of both are collected and sorted by address, then run in
 * that order. Where two speak of the same code the one that begins first counts, and .eh_frame
 * before .debug_frame.
 */
#include "unwind/code.h"
#include "unwind/go.h"
#include "unwind/program.h"
#include "unwind/table.h"

#include "elf/section.h"
#include "util/array.h"
#include "util/bisect.h"
#include "util/radix.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FDES_MAX (2u * 1024 * 1024)
#define CIES_MAX 65536u
#define N_SECTIONS 2
#define START_BYTES 64 /* what is run where a file is entered; glibc's dynamic linker: 61 */

/* A frame description entry; addresses relative to the beginning of the text. */
struct fde {
	uint32_t begin, end;
	uint32_t code; /* in its section */
	uint32_t code_len;
	uint32_t cie : 31;
	uint32_t section : 1;
};

struct compiler {
	const struct arch *arch;
	struct elf_section section[N_SECTIONS];
	struct fde *fdes;
	size_t n_fdes, cap_fdes;
	uint32_t *order; /* [n_fdes]: indices by address; NULL: they were read in that order */
	struct cie *cies;
	size_t n_cies, cap_cies;
	size_t first_cie; /* of the section that is read */
	struct table_builder out;
	uint64_t start; /* where the file is entered; 0: dealt with */
	struct go_code go;
	struct code code; /* without entries */
	uint64_t seen;	  /* up to here entries, or what stands for them, were added */
	uint64_t refused;
};

/* One entry of a section, behind its length. */
struct entry {
	size_t at;
	struct cursor body; /* behind the id */
	uint64_t id;	    /* the CIE's place is counted from here in .eh_frame */
	size_t id_at;
	bool is_cie;
};

static struct pointer_base base_of(const struct elf_section *s)
{
	return (struct pointer_base){ s->bytes, s->vaddr };
}

/* 1: an entry; 0: the end; -EBADMSG. */
static int next_entry(const struct elf_section *s, bool debug, struct cursor *c, struct entry *ret)
{
	ret->at = (size_t)(c->p - s->bytes);
	if (cursor_left(c) < 4)
		return 0;
	uint64_t len = cursor_u32(c);
	bool wide = len == 0xffffffffu;
	if (wide)
		len = cursor_u64(c);
	if (!len && !debug)
		return 0;
	const uint8_t *body = len <= SIZE_MAX ? cursor_bytes(c, (size_t)len) : NULL;
	if (!body)
		return -EBADMSG;
	ret->body = (struct cursor){ body, body + len, 0 };
	ret->id_at = (size_t)(body - s->bytes);
	ret->id = wide ? cursor_u64(&ret->body) : cursor_u32(&ret->body);
	ret->is_cie = debug ? ret->id == (wide ? UINT64_MAX : 0xffffffffu) : ret->id == 0;
	return 1;
}

/* ---- common entries ---- */

/* The letters after 'z': what the augmentation data holds. */
static bool read_augmentation(struct cie *cie, const char *letters, struct cursor *c,
			      const struct pointer_base *base)
{
	for (; *letters; letters++) {
		uint8_t encoding;
		switch (*letters) {
		case 'R':
			cie->pointer = cursor_u8(c);
			break;
		case 'L':
			cursor_u8(c);
			break;
		case 'P':
			encoding = cursor_u8(c);
			pointer_read(c, encoding & 0x0f, base); /* only to be passed over */
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B': /* aarch64: keys of signed addresses */
		case 'G':
			break;
		default:
			return false;
		}
	}
	return !c->bad;
}

static int parse_cie(struct cie *cie, struct cursor c, const struct pointer_base *base)
{
	uint8_t version = cursor_u8(&c);
	const char *letters = (const char *)c.p;
	while (cursor_u8(&c)) /* a cursor gives 0 at its end */
		;
	if (c.bad || (version != 1 && version != 3 && version != 4))
		return -EBADMSG;
	/* size of addresses, of segments */
	if (version == 4 && (cursor_u8(&c) != 8 || cursor_u8(&c)))
		return -EBADMSG;
	cie->code_align = cursor_varint(&c);
	cie->data_align = signed_read(&c);
	cie->ra_reg = version == 1 ? cursor_u8(&c) : (uint32_t)cursor_varint(&c);
	bool good = cie->ra_reg == cie->arch->ra ||
		    (cie->arch->ra_in_reg && cie->ra_reg < cie->arch->n);
	if (c.bad || !good || cie->code_align > UINT32_MAX)
		return -EBADMSG;
	if (*letters == 'z') {
		uint64_t len = cursor_varint(&c);
		const uint8_t *data = len <= SIZE_MAX ? cursor_bytes(&c, (size_t)len) : NULL;
		struct cursor d = { data, data ? data + len : NULL, 0 };
		cie->has_data = true;
		if (!data || !read_augmentation(cie, letters + 1, &d, base))
			return -EBADMSG;
	} else if (*letters) {
		return -EBADMSG;
	}
	return program_initial(cie, c, base);
}

static int add_cie(struct compiler *k, const struct elf_section *s, const struct entry *e)
{
	struct pointer_base base = base_of(s);
	if (k->n_cies >= CIES_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(k->cies, k->cap_cies, k->n_cies + 1);
	if (rc)
		return rc;
	struct cie *cie = &k->cies[k->n_cies++];
	*cie = (struct cie){ .arch = k->arch, .at = e->at };
	cie->good = !parse_cie(cie, e->body, &base);
	return 0;
}

/* The common entry at this place of the section; entries come after theirs. */
static struct cie *find_cie(struct compiler *k, size_t at)
{
	size_t lo = bisect(i, k->first_cie, k->n_cies, k->cies[i].at < at);
	return lo < k->n_cies && k->cies[lo].at == at && k->cies[lo].good ? &k->cies[lo] : NULL;
}

/* ---- entries ---- */

/* 0: taken or of no interest; -EBADMSG: not understood. */
static int add_fde(struct compiler *k, const struct elf_section *s, const struct entry *e,
		   bool debug)
{
	uint64_t first = k->out.first, end = k->out.end;
	struct pointer_base base = base_of(s);
	struct cursor c = e->body;
	if (e->id > s->size || (!debug && e->id > e->id_at))
		return -EBADMSG;
	struct cie *cie = find_cie(k, debug ? (size_t)e->id : e->id_at - (size_t)e->id);
	if (!cie)
		return -EBADMSG;
	uint64_t begin = pointer_read(&c, cie->pointer, &base);
	uint64_t len = pointer_read(&c, cie->pointer & 0x0f, &base);
	if (cie->has_data)
		cursor_bytes(&c, (size_t)cursor_varint(&c));
	if (c.bad)
		return -EBADMSG;
	if (begin < first || begin >= end || !len)
		return 0; /* thrown away by the linker */
	if (k->n_fdes >= FDES_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(k->fdes, k->cap_fdes, k->n_fdes + 1);
	if (rc)
		return rc;
	k->fdes[k->n_fdes++] = (struct fde){
		.begin = (uint32_t)(begin - first),
		.end = (uint32_t)(len > end - begin ? end - first : begin - first + len),
		.code = (uint32_t)(c.p - s->bytes),
		.code_len = (uint32_t)cursor_left(&c),
		.cie = (uint32_t)(cie - k->cies) & 0x7fffffff,
		.section = debug,
	};
	return 0;
}

static int read_entries(struct compiler *k, bool debug)
{
	const struct elf_section *s = &k->section[debug];
	struct cursor c = { s->bytes, s->bytes + s->size, 0 };
	struct entry e;
	int rc;
	k->first_cie = k->n_cies;
	while ((rc = next_entry(s, debug, &c, &e)) > 0) {
		if (e.body.bad)
			rc = -EBADMSG;
		else
			rc = e.is_cie ? add_cie(k, s, &e) : add_fde(k, s, &e, debug);
		if (rc == -EBADMSG)
			k->refused++;
		else if (rc)
			return rc;
	}
	if (rc)
		k->refused++; /* a length that lies: what stood before it is good */
	return 0;
}

static bool is_sorted(const struct compiler *k)
{
	for (size_t i = 1; i < k->n_fdes; i++)
		if (k->fdes[i - 1].begin > k->fdes[i].begin)
			return false;
	return true;
}

/* Order the entries by address; those of one address keep the order in which they were read. */
static int sort_entries(struct compiler *k)
{
	if (is_sorted(k))
		return 0;
	uint32_t *begins = malloc(k->n_fdes * sizeof(*begins));
	k->order = malloc(k->n_fdes * sizeof(*k->order));
	int rc = begins && k->order ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < k->n_fdes; i++) {
		begins[i] = k->fdes[i].begin;
		k->order[i] = i;
	}
	rc = rc ? rc : radix_sort(k->order, k->n_fdes, begins);
	free(begins);
	return rc;
}

static int on_piece(void *ctx, uint64_t start, uint64_t end, const struct unwind_rule *rule)
{
	return table_add(ctx, start, end, rule);
}

/*
 * Where a program, or the dynamic linker, begins nobody has called it: its code is the outermost
 * frame, also where hand-written code has no entry that says so. Only what comes before the next
 * entry, and not more than such code takes.
 */
static int add_start(struct compiler *k, uint64_t next)
{
	const struct unwind_rule root = { .cfa = UNWIND_CFA_REG,
					  .reg = (uint8_t)k->arch->sp,
					  .ra = UNWIND_RA_ROOT };
	uint64_t start = k->start, end = start + START_BYTES < next ? start + START_BYTES : next;
	k->start = 0;
	return end > start ? table_add(&k->out, start, end, &root) : 0;
}

/*
 * What stands before the next entry and has none. Where the file is entered is dealt with by
 * add_start.
 */
static int add_gap(struct compiler *k, uint64_t until)
{
	uint64_t from = k->seen;
	bool start = k->start && k->start >= from && k->start < until;
	if (k->go.n || start || until < from || until - from <= k->arch->padding)
		return 0;
	return code_add(&k->code, &k->out, from, until);
}

static int run(struct compiler *k)
{
	for (size_t i = 0; i < k->n_fdes; i++) {
		const struct fde *f = &k->fdes[k->order ? k->order[i] : i];
		int gap = add_gap(k, k->out.first + f->begin);
		if (gap)
			return gap;
		if (k->out.first + f->end > k->seen)
			k->seen = k->out.first + f->end;
		int go = go_code_add(&k->go, &k->out, k->out.first + f->begin);
		if (go)
			return go;
		if (k->start && k->out.first + f->begin > k->start) {
			int rc = add_start(k, k->out.first + f->begin);
			if (rc)
				return rc;
		}
		if (k->start && k->out.first + f->end > k->start)
			k->start = 0; /* it has an entry */
		const struct elf_section *s = &k->section[f->section];
		struct pointer_base base = base_of(s);
		struct cursor code = { s->bytes + f->code, s->bytes + f->code + f->code_len, 0 };
		int rc = program_run(&k->cies[f->cie], code, &base, k->out.first + f->begin,
				     k->out.first + f->end, on_piece, &k->out);
		if (rc == -EBADMSG)
			k->refused++;
		else if (rc)
			return rc;
	}
	int rc = go_code_add(&k->go, &k->out, UINT64_MAX);
	rc = rc ? rc : add_gap(k, k->out.end);
	return rc ? rc : k->start ? add_start(k, k->out.end) : 0;
}

/* Where the file is entered, 0 when that is nowhere in its text. */
static uint64_t read_start(const struct elf_image *img, const struct table_builder *out)
{
	uint64_t at = 0;
	if (elf_image_read(img, offsetof(Elf64_Ehdr, e_entry), &at, sizeof(at)))
		return 0;
	return at >= out->first && at < out->end ? at : 0;
}

static int read_sections(struct compiler *k, const struct elf_image *img)
{
	static const char *const names[N_SECTIONS] = { ".eh_frame", ".debug_frame" };
	int found = 0;
	for (unsigned i = 0; i < N_SECTIONS; i++) {
		int rc = elf_section_read(img, names[i], UNWIND_SECTION_MAX, &k->section[i]);
		if (rc == -ENOENT)
			continue;
		rc = rc ? rc : read_entries(k, i);
		if (rc)
			return rc;
		found = 1;
	}
	return found ? 0 : -ENOENT;
}

int unwind_compile(struct unwind_table **ret, const struct elf_image *img, const char *name,
		   struct err *err)
{
	struct compiler k = { .arch = arch_of(img->machine) };
	struct unwind_table *t = NULL;
	if (!k.arch)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s: unwind rules are made for x86-64 and arm64 alone", name);
	int rc = table_begin(&k.out, img, k.arch->padding);
	if (rc)
		return err_sys(err, rc, "%s: its text", name);
	k.start = read_start(img, &k.out);
	rc = go_code_read(&k.go, img, &k.out, (uint32_t)k.arch->sp);
	rc = rc ? rc : code_read(&k.code, img);
	k.seen = k.out.first;
	rc = rc ? rc : read_sections(&k, img);
	if (rc == -ENOENT && k.go.n)
		rc = 0;
	rc = rc ? rc : sort_entries(&k);
	rc = rc ? rc : run(&k);
	if (rc)
		table_abort(&k.out);
	else
		rc = table_end(&k.out, &t);
	if (rc) {
		err_sys(err, rc, "%s: its call frame information", name);
	} else {
		t->fdes = k.n_fdes;
		t->refused = k.refused;
		*ret = t;
	}
	elf_section_fini(&k.section[0]);
	elf_section_fini(&k.section[1]);
	go_code_fini(&k.go);
	code_fini(&k.code);
	free(k.order);
	free(k.fdes);
	free(k.cies);
	return rc;
}
