/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/accessor.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define RAX 0
#define RDI 7

struct decoder {
	const uint8_t *p, *end;
	uint64_t vaddr; /* of code[0], which is at `begin` */
	const uint8_t *begin;
	struct accessor_step *out;
	int n;
	unsigned reg; /* where the value is: a register's number, 0 to 7 */
};

static bool skips(struct decoder *d, const char *bytes, size_t n)
{
	if ((size_t)(d->end - d->p) < n || memcmp(d->p, bytes, n) != 0)
		return false;
	d->p += n;
	return true;
}

/* What does nothing to the value: frames, alignment, tests for NULL whose jump is not taken. */
static bool skip_frame(struct decoder *d)
{
	if (skips(d, "\xf3\x0f\x1e\xfa", 4) ||		  /* endbr64 */
	    skips(d, "\x55", 1) || skips(d, "\x5d", 1) || /* push, pop rbp */
	    skips(d, "\x48\x89\xe5", 3) || skips(d, "\x90", 1))
		return true;
	if (d->reg != RAX && skips(d, "\x31\xc0", 2)) /* xor eax, eax: what it returns for NULL */
		return true;
	/* Of the value with itself; je */
	const char test[3] = { 0x48, (char)0x85, (char)(0xc0 | d->reg << 3 | d->reg) };
	if (skips(d, test, 3)) {
		if (d->end - d->p >= 2 && d->p[0] == 0x74)
			d->p += 2;
		else if (d->end - d->p >= 6 && d->p[0] == 0x0f && d->p[1] == 0x84)
			d->p += 6;
		return true;
	}
	return false;
}

static int32_t take32(struct decoder *d)
{
	int32_t v;
	memcpy(&v, d->p, 4);
	d->p += 4;
	return v;
}

static bool add(struct decoder *d, uint8_t op, uint8_t size, int64_t imm)
{
	if (d->n == ACCESSOR_STEPS_MAX)
		return false;
	if (d->n && d->out[d->n - 1].op == ACCESSOR_LOAD && d->out[d->n - 1].size != 8)
		return false; /* a number is no address */
	d->out[d->n++] = (struct accessor_step){ op, size, imm };
	return true;
}

/* mov or lea with ModRM at d->p: value = [value + displacement], or of an address in the file. */
static bool take_operand(struct decoder *d, uint8_t op, uint8_t size)
{
	if (d->p == d->end)
		return false;
	uint8_t modrm = *d->p++, mod = modrm >> 6, dest = modrm >> 3 & 7, base = modrm & 7;
	int64_t disp = 0;
	if (mod == 3 || base == 4)
		return false;
	bool rip = mod == 0 && base == 5;
	if (mod == 1 && d->end - d->p >= 1)
		disp = (int8_t)*d->p++; /* NOLINT(bugprone-signed-char-misuse): it has a sign */
	else if ((mod == 2 || rip) && d->end - d->p >= 4)
		disp = take32(d);
	else if (mod || rip)
		return false;
	if (rip) {
		d->n = 0;
		if (!add(d, ACCESSOR_BASE, 8,
			 (int64_t)(d->vaddr + (uint64_t)(d->p - d->begin) + (uint64_t)disp)))
			return false;
		disp = 0;
	} else if (base != d->reg) {
		return false;
	}
	d->reg = dest;
	if (op == ACCESSOR_ADD && !disp)
		return true;
	return add(d, op, size, disp);
}

/* mov fs:disp32, reg, with padding before it. */
static bool take_thread_local(struct decoder *d)
{
	const uint8_t *at = d->p;
	while (d->p < d->end && *d->p == 0x66)
		d->p++;
	if (d->end - d->p < 9 || d->p[0] != 0x64 || d->p[1] != 0x48 || d->p[2] != 0x8b ||
	    (d->p[3] & 0xc7) != 4 || d->p[4] != 0x25) {
		d->p = at;
		return false;
	}
	d->reg = d->p[3] >> 3 & 7;
	d->p += 5;
	int32_t disp = take32(d);
	d->n = 0;
	/* The word at fs:0 is the thread pointer itself. */
	return add(d, ACCESSOR_TP, 8, disp) && (!disp || add(d, ACCESSOR_LOAD, 8, 0));
}

int accessor_decode(const uint8_t *code, size_t len, uint64_t vaddr, struct accessor_step *ret)
{
	struct accessor_step out[ACCESSOR_STEPS_MAX];
	struct decoder d = { code,  code + (len < ACCESSOR_CODE_MAX ? len : ACCESSOR_CODE_MAX),
			     vaddr, code,
			     out,   0,
			     RDI };
	while (d.p < d.end) {
		if (*d.p == 0xc3) {
			if (d.reg != RAX || !d.n)
				return -EBADMSG;
			memcpy(ret, out, (size_t)d.n * sizeof(*out));
			return d.n;
		}
		if (skip_frame(&d) || take_thread_local(&d))
			continue;
		if (skips(&d, "\x48\x89\xf8", 3) && d.reg == RDI) { /* mov rdi, rax */
			d.reg = RAX;
			continue;
		}
		bool ok = skips(&d, "\x48\x8b", 2)   ? take_operand(&d, ACCESSOR_LOAD, 8)
			  : skips(&d, "\x48\x8d", 2) ? take_operand(&d, ACCESSOR_ADD, 8)
			  : skips(&d, "\x8b", 1)     ? take_operand(&d, ACCESSOR_LOAD, 4)
			  : skips(&d, "\x0f\xb7", 2) ? take_operand(&d, ACCESSOR_LOAD, 2)
			  : skips(&d, "\x0f\xb6", 2) ? take_operand(&d, ACCESSOR_LOAD, 1)
						     : false;
		if (!ok)
			return -EBADMSG;
	}
	return -EBADMSG;
}
