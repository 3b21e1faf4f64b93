# SPDX-License-Identifier: Apache-2.0
# What the tests of the server share; sourced, not run.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.bash"
export no_proxy='*' PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

# Start a server in the background: log file, command... Sets $pid and $url (of its TCP address).
serve() {
	local log=$1
	shift
	background "$@" 2>"$log"
	for _ in $(seq 1200); do
		url=$(sed -n 's/.* on \(https\{0,1\}:\/\/.*\)/\1/p' "$log" | head -1)
		[ -n "$url" ] && return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	bad "the server did not begin: $*"
	cat "$log"
	return 1
}

# Write secret tokens: a file NAME.token for each name.
make_tokens() {
	local name
	for name; do
		head -c 20 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >"$name.token"
		chmod 600 "$name.token"
	done
}

# The status that a request must have, a text that the answer must hold, what curl gets.
gets() {
	local want=$1 text=$2 got
	shift 2
	got=$(curl -gsS --max-time 20 --path-as-is -o body -w '%{http_code}' "$@" 2>curl.err)
	if [ "$got" = "$want" ] && { [ -z "$text" ] || grep -qF -- "$text" body; }; then
		good "$*"
	else
		bad "got $got, want $want and '$text': $*"
		head -c 300 body curl.err
	fi
}

# As gets; the body must be the JSON that every refusal has.
refused() {
	gets "$@"
	ok "a clear body: $3" jq -e '.code and (.message | length > 3)' body
}

# What `daemon --check-config` says of c.yaml: exit status, text.
checks() { # status, text
	"$ascribe" daemon -c c.yaml --check-config >out 2>err
	local got=$?
	if [ $got = "$1" ] && grep -qF -- "$2" err; then
		good "$2"
	else
		bad "exit $got, want $1 and '$2': $(cat err)"
	fi
}

# Find processes that a daemon's keeper has started: its pid, what pgrep is to look for.
kept() { pgrep -P "$(pgrep -P "$1" -x ascribe-keeper)" "${@:2}"; }
none_kept() { ! kept "$@"; }
