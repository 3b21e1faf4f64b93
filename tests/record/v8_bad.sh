#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like V8: an honest one, and some that lie. Then functions that are freed and moved
# while they are named, in the Node that is here.
. "$(dirname "$0")/lib.bash"
[ "$(uname -m)" = x86_64 ] || skip "only x86-64 code is walked"
command -v cc >/dev/null || skip "no C compiler"

# ---- what only looks like V8: an honest one, and some that lie ----
cat >lies.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
/* Another V8 than all that there are: what is published counts, not what Node does. */
#define V(name, value) int v8dbg_##name = value;
V(off_fp_function, -16) V(off_fp_context, -8) V(class_HeapObject__map__Map, 0)
V(class_Map__instance_type__uint16_t, 14) V(class_JSFunction__shared__SharedFunctionInfo, 40)
V(class_SharedFunctionInfo__name_or_scope_info__Object, 32)
V(class_SharedFunctionInfo__script__HeapObject, 48)
V(class_SharedFunctionInfo__internal_formal_parameter_count__uint16_t, 12)
V(class_SharedFunctionInfo__raw_function_token_offset__int16_t, 14)
V(class_Script__source__Object, 24) V(class_Script__line_ends__Object, 40)
#if LIE != 1
V(class_Script__name__Object, 32)
#endif
V(scopeinfo_idx_ncontextlocals, 4)
#if LIE == 2
V(scopeinfo_idx_first_vars, 0x7fffffff)
#else
V(scopeinfo_idx_first_vars, 5)
#endif
V(class_String__length__int32_t, 8) V(class_SeqOneByteString__chars__char, 16)
V(class_SeqTwoByteString__chars__char, 16) V(class_ConsString__first__String, 16)
V(class_ConsString__second__String, 24) V(class_ThinString__actual__String, 16)
V(class_SlicedString__parent__String, 16) V(class_SlicedString__offset__SMI, 24)
V(class_FixedArrayBase__length__SMI, 8) V(class_FixedArray__data__uintptr_t, 16)
V(type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 301) V(type_ScopeInfo__SCOPE_INFO_TYPE, 302)
V(type_Script__SCRIPT_TYPE, 303) V(type_FixedArray__FIXED_ARRAY_TYPE, 304)
V(FirstNonstringType, 128) V(StringEncodingMask, 8) V(OneByteStringTag, 8)
V(StringRepresentationMask, 7) V(SeqStringTag, 0) V(ConsStringTag, 1) V(SlicedStringTag, 3)
V(ThinStringTag, 5) V(JSFunctionRegister, 7) V(SmiTag, 0) V(SmiTagMask, 1) V(TaggedSize, 8)
V(SmiShiftSize, 31) V(HeapObjectTag, 1) V(HeapObjectTagMask, 3)

#define P(object) ((uint64_t)(object) + 1)
#define SMI(n) ((uint64_t)(n) << 32)
static uint64_t shared_map[2], scope_map[2], script_map[2], array_map[2], one_map[2], two_map[2], cons_map[2], sliced_map[2], other_map[2];
static void is(uint64_t map[2], int type) { map[1] = (uint64_t)type << 48; }
static uint64_t *string(uint64_t *map, const void *text, unsigned n, unsigned bytes)
{
	uint64_t *s = calloc(1, 16 + bytes + 8);
	s[0] = P(map);
	s[1] = n;
	memcpy(s + 2, text, bytes);
	return s;
}
static uint64_t *pair(uint64_t *map, unsigned n, uint64_t a, uint64_t b)
{
	uint64_t *s = string(map, "", n, 16);
	s[2] = a;
	s[3] = b;
	return s;
}
int main(void)
{
	/* push %rbp; mov %rsp, %rbp; push %rsi; push %rdi; mov $5000000, %ecx; dec %ecx; jnz; ... */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x56, 0x57, 0xb9, 0x40, 0x4b, 0x4c, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5f, 0x5e, 0x5d, 0xc3 };
	uint64_t function[8] = { 0 }, shared[16] = { 0 }, scope[16] = { 0 }, script[8] = { 0 }, other[2] = { P(other_map) }, ends[2] = { 0 };
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	is(shared_map, 301), is(scope_map, 302), is(script_map, 303), is(array_map, 304), is(other_map, 500);
	is(one_map, 8), is(two_map, 0), is(cons_map, 8 + 1), is(sliced_map, 8 + 3);
	function[0] = P(other_map);
	function[5] = P(shared);
	shared[0] = P(shared_map);
	shared[4] = P(scope);
	shared[6] = P(script);
	scope[0] = P(scope_map);
	scope[5] = SMI(1); /* a variable: its name and its word */
	scope[8] = P(pair(cons_map, 8, P(string(one_map, "hon", 3, 3)), P(pair(sliced_map, 5, P(string(two_map, "e\0s\0t\0\xf6\0s\0s\0", 6, 12)), SMI(0)))));
	scope[9] = SMI(7);
	scope[10] = P(other);
	scope[11] = SMI(9); /* where it begins */
	script[0] = P(script_map);
	script[3] = P(string(one_map, "a\nb\nc\nfunction", 14, 14));
	script[4] = P(string(one_map, "file:///x/y/honest.js", 21, 21));
	script[5] = P(other);
#if LIE == 3 /* strings without an end; a new function each time */
	uint64_t *round = pair(cons_map, 1u << 29, 0, 0), *slice = pair(sliced_map, 100, 0, SMI(1u << 30)), *big = string(one_map, "", 1u << 30, 8);
	round[2] = round[3] = P(round);
	slice[2] = P(slice);
	scope[5] = SMI(65536);
	scope[8] = P(round);
	script[4] = P(slice);
	script[3] = P(big);
	ends[0] = P(array_map);
	ends[1] = SMI(0x7fffffff);
	script[5] = P(ends);
#elif LIE == 4 /* everything is a map, a function and a scope */
	memset(function, 0, sizeof(function));
	for (int i = 0; i < 8; i++)
		function[i] = P(function);
#endif
	for (unsigned i = 0; clock() < 2 * CLOCKS_PER_SEC; i++) {
#if LIE == 3
		((uint16_t *)shared)[6] = i;
		scope[5] = i % 2 ? SMI(1) : SMI(0);
		scope[8] = scope[6] = i % 3 ? P(round) : P(big);
#endif
		((void (*)(uint64_t, uint64_t))p)(P(function), P(other));
	}
}
C
share() { # store, function
	"$ascribe" report "$1" --json -n 1000 2>/dev/null |
		jq -r --arg f "$2" '[.rows[] | select(.function == $f) | .share * 100] | add // 0 | floor'
}
for lie in 0 1 2 3 4; do
	cc -O1 -w -rdynamic -DLIE=$lie -o lies lies.c 2>cc.err || {
		bad "lie $lie: $(cat cc.err)"
		continue
	}
	rm -rf lie
	ok "lie $lie: recorded" "$ascribe" record -F 499 -o lie -- ./lies
	cp ok.err said
	"$ascribe" stat lie --json >lie.json 2>/dev/null
	ok "lie $lie: every sample is accounted for" \
		jq -e '.fired == .stored + ([.lost | .. | numbers] | add // 0)' lie.json
	case $lie in
	0)
		got=$(share lie honestös)
		ok "an honest V8: its function, with $got%" test "$got" -ge 90
		"$ascribe" export lie --format pprof -o lie.pb.gz 2>/dev/null
		! command -v go >/dev/null || ok "an honest V8: where it stands" \
			grep -q 'honestös /x/y/honest.js:4' <(
				go tool pprof -raw lie.pb.gz 2>/dev/null)
		;;
	1)
		ok "a V8 without a number: it is said" \
			grep 'V8 of an unknown version.*Script__name__' said
		ok "a V8 without a number: in stat" \
			grep -x 'V8 without v8dbg_class_Script__name__  *1' <(
				"$ascribe" stat lie 2>/dev/null)
		;;
	2)
		ok "a V8 with a wild number: it is said" \
			grep 'V8 of an unknown version.*first_vars' said
		;;
	esac
done

command -v node >/dev/null || finish
# Too long to be inlined: a function that is inlined has no frame.
body=$(for _ in $(seq 40); do echo 'x = (Math.imul(x, 1664525) + 1013904223) | 0; x ^= x >>> 7;'; done)
cat >moving.js <<JS
'use strict';
const clock = () => { const u = process.cpuUsage(); return u.user + u.system; };
const body = \`$body\`;
let sink = 0;
for (let i = 0, end = clock() + process.argv[2] * 1000; clock() < end; i++) {
	const text = 'let x = n | 0; for (let i = 0; i < n; i++) { ' + body + ' } return x;';
	const inner = new Function('n', 'return function inner_' + i + '(n) { ' + text + ' }')();
	const outer = new Function('inner', 'return function outer_' + i + '(n) { return inner(n) + 1; }')(inner);
	sink += outer(10000);
	if (i % 4 == 0) gc();
	sink += outer(10000);
}
JS
cat >moving.py <<'PY'
import re, sys
pairs = wrong = all = 0
for line in open(sys.argv[1]):
    stack, n = line.rstrip('\n').rsplit(' ', 1)
    names, n = stack.split(';'), int(n)
    all += n
    for a, b in zip(names, names[1:]):
        if not re.fullmatch(r'inner_\d+', b):
            continue
        # Nobody but its own outer calls it.
        pairs += n * (a == 'outer_' + b[6:])
        wrong += n * (a != 'outer_' + b[6:] and not a.startswith(('[node]', '[anon]', 'Builtins_')))
print('%d samples, %d of pairs that are right, %d wrong names' % (all, pairs, wrong))
sys.exit(not (pairs > 100 and not wrong))
PY
# A name may be missing, but none is another one's.
ok "moving: recorded" "$ascribe" record -q -F 499 -o v8 -- node --expose-gc --stress-compaction \
	moving.js 3000
"$ascribe" export v8 --format folded >v8.folded 2>/dev/null
ok "moving" python3 -I -S moving.py v8.folded
finish
