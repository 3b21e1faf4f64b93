/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neither the bytecode function nor the variable with a thread's context has a symbol in every
 * build of Ruby. Exported symbols lead to both:
 *
 *   rb_vm_insn_len_info  one byte for each instruction: as many relocations in a row, for places
 *                        within one function, are the table of where these begin in vm_exec_core
 *                        (direct threaded code)
 *   rb_thread_current    returns ruby_current_ec->thread_ptr->self: its code begins with the
 *                        thread-local variable, in a form that the ABI fixes
 */
#include "symbols/ruby.h"

#include "elf/relocations.h"
#include "ruby_wire.h"
#include "symbols/dynsym.h"
#include "symbols/unnamed.h"
#include "util/array.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSNS_MIN 64u /* Ruby 3.1 has 202 */
#define INSNS_MAX 4096u
#define FUNCTIONS_MAX (1u << 20)
#define CODE_BYTES 48u /* of rb_thread_current: all that is looked at */
#define VERSION_MAX 16u

struct search {
	struct binary_script s;
	uint64_t version, current; /* vaddrs */
	uint64_t n_insns;
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (s->st_shndx == SHN_UNDEF)
		return; /* an extension's */
	if (!strcmp(name, "ruby_version"))
		f->version = s->st_value;
	else if (!strcmp(name, "rb_thread_current"))
		f->current = s->st_value;
	else if (!strcmp(name, "rb_vm_insn_len_info"))
		f->n_insns = s->st_size;
}

static int read_version(const struct elf_image *img, struct search *f)
{
	char text[VERSION_MAX + 1] = "";
	unsigned major, minor;
	/* A shorter text ends within: constants follow. */
	int rc = elf_image_read_at(img, f->version, text, VERSION_MAX);
	if (rc || sscanf(text, "%3u.%3u.", &major, &minor) != 2 || !major || major > 255 ||
	    minor > 255)
		return -ENOENT;
	f->s.version = RUBY_VERSION(major, minor, SCRIPT_NO_WAY);
	return 0;
}

/* ---- the context of a thread ---- */

static int32_t number_at(const uint8_t *code)
{
	int32_t v;
	memcpy(&v, code, sizeof(v));
	return v;
}

static enum script_way find_context(const struct elf_image *img, uint64_t function,
				    uint64_t *ret_at)
{
	/* lea {module, offset}(%rip), %rdi; call __tls_get_addr; mov (%rax), %rax */
	static const uint8_t lea[] = { 0x66, 0x48, 0x8d, 0x3d }, load[] = { 0x48, 0x8b, 0x00 },
			     call[] = { 0x66, 0x66, 0x48, 0xe8 },
			     call_got[] = { 0x66, 0x48, 0xff, 0x15 };
	/* mov %fs:offset, %rax */
	static const uint8_t load_tp[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 };
	uint8_t code[CODE_BYTES];
	if (img->machine != EM_X86_64 || elf_image_read_at(img, function, code, sizeof(code)))
		return SCRIPT_NO_WAY;
	for (size_t i = 0; i + 19 <= sizeof(code) && code[i] != 0xc3; i++) {
		const uint8_t *p = code + i;
		if (!memcmp(p, lea, 4) &&
		    (!memcmp(p + 8, call, 4) || !memcmp(p + 8, call_got, 4)) &&
		    !memcmp(p + 16, load, 3)) {
			*ret_at = function + i + 8 + (uint64_t)(int64_t)number_at(p + 4);
			return SCRIPT_BY_PAIR;
		}
		if (!memcmp(p, load_tp, sizeof(load_tp))) {
			*ret_at = (uint64_t)(int64_t)number_at(p + sizeof(load_tp));
			return SCRIPT_BY_TP;
		}
	}
	return SCRIPT_NO_WAY;
}

/* ---- the bytecode function ---- */

struct table {		  /* of places in one function, looked for */
	uint64_t *starts; /* of all functions, in order */
	size_t n_starts, cap;
	uint64_t wanted; /* places */
	uint64_t n;	 /* places in a row, of this function, so far */
	size_t function; /* index of its start */
	uint64_t next;	 /* where the next place would stand */
	size_t found;	 /* the function of the table; 0: none yet */
	bool twice;
};

static int add_start(void *ctx, uint64_t vaddr)
{
	struct table *t = ctx;
	if (t->n_starts && vaddr <= t->starts[t->n_starts - 1])
		return -EBADMSG;
	if (ARRAY_RESERVE(t->starts, t->cap, t->n_starts + 1))
		return -ENOMEM;
	t->starts[t->n_starts++] = vaddr;
	return 0;
}

/* Return the function that an address is within, but not at its start: where it ends. 0: none. */
static size_t function_around(const struct table *t, uint64_t vaddr)
{
	size_t low = 0, high = t->n_starts;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (t->starts[middle] <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && low < t->n_starts && t->starts[low - 1] != vaddr ? low : 0;
}

static void end_row(struct table *t)
{
	if (t->n && t->n == t->wanted) {
		t->twice = t->found;
		t->found = t->function;
	}
	t->n = 0;
}

static void on_relocation(void *ctx, const Elf64_Rela *r)
{
	struct table *t = ctx;
	const size_t function = ELF64_R_TYPE(r->r_info) == R_X86_64_RELATIVE
					? function_around(t, (uint64_t)r->r_addend)
					: 0;
	if (r->r_offset != t->next || function != t->function)
		end_row(t);
	t->n += function != 0;
	t->function = function;
	t->next = r->r_offset + 8;
}

static int find_eval(const struct elf_image *img, struct search *f)
{
	struct table t = { .wanted = f->n_insns };
	int rc = f->n_insns < INSNS_MIN || f->n_insns > INSNS_MAX ? -ENOENT : 0;
	rc = rc ? rc : unnamed_walk(img, FUNCTIONS_MAX, add_start, &t);
	rc = rc ? rc : elf_relocations(img, on_relocation, &t);
	end_row(&t);
	if (!rc && t.found && !t.twice) {
		f->s.eval = t.starts[t.found - 1];
		f->s.eval_size = t.starts[t.found] - f->s.eval;
	}
	free(t.starts);
	return f->s.eval ? 0 : -ENOENT;
}

int ruby_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { .s.language = SCRIPT_RUBY };
	int rc = dynsym_each(img, on_symbol, &f);
	if (rc || !f.version || !f.current || !f.n_insns)
		return -ENOENT;
	rc = read_version(img, &f);
	if (rc)
		return rc;
	if (!find_eval(img, &f))
		f.s.version |= find_context(img, f.current, &f.s.at);
	*ret = f.s;
	return 0;
}
