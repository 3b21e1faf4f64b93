# SPDX-License-Identifier: Apache-2.0
"""check.py NAME=FILE.json ... -- EXPRESSION [SHOW]: does EXPRESSION hold for the JSON in the files? SHOW is printed."""
import json
import sys

cut = sys.argv.index('--')
v = {}
for k, f in (a.split('=', 1) for a in sys.argv[1:cut]):
    try:
        v[k] = json.load(open(f))
    except (OSError, ValueError) as e:
        sys.exit(f'{f} is no JSON: {e}')


def rows(report):
    """{key or tuple of keys: row} of a report by labels; a single key without its tuple."""
    out = {}
    for r in report['rows']:
        key = tuple(r['key'].values()) if 'key' in r else (r['function'],)
        assert key not in out, key
        out[key if len(key) > 1 else key[0]] = r
    return out


def samples(report):
    return {k: r['samples'] for k, r in rows(report).items()}


def seconds(report):
    return {k: r['seconds'] for k, r in rows(report).items()}


def wilson(k, n, z):
    """Interval of a share by Wilson, at z standard deviations."""
    p, d = k / n, 1 + z * z / n
    mid, half = (p + z * z / (2 * n)) / d, z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5 / d
    return mid - half, mid + half


def exact(stat):
    """fired == stored + every loss, in total and on each CPU; the total is the sum of the CPUs."""
    for s in [stat] + stat['cpus']:
        if s['fired'] != s['stored'] + sum(s['lost'].values()):
            return False
    return all(stat[k] == sum(c[k] for c in stat['cpus']) for k in ('fired', 'stored'))


v.update(rows=rows, samples=samples, seconds=seconds, wilson=wilson, exact=exact, json=json)


def value(text):
    try:
        return eval('(' + text + ')', v)
    except Exception as e:  # a key that is not there, say: what the JSON holds is not what the test expects
        return e


if len(sys.argv) > cut + 2:
    print(value(sys.argv[cut + 2]))
holds = value(sys.argv[cut + 1])
if isinstance(holds, Exception):
    print(repr(holds))
if not holds or isinstance(holds, Exception):
    sys.exit('not so: ' + ' '.join(sys.argv[cut + 1].split()))
