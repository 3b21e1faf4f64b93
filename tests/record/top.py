# SPDX-License-Identifier: Apache-2.0
"""top.py clocks TGID: {thread name: CPU seconds}, as the kernel counts them.
top.py compare BEFORE AFTER SCREEN|top.json: are the shares of labels a and b those of the threads a and b in between?
top.py crash TGID: a fault in a thread that is not the first."""
import ctypes
import json
import os
import re
import sys


def threads(tgid):
    return sorted(int(t) for t in os.listdir(f'/proc/{tgid}/task'))


def clocks(tgid):
    out = {}
    for tid in threads(tgid):
        name = open(f'/proc/{tgid}/task/{tid}/comm').read().strip()
        out[name] = int(open(f'/proc/{tgid}/task/{tid}/schedstat').read().split()[0]) / 1e9
    return out


def screen(path):
    """{value: CPU percent} of the rows under the line of column names."""
    rows, head = {}, False
    for line in open(path, encoding='utf-8'):
        head |= 'CPU%' in line
        m = re.match(r'\s*([0-9.]+)\s.*\s(a|b)\s*$', line)
        if head and m:
            rows[m[2]] = float(m[1]) / 100
    return rows


def measured(path):
    if path.endswith('.json'):
        return {r['key']['tenant']: r['rate'] for r in json.load(open(path))['rows']}
    return screen(path)


def compare(before, after, path):
    clock = {k: json.load(open(after))[k] - json.load(open(before))[k] for k in 'ab'}
    seen = measured(path)
    want, got = clock['a'] / sum(clock.values()), seen['a'] / (seen['a'] + seen['b'])
    print(f'a has {got:.3f} of a and b, by their clocks {want:.3f}; {100 * (seen["a"] + seen["b"]):.1f}% CPU')
    # Seconds that are not quite the same, and some hundred samples.
    return abs(want - got) < 0.15


def crash(tgid):
    tid = threads(tgid)[-1]
    assert tid != tgid
    return ctypes.CDLL(None, use_errno=True).syscall(234, tgid, tid, 11) == 0  # tgkill


if sys.argv[1] == 'clocks':
    print(json.dumps(clocks(int(sys.argv[2]))))
elif sys.argv[1] == 'compare':
    sys.exit(not compare(*sys.argv[2:5]))
else:
    sys.exit(not crash(int(sys.argv[2])))
