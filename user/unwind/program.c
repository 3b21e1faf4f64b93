/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/program.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define STATES_MAX 32 /* remembered at a time; compilers nest one deep */
#define EXPRESSION_MAX 64

/*
 * DWARF 5, 7.24 and the GNU extensions; advance_loc, offset and restore carry an operand in the low
 * 6 bits.
 */
enum {
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	/* From here on the return address is signed, or no longer */
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
};

enum {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
};

/* Encodings of pointers: LSB, "DWARF Exception Header Encoding". */
enum {
	PE_ABSPTR = 0x00,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT = 0x0f,
	PE_PCREL = 0x10,
	PE_APPLICATION = 0xf0,
};

#define NONE UINT32_MAX

/*
 * On arm64 whatever is longer than two instructions and has no entry is code: the vdso has a nop
 * and two instructions, to which signal handlers return, between functions.
 */
static const struct arch archs[] = {
	{ .machine = EM_X86_64,
	  .sp = UNWIND_X86_SP,
	  .fp = UNWIND_X86_FP,
	  .ra = UNWIND_X86_RA,
	  .kept = UNWIND_X86_BX,
	  .n = 16,
	  .padding = 15 },
	{ .machine = EM_AARCH64,
	  .sp = UNWIND_ARM_SP,
	  .fp = UNWIND_ARM_FP,
	  .ra = UNWIND_ARM_LR,
	  .kept = NONE,
	  .n = 32,
	  .ra_in_reg = true,
	  .padding = 8 },
};

const struct arch *arch_of(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		if (archs[i].machine == machine)
			return &archs[i];
	return NULL;
}

/* ---- numbers ---- */

int64_t signed_read(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = cursor_u8(c);
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b & 0x80)
			continue;
		if (b & 0x40 && shift + 7 < 64)
			v |= UINT64_MAX << (shift + 7);
		return (int64_t)v;
	}
	c->bad = 1;
	return 0;
}

static uint16_t read_u16(struct cursor *c)
{
	uint16_t low = cursor_u8(c);
	return (uint16_t)(low | cursor_u8(c) << 8);
}

uint64_t pointer_read(struct cursor *c, uint8_t encoding, const struct pointer_base *base)
{
	uint64_t at = base->vaddr + (uint64_t)(c->p - base->bytes), v = 0;
	switch (encoding & PE_FORMAT) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		v = cursor_u64(c);
		break;
	case PE_UDATA4:
		v = cursor_u32(c);
		break;
	case PE_SDATA4:
		v = (uint64_t)(int64_t)(int32_t)cursor_u32(c);
		break;
	case PE_UDATA2:
		v = read_u16(c);
		break;
	case PE_SDATA2:
		v = (uint64_t)(int64_t)(int16_t)read_u16(c);
		break;
	default:
		c->bad = 1;
	}
	if ((encoding & PE_APPLICATION) == PE_PCREL)
		return v + at;
	if (encoding & PE_APPLICATION) /* relative to what only a process has, or indirect */
		c->bad = 1;
	return v;
}

/* Products and sums of foreign numbers may wrap around, but not be undefined. */
static int64_t times(uint64_t a, int64_t b)
{
	return (int64_t)(a * (uint64_t)b);
}

/* ---- expressions ---- */

/* bregN off: a register and an offset. */
static bool read_breg(struct cursor *c, uint32_t *ret_reg, int64_t *ret_off)
{
	uint8_t op = cursor_u8(c);
	if (c->bad || op < OP_BREG0 || op > OP_BREG31)
		return false;
	*ret_reg = op - OP_BREG0;
	*ret_off = signed_read(c);
	return !c->bad;
}

static struct saved parse_saved(struct cursor e)
{
	struct saved s = { .how = HOW_AT_REG };
	if (!read_breg(&e, &s.reg, &s.off) || cursor_left(&e))
		s = (struct saved){ .how = HOW_OTHER };
	return s;
}

/* What linkers write for .plt: sp + 8 + ((pc & 15) >= limit) << 3. */
static struct cfa parse_plt(struct cursor e, int64_t off)
{
	struct cfa none = { 0 };
	uint8_t limit;
	uint8_t want[] = { OP_BREG0 + UNWIND_X86_RA,
			   0,
			   OP_LIT0 + 15,
			   OP_AND,
			   0,
			   OP_GE,
			   OP_LIT0 + 3,
			   OP_SHL,
			   OP_PLUS };
	const uint8_t *p = cursor_bytes(&e, sizeof(want));
	if (!p || cursor_left(&e))
		return none;
	limit = want[4] = p[4];
	if (memcmp(p, want, sizeof(want)) || limit < OP_LIT0 || limit > OP_LIT0 + 15)
		return none;
	return (struct cfa){ UNWIND_CFA_PLT, UNWIND_X86_SP, off, limit - OP_LIT0 };
}

/* sp + off + 8 * bregN 0: the rest of `breg7 off, bregN 0, lit8, mul, plus, deref ...`. */
static bool parse_index(struct cursor *e, struct cfa *cfa)
{
	int64_t zero;
	if (!read_breg(e, &cfa->reg, &zero) || zero || cursor_u8(e) != OP_LIT0 + 8 ||
	    cursor_u8(e) != OP_MUL || cursor_u8(e) != OP_PLUS)
		return false;
	cfa->how = UNWIND_CFA_INDEX;
	return true;
}

/* bregN off [deref [plus_uconst add | litN plus]]; on x86-64 .plt's, or with an index. */
static struct cfa parse_cfa(const struct arch *arch, struct cursor e)
{
	struct cfa none = { 0 }, cfa = { .how = UNWIND_CFA_REG };
	if (!read_breg(&e, &cfa.reg, &cfa.off))
		return none;
	if (!cursor_left(&e))
		return cfa;
	bool x86_sp = arch->machine == EM_X86_64 && cfa.reg == UNWIND_X86_SP;
	if (x86_sp && *e.p == OP_BREG0 + UNWIND_X86_RA)
		return parse_plt(e, cfa.off);
	cfa.how = UNWIND_CFA_DEREF;
	if (x86_sp && *e.p != OP_DEREF && !parse_index(&e, &cfa))
		return none;
	if (cursor_u8(&e) != OP_DEREF)
		return none;
	if (!cursor_left(&e))
		return cfa;
	uint8_t op = cursor_u8(&e);
	if (op == OP_PLUS_UCONST)
		cfa.add = (int64_t)cursor_varint(&e);
	else if (op >= OP_LIT0 && op <= OP_LIT31 && cursor_u8(&e) == OP_PLUS)
		cfa.add = op - OP_LIT0;
	else
		return none;
	return e.bad || cursor_left(&e) ? none : cfa;
}

static struct cursor read_block(struct cursor *c)
{
	uint64_t len = cursor_varint(c);
	const uint8_t *p = len <= EXPRESSION_MAX ? cursor_bytes(c, len) : NULL;
	if (!p && len > EXPRESSION_MAX && len <= cursor_left(c))
		c->p += len; /* longer than anything that is followed: passed over */
	else if (!p)
		c->bad = 1;
	return (struct cursor){ p, p ? p + len : NULL, 0 };
}

/* ---- the machine ---- */

struct machine {
	const struct cie *cie;
	struct frame_state now, states[STATES_MAX];
	unsigned n_states;
	struct cursor code;
	uint64_t loc;
};

/* The registers that are followed; the others have nowhere to go. */
static struct saved *slot(struct machine *m, uint64_t reg)
{
	if (reg == m->cie->arch->fp)
		return &m->now.fp;
	if (reg == m->cie->arch->kept)
		return &m->now.bx;
	return reg == m->cie->ra_reg ? &m->now.ra : NULL;
}

static void set(struct machine *m, uint64_t reg, enum how how, uint64_t in, int64_t off)
{
	struct saved *s = slot(m, reg);
	if (s)
		*s = (struct saved){ how, (uint32_t)in, off };
}

static void restore(struct machine *m, uint64_t reg)
{
	struct saved *s = slot(m, reg);
	const struct frame_state *f = &m->cie->initial;
	if (s)
		*s = s == &m->now.fp ? f->fp : s == &m->now.bx ? f->bx : f->ra;
}

static void def_cfa(struct machine *m, uint64_t reg, int64_t off)
{
	m->now.cfa = (struct cfa){ reg <= m->cie->arch->n ? UNWIND_CFA_REG : UNWIND_CFA_NONE,
				   (uint32_t)reg, off, 0 };
}

/* A change of the register or the offset alone needs a CFA of that form. */
static void def_cfa_part(struct machine *m, uint64_t reg, int64_t off)
{
	if (m->now.cfa.how == UNWIND_CFA_REG)
		def_cfa(m, reg, off);
	else
		m->now.cfa.how = UNWIND_CFA_NONE;
}

/* An instruction about one register; false when it is none. */
static bool save_rule(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code, e;
	int64_t align = m->cie->data_align;
	uint64_t reg;
	switch (op) {
	case CFA_OFFSET_EXTENDED:
		reg = cursor_varint(c);
		set(m, reg, HOW_CFA, 0, times(cursor_varint(c), align));
		return true;
	case CFA_OFFSET_EXTENDED_SF:
		reg = cursor_varint(c);
		set(m, reg, HOW_CFA, 0, times((uint64_t)signed_read(c), align));
		return true;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = cursor_varint(c);
		set(m, reg, HOW_CFA, 0, times(-cursor_varint(c), align));
		return true;
	case CFA_RESTORE_EXTENDED:
		restore(m, cursor_varint(c));
		return true;
	case CFA_UNDEFINED:
		set(m, cursor_varint(c), HOW_UNDEFINED, 0, 0);
		return true;
	case CFA_SAME_VALUE:
		set(m, cursor_varint(c), HOW_SAME, 0, 0);
		return true;
	case CFA_REGISTER:
		reg = cursor_varint(c);
		set(m, reg, HOW_REG, cursor_varint(c), 0);
		return true;
	case CFA_EXPRESSION:
		reg = cursor_varint(c);
		e = read_block(c);
		if (slot(m, reg))
			*slot(m, reg) = parse_saved(e);
		return true;
	case CFA_VAL_OFFSET:
	case CFA_VAL_OFFSET_SF:
		set(m, cursor_varint(c), HOW_OTHER, 0, 0);
		cursor_varint(c);
		return true;
	case CFA_VAL_EXPRESSION:
		set(m, cursor_varint(c), HOW_OTHER, 0, 0);
		read_block(c);
		return true;
	default:
		return false;
	}
}

/* An instruction about the CFA or the state; false when it is none. */
static bool frame_rule(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;
	int64_t align = m->cie->data_align;
	uint64_t reg;
	switch (op) {
	case CFA_NOP:
		return true;
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
	case CFA_AARCH64_NEGATE_RA_STATE:
		/* The walk takes signatures off wherever there may be one */
		return m->cie->arch->machine == EM_AARCH64;
	case CFA_GNU_ARGS_SIZE:
		cursor_varint(c);
		return true;
	case CFA_REMEMBER_STATE:
		if (m->n_states == STATES_MAX)
			return false;
		m->states[m->n_states++] = m->now;
		return true;
	case CFA_RESTORE_STATE:
		if (!m->n_states)
			return false;
		m->now = m->states[--m->n_states];
		return true;
	case CFA_DEF_CFA:
		reg = cursor_varint(c);
		def_cfa(m, reg, (int64_t)cursor_varint(c));
		return true;
	case CFA_DEF_CFA_SF:
		reg = cursor_varint(c);
		def_cfa(m, reg, times((uint64_t)signed_read(c), align));
		return true;
	case CFA_DEF_CFA_REGISTER:
		def_cfa_part(m, cursor_varint(c), m->now.cfa.off);
		return true;
	case CFA_DEF_CFA_OFFSET:
		def_cfa_part(m, m->now.cfa.reg, (int64_t)cursor_varint(c));
		return true;
	case CFA_DEF_CFA_OFFSET_SF:
		def_cfa_part(m, m->now.cfa.reg, times((uint64_t)signed_read(c), align));
		return true;
	case CFA_DEF_CFA_EXPRESSION:
		m->now.cfa = parse_cfa(m->cie->arch, read_block(c));
		return true;
	default:
		return false;
	}
}

/* Where the next piece begins, when this is an instruction that says so. */
static bool advance(struct machine *m, uint8_t op, const struct pointer_base *base, uint64_t *ret)
{
	uint64_t by;
	switch (op) {
	case CFA_SET_LOC:
		*ret = pointer_read(&m->code, m->cie->pointer, base);
		return true;
	case CFA_ADVANCE_LOC1:
		by = cursor_u8(&m->code);
		break;
	case CFA_ADVANCE_LOC2:
		by = read_u16(&m->code);
		break;
	case CFA_ADVANCE_LOC4:
		by = cursor_u32(&m->code);
		break;
	default:
		if ((op & 0xc0) != CFA_ADVANCE_LOC)
			return false;
		by = op & 0x3f;
	}
	*ret = m->loc + by * m->cie->code_align;
	return true;
}

/* ---- rules ---- */

static bool fits(int64_t v, int64_t max)
{
	return v >= -max - 1 && v <= max;
}

/* In memory at a register that every frame has: the stack or the frame pointer. */
static bool at_known(const struct arch *arch, const struct saved *s)
{
	return s->how == HOW_AT_REG && (s->reg == arch->sp || s->reg == arch->fp);
}

static uint8_t fp_kind(const struct arch *arch, const struct saved *s)
{
	if (s->how == HOW_SAME)
		return UNWIND_FP_SAME;
	if (!fits(s->off, INT32_MAX))
		return UNWIND_FP_LOST;
	if (s->how == HOW_CFA)
		return UNWIND_FP_CFA;
	if (at_known(arch, s))
		return s->reg == arch->sp ? UNWIND_FP_AT_SP : UNWIND_FP_AT_FP;
	return UNWIND_FP_LOST;
}

static int16_t bx_place(const struct saved *s)
{
	if (s->how == HOW_SAME)
		return UNWIND_BX_SAME;
	bool good = s->how == HOW_CFA && fits(s->off, INT16_MAX) && s->off != UNWIND_BX_SAME;
	return good ? (int16_t)s->off : UNWIND_BX_LOST;
}

/* -1: there is no rule for it. */
static int ra_kind(const struct arch *arch, const struct saved *s)
{
	if (s->how == HOW_UNDEFINED)
		return UNWIND_RA_ROOT;
	if (s->how == HOW_REG)
		return s->reg < arch->n ? UNWIND_RA_REG : -1;
	if (s->how == HOW_SAME)
		return arch->ra_in_reg ? UNWIND_RA_REG : -1;
	if (!fits(s->off, INT16_MAX))
		return -1;
	if (s->how == HOW_CFA)
		return UNWIND_RA_CFA;
	if (at_known(arch, s))
		return s->reg == arch->sp ? UNWIND_RA_AT_SP : UNWIND_RA_AT_FP;
	return -1;
}

static struct unwind_rule rule_of(const struct machine *m)
{
	const struct frame_state *f = &m->now;
	const struct arch *arch = m->cie->arch;
	struct unwind_rule none = { 0 };
	int ra = ra_kind(arch, &f->ra);
	if (ra == UNWIND_RA_ROOT) /* nothing else matters then */
		return (struct unwind_rule){ .cfa = UNWIND_CFA_REG,
					     .reg = (uint8_t)arch->sp,
					     .ra = UNWIND_RA_ROOT };
	if (ra < 0 || f->cfa.how == UNWIND_CFA_NONE || f->cfa.reg >= arch->n ||
	    !fits(f->cfa.off, INT32_MAX) || !fits(f->cfa.add, INT16_MAX))
		return none;
	struct unwind_rule r = { .cfa = (uint8_t)f->cfa.how,
				 .reg = (uint8_t)f->cfa.reg,
				 .fp = fp_kind(arch, &f->fp),
				 .ra = (uint8_t)ra,
				 .cfa_off = (int32_t)f->cfa.off,
				 .cfa_add = (int16_t)f->cfa.add };
	if (r.fp != UNWIND_FP_SAME && r.fp != UNWIND_FP_LOST)
		r.fp_off = (int32_t)f->fp.off;
	r.ra_off = (int16_t)(ra != UNWIND_RA_REG     ? f->ra.off
			     : f->ra.how == HOW_SAME ? m->cie->ra_reg
						     : f->ra.reg);
	if (r.cfa == UNWIND_CFA_REG)
		r.cfa_add = bx_place(&f->bx);
	if (m->cie->is_signal)
		r.ra |= UNWIND_RA_SIGNAL;
	return r;
}

/* ---- running ---- */

static bool instruction(struct machine *m, uint8_t op)
{
	if ((op & 0xc0) == CFA_OFFSET) {
		set(m, op & 0x3f, HOW_CFA, 0, times(cursor_varint(&m->code), m->cie->data_align));
		return true;
	}
	if ((op & 0xc0) == CFA_RESTORE) {
		restore(m, op & 0x3f);
		return true;
	}
	return frame_rule(m, op) || save_rule(m, op);
}

int program_initial(struct cie *cie, struct cursor code, const struct pointer_base *base)
{
	struct machine m = { .cie = cie, .code = code };
	uint64_t next;
	m.now.ra.how = cie->arch->ra_in_reg ? HOW_SAME : HOW_UNDEFINED;
	cie->initial = m.now;
	while (!m.code.bad && cursor_left(&m.code)) {
		uint8_t op = cursor_u8(&m.code);
		if (!advance(&m, op, base, &next) && !instruction(&m, op))
			return -EBADMSG;
	}
	if (m.code.bad)
		return -EBADMSG;
	cie->initial = m.now;
	return 0;
}

int program_run(const struct cie *cie, struct cursor code, const struct pointer_base *base,
		uint64_t start, uint64_t end,
		int (*piece)(void *, uint64_t, uint64_t, const struct unwind_rule *), void *ctx)
{
	struct machine m;
	struct unwind_rule rule;
	uint64_t next;
	int rc = 0;
	m.cie = cie;
	m.now = cie->initial;
	m.n_states = 0;
	m.code = code;
	m.loc = start;
	while (!rc && cursor_left(&m.code)) {
		uint8_t op = cursor_u8(&m.code);
		if (!advance(&m, op, base, &next)) {
			if (!instruction(&m, op) || m.code.bad)
				return -EBADMSG;
			continue;
		}
		if (m.code.bad || next < m.loc)
			return -EBADMSG;
		if (next >= end)
			break;
		rule = rule_of(&m);
		if (next > m.loc)
			rc = piece(ctx, m.loc, next, &rule);
		m.loc = next;
	}
	if (rc || m.code.bad)
		return rc ? rc : -EBADMSG;
	rule = rule_of(&m);
	return piece(ctx, m.loc, end, &rule);
}
