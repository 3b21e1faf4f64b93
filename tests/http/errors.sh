#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon whose filesystem gives errors of input and output, or has become read-only, says so at
# /readyz, keeps what it wrote, and goes on when the errors end. It begins in a directory that is
# deleted. On a disk that takes seconds for each sync it answers, and loses no sample. By a build
# that is late after 12 s. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
command -v strace >/dev/null || skip "needs strace"

answers() { # status, text
	[ "$(curl -s -o "$dir/ready.out" -w '%{http_code}' --unix-socket "$dir/sock" http://x/readyz)" = "$1" ] &&
		grep -qF -- "$2" "$dir/ready.out"
}
ready() { within 60 answers "$@" || { cat "$dir/ready.out" && return 1; }; }

start() { # what strace does to fdatasync, store
	background strace -f --seccomp-bpf -qq -o /dev/null -e trace=fdatasync \
		-e "inject=fdatasync:$1" \
		"$hasty" daemon -s "$dir/$2" -l "unix:$dir/sock" --store-max 16MiB 2>"$dir/log"
	tracer=$pid
}

whole() { # what, store
	kill -TERM "$(cat "/proc/$tracer/task/$tracer/children")"
	wait "$tracer"
	ok "$1: what was written is whole" "$ascribe" store verify "$2"
	"$ascribe" stat "$2" --json >stat.json 2>/dev/null
	ok "$1: every sample is accounted for" \
		jq -e '.stored > 0 and .fired == .stored + ([.lost[]] | add)' stat.json
}

failing() { # what, name of the error, its text
	mkdir gone && cd gone && rmdir ../gone || bad "no directory to delete"
	start "error=$2:when=4..7" "$2"
	cd "$dir" || exit 1
	ok "$1: in a deleted directory: ready" ready 200 ready
	ok "$1: not ready" ready 503 'no window was written'
	ok "$1: the log says why" until_says "could not be written.*$3"
	ok "$1: it lives" test "$(curl -s --unix-socket sock http://x/healthz)" = ok
	ok "$1: it is over: ready" ready 200 ready
	whole "$1" "$2"
}
failing "errors of a disk" EIO 'Input/output error'
failing "read-only" EROFS 'Read-only file system'

start delay_enter=3s slow
ok "a slow disk: ready" ready 200 ready
sleep 22 # two windows
ok "a slow disk: it answers" test "$(curl -s -m 5 --unix-socket sock http://x/healthz)" = ok
whole "a slow disk" slow
ok "a slow disk: no table was full meanwhile" \
	jq -e '.lost.rows_full == 0 and .lost.stacks_full == 0' stat.json
finish
