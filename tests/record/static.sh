#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make static`: one file, in roots that have nothing else than /proc, /sys and /dev: an empty one,
# and one with busybox alone. ROOTS="DIR ...": in these, too (make test-static). It checks the host,
# records, reports, draws, shows `top`, and a daemon of it answers, over TLS as well. What it has no
# library for it refuses, and says so.
. "$(dirname "$0")/lib.bash"
needs_recording
[ "$(id -u)" = 0 ] || skip "only root may chroot"
static=$build/ascribe-static
make -C "$source_root" --no-print-directory -s static \
	BUILD="$(realpath --relative-to="$source_root" "$build")" >make.log 2>&1 ||
	{ grep -q 'set SOURCES' make.log && skip "no sources: $(tail -1 make.log)"; }
ok "it is built" test -x "$static"
bytes=$(stat -c %s "$static")
ok "$bytes bytes, at most 12,000,000" test "$bytes" -le 12000000
readelf -lWd "$static" >elf
ok "no interpreter and no library" sh -c '! grep -E "INTERP|NEEDED" elf'
ok "its place in memory is random, its relocations are read-only" grep -q GNU_RELRO elf

# inside ROOT COMMAND...: in a mount namespace that ends with it.
cat >inside <<'END'
#!/bin/sh
exec unshare --mount --propagation private sh -c '
	for d in proc sys dev; do
		mkdir -p "$0/$d" && mount --rbind "/$d" "$0/$d" || exit 1
	done
	exec chroot "$0" "$@"' "$@"
END
chmod 755 inside
# Exit status, a text that it must say, root, command...
exits_inside() {
	local want=$1 text=$2 got
	shift 2
	timeout 60 ./inside "$@" >out 2>err </dev/null
	got=$?
	if [ $got = "$want" ] && grep -qF -- "$text" out err; then
		good "${1##*/}: ${*:2}: $got"
	else
		bad "exit $got, want $want and '$text': $*"
		head -5 out err
	fi
}

openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
	-subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
token=$(head -c 20 /dev/urandom | od -An -tx1 -v | tr -d ' \n')
background "$loads/busy" spin 300 >/dev/null
busy=$pid

answers() { curl -gsS -H "Authorization: Bearer $token" "$@" | grep -q ascribe_samples; }

try_root() {
	local r=$1
	mkdir -p "$r/t"
	cp "$static" "$r/t/ascribe"
	cp cert.pem key.pem "$r/t/"
	(umask 077 && printf %s "$token" >"$r/t/token")
	exits_inside 0 "This host can be recorded." "$r" /t/ascribe check
	exits_inside 0 "complete: " "$r" /t/ascribe record -F 499 -d 2s -o /t/all
	exits_inside 0 busy "$r" /t/ascribe report /t/all --by comm
	exits_inside 0 "complete: " "$r" /t/ascribe record -F 499 -d 3s -p $busy -o /t/busy
	exits_inside 0 spin_here "$r" /t/ascribe report /t/busy --by function
	exits_inside 0 "complete: " "$r" \
		/t/ascribe record -F 499 -o /t/one -- /t/ascribe store verify /t/all
	exits_inside 0 "flame.html" "$r" /t/ascribe flame /t/all -o /t/flame.html
	ok "a whole page" grep -q '</html>' "$r/t/flame.html"
	exits_inside 0 busy "$r" /t/ascribe top --once -d 2s
	for t in xterm-256color tmux; do
		TERM=$t timeout 10 script -qec "./inside $r /t/ascribe top" top.out \
			>/dev/null 2>&1 < <(sleep 4; printf q)
		ok "${r##*/}: top on $t" grep -q 'ascribe top' top.out
	done
	exits_inside 1 "static program, which loads no libcurl" "$r" \
		/t/ascribe push /t/all http://127.0.0.1:9
	exits_inside 1 "static program, which loads no libdebuginfod" "$r" \
		/t/ascribe record --debuginfod http://127.0.0.1:9 -d 1s -o /t/none
	background ./inside "$r" /t/ascribe daemon -s /t/store -l unix:/t/sock,127.0.0.1:4999 \
		--tls-cert /t/cert.pem --tls-key /t/key.pem --token-file /t/token 2>daemon.log
	ok "${r##*/}: its daemon begins" within 30 test -S "$r/t/sock"
	ok "its socket answers" within 10 answers --unix-socket "$r/t/sock" http://x/metrics
	ok "and so it does over TLS" within 10 answers --cacert cert.pem https://localhost:4999/metrics
	kill -TERM $pid
	wait $pid
	ok "and it ends" test $? = 0
	rm -rf "$r/t"
}

mkdir -p roots/empty roots/busybox/bin
try_root "$dir/roots/empty"
cp "$(command -v busybox)" roots/busybox/bin/
ln -s busybox roots/busybox/bin/sh
try_root "$dir/roots/busybox"
for r in ${ROOTS:-}; do
	try_root "$r"
done
finish
