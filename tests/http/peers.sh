#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers that a daemon asks, and that do it harm: receivers of profiles, a container engine,
# PostgreSQL (peers.py). No token or password goes to others, no file of the host is sent, memory
# stays, nothing hangs, and no sample is lost. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe # asks each second
head -c 20 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >token
chmod 600 token
peer() { # kind: sets $at, its address
	background python3 "$here/peers.py" "$1" "$dir/$1"
	within 20 test -e "$1" || bad "no peer $1"
	at=$(cat "$1")
}
peer thief # whom another one redirects to
sed -i 's|^|http://|' thief
receivers=
for kind in file other headers body bomb slow; do
	peer $kind
	receivers+="  - {url: \"http://$at\", token-file: $dir/token, timeout: 3}"$'\n'
done

# Of a process, by its name, and of those of its kind: the most memory, in MiB.
most=0
look() {
	local p now
	for p in $(pgrep -f -P "$(pgrep -d, -P "$daemon")" .) $(pgrep -P "$daemon"); do
		now=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$p/status" 2>/dev/null)
		[ "${now:-0}" -le $most ] || most=$now who=$(cat "/proc/$p/comm")
	done
}
# Was each of these peers asked? A busy host asks late.
kinds=
all_asked() {
	local kind
	for kind in $kinds; do
		[ -s "$kind.seen" ] || return
	done
}
run() { # what, the least seconds, lines of the configuration
	local end
	{
		printf 'store: %s/store\nlisten: [unix:%s/sock]\ncpu-max: 0\nfrequency: 199\n' "$dir" "$dir"
		printf '%s' "$3"
	} >c.yaml
	chmod 600 c.yaml
	rm -rf store
	background "$hasty" daemon -c c.yaml 2>log
	daemon=$pid most=0 who=
	within 20 grep -q ': serving' log || bad "$1: $(cat log)"
	end=$((SECONDS + $2))
	while [ $SECONDS -lt $end ] || { ! all_asked && [ $SECONDS -lt $((end + 30)) ]; }; do
		[ -z "${4:-}" ] || $4
		look
		sleep 0.3
	done
	ok "$1: it answers" test "$(curl -s -m 5 --unix-socket sock http://x/healthz)" = ok
	kill -TERM "$daemon"
	wait "$daemon"
	ok "$1: it ends well" test $? = 0
	ok "$1: no process of it had more than 128 MiB: $most, $who" test "$most" -lt 128 -a "$most" -gt 0
	"$ascribe" stat store --json >stat.json
	ok "$1: every sample is accounted for" \
		jq -e '.stored > 0 and .fired == .stored + ([.lost[]] | add)' stat.json
}

# ---- receivers ----
kinds='file other headers body bomb slow'
run receivers "$(in_part 8 15)" "push:
$receivers"
for kind in $kinds; do
	ok "$kind was asked, with its token" grep -q "$(cat token)" $kind.seen
done
ok "who is named by a redirection was not" test ! -e thief.seen
ok "no file went out" sh -c "! grep -l 'root:' ./*.seen"
ok "its log has no token" sh -c "! grep -qF -f token log"

# ---- container engines ----
for kind in deep long; do
	peer $kind
	kinds=$kind
	run "an engine, $kind" "$(in_part 5 8)" "container-names: engine
container-socket: $at"
	ok "an engine, $kind: was asked" test -s $kind.seen
done

# ---- PostgreSQL ----
ask_sql() { curl -s -m 5 -o asked --unix-socket sock "http://x/api/v1/statements?ids=$((++number))"; }
number=0 kinds=
for kind in password notices huge silent; do
	peer $kind
	run "PostgreSQL, $kind" "$(in_part 5 8)" "postgres: host=${at%:*} port=${at#*:} user=monitor password=hunter2 dbname=x sslmode=disable" ask_sql
	ok "PostgreSQL, $kind: statements are answered" jq -e '.statements == {}' asked
done
finish
