#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trampoline labels of a real process, a fresh one every 3 ms: whose sample is whose, and the shares
# against the threads' clocks.
. "$(dirname "$0")/lib.bash"
load=$loads/trampolines

record -F 999 -o tramp -- "$load" "$(in_part 2 3)"
cp record.out truth.json
report tramp --by thread,task --where '{task=~"first|second"}' >cross.json
report tramp --by task,step --where '{task=~"first|second"}' >steps.json
report tramp --by number --where '{task=~"first|second"}' >numbers.json
"$ascribe" stat tramp --json >stat.json 2>/dev/null
check "no sample has the other thread's label" r=cross.json \
	-- 'set(samples(r)) == {("first", "first"), ("second", "second")}' 'samples(r)'
check "the share of each thread and step, the inner label over the outer" r=steps.json truth=truth.json -- \
	'all((lambda lo, hi: lo <= truth[" ".join(k)] / sum(truth[t] for t in truth if t != "labels") <= hi)
	(*wilson(samples(r)[k], r["samples"], 3.29)) for k in samples(r)) and len(samples(r)) == 4' 'samples(r), truth'
check "nearly every sample has a label, of labels that lived for 3 ms" r=numbers.json s=stat.json truth=truth.json -- \
	'len(r["rows"]) > 300 and max(samples(r).values()) <= 20 and all(0 <= int(k) < truth["labels"] for k in samples(r)) and
	r["flagged"]["trampoline_unknown"] < 0.1 * r["samples"]' \
	'len(r["rows"]), r["samples"], r["flagged"]["trampoline_unknown"]'
report tramp --by task >tasks.json
check "labels of trampolines alone are labels, too" r=tasks.json s=stat.json -- \
	'abs(s["flagged"]["unlabelled"] - samples(r).get(None, 0)) <= 0.01 * s["stored"] and
	s["flagged"]["unlabelled"] < 0.2 * s["stored"]' 's["flagged"]["unlabelled"], samples(r)'
"$source_root/tools/store_decode" tramp >decoded
ok "one function for all trampolines" sh -c "grep -o 'ascribe::trampoline<[^;]*' decoded | sort -u | tee names | wc -l | grep -qx 1 && cat names"

cp "$load" stripped && strip stripped
record -F 999 --label-drop step -o stripped.data -- ./stripped 1
report stripped.data --by thread,task --where '{task=~"first|second"}' >cross.json
check "without symbols, by the note" r=cross.json \
	-- 'set(samples(r)) == {("first", "first"), ("second", "second")} and r["samples"] > 300' 'samples(r)'
# What is denied is denied here too
exits 2 'unknown label key "step"' "$ascribe" report stripped.data --by step

# ---- a table that lies, beside one that does not ----
background "$load" "$(in_part 2.5 4)" liar
liar=$pid
background "$ascribe" record -F 999 -d 60s -o both 2>both.err
recorder=$pid
recording both.err
"$load" "$(in_part 2 3)" >truth.json # on a busy host its table is found after a second or so
kill -INT "$recorder"
wait "$recorder"
ok "the recorder goes on beside a liar" test $? = 0
wait "$liar"
report both --by tgid,comm,task --where '{task=~"first|second"}' >both.json
"$ascribe" stat both --json >stat.json 2>/dev/null
check "and labels others as ever" r=both.json s=stat.json -- \
	'set(k[1:] for k in samples(r)) == {("trampolines", "first"), ("trampolines", "second")} and exact(s)' 'samples(r)'

# ---- a user with more processes that have tables than there are places ----
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$dir"
	cp "$load" crowd
	background "$ascribe" record -a -F 999 -d 120s -o crowd.data 2>crowd.err
	recorder=$pid
	recording crowd.err
	background setpriv --reuid=47290 --regid=47290 --clear-groups ./crowd 100 1200
	crowd=$pid
	# Each of them was seen when it ran.
	for _ in $(seq 100); do
		sleep 0.2
		[ "$(pgrep -u 47290 -c)" -gt 1200 ] && ! grep -q R <(ps -o stat= -u 47290) && break
	done
	"$load" "$(in_part 2 3)" >truth.json
	kill -INT "$recorder"
	wait "$recorder"
	kill -9 "$crowd"
	report crowd.data --by thread,task --where '{task=~"first|second"}' >crowd.json
	"$ascribe" stat crowd.data --json >stat.json 2>/dev/null
	check "takes no place of others'" r=crowd.json s=stat.json truth=truth.json -- \
		'set(samples(r)) == {("first", "first"), ("second", "second")} and exact(s) and
		r["seconds"] > 0.6 * sum(truth[t] for t in truth if t != "labels")' 'samples(r)'
fi
finish
