#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tables of a host with 512 CPUs fit into 64 MiB, with everything switched on, and a daemon with
# them records as any. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
serve log "$build/tests/hasty/ascribe" daemon -s store -l unix:"$dir/sock",127.0.0.1:0 \
	--wall --waker --claim-cpus 512 --cpu-max 0 --anonymous || finish
part() { curl -s --unix-socket sock http://x/metrics | sed -n "s/^ascribe_memory_bytes{part=\"$1\"} //p"; }
for _ in $(seq 200); do
	[ "$(part tables)" -gt 0 ] 2>/dev/null && break
	sleep 0.1
done
tables=$(part tables) rings=$(part rings)
echo "tables $tables, rings $rings bytes"
ok "tables and rings of 512 CPUs take 64 MiB at most" test $((tables + rings)) -le $((64 << 20))
ok "and they are those of 512 CPUs" test "$tables" -gt $((40 << 20))
background bash -c 'while :; do :; done'
spinner=$pid
sleep 4
kill "$spinner"
kill -TERM "${started[0]}"
wait "${started[0]}"
ok "it ends well" test $? = 0
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
ok "few are lost" jq -e '.stored > 20 and .lost.rows_full + .lost.stacks_full < .stored / 20' stat.json
ok "help does not speak of it" sh -c "! '$ascribe' help daemon | grep -q claim-cpus"
finish
