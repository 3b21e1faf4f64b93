#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that hang: in which function, though no stack was taken when their wait began. A few of
# each window are looked at, those that began first; what was found is kept, so that the next
# windows look at others. On a busy host the program's file may not be read yet when the first
# window ends: functions are judged from the second window on.
. "$(dirname "$0")/lib.bash"
background "$loads/hangs" 60
program=$pid
sleep 1
record --wall --waker -F 19 -d 25s -p "$program" -o hangs
"$ascribe" stat hangs --json >stat.json
# Windows end at each ten seconds of the clock, or a little later; one that overlaps a range is in
# it.
second="--from $(jq '(.from / 10 | floor) * 10 + 15' stat.json)"
# shellcheck disable=SC2086
report hangs --metric off --idle --by thread,wait_in,wait -n 0 $second >by.json
report hangs --metric off --idle --by thread,wait_in,wait -n 0 >all.json
report hangs --metric off --idle --by thread -n 0 >thread.json
"$ascribe" blame hangs --wakers -n 0 --json >wakers.json 2>/dev/null
# The part of a thread's time that is in this function, for this reason.
of="sum(x['seconds'] for x in r['rows'] if x['key']['thread'] == t"
part="(lambda t, f, w: $of and (x['key']['wait_in'], x['key']['wait']) == (f, w)) / $of))"
check "every wait is accounted for" s=stat.json -- 'exact(s)' 's["flagged"]["wait_no_user_stack"]'
check "what hung before the recording began, by its own functions" r=by.json -- \
	"$part('early', 'hang_early', 'pipe') > 0.99 and $part('locked', 'hang_locked', 'lock') > 0.99" \
	'[(list(x["key"].values()), round(x["seconds"], 2)) for x in r["rows"]]'
check "one waits for work" r=by.json -- "$part('worker', 'await_work', 'idle') > 0.99"
check "windows after the first were read" r=by.json a=all.json -- \
	'0 < r["windows"] == a["windows"] - 1' 'r["windows"], a["windows"]'
check "what hangs where it never waited for long, but for the first part" r=by.json -- \
	"$part('late', 'hang_late', 'pipe') > 0.5" "$part('late', 'hang_late', 'pipe')"
check "of twenty, thirteen in the second window at the latest, the others later" r=by.json -- \
	"$part('many', 'hang_many', 'pipe') > 0.5" "$part('many', 'hang_many', 'pipe')"
check "seven are not looked at in the first window" r=all.json -- \
	"$part('many', 'hang_many', 'pipe') < 0.99" "$part('many', 'hang_many', 'pipe')"
check "the others are counted" s=stat.json -- '7 <= s["flagged"]["wait_no_user_stack"] <= 60'
check "the wait for work is idle by wakers, too" w=wakers.json r=thread.json -- \
	'abs(w["idle_waits"] / 1e9 - rows(r)["worker"]["seconds"]) < 0.1' 'w["idle_waits"]'
kill "$program"
finish
