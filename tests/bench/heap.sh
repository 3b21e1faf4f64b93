#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sampling allocations costs a program: `make bench-heap`, as root. The share of its CPU time
# that is spent in the library and in its probes, by perf: its time with and without them differs by
# less than two equal runs do. Beside it, CPU time with heaptrack and without. Runs are
# interleaved.
set -u
. "$(dirname "$0")/figure.bash"
build=$(realpath "$1")
runs=${RUNS:-5}
lib=$build/libascribe-heap.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
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
	"$build/bench/heap_map" pairs 6000 524288 >>large.none
	"$build/ascribe" record -a -d 600s -o store -e heap >said 2>&1 &
	recorder=$!
	sleep 2
	LD_PRELOAD=$lib "$build/bench/heap_map" pairs 20000000 >>pairs.recorded
	LD_PRELOAD=$lib "$build/bench/heap_map" pairs 6000 524288 >>large.recorded
	kill -INT $recorder
	wait $recorder
	rm -rf store
done
column() { awk -v c="$1" '{ printf "%.4g ", $c }' "$2"; }
more() { # file, file before, factor, divisor (0: the second): of each pair of runs
	paste "$1" "$2" | awk -v f="$3" -v by="$4" '{ printf "%.4g ", f * ($1 - $2) / (by ? by : $2) }'
}
for load in redis python map; do
	figure heap/$load ascribe "$(awk '{ printf "%.4g ", $1 + $2 }' $load.share)"
	figure heap/$load "(in the library)" "$(column 1 $load.share)"
	figure heap/$load "(in its probes)" "$(column 2 $load.share)"
	[ ! -s $load.heaptrack ] ||
		figure heap/$load heaptrack "$(more $load.heaptrack $load.none 100 0)"
	echo "$load: samples: $(paste -sd' ' $load.samples)"
done
figure heap/malloc ascribe "$(more pairs.recorded pairs.none 1 1)"
figure heap/malloc "(with the library alone)" "$(more pairs.preload pairs.none 1 1)"
figure heap/malloc "(without)" "$(paste -sd' ' pairs.none)"
# 1 - exp(-1) of the blocks of 512 KiB are sampled, fewer than a thread may take at once. Two probes
# each.
figure heap/sampled ascribe "$(more large.recorded large.none 1 0.63212)"
