#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ascribe top --metric: it records what the metric needs, and shows it at the rates that programs
# know themselves.
. "$(dirname "$0")/lib.bash"

# Record with these options while a command runs: its output is in truth, the answer in top.json.
top_of() {
	local options=() top
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$ascribe" top --once --seconds 120 "${options[@]}" --json >top.json 2>top.err &
	top=$!
	recording top.err
	sleep 0.5
	"$@" >truth
	sleep 0.3
	kill -INT $top
	wait $top || bad "top ${options[*]}: $(cat top.err)"
}
# Each row's and the answer's rate, of what is summed over time.
rates='all(abs(r["rate"] - r["samples"] / 1e9 / t["covered"]) < 1e-6 * r["rate"] + 1e-9 for r in t["rows"])'

top_of --latency query_id -F 499 --by tenant -- "$loads/latency" queries 100 3
check "latency: the wall-clock time that each tenant logs, within 5%" t=top.json w=truth -- \
	"$rates and t['metric'] == 'latency' and
	all(abs(rows(t)[k]['seconds'] / w[k]['wall'] - 1) < 0.05 for k in 'ab')" \
	'{k: (rows(t)[k]["seconds"], w[k]["wall"]) for k in "ab"}'

sleeper=slept$$ # other programs are python3, too
cp "$(realpath "$(command -v python3)")" $sleeper
cat >sleeps.py <<'END'
import json, os, time
a, total = time.monotonic, 0
for i in range(40):
    t = a()
    time.sleep(0.03)
    total += a() - t
began = int(open("/proc/self/stat").read().split(") ")[1].split()[19]) / os.sysconf("SC_CLK_TCK")
print(json.dumps({"slept": total, "lived": time.clock_gettime(time.CLOCK_BOOTTIME) - began}))
END
top_of --metric off --by function --where "{comm=\"$sleeper\"}" -- ./$sleeper sleeps.py
check "off: the time that a program slept, within 10%: its clock has the run queue, too" t=top.json w=truth -- \
	"$rates and t['metric'] == 'off' and t['unit'] == 'nanoseconds' and abs(t['seconds'] / w['slept'] - 1) < 0.1" \
	't["seconds"], w'
check "measured waits have no interval" t=top.json -- \
	'all(abs(r["self_rate_low"] - r["self_rate"]) < 1e-9 and r["low"] == r["high"] for r in t["rows"])' 'len(t["rows"])'
top_of --metric wall --by comm --where "{comm=\"$sleeper\"}" -- ./$sleeper sleeps.py
check "wall: and the time on CPUs" t=top.json w=truth -- \
	"$rates and w['slept'] < t['seconds'] < w['lived'] + 0.1" 't["seconds"], w'
top_of --metric waker --by by.comm --where "{comm=\"$sleeper\"}" -- ./$sleeper sleeps.py
check "waker: a timer ended that sleep" t=top.json w=truth -- \
	"abs(rows(t)['(interrupt)']['seconds'] / w['slept'] - 1) < 0.1" 'rows(t).keys()'

allocates() { LD_PRELOAD=$build/libascribe-heap.so "$loads/allocates" 3 200 1; }
top_of --metric alloc_space --by tenant -- allocates
check "alloc_space: bytes a second" t=top.json w=truth -- \
	'all(abs(r["rate"] - r["samples"] / t["covered"]) < 1 for r in t["rows"]) and
	t["unit"] == "bytes" and abs(t["samples"] / sum(x["allocated"] for x in w.values()) - 1) < 0.1' \
	't["samples"], w'
top_of --metric heap --by tenant -- allocates
check "inuse_space: an average, not a rate" t=top.json w=truth -- \
	'all(r["rate"] == r["samples"] > 0 for r in t["rows"]) and
	t["rate"] < 1.15 * sum(x["live"] for x in w.values())' 't["rate"], w'

cp "$loads/sized" .
top_of --metric value -e "uprobe:$PWD/sized:take:arg2=bytes" --by comm -- ./sized 1000 3000
check "value: the sum of what a program passed" t=top.json w=truth -- \
	't["samples"] == 3 * w and t["unit"] == "bytes"' 't["samples"], w'

"$ascribe" top --once --seconds 1 --metric off --by comm -n 3 >text 2>/dev/null
ok "as a table" grep -qE '^ +TIME% +95% INTERVAL +SHARE +SECONDS  comm$' text
ok "of threads' time" grep -qE "^off-cpu, [0-9.]+ s: [0-9.]+% of one thread's time; own" text

exits 2 'of which label\? --latency KEY' "$ascribe" top --once --metric latency
exits 2 'for --metric latency' "$ascribe" top --once --latency a --metric off
exits 2 'records nothing' "$ascribe" top --once --latency a --store x
exits 2 'have no value' "$ascribe" top --once --metric value
exits 2 'use --metric off' "$ascribe" top --once -e off-cpu
exits 2 'blame is none of' "$ascribe" top --once --metric blame
finish
