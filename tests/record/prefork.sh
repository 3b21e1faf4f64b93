#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 650 workers of a prefork server, which maps 100 pieces of code: more mappings in all than there
# are ranges. All have unwind rules.
. "$(dirname "$0")/lib.bash"
workers=650 mappings=100

record --explain -F 199 -o store -- "$loads/prefork" $workers $mappings "$(in_part 5 8)"
ok "all workers were made" test "$(cat record.out)" = $workers
ok "no process was without room for its mappings" sh -c '! grep "no room for the mappings" record.err'
# One list for the server and its workers, others for what runs beside it.
lists=$(sed -n 's/.*; at most \([0-9]*\) ranges in \([0-9]*\) lists/\1 \2/p' record.err)
ok "equal mappings are published once: ${lists% *} ranges in ${lists#* } lists" \
	test "${lists% *}" -gt $mappings -a "${lists% *}" -lt $((20 * mappings))
"$ascribe" stat store --json >stat.json
check "few samples are copied" s=stat.json -- 's["flagged"]["copied"] + s["flagged"]["frame_pointers"] < 0.15 * s["stored"]' \
	's["flagged"]["copied"], s["flagged"]["frame_pointers"], s["stored"]'
check "stacks reach their root" s=stat.json -- 's["flagged"]["rooted"] > 0.9 * s["stored"]' \
	's["flagged"]["rooted"], s["stored"]'
report store --by function >functions.json
check "the function is named" r=functions.json -- '"worker_burns" in rows(r)' 'sorted(rows(r))[:5]'
finish
