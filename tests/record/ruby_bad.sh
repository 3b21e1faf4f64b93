#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like Ruby: an honest one, and some that lie. Ruby of a version that is not known.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
command -v cc >/dev/null || skip "no C compiler"
[ "$(uname -m)" = x86_64 ] || skip "Ruby is found in x86-64 code alone"

cat >liar.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
const char ruby_version[16] = VERSION;
const uint8_t rb_vm_insn_len_info[100] = { 1 };
__thread uint64_t *context;
uint64_t rb_thread_current(void)
{
	return ((uint64_t **)context[6])[2];
}
/* A table of places in one function, as many as there are instructions */
#define T10 &&a, &&b, &&a, &&b, &&a, &&b, &&a, &&b, &&a, &&b,
__attribute__((noinline, noclone)) uint64_t vm_exec_core(uint64_t n)
{
	static void *const table[100] = { T10 T10 T10 T10 T10 T10 T10 T10 T10 T10 };
	static volatile int at;
	int i = 0;
	goto *table[at];
a:
	n = n * 31 + i;
	if (++i < 100000)
		goto *table[at];
b:
	return n;
}
int main(void)
{
	static uint64_t ec[16], stack[4096], iseq[8], body[32], text[8], env[8];
	uint64_t n = 1, *all = calloc(20000, 8), *frame = stack + 4096 - 2 * SIZE, *location = body + 8;
	context = ec;
	ec[0] = (uint64_t)stack;
	ec[1] = 4096;
	ec[2] = (uint64_t)frame;
	for (int i = 0; i < 2; i++) {
		frame[SIZE * i + 2] = (uint64_t)iseq;
		frame[SIZE * i + 4] = (uint64_t)(env + 3);
	}
	env[3] = 0x11110023;
	iseq[2] = (uint64_t)body;
	location[0] = location[2] = (uint64_t)text;
	location[3] = 15;
	text[0] = 5 | 1 << 13; /* a String */
	text[2] = 6;
	text[3] = (uint64_t)strdup("honest"); /* in memory that is there */
#if LIE == 1 /* a stack without end, of a string without end */
	ec[0] = 0;
	ec[1] = UINT64_MAX / 8;
	for (int i = 0; i + SIZE < 4096; i += SIZE) {
		stack[i + 2] = (uint64_t)iseq;
		stack[i + 4] = (uint64_t)(env + 3);
	}
	ec[2] = (uint64_t)stack;
	text[2] = UINT64_MAX - 8;
#elif LIE == 2 /* everything points into it, in circles */
	for (size_t i = 0; i < 20000; i++)
		all[i] = (uint64_t)all + 8 * (i * 7919 % 10000);
	context = all;
#elif LIE == 3 /* unreadable; new code each time; blocks in a round */
	location[2] = 0xffff800000000000;
	env[3] = 0x22220021;
	env[2] = (uint64_t)(env + 3);
#elif LIE == 6 /* new names each time, the stack full of frames */
	ec[2] = (uint64_t)stack;
	for (int i = 0; i + SIZE < 4096; i += SIZE) {
		stack[i + 2] = (uint64_t)iseq;
		stack[i + 4] = (uint64_t)(env + 3);
	}
#endif
	for (uint64_t i = 1; clock() < CLOCKS_PER_SEC; i++) {
#if LIE == 1 || LIE == 3 || LIE == 6
		location[3] = i;
#endif
		n += vm_exec_core(n);
	}
	return n == 1;
}
C
for lie in 0 1 2 3 4 5 6; do
	for minor in 1 3; do
		string=3.$minor.9 size=$((9 - (minor + 1) / 2))
		[ $lie != 5 ] || string=3.99.0
		flags=(-O1 -w -rdynamic -fPIE -pie)
		[ $lie != 4 ] || flags=(-O1 -w -rdynamic -fno-pie -no-pie)
		if ! cc "${flags[@]}" -DLIE=$lie -DSIZE=$size -DVERSION="\"$string\"" \
			-o liar liar.c 2>cc.err; then
			bad "lie $lie: $(cat cc.err)"
			continue
		fi
		rm -rf liar.st
		ok "$string, lie $lie: recorded" \
			"$ascribe" record -F 499 -o liar.st -- ./liar
		cp ok.err said
		"$ascribe" stat liar.st --json >liar.json 2>/dev/null
		check "$string, lie $lie: accounting" s=liar.json -- \
			'exact(s) and s["stored"] > 10'
		case $lie in
		0) ok "$string, an honest one" grep -q ';honest;honest ' <(
			"$ascribe" export liar.st --format folded 2>/dev/null) ;;
		4) ok "$string, without a table: it is said" \
			grep "Ruby of an unknown version (3.$minor of an unusual build)" said ;;
		5) ok "$string, unknown: it is said" \
			grep 'Ruby of an unknown version (3.99)' said
			ok "$string, unknown: in stat" grep -x 'Ruby 3.99  *1' <(
				"$ascribe" stat liar.st 2>/dev/null) ;;
		esac
	done
	[ $lie != 5 ] || cp liar ruby9.9 # by a name that check looks for
done
check_names ruby9.9 '^note  Ruby .*3[.]99.*ascribe knows Ruby'
finish
