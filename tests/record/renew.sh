#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A recorder whose store begins a new file after each window: every id is made anew, every name
# stays right.
. "$(dirname "$0")/lib.bash"
background "$loads/busy" spin 12 >/dev/null
cat >loop.py <<'PY'
def turn_here():
    x = 0
    while True:
        x += 1
turn_here()
PY
background /usr/bin/python3 loop.py
"$build/tests/renew" data 8 2>said || bad "renew: $(cat said)"
files=$(find data/seg -name '10s-*.seg' | wc -l)
if [ "$files" -ge 4 ]; then good "$files files of windows"; else bad "$files files of windows"; fi
cat >windows.py <<'PY'
import json, subprocess, sys
def ask(*args):
    return json.loads(subprocess.run([sys.argv[1], *args, '--json'], check=True, capture_output=True).stdout)
whole = ask('report', 'data')
assert whole['event'] == 'cpu-clock' and whole['lost']['user_memory'] == 0
assert whole['fired'] == whole['stored'] + sum(whole['lost'].values())
n = seen = python = 0
start = int(whole['from']) + 1
for at in range(start, start + 7):
    d = ask('report', 'data', '--from', str(at), '--to', str(at + 1), '--where', '{comm="busy"}')
    p = ask('report', 'data', '--from', str(at), '--to', str(at + 1), '--where', '{comm="python3"}')
    rows = {(r['function'], r['module']) for r in p['rows']}
    # On a busy host the first windows end before a file was read; from then on names stay.
    if p['samples'] and (python or ('turn_here', '[python]') in rows):
        assert ('turn_here', '[python]') in rows, (at, rows)
        python += 1
    if not d['samples']:
        continue  # other programs ran
    rows = {(r['function'], r['module'].rsplit('/', 1)[-1]) for r in d['rows']}
    if not seen and ('spin_here', 'busy') not in rows:
        continue
    assert ('spin_here', 'busy') in rows and ('main', 'busy') in rows, (at, rows)
    assert not any(r['function'].startswith('[unknown]') for r in d['rows']), (at, rows)
    n += d['samples']
    seen += 1
assert seen >= 3 and python >= 3
print(f'spin_here in each of {seen} windows, {n} samples; turn_here in each of {python}')
PY
ok "names of each window" python3 windows.py "$ascribe"
ok "the store is whole" "$ascribe" store verify data
finish
