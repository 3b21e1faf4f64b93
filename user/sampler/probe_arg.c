/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/probe_arg.h"

#include <asm/ptrace.h>
#include <errno.h>
#include <regex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENT_MAX 64 /* bytes of one in a note */
#define NUMBER "([-+]?[0-9a-fx]+)"

/* Groups of the pattern of one argument: SIZE@OPERAND, a negative size is that of a signed one. */
enum group { SIGN, SIZE, CONSTANT, REGISTER, OFFSET, BASE, INDEX, SCALE, N_GROUPS };

#if defined(__x86_64__)

/* 4@$5, 8@%rdi, 8@-16(%rbp), 8@16(%rax,%rbx,8) */
#define PATTERN \
	"^(-?)([1248])@(\\$" NUMBER "|%([a-z0-9]+)|" NUMBER \
	"?\\(%([a-z0-9]+)(,%([a-z0-9]+)(,([1248]))?)?\\))$"
static const uint8_t groups[N_GROUPS] = { 1, 2, 4, 5, 6, 7, 9, 11 };

#define AT(member) offsetof(struct pt_regs, member) / 8
static const struct {
	const char *names[4];
	uint8_t word; /* in struct pt_regs */
} registers[] = {
	{ { "rdi", "edi", "di", "dil" }, AT(rdi) },
	{ { "rsi", "esi", "si", "sil" }, AT(rsi) },
	{ { "rdx", "edx", "dx", "dl" }, AT(rdx) },
	{ { "rcx", "ecx", "cx", "cl" }, AT(rcx) },
	{ { "r8", "r8d", "r8w", "r8b" }, AT(r8) },
	{ { "r9", "r9d", "r9w", "r9b" }, AT(r9) },
	{ { "rax", "eax", "ax", "al" }, AT(rax) },
	{ { "rbx", "ebx", "bx", "bl" }, AT(rbx) },
	{ { "rbp", "ebp", "bp", "bpl" }, AT(rbp) },
	{ { "rsp", "esp", "sp", "spl" }, AT(rsp) },
	{ { "r10", "r10d", "r10w", "r10b" }, AT(r10) },
	{ { "r11", "r11d", "r11w", "r11b" }, AT(r11) },
	{ { "r12", "r12d", "r12w", "r12b" }, AT(r12) },
	{ { "r13", "r13d", "r13w", "r13b" }, AT(r13) },
	{ { "r14", "r14d", "r14w", "r14b" }, AT(r14) },
	{ { "r15", "r15d", "r15w", "r15b" }, AT(r15) },
};
#define N_REGISTERS (sizeof(registers) / sizeof(registers[0]))
#define N_OF_FUNCTION 6 /* the first ones, by the System V ABI */

static int find_register(const char *name, uint8_t *ret)
{
	for (size_t i = 0; i < N_REGISTERS; i++)
		for (size_t k = 0; k < 4; k++)
			if (!strcmp(registers[i].names[k], name)) {
				*ret = registers[i].word;
				return 0;
			}
	return -ENOTSUP;
}

static bool is_register(uint8_t word)
{
	bool known = false;
	for (size_t i = 0; i < N_REGISTERS; i++)
		known |= registers[i].word == word;
	return known;
}

static uint8_t register_of_function(unsigned n)
{
	return registers[n - 1].word;
}

#else

/* 4@5, 8@x0, 8@[sp, 16] */
#define PATTERN \
	"^(-?)([1248])@(" NUMBER "|([xw][0-9]+|sp)|\\[([xw][0-9]+|sp)(, *" NUMBER ")?\\])()()$"
static const uint8_t groups[N_GROUPS] = { 1, 2, 4, 5, 8, 6, 9, 10 };
#define SP 31 /* its word in struct user_pt_regs, behind x0 to x30 */
#define N_OF_FUNCTION 8

static int find_register(const char *name, uint8_t *ret)
{
	char *end;
	unsigned long n = strcmp(name, "sp") ? strtoul(name + 1, &end, 10) : SP;
	if (n > SP || (n == SP && name[0] != 's'))
		return -ENOTSUP;
	*ret = (uint8_t)n;
	return 0;
}

static bool is_register(uint8_t word)
{
	return word <= SP;
}

static uint8_t register_of_function(unsigned n)
{
	return (uint8_t)(n - 1);
}

#endif

int probe_arg_of_function(unsigned n, struct probe_argument *ret)
{
	if (!n || n > N_OF_FUNCTION)
		return -ERANGE;
	ret->arg = ARG_REGISTER;
	ret->size = 3;
	ret->base = register_of_function(n);
	return 0;
}

/* Copy argument n of a note. Those of arm64 have blanks in brackets. */
static int take_argument(const char *from, unsigned n, char to[ARGUMENT_MAX])
{
	for (; n; n--) {
		from += strspn(from, " ");
		const char *end = from;
		for (bool inside = false; *end && (inside || *end != ' '); end++)
			inside = *end == '[' || (inside && *end != ']');
		const size_t len = (size_t)(end - from);
		if (!len)
			return -ERANGE;
		if (n == 1 && len >= ARGUMENT_MAX)
			return -ENOTSUP;
		if (n == 1) {
			memcpy(to, from, len);
			to[len] = 0;
		}
		from = end;
	}
	return 0;
}

static int parse_number(const char *text, __s32 *ret)
{
	char *end;
	errno = 0;
	long v = strtol(text, &end, 0);
	if (!*text || *end || errno || v < INT32_MIN || v > INT32_MAX)
		return -ENOTSUP;
	*ret = (__s32)v;
	return 0;
}

static int fill(char part[N_GROUPS][ARGUMENT_MAX], struct probe_argument *c)
{
	uint8_t index = 0;
	int rc = 0;
	c->is_signed = *part[SIGN] != 0;
	c->size = (unsigned)__builtin_ctz((unsigned)atoi(part[SIZE])) & 3;
	c->arg = *part[CONSTANT] ? ARG_CONSTANT : *part[REGISTER] ? ARG_REGISTER : ARG_MEMORY;
	if (c->arg == ARG_CONSTANT)
		return parse_number(part[CONSTANT], &c->offset);
	if (c->arg == ARG_REGISTER)
		return find_register(part[REGISTER], &c->base);
	rc = *part[OFFSET] ? parse_number(part[OFFSET], &c->offset) : 0;
	rc = rc ? rc : find_register(part[BASE], &c->base);
	if (rc || !*part[INDEX])
		return rc;
	c->indexed = 1;
	c->scale = *part[SCALE] ? (unsigned)__builtin_ctz((unsigned)atoi(part[SCALE])) & 3 : 0;
	rc = find_register(part[INDEX], &index);
	c->index = index & 31;
	return rc;
}

int probe_arg_of_note(const char *arguments, unsigned n, struct probe_argument *ret)
{
	char text[ARGUMENT_MAX], part[N_GROUPS][ARGUMENT_MAX] = { 0 };
	struct probe_argument c = *ret;
	regmatch_t match[12];
	regex_t pattern;
	int rc = n ? take_argument(arguments, n, text) : -ERANGE;
	if (rc)
		return rc;
	if (regcomp(&pattern, PATTERN, REG_EXTENDED))
		return -ENOMEM;
	rc = regexec(&pattern, text, sizeof(match) / sizeof(match[0]), match, 0) ? -ENOTSUP : 0;
	for (size_t i = 0; !rc && i < N_GROUPS; i++) {
		const regmatch_t *m = &match[groups[i]];
		if (m->rm_so >= 0)
			memcpy(part[i], text + m->rm_so, (size_t)(m->rm_eo - m->rm_so));
	}
	regfree(&pattern);
	rc = rc ? rc : fill(part, &c);
	if (!rc)
		*ret = c;
	return rc;
}

bool probe_arg_is_sound(const struct probe_argument *c)
{
	return c->arg == ARG_NONE || c->arg == ARG_CONSTANT ||
	       (is_register(c->base) && (!c->indexed || is_register(c->index)));
}
