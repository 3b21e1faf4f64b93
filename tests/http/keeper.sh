#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The process that keeps a daemon's capabilities: the recorder has none, and writes nowhere but into
# its store. What becomes of a recording when the keeper is stopped, and when it is killed. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
mkdir here else
cat >a.yaml <<Y
store: $dir/store
listen: [127.0.0.1:0, unix:$dir/here/sock]
anonymous: true
Y
serve log "$build/tests/hasty/ascribe" daemon -c a.yaml || finish
daemon=$pid
keeper=$(pgrep -P "$daemon" -x ascribe-keeper)
stored() { "$ascribe" stat store --json 2>/dev/null | jq .stored; }
grows() { [ "$(stored)" -gt "$1" ]; }

# ---- where it writes ----
sed -i "s,here/sock,else/sock," a.yaml
kill -HUP "$daemon"
ok "no socket in another directory" \
	until_says 'cannot listen on .*/else/sock: Permission denied; restart the daemon'
ok "there is none" test ! -e else/sock
sed -i "s,else/sock,here/sock," a.yaml
kill -HUP "$daemon"
ok "where one was before, it may be" within 20 curl -gsSf --max-time 5 --unix-socket here/sock \
	http://x/metrics -o metrics

# ---- stopped ----
kill -STOP "$keeper"
nursery=$(kept "$daemon" -x ascribe-nursery)
kill -KILL "$nursery"
ok "stopped, it is missed" until_says 'ascribe-keeper.* does not answer: is it stopped'
at=$(stored)
ok "recording goes on: $at" within 60 grows "$at"
kill -CONT "$keeper"
ok "it goes on, too" within 30 kept "$daemon" -x ascribe-nursery
ok "which is said" until_says 'ascribe-keeper answers again'

# ---- stopped during a reload that needs it ----
kill -STOP "$keeper"
echo 'frequency: 49' >>a.yaml
kill -HUP "$daemon"
ok "the reload is refused" until_says 'reload: .*timed out'
at=$(stored)
ok "recording goes on: $at" within 60 grows "$at"
kill -CONT "$keeper"
ok "it serves again" within 30 curl -gsSf --max-time 5 --unix-socket here/sock http://x/metrics \
	-o metrics

late() {
	curl -gsS --max-time 5 --unix-socket here/sock http://x/metrics |
		grep -qx 'ascribe_keeper_late_total 2'
}
ok "both times are counted" within 20 late

# ---- killed ----
kill -KILL "$keeper"
wait "$daemon"
ok "without it the daemon fails" test $? = 1
ok "and says why" until_says 'ascribe-keeper.* was killed: start the daemon again'
ok "every sample is accounted for" sh -c "'$ascribe' stat store --json |
	jq -e '.fired == .stored + ([.lost[]] | add)'"
finish
