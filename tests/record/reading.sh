#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A recording that is read while it is written: report after report, none fails, none has a wrong
# count.
. "$(dirname "$0")/lib.bash"
background "$ascribe" record -a -F 99 -d 25s -o live
recorder=$pid
cat >reading.py <<'PY'
import json, os, subprocess, sys, time
seen, reads = [(0, 0)], 0
deadline = time.time() + 60
def alive():
    try:
        return open('/proc/%s/stat' % sys.argv[2]).read().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False
last = False
while not last:
    assert time.time() < deadline
    last = not alive()
    for args in (['report', '--idle'], ['report', '--idle', '--by', 'comm,exe'], ['report', '--step', '10s', '--idle'], ['stat']):
        r = subprocess.run([sys.argv[1], args[0], 'live', *args[1:], '--json'], capture_output=True)
        text = r.stderr.decode()
        if r.returncode and seen == [(0, 0)] and any(t in text for t in ('not a store', 'no store', 'no such', 'No such')):
            continue  # it is not there yet
        assert r.returncode == 0, (args, text)
        d = json.loads(r.stdout)
        assert d['fired'] == d['stored'] + sum(d['lost'].values()), (args, d)
        if args[0] == 'stat':
            continue
        assert d['stored'] == d['samples'], (args, d['stored'], d['samples'])
        if 'series' in d:
            assert sum(p[1] for s in d['series'] for p in s['points']) == d['samples']
        elif 'key' in (d['rows'] or [{}])[0]:
            assert sum(x['samples'] for x in d['rows']) == d['samples']
        state = (d['windows'], d['fired'])
        assert state >= seen[-1], (seen[-1], state)
        if state != seen[-1]:
            seen.append(state)
        reads += 1
    time.sleep(0.1)
assert len(seen) >= 3, seen
print(reads, 'reads, (windows, fired):', *seen)
PY
ok "reports beside the recorder" python3 reading.py "$ascribe" "$recorder"
wait "$recorder"
ok "the recorder ended well" test $? = 0
report live >final.json
check "accounting" r=final.json -- 'r["fired"] == r["stored"] + sum(r["lost"].values()) and r["fired"] > 0'
finish
