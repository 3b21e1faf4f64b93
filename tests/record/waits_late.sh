#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Labels that a reader of /proc answers late: waits without a stack wait for them, as samples do.
# The readers stand still while a new program's first rows are drained.
. "$(dirname "$0")/lib.bash"
cp "$(realpath "$(command -v bash)")" sleeper
mkfifo nothing
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
[ -r "/proc/$$/task/$$/children" ] || skip "this kernel does not tell a process's children"
printf 'recipe late\nenv ASCRIBE_TEST_TEAM as team\n' >late.recipe

background "$ascribe" record -a --wall --waker -F 99 --recipes late.recipe -o late 2>late.err
recorder=$pid
recording late.err
nursery=$(pgrep -P "$(pgrep -P "$recorder" -x ascribe-keeper)" -x ascribe-nursery)
[ -n "$nursery" ] || bad "no nursery"
# For less than a second: then another nursery would take its place.
kill -STOP "$nursery"
for i in $(children "$nursery"); do kill -STOP "$i"; done
# It runs until its labels have been read: an end of the process would be an end of its environment.
ASCRIBE_TEST_TEAM=storage background ./sleeper -c 'exec 9<>nothing; while :; do read -t 0.0005 -u 9; done'
program=$pid
sleep 0.35
kill -INT "$recorder" # takes the last rows now, and waits 2 s for names and labels
sleep 0.4
for i in "$nursery" $(children "$nursery"); do kill -CONT "$i" 2>/dev/null; done
wait "$recorder"
kill "$program" 2>/dev/null

selector='{exe=~".*/sleeper"}'
for metric in off runq; do
	report late --metric $metric --idle --by team --where "$selector" -n 0 >$metric.json
	check "$metric: all time has the label, most of it of waits without a stack" r=$metric.json -- \
		'{*rows(r)} == {"storage"}' '{k: round(x["seconds"], 4) for k, x in rows(r).items()}'
done
report late --event off-cpu.lengths --by team --where "$selector" -n 0 >lengths.json
check "so have their lengths" r=lengths.json -- '{*rows(r)} == {"storage"}' 'samples(r)'
"$ascribe" blame late --wakers --idle --by team --where "$selector" -n 0 --json >blame.json \
	2>/dev/null
check "and who woke it" r=blame.json -- 'r["cells"] and all(c["victim"] == "storage" for c in r["cells"])' \
	'[(c["victim"], c["occupant"], c.get("nobody"), round(c["seconds"], 3)) for c in r["cells"]]'
"$ascribe" stat late --json >stat.json
check "every wait is accounted for" s=stat.json -- 'exact(s)' \
	's["fired"], s["flagged"]["labels_late"]'
finish
