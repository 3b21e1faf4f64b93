# SPDX-License-Identifier: Apache-2.0
# A ClickHouse for a test (tests/tools/clickhouse), and pushes to it; sourced behind lib.bash.
# shellcheck disable=SC2034,SC2154 # variables of lib.bash, and for scripts
root=$here/../..
needs_engine() {
	ls "$root"/build/npm/clickhouse/node_modules/@chdb/*/libchdb.so >/dev/null 2>&1 ||
		skip "no chdb: its package could not be fetched"
}
tables='ascribe_samples ascribe_samples_1m ascribe_samples_1h ascribe_samples_1d ascribe_sets
	ascribe_windows'

# A server in the directory $1: sets $url and $server. Again in the same directory: the same port.
engine() {
	local port=
	mkdir -p "$1"
	[ -e "$1/port" ] && port=$(cat "$1/port") && rm "$1/port"
	background python3 "$root/tests/tools/clickhouse/server.py" "$1" $port 2>"$1.log"
	server=$pid
	within 60 test -e "$1/port" || bad "no engine: $(tail -3 "$1.log")"
	url=http://127.0.0.1:$(cat "$1/port")/
}
ask() { curl -sS --max-time 60 "$url" --data-binary "$1"; }
# Exit status, a pattern for stderr, arguments of push. What it said stays in `said`.
pushes() {
	local want=$1 text=$2 got
	shift 2
	timeout 600 "$ascribe" push --format clickhouse "$@" >out 2>said
	got=$?
	if [ $got = "$want" ] && grep -qE -- "$text" said; then
		good "exit $got: push $*: $(grep -E -m 1 -- "$text" said | cut -c 1-150)"
	else
		bad "exit $got, want $want and /$text/: push $*: $(head -3 said)"
	fi
}
# Tables without an end: the stores of these tests are old.
make_tables() {
	pushes 0 'sent: 0 windows' store "$url" --create-tables --from 2030-01-01 --cursor nowhere
	rm -f nowhere
	for t in $tables; do
		ask "ALTER TABLE $t REMOVE TTL" >out || bad "no TTL to remove of $t"
	done
}
# Statements of a file, one at a time, with parameters of the URL.
run_file() { # file, ?param_...
	local statement
	while IFS= read -r -d ';' statement; do
		curl -sS --max-time 60 "$url$2" --data-binary "$statement"
	done < <(sed 's/^--.*//' "$1")
}
mend_sums() { # days...
	local day
	for day; do
		run_file "$root/deploy/clickhouse/mend-sums.sql" \
			"$(case $url in *\?*) echo '&' ;; *) echo '?' ;; esac)param_day=$day"
	done
}
