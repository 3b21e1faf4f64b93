# SPDX-License-Identifier: Apache-2.0
"""What a token with a selector sees through every path of the server's route table.

scope.py routes.c FULL-URL FULL-TOKEN SCOPED-TOKEN [ALONE-URL]: the scoped token's answers of the
full store against the whole ones of a store that holds what it may see alone, and against the
strings that only others have. Without ALONE-URL the forbidden strings are the lines of stdin.
"""
import gzip
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from wire import field

routes_c, full, all_token, token = sys.argv[1:5]
alone = sys.argv[5] if len(sys.argv) > 5 else None
CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
Q = '/querier.v1.QuerierService/'
MY = '{tenant="a"}' if alone else '{comm=~"scope.*"}'

# Of each path: questions. A path that is not here fails the test.
GET = {
    '/healthz': [''], '/readyz': [''], '/metrics': [''], '/metrics/profiles': [''],
    '/api/v1/labels': ['', 'names_only=1', 'event=page-faults', 'metric=runq', 'where={comm!="x"}', 'limit=1000'],
    '/api/v1/values': ['key=' + k for k in ('tenant', 'comm', 'query_id', 'zedkey', 'event', 'by.comm', 'thread')] +
                      ['key=comm&where={tenant="b"}', 'key=query_id&where={tenant!="a"}', 'key=comm&event=cpu', 'key=comm&metric=runq', 'key=comm&idle=1'],
    '/api/v1/series': ['', 'by=tenant', 'by=comm', 'by=zedkey', 'by=query_id&exact=1', 'by=comm&idle=1', 'by=comm&metric=off'],
    '/api/v1/flame': ['', 'event=cpu', 'max_nodes=100000', 'split=tenant', 'split=comm', 'where={tenant="b"}', 'view=inverted', 'idle=1', 'metric=off',
                      'metric=waker', 'metric=wall', 'against={tenant="b"}', 'view=callers&function=zed_secret', 'event=waker', 'event=blame'],
    '/api/v1/table': ['', 'limit=1000', 'event=cpu', 'event=cpu&by=comm,zedkey,tenant', 'by=tenant', 'by=comm', 'by=query_id', 'by=query_id&exact=1', 'by=tenant,comm', 'by=zedkey', 'match=e',
                      'by=comm&metric=runq', 'by=wait_in&metric=off', 'by=by.comm&metric=waker', 'by=by.comm&event=blame', 'where={tenant=~".*e.*"}',
                      'where={by.comm=~"scope_b"}&event=blame', 'event=nonsense'],
    '/api/v1/diff': ['against={tenant="b"}', 'against={}', 'by=tenant&against={tenant="b"}', 'against_to=now', 'by=comm&against={}'],
    '/api/v1/findings': ['', 'by=tenant', 'by=comm'],
    '/api/v1/why': ['where=' + MY, 'where={tenant="b"}', 'where={comm!="x"}'],
    '/api/v1/locks': ['', 'by=tenant', 'idle=1', 'where={by.comm=~"scope_.*"}', 'where={lock.kind!=""}'],
    '/api/v1/blame': ['', 'by=tenant', 'by=comm', 'by=exe', 'metric=waker', 'idle=1', 'where={by.comm=~"scope_.*"}', 'where={by.comm!~"scope_a"}'],
    '/api/v1/heatmap': ['step=50ms', 'step=1s&by=cpu', 'step=1s&by=tenant', 'step=1s&by=comm', 'step=1s&metric=off', 'step=1s&where={tenant="b"}'],
    '/api/v1/stat': [''],
    '/api/v1/statements': ['ids=1'],
    '/pyroscope/render': ['query=' + CPU + '{}', 'query={}', 'query=' + CPU + '{tenant="b"}'],
    '/pyroscope/render-diff': ['leftQuery=' + CPU + '{}&rightQuery=' + CPU + '{tenant="b"}'],
    '/pyroscope/label-values': ['label=tenant', 'label=comm', 'label=zedkey', 'label=service_name', 'label=__profile_type__', 'label=by_comm'],
    '/debug/pprof/profile': ['seconds=86400', 'seconds=86400&where={tenant="b"}', 'seconds=86400&event=blame'],
    '/export/flame.html': ['', 'metric=wall'],
    '/export/profile.pb.gz': ['', 'metric=off', 'metric=waker', 'event=blame', 'idle=1', 'where={tenant!="a"}'],
    '/export/folded.txt': ['', 'event=cpu', 'metric=off', 'idle=1'],
    '/api/v1/histogram': ['metric=off', 'metric=runq&by=comm', 'metric=runq&by=tenant', 'route=flame', 'metric=ascribe_query_seconds'],
}
side = {'profileTypeID': CPU, 'labelSelector': '{}', 'start': '0', 'end': '0'}
other = dict(side, labelSelector='{tenant="b"}')
POST = {
    Q + 'ProfileTypes': [{}], Q + 'LabelNames': [{}], Q + 'GetProfileStats': [{}],
    Q + 'LabelValues': [{'name': n} for n in ('tenant', 'comm', 'zedkey', 'service_name', '__profile_type__', 'by_comm')],
    Q + 'Series': [{}, {'labelNames': ['tenant', 'comm', 'zedkey', '__profile_type__']}, {'labelNames': ['by_comm']}],
    Q + 'SelectSeries': [dict(side, step=10, groupBy=[g]) for g in ('tenant', 'comm', 'zedkey')] + [dict(other, step=10)],
    Q + 'SelectMergeStacktraces': [side, other, dict(side, profileTypeID='off-cpu:delay:nanoseconds:waits:count')],
    Q + 'SelectMergeProfile': [field(1, CPU) + field(2, '{}'), field(1, CPU) + field(2, '{tenant="b"}')],
    Q + 'Diff': [{'left': side, 'right': other}],
    '/api/v1/freeze': [b''],
    '/push.v1.PusherService/Push': [{}], '/ingest': [b'a;b 1\n'], '/v1development/profiles': [b''],
}


def route_table():
    text = open(routes_c).read().replace('QUERIER "', '"' + Q)
    return re.findall(r'^\t\{ "([^"]+)", "[^"]+",\s+([A-Z_ |]+),', text, re.M)


def ask(base, auth, path, question):
    headers = {'Authorization': 'Bearer ' + auth} if auth else {}
    body = None
    if isinstance(question, str):
        path += '?' + urllib.parse.quote(question, safe='=&') if question else ''
    else:
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        headers['Content-Type'] = 'application/json' if body[:1] == b'{' else 'application/proto'
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers), timeout=60) as r:
            status, out = r.status, r.read()
    except urllib.error.HTTPError as e:
        status, out = e.code, e.read()
    if out[:2] == b'\x1f\x8b':
        out = gzip.decompress(out)
    return status, out


BY_RANGE = {'from', 'to', 'now', 'fired', 'stored', 'lost', 'flagged', 'flagged_of', 'windows', 'blocks', 'covered', 'idle', 'from_ns', 'host', 'gone',
            'coarse', 'outside', 'sets', 'wide', 'own_cpu', 'seconds_range', 'ncpus', 'cpus', 'timeline', 'idle_share', 'complete', 'own', 'rate', 'change', 'low', 'high', 'rates', 'untracked'}


def paths(frames, nodes):
    out, path = {}, []
    for depth, samples, frame in zip(*[iter(nodes)] * 3):
        path[depth:] = [tuple(frames[3 * frame:3 * frame + 2])]
        out[str(path)] = out.get(str(path), 0) + samples
    return out


def level_paths(names, levels):
    """{path: (total, self)}, of one side."""
    out, above = {}, [(0, 1 << 62, ())]
    for level in levels:
        at, here = 0, []
        for off, total, own, name in zip(*[iter(map(int, level['values'] if isinstance(level, dict) else level))] * 4):
            at += off
            path = next(p for b, e, p in above if b <= at and at + total <= e) + (names[name],)
            here.append((at, at + total, path))
            old = out.get(str(path), (0, 0))
            out[str(path)] = (old[0] + total, old[1] + own)
            at += total
        above = here
    return out


def plain(v):
    """Without what is of the range and of everybody, and whatever the order of frames."""
    if isinstance(v, dict) and 'frames' in v and 'nodes' in v:
        return {'paths': paths(v['frames'], v['nodes']), 'samples': v['samples']}
    if isinstance(v, dict) and 'names' in v and 'levels' in v:
        one = len(v['levels'][0]['values'] if isinstance(v['levels'][0], dict) else v['levels'][0]) == 4
        return level_paths(v['names'], v['levels']) if one else sorted(v['names'])
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if k not in BY_RANGE}
    if isinstance(v, list):
        return [plain(x) for x in v]
    return v


def difference(a, b, at=''):
    if isinstance(a, dict) and isinstance(b, dict):
        return next((d for k in sorted(a.keys() | b.keys()) if (d := difference(a.get(k), b.get(k), f'{at}.{k}'))), '')
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := difference(x, y, f'{at}[{i}]'))), '')
    return '' if a == b else f'{at}: {str(a)[:200]} alone: {str(b)[:200]}'


def strings(v, out):
    if isinstance(v, dict):
        for k, x in v.items():
            strings(k, out)
            strings(x, out)
    elif isinstance(v, list):
        for x in v:
            strings(x, out)
    elif isinstance(v, str) and len(v) > 2 and re.search('[a-z]', v):  # a number may be in any time
        out.add(v)


asked = []
for path, flags in route_table():
    table = GET if 'ROUTE_GET' in flags or 'ASK' in flags else POST
    assert path in table, 'no question for the new path ' + path
    asked += [(path, q, flags) for q in table[path]]
assert len({p for p, _, _ in asked}) == len(GET) + len(POST)
whole, mine = {}, {}
for p, q, _ in asked:  # one after the other: they must not share an answer that is kept
    whole[p, str(q)] = ask(full, all_token, p, q)
    mine[p, str(q)] = ask(full, token, p, q)

# ---- what others alone have: in no byte of any answer ----
if alone:
    theirs = {(p, str(q)): ask(alone, None, p, q) for p, q, _ in asked}
    have, said = set(), b''.join(out for _, out in theirs.values()) + str(asked).encode()
    for (path, _), (status, out) in whole.items():
        if status == 200 and (path.startswith('/api/') or path.startswith(Q)) and out[:1] == b'{':
            strings(json.loads(out), have)
    forbidden = {s.encode() for s in have if s.encode() not in said}
else:
    forbidden = {line.strip().encode() for line in sys.stdin if line.strip()}
shown = {f for f in forbidden if any(f in out for _, out in whole.values())}
assert len(forbidden) >= (20 if alone else 1) and shown == forbidden, (len(forbidden), forbidden - shown)
leaks = [(p, q, f) for (p, q), (_, out) in mine.items() for f in forbidden
         if f not in q.encode()  # an answer says what was asked
         if f in out or json.dumps(f.decode('utf-8', 'replace'))[1:-1].encode() in out]
assert not leaks, leaks[:10]

# ---- who may not ask is told so; who may sees the same as of a store of his own ----
equal = refused = 0
differ = []
for path, q, flags in asked:
    status, out = mine[path, str(q)]
    if 'INGEST' in flags:
        assert status == 403 and b'scope ingest' in out, (path, status, out)
    elif 'FREEZE' in flags:  # nothing is recorded here: http/freeze asks a daemon
        assert status == 501, (path, status, out)
    elif 'ROUTE_OPEN' in flags:
        assert status == 200, (path, status)
    elif not re.search('SCOPED', flags):
        assert status == 403 and b'everybody' in out, (path, status, out)
    if status == 403:
        refused += 1
        continue
    assert status in (200, 400, 404, 501), (path, q, status, out[:200])
    if not alone or not re.search('SCOPED', flags):
        continue
    was, want = theirs[path, str(q)]
    if was == 400 and b'no event' in want:  # here it is one of others: there is nothing of it
        equal += 1
        continue
    assert status == was, (path, q, status, was, out[:300], want[:300])
    if out[:1] in (b'{', b'['):
        a, b = plain(json.loads(out)), plain(json.loads(want))
        order = path.endswith('/labels') or 'LabelNames' in path
        if order:
            a, b = (json.dumps(sorted(json.dumps(x, sort_keys=True) for x in v.get('keys', v.get('names', v.get('values', []))))) for v in (a, b))
        if a != b:
            differ.append((path, q, difference(a, b)))
    elif 'folded' in path:
        assert sorted(out.split(b'\n')) == sorted(want.split(b'\n')), (path, q)
    equal += 1
assert not differ, '\n'.join(map(str, differ[:12]))
print(len(asked), 'questions of', len({p for p, _, _ in asked}), 'paths,', refused, 'refused,', equal, 'as alone,',
      len(forbidden), 'strings of others')
