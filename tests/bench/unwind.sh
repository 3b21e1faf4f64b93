#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# unwind.sh BUILD: what user stacks by rules cost. Rows compiled per second, and of the largest
# library; how soon the processes of a busy host are known. Then, by the kernel's statistics, what
# one more frame of a chain without frame pointers costs in the BPF program.
set -u
. "$(dirname "$0")/figure.bash"
build=$(realpath "$1")
dir=$(mktemp -d)
crowd=()
trap 'sysctl -q kernel.bpf_stats_enabled=0; [ -z "${crowd[*]}" ] || kill "${crowd[@]}" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
PATH=$PATH:/usr/sbin

"$build/tests/test_unwind" /usr/lib/x86_64-linux-gnu | grep files,

# shellcheck disable=SC2011 # names of libraries have no blanks
llvm=$(ls /usr/lib/x86_64-linux-gnu/libLLVM*.so* /usr/lib/llvm-*/lib/libLLVM*.so* 2>/dev/null |
	xargs -rn 1 realpath | sort -u |
	xargs -r ls -S | head -1)
[ -z "$llvm" ] || read -r rows seconds mb <<<"$("$build/tests/test_unwind" "$llvm" |
	awk '/files,/ { print $3, $6, $(NF - 1) }')"
[ -z "$llvm" ] || {
	echo "$llvm: $rows rows"
	figure rules/llvm ascribe "$seconds"
	figure part/rules ascribe "$mb"
}

# ---- a host that is busy when recording begins: what is known after 2 s, and what there was to
# know ----
spin() {
	nice "$@" >/dev/null 2>&1 </dev/null &
	crowd+=($!)
}
echo 'for (;;) JSON.parse(JSON.stringify([1, 2, 3]))' >spin.js
echo 'public class Spin { public static void main(String[] a) { for (long i = 0; ; i++) a = new String[] { "" + i }; } }' >Spin.java
for _ in 1 2 3 4; do
	spin python3 -c 'import json, ssl, sqlite3, ctypes, decimal
while 1: json.loads("[1, 2]")'
	spin perl -e 'use POSIX; use List::Util; 1 while ++$x'
	spin bash -c 'while :; do :; done'
	spin awk 'BEGIN { for (;;) x++ }'
	spin gdb --batch -ex 'python
while 1: pass'
	spin openssl speed -seconds 20 sha256
	spin jq -n 'last(range(1e12))'
	spin "$build/tests/record/chains" plain 20
done
command -v node >/dev/null && spin node spin.js
command -v java >/dev/null && spin java Spin.java
sleep 2
# shellcheck disable=SC2046 # a word for each process
mapped=$(cat $(printf '/proc/%s/maps ' "${crowd[@]}") 2>/dev/null |
	awk '$2 ~ /x/ && $5 > 0 { print $4, $5 }' | sort -u | wc -l)
tgids=$(IFS=,; echo "${crowd[*]}")
read -r known rows cpu <<<"$("$build/ascribe" record --explain -p "$tgids" -F 999 -d 2s -o known \
	2>&1 |
	sed -n 's/.*unwind rules of \([0-9]*\) files, \([0-9]*\) rows, compiled in \([0-9.]*\) s.*/\1 \2 \3/p')"
echo "${#crowd[@]} busy processes map $mapped files: rules of $known and $rows rows known when 2 s are over, $cpu s of CPU"
figure edges/known ascribe "$(awk -v a="$known" -v b="$mapped" 'BEGIN { print 100 * a / b }')"
figure unwind/known-cpu ascribe "$cpu"
kill "${crowd[@]}" 2>/dev/null
wait "${crowd[@]}" 2>/dev/null
crowd=()

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
	from=$(bpftool prog show name on_event --json |
		jq -c 'if type == "array" then last else . end | [.run_time_ns, .run_cnt]')
	sleep 1.5
	to=$(bpftool prog show name on_event --json |
		jq -c 'if type == "array" then last else . end | [.run_time_ns, .run_cnt]')
	wait $a $recorder
	"$build/ascribe" export chains --format folded --where '{comm="chains"}' 2>/dev/null |
		awk -v from="$from" -v to="$to" '{ n = $NF; frames += n * (gsub(/;/, ";")); all += n }
			END { gsub(/[][]/, "", from); gsub(/[][]/, "", to); split(from, f, ","); split(to, t, ",");
			printf "%.0f %.1f\n", (t[1] - f[1]) / (t[2] - f[2]), frames / all }'
}
read -r few_ns few <<<"$(cost 10)"
read -r many_ns many <<<"$(cost 90)"
echo "$few frames: $few_ns ns a sample; $many frames: $many_ns ns a sample"
figure unwind/frame ascribe "$(awk -v a="$few_ns" -v b="$many_ns" -v x="$few" -v y="$many" \
	'BEGIN { print (b - a) / (y - x) }')"
