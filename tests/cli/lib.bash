# SPDX-License-Identifier: Apache-2.0
# What the tests of the reading commands share; sourced, not run. The stores `store` (truth.json
# says what is in it) and `empty` are there; $ascribe is where other users may run it, too.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.bash"
chmod 755 "$dir"
cp "$build/ascribe" ascribe
chmod 755 ascribe
ascribe=$dir/ascribe

# The exit status, and a text that stderr must hold, over its lines.
exits() { # status, text, command...
	local want=$1 text=$2 got
	shift 2
	timeout 60 "$@" >out 2>err </dev/null
	got=$?
	if [ $got = "$want" ] && { [ -z "$text" ] || [[ "$(cat err)" == *"$text"* ]]; }; then
		good "$*"
	else
		bad "exit $got, want $want and '$text': $*"
		head -3 err
	fi
}

"$build/tests/mkstore" store >truth.json || exit 1
"$build/tests/mkstore" empty empty >/dev/null || exit 1
