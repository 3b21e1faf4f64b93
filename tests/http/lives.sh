#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The listener lives through changes of the daemon: other rates, the kill switch, a reload. No
# connection is refused and none is dropped. By a build whose minutes are four seconds. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
cat >a.yaml <<Y
store: $dir/store
listen: [127.0.0.1:0, unix:$dir/sock]
kill-switch: $dir/off
cpu-max: 0.001%
frequency: 97
anonymous: true
Y
serve log "$hasty" daemon -c a.yaml || finish
daemon=$pid port=${url##*:}
# A new connection for each request, 200 a second, from the first change to the last.
python3 "$here/ask_always.py" "$port" "$dir/sock" changed 10 >asked 2>&1 &
asker=$!
# One connection that stays open, and an answer each half second, until the first reload.
cat >stay.py <<'PY'
import http.client, os, sys, time
c, asked = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=10), 0
c.connect()
own, until = c.sock.getsockname(), time.time() + 120
while time.time() < until and not os.path.exists(sys.argv[2]):
    c.request('GET', '/healthz')
    assert c.getresponse().read() == b'ok\n' and c.sock and c.sock.getsockname() == own
    asked += 1
    time.sleep(0.5)
print(asked, 'answers')
assert asked > 5
PY
python3 stay.py "$port" again >stayed 2>&1 &
stayer=$!
ok "half the rate" until_says 'each sample stands for 2 now'
ok "and half of that" until_says 'each sample stands for 4 now'
inode=$(stat -Lc %i sock) # while the sockets are as they were
# A request whose end comes when the recorder is another one.
cat >slow.py <<'PY'
import os, socket, sys, time
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10)
s.sendall(b'GET /api/v1/table?by=comm HTTP/1.1\r\nHost: localhost\r\n')
open(sys.argv[2] + '.begun', 'w').close()
until = time.time() + 60
while time.time() < until and not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
s.sendall(b'Connection: close\r\n\r\n')
answer = b''.join(iter(lambda: s.recv(65536), b''))
print(answer.split(b'\r\n')[0].decode())
PY
python3 slow.py "$port" "$dir/again" >slow 2>&1 &
slow=$!
within 5 test -e again.begun
touch off
ok "switched off" until_says 'nothing is sampled'
rm off
ok "on again" until_says 'recording again'
touch again
wait "$slow"
ok "a request that began before is answered: $(cat slow)" grep -q '^HTTP/1.1 200' slow
wait "$stayer"
status=$?
ok "a connection stays open meanwhile: $(tail -1 stayed)" test $status = 0
sed -i 's/^frequency.*/frequency: 37/' a.yaml
kill -HUP "$daemon"
ok "another configuration" until_says 'recording as it is asked for now'
sleep 1
touch changed
wait "$asker"
status=$?
ok "every request was answered: $(cat asked)" test $status = 0
ok "the Unix socket is the same" test "$(stat -Lc %i sock)" = "$inode"
sed -i 's/^listen.*/listen: [unix:'"${dir//\//\\/}"'\/sock]/' a.yaml
: >log
kill -HUP "$daemon"
ok "one address less" until_says reloaded
ok "nobody listens there any more" sh -c "! curl -s http://127.0.0.1:$port/healthz"
gets 200 ok --unix-socket sock http://x/healthz
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
ok "the socket is gone" test ! -e sock
finish
