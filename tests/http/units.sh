#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The package's units under a real systemd: start, reload, restart, captures, stop, the keeper and
# the recorder killed, an upgrade from the single unit before; who may connect to the keeper. That
# of the server has a test of its own, web_unit.sh.
. "$(dirname "$0")/units.bash"
make_upper
single_unit >upper/before/ascribe.service
libc=$(ldd /bin/true | awk '$1 == "libc.so.6" { print $3 }')
cat >>upper/etc/ascribe/ascribe.yaml <<Y
postgres: "host=/nowhere user=nobody"
debuginfod: [http://127.0.0.1:1]
push: [{url: "http://127.0.0.1:1"}]
event: [cpu-clock, "sched:sched_process_exec", "uprobe:$libc:exit", off-cpu]
Y
boot_units

ok "it starts, and is ready" sd start ascribe
ok "it serves" within 30 serves
ok "over its Unix socket, too" \
	test "$(status --unix-socket /run/ascribe/http.sock http://x/metrics)" = 200
ok "it records" records
report() { inside ascribe report /var/lib/ascribe "$@" 2>/dev/null; }
# The recorder's unit hides /proc/kallsyms and tracefs: its keeper opens what it needs of them.
named() { report --by function -n 0 --event cpu-clock | grep -q '_syscall.*\[kernel\]'; }
hit() { report --by comm --event "$1" | grep -qw sed; }
tries() { inside sed --version >/dev/null && "$@"; }
ok "kernel functions have names" within 60 tries named
ok "a tracepoint" within 60 tries hit sched:sched_process_exec
ok "a probe of a library" within 60 tries hit "uprobe:$libc:exit"
waited() { inside sleep 0.1 && report --by comm --event off-cpu | grep -qw sleep; }
ok "waits" within 60 waited
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	ok "the recorder's unit has no capability: $set" test $((16#$(field "$(main)" $set))) = 0
done
ok "nor a network" test "$(net "$(main)")" != "$(net 1)"
ok "which the keeper's has" test "$(net "$(main ascribe-keeper)")" = "$(net 1)"
ok "two processes are in the recorder's unit" \
	test "$(names ascribe.service)" = "ascribe ascribe-notify "
runs() { names ascribe-keeper.service | grep -qw -- "$1"; }
for name in ascribe-keeper ascribe-nursery ascribe-pushkee ascribe-sql ascribe-debugin; do
	ok "in the keeper's: $name" within 30 runs $name
done
ok "one process is in the unit of the server" test "$(names "$(web)")" = "ascribe-web "
check() {
	inside ascribe check 2>/dev/null | awk '$2 ~ /^ascribe/' >said
	grep -q ascribe-web said && ! grep -q Differs said
}
ok "check agrees with the table" within 20 check
grep Differs said
ok "one daemon" test "$(grep -c ' ascribe  ' said)" = 1
used() {
	inside curl -gsS -u ":$(cat all.token)" --max-time 10 http://127.0.0.1:4041/metrics |
		awk '$1 == "ascribe_memory_used_bytes" { print $2 }'
}
own=$(inside awk '/RssAnon|RssShmem/ { n += $2 } END { print n * 1024 }' "/proc/$(main)/status")
ok "memory counts the processes of both units: $own < $(used)" test "$own" -lt "$(used)"
got=$(status --max-time 60 'http://127.0.0.1:4041/debug/pprof/profile?seconds=2&hz=99')
ok "a capture: $got $(inside head -c 200 /run/body | tr -d "\0")" test "$got" = 200

# ---- who may connect to the keeper ----
connects() { inside "$@" python3 -c 'import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(200)
s.connect("/run/ascribe-keeper/socket")
print("connected", len(s.recv(100)))'; }
ok "not another user" grep -q PermissionError \
	<(connects setpriv --reuid 1000 --clear-groups 2>&1)
ok "nor a process of the keeper's unit: it has no such path" sh -c "
	! nsenter -t $systemd -a nsenter -t $(main ascribe-keeper) -m ls /run/ascribe-keeper/socket"
ok "nor one of the recorder's" sh -c "
	! nsenter -t $systemd -a nsenter -t $(main) -m ls /run/ascribe-keeper/socket"
keeper=$(main ascribe-keeper)
background connects timeout 200 2>second.err >second
sleep 2
ok "a second one waits while the first lives" sh -c "[ ! -s second ] && kill -0 $pid"
ok "which lives" test "$(main ascribe-keeper)" = "$keeper"
at=$(stored)
ok "which records on" within 60 grows "$at"

# ---- reload ----
echo 'frequency: 49' >config
inside tee -a /etc/ascribe/ascribe.yaml <config >/dev/null
ok "reload" sd reload ascribe
ok "it was read" within 30 says 'reloaded'
ok "the same keeper" test "$(main ascribe-keeper)" = "$keeper"
ok "it records at another rate" records

# ---- restart, while somebody asks every 10 ms ----
before=$(main)
asks "restart" sd restart ascribe
ok "by another recorder" test "$(main)" != "$before"
ok "with another keeper" test "$(main ascribe-keeper)" != "$keeper"
# systemd waits 5 s before it starts one that has failed.
killed() { # unit
	local recorder
	recorder=$(main)
	inside kill -KILL "$(main "$1")" && within 60 anew "$recorder"
}
anew() { active ascribe && [ "$(main)" != 0 ] && [ "$(main)" != "$1" ] && active ascribe-keeper; }
asks "the recorder killed, both run anew" killed ascribe
ok "the keeper of before has ended" test "$(inside pgrep -c -x ascribe-keeper)" = 1
asks "the keeper killed, both run anew" killed ascribe-keeper
ok "the log says so" says 'ascribe-keeper.* was killed'
stopped() {
	local recorder
	recorder=$(main)
	sd stop ascribe-keeper && within 60 anew "$recorder"
}
ok "the keeper stopped, both run anew" stopped
ok "the second one was given nothing" grep -qx 'connected 0' second
ok "and the log says so" says 'somebody who is not ascribe.service was refused' ascribe-keeper

# ---- stop ----
begin=$SECONDS
ok "stop" sd stop ascribe
ok "in time: $((SECONDS - begin)) s" test $((SECONDS - begin)) -lt 15
ok "the keeper ends, too" within 10 active ascribe-keeper inactive
ok "and its socket" within 10 active ascribe-keeper.socket inactive
ok "none of its processes is left" sh -c "! nsenter -t $systemd -a pgrep ascribe"
ok "every sample is accounted for" sh -c "nsenter -t $systemd -a ascribe stat /var/lib/ascribe --json |
	jq -e '.fired == .stored + ([.lost[]] | add)'"

# ---- upgrade from the single unit ----
inside sh -c "mkdir /after && mv /$units/ascribe* /after && cp /before/ascribe.service /$units/ &&
	mkdir /$units/ascribe.service.d && cp /after/ascribe.service.d/log.conf /$units/ascribe.service.d/"
sd daemon-reload
ok "the unit of before starts" sd start ascribe
ok "with its keeper beside it" sh -c "nsenter -t $systemd -a pgrep -P $(main) -x ascribe-keeper"
upgrade() {
	inside sh -c "rm -r /$units/ascribe.service* && cp -a /after/* /$units/" && sd daemon-reload &&
		sd try-restart ascribe
}
asks "upgraded" upgrade
ok "to two units" sh -c "[ '$(main ascribe-keeper)' != 0 ]"
ok "it records into the same store" records
finish
