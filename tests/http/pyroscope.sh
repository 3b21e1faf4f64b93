#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# As Grafana's data source asks (connect, protobuf and JSON), as older clients ask
# (/pyroscope/render), as go tool pprof asks; against what the store is known to hold.
. "$(dirname "$0")/lib.bash"

"$build/tests/mkstore" store >truth.json || exit 1
serve log "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
cat >connect.py <<'PY'
import gzip, json, published, sys, urllib.request, urllib.error
from wire import field, numbers, parse
url, truth = sys.argv[1], json.load(open('truth.json'))
def post(method, body, kind):
    r = urllib.request.Request(url + '/querier.v1.QuerierService/' + method, body, {'Content-Type': 'application/' + kind})
    try: answer = urllib.request.urlopen(r).read()
    except urllib.error.HTTPError as e: return e.code, e.read()
    return 200, published.querier(method, answer) if kind == 'proto' else answer
def call(method, **q):
    status, body = post(method, json.dumps(q).encode(), 'json')
    assert status == 200, (method, status, body)
    return json.loads(body)
CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
NS = 10101010
T = 1777629600000
types = call('ProfileTypes')['profileTypes']
assert CPU in [t['ID'] for t in types] and len(types) == 2, types
t = next(t for t in types if t['ID'] == CPU)
assert (t['name'], t['sampleType'], t['sampleUnit'], t['periodType'], t['periodUnit']) == ('process_cpu', 'cpu', 'nanoseconds', 'cpu', 'nanoseconds')
fault = next(t['ID'] for t in types if t['ID'] != CPU)
assert {'comm', 'tenant', 'query_id'} <= set(call('LabelNames', matchers=['{}'], start=str(T), end=str(T + 30000))['names'])
vals = call('LabelValues', name='tenant', matchers=['{__profile_type__="%s"}' % CPU, '{comm!="nobody"}'])['names']
assert {'a', 'b'} <= set(vals), vals
assert call('LabelValues', name='__profile_type__')['names'] == [t['ID'] for t in types]
s = call('Series', matchers=['{tenant="a"}'], labelNames=['tenant', 'comm'])['labelsSet']
assert s and all({'name': 'tenant', 'value': 'a'} in x['labels'] for x in s), s
stats = call('GetProfileStats')
assert stats['dataIngested'] and int(stats['oldestProfileTime']) == T and int(stats['newestProfileTime']) == T + 30000, stats
def total(series): return {tuple(sorted((l['name'], l['value']) for l in x['labels'])): sum(p['value'] for p in x['points']) for x in series}
q = dict(profileTypeID=CPU, labelSelector='{}', start=str(T), end=str(T + 30000))
by = total(call('SelectSeries', groupBy=['tenant'], step=10, **q)['series'])
assert by[(('tenant', 'a'),)] == truth['a'] * NS and by[(('tenant', 'b'),)] == truth['b'] * NS, (by, truth)
assert sum(by.values()) == truth['samples'] * NS
assert total(call('SelectSeries', step=10, limit='5', **q)['series']) == {(): truth['samples'] * NS}
def check(levels, names, sides):  # every node under its parent, self times adding up
    step, ends = 3 * sides + 1, None
    spans = []
    for level in levels:
        at, here = [0] * sides, []
        assert len(level) % step == 0
        for i in range(0, len(level), step):
            n = []
            for k in range(sides):
                off, tot, own = level[i + 3 * k:i + 3 * k + 3]
                at[k] += off; n.append((at[k], at[k] + tot, own)); at[k] += tot
            assert 0 <= level[i + step - 1] < len(names)
            here.append((n, names[level[i + step - 1]]))
        spans.append(here)
    for upper, lower in zip(spans, spans[1:]):
        for n, _ in lower:
            assert any(all(p[k][0] <= n[k][0] and n[k][1] <= p[k][1] for k in range(sides)) for p, _ in upper), n
    for k in range(sides):
        assert sum(n[k][2] for l in spans for n, _ in l) == spans[0][0][0][k][1], k
    return spans
ints = lambda g: [[int(v) for v in l['values']] for l in g['levels']]
g = call('SelectMergeStacktraces', **q)['flamegraph']
assert int(g['total']) == truth['samples'] * NS and g['names'][0] == 'total'
check(ints(g), g['names'], 1)
self = {}
for l in ints(g):
    for i in range(0, len(l), 4): self[g['names'][l[i + 3]]] = self.get(g['names'][l[i + 3]], 0) + l[i + 2]
table = {r['function']: 0 for r in json.load(urllib.request.urlopen(url + '/api/v1/table?limit=1000'))['rows']}
for r in json.load(urllib.request.urlopen(url + '/api/v1/table?limit=1000'))['rows']: table[r['function']] += r['self'] * NS
for f, n in table.items():
    assert n == self.get(f, 0) + self.get(f + ' (inlined)', 0), (f, n)
small = call('SelectMergeStacktraces', maxNodes='5', **q)['flamegraph']
check(ints(small), small['names'], 1)
assert sum(len(l) // 4 for l in ints(small)) < sum(len(l) // 4 for l in ints(g)) and small['total'] == g['total'] and '(other)' in small['names']
a, b = dict(q, labelSelector='{tenant="a"}'), dict(q, labelSelector='{tenant="b"}')
d = call('Diff', left=a, right=b)['flamegraph']
check(ints(d), d['names'], 2)
assert int(d['leftTicks']) == truth['a'] * NS and int(d['rightTicks']) == truth['b'] * NS
# The same in protobuf.
P = field(1, CPU) + field(2, '{}') + field(3, T) + field(4, T + 30000)
status, body = post('SelectMergeStacktraces', P, 'proto')
m = parse(parse(body)[1][0])
assert status == 200 and m[3] == [truth['samples'] * NS] and [n.decode() for n in m[1]] == g['names']
assert [numbers(parse(l)[1][0]) for l in m[2]] == ints(g)
status, body = post('SelectSeries', P + field(5, 'tenant') + field(6, 10.0), 'proto')
got = {}
for x in parse(body)[1]:
    x = parse(x)
    got[tuple((parse(l)[1][0].decode(), parse(l).get(2, [b''])[0].decode()) for l in x.get(1, []))] = sum(parse(p).get(1, [0])[0] for p in x[2])
assert got[(('tenant', 'a'),)] == truth['a'] * NS and sum(got.values()) == truth['samples'] * NS, got
status, body = post('Diff', field(1, field(1, CPU) + field(2, '{tenant="a"}')) + field(2, field(1, CPU) + field(2, '{tenant="b"}')), 'proto')
m = parse(parse(body)[1][0])
assert status == 200 and m[5] == [truth['a'] * NS] and [n.decode() for n in m[1]] == d['names'], m[1]
status, body = post('ProfileTypes', b'', 'proto')
assert status == 200 and parse(parse(body)[1][0])[1] == [CPU.encode()]
status, body = post('SelectMergeProfile', P, 'proto')
prof = parse(body)
assert status == 200 and sum(numbers(parse(s)[2][0])[1] for s in prof[2]) == truth['samples'] * NS
open('profile.pb.gz', 'wb').write(gzip.compress(body))
# What is wrong is said.
def bad(method, body, kind, text, want=400):
    status, out = post(method, body, kind)
    o = json.loads(out)
    assert status == want and o['code'] and text in o['message'], (method, body[:50], status, out[:200])
for i in range(1, len(P)):
    status, out = post('SelectMergeStacktraces', P[:i], 'proto')
    assert status in (200, 400), (i, status)
bad('SelectSeries', b'{', 'json', 'no JSON')
bad('SelectSeries', b'[]', 'json', 'an object is wanted')
bad('SelectSeries', b'{"profileTypeID": 3}', 'json', 'wrong type')
bad('SelectSeries', b'{"groupBy": "x"}', 'json', 'wrong type')
bad('SelectSeries', b'{"start": "x"}', 'json', 'wrong type')
bad('SelectSeries', b'{"a":1,"a":2}', 'json', 'no JSON')
bad('SelectSeries', b'x' * 100, 'xml', 'Content-Type')
bad('SelectSeries', b'\xff' * 100, 'proto', 'the body is no')
bad('SelectSeries', P, 'proto', 'step')
bad('SelectSeries', P + field(6, float('nan')), 'proto', 'step')
bad('SelectMergeStacktraces', field(1, 'nope'), 'proto', 'no profile type')
bad('SelectMergeStacktraces', field(1, CPU) + field(2, '{a='), 'proto', 'selector')
bad('SelectMergeStacktraces', field(1, CPU) + field(3, 5) + field(4, 5), 'proto', 'start before end')
bad('SelectMergeStacktraces', field(1, CPU) + field(3, (1 << 63) - 1), 'proto', 'start')
bad('SelectMergeStacktraces', field(1, CPU) + field(6, 2), 'proto', 'format', 501)
bad('Diff', b'', 'proto', 'left and right')
bad('LabelValues', b'{}', 'json', 'which label')
bad('Series', json.dumps({'labelNames': ['a'] * 17}).encode(), 'json', 'at most 16')
bad('SelectMergeProfile', b'{}', 'json', 'application/proto alone', 501)
bad('SelectMergeStacktraces', b'x' * 70000, 'proto', 'longer than', 413)
bad('SelectMergeStacktraces', b'{"left":' * 5000 + b'1' + b'}' * 5000, 'json', '')
post('Series', b'\x0a\x00' * 32000, 'proto')  # many of nothing: whatever the answer, it lives
print('ok', len(table))
PY
ok "connect" python3 connect.py "$url"
refused 405 method "$url/querier.v1.QuerierService/ProfileTypes"
for call in querier.v1.QuerierService/SelectHeatmap settings.v1.SettingsService/Get \
	vcs.v1.VCSService/GetFile adhocprofiles.v1.AdHocProfileService/List; do
	refused 501 'not served here' -X POST -d '{}' "$url/$call"
	ok "by connect's code" jq -e '.code == "unimplemented"' body
done
for path in querier.v1.QuerierService querierService/Series a/querier.v1.QuerierService/Series; do
	refused 404 'nothing is at this path' -X POST -d '{}' "$url/$path"
done

# ---- the first API ----
cat >legacy.py <<'PY'
import json, sys, urllib.request, urllib.parse, urllib.error
url, truth, NS = sys.argv[1], json.load(open('truth.json')), 10101010
def get(path, **q):
    try: return json.load(urllib.request.urlopen(url + path + '?' + urllib.parse.urlencode({k.replace('_', ''): v for k, v in q.items()})))
    except urllib.error.HTTPError as e: return e.code, json.load(e)
T = '1777629600'
r = get('/pyroscope/render', query='process_cpu:cpu:nanoseconds:cpu:nanoseconds{tenant="a"}', from_=T, until='1777629630', format='json')
f = r['flamebearer']
assert f['numTicks'] == truth['a'] * NS == f['levels'][0][1] and f['names'][0] == 'total' and r['metadata']['format'] == 'single', r
assert sum(r['timeline']['samples']) == truth['a'] * NS and r['timeline']['durationDelta'] == 10 and r['timeline']['startTime'] == int(T)
assert get('/pyroscope/render', query='{tenant="a"}', from_=T + '000', until='1777629630000')['flamebearer'] == f
assert get('/pyroscope/render', query='cpu-clock{}')['flamebearer']['numTicks'] == truth['samples'] * NS
n = get('/pyroscope/render', query='{tenant="nobody"}', from_=T, until='1777629630')
assert n['flamebearer']['numTicks'] == 0 and set(n['timeline']['samples']) == {0}, n
d = get('/pyroscope/render-diff', leftQuery='{tenant="a"}', rightQuery='{tenant="b"}')
assert d['leftTicks'] == truth['a'] * NS and d['rightTicks'] == truth['b'] * NS and d['metadata']['format'] == 'double'
assert len(d['flamebearer']['levels'][0]) == 7
assert {'a', 'b'} <= set(get('/pyroscope/label-values', label='tenant'))
for path, q, text in (('/pyroscope/render', {}, 'query is missing'), ('/pyroscope/render', dict(query='nope{}'), 'no profile type'),
                      ('/pyroscope/render', dict(query='{'), 'selector'), ('/pyroscope/render', dict(query='{}', from_='x'), 'is not a time'),
                      ('/pyroscope/render', dict(query='{}', format='svg'), 'json alone'), ('/pyroscope/render', dict(query='{}', maxNodes='-1'), 'maxNodes'),
                      ('/pyroscope/render', dict(query='{}', from_='5', until='4'), 'must be before'), ('/pyroscope/label-values', {}, 'which label'),
                      ('/pyroscope/render-diff', dict(leftQuery='{}'), 'rightQuery is missing')):
    status, o = get(path, **q)
    assert status == 400 and text in o['message'], (path, q, o)
PY
ok "render, render-diff, label-values" python3 legacy.py "$url"

# ---- go tool pprof ----
if command -v go >/dev/null; then
	ok "go tool pprof over HTTP" sh -c "go tool pprof -top -nodecount=5 '$url/debug/pprof/profile?seconds=30' >top 2>err && grep -q 'flat%' top"
	ok "its sum: $(grep -m1 'of .*total' top)" python3 -c '
import json, re
total = float(re.search(r"of ([0-9.]+)s total", open("top").read()).group(1))
want = json.load(open("truth.json"))["samples"] * 10101010 / 1e9
assert abs(total - want) < 0.01, (total, want)'
	ok "of a selection" sh -c "go tool pprof -tags '$url/debug/pprof/profile?seconds=3000&where=%7Btenant%3D%22a%22%7D' 2>/dev/null | grep -q tenant"
	ok "SelectMergeProfile is one" sh -c 'go tool pprof -top profile.pb.gz 2>/dev/null | grep -q "flat%"'
fi
for s in 0 -1 x 86401; do
	refused 400 'seconds: 1 to 86400' "$url/debug/pprof/profile?seconds=$s"
done
refused 400 'selector' "$url/debug/pprof/profile?where={"

# ---- waits, where they can be recorded: the time, not how often ----
if [ "$(id -u)" = 0 ] && "$ascribe" record --wall -d 1s -o waits >/dev/null 2>&1; then
	serve waits.log "$ascribe" serve waits -l 127.0.0.1:0 --anonymous || finish
	"$ascribe" report waits --metric off --json 2>/dev/null | jq .seconds >blocked
	ask() { curl -gsS -H 'Content-Type: application/json' -d "$2" \
		"$url/querier.v1.QuerierService/$1"; }
	type=off-cpu:delay:nanoseconds:waits:count
	ok "a type of their own" sh -c "$(declare -f ask); url=$url; ask ProfileTypes '{}' | jq -e '[.profileTypes[].ID] | index(\"$type\")'"
	ask SelectMergeStacktraces "{\"profileTypeID\": \"$type\", \"labelSelector\": \"{}\"}" >stacks.json
	ok "what was waited: $(cat blocked) s" \
		jq -e --argjson s "$(cat blocked)" \
		'(.flamegraph.total | tonumber) / 1e9 / $s - 1 | fabs < 1e-6' stacks.json
	if command -v go >/dev/null; then
		profile="$url/debug/pprof/profile?seconds=3000&event=off-cpu"
		ok "and go tool pprof's: $(cat blocked) s" \
			sh -c "go tool pprof -top -unit=ns '$profile' >top 2>err &&
			grep 'Type: off-cpu' top &&
			awk -v want=$(cat blocked) '/ total\$/ { sub(\"ns\", \"\", \$8); x = \$8 / 1e9 / want } END { exit !(x > 0.999 && x < 1.001) }' top"
	fi
fi

# ---- a real Prometheus ----
if command -v prometheus >/dev/null; then
	printf 'global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: ascribe\n  static_configs: [{targets: ["%s"]}]\n' "${url#http://}" >prom.yaml
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	prometheus --config.file=prom.yaml --storage.tsdb.path=tsdb \
		--web.listen-address=127.0.0.1:"$port" >prom.log 2>&1 &
	started+=($!)
	for _ in $(seq 150); do
		v=$(curl -gs "http://127.0.0.1:$port/api/v1/query?query=ascribe_store_bytes" | jq -r '.data.result[0].value[1] // empty' 2>/dev/null)
		[ -n "$v" ] && break
		sleep 0.1
	done
	ok "a real Prometheus scrapes: ascribe_store_bytes $v" test "${v:-0}" -gt 1000
	ok "and finds it up" sh -c "curl -gs 'http://127.0.0.1:$port/api/v1/query?query=up' | jq -e '.data.result[0].value[1] == \"1\"'"
fi
finish
