#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A flood of questions to the daemon: it is answered at nice 0 and does not lower the recorder's
# rate. By a build whose minutes are four seconds. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
serve log "$hasty" daemon -s store -l 127.0.0.1:0 --anonymous --cpu-max 20% || finish
daemon=$pid
for i in $(seq 150); do
	curl -sf "$url/api/v1/stat" >/dev/null && break
	sleep 0.1
done
web=$(kept "$daemon" -x ascribe-web)
ticks() { # of the recorder; of the process that serves
	cat "/proc/$daemon/stat" "/proc/$web/stat" | awk '{ print $14 + $15 }' | paste -sd ' '
}
read -r main_before others_before < <(ticks)
# Each of these questions is another one: none is answered from memory.
for i in 1 2 3; do
	background curl -s --max-time 60 "$url/api/v1/flame?max_nodes=[${i}0000-${i}9999]" \
		"$url/api/v1/table?limit=[${i}0000-${i}9999]" >/dev/null
done
sleep 4.5
nice=$(awk '{ print $19 }' "/proc/$web"/task/*/stat | sort -u)
ok "the recorder runs at nice -20" test "$(awk '{ print $19 }' "/proc/$daemon/stat")" = -20
ok "in one thread" test "$(ls "/proc/$daemon/task" | wc -l)" = 1
ok "whoever answers at nice 0: $nice" test "$nice" = 0
sleep 4.5
flooded() {
	read -r main_after others_after < <(ticks)
	[ $((others_after - others_before)) -gt 200 ]
}
ok "it was a flood" within 50 flooded
echo "recorder $((main_after - main_before)), questions $((others_after - others_before)) hundredths of a second"
ok "each sample still stands for one" test \
	"$(curl -s "$url/metrics" | awk '/^ascribe_sample_weight/ { print $2 }')" = 1
ok "the governor had nothing to say" sh -c '! grep -qE "stands for|no longer" log'
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
finish
