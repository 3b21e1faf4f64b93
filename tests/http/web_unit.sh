#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The unit that serves, under a real systemd: what it sees, who may start one, what becomes of it
# and of its socket, and that nothing of this costs a sample. By a build that waits 3 s for an
# answer.
. "$(dirname "$0")/units.bash"
command -v setpriv >/dev/null || skip "no setpriv"
make_upper
cp "$build/tests/hasty/ascribe" upper/usr/bin/ascribe
cat >upper/before/connect.py <<'PY'
"""connect.py PATH [SECONDS]: connect, send what is no configuration, say what comes."""
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(float(sys.argv[2]) if len(sys.argv) > 2 else 20)
s.connect(sys.argv[1])
print("connected", flush=True)
try:
    while packet := s.recv(1000):
        print(int.from_bytes(packet[:4], 'little'), packet[4:].split(b'\0')[0], flush=True)
    print("closed")
except (TimeoutError, ConnectionError) as e:
    print(type(e).__name__)
PY
boot_units
ok "it starts" sd start ascribe
ok "it serves" within 30 serves
ok "it records" records
recorder=$(main) keeper=$(main ascribe-keeper)
# One that has ended often is started later each time: a new recorder has seen no end.
fresh() {
	sd restart ascribe && within 60 serves
	recorder=$(main) keeper=$(main ascribe-keeper)
}
stays() { [ "$(main)" = "$recorder" ] && [ "$(main ascribe-keeper)" = "$keeper" ]; }

# ---- what it is ----
unit=$(web) web=$(web_pid)
ok "one process is in its unit" test "$(names "$unit")" = "ascribe-web "
ok "and none in the keeper's" sh -c "! echo '$(names ascribe-keeper.service)' | grep -q ascribe-web"
user=$(field "$web" Uid | cut -f1)
ok "a user of its own: $user" test "$(field "$web" Uid | tr '\t' '\n' | sort -u)" = "$user"
ok "who is not root" test "$user" != 0
ok "in the group that reads the store" test "$(field "$web" Gid | cut -f1)" = 0
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	ok "no capability: $set" test $((16#$(field "$web" $set))) = 0
done
ok "system calls are filtered" test "$(field "$web" Seccomp)" = 2
# More than the unit's: its own, which leaves fewer calls.
ok "by itself, too" test "$(field "$web" Seccomp_filters)" -gt 3
ok "a network of its own" test "$(net "$web")" != "$(net 1)"
ok "which is not the recorder's" test "$(net "$web")" != "$(net "$recorder")"
seen() { inside find "/proc/$web/root/" -xdev ! -type d | sed "s|^/proc/$web/root/||"; }
seen >seen 2>/dev/null
ok "no file of the host beside /usr but these: $(tr '\n' ' ' <seen)" sh -c \
	'! grep -vxE "etc/(ld.so.cache|localtime|gnutls/.*|crypto-policies/.*)" seen'
check() {
	inside ascribe check 2>/dev/null | awk '$2 ~ /^ascribe/' >said
	grep -q "ascribe-web.*user $user" said && ! grep -q Differs said
}
ok "check agrees with the table" within 20 check
grep Differs said
server() {
	inside curl -gsS -u ":$(cat all.token)" --max-time 10 http://127.0.0.1:4041/metrics |
		awk '/^ascribe_memory_bytes{part="server"}/ { print $2 }'
}
own=$(inside awk '/RssAnon/ { print $2 * 1024 }' "/proc/$web/status")
counted() { [ "$(server)" -ge $((own / 2)) ]; }
ok "its memory is counted: $own, $(server)" within 20 counted

# ---- what its unit alone leaves to who has taken it over: without its own filter and Landlock ----
as_web() {
	inside nsenter -t "$web" -m -n -u setpriv --reuid "$user" --regid 0 --clear-groups \
		--bounding-set=-all --inh-caps=-all --no-new-privs "$@"
}
cat >taken.py <<'PY'
import os, socket
def tries(what, f):
    try: print(what, "DONE", f())
    except OSError as e: print(what, type(e).__name__)
def unix(path, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(path)
for path, kind in (("/run/ascribe-keeper/web", 5), ("/run/ascribe-keeper/socket", 1), ("/proc/1/root/run/ascribe-keeper/web", 5),
                   ("/run/systemd/private", 1), ("/run/systemd/notify", 2), ("/run/ascribe/http.sock", 1)):
    tries(path, lambda: unix(path, kind))
tries("network", lambda: socket.create_connection(("127.0.0.1", 4041), 2))
tries("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.0.0.1", 53)))
for path in ("/etc/shadow", "/etc/passwd", "/etc/ascribe/token", "/var/lib/ascribe/MANIFEST", "/root", "/home", "/boot"):
    tries(path, lambda: (os.path.isdir(path) and os.listdir(path), open(path)))
for path in ("/usr/x", "/etc/x", "/x", "/run/x", "/tmp/x", "/var/tmp/x", "/dev/shm/x", "/dev/mqueue/x"):
    tries(path, lambda: open(path, "w"))
for pid in (RECORDER, KEEPER, 1):
    tries(f"signal {pid}", lambda: os.kill(pid, 0))
    tries(f"see {pid}", lambda: os.stat(f"/proc/{pid}"))
PY
sed -i "s/RECORDER/$recorder/; s/KEEPER/$keeper/" taken.py
as_web python3 - <taken.py >left 2>&1
ok "it was tried" test "$(grep -c . left)" -ge 24
ok "it can do none of this: $(grep -c Error left) of $(grep -c . left)" sh -c '! grep -v "Error$" left'

# ---- who may start one ----
at=/run/ascribe-keeper/web
ok "not another user" grep -q PermissionError \
	<(inside setpriv --reuid 1000 --clear-groups python3 /before/connect.py $at 2>&1)
ok "not even as a server" grep -q PermissionError \
	<(inside setpriv --reuid "$user" --regid 0 --clear-groups \
		python3 /before/connect.py $at 2>&1)
for pid in "$recorder" "$keeper"; do
	ok "in the unit of $(inside cat "/proc/$pid/comm") there is no such path" \
		sh -c "! nsenter -t $systemd -a nsenter -t $pid -m ls $at"
done
# Whom the keeper starts to talk to others has no capability: it cannot enter systemd's root.
for comm in ascribe-pushkee ascribe-push; do
	ok "as $comm has: no capability" sh -c "! sed -n '/^${comm} /p' said | grep CAP_"
done
ok "nor is there another way for root without a capability" grep -q PermissionError \
	<(inside nsenter -t "$keeper" -m setpriv --bounding-set=-all --inh-caps=-all \
		--no-new-privs python3 - /proc/1/root$at 2>&1 <upper/before/connect.py)
inside timeout 60 python3 /before/connect.py $at 5 >by_root 2>&1
# WEB_HERE, and nothing else.
ok "root gets one that has nothing: $(tr '\n' ' ' <by_root)" \
	sh -c 'grep -q ^connected by_root && grep -q "^13 " by_root'
ok "the one that serves stays" test "$(web_pid)" = "$web"
ok "and serves" serves

# ---- more than there may be ----
for i in 1 2 3 4 5 6; do
	background inside timeout 60 python3 /before/connect.py $at 40 >"many.$i" 2>&1
	many[i]=$pid
done
count() { sd list-units --plain --no-legend 'ascribe-web@*' | grep -c .; }
has() { [ "$(count)" = "$1" ]; }
closed() { [ "$(grep -lE 'closed|Error' many.* | wc -l)" = "$1" ]; }
ok "others are closed" within 30 closed 3
ok "four at a time" has 4
inside kill -KILL "$web"
died() { says 'the process that serves has ended'; }
ok "with no place left the recorder says that it ended" within 20 died
sleep 3
ok "and records" records
ok "nobody is left over: $(count)" test "$(count)" -le 4
for i in 1 2 3 4 5 6; do kill "${many[i]}"; done 2>/dev/null
ok "then it serves again" within 60 serves
ok "the same recorder, the same keeper" stays

# ---- its end ----
ok "a restart" fresh
another() { local p; p=$(web_pid) && [ "${p:-0}" != 0 ] && [ "$p" != "$web" ] && serves; }
web=$(web_pid)
inside kill -KILL "$web"
ok "killed: another one serves" within 30 another
stop_web() { web=$(web_pid) && sd stop 'ascribe-web@*' && within 30 another; }
asks "stopped by the administrator: another one serves" stop_web
ok "a clean end" sh -c "! grep -E 'ascribe-web@.*(Failed|timed out)' boot.log"
web=$(web_pid)
inside kill -STOP "$web"
ok "hanging, it is killed after a while" within 40 another
ok "the log says so" says 'did not answer and was killed'
ok "and it is gone" sh -c "! nsenter -t $systemd -a kill -0 $web"
ok "the same recorder, the same keeper" stays

# ---- reload: another token, another process ----
web=$(web_pid)
make_tokens new
inside tee /etc/ascribe/token <new.token >/dev/null
reload() { sd reload ascribe && within 30 another; }
asks "reload" reload
code() {
	inside curl -gsS -u ":$(cat "$1.token")" -o /dev/null -w '%{http_code}' \
		http://127.0.0.1:4041/metrics
}
ok "the token is another one" test "$(code new)$(code all)" = 200401
ok "the same recorder, the same keeper" stays

# ---- its socket is stopped, its unit cannot start ----
ok "a restart" fresh
sd stop ascribe-web.socket
web=$(web_pid)
ok "without the socket it serves on" serves
ok "the recorder stays" stays
inside kill -KILL "$web"
ok "then nobody can be started, which is said" within 30 \
	says 'cannot have systemd start the process that serves.*ascribe-web.socket'
ok "it records" records
sd start ascribe-web.socket
ok "with the socket it serves" within 60 another
ok "a restart" fresh
drop=/$units/ascribe-web@.service.d
inside mkdir $drop
inside sh -c "printf '[Service]\nExecStart=\nExecStart=/usr/bin/nothing\n' >$drop/x.conf"
sd daemon-reload
web=$(web_pid)
inside kill -KILL "$web"
sleep 3
ok "a unit that cannot start: it records" records
tried() { sd show -P NAccepted ascribe-web.socket; }
before=$(tried)
sleep 5
ok "and is tried now and then: $(($(tried) - before)) times in 5 s" test $(($(tried) - before)) -le 10
ok "the socket is still there" active ascribe-web.socket
inside rm $drop/x.conf
sd daemon-reload
ok "repaired, it serves" within 60 another
ok "the same recorder, the same keeper" stays

# ---- another group than the recorder's ----
have_group() { # unit...
	local u
	for u in "$@"; do
		inside mkdir -p "/$units/$u.service.d"
		inside sh -c "printf '[Service]\nGroup=games\n' >/$units/$u.service.d/group.conf"
	done
	sd daemon-reload
}
have_group ascribe ascribe-keeper
sd restart ascribe
ok "it cannot enter the store, which is said" within 30 \
	says 'cannot enter the store: .* needs the recorder.s group (Group= of ascribe-web@.service)'
have_group ascribe-web@
ok "in all three" fresh
ok "the server has it, too" test "$(field "$(web_pid)" Gid | cut -f1)" = "$(id -g games)"
inside sh -c "rm /$units/*/group.conf"
sd daemon-reload

# ---- a unit with too much is told ----
ok "a restart" fresh
inside sh -c "printf '[Service]\nDynamicUser=no\nUser=root\n' >$drop/x.conf"
sd daemon-reload
sd stop 'ascribe-web@*'
within 30 serves
inside ascribe check >said 2>/dev/null
ok "check tells of root: $(grep -o 'Differs.*' said)" \
	grep -q 'ascribe-web.*its user should be one that systemd has chosen' said
inside rm -r $drop
sd daemon-reload
sd stop 'ascribe-web@*'
ok "it serves again" within 30 serves

# ---- the end of the keeper, and of all ----
ok "a restart" fresh
web=$(web_pid)
inside kill -STOP "$web"
inside kill -KILL "$keeper"
gone() { ! inside kill -0 "$web" 2>/dev/null; }
ok "the keeper killed while it hangs: it is gone" within 30 gone
ok "all runs anew" within 60 serves
ok "stop" sd stop ascribe
ok "its socket is stopped" within 10 active ascribe-web.socket inactive
ok "no process is left" within 10 sh -c "! nsenter -t $systemd -a pgrep ascribe"
ok "no unit either" test "$(sd list-units --all --plain --no-legend 'ascribe-web@*' | grep -c .)" = 0
ok "no path" sh -c "! nsenter -t $systemd -a ls $at"
ok "every sample is accounted for" sh -c "nsenter -t $systemd -a ascribe stat /var/lib/ascribe --json |
	jq -e '.fired == .stored + ([.lost[]] | add)'"
finish
