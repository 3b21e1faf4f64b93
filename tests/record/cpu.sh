#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# CPUs that go and come while recording: what runs on them afterwards is sampled, named and
# labelled, and the counts add up.
. "$(dirname "$0")/lib.bash"
[ -n "${CPU_HOTPLUG:-}" ] || skip "this takes a CPU of the host away: CPU_HOTPLUG=1"
n_cpus=$(nproc --all)
cpu=$((n_cpus - 1))
control=/sys/devices/system/cpu/cpu$cpu/online
[ $cpu -gt 0 ] || skip "one CPU only: none can be taken away"
[ "$(cat $control 2>/dev/null)" = 1 ] || skip "CPU $cpu cannot be taken away here: no $control, or it is offline"
at_end='online 1'
online() { echo "$1" >$control; }
{ online 0; } 2>/dev/null || skip "CPU $cpu cannot be taken away here: $control refuses"

# ---- away at the start, back while recording, away again, back again ----
background "$ascribe" record -a -F 499 -o cpus 2>cpus.err
recorder=$pid
recording cpus.err
background "$loads/busy" spin 8 >/dev/null
sleep 1
ok "CPU $cpu comes" online 1
came=$EPOCHREALTIME
sleep 2.5
background "$loads/busy" spin 6 $cpu >/dev/null
spin=$pid
went=$EPOCHREALTIME
ok "CPU $cpu goes" online 0
sleep 1.5
ok "CPU $cpu comes back" online 1
back=$EPOCHREALTIME
sleep 1.5 # looked at once a second
taskset -pc $cpu "$spin" >/dev/null
taskset -c $cpu "$loads/labelled" nest 0.05 >/dev/null
sleep 2
end=$EPOCHREALTIME
kill -INT "$recorder"
wait "$recorder"
ok "recorded: $(tail -1 cpus.err)" test $? = 0
"$ascribe" stat cpus --json >stat.json
report cpus --by comm,tenant --where '{comm="labelled",tenant!=""}' >labels.json
check "accounting" s=stat.json -- 'exact(s)' '{c["cpu"]: (c["fired"], c["stored"], c["lost"]) for c in s["cpus"]}'
check "CPU 0 was there all the time" s=stat.json -- \
	"abs([c['fired'] for c in s['cpus'] if c['cpu'] == 0][0] / (499 * (s['to'] - s['from'])) - 1) < 0.03"
# Found within a second each time, on a busy machine later; without the second time it has less than
# the first.
check "CPU $cpu was sampled both times" s=stat.json -- \
	"499 * ($went - $came + 0.3 * ($end - $back)) < [c['fired'] for c in s['cpus'] if c['cpu'] == $cpu][0]
	< 499 * ($went - $came + $end - $back + 1)" "($went - $came, $end - $back)"
check "no CPU is unknown" s=stat.json -- 's["lost"]["bad_cpu"] == 0'
check "labels on the CPU that came back" r=labels.json \
	-- '{t for c, t in samples(r)} == {"x", "y"}' 'samples(r)'

# ---- away and back between two looks at the CPUs ----
background "$ascribe" record -a -F 199 -d 8s -o blink 2>blink.err
recorder=$pid
recording blink.err
sleep 1
ok "CPU $cpu goes and comes at once" eval 'online 0 && online 1'
wait "$recorder"
"$ascribe" stat blink --json >blink.json
check "CPU $cpu is sampled again within 4 s" s=blink.json -- \
	"[c['fired'] for c in s['cpus'] if c['cpu'] == $cpu][0] > 199 * 3.5" '{c["cpu"]: c["fired"] for c in s["cpus"]}'
check "CPU $cpu that came back at once: accounting" s=blink.json -- 'exact(s)'
finish
