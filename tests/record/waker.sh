#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who ended a wait: its labels, and the function it was in, against what the program knows of
# itself; interrupts, which are nobody's.
. "$(dirname "$0")/lib.bash"
load=$loads/wakers
cpu=$(($(nproc) - 1))

wakers() { "$ascribe" blame "$@" --wakers --idle -n 0 --json 2>/dev/null; }

# {(victim, waker): seconds}
cells='(lambda b: {(c["victim"], c["occupant"] or c.get("nobody")): c["seconds"] for c in b["cells"]})'
# Blocked time is divided among wakers, to the nanosecond.
same='round(1e9 * o["seconds"]) == round(1e9 * w["seconds"])'

# ---- blocked in four ways by a thread with a label of its own; a sleeper on a CPU where another
# thread always runs ----
record --wall --waker -F 99 -o kinds -- "$load" kinds 2 $cpu
cp record.out truth.json
wakers kinds --by tenant >by.json
report kinds --metric off --idle --by tenant -n 0 >off.json
report kinds --metric waker --idle --by tenant,by.tenant -n 0 >waker.json
report kinds --metric waker --idle --where '{tenant="v",by.tenant="g"}' -n 0 >functions.json
"$ascribe" stat kinds --json >stat.json
check "accounting" s=stat.json -- 'exact(s) and s["flagged"]["waker_cut"] == 0' \
	's["fired"], s["flagged"]["waker_unknown"]'
check "blocked time by wakers is blocked time, to the nanosecond, of all and of each label" \
	o=off.json w=waker.json b=by.json -- \
	"$same and round(1e9 * b['seconds']) == round(1e9 * w['seconds'])"' and
	all(abs(sum(x["seconds"] for x in w["rows"] if x["key"]["tenant"] == k) - rows(o)[k]["seconds"]) < 1e-6 for k in "vgs")' \
	'o["seconds"], w["seconds"]'
check "the victim was woken by the giver: 95%" b=by.json o=off.json \
	-- "$cells(b)['v', 'g'] > 0.95 * rows(o)['v']['seconds'] > 0.5" "$cells(b)"
check "the sleeper by an interrupt, though another thread ran there: 95%" b=by.json o=off.json -- \
	"$cells(b)['s', '(interrupt)'] > 0.95 * rows(o)['s']['seconds'] > 0.5 and $cells(b).get(('s', 'b'), 0) == 0"
# The victim's clocks have the time in the queue of its CPU, too.
check "each way in its function, no longer than by the victim's clock, and half of that at least" f=functions.json t=truth.json -- \
	'all(t[k] / 2 < x["seconds"] < t[k] * 1.01 for k in t for x in f["rows"] if x["function"] == k) and
	{x["function"] for x in f["rows"]} >= set(t)' '{x["function"]: round(x["seconds"], 3) for x in f["rows"] if "give" in x["function"]}, t'
check "the stack leads from the kernel to where its thread began" f=functions.json -- \
	'[x["seconds"] for x in f["rows"] if x["function"] == "giver"][0] > 0.95 * f["seconds"] and
	not any(x["seconds"] for x in f["rows"] if "bpf" in x["function"] or x["function"] in ("try_to_wake_up", "__traceiter_sched_waking"))'
ok "the flame page is of that time" sh -c "'$ascribe' flame kinds --metric waker --json 2>/dev/null | grep -q '\"event\": *\"waker\"'"
ok "the matrix as text" sh -c "'$ascribe' blame kinds --wakers --by tenant 2>/dev/null | grep -q '^ *BLOCKED .*(interrupt)'"

# ---- threads that wait for work, beside threads that wait for a lock ----
record --wall --waker -F 99 -o pool -- "$load" pool 3 $cpu
"$ascribe" blame pool --wakers --by tenant -n 0 --json >busy.json 2>/dev/null
wakers pool --by tenant >all.json
report pool --metric off --idle --by tenant -n 0 >o.json
"$ascribe" stat pool --json >stat.json
work='sum(x["seconds"] for x in o["rows"] if x["key"]["tenant"] == "w")'
check "with --idle all of the time is there, to the nanosecond" o=o.json w=all.json s=stat.json -- \
	"exact(s) and $same and w['idle_waits'] == 0" 'o["seconds"], w["seconds"]'
# A label set with fewer than 8 sampled waits in a window has the stacks of its program, or none:
# on a busy host there are such, and a window may end meanwhile.
if jq -e '.flagged | .wait_summed - .wait_estimated > 0.05 * .waits' stat.json >/dev/null; then
	echo "--    the machine is too busy, idle waits: $(jq -c '.flagged | map_values(select(. > 0))' stat.json)"
else
	check "workers that wait for work are left out, though 98% of waits were not sampled" b=busy.json a=all.json -- \
		"$cells(a)['w', 'd'] > 5 and $cells(b).get(('w', 'd'), 0) < 0.05 * $cells(a)['w', 'd']" \
		"$cells(b), $cells(a)"
	check "clerks who wait for each other's lock are not" b=busy.json a=all.json -- \
		"$cells(a)['c', 'c'] >= $cells(b)['c', 'c'] > 0.85 * $cells(a)['c', 'c'] > 3" \
		"$cells(b)['c', 'c'], $cells(a)['c', 'c']"
	check "what is left out is the time of those who wait for work, within 5%" b=busy.json o=o.json -- \
		"abs(b['idle_waits'] / 1e9 - $work) < 0.05 * $work and $work > 5" "b['idle_waits'], $work"
fi
"$ascribe" blame pool --wakers --by tenant >text 2>/dev/null
ok "and the text says how much" grep -Eq '^blocked: .*; idle waits left out: [0-9.]+ s' text

# ---- what is deleted: rows of wakers are no samples of their own ----
report pool --event off-cpu --idle --where '{tenant="w"}' -n 0 >off.json
report pool --event runq --where '{tenant="w"}' -n 0 >runq.json
report pool --event cpu-clock --where '{tenant="w"}' -n 0 >cpu.json
ok "delete" "$ascribe" store delete pool --where '{tenant="w"}'
"$ascribe" stat pool --json >stat.json
check "counts what was stored of it" s=stat.json o=off.json r=runq.json c=cpu.json -- \
	'exact(s) and s["lost"]["deleted"] == o["samples"] + r["samples"] + c["samples"] > 0' \
	's["lost"]["deleted"], o["samples"], r["samples"], c["samples"]'

# ---- three that look at no share of time, at once ----
background sleep 60
pids=()
for args in "short -- $load short 1 $cpu" "many -- $load many 1 $cpu" "open -a -d 1s"; do
	"$ascribe" record -q --wall --waker -F 99 -o $args >"${args%% *}.out" 2>"${args%% *}.err" &
	pids+=($!)
done
for p in "${pids[@]}"; do
	wait "$p" || bad "recording: $(cat ./*.err)"
done

# ---- short waits: summed by who ended them, without stacks but of a few ----
cp short.out truth.json
wakers short --by tenant >w.json
report short --metric off --idle --by tenant -n 0 >o.json
report short --event waker --by tenant -n 0 >n.json
report short --metric waker --idle --where '{tenant="p"}' -n 0 >f.json
check "short waits: none is lost" o=o.json w=w.json -- "$same"
# Where a wait goes on when a drain begins, its part so far is of (other), and the thread that
# starts both has no tenant: some milliseconds each on a busy machine.
check "ping and pong wake each other: 98% of their time, of each turn once at most" w=w.json o=o.json n=n.json t=truth.json -- \
	"(lambda c, others: all(c[k, j] > 0.98 * (rows(o)[k]['seconds'] - others(c, k)) > 0 and others(c, k) < 0.1 and
	0 < rows(n)[k]['samples'] <= t['turns'] + 9 for k, j in ('pq', 'qp')))($cells(w),
	lambda c, k: c.get((k, '(other)'), 0) + c.get((k, None), 0))" \
	"$cells(w), samples(n), t"
check "without a stack but for some" f=f.json -- '{x["function"]: x["self"] for x in f["rows"]}["[no stack]"] > 0'

# ---- more pairs than are kept ----
wakers many --by step >w.json
report many --metric off --idle --by step -n 0 >o.json
"$ascribe" stat many --json >stat.json
check "of more than 4,096 pairs in a window the waker is counted as cut, under (other), and the sums stay" o=o.json w=w.json s=stat.json -- \
	"exact(s) and s['flagged']['waker_cut'] > 0 and $same and sum(v for (k, by), v in $cells(w).items() if by == '(other)') > 0 and
	len([c for c in w['cells'] if c['occupant']]) <= 4096 * s['blocks']" 's["flagged"]["waker_cut"], len(w["cells"])'

# ---- waits that are not over ----
wakers open >w.json
report open --metric off --idle --by comm -n 0 >o.json
"$ascribe" stat open --json >stat.json
check "who ends a wait that goes on is not known, and that is counted" o=o.json w=w.json s=stat.json -- \
	"$same and $cells(w)['sleep', '(other)'] > 0.9 and s['flagged']['waker_unknown'] > 0" 's["flagged"]["waker_unknown"]'

# ---- over HTTP ----
background "$ascribe" serve kinds --listen "unix:$dir/http" 2>/dev/null
within 30 [ -S http ]
get() { curl -s --unix-socket http --get "http://localhost/api/v1/$1" "${@:2}"; }
get blame -d metric=waker -d idle=1 -d by=tenant >b.json
get table -d metric=waker -d idle=1 --data-urlencode 'where={tenant="v"}' >t.json
get blame -d metric=off >bad.json
check "the same matrix over HTTP, and functions" b=b.json w=by.json t=t.json f=functions.json \
	x=bad.json -- \
	"abs(b['seconds'] - w['seconds']) < 1e-6 and $cells(b)['v', 'g'] == $cells(w)['v', 'g'] and t['metric'] == 'waker' and
	any(x['function'] == 'give_pipe' for x in t['rows']) and x['code'] == 'invalid_argument'"

# ---- kernels that do not tell, and bad input ----
clang=$(command -v clang || command -v clang-19 || command -v clang-14)
kernel() { # tracepoints: their types alone
	local t
	for t in "$@"; do echo "typedef void (*btf_trace_$t)(void); btf_trace_$t $t;"; done >types.c
	"$clang" -g -target bpf -c -o types.o types.c
	ASCRIBE_KERNEL_TYPES=$PWD/types.o
	export ASCRIBE_KERNEL_TYPES
}
if [ -n "$clang" ]; then
	kernel sched_switch sched_wakeup_new sched_process_fork
	exits 1 'no tracepoint sched_waking: .* without it waits can' \
		"$ascribe" record --wall --waker -d 100ms -o none
	kernel sched_switch sched_wakeup_new sched_process_fork sched_waking
	exits 1 'do not say where it counts interrupts: .* without it waits can' \
		"$ascribe" record --wall --waker -d 100ms -o none
	unset ASCRIBE_KERNEL_TYPES
fi
exits 2 'waker goes with --wall' "$ascribe" record --waker -d 100ms -o none
record -F 99 --wall -d 200ms -o plain
exits 2 'no waker times.*--wall --waker' "$ascribe" report plain --metric waker
exits 2 'no waker times.*--wall --waker' "$ascribe" blame plain --wakers
exits 2 'waker: goes with wall, or the event off-cpu' \
	"$ascribe" daemon --check-config --waker --store "$dir/store" --listen none
exits 0 '' "$ascribe" daemon --check-config --waker --event cpu-clock,off-cpu --store "$dir/store" \
	--listen none
finish
