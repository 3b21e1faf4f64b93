# SPDX-License-Identifier: Apache-2.0
"""top.py ratio SCREEN: has label a three times the samples of b, as the load sees to?
top.py crash TGID: a fault in a thread that is not the first."""
import ctypes
import os
import re
import sys


def threads(tgid):
    return sorted(int(t) for t in os.listdir(f'/proc/{tgid}/task'))


def samples(path):
    """{value: samples} of the rows under the line of column names."""
    rows, head = {}, False
    for line in open(path, encoding='utf-8'):
        head |= 'CPU%' in line
        m = re.match(r'\s*[0-9.]+\s.*% +([0-9]+) .*\s(a|b)\s*$', line)
        if head and m:
            rows[m[2]] = int(m[1])
    return rows


def ratio(path):
    n = samples(path)
    got, all_of_it = n['a'] / (n['a'] + n['b']), n['a'] + n['b']
    print(f'a has {got:.3f} of {all_of_it} samples')
    # Four standard deviations.
    return all_of_it > 10 and abs(got - 0.75) < 4 * (0.75 * 0.25 / all_of_it) ** 0.5


def crash(tgid):
    tid = threads(tgid)[-1]
    assert tid != tgid
    return ctypes.CDLL(None, use_errno=True).syscall(234, tgid, tid, 11) == 0  # tgkill


command = {'ratio': ratio, 'crash': lambda tgid: crash(int(tgid))}[sys.argv[1]]
sys.exit(not command(sys.argv[2]))
