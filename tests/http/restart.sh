#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed, ends, is replaced by another build, is given too little memory: no more than
# one window is missing. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
now() { date +%s.%N; }
until_windows() { # at least so many were written
	for _ in $(seq 600); do
		n=$("$ascribe" report store --by comm --json 2>/dev/null | jq -r '.windows // 0')
		[ "$n" -ge "$1" ] 2>/dev/null && return
		sleep 0.05
	done
	return 1
}
serve log1 "$ascribe" daemon -s store -l 127.0.0.1:0 --anonymous
ok "a window" until_windows 1
killed=$(now)
kill -9 "$pid"
wait "$pid" 2>/dev/null
timeout 20 "$ascribe" daemon -s store -l none --memory-max 10MiB >small.out 2>small.err
ok "too little memory is refused" test $? = 1
ok "and what is needed is said" grep -q 'memory-max is too small: 10.0 MiB are given, at least [1-9][0-9]* MiB are needed' small.err
needed=$(sed -n 's/.*at least \([0-9]*\) MiB.*/\1/p' small.err)
# An upgrade: another file, another build, one that looks at its memory each second
strip -o another "$build/tests/hasty/ascribe"
serve log2 ./another daemon -s store -l 127.0.0.1:0 --memory-max "${needed}MiB" --anonymous
back=$(now)
sleep 5
ok "with as much it goes on" kill -0 "$pid"
used=$(curl -s "$url/metrics" | sed -n 's/^ascribe_memory_used_bytes //p')
ok "and keeps to it" python3 - "$used" "$needed" <<'PY'
import sys
print(float(sys.argv[1]) / 2**20, sys.argv[2])
assert 0 < float(sys.argv[1]) <= 1.05 * 2**20 * float(sys.argv[2])
PY
kill -TERM "$pid"
wait "$pid"
ok "it ends well" test $? = 0
ended=$(now)
serve log3 "$ascribe" daemon -s store -l 127.0.0.1:0 --anonymous
again=$(now)
sleep 2
kill -TERM "$pid"
wait "$pid"
ok "and again" test $? = 0
ok "the store is whole" "$ascribe" store verify store
"$ascribe" diff store --against-to now --json >diff.json 2>report.err
ok "at most a window is missing, beside the time when none ran" python3 - "$killed" "$back" "$ended" "$again" <<'PY'
import json, sys
killed, back, ended, again = map(float, sys.argv[1:])
r = json.load(open('diff.json'))['b']
missing = r['to'] - r['from'] - r['covered']
print(missing, back - killed, again - ended)
assert 0 <= missing < 10 + (back - killed) + (again - ended) + 1.5, missing
PY
finish
