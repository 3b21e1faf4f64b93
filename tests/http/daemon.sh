#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon on this host, as root: its file, what systemd is told, reload and kill switch without a
# gap, one at a time, its end.
. "$(dirname "$0")/lib.bash"

# ---- the file: every mistake with its line and key ----
wrong() { # what it must say, lines of the file
	printf '%b' "$2" >bad.yaml
	"$ascribe" daemon -c bad.yaml --check-config 2>say
	ok "exit 2 for a file with $1" test $? = 2
	ok "a file with $1: $(head -1 say)" grep -qF -- "$1" say
}
wrong 'bad.yaml:2: frequenzy: no such key; did you mean frequency?' 'store: /x\nfrequenzy: 3\n'
wrong 'bad.yaml:1: frequency: 5000: must be from 1 to 1000' 'frequency: 5000\n'
wrong 'bad.yaml:3: frequency: is there twice' 'frequency: 19\n\nfrequency: 20\n'
wrong 'bad.yaml:1: anonymous: true or false' 'anonymous: perhaps\n'
wrong 'bad.yaml:1: frequency: one value, not a list' 'frequency: [1, 2]\n'
wrong 'bad.yaml:2: listen: a list of plain values' 'listen:\n  - {a: b}\n'
wrong 'bad.yaml:1: store: a value or a list' 'store: {a: b}\n'
wrong 'bad.yaml:1: `key: value` lines' '- store\n'
wrong 'bad.yaml:3: found' 'store: "/x\n\n'
wrong 'no aliases' 'store: *x\n'
wrong 'bad.yaml:1: memory-max: lots: not a size' 'memory-max: lots\n'
wrong 'bad.yaml:2: store-max: at least 16MiB' 'store: /x\nstore-max: 1K\n'
wrong 'bad.yaml:1: keep: ' 'keep: [10s=1d, 3m=2d]\n'
wrong 'less time than the level below' 'keep: [10s=2d, 1m=1d]\n'
wrong 'bad.yaml:1: cpu-max: ' 'cpu-max: plenty\n'
wrong "bad.yaml:2: listen: 'example' is no address" 'store: /x\nlisten: [example]\n'
wrong 'bad.yaml:1: audit-max: at most 128MiB' 'audit-max: 1GiB\n'
wrong 'unencrypted' 'listen: 0.0.0.0:4041\n'
wrong 'bad.yaml:3: event: unknown event' '\n\nevent: nope\n'
wrong 'bad.yaml:1: waker: goes with wall' 'waker: true\n'
wrong 'bad.yaml:2: label-redact: label rule a*b' 'label-drop: a\nlabel-redact: "a*b"\n'
wrong "bad.yaml:1: debuginfod: 'ftp://x' is no server" 'debuginfod: ftp://x\n'
wrong 'bad.yaml:1: recipes: ' 'recipes: /not/there\n'
wrong 'bad.yaml:1: token-file: cannot read' 'token-file: /not/there\n'
wrong 'bad.yaml:1: tls-cert: needs its key' 'tls-cert: /etc/hostname\n'
wrong 'bad.yaml:1: check-config: goes on the command line' 'check-config: true\n'
wrong 'bad.yaml:1: print-token: goes on the command line' 'print-token: true\n'
wrong 'bad.yaml:1: frequency: nothing stands behind it' 'frequency:\n'
wrong 'bad.yaml:2: a NUL byte' 'store: /x\n\0\n'
wrong 'bad.yaml:1: invalid' 'store: /x\xff\n'
wrong 'bad.yaml: longer than 256 KiB' "$(printf 'store: /x%0300000d' 0)"
: >empty.yaml
ok "an empty file" "$ascribe" daemon -c empty.yaml --check-config
ok "each option has a line in the file that is installed" \
	sh -c '"$2" daemon --help | sed -n "s/^ .*--\([a-z-]*\).*/\1/p" | while read -r o; do
	case $o in config|check-config|print-token|color|no-pager|help) ;; *) grep -q "^\(# \)\{0,1\}$o:" "$1" || { echo "$o"; exit 1; };; esac; done' \
	sh "$here/../../deploy/ascribe.yaml" "$ascribe"
ok "a file with every option" sh -c 'sed "s/^# \([a-z-]*:\)/\1/; s/^#\(  \)/\1/; s/^wall: false/wall: true/" "$1" >all.yaml; sed -i "/^token\|^capture-token\|^tls-\|^recipes\|cgroup:/d" all.yaml; "$2" daemon -c all.yaml --check-config' \
	sh "$here/../../deploy/ascribe.yaml" "$ascribe"

needs_recording

# ---- a life ----
cat >notified.py <<'PY'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('notify')
while True: print(s.recv(4096).decode(), flush=True)
PY
python3 notified.py >told &
started+=($!)
within 30 [ -S notify ]
cat >a.yaml <<E
store: $dir/store
listen: [127.0.0.1:0, unix:$dir/sock]
kill-switch: $dir/kill
E
export NOTIFY_SOCKET=$dir/notify WATCHDOG_USEC=60000000
serve log "$ascribe" daemon -c a.yaml --anonymous || finish
unset WATCHDOG_USEC
ok "systemd is told that it is ready" until_says READY=1 told
gets 200 ready --unix-socket sock http://x/readyz
ok "one at a time" sh -c "! '$ascribe' daemon -s '$dir/store' -l none 2>say && grep -q 'is a daemon running' say"
for _ in $(seq 150); do
	n=$(curl -s --unix-socket sock http://x/api/v1/stat | jq .stored)
	[ "${n:-0}" -gt 0 ] 2>/dev/null && break
	sleep 0.1
done
ok "windows come: $n samples" test "${n:-0}" -gt 0
ok "the watchdog is fed" until_says WATCHDOG=1 told
gets 200 'ascribe_samples_fired_total' --unix-socket sock http://x/metrics
runs() { # the process that serves is told every 5 s
	curl -s --unix-socket sock http://x/metrics >body
	grep -q '^ascribe_bpf_run_seconds_count [1-9]' body
}
ok "how long the sampling program runs" within 20 runs
ok "promtool check metrics" sh -c 'promtool check metrics <body'

sed -i 's/^store/frequenzy: 1\nstore/' a.yaml
kill -HUP "$pid"
ok "a bad file changes nothing" until_says 'frequenzy: no such key.*everything stays as it was' log
ok "RELOADING" until_says RELOADING=1 told
sed -i 's/^frequenzy.*/frequency: 37/' a.yaml
kill -HUP "$pid"
ok "another rate" until_says 'recording as it is asked for now' log
sleep 1.5
begin=$(date +%s%N)
kill -TERM "$pid"
wait "$pid"
status=$? took=$((($(date +%s%N) - begin) / 1000000))
ok "SIGTERM: exit $status in $took ms" test $status = 0 -a $took -lt 10000
ok "STOPPING" until_says STOPPING=1 told
ok "the socket is gone" test ! -e sock
ok "the store is whole" "$ascribe" store verify store
"$ascribe" stat store --json >stat.json 2>stat.err
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
# Two CPU seconds a second, recorded before and after the change and hardly less between.
ok "no gap" python3 - "$ascribe" <<'PY'
import json, os, subprocess, sys
d = json.loads(subprocess.run([sys.argv[1], 'diff', 'store', '--against-to', 'now', '--json'], capture_output=True).stdout)
span, covered = d['b']['to'] - d['b']['from'], d['b']['covered']
print(span, covered)
assert span - covered < 1, (span, covered)
PY

# ---- it goes on where it ended; the kill switch ----
serve log2 "$ascribe" daemon -c a.yaml --anonymous || finish
touch kill
ok "switched off" until_says 'nothing is sampled' log2
gets 503 'kill switch' --unix-socket sock http://x/readyz
before=$("$ascribe" stat store --json | jq .fired)
sleep 1
ok "nothing is sampled" test "$("$ascribe" stat store --json | jq .fired)" = "$before"
rm kill
ok "on again" until_says 'recording again' log2
gets 200 ready --unix-socket sock http://x/readyz
kill -9 "$pid"
wait "$pid" 2>/dev/null
# A socket that nobody listens on is no obstacle, nor is what it left half-written
serve log3 "$ascribe" daemon -c a.yaml --anonymous || finish
ok "after kill -9 the store is whole" "$ascribe" stat store
kill -INT "$pid"
wait "$pid"
ok "SIGINT ends it, too" test $? = 0
finish
