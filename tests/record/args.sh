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

# ---- as labels ----
labels() { # an event's argument; a Python expression of by: {(index, value): hits}; what it says
	local key=${1##*:}
	rm -rf labels
	record -o labels -e "$1" -- ./sized 100 2500
	report labels --by "index,${key%=*}" -n 0 >labels.json
	check "a label: ${1##*/}: $3" r=labels.json -- \
		"(lambda by: $2)({(x['key']['index'], x['key']['${key%=*}']): x['samples']
		for x in r['rows'] if x['key']['index']})" 'r["rows"][:5], r["n_rows"]'
}
each="by == {(str(i), str(n * (i + 1))): 1 for i in (0, 1) for n in range(100)}"
labels "uprobe:$sized:take:arg2=label" "$each" "each call has its own"
labels "uprobe:$sized:take:arg2=int" "$each" "32 bits of a register"
labels "usdt:$sized:sized:taken:arg2=label" "$each" "memory"
labels "usdt:$sized:sized:taken:arg5=label" \
	"by == {('0', '-3'): 100, ('1', '-3'): 100}" "a negative number"
record -o nowhere -e "uprobe:$sized:take:arg1=text" -- ./sized 100 2500
report nowhere --by index >nowhere.json
check "text where there is none is left out, and counted" r=nowhere.json -- \
	'r["samples"] == 201 and r["flagged"]["value_unknown"] >= 200' 'r["flagged"]'
libc=$(awk '/libc\.so\.6$/ { print $6; exit }' /proc/self/maps)
cat >opens.sh <<'END'
for i in 1 2 3 4 5 6 7 8 9 10; do
	read -r x </etc/hostname
	read -r x </etc/passwd
done
END
record -o opens -e "uprobe:$libc:open64:arg1=text" -- dash opens.sh
report opens --by arg1 >opens.json
check "text: the files that a shell opens" r=opens.json -- \
	'(lambda by: by.get("/etc/hostname") == 10 and by.get("/etc/passwd") == 10)(
	{x["key"]["arg1"]: x["samples"] for x in r["rows"]})' 'r["rows"]'
record -o filtered --label-drop arg1 -e "uprobe:$libc:open64:arg1=text" -- dash opens.sh
exits 2 'unknown label key "arg1"' "$ascribe" report filtered --by arg1

# ---- several of one event ----
several() { # an event; a Python expression of by: {(index, label ...): (hits, value)}; what it says
	rm -rf several
	record -o several -e "$1" -- ./sized 100 2500
	report several --by "index,$2" -n 0 >several.json
	check "several: ${1##*sized:}: $4" r=several.json -- "(lambda by: $3)(
		{(x['key']['index'], *(x['key'][k] for k in '$2'.split(','))): (x['samples'], x['value'])
		for x in r['rows'] if x['key']['index']})" 'r["rows"][:5], r["n_rows"]'
}
both="by == {(str(i), str(n * (i + 1))): (1, n * (i + 1)) for i in (0, 1) for n in range(100)}"
several "uprobe:$sized:take:arg2=label:arg2=bytes" arg2 "$both" "each label has its value"
several "usdt:$sized:sized:taken:arg4=bytes:arg2=label" arg2 "$both" "in either order"
several "usdt:$sized:sized:taken:arg2=bytes:arg5=label:arg3=int" arg3,arg5 \
	"by == {(str(i), '7', '-3'): (100, 4950 * (i + 1)) for i in (0, 1)}" "two labels and a value"
several "usdt:$sized:sized:taken:arg6=label:arg1=bytes" index \
	"by == {(str(i), str(i)): (100, 4950 * (i + 1)) for i in (0, 1)}" \
	"the value stays where a label cannot be read"
check "which is counted" r=several.json -- 'r["flagged"]["value_unknown"] >= 200' 'r["flagged"]'

# ---- of processes that are not known yet ----
record -o new -e "uprobe:$sized:take:arg2=label" -- sh -c "for i in 1 2 3 4 5; do $sized 40 0; done"
"$ascribe" stat new --json >stat.json
report new --by arg2 -n 0 >new.json
check "each hit has its label, also while its process is new" r=new.json s=stat.json -- \
	'(lambda by: sum(by.values()) == s["stored"] == 405 and s["flagged"]["new_process"] > 0 and
	all(by.pop(str(n), 0) == 5 * ((n < 40) + (n % 2 == 0) + (n == 0)) for n in range(79)
	if n < 40 or n % 2 == 0) and not by)({x["key"]["arg2"]: x["samples"] for x in r["rows"]})' \
	'[x for x in r["rows"] if x["key"]["arg2"] is None], s["flagged"], s["stored"]'
cat >short.sh <<'END'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	cat /etc/hostname >/dev/null
done
END
record -o short -e "uprobe:$libc:open64:arg1=text" -- sh short.sh
report short --by comm,arg1 -n 0 >short.json
check "also of processes that live for a millisecond" r=short.json -- \
	'sum(x["samples"] for x in r["rows"] if x["key"] == {"comm": "cat", "arg1": "/etc/hostname"}) == 20 and
	not [x for x in r["rows"] if x["key"]["arg1"] is None]' 'r["rows"]'

# ---- what cannot be ----
for n in 7 8 9; do
	exits 1 "taken has no argument $n that is an integer" "$ascribe" record -d 1s -o x \
		-e "usdt:$sized:sized:taken:arg$n=bytes"
done
exits 1 'argument 9 is not in a register' "$ascribe" record -d 1s -o x \
	-e "uprobe:$sized:take:arg9=bytes"
exits 1 'taken has no argument 1 or 7 that is an integer' "$ascribe" record -d 1s -o x \
	-e "usdt:$sized:sized:taken:arg1=bytes:arg7=label"
exits 2 'one of bytes, ns, count' "$ascribe" record -d 1s -o x \
	-e "uprobe:$sized:take:arg1=bytes:arg2=count"
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
report both --by index --where "{event=\"uretprobe:$sized:take\"}" >named.json
check "none rather than zeros where a selector names the event" r=named.json -- \
	'r["samples"] == 2001 and not any("hits" in x for x in r["rows"])' 'r["rows"]'
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
