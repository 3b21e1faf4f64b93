#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles that others send into the daemon's store: as Pyroscope's SDKs send them (a form with
# pprof, folded text, connect's Push), and what nobody should send. As root.
. "$(dirname "$0")/lib.bash"
needs_recording

serve log "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --anonymous || finish
cat >push.py <<'PY'
import gzip, json, sys, time, urllib.request, urllib.error
from wire import field, varint
url = sys.argv[1]
def post(path, body, kind='application/octet-stream', **headers):
    r = urllib.request.Request(url + path, body, {'Content-Type': kind, **{k.replace('_', '-'): v for k, v in headers.items()}})
    try:
        a = urllib.request.urlopen(r)
        return a.status, a.read()
    except urllib.error.HTTPError as e: return e.code, e.read()
    except (urllib.error.URLError, ConnectionError):
        if len(body) <= 2 << 20: raise
        return 413, b'{"message": "longer than"}'  # refused by its head: the answer may be lost while we still send
def good(*a, **k):
    for _ in range(20):
        status, body = post(*a, **k)
        if status != 503: break
    assert status == 200, (a[0], status, body)
def pprof(types, samples, strings=None, labels={}):
    table = ['']
    def s(x):
        if x not in table: table.append(x)
        return table.index(x)
    out, frames = b'', {}
    for t, u in types: out += field(1, field(1, s(t)) + field(2, s(u)))
    for stack, values, lab in samples:
        ids = b''
        for f in stack: ids += field(1, frames.setdefault(f, len(frames) + 1))
        body = ids + b''.join(field(2, v) for v in values)
        for k, v in lab.items(): body += field(3, field(1, s(k)) + (field(3, v) if isinstance(v, int) else field(2, s(v))))
        out += field(2, body)
    for f, i in frames.items():
        out += field(4, field(1, i) + field(4, field(1, i) + field(2, 7))) + field(5, field(1, i) + field(2, s(f)))
    if types == CPU: out += field(11, field(1, s('cpu')) + field(2, s('nanoseconds'))) + field(12, 10000000)
    return out + b''.join(field(6, x) for x in table)
CPU = [('samples', 'count'), ('cpu', 'nanoseconds')]
p = pprof(CPU, [(['leaf', 'mid', 'main'], [3, 30000000], {'endpoint': '/a', 'code': 200}), (['other', 'main'], [2, 20000000], {})])
form = lambda b: (b'--XX\r\nContent-Disposition: form-data; name="sample_type_config"\r\n\r\n{}\r\n--XX\r\n'
                  b'Content-Disposition: form-data; name="profile"; filename="profile"\r\nContent-Type: application/octet-stream\r\n\r\n' + b + b'\r\n--XX--\r\n')
good('/ingest?name=shop%7Bregion%3Deu%7D&format=pprof&from=1&until=2&spyName=x', gzip.compress(p))
good('/ingest?name=form%7B%7D', form(gzip.compress(p)), 'multipart/form-data; boundary=XX')
good('/ingest?name=text&sampleRate=100', b'main;a;b 10\nmain;c 5\n')
# Lines without counts, and Pyroscope's trie: a node for each part that stacks have in common.
node = lambda text, count, *children: varint(len(text)) + text.encode() + varint(count) + varint(len(children)) + b''.join(children)
trie = node('', 0, node('main;', 0, node('a', 4, node(';b', 6), node(';b2;c', 1)), node('d', 4)))
good('/ingest?name=lines&format=lines', b'main;a;b\nmain;c\nmain;a;b\n')
good('/ingest?name=lines2', b'main;a;b\nmain;c 7', 'binary/octet-stream+lines')
good('/ingest?name=trie&format=trie&sampleRate=100', trie)
good('/ingest?name=trie2&sampleRate=100', node('', 0, node('ma\nin', 5)), 'binary/octet-stream+trie')
# Profiles of yesterday are stored as of then, those of tomorrow as of now.
yesterday = int(time.time()) - 86400
good('/ingest?name=late&sampleRate=100&from=%d&until=%d' % (yesterday, yesterday + 10), b'main;late 7\n')
good('/ingest?name=late&sampleRate=100&from=%d000&until=%d000' % (yesterday + 20, yesterday + 30), b'main;late 2\n')
dated = p + field(9, yesterday * 10**9 + 40 * 10**9) + field(10, 10 * 10**9)
good('/push.v1.PusherService/Push', field(1, field(1, field(1, 'service_name') + field(2, 'dated')) + field(2, field(1, gzip.compress(dated)))), 'application/proto')
good('/ingest?name=early&from=%d&until=%d' % (yesterday + 2 * 86400, yesterday + 2 * 86400 + 10), b'main 3\n')
open('yesterday', 'w').write(str(yesterday))
heap = pprof([('inuse_space', 'bytes')], [(['alloc', 'main'], [4096], {})])
push = lambda raw, **l: field(1, b''.join(field(1, field(1, k) + field(2, v)) for k, v in l.items()) + field(2, field(1, raw)))
good('/push.v1.PusherService/Push', push(gzip.compress(p), service_name='pushed', __name__='process_cpu') + push(heap, service_name='heap'), 'application/proto')
good('/push.v1.PusherService/Push', gzip.compress(push(p, service_name='zipped')), 'application/proto', Content_Encoding='gzip')
# What nobody should send: a refusal with a clear body, and the next one is well.
def bad(text, *a, want=400, **k):
    status, body = post(*a, **k)
    assert status == want and text in json.loads(body)['message'], (a[0], status, body[:300])
bomb = gzip.compress(b'\0' * 200000000, 9)
bad('unpacks to more than', '/ingest?name=a&format=pprof', bomb, want=413)
bad('unpacks to more than', '/ingest?name=a', b'x' if False else bomb, Content_Encoding='gzip', want=413)
bad('unpacks to more than', '/push.v1.PusherService/Push', push(bomb, a='b'), 'application/proto', want=413)
bad('longer than', '/ingest?name=a', b'x' * 3000000, want=413)
bad('no whole gzip', '/ingest?name=a&format=pprof', gzip.compress(p)[:-9])
bad('no pprof', '/ingest?name=a&format=pprof', b'\xff' * 1000)
bad('no sample type', '/ingest?name=a&format=pprof', pprof([], []))
bad('a profile of 0', '/ingest?name=a&format=pprof', b'')
bad('whose profile', '/ingest', b'a 1\n')
bad('app{key=value', '/ingest?name=a%7Bx', b'a 1\n')
bad('app{key=value', '/ingest?name=a%7Bx%7D', b'a 1\n')
bad('a label\'s name', '/ingest?name=a%7B%3D3%7D', b'a 1\n')
bad('labels', '/ingest?name=a%7B' + '%2C'.join('k%d%%3Dv' % i for i in range(40)) + '%7D', b'a 1\n')
bad('line 2', '/ingest?name=a', b'a 1\nb\n')
bad('line 1', '/ingest?name=a', b'a -1\n')
bad("format 'jfr'", '/ingest?name=a&format=jfr', b'x', want=501)
bad('no whole trie', '/ingest?name=a&format=trie', trie[:-1])
bad('no whole trie', '/ingest?name=a&format=trie', b'\xff' * 12)
bad('too many or too long', '/ingest?name=a&format=trie', b'\1a\1\1' * 100000 + b'\1a\1\0')  # deep: each stack is longer by one
bad('too many or too long', '/ingest?name=a&format=trie', node('a' * 1000000, 0, *[node('b', 1)] * 10))  # much of little
bad('from: Unix', '/ingest?name=a&from=x', b'a 1\n')
bad('until: beyond the year 2262', '/ingest?name=a&from=1&until=60000000000', b'a 1\n')
bad('sampleRate', '/ingest?name=a&sampleRate=0', b'a 1\n')
bad('boundary', '/ingest?name=a', b'x', 'multipart/form-data')
bad('no whole part', '/ingest?name=a', b'--XX\r\n', 'multipart/form-data; boundary=XX')
bad('no whole part', '/ingest?name=a', form(p)[:60], 'multipart/form-data; boundary=XX')
bad('gzip or zstd', '/ingest?name=a', b'x', Content_Encoding='br')
bad('Content-Type', '/push.v1.PusherService/Push', b'x', 'text/plain')
bad('no PushRequest', '/push.v1.PusherService/Push', b'\xff' * 50, 'application/proto')
bad('no PushRequest', '/push.v1.PusherService/Push', b'\x0a\x00' * 1000000, 'application/proto')  # a million of nothing
bad('too many samples', '/ingest?name=a&format=pprof', b'\x12\x00' * 1000000)  # more than a message may take
bad('too many', '/ingest?name=a', b'a 1\n' * 150000)
for i in range(0, len(p), 3):  # cut anywhere, and with a bit of it turned
    status, body = post('/ingest?name=cut&format=pprof', p[:i])
    assert status in (200, 400, 503), (i, status)
    q = bytearray(p); q[i] ^= 1 << i % 8
    status, body = post('/ingest?name=cut&format=pprof', bytes(q))
    assert status in (200, 400, 503), (i, status)
PY
ok "push" python3 push.py "$url"
kb=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
ok "resident memory after all that: $kb KiB" test "$kb" -lt 130000
gets 200 'ascribe_ingest_profiles_total' "$url/metrics"
kill -TERM "$pid"
wait "$pid"
ok "ends well" test $? = 0
cat >found.py <<'PY'
import json, subprocess, sys
def run(*a):
    r = subprocess.run([sys.argv[1], *a, '--json'], capture_output=True)
    assert r.returncode == 0, (a, r.stderr)
    return json.loads(r.stdout)
by = {r['key']['service_name']: r['seconds'] for r in run('report', 'store', '--event', 'ingest:cpu', '--by', 'service_name')['rows']}
for name, s in (('shop', .05), ('form', .05), ('pushed', .05), ('zipped', .05), ('text', .15)):
    assert abs(by[name] - s) < 1e-6, (name, by)
for name, s in (('lines', .03), ('lines2', .02), ('trie', .15), ('trie2', .05)):
    assert abs(by[name] - s) < 1e-6, (name, by)
trie = run('report', 'store', '--event', 'ingest:cpu', '--where', '{service_name="trie"}')
assert {r['function']: (round(r['samples']), r['self']) for r in trie['rows']} == {
    'main': (15, 0), 'a': (11, 4), 'b': (6, 6), 'b2': (1, 0), 'c': (1, 1), 'd': (4, 4)}, trie
shop = run('report', 'store', '--event', 'ingest:cpu', '--where', '{service_name="shop",region="eu"}')
rows = {r['function']: (round(r['samples']), r['self']) for r in shop['rows']}
assert rows['main'] == (5, 0) and rows['leaf'] == (3, 3) and rows['mid'] == (3, 0) and rows['other'] == (2, 2), rows  # of 10 ms, not of 1 ms
assert abs(run('report', 'store', '--event', 'ingest:cpu', '--where', '{service_name="shop",endpoint="/a",code="200"}')['seconds'] - .03) < 1e-9
assert run('report', 'store', '--event', 'ingest:inuse_space', '--by', 'service_name')['value'] == 4096
then = int(open('yesterday').read())
late = run('report', 'store', '--event', 'ingest:cpu', '--by', 'service_name', '--from', str(then - 5), '--to', str(then + 60))
assert {r['key']['service_name']: round(r['samples']) for r in late['rows']} == {'late': 9, 'dated': 5}, late
assert (late['from'], late['to']) == (then, then + 50), late
now = run('report', 'store', '--event', 'ingest:cpu', '--by', 'service_name', '--from', str(then + 80000))
assert not {'late', 'dated'} & {r['key']['service_name'] for r in now['rows']} and by['early'] == .03, now
host = run('stat', 'store')
assert host['fired'] == host['stored'] + sum(host['lost'].values())
# What others sent is not what this host did.
assert not any(r['function'] == 'leaf' and not r['module'].startswith('/') for r in run('report', 'store')['rows']) # other programs may have one
PY
ok "what was sent is found, and nothing else is changed" python3 found.py "$ascribe"
ok "the store is whole" "$ascribe" store verify store

# ---- more than is taken in ----
serve log1 "$ascribe" daemon -s "$dir/flooded" -l 127.0.0.1:0 --anonymous --store-max 64MiB \
	--quota-bytes 0 ||
	finish
cat >bodies.py <<'PY'
import socket, sys, time
# Bodies that do not end: each is as long as one may be.
conns, size = [], (2 << 20) - 1
for _ in range(60):
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5)
    s.sendall(b'POST /ingest?name=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % size + b'x' * (size - 1000))
    conns.append(s)
time.sleep(0.5)
print(next(int(l.split()[1]) >> 10 for l in open(f'/proc/{sys.argv[2]}/status') if l.startswith('VmRSS')))
PY
held=$(python3 bodies.py "${url##*:}" "$pid")
ok "114 MiB of bodies that do not end: $held MiB resident" test "$held" -lt 110
gets 200 ready "$url/readyz"
gets 200 'reason="memory"' "$url/metrics"
ok "they are counted" grep -q 'reason="memory"} [1-9]' body
python3 "$here/ingest_flood.py" "$url" "$pid" flooded 12 >flood.json
ok "a flood: $(cat flood.json)" jq -e '.taken >= 6 and .taken <= 30 and .resident < 170 and .store <= 64' flood.json
ok "is told when to come again" jq -e '.statuses | has("429") and (del(.["200"], .["429"], .["503"]) == {})' flood.json
gets 200 'reason="ingest"' "$url/metrics"
ok "and counted" grep -q 'reason="ingest"} [1-9]' body
kill "$pid"
wait "$pid"

serve log2 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
refused 501 'nothing is written here' -X POST -d 'a 1' "$url/ingest?name=a"
gets 200 'ingest.cpu:cpu' -X POST -H 'Content-Type: application/json' -d '{}' \
	"$url/querier.v1.QuerierService/ProfileTypes"
finish
