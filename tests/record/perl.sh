#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Perl frames without options, for each Perl 5 that is here, in the executable and as libperl: in
# the main thread, in three threads, in a forked child, in two interpreters of a C program. Whole
# chains, also through C; how the time is shared, against the program's own clock. The layouts
# against Perl's own headers.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
[ "$(uname -m)" = x86_64 ] || skip "Perl's frames are read on x86-64 alone"

# What a recording says: judge FOLDED DEPTH SHARE. The program is on the stacks of the main thread,
# and on no other.
cat >judge.py <<'PY'
least, tolerance = .9, .01

def sample_of(names):
    if 'App::walk' not in names:
        return None
    thread = any(f.startswith(('start', 'threads.so')) for f in names)
    named = (thread != ('{main}' in names) and
             not {'[perl]', '[anon]', '[unknown]'} & set(names))
    if 'App::burn' not in names:
        return named, None, False
    what = 'three' if 'App::Walk::three' in names else 'one'
    # Nothing in between: no native frame of the bytecode function is left.
    want = ['App::main', 'App::walk', 'App::timed', 'App::__ANON__',
            *['App::Walk::down'] * (depth + 1), 'App::__ANON__', 'App::Walk::' + what, 'App::burn']
    at = names.index('App::main')
    return named, what, names[at:at + len(want)] == want
PY
parts() { # part, pattern
	ok "$what: $1" seen parts.folded ";App::parts;App::Parts::$1;$2" "$(clock took "$1")" 60
}
native='([^;{]*;)+' # frames in C

while read -r perl; do
	version=${perl##*/}
	root=${perl%/usr/bin/*}
	run=(chroot "${root:-/}" "/usr/bin/$version")
	load=$(realpath "$here/perl/load.pl")
	[ -z "$root" ] || cp -rT "$here/perl" "$root/tmp/perl"
	[ -z "$root" ] || load=/tmp/perl/load.pl
	if ! "${run[@]}" -MTime::HiRes -MData::Dumper -Mthreads -e 1 2>cc.err; then
		echo "$version: left out: $(head -1 cc.err)"
		continue
	fi
	for mode in main threads child; do
		what="$version, $mode"
		rm -rf st
		ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- \
			"${run[@]}" "$load" "$mode" 4
		cp ok.out took
		"$ascribe" export st --format folded >st.folded 2>/dev/null
		ok "$what" judge st.folded 24 "$(share_of took)"
		ok "$what" rooted st 97
	done
	what=$version
	rm -rf parts
	ok "$what, parts: recorded" "$ascribe" record -q -F 499 -o parts -- \
		"${run[@]}" "$load" parts 0.4
	cp ok.out took
	"$ascribe" export parts --format folded >parts.folded 2>/dev/null
	b='App::burn(;| )'
	parts größe "$b"
	parts in_closure "App::Parts::__ANON__;$b"
	parts in_map "$b"
	parts in_sort_block "$native{sort};$b"
	parts in_sort_call "$native{sort};App::Parts::by_burning;$b"
	parts in_sort_sub "${native}App::Parts::by_global;$b"
	parts in_first "${native}App::Parts::__ANON__;$b"
	parts in_reduce "${native}App::Parts::__ANON__;$b"
	parts in_call ".*Perl_call_sv;App::Parts::__ANON__;$b"
	parts in_eval_block "$b"
	parts in_die "$b"
	parts in_callback_eval "${native}App::Parts::__ANON__;(App::Parts::inner;.*;)?$b"
	parts in_eval_string "{eval};$b"
	parts in_try "$b"
	parts in_tied "${native}App::Tied::FETCH;$b"
	parts in_overload "${native}App::Other::(__ANON__|DESTROY);$b"
	parts in_autoload "App::Other::AUTOLOAD;$b"
	parts in_regex "$native{regex};$b"
	parts in_substitution "$b"
	parts in_native '[^;]*;.*(Perl_regexec|Perl_newSV|Perl_sv_)'
	parts in_file "require[(]part.pl[)];$b"
	parts in_warning "${native}Perl_call_sv;App::Parts::__ANON__;$b"
	parts in_signal "${native}App::Parts::__ANON__;$b"
	parts in_format "App::Parts::REPORT;$b"
	for i in 0 3 7; do
		ok "$what: code where other code was: $i" seen parts.folded \
			";App::Parts::reused;{eval};App::Parts::m$i;$b" \
			"$(awk '$1 == "reused" { print $2 / 8 }' took)" 40
	done
	ok "$what: goto" seen parts.folded ";App::parts;App::Walk::one;$b" \
		"$(clock took in_goto)" 60
	ok "$what: deeper than can be kept" seen parts.folded "(;App::deep){200}.*;$b" \
		"$(clock took deep)" 60
	"$ascribe" report parts --json -n 0 >parts.json 2>/dev/null
	ok "$what: the language" jq -e '[.rows[] | select(.function == "App::burn")] |
		length == 1 and .[0].module == "[perl]"' parts.json
	# But what is being compiled or freed
	ok "$what: all code is known" jq -e '.samples as $all | ([.rows[] | select(
		.module == "[perl]" and .function == "[unknown]") | .samples] | add // 0) <
		0.001 * $all' parts.json
	ok "$what: the interpreter's own loop does not show" jq -e '.samples as $all |
		([.rows[] | select(.function == "Perl_runops_standard") | .samples] | add // 0) <
		0.01 * $all' parts.json
	"$ascribe" stat parts --json >parts.stat 2>/dev/null
	check "$what: accounting" s=parts.stat -- 'exact(s)'
	"$ascribe" export st --format pprof -o st.pb.gz 2>/dev/null
	line=$(grep -n "65521" "$here/perl/load.pl" | cut -d: -f1)
	! command -v go >/dev/null || ok "$what: file and line" \
		grep -qE "App::burn $load:$line" <(go tool pprof -raw st.pb.gz 2>/dev/null)
	rm -rf st
	ok "$what, waits: recorded" "$ascribe" record -q --wall -o st -- \
		"${run[@]}" "$load" doze_for 1
	ok "$what, waits: a second" awk '/;{main};App::doze_for;App::doze;/ { ns += $NF }
		END { print ns / 1e9 " s"; exit !(ns > 0.8e9 && ns < 1.5e9) }' <(
		"$ascribe" export st --format folded --event off-cpu 2>/dev/null)
	headers=$("${run[@]}" -MConfig -e 'print "$Config{archlibexp}/CORE"')
	if command -v cc >/dev/null && [ -r "$root$headers/perl.h" ]; then
		flags=(-O1 -w "-I$root$headers" "-I$source_root/include")
		read -ra more < <("${run[@]}" -MConfig -e 'print "$Config{ccflags}\n"')
		cc "${flags[@]}" "${more[@]}" -ffunction-sections \
			-Wl,--gc-sections,--unresolved-symbols=ignore-all -o layout \
			"$here/perl/layout.c" 2>cc.err || bad "layout: $(cat cc.err)"
		ok "$version: its headers say the same" ./layout
	fi
done < <(programs 'perl5.*[0-9]'; programs 'perl5.*-linux-gnu')
[ -n "${version:-}" ] || skip "no Perl 5 here"

# ---- two interpreters of a C program, each in a thread ----
lib=$(ldconfig -p | awk '/libperl[.]so[.]5/ { print $NF; exit }')
headers=$(perl -MConfig -e 'print "$Config{archlibexp}/CORE"')
if [ -n "$lib" ] && [ -r "$headers/perl.h" ] && command -v cc >/dev/null; then
	read -ra more < <(perl -MConfig -e 'print "$Config{ccflags}\n"')
	what="embedded"
	ok "$what: built" cc -O1 -w "${more[@]}" "-I$headers" -o embed "$here/perl/embed.c" "$lib" \
		-lpthread
	rm -rf st
	ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- ./embed "$here/perl/load.pl" 2
	cp ok.out took
	"$ascribe" export st --format folded >st.folded 2>/dev/null
	ok "$what" judge st.folded 24 "$(share_of took)"
	ok "$what" rooted st 97
fi
finish
