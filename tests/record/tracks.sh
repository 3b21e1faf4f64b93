#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tracks: when samples were taken. A program is busy in bursts and logs them itself; ranges of a
# quarter of a second must have the samples that its log says, and together all of them. As root.
. "$(dirname "$0")/lib.bash"

# A name of its own: other tests run the program at the same time.
cp "$loads/bursts" bursts_track
background ./bursts_track 120 7 >bursts.log
background "$loads/busy" 120
record --tracks -F 199 -d 12s -o tracked || finish
kill "${started[@]}"
record -F 199 -d 1s -o plain || finish
ok "the store is whole" "$ascribe" store verify tracked
ok "without tracks there are none" test ! -e plain/trk

cat >judge.py <<'PY'
import datetime, json, subprocess, sys
ascribe, store = sys.argv[1:3]
def at(ns):
    t = datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc)
    return t.strftime('%Y-%m-%dT%H:%M:%S.') + '%09dZ' % (ns % 10**9)
def ask(*more, where='{comm="bursts_track"}'):
    a = [ascribe, 'report', store, '--json', '--idle', '--where', where, *more]
    return json.loads(subprocess.run(a, capture_output=True, check=True).stdout)
bursts = [tuple(map(int, l.split())) for l in open('bursts.log')]
whole = ask()
begin, end = whole['from'], whole['to']
begin, end = int(begin * 1e9) - 10**6, int(end * 1e9) + 10**6
STEP, SLACK = 250 * 10**6, 10**7
edges = list(range(begin, end, STEP)) + [end]
seen, wrong, far, hits = 0, [], [], 0
for a, b in zip(edges, edges[1:]):
    r = ask('--from', at(a), '--to', at(b))
    n = r['samples']
    seen += n
    want = sum(cpu * max(0, min(b, e) - max(a, s)) / (e - s) for s, e, cpu, *_ in bursts) * 199 / 1e9
    near = any(s - SLACK < b and e + SLACK > a for s, e, *_ in bursts)
    if n and not near:
        wrong.append((a, n))
    if abs(n - want) > 6 + 4 * want ** .5:
        far.append((a, n, round(want, 1)))
    hits += n > 0
print(whole['samples'], 'samples in', len(edges) - 1, 'ranges,', hits, 'of them busy')
assert whole['samples'] > 60, whole['samples']
assert seen == whole['samples'], (seen, whole['samples'])
# It runs a little around its bursts, to log them: later, where others have the CPU.
assert sum(n for _, n in wrong) <= 2, ('samples while it slept', wrong)
assert len(far) <= (len(edges) - 1) // 20, far
all_ = ask(where='')
parts = sum(ask('--from', at(a), '--to', at(b), where='')['samples']
            for a, b in zip(edges[::8] , edges[8::8] + [end]))
assert parts == all_['samples'], (parts, all_['samples'])
PY
ok "each quarter of a second has the samples that the program's log says" \
	python3 -S judge.py "$ascribe" tracked

# ---- nothing is lost for it, and what finds no room is counted ----
"$ascribe" stat tracked --json >stat.json
check "no instant is missing" stat=stat.json -- \
	'stat["flagged"]["instants_full"] == 0'

# ---- damage ----
cp -r tracked damaged
file=$(find damaged/trk -name '*.trk' | head -1)
printf '\xff\xff\xff\xff' | dd of="$file" bs=1 seek=100 conv=notrunc status=none
exits 1 '' "$ascribe" store verify damaged
ok "verify names the file" grep -q "damaged/trk/.*no whole track" out
exits 0 '' "$ascribe" report damaged --json
exits 0 '' "$ascribe" store repair damaged
ok "repair removes the file" test ! -e "$file"
ok "and what is left is whole" "$ascribe" store verify damaged
finish
