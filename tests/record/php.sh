#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PHP frames without options, for each PHP 8 that is here: on the command line, in a server over
# FastCGI, with and without opcache and its compiler. Whole chains, also through C; how the time is
# shared, against the program's own clock. The layouts against PHP's own headers.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
load=$(realpath "$here/php/load.php")

# What a recording says: judge FOLDED DEPTH SHARE. Samples before main() count as all others.
cat >judge.py <<'PY'
least, tolerance = .8, .01

def sample_of(names):
    if 'php_module_startup' in names or '_dl_start' in names:
        return None
    what = ('three' if 'App\\Walk::three' in names else
            'one' if 'App\\Walk::one' in names else None)
    return (not {'[php]', '[anon]', '[unknown]', 'execute_ex'} & set(names), what,
            names.count('App\\Walk::down') == depth + 1 and names.count('{main}') == 1 and
            names.index('{main}') < names.index('App\\main') < names.index('App\\timed') <
            names.index('App\\Walk::down'))
PY
parts() { # part, pattern
	ok "$what: $1" seen parts.folded ";App.timed;[^<]*App.Parts::$1;$2" "$(clock took "$1")" 60
}
judge_it() {
	"$ascribe" export st --format folded >st.folded 2>/dev/null
	ok "$what" judge st.folded 24 "$(share_of took)"
}

while read -r php; do
	version=${php##*/}
	root=${php%/usr/bin/*}
	run=(chroot "${root:-/}" "/usr/bin/$version")
	[ -z "$root" ] || cp -rT "$here/php" "$root/tmp/php"
	[ -z "$root" ] || load=/tmp/php/load.php
	for mode in "" "-d opcache.enable_cli=1" \
		"-d opcache.enable_cli=1 -d opcache.jit_buffer_size=32M -d opcache.jit=tracing" \
		"-d opcache.enable_cli=1 -d opcache.jit_buffer_size=32M -d opcache.jit=function"; do
		what="$version${mode:+,${mode//-d opcache./ }}"
		rm -rf st
		# shellcheck disable=SC2086 # options
		ok "$what: recorded" "$ascribe" record -q -F 499 -o st -- \
			"${run[@]}" $mode "$load" main 4
		cp ok.out took
		judge_it
		case $mode in
		"" | *cli=1) ok "$what" rooted st 97 ;;
		esac
		[ -z "$mode" ] || continue
		rm -rf parts
		ok "$what, parts: recorded" "$ascribe" record -q -F 499 -o parts -- \
			"${run[@]}" "$load" parts 0.4
		cp ok.out took
		"$ascribe" export parts --format folded >parts.folded 2>/dev/null
		parts größe 'App.burn(;| )'
		parts in_closure 'App.Parts::(App.)?[{]closure[^;]*;App.burn(;| )'
		parts through_c 'array_map;([^<]*;)?zend_call_function;App.burn(;| )'
		parts in_generator '([^<]*;)?zend_generator_resume;App.Parts::numbers;App.burn(;| )'
		parts in_delegate \
			'App.Parts::delegated;([^<]*;)?zend_generator_resume;App.Parts::numbers;App.burn(;| )'
		parts in_fiber 'Fiber::start;App.Parts::(App.)?[{]closure[^;]*;App.burn(;| )'
		parts in_trait 'App.(First|Second)::shared;App.burn(;| )'
		parts in_anonymous 'App.Walk@anonymous::own;App.burn(;| )'
		parts in_file 'include[(]part.php[)];App.burn(;| )'
		parts in_eval '[{]eval[}];App.burn(;| )'
		parts internal '(hash|str_repeat)(;| )'
		for i in 0 3 7; do
			ok "$what: code where other code was: $i" seen parts.folded \
				";class@anonymous::m$i;App.burn(;| )" 0.05 30
		done
		ok "$what: a trait by the class that uses it" awk '
			/First::shared/ { a += $NF } /Second::shared/ { b += $NF }
			END { print a, b; exit !(b > 1.4 * a && b < 2.9 * a) }' parts.folded
		ok "$what: deeper than can be kept" seen parts.folded \
			'(;App.Walk::down){250}.*;App.burn(;| )' "$(clock took deep)" 60
		"$ascribe" report parts --json -n 0 >parts.json 2>/dev/null
		ok "$what: the language" jq -e '[.rows[] | select(.function == "App\\burn")] |
			length == 1 and .[0].module == "[php]"' parts.json
		ok "$what: all code is known" jq -e '[.rows[] |
			select(.module == "[php]" and .function == "[unknown]")] | length == 0' parts.json
		"$ascribe" stat parts --json >parts.stat 2>/dev/null
		check "$what: accounting" s=parts.stat -- 'exact(s)'
		"$ascribe" export st --format pprof -o st.pb.gz 2>/dev/null
		line=$(grep -n "'three'\\]" "$here/php/load.php" | cut -d: -f1)
		! command -v go >/dev/null || ok "$what: the line that called" \
			grep -q "App.main $load:$line" <(go tool pprof -raw st.pb.gz 2>/dev/null)
	done
	load=$(realpath "$here/php/load.php")
	config=/usr/bin/php-config${version#php}
	if [ -z "$root" ] && [ -x "$config" ] && command -v cc >/dev/null; then
		# shellcheck disable=SC2046 # options
		cc -w -I"$source_root/include" $("$config" --includes) -o layout \
			"$here/php/layout.c" 2>cc.err || bad "layout: $(cat cc.err)"
		ok "$version: its headers say the same" ./layout
	fi
done < <(programs 'php8.?')
[ -n "${version:-}" ] || skip "no PHP 8 here"

# ---- compiled expressions, which have no unwind rules; waits ----
if [ -x /usr/bin/php ]; then
	cat >match.php <<'PHP'
<?php
function matched($s) { return preg_match('/(a+b+)+c.*(x|yz)+q$/', $s); }
$s = str_repeat('aaabbb', 3000) . 'd';
usleep(300000);
for ($i = 0, $end = microtime(true) + 2; microtime(true) < $end; $i++) matched($s);
PHP
	rm -rf st
	ok "expressions: recorded" "$ascribe" record -q -F 499 -o st -- /usr/bin/php match.php
	ok "expressions: their function is on the stack, and is no loop of PHP's" awk '
		/;matched;(preg_match;)?(\[anon\]|.*pcre)/ { n += $NF } { all += $NF }
		END { print n, "of", all; exit !(n > 0.6 * all) }' <(
		"$ascribe" export st --format folded 2>/dev/null)
	cat >wait.php <<'PHP'
<?php
function doze() { usleep(20000); }
usleep(500000);
for ($i = 0; $i < 50; $i++) doze();
PHP
	rm -rf st
	ok "waits: recorded" "$ascribe" record -q --wall -o st -- /usr/bin/php wait.php
	ok "waits: a second of sleep" awk '/;[{]main[}];doze;usleep;/ { ns += $NF }
		END { print ns / 1e9 " s"; exit !(ns > 0.8e9 && ns < 1.5e9) }' <(
		"$ascribe" export st --format folded --event off-cpu 2>/dev/null)
fi

# ---- a server over FastCGI ----
for fpm in /usr/sbin/php-fpm8.?; do
	[ -x "$fpm" ] || continue
	for opcache in 0 1; do
		what="${fpm##*/}, opcache $opcache"
		cat >fpm.conf <<CONF
[global]
error_log = $dir/fpm.log
pid = $dir/fpm.pid
[test]
user = root
group = root
listen = $dir/fpm.socket
pm = static
pm.max_children = 2
clear_env = no
CONF
		rm -rf st fpm.pid fpm.socket
		background "$ascribe" record -F 499 -o st -- \
			"$fpm" -n -F -R -y fpm.conf -d "opcache.enable=$opcache" \
			-d zend_extension=opcache 2>rec.err
		recorder=$pid
		for _ in $(seq 100); do
			[ -S fpm.socket ] && break
			sleep 0.1
		done
		ask=(python3 -I -S "$here/php/ask.py" fpm.socket "$load")
		"${ask[@]}" 'what=main&seconds=0.5' >/dev/null
		ok "$what: a request" "${ask[@]}" 'what=main&seconds=4'
		cp ok.out took
		kill -QUIT "$(cat fpm.pid)"
		wait "$recorder"
		judge_it
		ok "$what" rooted st 97
	done
done
finish
