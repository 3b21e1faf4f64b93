#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ruby frames without options, for each Ruby 3 that is here: in the main thread, in three threads,
# in a forked child and with YJIT. Whole chains, also through C; how the time is shared, against
# the program's own clock. The layouts against Ruby's own headers. Then what only looks like Ruby,
# and lies.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"

# What a recording says: judge.py FOLDED DEPTH SHARE ROOT. Names with and without classes count.
cat >judge.py <<'PY'
import re, sys
least, tolerance = .9, .01
depth, truth, root = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
all = named = chains = three = one = 0
for line in open(sys.argv[1]):
    stack, n = line.rstrip('\n').rsplit(' ', 1)
    names = [re.sub(r'(^| )[A-Z][\w:]*[#.]', r'\1', f) for f in stack.split(';')]
    n = int(n)
    if 'walk' not in names:
        continue
    all += n
    # Of a child, code that only its parent ran may not be in its memory.
    at = names.index(root) if root in names else 0
    named += n * (root in names and
                  not any(f in names[at:] for f in ('[ruby]', '[anon]', '[unknown]')))
    if 'burn' not in names:
        continue
    what = 'three' if 'three' in names else 'one'
    three += n * (what == 'three')
    one += n * (what == 'one')
    # Nothing in between: no native frame of the bytecode function is left.
    want = [root, 'main', 'walk', 'timed', 'block in walk', *['down'] * (depth + 1),
            'block (2 levels) in walk', what, 'burn']
    chains += n * (names[at:at + len(want)] == want)
PY
parts() { # part, pattern
	ok "$what: $1" seen parts.folded ";(App::Parts#)?$1;$2" "$(clock took "$1")" 60
}

# Each Ruby 3 that is here: the root it runs in, and its program.
rubies() {
	local p
	for p in /usr/bin/ruby3.? "$here"/../../build/roots/*/usr/bin/ruby3.?; do
		[ ! -x "$p" ] || echo "$p"
	done
}
while read -r ruby; do
	version=${ruby##*/}
	root=${ruby%/usr/bin/*}
	run=(chroot "${root:-/}" "/usr/bin/$version")
	load=$(realpath "$here/ruby/load.rb")
	[ -z "$root" ] || cp -rT "$here/ruby" "$root/tmp/ruby"
	[ -z "$root" ] || load=/tmp/ruby/load.rb
	for mode in main threads child "--yjit main"; do
		what="$version, $mode"
		option=${mode%main}
		[ "$option" != "$mode" ] || option=
		# shellcheck disable=SC2086 # an option, or none
		[ -z "${option// /}" ] || "${run[@]}" $option -e 1 2>/dev/null || continue
		rm -rf st
		# shellcheck disable=SC2086 # an option, or none
		ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- \
			"${run[@]}" $option "$load" "${mode##* }" 4
		cp ok.out took
		"$ascribe" export st --format folded >st.folded 2>/dev/null
		from='<main>'
		[ "$mode" != threads ] || from='block (2 levels) in threads'
		[ "$mode" != child ] || from='block in child'
		ok "$what" judge st.folded 24 "$(share_of took)" "$from"
		# Code of YJIT has no unwind rules.
		[ -n "${option// /}" ] || ok "$what" rooted st 97
	done
	what=$version
	rm -rf parts
	ok "$what, parts: recorded" "$ascribe" record -q -F 499 -o parts -- \
		"${run[@]}" "$load" parts 0.4
	cp ok.out took
	"$ascribe" export parts --format folded >parts.folded 2>/dev/null
	b='(App.)?burn(;| )'
	parts größe "$b"
	parts in_block ".*rb_ary_each;(.*;)?block in (App::Parts#)?in_block;$b"
	parts in_nested ".*block [(]2 levels[)] in (App::Parts#)?in_nested;$b"
	parts in_times "(.*;)?block in (App::Parts#)?in_times;$b"
	parts in_lambda "(.*;)?block in (App::Parts#)?in_lambda;$b"
	parts in_send "(.*;)?$b"
	parts in_method "(.*;)?$b"
	parts in_module "(App::Shared#)?shared;$b"
	parts in_defined "(.*;)?block in <class:First>;$b"
	parts in_missing "(.*;)?(App::First#)?method_missing;$b"
	parts in_match "(App::First#)?with_match;(.*;)?block in (App::First#)?with_match;$b"
	parts in_compare "(.*;)?(App::First#)?<=>;$b"
	parts in_rescue "(.*;)?rescue in (App::Parts#)?in_rescue;$b"
	parts in_eval "(.*;)?(App::Parts#)?in_eval;$b"
	parts in_string "(.*;)?(App::Parts#)?in_string;$b"
	parts in_file "(.*;)?<top [(]required[)]>;$b"
	parts in_c "(.*;)?rb_ary_sort_bang;"
	for i in 0 3 7; do
		ok "$what: code where other code was: $i" seen parts.folded "[;#]m$i;$b" \
			"$(awk '$1 == "reused" { print $2 / 8 }' took)" 40
	done
	# A fiber has a stack of its own.
	for part in fiber enumerator thread; do
		ok "$what: in_$part" seen parts.folded "block in (App::Parts#)?in_$part;(.*;)?$b" \
			"$(clock took "in_$part")" 60
	done
	ok "$what: deeper than can be kept" seen parts.folded "(;(App::Walk#)?down){200}.*;$b" \
		"$(clock took deep)" 60
	"$ascribe" report parts --json -n 0 >parts.json 2>/dev/null
	ok "$what: the language" jq -e '[.rows[] | select(.function | test("^(App.)?burn$"))] |
		length == 1 and .[0].module == "[ruby]"' parts.json
	ok "$what: all code is known" jq -e '[.rows[] |
		select(.module == "[ruby]" and .function == "[unknown]")] | length == 0' parts.json
	"$ascribe" stat parts --json >parts.stat 2>/dev/null
	check "$what: accounting" s=parts.stat -- 'exact(s)'
	"$ascribe" export st --format pprof -o st.pb.gz 2>/dev/null
	line=$(grep -n 'def self.burn' "$here/ruby/load.rb" | cut -d: -f1)
	! command -v go >/dev/null || ok "$what: file and line" \
		grep -qE "burn $load:$line" <(go tool pprof -raw st.pb.gz 2>/dev/null)
	rm -rf st
	ok "$what, waits: recorded" "$ascribe" record -q --wall -o st -- "${run[@]}" "$load" wait 1
	ok "$what, waits: a second" awk '/;<main>;.*doze;/ { ns += $NF }
		END { print ns / 1e9 " s"; exit !(ns > 0.8e9 && ns < 1.5e9) }' <(
		"$ascribe" export st --format folded --event off-cpu 2>/dev/null)
	header=$(echo /usr/include/*/ruby-3.*/rb_mjit_min_header-"${version#ruby}".*.h)
	if [ -z "$root" ] && [ -r "$header" ] && command -v cc >/dev/null; then
		cc -O1 -w -ffunction-sections -Wl,--gc-sections,--unresolved-symbols=ignore-all \
			-I"$source_root/include" -DRUBY_HEADER="\"$header\"" \
			-DRUBY_API_VERSION_MAJOR=3 -DRUBY_API_VERSION_MINOR="${version#ruby3.}" \
			-o layout "$here/ruby/layout.c" 2>cc.err || bad "layout: $(cat cc.err)"
		ok "$version: its headers say the same" ./layout
	fi
done < <(rubies)
[ -n "${version:-}" ] || echo "no Ruby 3 here: only what looks like it"

# ---- what only looks like Ruby ----
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
if command -v cc >/dev/null && [ "$(uname -m)" = x86_64 ]; then
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
	background bash -c 'while sleep 0.2; do ./ruby9.9; done'
	sleep 0.7
	ok "unknown: in check" grep '^note  Ruby .*3[.]99.*ascribe knows Ruby' <(
		"$ascribe" check 2>&1)
	kill "$pid" 2>/dev/null
fi
finish
