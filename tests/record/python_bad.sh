#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like CPython: an honest one, and some that lie, in memory and in what they publish
# of their offsets.
. "$(dirname "$0")/lib.bash"
command -v cc >/dev/null || skip "no C compiler"

cat >liar.c <<'C'
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define __u16 uint16_t
#define __u32 uint32_t
#define __u64 uint64_t
#include "python_wire.h"
#define HEAD 4096
#define THREADS 512
#define COOKIE 0x7970677562656478 /* "xdebugpy" */
__attribute__((section(".PyRuntime"))) uint64_t _PyRuntime[20000] = { PUBLISHED };
const unsigned long Py_Version = VERSION;
uint64_t _PyEval_EvalFrameDefault(uint64_t n)
{
	for (int i = 0; i < 100000; i++)
		n = n * 31 + i;
	return n;
}
static uint64_t interpreter[200], thread[64], cframe[8], frame[2][16], code[32], text[16];
static void put(void *structure, unsigned at, uint64_t word)
{
	if (at != PYTHON_NOWHERE)
		memcpy((char *)structure + at, &word, 8);
}
static void be_honest(const struct python_layout *l)
{
	const int published = l->number >= 0x30d;
	uint32_t line = 15, state = 25u << l->width_bit; /* one byte each, compact, ASCII */
	put(_PyRuntime, published ? HEAD + 8 : l->main, (uint64_t)interpreter);
	put(interpreter, published ? THREADS : l->threads, (uint64_t)thread);
	put(thread, l->thread_id, pthread_self());
	put(thread, l->thread_frame, (uint64_t)frame[0]);
	if (l->cframe_frame != PYTHON_NOWHERE) {
		put(thread, l->thread_frame, (uint64_t)cframe);
		put(cframe, l->cframe_frame, (uint64_t)frame[0]);
	}
	for (int i = 0; i < 2; i++)
		put(frame[i], l->frame_code, (uint64_t)code | (l->number > 0x30d));
	put(frame[0], l->frame_previous, (uint64_t)frame[1]);
	put(code, l->code_file, (uint64_t)text);
	put(code, l->code_name, (uint64_t)text);
	memcpy((char *)code + l->code_line, &line, 4);
	put(text, l->string_length, 6);
	memcpy((char *)text + l->string_state, &state, 4);
	memcpy((char *)text + l->ascii, "honest", 6);
}
int main(void)
{
	const struct python_layout *l = python_layouts;
	uint64_t n = 1, *p = _PyRuntime + HEAD / 8;
	while (l->number != VERSION >> 16 || l->is_free != FREE)
		l++;
	be_honest(l);
#if LIE == 1 /* a round, of new code each time, whose name has no end */
	put(frame[1], l->frame_previous, (uint64_t)frame[0]);
	put(text, l->string_length, UINT64_MAX - 8);
#elif LIE == 2 /* everything points into it, in circles */
	for (size_t i = 0; i < 19000; i++)
		p[i] = (uint64_t)p + 8 * (i * 7919 % 9000);
	put(p, l->thread_id, pthread_self());
	if (l->number < 0x30d)
		put(_PyRuntime, l->main, (uint64_t)p);
#elif LIE == 3 /* unreadable; the thread is its own successor */
	put(code, l->code_name, 0xffff800000000000);
	put(thread, l->thread_id, 1);
	put(thread, l->thread_next, (uint64_t)thread);
#endif
	for (uint64_t i = 1; clock() < CLOCKS_PER_SEC; i++) {
#if LIE == 1
		memcpy((char *)code + l->code_line, &i, 4);
#endif
		n += _PyEval_EvalFrameDefault(n);
	}
	return n == 1;
}
C

# What a build of a version publishes: words of struct _Py_DebugOffsets, and what a lie changes.
published() { # version, free, lie
	local o=$((16 + 16 * $2)) i at id=152 owner
	local word=("[0]=COOKIE" "[1]=$1" "[2]=$2" "[5]=HEAD" "[9]=THREADS")
	case $1 in
	0x030d*) at=(21 23 24 29 30 33 35 37 39 68 69 70) owner=70 ;;
	0x030e*) at=(24 26 27 32 33 36 40 42 44 78 79 80) owner=$((74 + 4 * $2)) ;;
	0x030f*) at=(24 26 30 40 41 44 48 50 52 90 91 92) owner=74 id=176 ;;
	esac
	local value=(8 72 "$id" 8 0 "$owner" $((96 + o)) $((112 + o)) $((52 + o)) $((16 + o))
		$((o)) $((24 + o)))
	for i in "${!at[@]}"; do
		word+=("[${at[i]}]=${value[i]}")
	done
	case $3 in
	4) word+=("[0]=1") ;; # no cookie
	5) word+=("[1]=0x030c00f0") ;; # another version than the file has
	6) word+=("[${at[3]}]=0x10008") ;; # an offset too large for the table
	7) word+=("[${at[10]}]=24") ;; # an offset of another layout
	8) word+=("[5]=0xfffffffffffffff0") ;;
	9) word+=("[9]=0x40000") ;;
	10) word+=("[9]=12") ;;
	11) word+=("[2]=2") ;;
	esac
	(IFS=, && echo "${word[*]}")
}

run() { # version, free, lie
	local what="$1, lie $3" public=0
	[ "$2" = 0 ] || what="$1 without the lock, lie $3"
	[ $(($1)) -lt $((0x030d0000)) ] || public=$(published "$1" "$2" "$3")
	if ! cc -O1 -w -rdynamic -I"$source_root/include" -DVERSION="$1" -DFREE="$2" -DLIE="$3" \
		-DPUBLISHED="$public" -o liar liar.c 2>cc.err; then
		bad "$what: $(cat cc.err)"
		return
	fi
	rm -rf liar.st
	ok "$what: recorded" "$ascribe" record -F 499 -o liar.st -- ./liar
	cp ok.err said
	"$ascribe" stat liar.st --json >liar.json 2>/dev/null
	check "$what: accounting" s=liar.json -- 'exact(s) and s["stored"] > 10'
	"$ascribe" export liar.st --format folded >liar.folded 2>/dev/null
	if [ "$3" = 0 ]; then
		ok "$what: an honest one" grep -q ';honest;honest ' liar.folded
	elif [ "$3" -gt 3 ]; then
		ok "$what: it is said" grep \
			'CPython of an unknown version (3[.]1[0-9]t\? of an unusual build)' said
		ok "$what: its stacks stay native" sh -c \
			"grep -q _PyEval_EvalFrameDefault liar.folded && ! grep honest liar.folded"
	fi
}

for version in 0x030b07f0 0x030c01f0 0x030d00f0 0x030e0af0 0x030f02f0; do
	run $version 0 0
done
run 0x030d00f0 1 0
run 0x030e0af0 1 0
for lie in 1 2 3; do
	run 0x030b07f0 0 $lie
	run 0x030c01f0 0 $lie
	run 0x030e0af0 1 $lie
done
for lie in 4 5 6 7; do
	run 0x030d00f0 0 $lie
done
for lie in 8 9 10 11; do
	run 0x030e0af0 1 $lie
done
finish
