#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ruby frames without options, for each Ruby 3 that is here: in the main thread, in three threads,
# in a forked child and with YJIT. Whole chains, also through C; how the time is shared, against
# the program's own clock. The layouts against Ruby's own headers.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"

# What a recording says: judge FOLDED DEPTH SHARE ROOT. Names with and without classes count.
cat >judge.py <<'PY'
import re
least, tolerance = .9, .01

def sample_of(names):
    root = sys.argv[4]
    names = [re.sub(r'(^| )[A-Z][\w:]*[#.]', r'\1', f) for f in names]
    if 'walk' not in names:
        return None
    # Of a child, code that only its parent ran may not be in its memory.
    at = names.index(root) if root in names else 0
    named = root in names and not {'[ruby]', '[anon]', '[unknown]'} & set(names[at:])
    if 'burn' not in names:
        return named, None, False
    what = 'three' if 'three' in names else 'one'
    # Nothing in between: no native frame of the bytecode function is left.
    want = [root, 'main', 'walk', 'timed', 'block in walk', *['down'] * (depth + 1),
            'block (2 levels) in walk', what, 'burn']
    return named, what, names[at:at + len(want)] == want
PY
parts() { # part, pattern
	ok "$what: $1" seen parts.folded ";(App::Parts#)?$1;$2" "$(clock took "$1")" 60
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
done < <(programs 'ruby3.?')
[ -n "${version:-}" ] || skip "no Ruby 3 here"
finish
