#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits where things go wrong: a kernel without the tracepoints, very many threads, processes killed
# while they are blocked, tables that fill. Whatever happens is counted under a name; no time is
# negative, none goes on after its thread.
. "$(dirname "$0")/lib.bash"

# ---- a kernel without them: types of another world stand for its own ----
ASCRIBE_KERNEL_TYPES=$build/bpf/sample.bpf.o exits 1 'no tracepoint sched_switch: waits .* cannot be recorded; without them' \
	"$ascribe" record --wall -d 100ms -o none
ASCRIBE_KERNEL_TYPES=$build/bpf/sample.bpf.o exits 0 '' "$ascribe" record -d 100ms -o none

# ---- one that does not note when threads come into their queues: wake-ups are watched ----
ASCRIBE_WATCH_WAKEUPS=1 record --wall -F 99 -o woken -- "$loads/waits" lengths 2 0
cp record.out truth.json
"$ascribe" report woken --metric runq --by tenant --where '{tenant="s"}' --json >r.json 2>/dev/null
check "wake-ups watched: the queue is what the kernel says, within 5%" r=r.json t=truth.json -- \
	'abs(r["seconds"] - t["s"]["runq"]) < 0.05 * t["s"]["runq"] + 0.05' 'r["seconds"], t["s"]["runq"]'

# ---- 3,000 threads that come, wait and go ----
cat >threads.py <<'PY'
import threading, time
threading.stack_size(65536)
go = threading.Event()
threads = []
def work():
    go.wait()
    for i in range(3):
        time.sleep(0.01)
for i in range(3000):
    t = threading.Thread(target=work)
    t.start()
    threads.append((t, time.monotonic()))
time.sleep(0.3)
go.set()
for t, began in threads:
    t.join()
end = time.monotonic()
print('{"least": %f, "most": %f}' % (0.3 * len(threads), sum(end - b + 1 for t, b in threads)))
PY
record --wall -F 99 -o threads -- python3 threads.py
cp record.out truth.json
"$ascribe" report threads --metric off --by comm,tid --where '{exe=~".*python.*"}' -n 0 \
	--json >off.json 2>/dev/null
"$ascribe" report threads --metric runq --by comm,tid -n 0 --json >runq.json 2>/dev/null
"$ascribe" stat threads --json >stat.json
check "3,000 threads: every wait is stored or lost under a name" s=stat.json -- 'exact(s)' \
	's["fired"], {k: n for k, n in s["lost"].items() if n}, {k: s["flagged"][k] for k in ("wait_summed", "wait_no_place", "wait_rows_full")}'
check "they waited at least as long as they were held, and no longer than they lived" r=off.json t=truth.json s=stat.json -- \
	'(r["seconds"] > 0.8 * t["least"] or sum(s["lost"].values()) > 0) and r["seconds"] < t["most"]' 'r["seconds"], t'
check "no time is negative, none longer than the recording" o=off.json q=runq.json s=stat.json -- \
	'all(0 <= x["seconds"] < 1.1 * (s["to"] - s["from"]) + 1 for r in (o, q) for x in r["rows"] if x["key"]["tid"])' 'len(o["rows"])'

# ---- 10,000 threads that wait, some 7,000 waits a second: none is lost, no drain is long ----
record --wall -F 99 -o many -- "$loads/waits" many 12 -1
cp record.out truth.json
"$ascribe" report many --metric off --where '{thread="many"}' --by thread --idle --json >off.json \
	2>/dev/null
"$ascribe" stat many --json >stat.json
# A recorder that gets no CPU for a while may find its tables full: what then has no row is summed,
# and counted.
check "10,000 threads: waits and their parts have a row" s=stat.json -- \
	'exact(s) and all(s["flagged"][k] < 0.001 * s["fired"] for k in ("wait_no_place", "wait_rows_full", "wait_parts_full")) and
	all(s["lost"][k] == 0 for k in s["lost"] if k not in ("not_run", "idle_not_run"))' \
	's["fired"], {k: s["flagged"][k] for k in ("wait_no_place", "wait_rows_full", "wait_parts_full")}, {k: n for k, n in s["lost"].items() if n}'
check "they wait for all of their time" r=off.json t=truth.json \
	-- 'r["seconds"] > 0.95 * t["least"]' 'r["seconds"], t["least"]'
check "no drain takes a second" s=stat.json \
	-- 's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 1e9' \
	's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]'

# ---- thousands of waits of some milliseconds a second beside those that matter ----
record --wall -F 99 -o crowd -- "$loads/waits" crowd 1 -1
cp record.out truth.json
"$ascribe" report crowd --metric off --where '{thread="once"}' --json >r.json 2>/dev/null
check "who waits for long, for the first time, among 40 threads that nap: the stack is there" r=r.json t=truth.json -- \
	'sum(x["seconds"] for x in r["rows"] if x["function"] == "waits_only_once") > 0.8 * t["once"]' 'r["seconds"], r["rows"][:3], t'

# ---- killed while blocked ----
background "$ascribe" record --wall -a -F 99 -d 60s -o killed 2>killed.err
recorder=$pid
recording killed.err
for _ in $(seq 40); do
	sleep 100 &
	started+=($!)
	victims="${victims:-} $!"
	disown
done
for v in $victims; do
	for _ in $(seq 400); do
		[ "$(cat /proc/$v/comm)" = sleep ] && break
		sleep 0.05
	done
done
sleep 1
kill -9 $victims
sleep 0.5
kill -INT "$recorder"
wait "$recorder"
"$ascribe" stat killed --json >stat.json
"$ascribe" report killed --metric off --by tid --where '{comm="sleep"}' -n 0 --json >off.json \
	2>/dev/null
check "40 processes killed while they sleep: each was blocked until then" r=off.json s=stat.json -- \
	"all(0.5 < rows(r)[t]['seconds'] < s['to'] - s['from'] for t in '$victims'.split())" \
		'sorted(round(x["seconds"], 2) for x in r["rows"])[-3:]'
check "accounting" s=stat.json -- 'exact(s) and s["lost"]["wait_untracked"] == 0' 's["fired"], s["lost"]'
ok "the store is whole" "$ascribe" store verify killed

# Kernels with nohz_full have no membarrier.
if command -v strace >/dev/null; then
	strace -f -qq -o barrier -e trace=membarrier,clock_nanosleep \
		-e inject=membarrier:error=EINVAL "$ascribe" record -q --wall -o no_barrier -- true
	ok "without membarrier, programs at work are waited for" \
		sh -c 'grep -A 1 "membarrier.*EINVAL" barrier | grep -q "clock_nanosleep.*tv_nsec=10000000.*= 0"'
fi
finish
