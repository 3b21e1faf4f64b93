/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/code.h"

#include "elf/headers.h"
#include "elf/section.h"
#include "unwind/frame.h"
#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>
#include <stdlib.h>

#define ENTRIES_MAX (1u << 20)
#define CODE_MAX (16u << 20) /* bytes of one file that are looked at */
/*
 * Bytes without an entry. More of them are the code of a runtime with conventions of its own, such
 * as the 1.3 MiB of V8's builtins, and have frame pointers. A byte takes 37 bytes of memory.
 */
#define GAP_MAX (256u * 1024)
#define STEPS 4 /* instructions that are looked at, for each byte of code */
#define SYMBOLS_AT_ONCE 1024u

/* ---- where functions are entered ---- */

static bool is_entry(const struct code *c, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	bool global = ELF64_ST_BIND(s->st_info) != STB_LOCAL;
	return (type == STT_FUNC || (type == STT_NOTYPE && global)) && s->st_shndx != SHN_UNDEF &&
	       s->st_value >= c->first && s->st_value < c->end;
}

static int add_entries(struct code *c, const struct elf_symbols *t)
{
	uint64_t n = t->size / elf_symbol_size(c->img);
	Elf64_Sym *s = n ? malloc(SYMBOLS_AT_ONCE * sizeof(*s)) : NULL;
	int rc = n && !s ? -ENOMEM : 0;
	for (uint64_t at = 0; !rc && at < n; at += SYMBOLS_AT_ONCE) {
		size_t some = n - at < SYMBOLS_AT_ONCE ? (size_t)(n - at) : SYMBOLS_AT_ONCE;
		if (elf_read_symbols(c->img, t, at, some, s))
			break;
		for (size_t i = 0; !rc && i < some && c->n < ENTRIES_MAX; i++) {
			if (!is_entry(c, &s[i]))
				continue;
			rc = ARRAY_RESERVE(c->entries, c->cap, c->n + 1);
			if (!rc)
				c->entries[c->n++] = s[i].st_value;
		}
	}
	free(s);
	return rc;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

int code_read(struct code *c, const struct elf_image *img)
{
	struct elf_place text;
	*c = (struct code){ .img = img, .left = CODE_MAX };
	if (img->machine != EM_X86_64 || elf_section_find(img, ".text", &text) ||
	    text.size > UINT64_MAX - text.vaddr)
		return 0;
	c->first = text.vaddr;
	c->end = text.vaddr + text.size;
	int rc = add_entries(c, &img->symtab);
	rc = rc ? rc : add_entries(c, &img->dynsym);
	if (!rc && c->n)
		qsort(c->entries, c->n, sizeof(*c->entries), compare);
	return rc;
}

void code_fini(struct code *c)
{
	free(c->entries);
	*c = (struct code){ 0 };
}

/* ---- the flow through a piece of code ---- */

/* What is known of a byte that an instruction begins with. */
struct place {
	struct frame frame; /* before it */
	uint8_t len;	    /* 0: the flow has not come here */
	uint8_t flow;
	bool entered; /* a function begins here */
	bool wrong;   /* it shows that the function was not understood */
};

struct flow {
	const uint8_t *bytes;
	uint32_t n;
	struct place *at; /* [n] */
	uint32_t *todo;	  /* [n]: targets of jumps; their frame is in `at` */
	uint32_t n_todo;
	uint32_t *trail; /* [n]: where follow_all has been */
	uint32_t n_trail;
	uint64_t steps; /* that may still be made: what is tried may be tried again */
};

/* Do both ways to an instruction agree about the stack? */
static bool agree(const struct frame *a, const struct frame *b)
{
	return !a->known || !b->known || !a->sp_known || !b->sp_known || a->depth == b->depth;
}

/* False: the code there has another frame. */
static bool go_to(struct flow *f, int64_t to, const struct frame *frame)
{
	if (to < 0 || to >= f->n)
		return true;
	if (f->at[to].len)
		return agree(frame, &f->at[to].frame);
	if (f->n_todo < f->n) {
		f->at[to].frame = *frame;
		f->todo[f->n_todo++] = (uint32_t)to;
	}
	return true;
}

/* From here to the end of the flow, or to where it has been. What comes to the next function was a
 * call that never returns. */
static void follow(struct flow *f, uint32_t at, struct frame frame)
{
	struct place *last = NULL;
	while (at < f->n && !f->at[at].len && f->steps) {
		struct place *p = &f->at[at];
		struct frame_insn in;
		struct frame before = frame;
		frame_step(f->bytes + at, f->n - at, &frame, &in);
		if (!in.len)
			return;
		f->steps--;
		p->frame = before;
		p->len = in.len;
		p->flow = (uint8_t)in.flow;
		p->wrong = frame.broken || (in.flow == FRAME_RETURN && before.known &&
					    (!before.sp_known || before.depth != 8));
		f->trail[f->n_trail++] = at;
		if (in.flow == FRAME_BRANCH || in.flow == FRAME_JUMP)
			p->wrong |= !go_to(f, (int64_t)at + in.target, &before);
		if (in.flow != FRAME_NEXT && in.flow != FRAME_BRANCH)
			return;
		at += in.len;
		last = p;
	}
	if (last && at < f->n && !f->at[at].entered)
		last->wrong |= !agree(&frame, &f->at[at].frame);
}

static void follow_all(struct flow *f, uint32_t at, struct frame frame)
{
	f->n_trail = 0;
	follow(f, at, frame);
	while (f->n_todo) {
		at = f->todo[--f->n_todo];
		follow(f, at, f->at[at].frame);
	}
}

/* The same, if what is found speaks for that frame: it returns, and nothing is wrong. Else nothing
 * was found. */
static bool try_frame(struct flow *f, uint32_t at, struct frame frame)
{
	bool wrong = false, returns = false;
	follow_all(f, at, frame);
	for (uint32_t i = 0; i < f->n_trail; i++) {
		const struct place *p = &f->at[f->trail[i]];
		wrong |= p->wrong;
		returns |= p->flow == FRAME_RETURN && p->frame.known;
	}
	bool good = !wrong && returns;
	for (uint32_t i = 0; !good && i < f->n_trail; i++)
		f->at[f->trail[i]] = (struct place){ .entered = f->at[f->trail[i]].entered };
	return good;
}

/*
 * What is left: in a function with an indirect jump, where that leads; else functions without a
 * symbol, which are aligned. One behind an indirect jump returns with another depth, so the
 * function before it is not understood either.
 */
static void follow_rest(struct flow *f, uint64_t vaddr)
{
	struct frame jump = { 0 };
	for (uint32_t at = 0; at < f->n;) {
		struct place *p = &f->at[at];
		if (p->entered)
			jump.known = false;
		if (!p->len && jump.known)
			follow_all(f, at, jump);
		else if (!p->len && (vaddr + at) % 16 == 0)
			p->entered = try_frame(f, at, frame_entered());
		if (p->len && p->flow == FRAME_INDIRECT)
			jump = p->frame;
		at += p->len ? p->len : 1;
	}
}

/*
 * Does the function at `at` return, and always with the depth that it was entered with? One that
 * only jumps may have been jumped to with a frame of its own, as the interpreter's handlers of V8.
 * Where it ends.
 */
static bool is_understood(const struct flow *f, uint32_t at, uint32_t *ret_end)
{
	bool wrong = false, returns = false;
	uint32_t end = at;
	do {
		const struct place *p = &f->at[end];
		wrong |= p->wrong;
		returns |= p->len && p->flow == FRAME_RETURN && p->frame.known;
	} while (++end < f->n && !f->at[end].entered);
	*ret_end = end;
	return returns && !wrong;
}

static int add_rules(const struct flow *f, struct table_builder *out, uint64_t vaddr)
{
	uint32_t end;
	int rc = 0;
	for (uint32_t begin = 0; !rc && begin < f->n; begin = end) {
		if (!is_understood(f, begin, &end))
			continue;
		for (uint32_t at = begin; !rc && at < end; at++) {
			struct unwind_rule rule = frame_rule(&f->at[at].frame);
			if (f->at[at].len)
				rc = table_add(out, vaddr + at, vaddr + at + f->at[at].len, &rule);
		}
	}
	return rc;
}

/* The first one from vaddr on. */
static size_t first_entry(const struct code *c, uint64_t vaddr)
{
	return bisect(i, 0, c->n, c->entries[i] < vaddr);
}

static int add_piece(struct code *c, struct table_builder *out, uint64_t vaddr, uint32_t n)
{
	uint64_t offset;
	uint8_t *bytes = malloc(n);
	struct flow f = { .bytes = bytes,
			  .n = n,
			  .at = calloc(n, sizeof(*f.at)),
			  .todo = malloc(n * sizeof(*f.todo)),
			  .trail = malloc(n * sizeof(*f.trail)),
			  .steps = STEPS * (uint64_t)n };
	int rc = bytes && f.at && f.todo && f.trail ? 0 : -ENOMEM;
	if (!rc && !elf_image_offset(c->img, vaddr, &offset) &&
	    !elf_image_read(c->img, offset, bytes, n)) {
		for (size_t i = first_entry(c, vaddr); i < c->n && c->entries[i] - vaddr < n; i++)
			f.at[c->entries[i] - vaddr].entered = true;
		for (uint32_t i = 0; i < n; i++)
			if (f.at[i].entered || !i)
				follow_all(&f, i, frame_entered());
		follow_rest(&f, vaddr);
		rc = add_rules(&f, out, vaddr);
	}
	free(bytes);
	free(f.at);
	free(f.todo);
	free(f.trail);
	return rc;
}

int code_add(struct code *c, struct table_builder *out, uint64_t begin, uint64_t end)
{
	begin = begin < c->first ? c->first : begin;
	end = end > c->end ? c->end : end;
	uint64_t n = begin < end ? end - begin : 0;
	if (!n || n > GAP_MAX || n > c->left)
		return 0;
	c->left -= n;
	return add_piece(c, out, begin, (uint32_t)n);
}
