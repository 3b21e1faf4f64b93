#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 2,000 short processes a second, for 5 s (STORM_SECONDS): who each of them was, against the
# kernel's own tracepoints sched_process_exec and sched_process_exit, read through tracefs. Then the
# same for 3 s, and who of them is still held for alive.
. "$(dirname "$0")/lib.bash"
tracing=/sys/kernel/tracing
[ -d $tracing/events/sched/sched_process_exec ] || mount -t tracefs tracefs $tracing 2>/dev/null
[ -d $tracing/instances ] || skip "no tracefs here: nothing to compare with"
trace=$tracing/instances/ascribe_storm.$$
mkdir "$trace" || skip "tracefs gives no instance of its own"
at_end='end_trace'
end_trace() { rmdir "$trace" 2>/dev/null; }
echo 32768 >"$trace/buffer_size_kb"
for e in exec exit; do echo 1 >"$trace/events/sched/sched_process_$e/enable"; done
cp "$loads/storm" storm

take_events() { # file: what the kernel saw since the last time
	local lost
	echo 0 >"$trace/tracing_on"
	cat "$trace/trace" >"$1"
	echo >"$trace/trace"
	echo 1 >"$trace/tracing_on"
	lost=$(sed -n 's/^# entries-in-buffer\/entries-written: \([0-9]*\)\/\([0-9]*\).*/\1 \2/p' "$1" | awk '{ print $2 - $1 }')
	ok "the kernel's list is whole" [ "${lost:-1}" = 0 ]
}

record --wall -F 499 -o store -- "$PWD/storm" launch 2000 "${STORM_SECONDS:-5}"
cp record.out truth.json
take_events events.txt
"$ascribe" report store --metric wall --idle --by tgid,comm,exe -n 0 --json >who.json 2>/dev/null
"$ascribe" report store --metric cpu --by comm,exe -n 0 --json >cpu.json 2>/dev/null
"$ascribe" stat store --json >stat.json
ok "every process is what the kernel says that it was" python3 - "$PWD" <<'PY'
import collections, json, re, sys
here = sys.argv[1]
became, ended = {}, set()
for line in open('events.txt'):
    m = re.search(r'sched_process_exec: filename=(\S+) pid=(\d+)', line)
    if m and m[1].startswith('./p_'):
        became[int(m[2])] = here + m[1][1:]
    m = re.search(r'sched_process_exit: comm=p_\d pid=(\d+)', line)
    if m:
        ended.add(int(m[1]))
truth = json.load(open('truth.json'))
print(f'{truth["processes"]} started, {len(became)} seen by the kernel, {len(ended)} exits')
assert len(became) >= 0.999 * truth['processes'] and set(became) <= ended # but for a number that came again
wrong, right, unnamed = [], set(), set()
for row in json.load(open('who.json'))['rows']:
    tgid, comm, exe = (row['key'][k] for k in ('tgid', 'comm', 'exe'))
    path = became.get(int(tgid)) if tgid else None
    if not path:
        if comm and comm.startswith('p_'):
            wrong.append((tgid, comm, exe, 'no such exec'))
        continue
    if (comm, exe) == (path.rsplit('/', 1)[1], path):
        right.add(int(tgid))
    elif exe is None:
        unnamed.add(int(tgid))
    elif (comm, exe) != ('storm', here + '/storm'): # between vfork and exec
        wrong.append((tgid, comm, exe, path))
# Who ran at once, and never waited again, has no rows at all.
print(f'{len(right)} right, {len(unnamed)} with rows without a path, {len(wrong)} wrong: {wrong[:5]}')
assert not wrong and len(right) >= 0.2 * len(became) and len(unnamed) <= 0.05 * (len(right) + len(unnamed))
PY
check "their CPU time is what the kernel charged them, within 8%" r=cpu.json t=truth.json -- \
	'(lambda own, all: own < 1.08 * t["seconds"] and all > 0.92 * t["seconds"])(
	sum(x["seconds"] for x in r["rows"] if (x["key"]["comm"] or "").startswith("p_")), r["seconds"])' \
	'[(x["key"], round(x["seconds"], 2)) for x in r["rows"][:3]], t["seconds"]'
check "accounting" s=stat.json -- 'exact(s) and s["lost"]["wait_untracked"] == 0' \
	's["fired"], {k: n for k, n in s["lost"].items() if n}'

# ---- nobody stays who ended ----
background "$build/tests/images" held 5 >images.json 2>images.err
images=$pid
recording images.err
./storm launch 2000 3 >launched.json
wait "$images"
take_events events.txt
ok "images of processes that ended" python3 - <<'PY'
import json, re
images, truth = (json.load(open(f)) for f in ('images.json', 'launched.json'))
ended = {int(n) for n in re.findall(r'sched_process_exit: comm=p_\d pid=(\d+)', open('events.txt').read())}
left = ended & set(images['alive'])
print(f'{len(ended)} exits, {images["images"]} images, {len(left)} held for alive, {images["ended_stay"]} stay')
assert len(ended) >= 0.999 * truth['processes'] and images['images'] > len(ended)
assert not left and not images['ended_stay']
PY
finish
