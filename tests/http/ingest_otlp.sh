#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# OpenTelemetry profiles into the daemon's store: our own push comes back with the same sums,
# another profiler's request is found, what nobody should send is refused with its reason. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
command -v zstd >/dev/null || skip "no zstd"

"$ascribe" record -q -d 2s -F 199 -e cpu-clock,off-cpu -o own -- \
	sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; sleep 0.2' >/dev/null 2>&1
serve log "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --anonymous -F 1 || finish
for compression in gzip zstd none; do
	ok "push, $compression" "$ascribe" push own "$url" --compression $compression \
		--cursor "$dir/$compression" -l "by=$compression"
done
cat >send.py <<'PY'
import gzip, subprocess, sys, time, urllib.request, urllib.error, otlp, otlp_foreign
from wire import parse
url, why_long = sys.argv[1], b'longer than'
def post(body, kind='application/x-protobuf', **headers):
    r = urllib.request.Request(url + '/v1development/profiles', body, {'Content-Type': kind, **{k.replace('_', '-'): v for k, v in headers.items()}})
    for _ in range(20):
        try:
            a = urllib.request.urlopen(r)
            return a.status, a.headers['Content-Type'], a.read()
        except urllib.error.HTTPError as e:
            if e.code != 429: return e.code, e.headers['Content-Type'], e.read()
            time.sleep(int(e.headers['Retry-After']))
        except urllib.error.URLError:  # refused by its head: the answer may be lost while we still send
            return 413, 'lost', why_long
def zstd(b): return subprocess.run(['zstd', '-c'], input=b, capture_output=True, check=True).stdout
def other(b): return b.replace(b'shop', b'cuts').replace(b'pay', b'cut')  # no label of the real one
whole = otlp.encode(otlp_foreign.request())
assert post(whole) == (200, 'application/x-protobuf', b'')
for encoding, body in ('gzip', gzip.compress(otlp_foreign.many(20))), ('zstd', zstd(otlp_foreign.many(30))):
    assert post(body, Content_Encoding=encoding)[0] == 200, encoding
def bad(status, grpc, why, *a, **k):
    got, kind, body = post(*a, **k)
    if kind == 'application/x-protobuf':
        m = parse(body)
        assert got == status and m[1] == [grpc] and why in m[2][0].decode(), (got, m)
    else:
        assert got == status and why in body.decode(), (got, body)
for why, n, body in otlp_foreign.damaged():
    if n == 4:
        bad(400, 3, why, body)
    elif n < 4:
        status, _, answer = post(other(body))
        partial = parse(parse(answer)[1][0])
        assert status == 200 and partial[1] == [n] and why in partial[2][0].decode(), (why, partial)
for why, body in otlp_foreign.undecodable():
    bad(400, 3, why, body)
bad(415, 12, 'alone', b'{}', 'application/json')
bad(415, 12, 'alone', whole, 'text/plain')
bad(400, 3, 'gzip or zstd', whole, Content_Encoding='br')
bad(400, 3, 'no whole gzip', whole, Content_Encoding='gzip')
bad(400, 3, 'no whole zstd', whole, Content_Encoding='zstd')
bad(400, 3, 'no whole zstd', zstd(whole)[:-5], Content_Encoding='zstd')
bad(413, 8, 'longer than', b'x' * 3000000)
zeros = b'\0' * 200000000
bad(413, 8, 'unpacks to more than', gzip.compress(zeros, 1), Content_Encoding='gzip')
bad(413, 8, 'unpacks to more than', zstd(zeros), Content_Encoding='zstd')
wide = subprocess.run(['zstd', '-c', '--ultra', '-22', '--long=27'], input=zeros, capture_output=True).stdout
bad(400, 3, 'no whole zstd', wide, Content_Encoding='zstd')  # it asks for a window of 128 MiB
bad(413, 8, 'unpacks to more than', gzip.compress(otlp_foreign.many(10000000), 1), Content_Encoding='gzip')
bad(400, 3, 'too many samples', gzip.compress(otlp_foreign.many(100001)), Content_Encoding='gzip')
bad(400, 3, 'too many samples', gzip.compress(otlp_foreign.many(1000001)), Content_Encoding='gzip')
for i in range(0, len(whole), 3):  # cut anywhere, and with a bit of it turned
    q = bytearray(other(whole)); q[i] ^= 1 << i % 8
    for body in bytes(q), bytes(q[:i]):
        status, kind, _ = post(body)
        assert status in (200, 400), (i, status)
PY
NOW=$(date +%s)
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 NOW
ok "another profiler's request; bad ones are refused" python3 send.py "$url"
kb=$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status")
ok "at most $kb KiB resident" test "$kb" -lt 200000
gets 200 'ascribe_ingest_profiles_total' "$url/metrics"
kill -TERM "$pid"
wait "$pid"
ok "ends well" test $? = 0
cat >found.py <<'PY'
import json, subprocess, sys, otlp_foreign
def run(*a):
    r = subprocess.run([sys.argv[1], *a, '--json'], capture_output=True)
    assert r.returncode == 0, (a, r.stderr)
    return json.loads(r.stdout)
since = '--from', str(otlp_foreign.T // 10**9 - 3600)
then = '--from', str(otlp_foreign.T // 10**9), '--to', str(otlp_foreign.T // 10**9 + 20)
def rows(store, key, *a):
    r = run('report', store, '--by', key, '-n', '0', *a)
    return {x['key'][key]: (x['samples'], round(x['seconds'], 6)) for x in r['rows']}
def functions(store, *a):
    return {(x['function'], x['module']): (x['samples'], x['self']) for x in run('report', store, '-n', '0', *a)['rows']}
n = 0
for by in 'gzip', 'zstd', 'none':
    there = '--event', 'ingest:cpu', '--where', '{by="%s"}' % by, *since
    assert functions('store', *there) == functions('own'), by
    for key in 'comm', 'exe', 'tgid', 'thread':
        assert rows('store', key, *there) == rows('own', key), (by, key)
    waits = run('report', 'store', '--event', 'ingest:off_cpu', '--where', '{by="%s"}' % by, *since)
    assert waits['value'] == run('report', 'own', '--event', 'off-cpu')['value'], (by, waits)
print(run('report', 'own')['samples'], 'samples, three times;', waits['value'] / 1e9, 's of waits')
otlp_foreign.check(lambda event, where, *a: run('report', 'store', '-e', event, '--where', where, *a, '-n', '0', *then), 'ingest:', 'by="",service_name=~"shop|pay"')
host = run('stat', 'store')
assert host['fired'] == host['stored'] + sum(host['lost'].values())
PY
ok "what was sent is found" python3 found.py "$ascribe"
ok "the store is whole" "$ascribe" store verify store
serve log2 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
cat >drilldown.py <<'PY'
# What Grafana's Profiles Drilldown asks (profiles-drilldown 2.x, SeriesApiClient, LabelsApiClient).
import json, sys, urllib.request, otlp_foreign
url, T = sys.argv[1], otlp_foreign.T // 10**6
def call(method, **q):
    r = urllib.request.Request(url + '/querier.v1.QuerierService/' + method, json.dumps({'start': T, 'end': T + 20000, **q}).encode(),
                               {'Content-Type': 'application/json', 'Accept': 'application/json; allow-utf8-labelnames=true'})
    return json.load(urllib.request.urlopen(r))
def series(**q):
    return {tuple(l['value'] for l in x['labels']) for x in call('Series', labelNames=['service_name', '__profile_type__'], **q)['labelsSet']}
CPU, SENT = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', 'ingest.cpu:cpu:nanoseconds:cpu:nanoseconds'
OFF = 'ingest.off_cpu:cpu:nanoseconds:cpu:nanoseconds'
assert {('shop', SENT), ('shop', OFF), ('pay', SENT), ('pay', 'ingest.alloc_space:samples:count:event:count')} <= series(matchers=[]), series(matchers=[])
assert {x[0] for x in series(matchers=['{service_name="shop"}'])} == {'shop'}
assert series(matchers=['{service_name="shop", __profile_type__="%s"}' % OFF]) == {('shop', OFF)}
assert series(matchers=['{__profile_type__="no:such:type:at:all"}']) == set()
of = lambda type, rest: ['{__profile_type__="%s", %s}' % (type, rest)]
names = call('LabelNames', matchers=of(SENT, 'service_name="shop"'))['names']
assert {'service_name', 'http_route', 'tenant'} <= set(names) and not any('.' in n for n in names), names
assert call('LabelValues', name='http_route', matchers=of(SENT, 'service_name="shop"'))['names'] == ['/a']
assert set(call('LabelValues', name='service_name', matchers=of(SENT, 'tenant=~"a|c"'))['names']) >= {'shop', 'pay'}
assert 'shop' in call('LabelValues', name='service_name', matchers=['{}'])['names']
q = dict(profileTypeID=SENT, labelSelector='{service_name="shop"}')
by = {tuple((l['name'], l['value']) for l in x['labels']): sum(p['value'] for p in x['points'])
      for x in call('SelectSeries', groupBy=['service_name', 'http_route'], step=10, **q)['series']}
assert by == {(('service_name', 'shop'), ('http_route', '/a')): .05e9, (('service_name', 'shop'),): .5e9}, by
q['labelSelector'] = '{service_name="shop",http_route=`/a`, "http.route"=~"/.*"}'
assert call('SelectMergeStacktraces', **q)['flamegraph']['total'] == str(int(.05e9))
# Of what was recorded here it is the label service.
q = dict(start=T + 7000000, end=T + 20000000)
here = [s for s, t in series(matchers=of(CPU, 'service_name!=""'), **q) if t == CPU]
services = {r['key']['service'] for r in json.load(urllib.request.urlopen(url + '/api/v1/table?by=service&limit=0'))['rows']}
assert here and set(here) <= services, (here, services)
some = call('SelectMergeStacktraces', profileTypeID=CPU, labelSelector='{service_name="%s"}' % here[0], **q)['flamegraph']['total']
same = call('SelectMergeStacktraces', profileTypeID=CPU, labelSelector='{service="%s"}' % here[0], **q)['flamegraph']['total']
assert some == same != '0', (some, same)
PY
ok "Profiles Drilldown finds services, labels and samples" python3 drilldown.py "$url"
ok "a server without a daemon writes nothing" grep -q 'nothing is written here' <(
	curl -s -H 'Content-Type: application/x-protobuf' -d x "$url/v1development/profiles")
finish
