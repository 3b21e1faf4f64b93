#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# v8.sh BUILD: what stacks of JavaScript cost in BPF, per sample: the same stack again and again,
# and one that differs from sample to sample. As root.
build=$(realpath "$1")
PATH=$PATH:/usr/sbin
command -v node >/dev/null && command -v bpftool >/dev/null || {
	echo "no node, or no bpftool"
	exit 0
}
dir=$(mktemp -d)
cd "$dir" || exit 1
before=$(sysctl -n kernel.bpf_stats_enabled)
trap 'sysctl -q kernel.bpf_stats_enabled=$before; kill $load 2>/dev/null; rm -rf "$dir"' EXIT
sysctl -q kernel.bpf_stats_enabled=1 || exit 1
cat >load.js <<'JS'
function hot(n) { let x = 0; for (let i = 0; i < n; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
function down(d, n) { return d ? down(d - 1, n) + 1 : hot(n); }
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
let sink = 0;
for (const end = Date.now() + 8000; Date.now() < end;)
	sink += process.argv[2] === 'same' ? down(8, 2000) : fib(22);
JS
so_far() {
	bpftool prog show name on_event --json |
		jq -c 'if type == "array" then last else . end | [.run_time_ns, .run_cnt]'
}
for what in same other; do
	node load.js $what &
	load=$!
	sleep 1
	rm -rf store
	"$build/ascribe" record -q -p $load -F 999 -d 6s -o store &
	recorder=$!
	sleep 2.5
	from=$(so_far)
	sleep 3
	to=$(so_far)
	wait $recorder
	kill $load 2>/dev/null
	wait $load 2>/dev/null
	"$build/ascribe" export store --format folded 2>/dev/null |
		awk -v from="$from" -v to="$to" -v what=$what '
			{ n = $NF; frames += n * (gsub(/;/, ";")); all += n }
			END { gsub(/[][]/, "", from); gsub(/[][]/, "", to); split(from, f, ","); split(to, t, ",");
			us = (t[1] - f[1]) / (t[2] - f[2]) / 1000
			printf "%s stack: %.1f frames\n", what, frames / all
			printf "figure\tunwind/v8-%s\tascribe\t%.3g\n", what, us }'
done
