#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Seconds, CPU and memory of an export of 10 million samples in each format. BUILD; DAY: a store
# that bench/serve_store made before, of which the first 4.8 hours are read; FORMATS. The 46 GB of
# perf-script are thrown away: no memory would hold them.
set -eu
. "$(dirname "$0")/figure.bash"
most=
BUILD=$(realpath "${BUILD:-build}")
dir=$(TMPDIR=/dev/shm mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ -z "${DAY:-}" ]; then
	DAY=$dir/day
	"$BUILD/bench/serve_store" "$DAY" >/dev/null
fi
end=2026-05-01T14:48:00Z
echo "samples: $("$BUILD/ascribe" report "$DAY" --to $end --json 2>/dev/null | jq .samples)"
uptime | sed 's/.*load/load/'
for format in ${FORMATS:-folded speedscope firefox csv perf-script pprof otlp}; do
	out=$dir/out
	[ "$format" != perf-script ] || out=/dev/null
	/usr/bin/time -o "$dir/time" -f '%e s, CPU %U + %S s, %M KiB' timeout 300 \
		"$BUILD/ascribe" export "$DAY" --to $end --format "$format" -o "$out" \
		2>/dev/null || true
	bytes=$(stat -c %s "$out" 2>/dev/null || echo no)
	echo "$format: $(tail -1 "$dir/time"), $bytes bytes"
	figure "export/$format" ascribe "$(sed -n '$s/ s, CPU.*//p' "$dir/time")"
	most="$most $(sed -n '$s/.*, \([0-9]*\) KiB/\1/p' "$dir/time")"
	rm -f "$dir/out"
done
figure export/memory ascribe "$(tr ' ' '\n' <<<"$most" | sort -n | tail -1 | awk '{ print $1 / 1024 }')"
