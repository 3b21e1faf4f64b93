#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Python frames without the interpreter's help, for each CPython 3.11 to 3.15 that is here, also
# without the lock (3.13t, 3.14t). In the main thread, in three threads, in a forked child. Whole
# chains, also through C, in generators, in threads that have let go of the lock or have many
# beside them. How the time is shared, against the program's own clock. The layouts against
# CPython's own headers.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"

# What a recording says: judge FOLDED DEPTH SHARE ROOT.
cat >judge.py <<'PY'
least, tolerance = .9, .01

def sample_of(names):
    if 'walk' not in names:
        return None
    at = names.index('walk')
    named = sys.argv[4] in names[:at] and not {'[python]', '[anon]', '[unknown]'} & set(names)
    if 'burn' not in names:
        return named, None, False
    what = 'three' if 'Walk.three' in names else 'one'
    # Nothing in between: no native frame of the bytecode function is left.
    want = ['walk', *['Walk.down'] * (depth + 1), 'Walk.' + what, 'burn']
    return named, what, names[at:at + len(want)] == want
PY

# Each CPython of a version that is read, once.
interpreters() {
	local p v known=
	for p in $(programs 'python3.1[1-5]') $(programs 'python3.1[34]t') \
		"$HOME"/.pyenv/versions/3.1[1-5].*/bin/python3.1[1-5] \
		/root/.pyenv/versions/3.1[1-5].*/bin/python3.1[1-5]; do
		v=${p##*/}
		[ -x "$p" ] || continue
		case $known in *" $v "*) continue ;; esac
		known="$known $v "
		echo "$p"
	done
}

parts() {
	local st=parts
	ok "$what: a method" seen $st.folded ';<module>;main;parts;timed;([^;<]*;)*Server[.]heavy;spend(;| )' \
		"$(clock took Server.heavy)" 80
	ok "$what: another" seen $st.folded ';<module>;main;parts;timed;([^;<]*;)*Server[.]light;spend(;| )' \
		"$(clock took Server.light)" 70
	ok "$what: not ASCII" seen $st.folded ';<module>;main;parts;timed;([^;<]*;)*Server[.]größe;spend(;| )' \
		"$(clock took Server.größe)" 60
	ok "$what: from a class that is called" seen $st.folded \
		';timed;([^;<]*;)*in_init;([^;<]*;)*Made[.]__init__;spend(;| )' "$(clock took in_init)" 70
	ok "$what: called back by C" seen $st.folded \
		';timed;([^;<]*;)*through_c;[^<]*;through_c[.]<locals>[.]by_key;spend(;| )' "$(clock took through_c)" 60
	ok "$what: C is in between" seen $st.folded \
		';through_c;([^;<]*;)*[^;<]*(sort|[+]0x)[^<]*;through_c[.]<locals>[.]by_key;' "$(clock took through_c)" 60
	ok "$what: a generator" seen $st.folded ';timed;([^;<]*;)*in_generator;([^;<]*;)*numbers;spend(;| )' \
		"$(clock took in_generator)" 60
	for i in 0 3 7; do
		ok "$what: code where other code was: $i" seen $st.folded \
			";([^;<]*;)*reuse;([^;<]*;)*reused_$i;spend(;| )" 0.05 30
	done
	ok "$what: deeper than can be kept" seen $st.folded '(;deep){100}.*;spend(;| )' \
		"$(clock took deep)" 60
	ok "$what: a thread that has let go of the lock" seen $st.folded \
		';([^;]*bootstrap[^;]*|Thread[.]run);.*timed;([^;<]*;)*without_lock;' "$(clock took without_lock)" 70
	ok "$what: a thread with 200 newer ones" seen $st.folded ';oldest;spend(;| )' 0.2 60
	ok "$what: a child that was forked" seen $st.folded ';main;parts;forked;spend(;| )' 0.2 50
	ok "$what: where" test "$("$ascribe" export $st --format pprof -o - 2>/dev/null | gzip -dc | grep -ac 'load\.py')" -ge 1
	"$ascribe" report $st --json -n 0 >$st.json 2>/dev/null
	ok "$what: the language" jq -e '[.rows[] | select(.function == "Server.heavy")] | length == 1 and .[0].module == "[python]"' $st.json
	ok "$what: the interpreter's own frames do not show" jq -e '.samples as $all |
		([.rows[] | select(.function | startswith("_PyEval_EvalFrameDefault")) | .samples] | add // 0) < 0.15 * $all' $st.json
	ok "$what: all code is known" jq -e '[.rows[] | select(.module == "[python]" and .function == "[unknown]")] | length == 0' $st.json
	"$ascribe" stat $st --json >$st.stat 2>/dev/null
	check "$what: accounting" s=$st.stat -- 'exact(s)'
}

while read -r python; do
	version=${python##*/}
	root=${python%/usr/bin/*}
	[ "$root" != "$python" ] || root=
	run=("$python")
	load=$(realpath "$here/python/load.py")
	if [ -n "$root" ]; then
		cp -rT "$here/python" "$root/tmp/python"
		run=(chroot "$root" "/usr/bin/$version")
		load=/tmp/python/load.py
	fi
	for mode in main threads child; do
		what="$version, $mode"
		rm -rf st
		ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- \
			"${run[@]}" "$load" $mode 4
		cp ok.out took
		"$ascribe" export st --format folded >st.folded 2>/dev/null
		from=main
		[ $mode != threads ] || from=Thread.run
		[ $mode != child ] || from=in_child
		ok "$what" judge st.folded 24 "$(share_of took)" $from
		ok "$what" rooted st 97
	done
	what=$version
	rm -rf parts
	ok "$what, parts: recorded" "$ascribe" record -q -F 499 -o parts -- \
		"${run[@]}" "$load" parts 0
	cp ok.out took
	"$ascribe" export parts --format folded >parts.folded 2>/dev/null
	parts
	include=${python%/bin/*}/include
	if [ -r "$include/$version/internal/pycore_frame.h" ] && command -v cc >/dev/null; then
		rm -rf include && mkdir include # Debian's pyconfig.h is in a folder of the machine
		ln -s "$include/$(uname -m)-linux-gnu" include
		cc -w -I"$source_root/include" -Iinclude -I"$include/$version" \
			-I"$include/$version/internal" -o layout "$here/python/layout.c" \
			2>cc.err || bad "layout: $(cat cc.err)"
		ok "$version: its headers say the same" ./layout
	fi
done < <(interpreters)
[ -n "${version:-}" ] || skip "no CPython from 3.11 to 3.15 here"
finish
