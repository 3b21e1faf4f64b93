#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where the time went: waits against the program's own clocks and the kernel's account of each
# thread (schedstat).
. "$(dirname "$0")/lib.bash"
load=$loads/waits
cpu=$(($(nproc) - 1))
[ -r /proc/thread-self/schedstat ] || skip "this kernel keeps no account of threads: nothing to compare with"

of() { # store, metric, keys or "function", selector
	local by=()
	[ "$3" = function ] || by=(--by "$3")
	"$ascribe" report "$1" --metric "$2" "${by[@]}" --where "$4" -n 0 --json 2>/dev/null
}

# ---- sleeps 30%, spins 50%, waits for a mutex 20% ----
# What others take from the CPU unseen: the hypervisor, interrupts; a thread's clock leaves out the
# first, or both.
unseen() { awk -v cpu="cpu$cpu" '$1 == cpu { printf "%.2f", ($7 + $8 + $9) / 100 }' /proc/stat; }
before=$(unseen)
record --wall -F 999 -o shares -- "$load" shares 4 $cpu
unseen=$(awk "BEGIN { print $(unseen) - $before + 0.01 }")
cp record.out truth.json
for metric in cpu off runq wall; do
	of shares $metric thread,tenant '{thread="worker",tenant="a"}' >$metric.json
	of shares $metric function '{thread="worker",tenant="a"}' >$metric-functions.json
done
"$ascribe" stat shares --json >stat.json
report shares -e cpu-clock --idle >clock.json
check "what is a wait and what a sample" s=stat.json r=clock.json -- \
	's["flagged"]["waits"] == s["stored"] - r["samples"] > 0 and
	s["flagged_of"]["unlabelled"] == r["samples"] and s["flagged_of"]["wait_summed"] == s["flagged"]["waits"]' \
	's["flagged"]["waits"], s["stored"], r["samples"]'
check "accounting" s=stat.json -- 'exact(s) and s["lost"]["wait_untracked"] == 0' \
	's["fired"], s["flagged"]["wait_summed"]'
check "time in the queue is what the kernel says, within 2%" r=runq.json t=truth.json -- \
	'abs(r["seconds"] - t["worker"]["runq"]) < 0.02 * t["worker"]["runq"] + 0.002' 'r["seconds"], t["worker"]["runq"]'
check "running + queue + blocked is the wall clock, within 0.5%" q=runq.json o=off.json t=truth.json -- \
	"abs(t['worker']['run'] + q['seconds'] + o['seconds'] - t['worker']['wall']) < 0.005 * t['worker']['wall'] + $unseen" \
	't["worker"]["run"] + q["seconds"] + o["seconds"], t["worker"]["wall"]'
check "with the running time by samples within 3%" w=wall.json t=truth.json -- \
	'abs(w["seconds"] - t["worker"]["wall"]) < 0.03 * t["worker"]["wall"]' 'w["seconds"], t["worker"]["wall"]'
check "each part under its function, by the wall clock, within 5%" r=wall-functions.json t=truth.json -- \
	'all(abs(f[k + "_here"] - t[k]) < 0.05 * t[k] + 0.05 for f in [{x["function"]: x["seconds"] for x in r["rows"]}]
	for k in ("sleep", "spin", "lock"))' '{x["function"]: round(x["seconds"], 3) for x in r["rows"] if "_here" in x["function"]}, t'
check "blocked: asleep and for the mutex, not spinning" r=off-functions.json t=truth.json -- \
	'(lambda f: abs(f["sleep_here"] + f["lock_here"] - r["seconds"]) < 0.03 * r["seconds"] and f.get("spin_here", 0) == 0)
	({x["function"]: x["seconds"] for x in r["rows"]})' '[(x["function"], round(x["seconds"], 3)) for x in r["rows"][:4]]'
check "measured shares have no interval but themselves" r=off-functions.json \
	-- 'all(x["low"] == x["share"] == x["high"] for x in r["rows"])'
ok "the flame page is of that time" sh -c "'$ascribe' flame shares --metric off --json 2>/dev/null | grep -q '\"event\": *\"off-cpu\"'"
"$ascribe" export shares --format folded --event off-cpu --where '{thread="worker",tenant="a"}' \
	>off.folded 2>/dev/null
check "folded stacks of waits have their nanoseconds" r=off.json -- \
	"abs(r['seconds'] - $(awk '{ n += $NF } END { printf "%d", n }' off.folded) / 1e9) < 1e-6" 'r["seconds"]'

# ---- many short waits for one mutex, a few long ones beside them: stacks are sampled, the rest is
# estimated ----
record --wall -F 99 -o convoy -- "$load" convoy 4 -1
cp record.out truth.json
for metric in off runq; do
	of convoy $metric function '{thread="convoy"}' >$metric.json
	of convoy $metric tenant '{thread="convoy"}' >$metric-tenants.json
done
"$ascribe" stat convoy --json >stat.json
# Both metrics together: {function or tenant: seconds}
both='(lambda *rs: {k: sum(x["seconds"] for r in rs for x in r["rows"] if (x.get("function") or x["key"]["tenant"]) == k)
	for r in rs for x in r["rows"] for k in [x.get("function") or x["key"]["tenant"]]})'
check "a convoy: less than 1% is without a stack" o=off.json q=runq.json -- \
	"$both(o, q).get('[no stack]', 0) < 0.01 * (o['seconds'] + q['seconds'])" \
		"$both(o, q).get('[no stack]', 0), o['seconds'] + q['seconds']"
check "each function has the time that it waited, within the error of sampling" o=off.json q=runq.json t=truth.json -- \
	"all(abs($both(o, q).get(k, 0) - v) < 0.25 * v + 0.02 * sum(t['functions'].values()) for k, v in t['functions'].items())" \
	"{k: (round(v, 2), round($both(o, q).get(k, 0), 2)) for k, v in t['functions'].items()}"
check "each tenant has what its threads did not run, within 0.5%" o=off-tenants.json \
	q=runq-tenants.json t=truth.json -- \
	"all(abs($both(o, q)[k] / t[k] - 1) < 0.005 for k in 'xy')" "$both(o, q), t"
of convoy off wait_in,wait '{thread="convoy"}' >reasons.json
check "all of them under the program's function, and for what" r=reasons.json o=off.json -- \
	'(lambda k: all(k.get((f, "lock" if f in ("convoy_read", "convoy_write") else "sleep"), 0) >= 0.99 * sum(v for x, v in k.items() if x[0] == f) > 0
	for f in ("convoy_read", "convoy_write"))
	and sum(v for x, v in k.items() if x[0].startswith("convoy_")) > 0.98 * o["seconds"])
	({(x["key"]["wait_in"], x["key"]["wait"]): x["seconds"] for x in r["rows"]})' \
	'[(x["key"], round(x["seconds"], 3)) for x in r["rows"][:6]]'
of convoy runq wait_in '{thread="convoy"}' >queued.json
check "and their waits for a CPU under it, too" r=queued.json q=runq.json -- \
	'sum(x["seconds"] for x in r["rows"] if (x["key"]["wait_in"] or "").startswith(("convoy_", "spin_here"))) >
	0.9 * q["seconds"] > 0' '[(x["key"], round(x["seconds"], 3)) for x in r["rows"][:6]], q["seconds"]'
exits 2 'cpu has no .wait_in.: ask by it with metric off or runq' \
	"$ascribe" report convoy --metric cpu --by wait_in
"$ascribe" why convoy --where '{tenant="x"}' >why.txt 2>&1
ok "why names the function that waits for the lock, not libc's" sh -c \
	"sed -n '/^BLOCKED/,/^\$/p' why.txt | awk '\$1 + 0 >= 1' >blocked && grep -Eq 'lock +convoy_write' blocked && ! grep -Eq 'futex|lll_lock|pthread' blocked"
check "most waits are estimated, and counted as such" s=stat.json -- \
	's["flagged"]["wait_summed"] >= s["flagged"]["wait_estimated"] > 0.99 * s["flagged"]["wait_summed"] > 0.5 * s["flagged"]["waits"] and exact(s)' \
	's["flagged"]["waits"], s["flagged"]["wait_summed"], s["flagged"]["wait_estimated"]'

# ---- threads that wait for work since before the recording: idle, though only their kernel frames
# are known ----
background python3 -c 'import queue, threading, time
q = queue.Queue()
for _ in range(5): threading.Thread(target=q.get, daemon=True).start()
time.sleep(60)'
pool=$pid
sleep 1
record --wall -F 99 -d 3s -p "$pool" -o pool
"$ascribe" report pool --metric off --json >off.json 2>/dev/null
"$ascribe" report pool --metric off --idle --by wait --json >idle.json 2>/dev/null
check "what waits for work is left out and counted, what sleeps is not" o=off.json i=idle.json -- \
	'14 < o["idle_waits"] / 1e9 < 16 and 2.8 < o["seconds"] < 3.2 and i["idle_waits"] == 0 and
	abs(o["seconds"] + o["idle_waits"] / 1e9 - i["seconds"]) < 1e-6 and
	{x["key"]["wait"]: round(x["seconds"] / 3) for x in i["rows"]} == {"idle": 5, "sleep": 1}' \
	'o["seconds"], o["idle_waits"], [(x["key"], x["seconds"]) for x in i["rows"]]'
kill "$pool"

# ---- stacks of waits cost what samples do: fewer at a lower rate ----
record --wall -F 9 -o rare -- "$load" convoy 4 -1
"$ascribe" stat rare --json >rare.json
"$ascribe" stat convoy --json >often.json
check "a lower rate takes fewer stacks of waits, and counts all waits" r=rare.json o=often.json -- \
	'(lambda taken: 0 < taken(r) < 0.6 * taken(o) and exact(r))(lambda s: s["flagged"]["waits"] - s["flagged"]["wait_summed"])' \
	'[(s["flagged"]["waits"], s["flagged"]["wait_summed"]) for s in (r, o)]'

# ---- a session that waits at ever new places, each time for long, beside threads that wait there
# for a moment ----
record --wall -F 99 -o session -- "$load" session 4 -1
cp record.out truth.json
of session off function '{thread="session"}' >session.json
check "each of its few long waits has its own stack, and none has another thread's" r=session.json t=truth.json -- \
	'max(x["seconds"] for x in r["rows"] if x["function"] == "session_waits") > 0.98 * t["waited"] > 1 and
	not any(x["function"] == "strange" for x in r["rows"])' \
	'[(x["function"], x["seconds"]) for x in r["rows"][:6]], t'

# ---- bad input ----
exits 2 'none of cpu, off, runq, wall' "$ascribe" report shares --metric nothing
exits 2 'exclude each other' "$ascribe" report shares --metric off --event cpu-clock
record -F 99 -d 200ms -o plain
exits 2 'no off-cpu times.*--wall' "$ascribe" report plain --metric off
exits 2 'no wall times.*--wall' "$ascribe" flame plain --metric wall -o x.html
finish
