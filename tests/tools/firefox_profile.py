# SPDX-License-Identifier: Apache-2.0
"""Firefox profiles, held against the type definitions of the profiler's processed format, version
60 (src/types/profile.ts)."""
import decimal
import json

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

def load(text):
    """The profile; an AssertionError where it is none."""
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
        m = t['markers']
        assert set(m) == {'length', 'data', 'name', 'startTime', 'endTime', 'phase', 'category'}
        assert all(len(v) == m['length'] for k, v in m.items() if k != 'length')
        assert all(0 <= n < size['string'] for n in m['name'])
        assert all(0 <= n < size['category'] for n in m['category']) and set(m['phase']) <= {1}
        assert all(b <= e for b, e in zip(m['startTime'], m['endTime']))
        schemas = {x['name'] for x in p['meta']['markerSchema']}
        assert all(d['type'] in schemas for d in m['data'])
        assert all(0 <= d['cause']['stack'] < size['stackTable'] for d in m['data'] if 'cause' in d)
    assert len({(t['pid'], t['tid']) for t in p['threads']}) == len(p['threads'])
    return p


def leaf(p, stack):
    shared = p['shared']
    f = shared['frameTable']['func'][shared['stackTable']['frame'][stack]]
    return shared['stringArray'][shared['funcTable']['name'][f]]
