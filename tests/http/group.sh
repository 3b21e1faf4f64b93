#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon's group: its members record and watch through the daemon without any right, others are
# told who may. In a mount namespace with its own /run and /var/lib. As root.
[ -n "${OWN_PLACES:-}" ] || OWN_PLACES=1 exec unshare --mount bash "$0" "$@"
. "$(dirname "$0")/lib.bash"
needs_recording
command -v setpriv >/dev/null || skip "no setpriv"
getent group games >/dev/null || skip "no group games"
mount -t tmpfs none /run && mount -t tmpfs none /var/lib || skip "no mounts here"
mkdir /run/ascribe /var/lib/ascribe home
chown 12345 home
chmod 755 . /run /run/ascribe
chmod 700 /var/lib/ascribe
cp "$ascribe" program
cp "$build/tests/record/busy" busybody
background ./busybody spin 100 >/dev/null
start() { # log, option...
	local log=$1
	shift
	background setpriv --regid games --clear-groups ./program daemon \
		-l unix:/run/ascribe/http.sock -l 127.0.0.1:0 "$@" 2>"$log"
	daemon=$pid
	within 30 grep -q 'serving.*unix:' "$log" && within 60 has_window
}
has_window() { # before, it does not know what a capture may take
	curl -gsS --unix-socket /run/ascribe/http.sock http://x/metrics |
		awk '$1 == "ascribe_windows_total" && $2 > 0 { found = 1 } END { exit !found }'
}
as() { # groups, command...
	local groups=$1
	shift
	(cd home && exec setpriv --reuid 12345 --regid 12345 --groups "$groups" --inh-caps -all \
		--bounding-set -all --no-new-privs "$@")
}
asks() { as "$1" curl -gsS -o answer -w '%{http_code}' --unix-socket /run/ascribe/http.sock "http://x$2" 2>curl.err; }
is() { test "$(asks "$2" "$3")" = "$1"; }

ok "no daemon: nothing is advised" sh -c "! setpriv --reuid 12345 --regid 12345 --clear-groups \
	./program record -d 1s -o /nowhere 2>&1 | grep 'daemon runs'"
ok "a daemon of the group games" start log
ok "its socket and store are the group's" test \
	"$(stat -c %G:%a /run/ascribe/http.sock)$(stat -c %G:%a /var/lib/ascribe)" = games:660games:750

# ---- a member, who has the group besides others ----
ok "a member records" as 12346,games ../program record -F 499 -d 2s -o mine
cp ok.err said
ok "by the daemon, which is said" grep -q 'the daemon of this host records for 2 s' said
"$ascribe" report home/mine --by function --json >functions.json 2>/dev/null
ok "what ran" jq -e '[.rows[].function] | index("spin_here") != null' functions.json
ok "its store is its own" test "$(stat -c %u home/mine/HEADER)" = 12345
top() { as "$1" ../program top --once --json --span 1m --by comm; }
sees() { top "$1" 2>/dev/null | jq -e '[.rows[].key.comm] | index("busybody") != null'; }
ok "a member watches" within 40 sees games
ok "which processes to record the daemon lets nobody choose" sh -c "! (cd home && setpriv --reuid 12345 \
	--regid games --clear-groups ../program record -p 1 -d 1s -o one) 2>&1 | grep -q 'is written'"
as games ../program record --label-drop k -d 1s -o one 2>/dev/null
ok "nor its rules for labels" test $? = 1 -a ! -e home/one
as games ../program record -p 1 -d 1s -o one 2>err
ok "and a member is told the way" grep -q 'for members of its group games, `ascribe record -d 10s`' err

# ---- who is no member ----
as 12346 ../program record -d 1s -o none 2>err
ok "another user does not record" test $? = 1
ok "and is told who may" grep -q 'a daemon runs here: for members of its group games, `ascribe record' err
ok "nor connects" is 000 12346 /api/v1/labels
ok "nothing was written" test ! -e home/none
top 12346 2>err >out
ok "nor watch" test $? = 1
ok "told so, too" grep -q 'for members of its group games, `ascribe top` shows' err
kill "$daemon"
wait "$daemon"

# ---- a socket for everybody ----
ok "with a socket for all" start log2 --socket-mode 0666
ok "another user reads" is 200 12346 /api/v1/labels
ok "but has no capture made" is 403 12346 '/debug/pprof/profile?seconds=1&hz=99'
ok "with the reason" grep -q "or a Unix socket and the daemon's group" home/answer
ok "a member has" is 200 games '/debug/pprof/profile?seconds=1&hz=99'
ok "over TCP nobody has without the token" test 401 = "$(curl -gs -o body -w '%{http_code}' \
	"$(sed -n 's/.* on \(http:.*\)/\1/p' log2)/debug/pprof/profile?seconds=1&hz=99")"
kill "$daemon"
wait "$daemon"
ok "the store is whole" "$ascribe" store verify /var/lib/ascribe
finish
