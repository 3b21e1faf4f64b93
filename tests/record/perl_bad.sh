#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like Perl: an honest one, and some that lie. Perl of a version that is not known.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
command -v cc >/dev/null || skip "no C compiler"
[ "$(uname -m)" = x86_64 ] || skip "Perl's frames are read on x86-64 alone"

cat >liar.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
const uint8_t PL_revision = 5, PL_version = VERSION;
const uint16_t PL_interp_size = SIZE;
#if LIE != 4 /* without threads */
__thread
#endif
uint64_t *PL_current_context;
__attribute__((noinline, noclone)) uint64_t Perl_runops_standard(uint64_t n)
{
	for (int i = 0; i < 100000; i++)
		n = n * 31 + i;
	return n;
}
static uint64_t code[8], body[16], glob[8], glob_body[8], stash[8], stash_body[8], name[4];
static void set_context(uint64_t *c, uint32_t type, uint64_t cop, int outer)
{
	c[0] = type;
	c[2] = cop;
	c[6] = 1;
	c[7] = (uint32_t)outer;
	c[9] = (uint64_t)code;
}
int main(void)
{
	static uint64_t interpreter[512], stack[8], contexts[13 * 4096], cop[8];
	uint64_t n = 1, *all = calloc(20000, 8);
	PL_current_context = interpreter;
	interpreter[26] = (uint64_t)cop;
	interpreter[28] = (uint64_t)stack;
	((uint32_t *)interpreter)[PHASE / 4] = 4;
	stack[1] = (uint64_t)contexts;
	stack[4] = 1;
	stack[5] = 1 | 1ull << 32; /* MAIN */
	set_context(contexts, 9, (uint64_t)cop, -1);
	set_context(contexts + 13, 9, (uint64_t)cop, 0);
	cop[4] = 15ull << 32;
	cop[6] = (uint64_t)strdup("honest.pl");
	code[0] = (uint64_t)body;
	body[7] = (uint64_t)glob;
	glob[0] = (uint64_t)glob_body;
	glob_body[4] = (uint64_t)name;
	glob_body[5] = (uint64_t)stash;
	stash[0] = (uint64_t)stash_body;
	stash_body[4] = (uint64_t)name;
	name[0] = 7 | 6ull << 32;
	memcpy(name + 1, "honest", 6);
#if LIE == 1 /* a context that is its own caller; names and a file without end */
	contexts[7] = 0;
	name[0] = 7 | 0xffffull << 32;
	cop[6] = (uint64_t)memset(malloc(1 << 20), 'x', 1 << 20);
#elif LIE == 2 /* everything points into it, in circles */
	for (size_t i = 0; i < 20000; i++)
		all[i] = (uint64_t)all + 8 * (i * 7919 % 10000);
	PL_current_context = all;
#elif LIE == 3 /* stacks in a round, each without a sub; then the index of a context far off */
	stack[2] = (uint64_t)stack;
	stack[5] = 0xffffffffull | 3ull << 32;
#elif LIE == 5 /* unreadable, an index far off, a kernel address for a name */
	stack[5] = 0x7fffffffull | 1ull << 32;
	glob_body[4] = 0xffff800000000000;
#elif LIE == 6 /* new code each time, the stack full of it */
	for (int i = 0; i < 4096; i++)
		set_context(contexts + 13 * i, 9, (uint64_t)cop, i - 1);
	stack[5] = 4095 | 1ull << 32;
#endif
	for (uint64_t i = 1; clock() < CLOCKS_PER_SEC; i++) {
#if LIE == 3
		stack[5] ^= i % 2 ? 0x80000000 : 0;
#elif LIE == 6
		cop[4] = i << 32;
#endif
		n += Perl_runops_standard(n);
	}
	return n == 1;
}
C
for lie in 0 1 2 3 4 5 6 7 8; do
	for version in 36 40; do
		size=3768 says=$version phase=$((version == 36 ? 2512 : 2216))
		[ $lie != 7 ] || says=99
		[ $lie != 8 ] || size=3760
		if ! cc -O1 -w -rdynamic -fPIE -pie -DLIE=$lie -DSIZE=$size -DVERSION=$says \
			-DPHASE=$phase -o liar liar.c 2>cc.err; then
			bad "lie $lie: $(cat cc.err)"
			continue
		fi
		rm -rf liar.st
		ok "5.$version, lie $lie: recorded" "$ascribe" record -F 499 -o liar.st -- ./liar
		cp ok.err said
		"$ascribe" stat liar.st --json >liar.json 2>/dev/null
		check "5.$version, lie $lie: accounting" s=liar.json -- \
			'exact(s) and s["stored"] > 10'
		case $lie in
		0) ok "5.$version, an honest one" \
			grep -q ';main;{main};honest::honest;honest::honest ' <(
			"$ascribe" export liar.st --format folded 2>/dev/null) ;;
		4 | 8) ok "5.$version, of another build: it is said" \
			grep "Perl of an unknown version (5.$version of an unusual build)" said ;;
		7) ok "5.$version, unknown: it is said" \
			grep 'Perl of an unknown version (5.99)' said
			ok "5.$version, unknown: in stat" grep -x 'Perl 5.99  *1' <(
				"$ascribe" stat liar.st 2>/dev/null) ;;
		esac
	done
	[ $lie != 7 ] || cp liar perl9.9 # by a name that check looks for
done
check_names perl9.9 '^note  Perl .*5[.]99.*ascribe knows Perl'
finish
