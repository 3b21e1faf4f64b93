#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like LuaJIT: an honest one, and some that lie. LuaJIT of a version that is not
# known.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
command -v cc >/dev/null || skip "no C compiler"
[ "$(uname -m)" = x86_64 ] || skip "LuaJIT is known on x86-64 alone"

cat >liar.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* lua_gethook and lua_gettop as LuaJIT has them, and an interpreter of 10 KiB */
__asm__(".text\n.globl luaJIT_setmode, lua_gethook, lua_gettop, run\n"
	"luaJIT_setmode: ret\n"
	"lua_gethook: mov 0x10(%rdi), %rax\n mov 336(%rax), %rax\n ret\n"
#if LIE == 4
	"lua_gettop: mov 0x30(%rdi), %rax\n ret\n"
#else
	"lua_gettop: mov 0x28(%rdi), %rax\n sub 0x20(%rdi), %rax\n sar $3, %rax\n ret\n"
#endif
	".balign 16\n.type run, @function\nrun: .cfi_startproc\n"
	"push %rbp\n push %rbx\n push %r15\n push %r14\n sub $40, %rsp\n"
	".cfi_def_cfa_offset 80\n .cfi_offset 6, -16\n"
	"mov %rdi, 16(%rsp)\n mov %rsi, %rdx\n mov %rdx, %rbx\n mov 0x10(%rdi), %r14\n"
	"add $" DISPATCH ", %r14\n jmp 1f\n"
	"add $" DISPATCH ", %r14\n add $" DISPATCH ", %r14\n"
	".skip 10000, 0x90\n"
	"1: mov $1000000, %eax\n2: dec %eax\n jnz 2b\n"
	"add $40, %rsp\n pop %r14\n pop %r15\n pop %rbx\n pop %rbp\n ret\n"
	".cfi_endproc\n.size run, .-run\n"
	".type after, @function\nafter: .cfi_startproc\n ret\n .cfi_endproc\n");
void run(void *state, void *base);
static uint64_t state[16], global[64], stack[4096], function[8], string[64];
static uint64_t proto[64]; /* 13 words, then bytecode */
int main(void)
{
	uint64_t n = 1, *all = calloc(20000, 8), *base = stack + 16;
	void *arg = state;
	state[2] = (uint64_t)global;
	state[6] = (uint64_t)(stack + 4000);
	state[7] = (uint64_t)stack;
	state[4] = (uint64_t)base;
	global[46] = (uint64_t)state;
	((uint8_t *)function)[9] = 8; /* type */
	function[4] = (uint64_t)(proto + 13);
	((uint32_t *)proto)[3] = 20; /* n_code */
	proto[8] = (uint64_t)string;
	((uint32_t *)proto)[18] = 7; /* line */
	((uint32_t *)string)[5] = 9;
	memcpy(string + 3, "@load.lua", 9);
	base[-2] = base[-6] = (uint64_t)function;
	base[-1] = 8 * 4 | 1; /* called from C, 4 words below */
	base[-5] = 8 * 10 | 1;
#if LIE == 1 /* a round, of a string without end */
	base[-1] = 8 | 1;
	((uint32_t *)string)[5] = UINT32_MAX;
	for (int i = 1; i < 4000; i += 1)
		stack[i] = i % 2 ? (uint64_t)function : 8 * 2 | 1;
	base = stack + 3999;
#elif LIE == 2 /* everything points into it, in circles */
	for (size_t i = 0; i < 20000; i++)
		all[i] = (uint64_t)all + 8 * (i * 7919 % 10000);
	all[2] = (uint64_t)all;
	arg = all;
	base = all + 16;
#elif LIE == 3 /* unreadable */
	proto[8] = 0xffff800000000000;
	base[-1] = 0xffff800000000000;
#elif LIE == 6 /* new lines each time, and names without end: a call by a local variable */
	uint8_t *code = (uint8_t *)(proto + 13);
	memcpy(code + 4, "\x12\x01\x02\0\x42\x01\x01\x02", 8); /* MOV 1 2; CALL 1 */
	((uint32_t *)proto)[14] = UINT32_MAX; /* bytes */
	proto[12] = (uint64_t)all;
	memset(all, 'x', 160000);
	for (int i = 1; i < 3900; i += 3) {
		stack[i] = (uint64_t)function;
		stack[i + 1] = (uint64_t)(code + 12); /* 3 words below */
	}
	base = stack + 3 * 1000;
#endif
	for (uint64_t i = 1; clock() < CLOCKS_PER_SEC; i++) {
#if LIE == 1 || LIE == 3 || LIE == 6
		((uint32_t *)proto)[18] = i;
#endif
		run(arg, base);
	}
	return n == 2;
}
C
for lie in 0 1 2 3 4 5 6; do
	for dispatch in 3968 4016; do
		[ $lie != 5 ] || dispatch=$((dispatch + 24))
		if ! cc -O1 -w -rdynamic -DLIE=$lie -DDISPATCH="\"$dispatch\"" -o liar liar.c \
			2>cc.err; then
			bad "lie $lie: $(cat cc.err)"
			continue
		fi
		what="$dispatch, lie $lie"
		rm -rf liar.st
		ok "$what: recorded" "$ascribe" record -F 499 -o liar.st -- ./liar
		cp ok.err said
		"$ascribe" stat liar.st --json >liar.json 2>/dev/null
		check "$what: accounting" s=liar.json -- 'exact(s) and s["stored"] > 10'
		case $lie in
		0) ok "$what: an honest one" grep -q ';main;load.lua:7;load.lua:7 ' <(
			"$ascribe" export liar.st --format folded 2>/dev/null) ;;
		4) ok "$what: of another build: it is said" \
			grep 'LuaJIT of an unknown version (of an unusual build)' said ;;
		5) ok "$what: unknown: it is said" \
			grep "LuaJIT of an unknown version (offsets 336,$dispatch)" said
			ok "$what: unknown: in stat" grep -x "LuaJIT offsets 336,$dispatch  *1" <(
				"$ascribe" stat liar.st 2>/dev/null) ;;
		esac
	done
	[ $lie != 5 ] || cp liar luajit-9 # by a name that check looks for
done
check_names luajit-9 '^note  LuaJIT .*336,4040.*ascribe knows LuaJIT'
finish
