# SPDX-License-Identifier: Apache-2.0
# What the tests of the reading commands share; sourced, not run. The working directory is a fresh one with the stores `store`
# (truth.json says what is in it) and `empty`; $ascribe is where other users may run it, too. A test ends with `finish`.
set -u
build=$(realpath "${BUILD:-build}")
name=$(basename "$0")
dir=$(mktemp -d)
chmod 755 "$dir"
trap 'rm -rf "$dir"' EXIT
export TZ=UTC PPROF_TMPDIR=$dir HOME=$dir
cd "$dir" || exit 1
cp "$build/ascribe" ascribe
chmod 755 ascribe
ascribe=$dir/ascribe
failed=0 passed=0

ok() { # what, command...
	local what=$1
	shift
	if "$@" >ok.out 2>ok.err; then
		passed=$((passed + 1))
	else
		echo "FAIL: $what: $*"
		head -5 ok.out ok.err
		failed=$((failed + 1))
	fi
}

# The exit status, and a text that stderr must hold, over its lines.
exits() { # status, text, command...
	local want=$1 text=$2 got
	shift 2
	timeout 60 "$@" >out 2>err </dev/null
	got=$?
	if [ $got = "$want" ] && { [ -z "$text" ] || [[ "$(cat err)" == *"$text"* ]]; }; then
		passed=$((passed + 1))
	else
		echo "FAIL: exit $got, want $want and '$text': $*"
		head -3 err
		failed=$((failed + 1))
	fi
}

finish() {
	echo "$name: $passed passed, $failed failed"
	[ $failed = 0 ]
	exit
}

"$build/tests/mkstore" store >truth.json || exit 1
"$build/tests/mkstore" empty empty >/dev/null || exit 1
