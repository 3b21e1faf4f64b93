#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recursion: a stack of up to 1,024 user frames is complete. A deeper one has the 1,024 frames next
# to its leaf and is flagged.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"

# Name, what the stack of each sample should be (awk over n: frames of the recursion, all: frames,
# the program's name among them), pattern of the recursion's frames; command.
walk() {
	local what=$1 condition=$2 function=$3
	shift 3
	rm -rf deep
	record -F 199 -e cpu-clock -o deep -- "$@" || return
	stacks deep
	awk '{ c = $NF; rooted = /;main;run;|;<module>;/; n = gsub(/'"$function"'/, "&")
		all = split($0, x, ";"); seen += c
		if ('"$condition"') good += c } END { printf "{\"seen\":%d,\"good\":%d}\n", seen, good }' folded >depth.json
	check "$what: as deep as the program says" d=depth.json s=stat.json \
		-- 'd["seen"] > 50 and d["good"] >= 0.8 * d["seen"]' \
		'd, {k: s["flagged"][k] for k in ("rooted", "truncated")}'
	check "$what: accounting, room for each stack" s=stat.json \
		-- 'exact(s) and not s["lost"]["stacks_full"]' 's["lost"]'
}

for depth in 100 300 900; do
	walk "$depth calls" "n == $depth + 1 && rooted" ';by_deep' "$load" deep 1 $depth
	check "$depth calls: rooted" s=stat.json -- 's["flagged"]["rooted"] > 0.9 * s["stored"]'
done
walk "5,000 calls" "n >= 1015 && all == 1025 && !rooted" ';by_deep' "$load" deep 1 5000
check "5,000 calls: truncated" s=stat.json -- 's["flagged"]["truncated"] > 0.9 * s["stored"]'

if command -v python3 >/dev/null &&
	[[ $(python3 -c 'import sys; print(sys.version_info[:2] >= (3, 11))') = True ]]; then
	cat >recurse.py <<'PY'
import time
def spin():
    end = time.process_time() + 2 # the program starts in samples of its own
    while time.process_time() < end: pass
def recurse(n): return recurse(n - 1) if n else spin()
recurse(900)
PY
	walk "900 calls in Python" "n == 901 && rooted" ';recurse' python3 recurse.py
fi
finish
