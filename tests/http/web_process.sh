#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The process that serves for a daemon: what rights it has, that the recorder holds no secret of it,
# and that whatever becomes of it costs no sample. By a build that waits 3 s for an answer. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
command -v setpriv >/dev/null || skip "no setpriv"
hasty=$build/tests/hasty/ascribe
make_secrets() { # name: token, certificate and key
	make_tokens "$1"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.pem" -days 2 \
		-subj "/CN=$1" 2>/dev/null
}
use_secrets() { for kind in token key pem; do cat "$1.$kind" >"used.$kind"; done; }
umask 077
make_secrets one
make_secrets two
use_secrets one
cat >a.yaml <<Y
store: $dir/store
listen: [127.0.0.1:0, unix:$dir/sock]
token-file: $dir/used.token
tls-cert: $dir/used.pem
tls-key: $dir/used.key
Y
serve log "$hasty" daemon -c a.yaml || finish
daemon=$pid port=${url##*:}
web_pid() { kept "$daemon" -x ascribe-web; }
web=$(web_pid)
asks() { curl -sk -o body -w '%{http_code}' --max-time 20 -H "Authorization: Bearer $(cat "$1.token")" "https://127.0.0.1:$port$2"; }
is_status() { test "$(asks "$1" "$2")" = "$3"; }
ok "it answers" is_status one /api/v1/labels 200

# ---- rights ----
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$web/status"; }
read -r uid _ < <(field Uid)
read -r gid _ < <(field Gid)
ok "a user of its own: $uid" sh -c "[ $uid != 0 ] && [ $uid != 65534 ] && ! getent passwd $uid"
ok "no further group" test -z "$(field Groups | tr -d ' ')"
ok "no capability" test "$(field CapEff)$(field CapPrm)$(field CapInh)$(field CapAmb)" = \
	"$(printf '0%.0s' $(seq 64))"
ok "none by executing a program" test "$(field NoNewPrivs)" = 1
ok "system calls are filtered" test "$(field Seccomp)" = 2
ok "nice 0" test "$(awk '{ print $19 }' "/proc/$web/stat")" = 0
limit() { sed -n "s/^Max $1  *\([^ ]*\) .*/\1/p" "/proc/$web/limits"; }
ok "no core files" test "$(limit 'core file size')" = 0
ok "its memory is limited" test "$(limit 'data size')" -lt 1000000000
as_web() { setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"; }
ok "its user cannot read /etc/shadow" sh -c "! setpriv --reuid $uid --regid $gid --clear-groups cat /etc/shadow"
chmod 711 . # so that names below can be tried at all
ok "it reads the store" as_web sha256sum store/HEADER store/MANIFEST
ok "but cannot write to it" sh -c "! setpriv --reuid $uid --regid $gid --clear-groups touch store/seg/new store/HEADER"
ok "nor read other secrets there" sh -c "! setpriv --reuid $uid --regid $gid --clear-groups cat used.token"
ok "others read nothing of the store" sh -c "! setpriv --reuid 12345 --regid 12345 --clear-groups ls store"
chmod 700 .
ok "it has no event, map or program of the recorder" sh -c "! ls -l /proc/$web/fd | grep -E 'bpf|perf_event'"
base() { awk '/ascribe/ { print $1; exit }' "/proc/$1/maps"; }
ok "its addresses are others" test "$(base "$web")" != "$(base "$daemon")"

# ---- secrets ----
cat >search.py <<'PY'
import base64, os, sys
pid, what = sys.argv[1], sys.argv[2:]
patterns = []
for name in what:
    text = open(name, 'rb').read().strip()
    if not text.startswith(b'-----'):
        patterns.append(text)
        continue
    lines = text.split(b'\n')[1:-1]
    der = base64.b64decode(b''.join(lines))
    patterns += [lines[5], lines[12], der[200:232], der[600:632], der[200:232][::-1], der[600:632][::-1]]
found, mem = set(), open(f'/proc/{pid}/mem', 'rb')
for line in open(f'/proc/{pid}/maps'):
    begin, end = (int(x, 16) for x in line.split()[0].split('-'))
    if line.split()[1][0] != 'r' or '[v' in line: continue
    tail = b''
    for at in range(begin, end, 1 << 22):
        try:
            mem.seek(at)
            data = mem.read(min(1 << 22, end - at))
        except OSError: break
        found |= {p for p in patterns if p in tail + data}
        tail = data[-100:]
print(len(found), 'of', len(patterns))
PY
found() { python3 search.py "$@"; }
ok "the search finds the token where it is" test "$(found "$web" used.token)" = '1 of 1'
ok "and the key" grep -q '^[1-9] of' <(found "$web" used.key)
ok "the recorder has neither" test "$(found "$daemon" used.token used.key)" = '0 of 7'

# ---- a reload ----
use_secrets two
kill -HUP "$daemon"
until_says reloaded
ok "another token from now on" within 10 is_status two /api/v1/labels 200
ok "the old one is wrong" is_status one /api/v1/labels 401
subject() {
	openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null |
		openssl x509 -noout -subject
}
ok "another certificate: $(subject)" grep -q 'CN *= *two' <(subject)
ok "by another process" test "$(web_pid)" != "$web"
ok "the recorder has none of these" test \
	"$(found "$daemon" used.token used.key one.token one.key)" = '0 of 14'
echo short >used.token
kill -HUP "$daemon"
ok "a bad token changes nothing" until_says 'token-file: a token has 16 to 1024 bytes; everything stays as it was'
ok "the good one is valid" is_status two /api/v1/labels 200
cat one.key >used.key
use_secrets two
cat one.key >used.key
kill -HUP "$daemon"
ok "a key of another certificate is said" until_says 'is the certificate and its key good PEM?'
use_secrets two
kill -HUP "$daemon"
ok "and the next reload serves again" within 20 is_status two /api/v1/labels 200

# ---- its end costs no sample ----
web=$(web_pid)
(sleep 0.3 && kill -9 "$web") &
killer=$!
for _ in $(seq 100); do asks two /healthz >/dev/null; done
wait "$killer"
ok "killed, it comes back" within 10 is_status two /api/v1/labels 200
ok "which is said" until_says 'the process that serves has ended; another one is started'
web=$(web_pid)
kill -STOP "$web"
ok "stopped, it is replaced" within 20 is_status two /api/v1/labels 200
ok "which is said, too" until_says 'did not answer and was killed'
ok "the stopped one is gone" test ! -e "/proc/$web"

# ---- taken over, it shuts the sockets that its successors have, too ----
cat >shut.py <<'PY'
import ctypes, os, socket, sys
pid = int(sys.argv[1])
process, getfd, n = os.pidfd_open(pid), 438, 0
for fd in os.listdir(f'/proc/{pid}/fd'):
    if not os.readlink(f'/proc/{pid}/fd/{fd}').startswith('socket:'): continue
    s = socket.socket(fileno=ctypes.CDLL(None).syscall(getfd, process, int(fd), 0))
    if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        s.shutdown(socket.SHUT_RDWR)
        n += 1
print(n)
PY
web=$(web_pid) before=$(stat -c '%a %u %g' sock)
ok "two sockets are shut" test "$(python3 shut.py "$web")" = 2
ok "nobody can connect" sh -c "! curl -sk --max-time 5 -o none https://127.0.0.1:$port/healthz"
kill -9 "$web"
ok "the next server answers at the same port" within 20 is_status two /api/v1/labels 200
at_socket() { curl -sf --unix-socket sock -H "Authorization: Bearer $(cat two.token)" "http://x$1"; }
ok "and at the Unix socket" within 10 at_socket /api/v1/labels -o none
ok "which has its mode and group: $before" test "$(stat -c '%a %u %g' sock)" = "$before"
starts() { at_socket /metrics | grep -qE '^ascribe_server_starts_total [6-9]'; }
ok "how often is counted" within 10 starts
web=$(web_pid)
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
ok "and nobody stays" test ! -e "/proc/$web"
ok "every sample is accounted for" sh -c "'$ascribe' stat store --json | jq -e '.fired == .stored + ([.lost[]] | add)'"
"$ascribe" diff store --against-to now --json >diff.json 2>/dev/null
ok "no gap" jq -e '.b | .to - .from - .covered < 1' diff.json
finish
