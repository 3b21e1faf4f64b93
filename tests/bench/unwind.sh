#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# unwind.sh BUILD: what user stacks by rules cost. Rows compiled per second; then, by the kernel's statistics, what one more frame of a
# chain without frame pointers costs in the BPF program.
set -u
build=$(realpath "$1")
dir=$(mktemp -d)
trap 'sysctl -q kernel.bpf_stats_enabled=0; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
PATH=$PATH:/usr/sbin

"$build/tests/test_unwind" /usr/lib/x86_64-linux-gnu | grep files,

sysctl -q kernel.bpf_stats_enabled=1 || exit 1
cost() { # depth -> "ns per sample, frames per sample" of the loaded program
	rm -rf chains
	"$build/ascribe" record -q -a -F 999 -d 4s -o chains &
	local recorder=$!
	sleep 0.7
	"$build/tests/record/chains" deep 3 "$1" &
	local a=$!
	"$build/tests/record/chains" deep 3 "$1" &
	sleep 1
	local from to
	from=$(bpftool prog show name on_event --json | jq -c 'if type == "array" then last else . end | [.run_time_ns, .run_cnt]')
	sleep 1.5
	to=$(bpftool prog show name on_event --json | jq -c 'if type == "array" then last else . end | [.run_time_ns, .run_cnt]')
	wait $a $recorder
	"$build/ascribe" export chains --format folded --where '{comm="chains"}' 2>/dev/null |
		awk -v from="$from" -v to="$to" '{ n = $NF; frames += n * (gsub(/;/, ";")); all += n }
			END { gsub(/[][]/, "", from); gsub(/[][]/, "", to); split(from, f, ","); split(to, t, ",");
			printf "%.0f %.1f\n", (t[1] - f[1]) / (t[2] - f[2]), frames / all }'
}
read -r few_ns few <<<"$(cost 10)"
read -r many_ns many <<<"$(cost 90)"
echo "$few frames: $few_ns ns a sample; $many frames: $many_ns ns a sample"
awk -v a="$few_ns" -v b="$many_ns" -v x="$few" -v y="$many" 'BEGIN { v = (b - a) / (y - x)
	printf "=> %.0f ns a frame, promised <= 300 ns: %s\n", v, v <= 300 ? "met" : "MISSED" }'
