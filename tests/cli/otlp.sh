#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# OpenTelemetry profiles of a synthetic store: decoded by numbers that are written down in the test
# again, by the rules of the dictionary, and summed against what other commands say.
. "$(dirname "$0")/lib.bash"
export PYTHONPATH=$here/../http PYTHONDONTWRITEBYTECODE=1
"$build/tests/mkstore" wide wide >wide.json || exit 1
"$build/tests/mkstore" names names >/dev/null || exit 1

cat >compare.py <<'PY'
import collections, json, subprocess, sys, otlp
ascribe = sys.argv[1]
def run(*a):
    return subprocess.run([ascribe, *a], capture_output=True, check=True).stdout
def samples(store, *more):
    open('out', 'wb').write(run('export', store, '--format', 'otlp', *more))
    return list(otlp.samples(otlp.read('out')))
for store in 'store', 'wide', 'names':
    got = samples(store)
    # by program and stack: folded stacks, whose names have no ';' and no controls
    folded, ours = collections.Counter(), collections.Counter()
    for line in run('export', store, '--format', 'folded').decode(errors='surrogateescape').split('\n')[:-1]:
        stack, n = ''.join('\ufffd' if '\udc80' <= c <= '\udcff' else c for c in line).rsplit(' ', 1)
        folded[tuple(f.removesuffix('_[k]').removesuffix('_[i]') for f in stack.split(';'))] += int(n)
    clean = lambda s: ''.join(':' if c == ';' else '_' if ord(c) < 32 or ord(c) == 127 else c for c in s)
    for *_, attributes, link, frames, n in got:
        frames = [clean(f).removesuffix('_[k]').removesuffix('_[i]') for f in (attributes.get('comm', '(none)'), *reversed(frames))]
        ours[tuple(frames)] += n
    assert ours == folded, (store, (ours - folded).most_common(2), (folded - ours).most_common(2))
    assert all(g[:3] == (('samples', 'count'), ('cpu', 'nanoseconds'), 10101010) for g in got), got[0][:3]
    # by every label: a report by all keys
    where = {'thread': 'thread.name', 'service': 'service.name', 'host': 'host.name'}
    keys = [k['key'] for k in json.loads(run('labels', store, '--json'))['keys'] if k['key'] != 'event']
    for key in keys:
        rows = {r['key'][key]: r['samples'] for r in json.loads(run('report', store, '--by', key, '-n', '0', '--exact', '--json'))['rows']}
        name = where.get(key, key if key in ('comm',) else 'process.context.label.' + key)
        by = collections.Counter()
        for *_, resource, attributes, link, frames, n in got:
            v = resource.get(name, attributes.get(name))
            by[None if v is None else str(v)] += n
        assert by == collections.Counter({k if k is None else str(k): n for k, n in rows.items()}), (store, key, by, rows)
    print(store, len(got), 'samples,', sum(g[-1] for g in got), end='; ')
PY
ok "sums by stack and by each label" python3 compare.py "$ascribe"

cat >variants.py <<'PY'
import json, subprocess, sys, otlp
def samples(*a):
    open('out', 'wb').write(subprocess.run([sys.argv[1], 'export', *a, '--format', 'otlp'], capture_output=True, check=True).stdout)
    return list(otlp.samples(otlp.read('out')))
truth = json.load(open('truth.json'))
total = lambda *a: sum(s[-1] for s in samples(*a))
assert total('store', '--where', '{tenant="a"}') == truth['a'] and total('store', '--idle') == truth['samples'] + truth['idle']
v = samples('store', '--unit', 'value')
assert v[0][0] == ('cpu', 'nanoseconds') and sum(s[-1] for s in v) == truth['samples'] * 10101010
f = samples('store', '-e', 'page-faults')
assert f[0][0] == ('page_faults', 'count') and sum(s[-1] for s in f) == truth['faults'], f[0]
r = otlp.read('out')['resource_profiles'][0]
assert {kv['key'] for kv in r['resource']['attributes']} == {'host.name'}, r['resource']
assert otlp.decode(open('out', 'rb').read())['resource_profiles'][0]['scope_profiles'][0]['scope']['name'] == 'ascribe'
PY
ok "a selector, idle samples, values, another event" python3 variants.py "$ascribe"
ok "an empty store is an empty message" sh -c \
	"'$ascribe' export empty --format otlp -o empty.otlp 2>/dev/null && python3 -m otlp empty.otlp"
ok "the same store gives the same bytes" sh -c \
	"'$ascribe' export store --format otlp >1 2>/dev/null; '$ascribe' export store --format otlp 2>/dev/null | cmp - 1"

# Labels that say trace and span, container and pod: links, and a resource for each container.
cat >linked.py <<'PY'
import subprocess, sys, otlp
from wire import field
table = ['', 'samples', 'count', 'main']
def s(x):
    if x not in table: table.append(x)
    return table.index(x)
shop = {'service': 'shop', 'container_id': 'c1', 'pod': 'shop-1', 'workload': 'shop', 'workload_kind': 'Deployment'}
pay = {'service_name': 'pay', 'region': 'eu', 'code': 200}
trace = {'trace_id': '0123456789abcdef' * 2, 'span_id': 'fedcba9876543210'}
rows = [({**shop, **trace}, 3), ({**shop, **trace, 'tgid': 7}, 4), (shop, 5), ({**pay, **trace}, 6), ({**pay, 'trace_id': 'x' * 32}, 7),
        ({**shop, 'span_id': '+edcba9876543210', 'trace_id': '0' * 32}, 8)]
out = field(1, field(1, 1) + field(2, 2)) + field(4, field(1, 1) + field(4, field(1, 1))) + field(5, field(1, 1) + field(2, 3))
for labels, n in rows:
    out += field(2, field(1, 1) + field(2, n) + b''.join(
        field(3, field(1, s(k)) + (field(3, v) if isinstance(v, int) else field(2, s(v)))) for k, v in labels.items()))
open('linked.pb', 'wb').write(out + b''.join(field(6, x) for x in table))
subprocess.run([sys.argv[1], 'import', 'pprof', 'linked.pb', '-o', 'linked'], check=True, capture_output=True)
subprocess.run([sys.argv[1], 'export', 'linked', '--format', 'otlp', '-o', 'linked.otlp'], check=True, capture_output=True)
r = otlp.read('linked.otlp')
got = {n: (resource, attributes, link) for *_, resource, attributes, link, frames, n in otlp.samples(r)}
assert set(got) == {3, 4, 5, 6, 7, 8} and len(r['resource_profiles']) == 2 and len(r['dictionary']['links']) == 2, (set(got), r)
for n in 3, 4, 6:
    assert got[n][2] == {'trace_id': bytes.fromhex(trace['trace_id']), 'span_id': bytes.fromhex(trace['span_id'])}, got[n]
    assert not any('trace_id' in k or 'span_id' in k for k in got[n][1])
for n in 5, 7, 8:
    assert got[n][2] is None
of = lambda n: {k: v for k, v in got[n][0].items() if k != 'host.name'}
assert of(3) == of(4) == of(5) == of(8) == {'service.name': 'shop', 'container.id': 'c1', 'k8s.pod.name': 'shop-1',
                                            'k8s.deployment.name': 'shop'}, of(3)
assert of(6) == of(7) == {'service.name': 'pay'}, of(6)
assert got[4][1]['process.pid'] == 7 or got[4][1]['process.pid'] == '7', got[4][1]
assert got[6][1]['process.context.label.region'] == 'eu' and got[7][1]['process.context.label.trace_id'] == 'x' * 32
assert got[8][1]['process.context.label.span_id'].startswith('+')
PY
ok "trace and span are a link, a container is a resource" python3 linked.py "$ascribe"

exits 2 '--label-names is for --format pprof, not otlp' \
	"$ascribe" export store --format otlp --label-names otel -o x
exits 2 "no format 'otlpp'; did you mean 'otlp'?" "$ascribe" export store --format otlpp
finish
