#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits that are longer than a window, or than all of the recording.
. "$(dirname "$0")/lib.bash"

of() { # metric, key, selector
	"$ascribe" report long --metric "$1" --by "$2" --where "$3" -n 0 --json 2>/dev/null
}

background sleep 60
sleeper=$pid
background sleep 6
riser=$pid
# Short waits in one place for some seconds, then one there that does not end: no stack is taken of
# what is expected to be short.
background perl -e '$end = time + 5; select(undef, undef, undef, 0.0002) while time < $end; select(undef, undef, undef, 60)'
record --wall -a -d 11s -o long
of off tgid '{comm="sleep"}' >off.json
"$ascribe" report long --metric off --idle --where '{comm="perl"}' -n 0 --json >quick.json \
	2>/dev/null
"$ascribe" report long --metric off --idle -n 0 --json >all.json 2>/dev/null
of wall tgid '{tgid="0"}' >nobody.json
[ -s nobody.json ] || echo '{"rows": []}' >nobody.json # a value that no row has is refused
"$ascribe" stat long --json >stat.json
check "who slept all the time was blocked all the time" r=off.json s=stat.json -- \
	"abs(rows(r)['$sleeper']['seconds'] / (s['to'] - s['from']) - 1) < 0.03" \
		"rows(r)['$sleeper']['seconds'], s['to'] - s['from']"
check "who was asleep before, and then not, has the part in between; nobody's waits are without a process" r=off.json n=nobody.json -- \
	"3 < rows(r)['$riser']['seconds'] <= 6.1 and not n['rows']" "rows(r)['$riser']['seconds'], n['rows']"
check "more than one window has it" r=off.json -- 'r["windows"] >= 2'
check "where the kernel has it is seen all the same" q=quick.json -- \
	'sum(r["self_seconds"] for r in q["rows"] if r["function"] != "[no stack]") > 3' \
		'[(r["function"], r["self_seconds"]) for r in q["rows"][:6]]'
check "no wait is without a frame" a=all.json \
	-- 'abs(sum(r["self_seconds"] for r in a["rows"]) / a["seconds"] - 1) < 1e-6' \
	'a["seconds"], sum(r["self_seconds"] for r in a["rows"])'
finish
