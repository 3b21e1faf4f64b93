#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check the models of the core's protocols with spin: each state that can be reached, not a sample.
#   tests/models/check.sh [MODEL...]
# A model must hold, on x86 and on arm64 where it includes memory.pml. Each of its broken variants
# (BROKEN == N) lacks one thing that the C has, and spin must find the failure. The functions that a
# model stands for must exist: who renames or removes one looks at the model, too.
# TELL=1 says what was seen of each.
# shellcheck source=tests/lib.bash
. "$(dirname "$0")/../lib.bash"
command -v spin >/dev/null || skip "needs spin: apt-get install spin"
source=$here/../..

# Search all states of a model; print their number, then what failed, or nothing.
search() { # model, ARM64, BROKEN
	local optimize=-O1
	[ "$3" = 0 ] || optimize=-O0 # what is refuted is so after few states
	rm -f pan.*
	spin "-DARM64=$2" "-DBROKEN=$3" -a "$here/$1.pml" >spin.out 2>&1
	"${CC:-cc}" $optimize -w -DSAFETY -DCOLLAPSE -DMEMLIM=1000 -o pan pan.c >>spin.out 2>&1 || {
		echo 0 "$(tail -n 1 spin.out)"
		return
	}
	./pan -m100000 -w20 >pan.out
	awk '/^ *[0-9]+ states, stored/ { states = $1 }
		/^pan:1:|^error:|search depth too small|MEMLIM/ { failed = failed " " $0 }
		/errors: 0/ { whole = 1 }
		END {
			print states + 0, failed (whole || failed ? "" : "the search did not end")
		}' pan.out
}

# "function file" for each one named behind "Stands for".
stands_for() { # model
	sed -n '/^ \* Stands for/,/^ \*$/s/^ \*   //p' "$here/$1.pml" | sed 's/ (.*)//' |
		awk '{ for (i = 2; i <= NF; i++) { sub(",", "", $i); print $i, $1 } }'
}

check_model() { # model
	local states failed kind kinds=0 variants n gone
	grep -q '^#include "memory.pml"' "$here/$1.pml" && kinds='0 1'
	for kind in $kinds; do
		read -r states failed <<<"$(search "$1" "$kind" 0)"
		if [ -z "$failed" ]; then
			good "$1 holds in all of $states states (ARM64=$kind)"
		else
			bad "$1 does not hold (ARM64=$kind): $failed"
		fi
	done
	variants=$(grep -oE 'BROKEN [!=]= [0-9]+' "$here/$1.pml" | grep -oE '[0-9]+' | sort -nu)
	ok "$1 has two broken variants at least" [ "$(wc -w <<<"$variants")" -ge 2 ]
	for n in $variants; do
		read -r states failed <<<"$(search "$1" 1 "$n")"
		case $failed in
		*'assertion violated'*) good "broken variant $n of $1 is refuted: $failed" ;;
		*) bad "broken variant $n of $1 is not refuted: $failed" ;;
		esac
	done
	gone=$(stands_for "$1" | while read -r function file; do
		grep -qw "$function" "$source/$file" || echo "$function of $file"
	done)
	if [ -z "$gone" ]; then
		good "what $1 stands for is there"
	else
		bad "$1 stands for what is gone: $gone"
	fi
}

models=("$@")
[ $# -gt 0 ] || mapfile -t models < <(grep -l BROKEN "$here"/*.pml | xargs -n 1 basename -s .pml)
for model in "${models[@]}"; do
	check_model "$model"
done
finish
