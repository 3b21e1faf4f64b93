#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The store on a generated load: see bench_store.c. WINDOWS, HIGH_WINDOWS: how many of 10 s (a day is 8640, a year
# 3153600); STACKS: folded stacks of real programs. The stores are written in memory where there is room, so that the
# disk is not what is measured; the substrates are compared in TMPDIR.
set -eu
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
for kind in low high; do
	n=$windows
	[ $kind = low ] || n=$high_windows
	echo
	"$bench" write "$dir/$kind" $kind "$n" "${STACKS:-}"
	mkdir "$scratch/$kind"
	"$bench" compare "$dir/$kind" "$scratch/$kind" 30
	"$bench" query "$dir/$kind"
	rm -rf "${dir:?}/$kind"
done
