/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/frame.h"

#include <Zydis/Zydis.h>

#define DEPTH_MAX (1 << 20)

typedef ZydisDecodedOperand operand;

struct frame frame_entered(void)
{
	return (struct frame){ .known = true, .sp_known = true, .depth = 8 };
}

struct unwind_rule frame_rule(const struct frame *f)
{
	struct unwind_rule none = { 0 };
	if (!f->known)
		return none;
	struct unwind_rule r = { .cfa = UNWIND_CFA_REG, .ra = UNWIND_RA_CFA, .ra_off = -8 };
	r.reg = f->sp_known ? UNWIND_X86_SP : UNWIND_X86_FP;
	r.cfa_off = f->sp_known ? f->depth : f->base;
	r.fp = f->fp == FRAME_SAME   ? UNWIND_FP_SAME
	       : f->fp == FRAME_LOST ? UNWIND_FP_LOST
				     : UNWIND_FP_CFA;
	r.fp_off = r.fp == UNWIND_FP_CFA ? f->fp : 0;
	r.cfa_add = f->bx >= INT16_MIN ? (int16_t)f->bx : UNWIND_BX_LOST;
	return r;
}

/* ---- registers ---- */

static bool is_reg(const operand *o, ZydisRegister reg)
{
	return o->type == ZYDIS_OPERAND_TYPE_REGISTER && o->reg.value == reg;
}

/* Is it base + displacement? */
static bool is_at(const operand *o, ZydisRegister base)
{
	return o->type == ZYDIS_OPERAND_TYPE_MEMORY && o->mem.base == base &&
	       o->mem.index == ZYDIS_REGISTER_NONE && o->mem.disp.value > -DEPTH_MAX &&
	       o->mem.disp.value < DEPTH_MAX;
}

static void lose(struct frame *f)
{
	f->known = false;
}

/* The stack pointer is somewhere that cannot be told any more. */
static void lose_sp(struct frame *f)
{
	f->sp_known = false;
	if (!f->base)
		lose(f);
}

static void set_depth(struct frame *f, int64_t depth)
{
	if (depth < 8 || depth > DEPTH_MAX) {
		f->broken = depth < 8;
		lose(f);
		return;
	}
	f->sp_known = true;
	f->depth = (int32_t)depth;
}

static int32_t *saved(struct frame *f, const operand *o)
{
	return is_reg(o, ZYDIS_REGISTER_RBP)   ? &f->fp
	       : is_reg(o, ZYDIS_REGISTER_RBX) ? &f->bx
					       : NULL;
}

/* The register is at this distance from the CFA now, if it still has the caller's value. */
static void store(struct frame *f, const operand *o, int32_t at)
{
	int32_t *s = saved(f, o);
	if (s && *s == FRAME_SAME)
		*s = at;
}

/* Something is written to the register: from this distance from the CFA, or (0) from elsewhere. */
static void load(struct frame *f, const operand *o, int32_t at)
{
	int32_t *s = saved(f, o);
	if (!s)
		return;
	if (s == &f->fp) {
		f->base = 0;
		if (!f->sp_known)
			lose(f);
	}
	if (at && *s == at)
		*s = FRAME_SAME;
	else if (*s == FRAME_SAME)
		*s = FRAME_LOST;
}

/* ---- instructions ---- */

static void push(struct frame *f, const operand *o, unsigned bytes)
{
	if (!f->sp_known)
		return;
	set_depth(f, f->depth + (int64_t)bytes);
	if (bytes == 8)
		store(f, o, -f->depth);
}

static void pop(struct frame *f, const operand *o, unsigned bytes)
{
	int32_t at = f->sp_known ? -f->depth : 0;
	if (is_reg(o, ZYDIS_REGISTER_RSP)) {
		lose_sp(f);
		return;
	}
	if (f->sp_known)
		set_depth(f, f->depth - (int64_t)bytes);
	load(f, o, at);
}

/* mov */
static void move(struct frame *f, const operand *to, const operand *from)
{
	if (is_reg(to, ZYDIS_REGISTER_RBP) && is_reg(from, ZYDIS_REGISTER_RSP)) {
		load(f, to, 0);
		f->base = f->known && f->sp_known ? f->depth : 0;
	} else if (is_reg(to, ZYDIS_REGISTER_RSP)) {
		if (is_reg(from, ZYDIS_REGISTER_RBP) && f->base)
			set_depth(f, f->base);
		else
			lose_sp(f);
	} else if (is_at(to, ZYDIS_REGISTER_RSP) && f->sp_known) {
		store(f, from, (int32_t)to->mem.disp.value - f->depth);
	} else if (is_at(from, ZYDIS_REGISTER_RSP) && f->sp_known) {
		load(f, to, (int32_t)from->mem.disp.value - f->depth);
	} else if (is_at(from, ZYDIS_REGISTER_RBP) && f->base) {
		load(f, to, (int32_t)from->mem.disp.value - f->base);
	} else if (to->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		load(f, to, 0);
	}
}

/* add, sub and lea: the stack pointer moves by a constant, or nobody knows how. */
static void move_sp(struct frame *f, const ZydisDecodedInstruction *in, const operand *o)
{
	bool lea = in->mnemonic == ZYDIS_MNEMONIC_LEA;
	bool number = !lea && o[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		      o[1].imm.value.s > -DEPTH_MAX && o[1].imm.value.s < DEPTH_MAX;
	if (number && f->sp_known)
		set_depth(f, f->depth + (in->mnemonic == ZYDIS_MNEMONIC_SUB ? o[1].imm.value.s
									    : -o[1].imm.value.s));
	else if (lea && is_at(&o[1], ZYDIS_REGISTER_RSP) && f->sp_known)
		set_depth(f, f->depth - o[1].mem.disp.value);
	else if (lea && is_at(&o[1], ZYDIS_REGISTER_RBP) && f->base)
		set_depth(f, f->base - o[1].mem.disp.value);
	else
		lose_sp(f);
}

static void leave(struct frame *f, const operand *fp)
{
	if (!f->base) {
		lose(f);
		return;
	}
	set_depth(f, f->base);
	pop(f, fp, 8);
}

static void other(struct frame *f, const ZydisDecodedInstruction *in, const operand *o)
{
	for (unsigned i = 0; i < in->operand_count; i++) {
		if (o[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(o[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		operand whole = o[i];
		whole.reg.value = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
								   o[i].reg.value);
		if (is_reg(&whole, ZYDIS_REGISTER_RSP))
			lose_sp(f);
		load(f, &whole, 0);
	}
}

static void affect(struct frame *f, const ZydisDecodedInstruction *in, const operand *o)
{
	const operand fp = { .type = ZYDIS_OPERAND_TYPE_REGISTER, .reg = { ZYDIS_REGISTER_RBP } };
	bool sp = is_reg(&o[0], ZYDIS_REGISTER_RSP), wide = in->operand_width == 64;
	switch (in->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
		push(f, &o[0], in->operand_width / 8);
		return;
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		pop(f, &o[0], in->operand_width / 8);
		return;
	case ZYDIS_MNEMONIC_CALL: /* what it calls takes the return address away again */
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		leave(f, &fp);
		return;
	case ZYDIS_MNEMONIC_MOV:
		if (wide)
			move(f, &o[0], &o[1]);
		else
			other(f, in, o);
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_LEA:
		if (sp)
			move_sp(f, in, o);
		else
			other(f, in, o);
		return;
	default:
		other(f, in, o);
	}
}

static enum frame_flow flow_of(const ZydisDecodedInstruction *in, const operand *o,
			       int64_t *ret_target)
{
	bool direct = in->operand_count && o[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		      o[0].imm.is_relative;
	if (direct)
		*ret_target = in->length + o[0].imm.value.s;
	switch (in->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return direct ? FRAME_BRANCH : FRAME_NEXT;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return direct ? FRAME_JUMP : FRAME_INDIRECT;
	case ZYDIS_CATEGORY_RET:
		return FRAME_RETURN;
	default:
		break;
	}
	return in->mnemonic == ZYDIS_MNEMONIC_INT3 || in->mnemonic == ZYDIS_MNEMONIC_UD2 ||
			       in->mnemonic == ZYDIS_MNEMONIC_HLT
		       ? FRAME_STOP
		       : FRAME_NEXT;
}

void frame_step(const uint8_t *p, size_t left, struct frame *io_frame, struct frame_insn *ret)
{
	static ZydisDecoder decoder;
	ZydisDecodedInstruction in;
	operand o[ZYDIS_MAX_OPERAND_COUNT];
	*ret = (struct frame_insn){ .flow = FRAME_STOP };
	if (!decoder.stack_width)
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, p, left, &in, o)))
		return;
	ret->len = in.length;
	ret->flow = flow_of(&in, o, &ret->target);
	if (io_frame->known && ret->flow == FRAME_NEXT)
		affect(io_frame, &in, o);
}
