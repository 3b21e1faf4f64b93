#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One daemon stands by while another writes the store, as in an upgrade. It answers and is ready,
# and records as soon as the other ends, however that ends. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
cat >busy.c <<'C'
#include <stdio.h>
#include <time.h>
static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
int main(void)
{
	for (;;) {
		for (volatile int i = 0; i < 10000000; i++)
			;
		FILE *f = fopen("used.new", "w");
		fprintf(f, "%f\n", cpu_s());
		fclose(f);
		rename("used.new", "used");
	}
}
C
${CC:-cc} -O1 -o busy busy.c || bad "no busy program"
daemon() { # log, options: into the one store
	local log=$1
	shift
	serve "$log" "$ascribe" daemon -s "$dir/store" -F 499 -l 127.0.0.1:0 --anonymous "$@" ||
		finish
}
says_metric() { curl -gsS --max-time 20 "$1/metrics" | grep -qx "$2"; }

daemon first.log
first=$pid first_url=$url
ok "the first records" until_says ': recording ' first.log
timeout 20 "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 2>refused.log
ok "without --stand-by it is an error" test $? = 1
ok "that says why" grep -q 'being written by another process' refused.log
daemon second.log --stand-by
second=$pid second_url=$url
ok "the second stands by" until_says 'standing by' second.log
gets 200 ready "$second_url/readyz"
ok "its metrics say so" says_metric "$second_url" 'ascribe_standing_by 1'
ok "those of the first do not" says_metric "$first_url" 'ascribe_standing_by 0'
gets 200 '' "$second_url/api/v1/labels"
daemon third.log --stand-by
kill -TERM "$pid"
wait "$pid"
ok "who stands by ends when it is asked to" test $? = 0
# Ten seconds of work, from before the first ends until after the second has begun.
background ./busy
busy=$pid
sleep 5
kill -TERM "$first"
wait "$first"
ended=$EPOCHREALTIME
ok "the second records" until_says ': recording ' second.log
begun=$EPOCHREALTIME
gets 200 ready "$second_url/readyz"
ok "the second stands by no more" says_metric "$second_url" 'ascribe_standing_by 0'
sleep 5
kill "$busy"
wait "$busy"
daemon fourth.log --stand-by
fourth=$pid
ok "a fourth stands by" until_says 'standing by' fourth.log
kill -TERM "$second"
wait "$second"
ok "the fourth records" until_says ': recording ' fourth.log
daemon fifth.log --stand-by
fifth=$pid
kill -KILL "$fourth" # its last window is lost
ok "the fifth takes over from one that was killed" until_says ': recording ' fifth.log
kill -TERM "$fifth"
wait "$fifth"
"$ascribe" report store --where '{comm="busy"}' --json >busy.json
"$ascribe" stat store --json >stat.json
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
gap=$(jq -n --slurpfile r busy.json --argjson used "$(cat used)" \
	'$used - $r[0].seconds | . * 100 | round / 100')
echo "recording $(awk "BEGIN { print $begun - $ended }") s after the first's end"
ok "all but $gap s of the busy program's time was seen" jq -n -e "$gap > -1 and $gap < 3"
finish
