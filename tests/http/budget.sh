#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that uses more CPU than it may takes fewer samples, each of which stands for several: the sums stay right, the store says so, and no
# time is missing. By a build whose minutes are four seconds. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
background bash -c 'while :; do :; done'
spinner=$pid
cpu_of() { awk '{ print ($14 + $15) / 100 }' "/proc/$1/stat"; }
begun=$(cpu_of "$spinner")
serve log "$hasty" daemon -s store -F 97 -l 127.0.0.1:0,unix:"$dir/sock" --cpu-max 0.001% --anonymous || finish
until_says() { # text: within 30 s
	local i
	for i in $(seq 600); do
		grep -q -- "$1" log && return
		sleep 0.05
	done
	return 1
}
ok "more than it may use: half the rate" until_says 'more than 0.001% of a CPU was used for a minute: each sample stands for 2 now'
ok "and half of that" until_says 'each sample stands for 4 now'
sleep 2
gets 200 'ascribe_sample_weight 4' --unix-socket sock http://x/metrics
kill -TERM "$pid"
wait "$pid"
ok "it ends well" test $? = 0
used=$(python3 -c "print($(cpu_of "$spinner") - $begun)")
ok "the store is whole" "$ascribe" store verify store
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "the store tells of the samples that stand for several" jq -e '.flagged.reduced_rate > 0 and .flagged.reduced_rate < .stored' stat.json
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
"$ascribe" report store --by tgid --where '{comm="bash"}' --json >spinner.json 2>/dev/null
# It recorded a little less than the whole of that time, and a sample of weight 4 is 40 ms: far from what a forgotten weight would give.
ok "the sums stay right" python3 - "$spinner" "$used" <<'PY'
import json, sys
tgid, used = sys.argv[1], float(sys.argv[2])
got = sum(r['seconds'] for r in json.load(open('spinner.json'))['rows'] if r['key']['tgid'] == tgid)
print(got, used)
assert 0.75 * used < got < 1.15 * used + 0.3, (got, used)
PY
"$ascribe" diff store --against-to now --json >diff.json 2>/dev/null
ok "no gap" jq -e '.b | .to - .from - .covered < 1' diff.json
finish
