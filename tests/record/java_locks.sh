#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits for Java's locks, against what the program measured itself: how long it waited, who is the
# holder, in which function. A latch is no lock. As root.
. "$(dirname "$0")/lib.bash"
command -v javac >/dev/null || skip "no javac"
[ "$(uname -m)" = x86_64 ] || skip "only x86-64 code is walked"
ok "the program builds" javac -d . "$here/JavaLocks.java"

waits_of() { # kind, seconds
	ok "$1: recorded" "$ascribe" record -q -o "$1" --wall --waker -F 499 -- \
		sh -c "java -cp . JavaLocks $1 $2 >$1.log"
	"$ascribe" blame "$1" --locks --json -n 0 >"$1.json"
	report "$1" -e off-cpu --by wait_in,wait -n 0 >"$1.waits"
}
for of in "lock java lock" "write java lock" "monitor java monitor"; do
	name=${of%% *} kind=${of#* }
	waits_of "$name" 6
	check "$name: its waits are those that the program measured" b="$name.json" \
		truth="$name.log" -- \
		"0.7 < sum(x['seconds'] for x in b['locks'] if x['kind'] == '$kind') / (truth / 1e9) < 1.1" \
		"truth, [(x['kind'], x['is'], x['seconds']) for x in b['locks']][:9]"
	check "$name: who released it is the holder" b="$name.json" -- \
		"(lambda v: sum(x['seconds'] for x in v if x['is'] == 'holder') >
		0.9 * sum(x['seconds'] for x in v))([x for x in b['locks'] if x['kind'] == '$kind'])" \
		"[(x['kind'], x['is'], x['seconds']) for x in b['locks']][:9]"
	check "$name: in the program's function" r="$name.waits" -- \
		"(lambda v: sum(x['value'] for x in v if x['key']['wait_in'].startswith('void JavaLocks.turn(')) >
		0.8 * sum(x['value'] for x in v))([x for x in r['rows'] if x['key']['wait'] == 'lock'])" \
		"[(x['key'], x['value']) for x in r['rows']][:9]"
done
waits_of latch 4
check "a latch is no lock" b=latch.json truth=latch.log -- \
	"sum(x['seconds'] for x in b['locks'] if x['kind'] == 'java lock') < 0.02 * truth / 1e9" \
	"truth, [(x['kind'], x['is'], x['seconds']) for x in b['locks']][:9]"
finish
