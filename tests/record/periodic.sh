#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose period is that of the sampling, half of it, or twice as long: each of two functions
# gets the share of the samples that it has of the program's own CPU clock.
. "$(dirname "$0")/lib.bash"
share=0.3

# What, rate, length of the program's period in ns, seconds.
shares() {
	local what=$1 hz=$2 period=$3 seconds=$4
	background "$loads/periodic" "$period" $share "$(awk "BEGIN { print $seconds + 1 }")" 0 >load.json
	local load=$pid
	sleep 0.3
	record -F "$hz" -d "${seconds}s" -e cpu-clock -p "$load" -o "p$hz.$period"
	wait "$load"
	"$ascribe" stat "p$hz.$period" --json >stat.json
	report "p$hz.$period" --by function >report.json
	check "$what: the share of the first function" r=report.json l=load.json -- \
		"(lambda first, all, share: wilson(first, all, 3.3)[0] <= share <= wilson(first, all, 3.3)[1])(
			$first, $first + $second, l['first'] / (l['first'] + l['second']))" \
		"$first, $second, l['first'] / (l['first'] + l['second'])"
	check "$what: fired == stored + losses" s=stat.json -- "exact(s) and s['fired'] > 0"
}

# Samples of either function, what it called (the clock) included.
first="sum(n['samples'] for n in r['rows'] if n['function'] == 'first_part')"
second="sum(n['samples'] for n in r['rows'] if n['function'] == 'second_part')"

shares "999 Hz, the period of the clock" 999 1001001 4
shares "999 Hz, half of it" 999 500500 4
shares "999 Hz, twice as long" 999 2002002 4
shares "999 Hz, 2.5 kHz" 999 400000 4
shares "99 Hz, the period of the clock" 99 10101010 8
shares "99 Hz, half of it" 99 5050505 8
finish
