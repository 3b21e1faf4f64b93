#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon whose tables fill again and again begins anew with tables twice as large, a few times at
# most. Nothing is unaccounted for.
. "$(dirname "$0")/lib.bash"
cp "$loads/storm" storm

background "$build/tests/hasty/ascribe" daemon -s store -l unix:"$dir/sock" \
	--wall --waker --cpu-max 0 --claim-cpus 8 2>log
daemon=$pid
for _ in $(seq 200); do
	curl -sf --unix-socket sock http://x/metrics >/dev/null && break
	sleep 0.05
done
./storm launch 2000 15 >launched.json || bad "the storm failed"
fired=$(curl -s --unix-socket sock http://x/metrics | sed -n 's/^ascribe_samples_fired_total //p')
kill -TERM $daemon
wait $daemon
ok "the daemon ends well" test $? = 0
rows=$(sed -n 's/.*tables were nearly full .*: there are \([0-9]*\) rows.*/\1/p' log | xargs)
# The tables of 8 CPUs begin with 2,048 rows each; 32,768 are as many as --wall --waker can ask for.
ok "each time twice as many rows: $rows" expr " 4096 8192 16384 32768 " : " $rows "
ok "more than once" test "$(wc -w <<<"$rows")" -gt 1
others=$(grep -vE ': (recording all processes|serving store|tables were nearly full)' log)
ok "for no other reason: $others" test -z "$others"
"$ascribe" stat store --json >stat.json
check "every sample is accounted for" s=stat.json -- 'exact(s)' \
	's["fired"], s["stored"], {k: n for k, n in s["lost"].items() if n}'
check "those of each recorder" s=stat.json -- "s['fired'] >= ${fired:-0} > 0" "${fired:-0}"
check "few are lost" s=stat.json -- 's["lost"]["rows_full"] + s["lost"]["stacks_full"] < 0.01 * s["stored"]' \
	's["lost"]["rows_full"] + s["lost"]["stacks_full"]'
finish
