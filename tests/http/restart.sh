#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed, ends, is replaced by another build, runs out of its memory budget: no more than one window is missing. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
now() { date +%s.%N; }
until_windows() { # at least so many were written
	local i
	for i in $(seq 600); do
		[ "$("$ascribe" report store --by comm --json 2>/dev/null | jq -r '.windows // 0')" -ge "$1" ] 2>/dev/null && return
		sleep 0.05
	done
	return 1
}
serve log1 "$ascribe" daemon -s store -l 127.0.0.1:0 --anonymous
ok "a window" until_windows 1
killed=$(now)
kill -9 "$pid"
wait "$pid" 2>/dev/null
strip -o another "$build/tests/hasty/ascribe" # an upgrade: another file, another build, one that looks at its memory each second
serve log2 ./another daemon -s store -l 127.0.0.1:0 --memory-max 32MiB --anonymous
back=$(now)
for i in $(seq 600); do grep -q 'begins anew' log2 && break; sleep 0.05; done
ok "over its memory budget: caches are given up" grep -q 'is given up' log2
ok "and what was recorded so far is written" grep -q 'recording begins anew' log2
sleep 1
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
