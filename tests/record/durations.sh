#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How long calls take (uretprobe), against two clocks of the program: within the calls and around
# them. Calls that do not return are counted as lost, also those of threads that exit. As root.
. "$(dirname "$0")/lib.bash"
cp "$loads/timed" timed
timed=$PWD/timed

# ---- each call, its time by label ----
record -o calls -e "uretprobe:$timed:spin,page-faults" -- ./timed 3 200 2500
grep '^\[' record.out >clocks.json
report calls --by index >calls.json
check "each call, by label" r=calls.json -- \
	'{x["key"]["index"]: x["samples"] for x in r["rows"] if x["key"]["index"]} ==
	{"0": 200, "1": 400, "2": 600} and r["samples"] == 1201' '[x["samples"] for x in r["rows"]]'
check "their time lies between the two clocks of the program" r=calls.json c=clocks.json -- \
	'all(c[int(x["key"]["index"])]["inner"] <= x["value"] <= c[int(x["key"]["index"])]["outer"]
	for x in r["rows"] if x["key"]["index"])' \
	'[(x["key"], x["value"]) for x in r["rows"]], c'
check "in nanoseconds, their sum too" r=calls.json -- \
	'r["unit"] == "nanoseconds" and r["value"] == sum(x["value"] for x in r["rows"])' 'r["unit"]'
report calls --metric value --by index >time.json
check "the time as the metric" r=time.json q=calls.json -- \
	'{x["key"]["index"]: x["samples"] for x in r["rows"]} ==
	{x["key"]["index"]: x["value"] for x in q["rows"]} and r["metric"] == "value"' 'r["samples"]'
report calls >functions.json
check "in their callers" r=functions.json -- \
	'{x["function"]: x["self"] for x in r["rows"] if x["self"]} == {"run": 1200, "main": 1}' \
	'[(x["function"], x["self"]) for x in r["rows"]]'
"$ascribe" report calls --by index >text 2>/dev/null
ok "report shows both, and quantiles" grep -qE '^ +600 +0\.[0-9]{6} +49\.96% +600 ( +[0-9.]+ [mu]s){4} +2$' text
report calls -e "uretprobe:$timed:spin.lengths" >lengths.json
check "each call in the bucket of its time" r=calls.json l=lengths.json -- \
	'sum(x["self"] for x in l["rows"]) == 1201 and
	(lambda low: low <= r["value"] <= 1.125 * low + 1201)(
	sum(x["self"] * int(x["function"].split("+")[1], 16) for x in l["rows"]))' \
	'r["value"], [(x["function"], x["self"]) for x in l["rows"]]'
ok "without intervals: each call is there" sh -c '! grep -q INTERVAL text'
"$ascribe" export calls --format folded --metric value >folded 2>/dev/null
ok "folded stacks weigh by time" test "$(awk '{ n += $NF } END { print n }' folded)" = \
	"$(jq .value calls.json)"
"$ascribe" export calls --format pprof -o calls.pb.gz 2>/dev/null
if command -v go >/dev/null; then
	HOME=$PWD go tool pprof -raw calls.pb.gz >raw 2>/dev/null
	ok "pprof has both, with units" grep -qF "samples/count uretprobe:$timed:spin/nanoseconds" raw
fi

# ---- calls that do not return as others do ----
ends() { # a function, and what its events must be: stored, then names and numbers of losses
	record -o "$1" -e "uretprobe:$timed:$1" -- ./timed 1 10 1000
	"$ascribe" stat "$1" --json >"$1.json"
	check "$1: $2 stored, lost: $3" s="$1.json" -- \
		"(s['stored'], {k: v for k, v in s['lost'].items() if v}) == ($2, {$3})" \
		's["stored"], {k: v for k, v in s["lost"].items() if v}'
}
ends fall 84 "'call_unreturned': 36"
ends leap 0 "'call_unreturned': 7"
ends split 1 "'call_unbegun': 1"
ends quit 0 "'call_unreturned': 1"
report fall --by tid >fall.json
check "inner calls take less time than outer ones" r=fall.json -- '0 < r["value"] < 84e7' 'r["value"]'

# ---- beside other events ----
record -o both -e "cpu-clock,uretprobe:$timed:spin,uprobe:$timed:spin" -- ./timed 2 300 1000
exits 2 'the values of cpu-clock are its time: --metric cpu' "$ascribe" report both --metric value
ok "as many as there are hits" test "$(report both -e "uprobe:$timed:spin" | jq .samples) \
$(report both -e "uretprobe:$timed:spin" | jq .samples)" = "901 901"

exits 2 'has the form uretprobe:FILE:SYMBOL, with' "$ascribe" record -d 1s -o x \
	-e "uretprobe:$timed:spin+4"
exits 1 'has no function nothing' "$ascribe" record -d 1s -o x -e "uretprobe:$timed:nothing"
finish
