#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Modifiers, periods, and events of a PMU: user and kernel parts of a clock are its whole, faults of
# user mode are those of a program that touches pages, each 10th is a sample that counts 10. The
# ratio of two events, by label, is the kernel's. What this machine does not have is refused, with
# what to do. As root.
. "$(dirname "$0")/lib.bash"

# ---- :u and :k ----
# dd from /dev/zero works in the kernel, a shell's loop does not.
work='i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done
dd if=/dev/zero of=/dev/null bs=1M count=12000 2>/dev/null'
record -o parts -F 499 -e cpu-clock,cpu-clock:u,cpu-clock:k -- sh -c "$work"
for e in cpu-clock cpu-clock:u cpu-clock:k; do
	report parts -e "$e" --by comm >"$e.json"
done
check "both parts are the whole" a=cpu-clock.json u=cpu-clock:u.json k=cpu-clock:k.json -- \
	'abs(u["samples"] + k["samples"] - a["samples"]) < 6 * a["samples"] ** 0.5 and
	a["samples"] > 100' '[x["samples"] for x in (a, u, k)]'
kernel=$("$ascribe" report parts -e cpu-clock:u --json | jq '[.rows[] | select(.module ==
	"[kernel]")] | length')
ok "no kernel frame in :u" test "$kernel" = 0
check "a loop is user time, dd the kernel's" u=cpu-clock:u.json k=cpu-clock:k.json -- \
	'sum(x["samples"] for x in u["rows"] if x["key"]["comm"] == "sh") > 0.8 * u["samples"] and
	sum(x["samples"] for x in k["rows"] if x["key"]["comm"] == "dd") > 0.6 * k["samples"]' \
	'[(x["key"], x["samples"]) for x in u["rows"] + k["rows"]]'
"$ascribe" stat parts --json >stat.json
check "and no sample is missing" s=stat.json -- \
	's["fired"] == s["stored"] + sum(s["lost"].values())' \
	's["fired"], s["stored"], s["lost"]["not_run"]'

# ---- -c ----
touch='import mmap; m = mmap.mmap(-1, 40960000)
for i in range(0, 40960000, 4096): m[i] = 1'
record -o each -e page-faults:u -- python3 -c "$touch"
record -o tenth -c 10 -e page-faults:u -- python3 -c "$touch"
each=$(report each | jq .samples)
report tenth >tenth.json
check "each 10th of $each faults" t=tenth.json -- \
	"t['samples'] > 990 and abs(10 * t['samples'] - $each) < 0.05 * $each and
	t['value'] == 10 * t['samples']" 't["samples"], t["value"]'
ok "faults of user mode" test "$each" -ge 10000
"$ascribe" report each >text 2>/dev/null
ok "each one: no interval" sh -c '! grep -q INTERVAL text'
"$ascribe" report tenth >text 2>/dev/null
ok "each 10th: an interval" grep -q INTERVAL text
ok "the head says how many each stands for, and no rate" grep -q '(1 in 10); host' text

# ---- --per ----
record -q -o ratio -F 499 -e cpu-clock,page-faults -- "$loads/ratio"
cp record.out truth.json
report ratio -e page-faults --per cpu-clock --by tenant >ratio.json
check "page faults for each second of CPU time, by label, within the error" r=ratio.json t=truth.json -- \
	'r["per"] == "cpu-clock" and all(x["ratio_error"] < 0.15 and
	abs(x["ratio"] / t[x["key"]["tenant"]] - 1) < 2 * x["ratio_error"]
	for x in r["rows"] if x["key"]["tenant"]) and t["many"] > 5 * t["few"]' 't, r["rows"]'
report ratio -e cpu-clock --per page-faults --by tenant >inverse.json
check "and the inverse" r=ratio.json i=inverse.json -- \
	'all(abs(x["ratio"] * y["ratio"] - 1) < 1e-6 for x in r["rows"] for y in i["rows"]
	if x["key"]["tenant"] == y["key"]["tenant"])' 'r["rows"], i["rows"]'
"$ascribe" report ratio -e page-faults --per cpu-clock --by tenant >text 2>/dev/null
ok "the text says of what" grep -q '^RATIO: page-faults / seconds of cpu-clock' text
exits 1 'no event nothing in the store' "$ascribe" report ratio --per nothing --by tenant
exits 2 'per needs --by' "$ascribe" report ratio --per page-faults
exits 2 'per is for label keys' "$ascribe" report ratio --per page-faults --by function

# ---- what cannot be ----
exits 2 'no event has a period' "$ascribe" record -d 1s -o x -c 10 -e cpu-clock
exits 2 'stand u \(user\), k' "$ascribe" record -d 1s -o x -e cpu-clock:x
exits 2 'precise addresses \(p\) are for' "$ascribe" record -d 1s -o x -e page-faults:up
exits 2 'there is no PMU nothing in /sys' "$ascribe" record -d 1s -o x -e nothing/event=1,umask=2/
exits 2 'software is not the PMU of a CPU' "$ascribe" record -d 1s -o x -e software/config=0/
exits 2 'unknown event .rx.' "$ascribe" record -d 1s -o x -e rx
if [ ! -d /sys/bus/event_source/devices/cpu ]; then
	exits 1 'not counted by this machine' "$ascribe" record -d 1s -o x -e r1a8:u
	exits 2 'there is no PMU cpu' "$ascribe" record -d 1s -o x -e cpu/event=0x3c,umask=0/u
fi
finish
