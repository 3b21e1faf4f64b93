#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LuaJIT frames without options, for each LuaJIT 2.1 that is here: interpreted and compiled, in
# coroutines, and in two states in two threads of a C program. Whole chains, also through C; how
# the time is shared, against the program's own clock. The layouts against LuaJIT's own headers, of
# sources that were unpacked and built in build/luajit/.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"

# What a recording says: judge.py FOLDED DEPTH SHARE TOP, where TOP calls timed(). Functions that
# are called by a parameter have its name and their place: the lines are those of the source.
cat >judge.py <<'PY'
import re, sys
least, tolerance = .97, .01
top = sys.argv[4]
place = {}
for i, line in enumerate(open(sys.argv[5]), 1):
    found = re.match(r'function App\.(\w+)', line)
    if found:
        place['f <load.lua:%d>' % i] = place['load.lua:%d' % i] = found[1]

def sample_of(names):
    names = [place.get(f, f) for f in names]
    # Calibration is not part of either function, and what is not walked yet has no names.
    if 'speed' in names or '_dl_start' in names:
        return None
    at = names.index(top) if top in names else len(names)
    named = ('main chunk' in names[:at] and
             not {'[luajit]', '[anon]', '[unknown]'} & set(names[at:]))
    kind = [f for f in names[at:] if f in ('three', 'one', 'inline_three', 'inline_one')]
    if not kind:
        return named, None, False
    want = [*['walk'] * (depth > 0), 'timed', *['down'] * (depth + 1) * (depth > 0), kind[0]]
    whole = names[at + 1:at + 1 + len(want)] == want
    return named, kind[0].removeprefix('inline_'), whole
PY
parts() { # part, pattern
	ok "$what: $1" seen parts.folded ";part;$2" "$(clock took "$1")" 60
}
sums() { awk '{ s[$1] += $2 } END { for (k in s) print k, s[k] }' ok.out >took; }

while read -r luajit; do
	version=${luajit%/usr/bin/*}
	root=$version
	version=luajit${version:+ in ${version##*/}}
	run=(chroot "${root:-/}" /usr/bin/luajit)
	load=$(realpath "$here/luajit/load.lua")
	source=$load states=$loads/lua_states
	[ -z "$root" ] || cp -rT "$here/luajit" "$root/tmp/luajit"
	[ -z "$root" ] || cp "$states" "$root/tmp/luajit/"
	[ -z "$root" ] || load=/tmp/luajit/load.lua states=/tmp/luajit/lua_states
	"${run[@]}" -e 'require "ffi"' || continue
	for mode in main "-joff main" coroutine "-joff coroutine" inline "-joff inline" states; do
		what="$version, $mode"
		option=${mode%"${mode##* }"}
		top=work depth=24 mode=${mode##* }
		[ "$mode" != inline ] || top=inline depth=0
		command=("${run[@]}" ${option:+$option})
		[ "$mode" != states ] || command=(chroot "${root:-/}" "$states") mode=main
		rm -rf st
		ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- \
			"${command[@]}" "$load" "$mode" 4
		sums
		"$ascribe" export st --format folded >st.folded 2>/dev/null
		ok "$what" judge st.folded $depth "$(share_of took)" $top "$source"
		ok "$what" rooted st 97
	done
	what=$version
	rm -rf parts
	ok "$what, parts: recorded" "$ascribe" record -q -F 499 -o parts -- \
		"${run[@]}" -joff "$load" parts 0.4
	cp ok.out took
	"$ascribe" export parts --format folded >parts.folded 2>/dev/null
	b='burn(;| )'
	parts in_local 'fire(;| )'
	parts in_global 'blaze(;| )'
	ok "$what: in_upvalue, in_field, in_method" seen parts.folded ";part;(burn;)?$b" "$(awk '
		/^in_(upvalue|field|method) / { s += $2 } END { print s }' took)" 60
	parts in_closure "inner;$b"
	parts in_anonymous "load.lua:[0-9]+;$b"
	parts in_varargs "many;$b"
	parts in_pcall 'pcall;load.lua:[0-9]+(;| )'
	parts in_xpcall "xpcall;load.lua:[0-9]+;(error;[^<]*)?$b"
	parts in_gsub "gsub;.*load.lua:[0-9]+;$b"
	parts in_sort "sort;.*load.lua:[0-9]+;$b"
	parts in_wrap "[[]builtin#[0-9]+];load.lua:[0-9]+;$b"
	parts in_resumed "resume;load.lua:[0-9]+;$b"
	parts in_iterator "[(]for generator[)];$b"
	parts in_index "__index;$b"
	parts in_add "__add;$b"
	parts in_call "Meta;$b"
	parts in_string "f;$b"
	parts in_file 'dofile;.*main chunk;fire(;| )'
	parts in_c 'sort(;(lua|\\+)[^;]*)* '
	parts in_callback "qsort;.*qsort_r;.*load.lua:[0-9]+;$b"
	# LuaJIT has no frame for what was called last, and names its callee by its caller's call.
	ok "$what: in_tail" seen parts.folded ';part( |;asm_)' "$(clock took in_tail)" 60
	for i in 0 3 7; do
		ok "$what: code where other code was: $i" seen parts.folded ";f;m$i;$b" \
			"$(awk '$1 == "reused" { print $2 / 8 }' took)" 40
	done
	ok "$what: deeper than can be kept" seen parts.folded \
		"(;down){200}.*;f <load.lua:[0-9]+>(;| )" "$(clock took deep)" 60
	"$ascribe" report parts --json -n 0 >parts.json 2>/dev/null
	ok "$what: the language" jq -e '[.rows[] | select(.function == "burn")] |
		length >= 1 and .[0].module == "[luajit]"' parts.json
	ok "$what: all code is known" jq -e '[.rows[] |
		select(.module == "[luajit]" and .function == "[unknown]")] | length == 0' parts.json
	"$ascribe" stat parts --json >parts.stat 2>/dev/null
	check "$what: accounting" s=parts.stat -- 'exact(s)'
	"$ascribe" export parts --format pprof -o parts.pb.gz 2>/dev/null
	line=$(grep -n 'x \* 31 + i' "$source" | head -n 1 | cut -d: -f1)
	! command -v go >/dev/null || ok "$what: file and line" \
		grep -qE "burn $load:$line" <(go tool pprof -raw parts.pb.gz 2>/dev/null)
	rm -rf st
	ok "$what, waits: recorded" "$ascribe" record -q --wall -o st -- "${run[@]}" "$load" wait 1
	ok "$what, waits: a second" awk '/;main chunk;.*doze;/ { ns += $NF }
		END { print ns / 1e9 " s"; exit !(ns > 0.8e9 && ns < 1.5e9) }' <(
		"$ascribe" export st --format folded --event off-cpu 2>/dev/null)
done < <(programs luajit)
[ -n "${version:-}" ] || skip "no LuaJIT here"
if command -v cc >/dev/null; then
	for source in "$here"/../../build/luajit/*/src; do
		[ -r "$source/lj_bcdef.h" ] || continue
		cc -w -I"$source" -I"$source_root/include" -o layout "$here/luajit/layout.c" \
			2>cc.err || bad "layout: $(cat cc.err)"
		ok "$source: its headers say the same" ./layout
	done
fi
finish
