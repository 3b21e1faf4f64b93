#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that uses more CPU than it may gives up one thing after another, the rate by 4 at most,
# or waits. The sums stay right, the store says so, and no time is missing. With a higher limit it
# takes all of it back. By a build whose minutes are four seconds and that has the patience of one.
# As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
# Busy for about half of the time: the sums are held against its own CPU clock.
background bash -c 'while :; do for ((i = 0; i < 30000; i++)); do :; done; sleep 0.1; done'
spinner=$pid
cpu_of() { awk '{ print ($14 + $15) / 100 }' "/proc/$1/stat"; }
begun=$(cpu_of "$spinner")
cat >daemon.yaml <<Y
store: $dir/store
frequency: 97
listen: [127.0.0.1:0, unix:$dir/sock]
cpu-max: 0.01%
anonymous: true
Y
serve log "$hasty" daemon -c daemon.yaml || finish
daemon=$pid
ok "more than it may use: no lines" until_says 'more than cpu-max (0.01%): inlined calls and lines are no longer looked up'
ok "then no names of cold files" until_says 'files with few samples are no longer read'
ok "then half the rate" until_says 'each sample stands for 2 now'
ok "and half of that" until_says 'each sample stands for 4 now'
ok "nor is that enough, which is said" until_says 'cpu-max (0.01%) cannot be kept, give more'
sleep 2
gets 200 'ascribe_sample_weight 4' --unix-socket sock http://x/metrics
gets 200 'ascribe_cpu_step 5' --unix-socket sock http://x/metrics
gets 200 'ascribe_cpu_given_up_total 4' --unix-socket sock http://x/metrics
sed -i 's/^cpu-max.*/cpu-max: 0/' daemon.yaml
: >log
kill -HUP "$daemon"
ok "without a limit the rate is the first to come back" until_says 'each sample stands for 2 now'
ok "and all of it" until_says 'each sample stands for 1 now'
ok "then names" until_says 'files with few samples are read for their names again'
ok "then lines" until_says 'inlined calls and lines are looked up again'
ok "nothing is given up meanwhile" sh -c '! grep -q "no longer" log'
gets 200 'ascribe_cpu_step 0' --unix-socket sock http://x/metrics
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
used=$(python3 -c "print($(cpu_of "$spinner") - $begun)")
kill "$spinner"
ok "the store is whole" "$ascribe" store verify store
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "the store tells of the samples that stand for several" \
	jq -e '.flagged.reduced_rate > 0 and .flagged.reduced_rate < .stored' stat.json
ok "and of names that were not looked up" jq -e '.flagged.names_saved > 0' stat.json
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
"$ascribe" report store --by tgid --where '{comm="bash"}' --json >spinner.json 2>/dev/null
# It recorded a little less than the whole of that time, and a sample of weight 4 is 40 ms: far from
# what a forgotten weight would give.
ok "the sums stay right" python3 - "$spinner" "$used" <<'PY'
import json, sys
tgid, used = sys.argv[1], float(sys.argv[2])
got = sum(r['seconds'] for r in json.load(open('spinner.json'))['rows'] if r['key']['tgid'] == tgid)
print(got, used)
assert 0.75 * used < got < 1.15 * used + 0.3, (got, used)
PY
"$ascribe" diff store --against-to now --json >diff.json 2>/dev/null
# Its rate changes four times, and sampling begins anew with each: a second of each on a busy host,
# where a window that is lost takes more.
ok "no gap" jq -e '.b | .to - .from - .covered < 4' diff.json

# ---- with waits: sampling is a small part of the use, so the rate stays, and waits are given up
# last ----
python3 -c 'import time
while True: time.sleep(0.00005)' &
waits=$!
started+=("$waits")
sed -i "s/^cpu-max.*/cpu-max: 0.01%/; s/^store:.*/store: ${dir//\//\\/}\/waits/" daemon.yaml
echo 'wall: true' >>daemon.yaml
serve log "$hasty" daemon -c daemon.yaml || finish
daemon=$pid
ok "stacks of waits are given up" until_says 'stacks of waits are no longer taken'
ok "then waits" until_says 'waits are no longer measured'
ok "which is said when it is not enough" until_says 'cpu-max (0.01%) cannot be kept, give more'
ok "the rate is left as it is" sh -c '! grep -q "each sample stands" log'
gets 200 'ascribe_sample_weight 1' --unix-socket sock http://x/metrics
gets 200 'ascribe_cpu_step 6' --unix-socket sock http://x/metrics
sed -i 's/^cpu-max.*/cpu-max: 0/' daemon.yaml
kill -HUP "$daemon"
ok "without a limit they come back" until_says 'waits are measured again'
sleep 2
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
kill "$waits"
ok "the store with and without waits is whole" "$ascribe" store verify waits
"$ascribe" stat waits --json >stat.json 2>/dev/null
ok "the store tells of the time without waits" \
	jq -e '.flagged.waits_saved > 0 and .flagged.waits > 0 and .flagged.reduced_rate == 0' stat.json
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json

# ---- beside a probe, of which each hit counts, the rate stays ----
cp "$build/tests/record/probed" probed
cat >probe.yaml <<Y
store: $dir/probe
event: cpu-clock,uprobe:$dir/probed:hit
frequency: 97
listen: [127.0.0.1:0, unix:$dir/sock]
cpu-max: 0.01%
anonymous: true
Y
serve log "$hasty" daemon -c probe.yaml || finish
daemon=$pid
ok "with names given up it ends" until_says 'cpu-max (0.01%) cannot be kept, give more'
ok "the rate is not" sh -c '! grep -q "each sample stands for" log'
./probed 1 1000 >hits
kill -TERM "$daemon"
wait "$daemon"
"$ascribe" report probe -e "uprobe:$dir/probed:hit" --json >probe.json
ok "each hit counts once: $(jq .samples probe.json) of 1,001" jq -e '.samples == 1001' probe.json

# ---- memory, beside a flood of stacks and labels: by what the kernel says of all its processes and
# maps. The limit is the least that there may be; make bench-memory looks for longer, at waits, too
# ----
timeout 20 "$hasty" daemon -s small -l none --memory-max 10MiB 2>small.err
limit=$(sed -n 's/.*at least \([0-9]*\) MiB are needed.*/\1/p' small.err)
cat >memory.yaml <<Y
store: $dir/small
frequency: 997
listen: [127.0.0.1:0, unix:$dir/sock]
cpu-max: 0
memory-max: ${limit}MiB
anonymous: true
Y
serve log "$hasty" daemon -c memory.yaml || finish
daemon=$pid
# On a busy host the flood takes longer to come to that.
background python3 "$here/memory.py" "$daemon" 12 90 >watch.json
watcher=$pid
background "$build/tests/record/crowd" 120 >truth.json
wait "$watcher"
kill "$pid"
ok "it was looked at" jq -e '.looks > 5' watch.json
ok "within 105% of $limit MiB at each look: $(cat watch.json)" jq -e ".most <= $limit * 1.05" watch.json
ok "something was given up for that" jq -e '.step > 0' watch.json
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
"$ascribe" stat small --json >stat.json 2>/dev/null
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
finish
