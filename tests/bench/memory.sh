#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon with little memory beside a flood of stacks, labels and waits. It keeps to its limit at
# each look, by what the kernel says of all its processes and maps. Sums of labels stay right, what
# became (other) is counted, and it never begins anew. A reload with too little memory is refused.
# By a build that looks each second. As root.
. "$(dirname "$0")/../http/lib.bash"
needs_recording
limit=96
cat >a.yaml <<Y
store: $dir/store
listen: [unix:$dir/sock, 127.0.0.1:0]
frequency: 997
wall: true
waker: true
cpu-max: 0
memory-max: ${limit}MiB
anonymous: true
Y
serve log "$build/tests/hasty/ascribe" daemon -c a.yaml || finish
daemon=$pid
python3 "$here/memory.py" "$daemon" 26 >watch.json &
watcher=$!
"$build/tests/record/crowd" 22 >truth.json
wait "$watcher"
cat watch.json
ok "it was looked at" jq -e '.looks > 40' watch.json
ok "within 105% of the limit at each look" jq -e ".most <= $limit * 1.05" watch.json
ok "its own account agrees with the kernel's" jq -e '.ratio > 0.95 and .ratio < 1.05' watch.json
ok "it is the same recorder" test "$(curl -s --unix-socket sock http://x/metrics | sed -n 's/^ascribe_sample_weight //p')" = 1
sed -i 's/^memory-max.*/memory-max: 20MiB/' a.yaml
kill -HUP "$daemon"
for _ in $(seq 100); do
	grep -q reload log && break
	sleep 0.05
done
ok "a reload with too little is refused" grep -q 'reload: memory-max is too small: 20.0 MiB are given.*everything stays as it was' log
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
cat log
ok "it did not begin anew" sh -c '! grep -q anew log'
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
jq -c '.lost' stat.json
ok "what became (other) is counted" jq -e '.flagged.stack_other > 0' stat.json
ok "no sample is lost to it" jq -e '(.lost.user_memory // 0) == 0' stat.json
"$ascribe" report store --event cpu-clock --by tenant --json >tenants.json 2>/dev/null
# Tables that fill in a flood lose samples, whoever they are of, and count them.
ok "the sums of labels stay right" python3 - <<'PY'
import json
truth = json.load(open('truth.json'))
got = {r['key'].get('tenant'): r['seconds'] for r in json.load(open('tenants.json'))['rows']}
lost = sum(v for k, v in json.load(open('stat.json'))['lost'].items() if k != 'idle_not_run') / 997
whole, found = sum(truth.values()), sum(got.get(k, 0) for k in truth)
print({k: (round(v, 2), round(got.get(k, 0), 2)) for k, v in truth.items()}, round(whole, 2), round(found, 2), round(lost, 2))
assert 0.93 * whole - lost < found < 1.05 * whole + 0.1
for k, v in truth.items():
    assert 0.85 * v / whole < got.get(k, 0) / found < 1.15 * v / whole, k
PY
finish
