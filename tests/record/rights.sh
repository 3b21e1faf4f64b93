#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The capabilities of `record` and `top`, called as root: one is left, for directories of others.
# The command that is recorded keeps all of its caller.
. "$(dirname "$0")/lib.bash"
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
override=0000000000000002 # CAP_DAC_OVERRIDE

has_override_alone() { # the process that records
	local set
	for set in CapPrm CapEff CapBnd; do
		[ "$(field "$1" $set)" = $override ] || return 1
	done
	[ "$(field "$1" NoNewPrivs)" = 1 ]
}

mkdir -m 700 theirs
chown 12345:12345 theirs
background "$ascribe" record -a -F 99 -o theirs/store 2>theirs.err
recording theirs.err
ok "record has CAP_DAC_OVERRIDE alone" within 10 has_override_alone "$pid"
"$loads/busy" spin 1 >/dev/null
kill -INT "$pid"
wait "$pid"
ok "it writes into a directory of another user" test $? = 0
"$ascribe" stat theirs/store --json >s.json
check "every sample is accounted for" s=s.json -- 'exact(s) and s["stored"] > 0' 's["stored"]'
record -q -o command -- sh -c 'grep Cap /proc/self/status >caps'
ok "the command has its caller's" cmp caps <(grep Cap /proc/self/status)

background "$ascribe" top --once --seconds 5 >top.out 2>top.err
recorder=$pid
ok "top has it alone, too" within 10 has_override_alone "$recorder"
nice() { awk '{ print $19 }' "/proc/$recorder/task/"*/stat | sort -n | paste -sd ' '; }
ok "its recorder goes before others, its screen does not: $(nice)" test "$(nice)" = '-20 0'
wait "$recorder"
ok "it shows what it recorded" test $? = 0
finish
