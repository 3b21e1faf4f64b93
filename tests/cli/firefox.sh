#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `export --format firefox` of synthetic stores, held against the type definitions of the Firefox
# profiler's processed format, version 60 (src/types/profile.ts), and summed against report.
. "$(dirname "$0")/lib.bash"
for store in wide names; do
	"$build/tests/mkstore" $store $store >/dev/null || exit 1
done

cat >compare.py <<'PY'
import collections, decimal, json, subprocess, sys
ascribe, NS = sys.argv[1], 10101010
def run(*a):
    return subprocess.run([ascribe, *a], capture_output=True, check=True).stdout
def report(store, *more):
    return json.loads(run('report', store, '-n', '0', '--json', *more))['rows']
# The columns of each table; None or a table that their numbers point into, ? where null is well.
TABLES = {
    'stackTable': {'frame': 'frameTable', 'prefix': '?stackTable'},
    'frameTable': {'address': None, 'inlineDepth': None, 'category': 'category', 'subcategory': None,
                   'func': 'funcTable', 'nativeSymbol': '?nativeSymbols', 'innerWindowID': None,
                   'line': None, 'column': None},
    'funcTable': {'name': 'string', 'isJS': None, 'relevantForJS': None, 'resource': 'resourceTable',
                  'source': '?sources', 'lineNumber': None, 'columnNumber': None},
    'resourceTable': {'lib': None, 'name': 'string', 'host': '?string', 'type': None},
    'nativeSymbols': {'libIndex': None, 'address': None, 'name': 'string', 'functionSize': None},
    'sources': {'uuid': None, 'filename': 'string'},
}
THREAD = {'processType', 'processStartupTime', 'processShutdownTime', 'registerTime',
          'unregisterTime', 'pausedRanges', 'name', 'isMainThread', 'processName', 'pid', 'tid',
          'samples', 'markers'}
def load(store, *more):
    text = run('export', store, '--format', 'firefox', *more).decode()
    p = json.loads(text, parse_float=decimal.Decimal)
    shared = p['shared']
    assert set(p) == {'meta', 'libs', 'threads', 'shared'}
    assert p['meta']['preprocessedProfileVersion'] == 60 and p['meta']['categories'][4]['color'] == 'grey'
    assert set(shared) == {*TABLES, 'stringArray'}, set(shared)
    size = {t: shared[t]['length'] for t in TABLES}
    size |= {'string': len(shared['stringArray']), 'category': len(p['meta']['categories'])}
    for t, columns in TABLES.items():
        assert set(shared[t]) == {*columns, 'length'}, t
        for c, into in columns.items():
            v = shared[t][c]
            assert len(v) == size[t], (t, c, len(v))
            for n in v if into else ():
                assert (n is None and into[0] == '?') or 0 <= n < size[into.lstrip('?')], (t, c, n)
    assert all(q is None or q < i for i, q in enumerate(shared['stackTable']['prefix']))
    for t in p['threads']:
        assert set(t) == THREAD and isinstance(t['pid'], str), set(t) ^ THREAD
        s = t['samples']
        assert {len(s[c]) for c in ('stack', 'time', 'weight')} == {s['length']}
        assert s['time'] == sorted(s['time'])
        assert all(n is None or 0 <= n < size['stackTable'] for n in s['stack'])
    assert len({t['tid'] for t in p['threads']}) == len(p['threads'])
    return p
def leaf(p, stack):
    shared = p['shared']
    f = shared['frameTable']['func'][shared['stackTable']['frame'][stack]]
    return shared['stringArray'][shared['funcTable']['name'][f]]
for store in 'store', 'wide', 'names':
    p = load(store)
    threads, self = collections.Counter(), collections.Counter()
    for t in p['threads']:
        assert t['samples']['weightType'] == 'tracing-ms'
        for stack, w in zip(t['samples']['stack'], t['samples']['weight']):
            n, rest = divmod(w * 10**6, NS)
            assert rest == 0, w
            threads[t['processName'], t['name']] += int(n)
            self[leaf(p, stack)] += int(n)
    want = collections.Counter()
    for r in report(store, '--by', 'comm,thread', '--exact'):
        want[r['key']['comm'] or '(none)', r['key']['thread'] or '(none)'] += r['samples']
    assert threads == want, (threads, want)
    want = collections.Counter()
    for r in report(store):
        want[r['function'][:4095]] += r['self']
    assert +self == +want, (store, (self - want).most_common(2), (want - self).most_common(2))
    print(store, len(p['threads']), 'threads,', p['shared']['stackTable']['length'], 'stacks,',
          sum(threads.values()), 'samples', end='; ')
truth = json.load(open('truth.json'))
p = load('store', '--by', 'tenant', '--unit', 'samples')
assert {t['samples']['weightType'] for t in p['threads']} == {'samples'}
by = {t['name']: sum(t['samples']['weight']) for t in p['threads']}
assert by['a'] == truth['a'] and by['b'] == truth['b'] and by['(none)'] == truth['none'], by
p = load('store', '-e', 'page-faults')
assert sum(w for t in p['threads'] for w in t['samples']['weight']) == truth['faults']
p = load('empty')
assert [t['samples']['length'] for t in p['threads']] == [0]
PY
ok "the published types, and the sums of report" python3 compare.py "$ascribe"
exits 2 "--by is for" "$ascribe" export store --format pprof --by tenant
exits 2 'unknown label key "tenan"' "$ascribe" export store --format firefox --by tenan
exits 1 "No space left" sh -c "'$ascribe' export wide --format firefox >/dev/full"
finish
