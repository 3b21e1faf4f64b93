#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes that do nothing cost nothing: 3,000 of them are neither read nor kept, when recording
# begins or later.
. "$(dirname "$0")/lib.bash"

"$loads/idle" 3000 >idle.out &
started+=($!)
for _ in $(seq 200); do
	[ -s idle.out ] && break
	sleep 0.05
done
ok "3000 processes are there" test "$(cat idle.out)" = 3000
background "$loads/busy" spin 30
busy=$pid
sleep 0.5
"$ascribe" record -F 99 -o store -d 6s 2>record.err
followed=$(sed -n 's/.* \([0-9]*\) processes$/\1/p' record.err | tail -1)
ok "at the end it says what to do next" \
	test "$(tail -n 1 record.err)" = 'ascribe: next: ascribe report store'
ok "and nothing of what it did not do" sh -c "! grep -q 'JVMs\|[^0-9.]0 times' record.err"
ok "few are followed: $followed" test "$followed" -gt 0 -a "$followed" -lt 1000
report store --by tgid >tgids.json
check "one that ran before, and runs, has its samples" r=tgids.json \
	-- "rows(r)['$busy']['seconds'] > 0.3" "rows(r)['$busy']"
report store --by function --where "{tgid=\"$busy\"}" >functions.json
check "and its names" r=functions.json -- '"spin_here" in rows(r)' 'sorted(rows(r))[:5]'
finish
