#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sampling allocations costs a program: `make bench-heap`, as root. The share of its CPU time
# that is spent in the library and in its probes, by perf: its time with and without them differs by
# less than two equal runs do. Beside it, CPU time with heaptrack and without. Medians of
# interleaved runs.
set -u
build=$(realpath "$1")
runs=${RUNS:-5}
lib=$build/libascribe-heap.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
cat >objects.py <<'PY'
d = {}
for i in range(1200000):
    d[i % 50000] = {"id": i, "name": str(i) * 3, "list": [i] * (i % 50)}
PY
# CPU seconds of a command and what it waited for.
used() {
	local TIMEFORMAT='%U %S'
	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}
redis() { # the server's CPU seconds for a fixed number of commands
	"$@" redis-server --port 7399 --save '' --appendonly no --io-threads 1 >redis.out 2>&1 &
	local starter=$! server
	for _ in $(seq 200); do
		redis-cli -p 7399 ping 2>/dev/null | grep -q PONG && break
		sleep 0.05
	done
	server=$(redis-cli -p 7399 info server | tr -d '\r' | sed -n 's/^process_id://p')
	redis-benchmark -p 7399 -q -n 200000 -r 50000 -d 400 -P 8 \
		-t set,get,lpush,lpop,hset >/dev/null 2>&1
	awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$server/stat"
	redis-cli -p 7399 shutdown nosave >/dev/null 2>&1
	wait $starter
}
one() { # load, how
	case $1 in
	redis) redis $2 ;;
	python) used $2 python3 -S objects.py ;;
	map) used $2 "$build/bench/heap_map" ;;
	esac
}
preload="env LD_PRELOAD=$lib"
perf="perf record -q --buildid-mmap -e cpu-clock -F 999 -g -o $dir/perf.data --"
# Percent of the CPU time: in the library; in its probes, with all that they call.
share() {
	perf script -i perf.data -F ip,sym,dso 2>/dev/null | awk -v RS= '
		{ n++ }
		/uprobe|exc_int3|exc_debug/ { probes++; next }
		$0 ~ /^[^\n]*libascribe-heap/ { lib++ }
		END { print 100 * lib / n, 100 * probes / n }'
}
echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg); $runs runs"
for _ in $(seq "$runs"); do
	for load in redis python map; do
		one $load "" >>$load.none
		"$build/ascribe" record -a -d 600s -o store -e heap >said 2>&1 &
		recorder=$!
		for _ in $(seq 400); do
			grep -q recording said && break
			sleep 0.05
		done
		one $load "$perf $preload" >/dev/null
		share >>$load.share
		kill -INT $recorder
		wait $recorder
		"$build/ascribe" stat store --json | jq .fired >>$load.samples
		rm -rf store
		command -v heaptrack >/dev/null &&
			one $load "heaptrack -o $dir/track" >>$load.heaptrack
		rm -f track*
	done
	"$build/bench/heap_map" pairs 20000000 >>pairs.none
	LD_PRELOAD=$lib "$build/bench/heap_map" pairs 20000000 >>pairs.preload
	"$build/bench/heap_map" pairs 300000 524288 >>large.none
	"$build/ascribe" record -a -d 600s -o store -e heap >said 2>&1 &
	recorder=$!
	sleep 2
	LD_PRELOAD=$lib "$build/bench/heap_map" pairs 20000000 >>pairs.recorded
	LD_PRELOAD=$lib "$build/bench/heap_map" pairs 300000 524288 >>large.recorded
	kill -INT $recorder
	wait $recorder
	rm -rf store
done
for load in redis python map; do
	echo "$load: $(median $load.none) s; sampled $(median $load.samples) times"
	[ -s $load.heaptrack ] && awk -v x="$(median $load.heaptrack)" -v b="$(median $load.none)" \
		'BEGIN { printf "  heaptrack  %.2f s  %+.1f%%\n", x, 100 * (x - b) / b }'
	awk '{ print $1 }' $load.share >library
	awk '{ print $2 }' $load.share >probes
	awk '{ print $1 + $2 }' $load.share >both
	awk -v l="$(median library)" -v p="$(median probes)" -v c="$(median both)" 'BEGIN {
		printf "  sampled    %.2f%% in the library, %.2f%% in probes: %.2f%%  promised 1%%%s\n",
		l, p, c, (c > 1 ? "  MISSED" : "") }'
done
for how in none preload recorded; do
	echo "malloc and free of 64 bytes, $how: $(median pairs.$how) ns"
done
awk -v a="$(median pairs.recorded)" -v b="$(median pairs.none)" 'BEGIN {
	printf "of one that is not sampled: %+.1f ns  promised 8%s\n", a - b,
	(a - b <= 8 ? "" : "  MISSED") }'
# 1 - exp(-1) of the blocks of 512 KiB are sampled: two probes each.
awk -v a="$(median large.recorded)" -v b="$(median large.none)" \
	'BEGIN { ns = (a - b) / (1 - exp(-1))
	printf "a sampled allocation and its free: %.0f ns  promised 5000%s\n", ns,
	ns <= 5000 ? "" : "  MISSED" }'
