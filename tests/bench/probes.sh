#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a hit of a probe costs the program that is hit: `make bench-probes`, as root. CPU time of the
# program alone, medians of interleaved runs: without a probe, with bpftrace that only counts, and
# with each hit's label and stack; then both with the sum of an argument.
set -u
. "$(dirname "$0")/figure.bash"
build=$(realpath "$1")
runs=${RUNS:-7}
hits=${HITS:-1000000}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
cp "$build/tests/record/probed" probed
where=$dir/probed
# CPU nanoseconds of a hit.
load() { # file
	local TIMEFORMAT='%U %S' used
	used=$({ time ./probed 1 "$hits" 500 >/dev/null; } 2>&1)
	awk -v n="$hits" '{ print 1e9 * ($1 + $2) / n }' <<<"$used" >>"$1"
}
# Run the load beside a program that is ready when its output has the word.
beside() { # file, word, command...
	local to=$1 word=$2
	shift 2
	"$@" >said 2>&1 &
	local tracer=$!
	for _ in $(seq 400); do
		grep -q "$word" said && break
		sleep 0.05
	done
	sleep 0.5
	load "$to"
	# Send it until it ends: bpftrace misses one that comes just before it waits for events.
	while kill -INT $tracer 2>/dev/null; do
		for _ in $(seq 50); do
			kill -0 $tracer 2>/dev/null || break
			sleep 0.1
		done
	done
	wait $tracer
}
echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg); $runs runs of $hits hits"
for _ in $(seq "$runs"); do
	load none
	command -v bpftrace >/dev/null &&
		beside bpftrace Attaching bpftrace -e "uprobe:$where:hit { @ = count(); }"
	beside ascribe recording "$build/ascribe" record -a -d 600s -o store -e "uprobe:$where:hit"
	rm -rf store
	command -v bpftrace >/dev/null &&
		beside bpftrace_sum Attaching bpftrace -e "uprobe:$where:hit { @ = sum(arg0); }"
	beside ascribe_sum recording "$build/ascribe" record -a -d 600s -o store \
		-e "uprobe:$where:hit:arg1=count"
	rm -rf store
done
values() { paste -sd' ' "$1"; }
figure probe/hit "(no probe)" "$(values none)"
for of in "hit ascribe" "hit bpftrace" "sum ascribe_sum" "sum bpftrace_sum"; do
	file=${of#* } who=ascribe
	[ -s "$file" ] || continue
	[ "${file%%_*}" = ascribe ] || who="bpftrace, which counts alone"
	figure "probe/${of% *}" "$who" "$(values "$file")"
done
[ ! -s bpftrace ] || figure probe/added ascribe "$(paste ascribe bpftrace none |
	awk '{ printf "%.4g ", ($1 - $3) / ($2 - $3) }')"
