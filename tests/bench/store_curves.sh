#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How a store grows with its stacks, its label sets and its age: bytes, and CPU of writing and of
# questions. PARTS: of stacks, sets, age. STACKS, SETS (an hour), AGES (hours): how many. The stores
# are written in memory.
set -euo pipefail
bench=${BUILD:-build}/bench/bench_store
dir=$(TMPDIR=/dev/shm mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Figures of W (what is written) and Q (questions) by a script for sed; what it does not name is
# dropped.
as() { sed "$1; /^figure\t[QW]\//d"; }
hour() { # kind, section, x: an hour of windows of 10 s; settings are in the environment
	{
		"$bench" write "$dir/store" "$1" 360 10
		"$bench" query "$dir/store" "1 h"
	} | as "s/W\/bytes/$2-bytes\/bytes@$3/; s/W\/window/$2\/window@$3/; s/W\/writer/$2-memory\/writer@$3/
		s/Q\/\(flame\|flame-opened\|container\|id\|tenant\|diff\)@3600/$2\/\1@$3/"
	rm -rf "$dir"/store*
}
stacks() {
	for n in ${STACKS:-1000 10000 100000 1000000 10000000}; do
		N_STACKS=$n hour low stacks "$n"
	done
}
sets() {
	CONTAINERS=1 hour low sets 1
	for n in ${SETS:-360 3600 36000 360000 1008000}; do
		QUERIES=$((n / 360)) hour high sets "$n"
	done
}
age() {
	for hours in ${AGES:-24 168 720 8760 43800}; do
		case $hours in
		24) range="24 h" ;; 168) range="7 d" ;; 720) range="30 d" ;; 8760) range="1 y" ;;
		*) range="5 y" ;;
		esac
		x=$((hours * 3600))
		{
			"$bench" write "$dir/store" low "$hours" 3600
			"$bench" query "$dir/store" "$range" | sed 's/@[0-9]*\t/@whole\t/'
			"$bench" query "$dir/store" "1 h"
		} | as "s/W\/bytes/age-bytes\/bytes@$x/
			s/Q\/\(flame\|flame-opened\|container\|chart\)@whole/age\/\1@$x/
			s/Q\/flame\(-opened\|\)@3600/age\/hour\1@$x/"
		rm -rf "$dir"/store*
	done
}
for part in ${PARTS:-stacks sets age}; do
	$part
done
