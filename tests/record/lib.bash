# SPDX-License-Identifier: Apache-2.0
# What the tests of real recordings share; sourced, not run. $ascribe, $loads: what was built. The working directory is
# a fresh one. A test says what it saw with ok, exits and check, and ends with `finish`.
set -u
build=$(realpath "${BUILD:-build}")
ascribe=$build/ascribe
loads=$build/tests/record
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source_root=$(realpath "$here/../..")
name=$(basename "$0")
dir=$(mktemp -d)
passed=0 failed=0
started=() failures=()
export TZ=UTC HOME=$dir PPROF_TMPDIR=$dir
PATH=$PATH:/usr/sbin:/sbin

skip() {
	echo "$name: $*"
	exit 77
}

at_exit() {
	local p
	for p in "${started[@]}"; do
		kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null
	done
	[ -z "${at_end:-}" ] || $at_end
	cd /
	rm -rf "$dir"
}
trap at_exit EXIT
cd "$dir" || exit 1

good() {
	passed=$((passed + 1))
	echo "ok    $*"
}

bad() {
	failed=$((failed + 1))
	failures+=("$*")
	echo "FAIL  $*"
}

# what, command...: must succeed. What the command prints is shown.
ok() {
	local what=$1
	shift
	if "$@" >out 2>err; then
		good "$what$(sed -n '1s/^/: /p' out)"
	else
		bad "$what: $*"
		head -12 out err
	fi
}

# Exit status, a pattern that stderr must match, command... What it said stays in the file `said`.
exits() {
	local want=$1 text=$2 got
	shift 2
	timeout 60 "$@" >out 2>err </dev/null
	got=$?
	cp err said
	if [ $got = "$want" ] && { [ -z "$text" ] || grep -qE -- "$text" err; }; then
		good "exit $got: ${*//$ascribe/ascribe}: $(grep -E -m 1 -- "$text" err | cut -c 1-160)"
	else
		bad "exit $got, want $want and /$text/: $*"
		head -5 err
	fi
}

# A condition in Python over the JSON files named before it: check "what" a=a.json b=b.json -- 'expression', values to show
check() {
	local what=$1
	shift
	ok "$what" python3 "$here/check.py" "$@"
}

record() { # a recording that must succeed
	"$ascribe" record "$@" >record.out 2>record.err || {
		bad "record $*"
		cat record.err
		return 1
	}
}

report() { "$ascribe" report "$@" --json 2>/dev/null; }

# In the background, to be ended at the latest with the test: $pid.
background() {
	"$@" &
	pid=$!
	started+=("$pid")
}

# Wait until a recorder in the background says that it records: its stderr file, at most 20 s.
recording() {
	local i
	for i in $(seq 400); do
		grep -q '^ascribe: recording' "$1" && return
		sleep 0.05
	done
	bad "the recorder did not begin: $(cat "$1")"
	return 1
}

finish() {
	local f
	for f in "${failures[@]}"; do # again: tools/test shows the end
		echo "FAILED: $f"
	done
	echo "$passed passed, $failed failed"
	[ $failed = 0 ] && [ $passed -gt 0 ]
	exit
}

[ "$(id -u)" = 0 ] || skip "recording needs root"
"$ascribe" record -q -d 100ms -o probe >/dev/null 2>probe.err || skip "no recording here: $(tail -1 probe.err)"
rm -rf probe
