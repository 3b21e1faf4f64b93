#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A recorder that gets no CPU while processes fork, exec and end: it says what the kernel dropped,
# and samples from before keep the program that ran then.
. "$(dirname "$0")/lib.bash"
cp "$loads/changes" ./first
cp "$loads/changes" ./second

# Until the program has called exec, and until the kernel has more to tell than its rings hold.
many_processes() {
	local i
	for i in $(seq 5000); do
		/bin/true
		[ "$i" -gt 500 ] && [ "$(readlink "/proc/$1/exe")" != "$PWD/first" ] && return
	done
}

background "$ascribe" record -F 99 -o store 2>record.err
recorder=$pid
recording record.err
switches() { awk '/^voluntary/ { print $2 }' "/proc/$recorder/status"; }
background ./first exec 2.5 ./second
program=$pid
sleep 0.7
# The recorder has seen the first program once it has gone to sleep some times.
before=$(switches)
for _ in $(seq 60); do
	[ "$(switches)" -ge $((before + 4)) ] && break
	sleep 0.02
done
kill -STOP "$recorder"
ok "still the first program" test "$(readlink "/proc/$program/exe")" = "$PWD/first"
many_processes "$program" &
storm=$!
many_processes "$program"
wait $storm
kill -CONT "$recorder"
sleep 0.2
/bin/true # the kernel tells of what it dropped with the next record
wait "$program"
kill -INT "$recorder"
wait "$recorder"

ok "what was lost is said" grep -E 'the kernel dropped records of forks, execs and mappings .*[1-9][0-9]* gaps' record.err
"$ascribe" stat store --json >stat.json
check "its samples are counted" s=stat.json -- '0 < s["flagged"]["sideband_lost"] < s["stored"]' \
	's["flagged"]["sideband_lost"], s["stored"]'
report store --by exe --where '{comm=~"first|second"}' >exe.json
# Each of the two burns 2.5 s of CPU time. All was read of /proc when the second one ran.
for program in first second; do
	check "the $program program has its samples" r=exe.json -- \
		"2 < rows(r)['$PWD/$program']['seconds'] < 3.2" \
		'{k: round(v["seconds"], 2) for k, v in rows(r).items()}'
done
finish
