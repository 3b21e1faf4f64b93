#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every sample is accounted for: fired == stored + each named loss, on each CPU and in total, at any
# rate and under any load. `fired` is what the clock says, samples are what the process's own CPU
# clock says.
. "$(dirname "$0")/lib.bash"
load=$loads/busy
n_cpus=$(nproc)

# The clock of the host may be set, or be slewed by chrony, by up to 8%, while samples fire by the
# CPU's own clock. $drift is by how many seconds the host's clock went ahead during a recording.
drift=0 offset=
clock_offset() {
	python3 -c 'import time; print(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW))'
}
measure_drift() { drift=$(python3 -c "print($(clock_offset) - $offset)"); }

# What, store, rate: the identity, and fired against rate x time x CPUs. Fired counts from the first
# event to the last; the window is some milliseconds longer.
judge() {
	local what=$1 store=$2 hz=${3:-}
	"$ascribe" stat "$store" --json >stat.json
	check "$what: fired == stored + losses on each CPU" s=stat.json -- \
		"exact(s) and s['fired'] > 0" \
		's["fired"], s["stored"], {k: n for k, n in s["lost"].items() if n}'
	check "$what: a depth for each stack stored, among the recorder's own metrics" s=stat.json -- \
		's["own"]["metrics"]["ascribe_stack_depth_frames"]["count"] == s["stored"] - s["flagged"]["idle"] and
		s["own"]["metrics"]["ascribe_drain_seconds"]["count"] > 0' 's["own"]["metrics"].keys(), s["stored"]'
	[ -z "$hz" ] || check "$what: fired is rate x time x CPUs within 2%" s=stat.json -- \
		"abs(s['fired'] / ($hz * (s['to'] - s['from'] - $drift) * $n_cpus) - 1) < 0.02 + 3 / s['fired']" \
		"round(s['fired'] / ($hz * (s['to'] - s['from'] - $drift) * $n_cpus), 4), $drift"
}

# Did the thread that spins get less than it would alone? Then the recorder waits for a CPU as well:
# what it loses meanwhile has a name, and how much that is says nothing of it.
crowded() { ! jq -e '.seconds > 0.8 * $for' --argjson for "$1" spin.json >/dev/null; }
too_busy() {
	echo "--    the machine is too busy, $1: $(jq -c '.lost | map_values(select(. > 0))' stat.json) lost"
}

# No sample may be missed because the profiler drains, nor a table be full: at 99 and 999 Hz never.
# `not_run` has a part that is not ours: a virtual CPU that is not given time has no timer. It is 0
# where nobody else uses the machine; 5% is let pass.
no_loss() { # what, seconds that the load spun for
	if crowded "$2"; then
		too_busy "$1"
		return
	fi
	check "$1: tables never full, nothing else lost" s=stat.json -- \
		"all(s['lost'][k] == 0 for k in s['lost'] if k not in ('not_run', 'idle_not_run')) and
		s['lost']['not_run'] <= 0.05 * s['fired'] + 2" 's["lost"]["not_run"]'
}

# Against the CPU clocks of the loads, and perf. Missing is what a load ran before it was recorded,
# and what did not run.
against_others() {
	local who
	for who in "$spin:spin.json" "$busy:syscalls.json"; do
		check "samples of process ${who%:*} against its CPU clock" r=tgid.json l="${who#*:}" \
			s=stat.json b=began.json -- \
			"b - s['from'] - 0.1 - r['lost']['not_run'] / 999 - 0.02 * l['seconds'] < rows(r)['${who%:*}']['seconds'] - l['seconds'] <
			0.02 * l['seconds'] + 0.05" "round(rows(r)['${who%:*}']['seconds'], 3), l['seconds']"
	done
	check "as many samples of it as perf has, within 5%" r=tgid.json p=perf.json -- \
		"abs(samples(r)['$spin'] - p['samples']) < 0.05 * p['samples'] + 300" "samples(r)['$spin'], p['samples']"
}

# ---- 99 Hz, one pinned load: against its CPU clock ----
background "$load" spin 3 0 >spin.json
spin=$pid
offset=$(clock_offset)
record -a -F 99 -d 3500ms -o hz99
measure_drift
wait "$spin"
judge "99 Hz" hz99 99
no_loss "99 Hz" 3

# ---- 999 Hz beside a million system calls a second, and beside perf's own sampling of the same
# ----
busy_for=$(in_part 3 6)
echo "$EPOCHREALTIME" >began.json
background "$load" syscalls $busy_for 0 >syscalls.json
busy=$pid
background "$load" spin $busy_for $((n_cpus - 1)) >spin.json
spin=$pid
background perf record -q -F 999 -e cpu-clock -p "$spin" -o perf.data >/dev/null 2>&1
perf=$pid
offset=$(clock_offset)
record -a -F 999 -d $((busy_for + 1))s -o hz999
measure_drift
wait "$busy" "$spin" "$perf"
judge "999 Hz, system calls" hz999 999
no_loss "999 Hz, system calls" $busy_for
check "the neighbour was busy" l=syscalls.json -- 'l["calls"] > 5e5 * min(1, l["seconds"] / 2)' \
	'l["calls"], l["seconds"]'
report hz999 --by tgid -n 0 >tgid.json
perf script -i perf.data -F tid 2>/dev/null | wc -l | sed 's/.*/{"samples":&}/' >perf.json
crowded $busy_for || against_others

# ---- 4,999 Hz, nearly every stack new ----
deep_for=$(in_part 2 4)
background "$load" deep $deep_for 0 >/dev/null
background "$load" deep $deep_for $((n_cpus - 1)) >/dev/null
offset=$(clock_offset)
record -a -F 4999 -d ${deep_for}s -o hz4999
measure_drift
judge "4999 Hz, deep stacks" hz4999 4999
if crowded $busy_for; then
	too_busy "4999 Hz"
else
	"$ascribe" export hz4999 --format folded 2>/dev/null >folded
	check "4999 Hz: nearly all is stored" s=stat.json -- \
		's["stored"] + s["lost"]["not_run"] + s["lost"]["idle_not_run"] > 0.9 * s["fired"]'
	# left and right call each other through turn(), which is inlined.
	ok "stacks are whole: 100 turns under main" sh -c "sed 's/turn_.i.;//g' folded | grep -c -E 'main;left;((left|right);){90,}'"
fi

# ---- tables that overflow: the recorder is stopped for two seconds ----
background "$load" deep 4 0 >/dev/null
background "$load" deep 4 $((n_cpus - 1)) >/dev/null
offset=$(clock_offset)
background "$ascribe" record -a -F 4999 -d 4s -o full 2>full.err
recorder=$pid
recording full.err
sleep 1
kill -STOP "$recorder"
sleep 2
kill -CONT "$recorder"
wait "$recorder"
ok "the recorder ended well" test $? = 0
measure_drift
judge "full tables" full 4999
check "full tables are counted by name" s=stat.json -- 's["lost"]["rows_full"] + s["lost"]["stacks_full"] > 1000'
# The sum over all rows is what was stored: none is lost between table and report.
"$ascribe" report full --idle --json 2>/dev/null >all.json
check "report has every stored sample" s=stat.json r=all.json -- 'r["samples"] == s["stored"]' \
	'r["samples"]'

# ---- other events ----
# Every hit of these is a sample: as many as the load makes, and what starting a process needs.
record -e page-faults -o page-faults -- "$load" faults "$(in_part 1 2)"
cp record.out truth.json
judge "page-faults" page-faults
check "page-faults: every one" s=stat.json l=truth.json \
	-- '0 <= s["fired"] - l["calls"] < 1000 + 0.001 * l["calls"]' 's["fired"], l["calls"]'
record -e context-switches -o context-switches -- "$load" switches "$(in_part 1 2)" 0
cp record.out truth.json
judge "context-switches" context-switches
# Two for each round trip on one CPU; others take the CPU in between, and a late answer saves one.
check "context-switches: every one" s=stat.json l=truth.json -- \
	'0.9 < s["fired"] / (2 * l["calls"]) < 1.1' 's["fired"], 2 * l["calls"]'
background "$load" switches "$(in_part 3 6)" >/dev/null
[ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
if [ -d /sys/kernel/tracing/events/sched ]; then
	record -a -e sched:sched_switch -d "$(in_part 1 2)s" -o tracepoint
	judge "a tracepoint" tracepoint
	background "$load" switches "$(in_part 3 5)" >/dev/null
	record -a -F 499 -e cpu-clock,sched:sched_switch -d 2s -o two
	judge "two events at once" two
	"$ascribe" report two --event cpu-clock --idle --json 2>/dev/null >clock.json
	"$ascribe" report two --event sched:sched_switch --idle --json 2>/dev/null >switch.json
	check "two events: both there, none mixed in" s=stat.json a=clock.json b=switch.json -- \
		'a["samples"] + b["samples"] == s["stored"] and b["samples"] > 1000 and
		(lambda want: 0.95 * want - sum(s["lost"].values()) < a["samples"] < 1.05 * want)(499 * (a["to"] - a["from"]) * '"$n_cpus"')' \
		'a["samples"], b["samples"], a["to"] - a["from"]'
else
	echo "--    no tracefs here: no tracepoints"
fi

# ---- what is not selected ----
background "$load" spin 3 >/dev/null
record -F 499 -o selected -- "$load" spin 2
judge "a command" selected
report selected --by comm,tgid >comm.json
# Until its exec the command is a child of the recorder with the recorder's name.
check "nothing but the command" r=comm.json s=stat.json -- 'len({p for c, p in samples(r)}) == 1 and
	samples(r)["busy", r["rows"][0]["key"]["tgid"]] >= r["samples"] - 5 and s["outside"] > 400' 'samples(r), s["outside"]'
finish
