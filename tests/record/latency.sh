#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Wall-clock time by label value, against what a program with phases logs by its own clock.
. "$(dirname "$0")/lib.bash"
load=$loads/latency
queries=$(in_part 100 500) # of each of two tenants

latency() { report "$@" --metric latency -n 0; }

record --latency query_id -F 999 -o q -- "$load" queries "$queries" 3
cp record.out truth.json
latency q --by tenant >tenants.json
latency q --by query_id >queries.json
latency q --where '{tenant=~"a|b"}' >functions.json
report q --metric wall --where '{tenant=~"a|b"}' -n 0 >wall.json
latency q --where '{tenant=~"a|b"}' --step 1m --by tenant >steps.json
"$ascribe" stat q --json >stat.json
# The host may have had no time for some samples: so much of CPU time is missing.
near='(lambda x, y: abs(x / y - 1) < 0.02 + s["lost"].get("not_run", 0) / s["fired"])'
in_function='(lambda r, f: sum(x["seconds"] for x in r["rows"] if x["function"] == f))'
check "accounting; all weights found rows and groups" s=stat.json -- \
	'exact(s) and not any(s["flagged"][k] for k in ("latency_rows_full", "latency_alone", "latency_locked", "latency_recounted"))' \
	's["fired"], s["lost"]'
check "the wall-clock time of each tenant is what it logged, within 2%" b=tenants.json t=truth.json s=stat.json -- \
	"all($near(rows(b)[k]['seconds'], t[k]['wall']) for k in 'ab')" \
	'{k: (round(rows(b)[k]["seconds"], 3), t[k]["wall"]) for k in "ab"}'
check "that of all queries, too; each is there, 9 of 10 within 15%" q=queries.json t=truth.json s=stat.json -- \
	"set(t['queries']) <= set(rows(q)) and
	$near(sum(rows(q)[k]['seconds'] for k in t['queries']), sum(t['queries'].values())) and
	sum(abs(rows(q)[k]['seconds'] / w - 1) < 0.15 for k, w in t['queries'].items()) > 0.9 * len(t['queries'])" \
	'len(t["queries"]), round(sum(rows(q)[k]["seconds"] for k in t["queries"]) / sum(t["queries"].values()), 4)'
# On a busy host most of that time is in run queues, whose stacks are sampled and estimated. So
# functions are compared where less than a tenth of it is.
report q --metric runq --where '{tenant=~"a|b"}' >runq.json
check "what runs alone has its wall-clock time, what runs in parallel less than its threads have" \
	f=functions.json w=wall.json t=truth.json r=runq.json -- \
	"r['seconds'] > 0.1 * (t['a']['wall'] + t['b']['wall']) or
	abs($in_function(f, 'serial_part') / (t['a']['serial'] + t['b']['serial']) - 1) < 0.25 and
	$in_function(f, 'parallel_part') < 1.05 * (t['a']['parallel'] + t['b']['parallel']) and
	$in_function(f, 'parallel_part') < 0.75 * $in_function(w, 'parallel_part') and
	0.7 < $in_function(f, 'wait_part') / (t['a']['wait'] + t['b']['wait']) < 1.3" \
	"r['seconds'], {p: (round($in_function(f, p), 3), round($in_function(w, p), 3)) for p in ('serial_part', 'parallel_part', 'wait_part')}, t['a'], t['b']"
check "over time it is the same" f=functions.json b=steps.json -- \
	'abs(b["seconds"] - f["seconds"]) < 1e-6' 'f["seconds"]'
ok "the flame page is of it" sh -c "'$ascribe' flame q --metric latency --json 2>/dev/null | grep -q '\"event\": *\"latency\"'"
ok "exported stacks sum to it" sh -c "'$ascribe' export q --metric latency -f folded -o - --where '{tenant=~\"a|b\"}' 2>/dev/null |
	awk '{ s += \$NF } END { exit !(s / 1e9 > $(jq .seconds functions.json) - 0.001 && s / 1e9 < $(jq .seconds functions.json) + 0.001) }'"

# ---- threads with a label that they do not work for ----
record --latency tenant -F 999 -o stale -- "$load" stale "$(in_part 200 1000)" 4
cp record.out truth.json
latency stale --by tenant,thread >threads.json
"$ascribe" stat stale --json >stat.json
check "beside threads that wait idly, one that sleeps has all of the time" r=threads.json t=truth.json s=stat.json -- \
	"$near(rows(r)['a', 'leader']['seconds'], t['a']['wall']) and
	rows(r).get(('a', 'worker'), {'seconds': 0})['seconds'] < 0.01 * t['a']['wall']" \
	'{k: x["seconds"] for k, x in rows(r).items()}, t'

# ---- without the label, those with one trace id are a group ----
record --latency query_id -F 999 -o traces -- "$load" traces 60 2
cp record.out truth.json
latency traces --by tenant >tenants.json
"$ascribe" stat traces --json >stat.json
check "threads with one trace id share its wall-clock time" b=tenants.json t=truth.json s=stat.json -- \
	"all($near(rows(b)[k]['seconds'], t[k]['wall']) for k in 'ab')" \
	'{k: (round(rows(b)[k]["seconds"], 3), t[k]["wall"]) for k in "ab"}'

# ---- a label that nobody has: threads with the same labels are a group ----
record --latency nothing -F 999 -o sets -- "$load" queries 20 2
cp record.out truth.json
latency sets --by tenant >tenants.json
check "threads with other labels are other groups" b=tenants.json t=truth.json -- \
	'all(rows(b)[k]["seconds"] > t[k]["wall"] * 1.02 for k in "ab")' \
	'{k: (rows(b)[k]["seconds"], t[k]["wall"]) for k in "ab"}'

# ---- what cannot be ----
record --wall -d 200ms -o none
exits 2 'no latency times in the store: record with --latency KEY' "$ascribe" report none --metric latency
exits 2 'a label.s key has 1 to 63 bytes' "$ascribe" record --latency '' -d 100ms -o x
exits 2 'record -e cpu-clock' "$ascribe" record --latency tenant -e page-faults -d 100ms -o x
finish
