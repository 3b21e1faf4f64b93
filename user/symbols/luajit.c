/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LuaJIT's interpreter is assembler without exported symbols, and its versions do not say how the
 * structures are laid out. Code leads to both:
 *
 *   lua_gethook  returns L->glref->hookf: three instructions with the offset of that
 *   lua_gettop   returns L->top - L->base: the same for all builds with LJ_GC64, and for no others
 *   add $x, %r14 where C calls the interpreter: from the global state to the dispatch table, which
 *                that register holds. The function with several of these is the interpreter
 */
#include "symbols/luajit.h"

#include "elf/section.h"
#include "luajit_wire.h"
#include "symbols/dynsym.h"
#include "symbols/unnamed.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (32u << 20) /* bytes; LuaJIT has 0.5 MiB, and may be part of a program */
#define FUNCTIONS_MAX (1u << 20)
#define ENTRIES_MIN 3u		   /* from C: calls, protected calls, resumed coroutines */
#define INTERPRETER_MIN (8u << 10) /* bytes; 2.1 has 26 KiB */
#define OFFSET_MAX 0xffffu
#define CODE_BYTES 16u

struct search {
	uint64_t set_mode, hook, top; /* vaddrs */
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (s->st_shndx == SHN_UNDEF)
		return; /* a program's that uses it */
	if (!strcmp(name, "luaJIT_setmode"))
		f->set_mode = s->st_value;
	else if (!strcmp(name, "lua_gethook"))
		f->hook = s->st_value;
	else if (!strcmp(name, "lua_gettop"))
		f->top = s->st_value;
}

/* Read the first bytes of a function, without a mark for indirect branches before them. */
static int read_code(const struct elf_image *img, uint64_t vaddr, uint8_t code[CODE_BYTES])
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	int rc = elf_image_read_at(img, vaddr, code, CODE_BYTES);
	if (!rc && !memcmp(code, endbr64, sizeof(endbr64)))
		rc = elf_image_read_at(img, vaddr + sizeof(endbr64), code, CODE_BYTES);
	return rc;
}

/* Return the offset of the hook in the global state. 0: not found. */
static uint32_t find_hook(const struct elf_image *img, const struct search *f)
{
	/* mov 0x10(%rdi), %rax; mov x(%rax), %rax; ret */
	static const uint8_t load[] = { 0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x80 };
	/* mov 0x28(%rdi), %rax; sub 0x20(%rdi), %rax; sar $3, %rax */
	static const uint8_t top[] = { 0x48, 0x8b, 0x47, 0x28, 0x48, 0x2b,
				       0x47, 0x20, 0x48, 0xc1, 0xf8, 0x03 };
	uint8_t code[CODE_BYTES];
	uint32_t at;
	if (read_code(img, f->top, code) || memcmp(code, top, sizeof(top)) ||
	    read_code(img, f->hook, code) || memcmp(code, load, sizeof(load)) || code[11] != 0xc3)
		return 0;
	memcpy(&at, code + sizeof(load), sizeof(at));
	return at <= OFFSET_MAX ? at : 0;
}

/* ---- the interpreter ---- */

struct interpreter { /* looked for */
	const uint8_t *text;
	uint64_t vaddr, size; /* of the text */
	uint64_t start;	      /* of the function in hand */
	uint64_t found, found_size;
	uint32_t dispatch;
	bool twice;
};

/* Return what the function adds where it is entered, always the same. 0: it has no such place. */
static uint32_t find_dispatch(const uint8_t *code, uint64_t size)
{
	static const uint8_t add[] = { 0x49, 0x81, 0xc6 };
	const uint8_t *p = code, *end = code + size;
	uint32_t first = 0, v;
	unsigned n = 0;
	for (; (p = memmem(p, (size_t)(end - p), add, sizeof(add))) && end - p >= 7; p += 7, n++) {
		memcpy(&v, p + sizeof(add), sizeof(v));
		if (n && v != first)
			return 0;
		first = v;
	}
	return n >= ENTRIES_MIN && first <= OFFSET_MAX ? first : 0;
}

static int on_function(void *ctx, uint64_t vaddr)
{
	struct interpreter *i = ctx;
	const uint64_t start = i->start, size = vaddr - start;
	if (vaddr < start)
		return -EBADMSG;
	i->start = vaddr;
	if (size < INTERPRETER_MIN || start < i->vaddr || vaddr - i->vaddr > i->size)
		return 0;
	const uint32_t dispatch = find_dispatch(i->text + (start - i->vaddr), size);
	if (dispatch) {
		i->twice = i->found != 0;
		i->found = start;
		i->found_size = size;
		i->dispatch = dispatch;
	}
	return 0;
}

static int find_interpreter(const struct elf_image *img, struct interpreter *i)
{
	struct elf_place at;
	if (elf_section_find(img, ".text", &at) || at.compressed || at.size > TEXT_MAX)
		return -ENOENT;
	uint8_t *text = malloc(at.size);
	int rc = text ? elf_image_read(img, at.offset, text, at.size) : -ENOMEM;
	*i = (struct interpreter){ .text = text, .vaddr = at.vaddr, .size = at.size };
	rc = rc ? rc : unnamed_walk(img, FUNCTIONS_MAX, on_function, i);
	free(text);
	return rc ? rc : i->found && !i->twice ? 0 : -ENOENT;
}

int luajit_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { 0 };
	struct interpreter i;
	int rc = dynsym_each(img, on_symbol, &f);
	if (rc || !f.set_mode || !f.hook || !f.top)
		return -ENOENT;
	*ret = (struct binary_script){ .language = SCRIPT_LUAJIT, .version = LUAJIT_UNUSUAL };
	const uint32_t hook = img->machine == EM_X86_64 ? find_hook(img, &f) : 0;
	if (hook && !find_interpreter(img, &i)) {
		ret->version = LUAJIT_VERSION(hook, i.dispatch);
		ret->at = ret->eval = i.found;
		ret->eval_size = i.found_size;
	}
	return 0;
}
