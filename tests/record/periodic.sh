#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose period is that of the sampling, half of it, or twice as long. Each of two functions
# gets the share of the samples that it has of the program's own CPU clock.
. "$(dirname "$0")/lib.bash"
share=0.3

# Record a program at a rate for some seconds: rate, length of the program's period in ns, seconds,
# CPU.
record_one() {
	local store=p$1.$2
	"$loads/periodic" "$2" $share "$(awk "BEGIN { print $3 + 1 }")" "$4" >"$store.load" &
	sleep 0.3
	"$ascribe" record -q -F "$1" -d "${3}s" -e cpu-clock -p $! -o "$store" >"$store.out" 2>&1
	wait
}

# What, rate, length of the period.
judge() {
	local store=p$2.$3
	"$ascribe" stat "$store" --json >stat.json
	report "$store" --by function >report.json
	check "$2 Hz, $1: the share of the first function" r=report.json l="$store.load" -- \
		"(lambda first, all, share: wilson(first, all, 3.3)[0] <= share <= wilson(first, all, 3.3)[1])(
			$first, $first + $second, l['first'] / (l['first'] + l['second']))" \
		"$first, $second, l['first'] / (l['first'] + l['second'])"
	check "$2 Hz, $1: fired == stored + losses" s=stat.json -- "exact(s) and s['fired'] > 0"
}

# Two programs at the same time, on a CPU each: rate, seconds, then what and the length of the
# period of each.
pair() {
	local first_one
	background record_one "$1" "$4" "$2" 0
	first_one=$pid
	background record_one "$1" "$6" "$2" $(($(nproc) - 1))
	wait "$first_one" "$pid"
	judge "$3" "$1" "$4"
	judge "$5" "$1" "$6"
}

# Samples of either function, what it called (the clock) included.
first="sum(n['samples'] for n in r['rows'] if n['function'] == 'first_part')"
second="sum(n['samples'] for n in r['rows'] if n['function'] == 'second_part')"

pair 999 "$(in_part 2.5 4)" "the period of the clock" 1001001 "half of it" 500500
pair 999 "$(in_part 2.5 4)" "twice as long" 2002002 "2.5 kHz" 400000
pair 99 "$(in_part 6 8)" "the period of the clock" 10101010 "half of it" 5050505
finish
