#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Python functions in which threads are blocked, and those that end their waits, against the
# program's own clock.
. "$(dirname "$0")/lib.bash"

python=
for p in python3.11 python3.12 python3.13 python3.14 python3.15 python3; do
	python=$(command -v $p) && "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 16))' && break
	python=
done
[ -n "$python" ] || skip "no CPython from 3.11 to 3.15 here"

cat >load.py <<'PY'
import json, sys, threading, time
lock, go = threading.Lock(), threading.Semaphore(0)
took = {}

def sleep_here():
    time.sleep(0.02)

def lock_here():
    with lock:
        pass

def called_back(x):
    time.sleep(0.02)
    return x

def through_c():
    sorted([1], key=called_back)

def deep(n):
    return deep(n - 1) if n else time.sleep(0.02)

def let_go():
    lock.release()

def holder():
    while True:
        go.acquire()
        time.sleep(0.02)
        let_go()

def timed(f, *args):
    begin = time.monotonic()
    f(*args)
    took[f.__name__] = took.get(f.__name__, 0) + time.monotonic() - begin

def stays():
    time.sleep(1000)

def main(end):
    while time.monotonic() < end:
        timed(sleep_here)
        lock.acquire()
        go.release()
        timed(lock_here)
        timed(through_c)
        timed(deep, 300)

sys.setrecursionlimit(2000)
time.sleep(1) # the recorder gets to know us
if len(sys.argv) > 1:
    for i in range(20): # apart, because a CPU takes only so many stacks of waits in a millisecond
        threading.Thread(target=stays, daemon=True).start()
        time.sleep(0.02)
    open(sys.argv[1], 'w').close()
    stays()
threading.Thread(target=holder, daemon=True).start()
main(time.monotonic() + 2)
print(json.dumps(took))
PY

# Blocked in a function: at most as long as it took, which has the time in the queue of its CPU,
# too.
blocked='all(0.5 * t[f] < s[f] < 1.01 * t[f] for f in t for s in [{x["function"]: x["seconds"] for x in r["rows"] if x["module"] == "[python]"}])'

record --wall --waker -F 99 -o store -- "$python" load.py
cp record.out truth.json
report store --metric off -n 0 >off.json
report store --metric waker -n 0 >waker.json
"$ascribe" stat store --json >stat.json
"$ascribe" export store --format folded --event off-cpu -o off.folded 2>/dev/null
check "blocked in each function as long as it took: asleep, for a lock, called back by C, 300 calls deep" r=off.json t=truth.json -- "$blocked" \
	'{x["function"]: round(x["seconds"], 3) for x in r["rows"] if x["function"] in t}, t'
check "who let go of the lock ended the wait for it" w=waker.json t=truth.json -- \
	'all(0.5 * t["lock_here"] < s["let_go"] < 1.01 * t["lock_here"] and s["holder"] >= s["let_go"]
	for s in [{x["function"]: x["seconds"] for x in w["rows"] if x["module"] == "[python]"}])'
ok "in their places among the native frames" \
	grep -qE ';<module>;main;timed;([^;<]*;)*sleep_here;[^<]*nanosleep' off.folded
ok "C is in between" grep -qE ';timed;([^;<]*;)*through_c;[^<]*(sort|[+]0x)[^<]*;called_back;[^<]*nanosleep' off.folded
check "all code is known" r=off.json -- 'not any(x["module"] == "[python]" and x["function"] == "[unknown]" for x in r["rows"])'
check "accounting" s=stat.json -- 'exact(s)'

# ---- a wait that is not over when recording ends ----
background "$ascribe" record --wall -a -F 99 -d 60s -o open 2>open.err
recorder=$pid
recording open.err
background "$python" load.py there
within 30 [ -e there ]
sleep 1
kill -INT "$recorder"
wait "$recorder"
"$ascribe" report open --metric off --where "{tgid=\"$pid\"}" -n 0 --json >off.json 2>/dev/null
# Whether a wait has its stack is decided when it begins: beside a busy neighbour some have none.
check "of waits that go on the function shows, too" r=off.json -- \
	'10 < sum(x["seconds"] for x in r["rows"] if x["function"] == "stays") <= r["seconds"]' 'r["seconds"]'

# ---- a thread that waited before recording began ----
background "$python" -c 'import time
time.sleep(60)'
sleep 1
record --wall -F 19 -d 3s -p "$pid" -o before
"$ascribe" stat before --json >stat.json
report before --metric off --idle --by wait -n 0 >off.json
check "has its time without user frames, and is counted" s=stat.json r=off.json -- \
	'exact(s) and 0 < s["flagged"]["wait_python"] <= s["flagged"]["wait_no_user_stack"] and 2 < r["seconds"] < 4' \
	's["flagged"]["wait_python"], r["seconds"]'
finish
