#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The store on a generated load: see bench_store.c. WINDOWS, HIGH_WINDOWS: how many of 10 s (a day
# is 8640, a year 3153600); STACKS: folded stacks of real programs. The stores are written in memory
# where there is room, so that the disk is not what is measured; the substrates are compared in
# TMPDIR. YEAR=0: without the long ones, which take half an hour.
set -euo pipefail
. "$(dirname "$0")/figure.bash"
bench=${BUILD:-build}/bench/bench_store
windows=${WINDOWS:-4320}
high_windows=${HIGH_WINDOWS:-$((windows / 8 ? windows / 8 : 1))}
memory=
[ -w /dev/shm ] && memory=-p\ /dev/shm
# shellcheck disable=SC2086
dir=$(mktemp -d $memory ascribe-bench-XXXXXX)
scratch=$(mktemp -d)
trap 'rm -rf "$dir" "$scratch"' EXIT
echo "$(uname -sr), $(nproc) CPUs, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1); stores in ${dir%/*}"
# Which figures those of W (what is written) and Q (questions) are: a script for sed. What it does
# not name is dropped.
as() { sed "$1; /^figure\t[QW]\//d"; }
run() { # name, kind, windows, seconds, compare?, figures
	echo
	echo "== $1"
	measure "$@" | as "$6"
}
measure() {
	"$bench" write "$dir/$2" "$2" "$3" "$4" "${STACKS:-}"
	if [ "$5" = yes ]; then
		mkdir "$scratch/$2"
		"$bench" compare "$dir/$2" "$scratch/$2" 30
	fi
	if [ "$2" = thin ]; then
		"$bench" cover "$dir/$2"
	else
		"$bench" query "$dir/$2"
	fi
	rm -rf "${dir:?}/$2"
}
# The names of the first three questions are sections; the load is the name.
first3='s/Q\/\(flame\|container\|chart\)\(-opened\)\?@/\1'
run "64 containers" low "$windows" 10 yes \
	"s/W\/bytes/store\/low/; s/W\//store\/low-/; s/Q\/name/store\/name/; $first3\/low\2@/"
run "and 2,800 fresh query ids in each window" high "$high_windows" 10 yes \
	"s/W\/bytes/store\/high/; s/W\//store\/high-/; $first3\/high\2@/
	s/Q\/\(\(tenant\|diff\|id\)\(-opened\)\?\|by\)@/labels\/\1@/"
per_sample() { # who, bytes
	figure store/busy "$1" "$(awk -v b="$2" -v n="$samples" 'BEGIN { print b / n }')"
}
recording() {
	"$ascribe" record -q -a -F 99 -d 60s -o "$dir/real" -- "${BUILD:-build}/demo" --seconds 60 \
		>/dev/null
	"$ascribe" store compact "$dir/real" >/dev/null
	samples=$("$ascribe" stat "$dir/real" --json | grep -o '"stored":[0-9]*' | head -1 |
		cut -d: -f2)
	"$ascribe" export "$dir/real" -f pprof --idle -o "$scratch/pprof.gz"
	"$ascribe" export "$dir/real" -f folded --idle | gzip >"$scratch/folded.gz"
	echo "  $samples samples"
	for f in pprof.gz folded.gz; do
		per_sample $f "$(stat -c %s "$scratch/$f")"
	done
	per_sample ascribe "$(find "$dir/real" -type f ! -name reserve -printf '%s\n' | awk '{ n += $1 } END { print n }')"
}
ascribe=${BUILD:-build}/ascribe
echo
echo "== a recording of this host, 60 s at 99 Hz, with the demo server (labels of tenants and queries)"
if [ -x "$ascribe" ] && [ "$(id -u)" = 0 ]; then
	recording
else
	echo "  skipped: needs root and $ascribe"
fi
[ "${YEAR:-1}" = 0 ] && exit
# What long ranges need does not depend on how long the windows are: ten minutes each.
run "a year, with what retention leaves of it" low 53000 600 no \
	"/@[0-9]\{2,4\}\t/d; $first3\/low\2@/"
run "a month of query ids" high 4500 600 no \
	"s/Q\/\(\(flame\|id\)\(-opened\)\?\|container\|tenant\|diff\)@/month\/\1@/"
run "how many blocks, a year of windows of 10 s" thin 3200000 10 no ""
