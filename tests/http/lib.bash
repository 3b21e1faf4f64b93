# SPDX-License-Identifier: Apache-2.0
# What the tests of the server share; sourced, not run. The working directory is a fresh one; a test ends with `finish`.
set -u
build=$(realpath "${BUILD:-build}")
ascribe=$build/ascribe
name=$(basename "$0")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
dir=$(mktemp -d)
passed=0 failed=0
started=()
export TZ=UTC HOME=$dir PPROF_TMPDIR=$dir no_proxy='*'
PATH=$PATH:/usr/sbin:/sbin

at_exit() {
	local p
	for p in "${started[@]}"; do
		kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null
	done
	cd /
	rm -rf "$dir"
}
trap at_exit EXIT
cd "$dir" || exit 1

ok() { # what, command...
	local what=$1
	shift
	if "$@" >ok.out 2>ok.err; then
		passed=$((passed + 1))
	else
		echo "FAIL: $what: $*" | cut -c 1-300
		head -12 ok.out ok.err
		failed=$((failed + 1))
	fi
}

# Start a server in the background: log file, command... Sets $pid and $url (of its TCP address).
serve() {
	local log=$1 i
	shift
	"$@" 2>"$log" &
	pid=$!
	started+=("$pid")
	for i in $(seq 1200); do
		url=$(sed -n 's/.* on \(https\{0,1\}:\/\/.*\)/\1/p' "$log" | head -1)
		[ -n "$url" ] && return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	echo "FAIL: the server did not begin: $*"
	cat "$log"
	failed=$((failed + 1))
	return 1
}

# The status that a request must have, a text that the answer must hold, what curl gets.
gets() {
	local want=$1 text=$2 got
	shift 2
	got=$(curl -gsS --max-time 20 --path-as-is -o body -w '%{http_code}' "$@" 2>curl.err)
	if [ "$got" = "$want" ] && { [ -z "$text" ] || grep -qF -- "$text" body; }; then
		passed=$((passed + 1))
	else
		echo "FAIL: got $got, want $want and '$text': $*" | cut -c 1-300
		head -c 300 body curl.err
		failed=$((failed + 1))
	fi
}

# As gets; the body must be the JSON that every refusal has.
refused() {
	gets "$@"
	ok "a clear body: $3" jq -e '.code and (.message | length > 3)' body
}

finish() {
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
	exit
}
