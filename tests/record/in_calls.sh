#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What happens within timed calls (uretprobe): samples and waits have the innermost one as label
# `in`, against the program's own clocks. Calls that are left by longjmp, nested ones, processes
# without labels, short ones. As root.
. "$(dirname "$0")/lib.bash"
cp "$loads/in_calls" in_calls
prog=$PWD/in_calls
timed=uretprobe:$prog:parse,uretprobe:$prog:lex

record -o in --wall -F 999 -e "cpu-clock,$timed" -- ./in_calls 150 1500
grep '^\[' record.out >clocks.json
# {(index, in): seconds}
by='{(x["key"]["index"], x["key"]["in"] or "none"): x["seconds"] for x in r["rows"] if x["key"]["index"]}'
report in --metric cpu --by index,in >cpu.json
check "time on a CPU by call, within 5%" r=cpu.json c=clocks.json -- \
	"all(abs($by.get((i, k), 0) - c[int(i)]['cpu'][k]) < 0.05 * c[int(i)]['cpu'][k]
	for i in '01' for k in ('lex', 'parse', 'none'))" "$by, c"
report in --metric off --by index,in >off.json
check "time asleep by call: as long as asked for, no longer than by the program's clock" r=off.json c=clocks.json -- \
	"all(c[int(i)]['asked'][k] <= ($by)[(i, k)] < 1.01 * c[int(i)]['off'][k]
	for i in '01' for k in ('lex', 'parse', 'none'))" "$by, c"
report in --metric cpu --where '{in="lex"}' >functions.json
check "the selector has the code of these calls" r=functions.json c=clocks.json -- \
	'abs(r["seconds"] - sum(t["cpu"]["lex"] for t in c)) < 0.05 * r["seconds"] and
	{x["function"] for x in r["rows"] if x["samples"] > 0.9 * r["samples"]} >= {"lex", "compute"}' \
	'r["seconds"], r["rows"][:4]'
check "their stacks go on to the first function of the thread" r=functions.json -- \
	'all(1 >= {x["function"]: x["samples"] for x in r["rows"]}.get(f, 0) / r["samples"] > 0.95
	for f in ("run", "parse"))' 'r["samples"], r["rows"][:3]'
report in --metric off --where '{in="lex"}' >waits.json
check "and those of waits" r=waits.json -- \
	'{x["function"]: x["seconds"] for x in r["rows"]}.get("run", 0) > 0.95 * r["seconds"]' \
	'r["seconds"], r["rows"][:3]'
report in -e "uretprobe:$prog:lex" --where '{in="parse"}' -n 0 >hits.json
check "and those of hits, also where a function calls itself" r=hits.json -- \
	'{x["function"]: x["samples"] for x in r["rows"]}["run"] >= 600' 'r["rows"][:3]'
report in -e "uretprobe:$prog:lex" --by in >hits.json
check "the hits of a timed call are in the one around it" r=hits.json -- \
	'{x["key"]["in"]: x["samples"] for x in r["rows"]} == {"parse": 601}' 'r["rows"]'
report in -e "uretprobe:$prog:parse" --by in >hits.json
check "also where a function calls itself" r=hits.json -- \
	'{x["key"]["in"]: x["samples"] for x in r["rows"]} == {"parse": 300, None: 301}' 'r["rows"]'

# ---- none where nobody asked for it, or labels are left out ----
record -o dropped --label-drop in -F 99 -e "cpu-clock,$timed" -- ./in_calls 5 500
exits 2 'unknown label key "in"' "$ascribe" report dropped --by in
record -o without -F 99 -e cpu-clock -- ./in_calls 5 500
exits 2 'unknown label key "in"' "$ascribe" report without --by in
finish
