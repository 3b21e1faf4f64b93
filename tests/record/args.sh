#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Arguments of functions and static probes as values, against the program's own sum: in registers,
# memory and arrays. Those that cannot be read or are no amounts, and forms that are refused. As
# root.
. "$(dirname "$0")/lib.bash"
cp "$loads/sized" sized
sized=$PWD/sized

sums() { # an event's name and its sums: of index 0, of index 1; of how many the value is unknown
	rm -rf sums
	record -o sums -e "$1" -- ./sized 1000 2500
	report sums --by index >sums.json
	check "${1##*/}: $2, $3, unknown $4" r=sums.json -- \
		"{x['key']['index']: (x['samples'], x['value']) for x in r['rows'] if x['key']['index']} ==
		{'0': (1000, $2), '1': (1000, $3)} and r['flagged']['value_unknown'] == $4 and
		r['unit'] == 'bytes'" \
		'[(x["key"], x["samples"], x["value"]) for x in r["rows"]], r["flagged"]["value_unknown"]'
}

sum=$(./sized 1000 0)
sums "uprobe:$sized:take:arg2=bytes" "$sum" $((2 * sum)) 0
sums "usdt:$sized:sized:taken:arg1=bytes" "$sum" $((2 * sum)) 0 # a register
sums "usdt:$sized:sized:taken:arg2=bytes" "$sum" $((2 * sum)) 0 # memory
sums "usdt:$sized:sized:taken:arg3=bytes" 7000 7000 0		# constant
sums "usdt:$sized:sized:taken:arg4=bytes" "$sum" $((2 * sum)) 0 # an array's element
sums "usdt:$sized:sized:taken:arg5=bytes" 0 0 2001		# negative
sums "usdt:$sized:sized:taken:arg6=bytes" 0 0 2001		# nothing is mapped there

# ---- what cannot be ----
for n in 7 8 9; do
	exits 1 "taken has no argument $n that is an integer" "$ascribe" record -d 1s -o x \
		-e "usdt:$sized:sized:taken:arg$n=bytes"
done
exits 1 'argument 9 is not in a register' "$ascribe" record -d 1s -o x \
	-e "uprobe:$sized:take:arg9=bytes"
exits 2 ':argN=UNIT' "$ascribe" record -d 1s -o x -e "uprobe:$sized:take:arg1=miles"
exits 2 'uretprobe:FILE:SYMBOL, with' "$ascribe" record -d 1s -o x \
	-e "uretprobe:$sized:take:arg1=bytes"

# ---- beside others, as the metric ----
record -o both -e "uprobe:$sized:take:arg2=bytes,uretprobe:$sized:take,uprobe:$sized:take" \
	-- ./sized 1000 2500
check "the sum as the metric" r=<(report both --metric value --by index) -- \
	"r['samples'] == 3 * $sum" 'r["samples"]'
# Of index 0 the values are 0, 1, ... 999; of index 1 twice that.
quantiles() { # metric options; what the answers are called
	report both --by index "$@" >quantiles.json
	check "quantiles of the values: $*" r=quantiles.json -- \
		'all(x["hits"] == 1000 and all(x[q]["low"] <= of * (1 + int(x["key"]["index"])) <= x[q]["high"]
		for q, of in (("p50", 499), ("p90", 899), ("p99", 989), ("max", 999)))
		for x in r["rows"] if x["key"]["index"])' 'r["rows"]'
}
quantiles
quantiles --metric value
quantiles --metric value -e "uprobe:$sized:take:arg2=bytes"
ok "where there are no values there are no quantiles" sh -c \
	"! '$ascribe' report both --by index -e 'uprobe:$sized:take' --json 2>/dev/null | grep -q p50"
background "$ascribe" serve both --listen "unix:$PWD/http" 2>/dev/null
within 30 [ -S http ]
curl -gsS --unix-socket http 'http://x/api/v1/histogram?metric=value&by=index' >hist.json
check "the histogram over HTTP" r=hist.json -- \
	'{x["key"]["index"]: x["count"] for x in r["rows"] if x["key"]["index"]} ==
	{"0": 1000, "1": 1000} and r["unit"] == "bytes"' 'r'
"$ascribe" report both >text 2>/dev/null
ok "report has both, with the unit" grep -qE "2001 samples, [0-9.]+ [KMG]iB$" text
finish
