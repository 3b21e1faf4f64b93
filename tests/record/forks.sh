#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 65,000 vforks and 51,000 forks (20,000 in `make test`), one after the other. What is kept of the
# children stays small, by the daemon's own account and by the kernel's, and the children have
# names.
. "$(dirname "$0")/../http/lib.bash"
TELL=1
needs_recording
forks=$build/tests/record/forks

# ---- a daemon, by its own account: by a build that looks each second ----
cat >a.yaml <<Y
store: $dir/daemon
listen: [127.0.0.1:0, unix:$dir/sock]
frequency: 99
cpu-max: 0
anonymous: true
Y
serve log "$build/tests/hasty/ascribe" daemon -c a.yaml || finish
daemon=$pid
# Its part `other` in KiB: symbols and parsers of what else the host runs are in other parts
account() {
	curl -s --unix-socket sock http://x/metrics |
		awk -F '[ "]' '/^ascribe_memory_bytes{part="other"/ { printf "%d\n", $4 / 1024 }'
}
sleep 2.5 # two looks
before=$(account)
ok "65,000 vforks" "$forks" vfork 65000
sleep 2.5
after=$(account)
ok "vforks: the daemon grew by less than 12 MiB: $before to $after KiB" \
	test "$before" -gt 0 -a $((after - before)) -lt 12288
kill -TERM "$daemon"
wait "$daemon"
ok "the daemon ends well" test $? = 0
# A child that ends before it was looked at may have none, as the host is busy.
"$ascribe" report daemon --by comm,exe --where '{comm="forks"}' --json >who.json 2>/dev/null
ok "vforks: the children and their parent have their path" \
	jq -e --arg exe "$forks" '.seconds > 0.5 and all(.rows[]; .key.exe | . == $exe or . == null) and
		([.rows[] | select(.key.exe) | .samples] | add) >= 0.97 * .samples' who.json

# ---- a recording, by the kernel's account ----
"$ascribe" record -F 99 -o store -- "$forks" fork "$(in_part 20000 51000)" 2>record.err &
recorder=$!
started+=("$recorder")
most=0
while status=$(cat /proc/$recorder/status 2>/dev/null) && grep -q RssAnon <<<"$status"; do
	now=$(awk '/^(RssAnon|RssFile):/ { sum += $2 } END { print sum }' <<<"$status")
	[ "$now" -gt $most ] && most=$now
	sleep 0.2
done
wait $recorder
ok "forks: the recording ends well" test $? = 0
ok "forks: at most 64 MiB were resident: $most KiB" test $most -gt 0 -a $most -le 65536
ok "forks: no process was forgotten early" sh -c '! grep -q "forgotten" record.err'
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "forks: every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
ok "forks: no drain over 1 s" \
	jq -e '.own.metrics.ascribe_drain_seconds.quantiles["1"] < 1e9' stat.json
finish
