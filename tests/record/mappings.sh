#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process with 100,000 mappings (65,000 where vm.max_map_count cannot be raised): made while the
# host is recorded, and there before. Drains stay short, memory small, its functions have names.
. "$(dirname "$0")/lib.bash"
limit=$(sysctl -n vm.max_map_count) n=65000
at_end='sysctl -qw vm.max_map_count='$limit
[ "$limit" -ge 131072 ] || sysctl -qw vm.max_map_count=131072 2>/dev/null
[ "$(sysctl -n vm.max_map_count)" -lt 131072 ] || n=100000

recorder_once() { # store: record the host in the background
	background "$ascribe" record -a -F 499 -o "$1" 2>"$1.err"
	recorder=$pid
	recording "$1.err"
}

load_once() {
	background "$loads/mappings" $n 4 >made
	load=$pid
}

judge() { # store
	local peak
	peak=$(awk '/^VmHWM/ { print $2 }' /proc/$recorder/status)
	kill -INT $recorder
	wait $recorder
	ok "$1: the recorder ends well" test $? = 0
	ok "$1: at most 128 MiB were resident: $peak KiB" test "$peak" -lt 131072
	"$ascribe" stat "$1" --json >stat.json
	report "$1" --by exe --where "{tgid=\"$load\"}" >exe.json
	report "$1" --where "{tgid=\"$load\"}" -n 0 >functions.json
	check "$1: every sample is accounted for" s=stat.json -- 'exact(s) and s["stored"] > 0' \
		's["stored"]'
	check "$1: no drain over 5 s, as on a busy host" s=stat.json -- \
		's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 5e9' \
		's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9'
	check "$1: its path" r=exe.json -- "samples(r).get('$loads/mappings', 0) > 0.95 * r['samples'] > 200" 'samples(r)'
	check "$1: its functions" r=functions.json -- 'samples(r).get("burn", 0) > 0.5 * r["samples"]' \
		'list(samples(r).items())[:5]'
}

recorder_once during
load_once
wait "$load"
ok "$n mappings were made" test "$(cat made)" = $n
judge during

load_once
for _ in $(seq 200); do
	[ -s made ] && break
	sleep 0.05
done
recorder_once before
wait "$load"
judge before
finish
