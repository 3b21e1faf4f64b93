#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections wait while the recorder is restarted: after kill -9, and for an upgrade to another
# build. A client that asks every 10 ms, each time by a new connection, is never refused. systemd is
# played by supervisor.py: it keeps descriptors (FDSTORE), starts the daemon with them (LISTEN_FDS),
# and ends all processes of one that has ended before it starts the next. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
cp "$ascribe" program
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
cat >a.yaml <<Y
store: $dir/store
listen: [localhost:$port, unix:$dir/sock]
frequency: 19
anonymous: true
Y
background python3 "$here/supervisor.py" "$dir/notify" "$dir/main" \
	"$dir/program" daemon -c a.yaml 2>log
supervisor=$pid
starts() { [ "$(grep -c 'recording .* into' log)" -ge "$1" ]; }
ok "it runs" within 60 starts 1
ok "both sockets are kept" until_says 'supervisor: 2 descriptors'

python3 "$here/ask_always.py" "$port" "$dir/sock" changed 60 >asked 2>&1 &
asker=$!
sleep 1
inode=$(stat -c %i sock)
kill -KILL "$(cat main)"
ok "killed, it runs again" within 60 starts 2
sleep 1
# An upgrade: another file, another build.
strip -o another "$ascribe" && mv another program
kill -TERM "$(cat main)"
ok "upgraded, it runs again" within 60 starts 3
sleep 1
touch changed
wait "$asker"
status=$?
ok "no request was refused: $(tail -1 asked)" test $status = 0
ok "the Unix socket is the same" test "$(stat -c %i sock)" = "$inode"
ok "it was not bound anew" sh -c "! grep -i 'cannot listen' log"

# ---- an address that is no longer configured, and one that is new ----
sed -i "s,^listen.*,listen: [unix:$dir/sock]," a.yaml
kill -HUP "$(cat main)"
ok "one address less" until_says 'supervisor: 1 descriptors'
sed -i "s,^listen.*,listen: [127.0.0.1:$port]," a.yaml
kill -KILL "$(cat main)"
ok "another address" within 60 starts 4
gets 200 ok "http://127.0.0.1:$port/healthz"
ok "nobody listens at the old one" sh -c "! curl -s --unix-socket sock http://x/healthz"
kill -TERM "$supervisor"
wait "$supervisor"
finish
