#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which threads were running while others waited for a CPU, and how long waits were. The load: two
# threads on one CPU, a nice one, a noisy neighbour, sleeps that the program measures itself.
. "$(dirname "$0")/lib.bash"
load=$loads/waits
cpu=$(($(nproc) - 1))
[ -r /proc/thread-self/schedstat ] || skip "this kernel keeps no account of threads: nothing to compare with"

blame() { "$ascribe" blame "$@" -n 0 --json 2>/dev/null; }

# {(victim, occupant): seconds}
cells='(lambda b: {(c["victim"], c["occupant"] or c.get("nobody")): c["seconds"] for c in b["cells"]})'

# ---- two labels on one CPU blame each other 1:1; two others meanwhile on another, where there is
# one, one of them a nice one ----
cp "$load" nicer
if [ $cpu -gt 0 ]; then
	nice_store=pair
	record --wall -F 99 -o pair -- sh -c \
		'"$0" pair 3 "$2" >truth.json & "$1" pair 4 0 5 >nice.out; wait' "$load" ./nicer $cpu
else
	nice_store="nice"
	record --wall -F 99 -o pair -- sh -c '"$0" pair 3 0 >truth.json' "$load"
	record --wall -F 99 -o nice -- sh -c './nicer pair 4 0 5 >nice.out'
fi
of_pair='{tenant=~"l|r",exe!~".*/nicer"}'
blame pair --by tenant --where "$of_pair" >pair.json
"$ascribe" report pair --metric runq --by tenant --where "$of_pair" -n 0 --json >runq.json \
	2>/dev/null
# Both always want the CPU: each waits for the other as long as the other ran, by its own CPU clock,
# whoever else runs there.
as_ran="all(abs($cells(b)[v, o] - t[o]['run']) < 0.05 * t[o]['run'] + 0.05 for v, o in ('lr', 'rl'))"
check "of two labels on one CPU each waits for the other as long as that ran, within 5%" b=pair.json t=truth.json -- \
	"$as_ran" "$cells(b), {k: t[k]['run'] for k in 'lr'}"
check "their waits are what the kernel says, within 2%" r=runq.json t=truth.json -- \
	'all(abs(rows(r)[k]["seconds"] - t[k]["runq"]) < 0.02 * t[k]["runq"] + 0.005 for k in "lr")' \
	'{k: (rows(r)[k]["seconds"], t[k]["runq"]) for k in "lr"}'
check "occupants' time is the waits' time, to the nanosecond" b=pair.json r=runq.json -- \
	'round(1e9 * b["seconds"]) == round(1e9 * r["seconds"]) and
	all(abs(sum(c["seconds"] for c in b["cells"] if c["victim"] == k) - rows(r)[k]["seconds"]) < 1e-6 for k in "lr")' \
	'b["seconds"], r["seconds"]'

"$ascribe" stat pair --json >stat.json
# What is (other) is counted as such, whatever the reason.
counted='(not any(c.get("nobody") == "(other)" for c in b["cells"]) or sum(s["flagged"][k] for k in ("blame_unknown", "blame_cut", "wait_rows_full", "wait_parts_full")) > 0)'
check "what nobody is known for is counted" b=pair.json s=stat.json -- "$counted" \
	's["flagged"]["blame_unknown"]'

# ---- the nice one: 1024 to 335 at nice 5 by the scheduler's weights ----
blame $nice_store --by tenant --where '{tenant=~"l|r",exe=~".*/nicer"}' >nice.json
cp nice.out truth.json
check "and so does one at nice 5, which waits longer than the other" b=nice.json t=truth.json -- \
	"$as_ran and $cells(b)['r', 'l'] > 2 * $cells(b)['l', 'r']" "$cells(b), {k: t[k]['run'] for k in 'lr'}"

# ---- more pairs of a program than are kept, and a few of others ----
record --wall -F 99 -o pairs -- sh -c '"$0" steps 5 0 & "$0" spin 5 "$1" & "$0" victim 4 "$1"; wait' "$load" $cpu
blame pairs --by step >pairs.json
blame pairs --by comm --where '{tenant="v"}' >others.json
"$ascribe" report pairs --metric runq --by step -n 0 --json >runq.json 2>/dev/null
"$ascribe" stat pairs --json >stat.json
check "of more than 4,096 pairs in a window who was running is counted as cut, under (other)" b=pairs.json s=stat.json -- \
	's["flagged"]["blame_cut"] > 0 and exact(s) and sum(c["seconds"] for c in b["cells"] if c.get("nobody") == "(other)") > 0 and
	len([c for c in b["cells"] if c["occupant"]]) <= 4096 * s["blocks"]' \
	's["flagged"]["blame_cut"], len(b["cells"])'
check "of others who was running is named all the same" b=others.json \
	-- "$cells(b)['victim', 'noisy'] > 0.002" \
	"sorted(((round(s, 3), o) for (v, o), s in $cells(b).items()), reverse=True)[:4]"
# What found no row for who was running is in nobody's name.
check "and the sums stay what they are" b=pairs.json r=runq.json s=stat.json -- '
	round(1e9 * b["seconds"]) == round(1e9 * r["seconds"]) and
	all(s["flagged"]["wait_rows_full"] + s["flagged"]["wait_parts_full"] > 0 or abs(sum(c["seconds"] for c in b["cells"] if c["victim"] == x["key"]["step"]) - x["seconds"]) < 1e-6 for x in r["rows"])' \
	'b["seconds"], r["seconds"]'

# ---- a noisy neighbour ----
running=$(cut -d' ' -f4 /proc/loadavg | cut -d/ -f1)
background "$load" spin 4 $cpu
record --wall -a -F 99 -d 3s -o noisy -- "$load" victim 2 $cpu
blame noisy --by comm --where '{tenant="v"}' >noisy.json
"$ascribe" stat noisy --json >stat.json
# All processes are recorded: where the host has more pairs than are kept, one of a single process
# may be cut.
check "the noisy process is among those who are named, unless pairs of the host were cut" \
	b=noisy.json s=stat.json -- \
	"$cells(b).get(('victim', 'noisy'), 0) > 0.002 or sum(s['flagged'][k] for k in ('blame_cut', 'wait_rows_full', 'wait_parts_full')) > 0" \
	"{k: s['flagged'][k] for k in ('blame_cut', 'wait_rows_full', 'wait_parts_full')}, s['lost']['stacks_full'], sorted(((round(s, 3), o) for (v, o), s in $cells(b).items()), reverse=True)[:4]"
check "what nobody is known for is counted there, too" b=noisy.json s=stat.json -- "$counted" \
	's["flagged"]["blame_unknown"]'
if [ "$running" -le 2 ]; then # whoever else keeps the machine busy is an occupant, too
	check "and the first of them" b=noisy.json -- "max(($cells(b)).items(), key=lambda x: x[1])[0][1] == 'noisy'"
fi
ok "blame as text" sh -c "'$ascribe' blame noisy 2>/dev/null | grep -q 'waited for a CPU'"

# ---- how long ----
record --wall -F 99 -o lengths -- "$load" lengths 3 $cpu
cp record.out truth.json
for metric in off runq; do
	"$ascribe" report lengths --metric $metric --by tenant --where '{tenant="s"}' \
		--json >$metric.json 2>/dev/null
done
# A bucket is known to 1/16; the program's clocks are read some microseconds around the wait.
quantiles='all(x[q]["low"] * 0.97 - 1e-5 <= t[q] <= x[q]["high"] * 1.03 + 1e-5 for x in [rows(r)["s"]] for q in ("p50", "p90"))'
# As the kernel accounts for the queue, whose clock ours is.
late='all(x[q]["low"] * 0.97 - 5e-5 <= t[q] <= x[q]["high"] * 1.03 + 5e-5 for x in [rows(r)["s"]] for q in ("p90", "p99"))'
check "quantiles of being blocked are those that the program logged" r=off.json t=truth.json -- \
	"(lambda t: $quantiles)(t['off'])" '{q: (rows(r)["s"][q], t["off"][q]) for q in ("p50", "p90", "p99")}'
# But for those before its label was seen for the first time.
check "no wait is missing" r=off.json t=truth.json \
	-- '-6 <= rows(r)["s"]["waits"] - t["off"]["n"] <= 3' 'rows(r)["s"]["waits"], t["off"]["n"]'
check "the queue's quantiles too" r=runq.json t=truth.json -- "(lambda t: $late)(t['queue'])" \
	'{q: (rows(r)["s"][q], t["queue"][q]) for q in ("p50", "p90", "p99")}'
# ---- in buckets that a user chose: those whose bounds are the program's quantiles ----
bounds=$(jq -r '[.off.p50, .off.p90, .off.p99 | . * 1e9 | round | "\(.)ns"] | join(",")' truth.json)
"$ascribe" report lengths --metric off --by tenant --where '{tenant="s"}' --buckets "$bounds" \
	--json >buckets.json 2>/dev/null
check "half of the waits are below the median that the program logged, 90% below the next bound" \
	b=buckets.json t=truth.json -- '(lambda n: sum(n) == b["rows"][0]["count"] and
	[x[1] is None for x in b["rows"][0]["buckets"]] == [False] * 3 + [True] and
	abs(n[0] / sum(n) - 0.5) < 0.12 and abs((n[0] + n[1]) / sum(n) - 0.9) < 0.06 and
	n[3] / sum(n) < 0.06)([x[2] for x in b["rows"][0]["buckets"]])' 'b["rows"][0]["buckets"]'
ok "and as text" sh -c "'$ascribe' report lengths --metric off --by tenant --buckets linear:0:5ms:12 \
	2>/dev/null | grep -q '^tenant=s: [0-9]* waits, mean '"
exits 1 'none of 1ms,10ms' "$ascribe" report lengths --metric off --buckets 2ms,1ms
exits 1 'kept of waits' "$ascribe" report lengths --buckets 1ms
exits 2 'goes without' "$ascribe" report lengths --metric off --tree --buckets 1ms

# ---- the same over HTTP ----
get() { # store, question, selector, curl's options
	curl -s --unix-socket "$1.http" --get "http://localhost/api/v1/$2" --data-urlencode "where=$3" "${@:4}"
}
for store in lengths noisy; do
	background "$ascribe" serve $store --listen "unix:$dir/$store.http" 2>/dev/null
	within 30 [ -S $store.http ]
done
get lengths histogram '{tenant="s"}' -d metric=off -d by=tenant >h.json
get lengths table '{tenant="s"}' -d metric=off -d by=tenant >t.json
get noisy blame '' -d by=comm -d limit=2 >b.json
get lengths histogram '' -d metric=off_cpu >bad.json
get lengths histogram '{tenant="s"}' -d metric=off -d by=tenant -d "buckets=$bounds" >hb.json
blame noisy --by comm >all.json
check "a histogram of waits over HTTP: as many, and the same quantiles as in the table" h=h.json t=t.json r=off.json -- \
	'len(h["rows"]) == 1 and h["rows"][0]["count"] == rows(r)["s"]["waits"] == sum(n for low, high, n in h["rows"][0]["buckets"]) and
	all(abs(h["rows"][0]["quantiles"][q] / 1e9 - rows(t)["s"][p]["value"]) < 1e-9 for q, p in (("0.5", "p50"), ("0.9", "p90")))' 'h["rows"][0]["quantiles"]'
check "in the same buckets, too" h=hb.json b=buckets.json -- 'h["rows"] == b["rows"]'
check "a matrix of 2 by 2 and the rest: lines, columns and cells add up to all" b=b.json w=all.json -- \
	'[len(b[k]) for k in ("victims", "occupants")] == [3, 3] and b["victims"][2]["rest"] and b["occupants"][2]["rest"] and
	all(abs(sum(x["seconds"] for x in b[k]) - w["seconds"]) < 1e-6 for k in ("victims", "occupants", "cells")) and
	b["n_victims"] == len(w["victims"]) and b["victims"][:2] == w["victims"][:2]' 'b["victims"]'
check "no such metric" h=bad.json -- 'h["code"] == "invalid_argument"'

# ---- who was running is named by its exact image, though it has become another program since ----
for name in long two three; do cp "$loads/turns" $name; done
background taskset -c $cpu "$load" spin 6 $cpu >/dev/null
spinner=$pid
record --wall -a -F 99 -o turns -- taskset -c $cpu "$PWD/long" 300 "$PWD/two" "$PWD/three"
kill "$spinner" 2>/dev/null
"$ascribe" blame turns --by exe --where '{exe=~".*/waits"}' --json 2>/dev/null >turns.json
# On a busy host other programs are who was running.
seconds_of='sum(x["seconds"] for x in b["occupants"] if (x["occupant"] or "").endswith(end))'
check "of three programs in turn, ten of twelve parts of the CPU are the first one's" b=turns.json -- \
	"(lambda first, three, named: first > 0.7 * three if three > 0.1 else named > 1)(*($seconds_of
	for end in ('/long', ('/long', '/two', '/three'), '')))" \
	'[x for x in b["occupants"] if x["seconds"] > 0.05]'

report lengths --metric off --by thread >thread.json
check "no histograms by thread, and none is shown" r=thread.json \
	-- 'all("waits" not in x for x in r["rows"]) and r["rows"]'
exits 2 'labels of the work' "$ascribe" blame pair --by tid
exits 2 'blame: --by takes one key' "$ascribe" blame pair --by comm,tenant
record -F 99 -d 200ms -o plain
exits 2 'no blame times.*--wall' "$ascribe" blame plain
finish
