/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/go.h"

#include "symbols/gopclntab.h"
#include "util/array.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#define FUNCTIONS_MAX (2u * 1024 * 1024)
#define PIECES_MAX (4u * 1024 * 1024)

/*
 * Where ucontext, at the stack pointer, has rbp, rsp and rip
 * (arch/x86/include/uapi/asm/sigcontext.h).
 */
#define SIGNAL_FP 120
#define SIGNAL_SP 160
#define SIGNAL_PC 168

static int put(struct go_code *g, uint64_t begin, uint64_t end, uint32_t depth, enum go_kind kind)
{
	if (begin >= end || begin < g->first || end > g->end)
		return 0;
	if (g->n >= PIECES_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(g->v, g->cap, g->n + 1);
	if (rc)
		return rc;
	g->v[g->n++] = (struct go_piece){ (uint32_t)(begin - g->first), (uint32_t)(end - g->first),
					  depth, kind };
	return 0;
}

/* ---- x86-64: where a function has no frame ---- */

/* The stretch of a function that comes before the next one, which tells how it ends. */
struct function {
	struct go_code *g;
	uint64_t begin, end;
	uint32_t depth;
	unsigned i;	     /* of those of the function */
	bool entered;	     /* the function had depth 0 before it */
	enum go_kind framed; /* what it has between prologue and epilogue */
};

/*
 * mov %rbp, depth - 8(%rsp); lea depth - 8(%rsp), %rbp: the caller's frame pointer is still in its
 * register.
 */
static uint64_t prologue(uint32_t depth)
{
	return depth == 8 ? 4 + 4 : depth - 8 < 128 ? 5 + 5 : 8 + 8;
}

/* add depth, %rsp: the caller's frame pointer is back in its register. */
static uint64_t epilogue(uint32_t depth)
{
	return depth <= 128 ? 4 : 7;
}

static int put_stretch(const struct function *f, bool left)
{
	uint64_t begin = f->begin, end = f->end;
	if (!f->depth)
		return put(f->g, begin, end, 0, GO_BARE);
	if (f->entered && f->i == 1)
		begin = end - begin < prologue(f->depth) ? end : begin + prologue(f->depth);
	if (left)
		end = end - begin < epilogue(f->depth) ? begin : end - epilogue(f->depth);
	int rc = put(f->g, f->begin, begin, f->depth, GO_BARE);
	rc = rc ? rc : put(f->g, begin, end, f->depth, f->framed);
	return rc ? rc : put(f->g, end, f->end, f->depth, GO_BARE);
}

static int on_stretch(void *ctx, uint64_t begin, uint64_t end, uint32_t depth)
{
	struct function *f = ctx;
	if (depth > INT32_MAX / 2)
		return -EBADMSG;
	int rc = f->end ? put_stretch(f, !depth) : 0;
	*f = (struct function){
		f->g, begin, end, depth, f->end ? f->i + 1 : 0, f->end && !f->depth, f->framed
	};
	return rc;
}

/* Functions that go over to the thread's first stack, where there is room for the kernel's vdso. */
static bool changes_stack(const struct go_function *f)
{
	static const char *const names[] = { "runtime.nanotime1", "runtime.walltime", "time.now",
					     "time.runtimeNow", "runtime.vgetrandom1" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (gopclntab_is_named(f, names[i]))
			return true;
	return false;
}

/*
 * asmcgocall calls C on the thread's first stack. Where it came from stands there in a way that
 * differs from version to version. But it never touches the frame pointer, and C hands it back:
 * that of runtime.cgocall, whose caller is where the walk goes on. asmcgocall_landingpad (Go 1.24)
 * only jumps on.
 */
static bool calls_c(const struct go_function *f)
{
	return gopclntab_is_named(f, "runtime.asmcgocall") &&
	       !gopclntab_is_named(f, "runtime.asmcgocall_");
}

/* Nobody has called it: it is looked for by the byte before its first. */
static int put_sigreturn(struct go_code *g, const struct go_function *f)
{
	uint64_t begin = f->vaddr - 1;
	if (begin > g->first && g->n && g->v[g->n - 1].end > begin - g->first)
		g->v[g->n - 1].end = (uint32_t)(begin - g->first);
	return put(g, begin, f->vaddr + f->size, 0, GO_SIGNAL);
}

static int on_function(void *ctx, const struct go_function *f)
{
	struct go_code *g = ctx;
	if (f->top)
		return put(g, f->vaddr, f->vaddr + f->size, 0, GO_ROOT);
	if (g->machine != EM_X86_64)
		return 0;
	if (calls_c(f))
		return put(g, f->vaddr, f->vaddr + f->size, 0, GO_SWITCH);
	if (!f->plain)
		return 0;
	if (gopclntab_is_named(f, "runtime.sigreturn"))
		return put_sigreturn(g, f);
	struct function at = { .g = g, .framed = changes_stack(f) ? GO_SWITCH : GO_SAVED };
	size_t first = g->n;
	int rc = gopclntab_depths(f, on_stretch, &at);
	if (!rc && at.end)
		rc = put_stretch(&at, false);
	if (!rc && g->n == first + 1 && !g->v[first].depth && gopclntab_is_named(f, "runtime.duff"))
		g->v[first].kind = GO_SAVED;
	return rc == -EBADMSG ? 0 : rc; /* hand-written code may say anything of its stack */
}

int go_code_read(struct go_code *g, const struct elf_image *img, const struct table_builder *out,
		 uint32_t sp)
{
	struct go_names names;
	*g = (struct go_code){
		.first = out->first, .end = out->end, .machine = img->machine, .sp = sp
	};
	int rc = gopclntab_walk(img, FUNCTIONS_MAX, &names, on_function, g);
	return rc == -ENOMEM ? rc : 0;
}

int go_code_add(struct go_code *g, struct table_builder *out, uint64_t until)
{
	int rc = 0;
	for (; !rc && g->at < g->n && g->first + g->v[g->at].begin <= until; g->at++) {
		const struct go_piece *p = &g->v[g->at];
		struct unwind_rule rule = { .cfa = UNWIND_CFA_GO,
					    .reg = (uint8_t)g->sp,
					    .cfa_off = (int32_t)p->depth + 8,
					    .ra = UNWIND_RA_CFA,
					    .ra_off = -8,
					    .fp = UNWIND_FP_SAME };
		if (p->kind == GO_SWITCH) {
			rule.reg = UNWIND_X86_FP;
			rule.cfa_off = 16;
		}
		if (p->kind == GO_SWITCH || p->kind == GO_SAVED) {
			rule.fp = UNWIND_FP_CFA;
			rule.fp_off = -16;
		}
		if (p->kind == GO_SIGNAL)
			rule = (struct unwind_rule){ .cfa = UNWIND_CFA_DEREF,
						     .reg = (uint8_t)g->sp,
						     .cfa_off = SIGNAL_SP,
						     .ra = UNWIND_RA_AT_SP | UNWIND_RA_SIGNAL,
						     .ra_off = SIGNAL_PC,
						     .fp = UNWIND_FP_AT_SP,
						     .fp_off = SIGNAL_FP };
		if (p->kind == GO_ROOT)
			rule = (struct unwind_rule){ .cfa = UNWIND_CFA_REG,
						     .reg = (uint8_t)g->sp,
						     .ra = UNWIND_RA_ROOT };
		rc = table_add(out, g->first + p->begin, g->first + p->end, &rule);
	}
	return rc;
}

void go_code_fini(struct go_code *g)
{
	free(g->v);
	g->v = NULL;
}
