#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program whose label sets never come again: the daemon keeps within its memory, the store within
# its quota, sums stay what they are, and another program keeps its labels. FLOOD_SECONDS: how long.
. "$(dirname "$0")/lib.bash"
seconds=${FLOOD_SECONDS:-$(in_part 12 60)}
quota=16

background "$ascribe" daemon -s store -l unix:"$dir/sock" -F 499 --memory-max 128MiB --cpu-max 0 \
	--store-max ${quota}MiB 2>log
daemon=$pid
recording log || finish
# Bytes of the store and of memory, at most: seen twice a second while the flood lasts.
most=0 memory=0
look() {
	local now
	now=$(du -sb --exclude=reserve store | cut -f1)
	[ "${now:-0}" -le $most ] || most=$now
	now=$(curl -s --unix-socket sock http://x/metrics |
		sed -n 's/^ascribe_memory_used_bytes \([0-9]*\).*/\1/p')
	[ "${now:-0}" -le $memory ] || memory=$now
}
"$loads/tenants" "$seconds" &
tenants=$!
started+=("$tenants")
"$loads/flood" "$seconds" >flood.json &
flood=$!
started+=("$flood")
while kill -0 $flood 2>/dev/null; do
	look
	sleep 0.5
done
wait $flood $tenants
kill -TERM "$daemon"
wait "$daemon"
ok "the daemon ends well" test $? = 0
"$ascribe" stat store --json >stat.json
report store --where "{tgid=\"$flood\"}" --by comm >all.json
report store -n 0 --where "{tgid=\"$flood\"}" --by trace_id >flooded.json
report store -n 0 --where "{tgid=\"$tenants\"}" --by tenant >tenants.json
check "more than 100,000 sets a second of its CPU time" f=flood.json -- \
	"f['sets'] > 100000 * f['cpu']" 'f["sets"] / f["cpu"]'
check "every sample is accounted for" s=stat.json -- 'exact(s)' \
	's["fired"], s["stored"], {k: n for k, n in s["lost"].items() if n}'
check "its sets sum to its samples" a=all.json f=flooded.json -- \
	"sum(r['samples'] for r in f['rows']) == a['samples'] > 0" \
	"sum(r['samples'] for r in f['rows'])"
check "its samples are its CPU time" a=all.json f=flood.json s=stat.json -- \
	"abs(a['samples'] - 499 * f['cpu']) < 5 * (499 * f['cpu']) ** 0.5 + 499 * f['cpu'] *
	(0.1 + s['lost']['not_run'] / s['fired'])" "a['samples'] / 499, f['cpu']"
check "the other program keeps its labels" t=tenants.json -- \
	"set(rows(t)) <= {'t0', 't1', 't2', 't3', 't4', 't5', None} and
	rows(t)['t0']['samples'] > rows(t)['t2']['samples'] > 0 and
	rows(t).get(None, {'samples': 0})['samples'] < 0.1 * sum(r['samples'] for r in t['rows'])" \
	"{k: r['samples'] for k, r in rows(t).items()}"
ok "the store keeps its quota of $quota MiB: $((most >> 10)) KiB at most" \
	test $((most * 100)) -le $((quota * 105 << 20))
ok "memory keeps memory-max of 128 MiB: $((memory >> 20)) MiB at most" \
	test $((memory >> 20)) -lt 128 -a $memory -gt 0
jq -r '"\(.sets) label sets, \(.sets / .cpu / 1000 | floor) thousand a second of CPU time"' flood.json
finish
