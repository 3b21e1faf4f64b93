#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A machine that has no time for the children that read files: what a program has is found out
# later, not never. All children are stopped for longer than their deadline, the other recording's
# nursery, and of the third one worker alone: that delays nobody.
. "$(dirname "$0")/lib.bash"
cp "$loads/labelled" by-worker
cp "$loads/labelled" by-nursery

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

begin() { # store: $recorder, $nursery
	local i
	background "$ascribe" record -a -F 499 -o "$1" 2>"$1.err"
	recorder=$pid
	recorders+=("$pid")
	recording "$1.err"
	nursery=$(pgrep -P "$(pgrep -P "$recorder" -x ascribe-keeper)" -x ascribe-nursery)
	[ -n "$nursery" ] || bad "$1: no nursery"
}

[ -r "/proc/$$/task/$$/children" ] || skip "this kernel does not tell a process's children"
recorders=()
begin worker
stopping=$nursery
begin nursery
kill -STOP "$nursery"
for i in $(children "$nursery"); do kill -KILL "$i"; done
./by-nursery nest 0.4 >nursery.json &
programs=($!)
./by-worker nest 0.4 >worker.json &
programs+=($!)
# Whoever is to read files stands still, for longer than an answer is waited for; where the machine
# is slow, that was no stall.
end=$(($(date +%s%N) + 3000000000))
while [ "$(date +%s%N)" -lt $end ]; do
	for i in $(children "$stopping"); do kill -STOP "$i" 2>/dev/null; done
	sleep 0.01
done
for i in "$nursery" $(children "$stopping"); do kill -CONT "$i" 2>/dev/null; done

wait "${programs[@]}"
kill -INT "${recorders[@]}"
wait "${recorders[@]}"
for who in worker nursery; do
	report $who --by tenant --where "{exe=~\".*/by-$who\"}" -n 0 >$who.r.json
	report $who --where "{exe=~\".*/by-$who\",tenant!=\"\"}" -n 0 >$who.f.json
	"$ascribe" stat $who --json >$who.s.json
	check "$who: labels are there after the stall" r=$who.r.json \
		-- 'sum(n for k, n in samples(r).items() if k) > 0.1 * r["samples"]' 'samples(r)'
	check "$who: and names" f=$who.f.json -- 'samples(f).get("burn", 0) > 0.3 * f["samples"]' \
		'list(samples(f).items())[:3]'
	check "$who: every sample is accounted for" s=$who.s.json -- 'exact(s)'
done
# The worker may have read the program's file before it was stopped.
check "what was sampled before the nursery went on is counted" s=nursery.s.json -- \
	's["flagged"]["labels_late"] + s["flagged"]["new_process"] > 0' \
		's["flagged"]["labels_late"], s["flagged"]["new_process"]'

# ---- one worker that stands still: another one takes its work, and nobody waits ----
cp "$loads/labelled" by-another
begin one
# One may end between being seen and being stopped, when the machine is busy.
stopped=0
for _ in $(seq 50); do
	for i in $(children "$nursery"); do
		[ "$(cat "/proc/$i/comm" 2>/dev/null)" = ascribe-parser ] &&
			kill -STOP "$i" 2>/dev/null && stopped=$((stopped + 1))
	done
	[ $stopped = 0 ] || break
	sleep 0.1
done
echo "workers that stand still: $stopped"
"./by-another" nest 0.5 >another.json
kill -INT "$recorder"
wait "$recorder"
report one --by tenant --where '{exe=~".*/by-another"}' -n 0 >one.r.json
report one --where '{exe=~".*/by-another",tenant!=""}' -n 0 >one.f.json
"$ascribe" stat one --json >one.s.json
# The stopped worker may hold this program's file: then another one reads it after 2 s.
check "one: labels while a worker stands still" r=one.r.json \
	-- 'sum(n for k, n in samples(r).items() if k) > 0.4 * r["samples"]' 'samples(r)'
check "one: and names" f=one.f.json -- 'samples(f).get("burn", 0) > 0.9 * f["samples"]' \
	'list(samples(f).items())[:3]'
check "one: every sample is accounted for" s=one.s.json -- 'exact(s)'
check "one: no drain waited" s=one.s.json -- 's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 1e9' \
	's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9'
finish
