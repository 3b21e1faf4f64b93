#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes whose first thread has exited, before the recording began and during it. They have
# functions by their names, and stacks that are copied to user space at the start of a process only.
. "$(dirname "$0")/lib.bash"

cp "$loads/leaderless" ./before
cp "$loads/leaderless" ./during
# The recorder looks for ended processes where a window ends: each ten seconds of the clock.
sleep "$(python3 -c 'import time; print((8 - time.time()) % 10)')"
background ./before 1 30
before=$pid
background ./during 700 30
ok "the first thread of one has exited" within 2 grep -q '^State:.*zombie' "/proc/$before/status"
record -q -F 299 -d 4500ms -p "$before,$pid" -o store
ok "that of the other, too" grep -q '^State:.*zombie' "/proc/$pid/status"
"$ascribe" stat store --json >stat.json
# The thread reads its clock between two calls of second_leaf, which takes long on some virtual
# machines. Frames of a file that was not read in time on a busy host have no names: names_late
# counts them.
late=$(jq .flagged.names_late stat.json)
for comm in before during; do
	"$ascribe" export store --format folded --where "{comm=\"$comm\"}" 2>/dev/null >$comm.folded
	ok "leader exited $comm recording: the functions" awk -v late="$late" '
		{ n += $NF }
		/;second_thread;second_leaf/ { leaf += $NF }
		/;second_thread;(second_leaf|clock_gettime|__vdso_)/ { good += $NF; next }
		{ others = others "\n" $0 }
		END {
			printf "%d and %d of %d, late: %d%s\n", leaf, good, n, late, others
			exit !(n > 20 && good + late > 0.97 * n && leaf + late > 0.9 * n)
		}' $comm.folded
	"$ascribe" report store --by exe --where "{comm=\"$comm\"}" >$comm.report 2>/dev/null
	ok "leader exited $comm recording: the program" grep -q "$PWD/$comm" $comm.report
done
check "stacks are copied at the start of a process only" s=stat.json -- \
	's["flagged"]["copied"] < 0.1 * s["stored"]' 's["flagged"]["copied"], s["stored"]'
finish
