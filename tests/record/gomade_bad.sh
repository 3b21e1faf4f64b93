#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like Go, and lies of who made its goroutine: an honest one, and some that lie. Go
# of a version that is not known.
. "$(dirname "$0")/lib.bash"
command -v cc >/dev/null || skip "no C compiler"
[ "$(uname -m)" = x86_64 ] || skip "the thread's g is found as on x86-64"

cat >liar.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
__attribute__((section(".go.buildinfo"), aligned(16), used)) static const char info[64] =
	"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" VERSION;
static volatile __thread uint64_t g; /* alone: 8 bytes below the thread pointer */
static uint64_t it[64], slice[2], ancestors[64 * 5];
static volatile uint64_t sink;
__attribute__((noinline)) static void maker(void)
{
	sink++;
	__asm__ __volatile__("nop\n nop\n nop\n nop");
}
__attribute__((noinline)) static void burn(void)
{
	for (int i = 0; i < 100000; i++)
		sink += i;
}
int main(void)
{
	uint64_t pc = (uint64_t)maker + 8;
	g = (uint64_t)it;
	it[1] = UINT64_MAX >> 1; /* its stack: all that there is */
	it[288 / 8] = pc;
#if LIE == 1 /* another maker each time, in no mapping */
	pc = 0x10000;
#elif LIE == 2 /* makers without end */
	it[288 / 8 + 1] = (uint64_t)slice;
	slice[0] = (uint64_t)ancestors;
	slice[1] = UINT64_MAX;
	for (int i = 0; i < 64; i++)
		ancestors[5 * i + 4] = pc;
#elif LIE == 3 /* unreadable */
	it[288 / 8 + 1] = 0xffff800000000000;
#elif LIE == 4 /* everything points into it */
	for (int i = 2; i < 64; i++)
		it[i] = (uint64_t)it;
#elif LIE == 5 /* no address */
	it[288 / 8] = UINT64_MAX;
#elif LIE == 6 /* the stack of another, and no m */
	it[1] = 4096;
#elif LIE == 7 /* the same, and an m that is unreadable */
	it[1] = 4096;
	it[6] = 1ull << 63;
#elif LIE == 8 /* no g */
	g = 0xffffffffffffff00;
#endif
	while (clock() < CLOCKS_PER_SEC) {
		burn();
#if LIE == 1
		it[288 / 8] = pc += 4096;
#endif
	}
	maker();
	return 0;
}
C
burned='(_start;)?(__libc_start[^;]*;)*main;burn '
for lie in 0 1 2 3 4 5 6 7 8; do
	if ! cc -O1 -w -DLIE=$lie -DVERSION='"\x08go1.24.1"' -o liar liar.c 2>cc.err; then
		bad "lie $lie: $(cat cc.err)"
		continue
	fi
	what="lie $lie"
	rm -rf st
	ok "$what: recorded" "$ascribe" record -F 499 -o st -- ./liar
	"$ascribe" stat st --json >stat.json 2>/dev/null
	check "$what: accounting" s=stat.json -- 'exact(s) and s["stored"] > 100'
	"$ascribe" export st --format folded >folded 2>/dev/null
	case $lie in
	0 | 3) ok "$what: the maker" grep -qE "^liar;created by maker;$burned" folded ;;
	1) ok "$what: at no function" grep -qE "^liar;created by \[unknown\];$burned" folded ;;
	2) ok "$what: eight, no more" grep -qE "^liar;(created by maker;){8}$burned" folded ;;
	4) ok "$what: it made itself" grep -qE "^liar;(created by [^;]*;)+$burned" folded ;;
	*) ok "$what: none" sh -c "grep -qE '^liar;$burned' folded && ! grep created folded" ;;
	esac
done
cc -O1 -w -DLIE=0 -DVERSION='"\x06go1.99"' -o unknown liar.c
rm -rf st
ok "unknown: recorded" "$ascribe" record -F 499 -o st -- ./unknown
cp ok.err said
ok "unknown: it is said" grep 'run a Go of an unknown version (1.99)' said
ok "unknown: in stat" grep -x 'Go 1.99  *1' <("$ascribe" stat st 2>/dev/null)
ok "unknown: no makers" sh -c '! "$0" export st --format folded 2>/dev/null | grep created' "$ascribe"
finish
