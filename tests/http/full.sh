#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that cannot write says so at /readyz: its disk is full, its store was deleted, its files
# may not grow. By a build that is late after 12 s. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
mkdir small
mount -t tmpfs -o size=24m none small 2>/dev/null || skip "no tmpfs can be mounted here"
at_end='umount -l small'

ready() { # status, text: within 30 s
	local got
	for _ in $(seq 120); do
		got=$(curl -s -o ready.out -w '%{http_code}' --unix-socket "$dir/sock" http://x/readyz)
		[ "$got" = "$1" ] && { [ -z "$2" ] || grep -qF -- "$2" ready.out; } && return
		sleep 0.25
	done
	cat ready.out
	return 1
}

says() { # file, text: within 20 s, more than a window
	for _ in $(seq 80); do
		grep -q "$2" "$1" && return
		sleep 0.25
	done
	cat "$1"
	return 1
}

# ---- the disk ----
background "$hasty" daemon -s "$dir/small/store" -l "unix:$dir/sock" --store-max 16MiB 2>log
daemon=$pid
ok "ready" ready 200 ready
dd if=/dev/zero of=small/filler bs=64k 2>/dev/null
ok "the disk is full: not ready" ready 503 'no window was written'
ok "it lives" test "$(curl -s --unix-socket sock http://x/healthz)" = ok
ok "the log says why" says log 'could not be written'
rm small/filler
ok "there is room: ready" ready 200 ready

# ---- the store ----
rm -rf small/store
ok "the store is gone: not ready" ready 503 'deleted or moved'
ok "the log says so once" test "$(grep -c 'deleted or moved' log)" = 1
kill -TERM "$daemon"
wait "$daemon"
background "$hasty" daemon -s "$dir/small/store" -l "unix:$dir/sock" --store-max 16MiB 2>log2
ok "after a restart: ready" ready 200 ready
mv small/store small/moved
ok "moved away: not ready" ready 503 'deleted or moved'
mv small/moved small/store
ok "back again: ready" ready 200 ready
rm small/store/HEADER
ok "no store any more: not ready" ready 503 'deleted or moved'
kill -TERM "$pid"
wait "$pid"

# ---- files may not grow ----
(ulimit -f 2; exec "$ascribe" record -F 999 -o limited -- timeout \
	2 sh -c 'grep SigIgn /proc/self/status >ignored; while :; do :; done') >say 2>&1
status=$?
ok "ulimit -f: exit $status, not by SIGXFSZ" test $status -lt 128
ok "it says what could not be written" grep -q 'could not be written.*No space' say
ok "what it started has SIGXFSZ as it was" python3 -c 'import sys; sys.exit(int(open("ignored").read().split()[1], 16) >> 24 & 1)'
finish
