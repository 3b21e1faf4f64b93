#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The API over a store whose contents are known (tests/tools/mkstore.c), beside what the commands
# print; the page; /metrics; TLS and tokens; the store growing under it.
. "$(dirname "$0")/lib.bash"

"$build/tests/mkstore" store >truth.json || exit 1
"$build/tests/mkstore" wide wide >/dev/null || exit 1
serve log "$ascribe" serve store -l 127.0.0.1:0,unix:"$dir/sock" --anonymous || finish
gets 200 ok "$url/healthz"
gets 200 ready "$url/readyz"
gets 200 ok --unix-socket sock http://any.name/healthz
ok "nobody else can come to the socket" test "$(stat -c %a sock)" = 660

# ---- the same as the commands say ----
same() { # path of the API, command...
	local q=$1
	shift
	gets 200 '' "$url/api/v1/$q"
	"$ascribe" "$@" --json >want.json 2>want.err
	ok "$q is what '$1' prints" python3 -c 'import json; a, b = json.load(open("body")), json.load(open("want.json")); assert a == b, (a, b)'
}
same 'table?limit=100000' report store
same 'table?limit=100000&by=tenant,comm' report store --by tenant,comm
same 'table?limit=100000&where={tenant="a"}&names=simple' report store --where '{tenant="a"}' --names simple
same 'series?by=tenant&step=10s' report store --by tenant --step 10s
same 'labels?limit=100000' labels store
same 'values?key=tenant' labels store tenant
same 'values?key=event' labels store event
same 'why?where=%7Btenant%3D%22a%22%7D' why store --where '{tenant="a"}'
same 'findings?by=tenant' findings store --by tenant
same 'stat' stat store
same 'flame' flame store
same 'flame?where={tenant="a"}&max_nodes=20' flame store --where '{tenant="a"}' -n 20
gets 200 '' "$url/api/v1/diff?where={tenant=\"a\"}&against={tenant=\"b\"}&limit=100000"
"$ascribe" diff store --where '{tenant="a"}' --against '{tenant="b"}' --json >want.json 2>want.err
ok "diff" python3 -c '
import json
a, b = json.load(open("body")), json.load(open("want.json"))
for d in a, b:
    for side in "ab": del d[side]["store"]  # a path of this host is nobody else'"'"'s business
assert a == b'

# ---- and as the store was made ----
gets 200 '' "$url/api/v1/values?key=tenant"
ok "tenants" python3 -c '
import json
t, d = json.load(open("truth.json")), json.load(open("body"))
v = {r["value"]: r["samples"] for r in d["values"]}
assert v["a"] == t["a"] and v["b"] == t["b"] and d["samples"] == t["samples"] and d["fired"] == t["fired"], (v, t)'
gets 200 '' "$url/api/v1/labels?names_only=1"
ok "keys" jq -e '[.keys[].key] | index("tenant") != null and index("query_id") != null' body

# ---- from the leaf, around a function, against a baseline; parts of tables; files ----
cat >views.py <<'PY'
import json, sys, urllib.parse, urllib.request
url = sys.argv[1]
def get(what, **q):
    return json.load(urllib.request.urlopen(url + '/api/v1/' + what + '?' + urllib.parse.urlencode(q)))
table = get('table', limit=100000)
kids = lambda d: {(d['frames'][3 * d['nodes'][i + 2]].removesuffix(' (inlined)'), d['frames'][3 * d['nodes'][i + 2] + 1]): d['nodes'][i + 1]
                  for i in range(0, len(d['nodes']), 3) if d['nodes'][i] == 1}
leaves = kids(get('flame', view='inverted', max_nodes=100000))
assert leaves == {(r['function'], r['module']): r['self'] for r in table['rows'] if r['self']}, leaves
for r in table['rows'][:12]:
    for view in 'callees', 'callers':
        d = get('flame', view=view, function=r['function'], module=r['module'])
        assert list(kids(d).values()) == [r['samples']], (r, kids(d))
a, b = '{tenant="a"}', '{tenant="b"}'
one, two, both = get('flame', where=a), get('flame', where=b), get('flame', where=a, against=b)
assert both['nodes'][1] == one['samples'] and both['against'][0] == both['against_samples'] == two['samples']
assert len(both['against']) == len(both['verdicts']) == len(both['nodes']) // 3 and both['verdicts'][0] == 0
again = get('flame', where=a, against=a)
assert not any(again['verdicts']) and again['against'] == again['nodes'][1::3]
split = get('flame', where='{comm="server"}', against='{comm!="server"}')  # idle or kernel work there: it must differ
assert set(split['verdicts']) <= {0, 1, 2}
some = get('table', match='LIBZ', sort='samples', limit=5)
want = sorted((r for r in table['rows'] if 'libz' in (r['function'] + '\n' + r['module']).lower()), key=lambda r: -r['samples'])
assert some['n_matched'] == len(want) and [r['samples'] for r in some['rows']] == [r['samples'] for r in want[:5]]
d = get('diff', where=a, against=b, match='libz', limit=100000)
whole = get('diff', where=a, against=b, limit=100000)
assert d['n_rows'] == whole['n_rows'] and d['rows'] == [r for r in whole['rows'] if 'libz' in (r['function'] + '\n' + r['module']).lower()]
root = get('flame', max_nodes=50)
PY
ok "views, baselines, parts of tables" python3 views.py "$url"
# By the values of a label: each is the graph of that value alone; what has no place is in the last.
cat >split.py <<'PY'
import json, sys, urllib.parse, urllib.request
url = sys.argv[1]
def get(what, **q):
    return json.load(urllib.request.urlopen(url + '/api/v1/' + what + '?' + urllib.parse.urlencode(q)))
def fnv(text, h=2166136261):
    for b in text.encode(): h = ((h ^ b) * 16777619) & 0xffffffff
    return '%08x' % h
def paths(d, drop=0):  # path -> samples; without the root and so many levels
    out, path = {}, []
    for depth, samples, frame in zip(*[iter(d['nodes'])] * 3):
        path[depth:] = [tuple(d['frames'][3 * frame:3 * frame + 2])]
        if depth > drop: out.setdefault(tuple(path[1:]), samples)
    return out
for view in '', 'inverted':
    d, rows = get('flame', split='tenant', view=view, max_nodes=100000), get('table', by='tenant')['rows']
    top = sorted(rows, key=lambda r: (-r['samples'], r['key']['tenant'] or ''))
    names = ['(none)' if r['key']['tenant'] is None else r['key']['tenant'] or '(empty)' for r in top]
    got = paths(d)
    assert sorted(d['values']) == sorted(names) and len(names) > 2, (d['values'], names)
    assert d['nodes'][1] == d['samples']
    for r, name in zip(top, names):
        assert got[((name, ''),)] == r['samples'], name
        if not r['key']['tenant']: continue  # no selector tells these two apart
        of = '{tenant="%s"}' % (r['key']['tenant'] or '')
        alone = paths(get('flame', where=of, view=view, max_nodes=100000))
        assert {p[1:]: n for p, n in got.items() if p[0][0] == name and len(p) > 1} == alone, name
        below = get('flame', split='tenant', view=view, max_nodes=100000, root=fnv(name + '\0'))
        assert paths(below) == alone and below['values'] == d['values'] and below['path'][0] == 'all'
two = get('flame', split='tenant', limit=2, max_nodes=100000)
assert len(two['values']) == 3 and two['values'][2] == '(others)', two['values']
assert paths(two)[(('(others)', ''),)] == sum(r['samples'] for r in top[2:])
assert get('flame', split='nosuch')['values'] == ['(none)']
PY
ok "a graph by values" python3 split.py "$url"
refused 400 'split: ' "$url/api/v1/flame?split=tenant&against=x"
refused 400 'split: ' "$url/api/v1/flame?split=tenant&view=callers&function=x"
refused 400 'at most 20' "$url/api/v1/flame?split=tenant&limit=21"
refused 400 'view: ' "$url/api/v1/flame?view=up"
refused 400 'function: ' "$url/api/v1/flame?view=callers"
refused 400 'sort: ' "$url/api/v1/table?sort=name"
refused 400 'before' "$url/api/v1/flame?against_from=now&against_to=now-1h"
gets 200 '</html>' "$url/export/flame.html?where={tenant=\"a\"}"
ok "a file, not a page of ours" sh -c "curl -si '$url/export/flame.html' | grep -qi 'content-disposition: attachment'"
gets 200 '' "$url/export/profile.pb.gz?where={tenant=\"a\"}"
"$ascribe" export store --where '{tenant="a"}' --format folded -o want.folded 2>/dev/null
gets 200 '' "$url/export/folded.txt?where={tenant=\"a\"}"
# In the order in which the reader met them.
ok "the same stacks as the command's" cmp <(sort body) <(sort want.folded)

# ---- a flame graph, pruned, and the part of it below one frame ----
serve log2 "$ascribe" serve wide -l 127.0.0.1:0 --anonymous || finish
cat >zoom.py <<'PY'
import json, sys, urllib.request
url = sys.argv[1]
get = lambda q: json.load(urllib.request.urlopen(url + '/api/v1/flame?' + q))
def tree(d):  # [samples, name, children] of the flat list, and its adding up
    nodes, frames, path = d['nodes'], d['frames'], []
    out = None
    for i in range(0, len(nodes), 3):
        depth, samples, frame = nodes[i:i + 3]
        n = [samples, (frames[3 * frame], frames[3 * frame + 1]), []]
        del path[depth:]
        (path[-1][2].append(n) if path else None)
        out = out or n
        path.append(n)
    return out
def fnv(s, h=2166136261):
    for b in s: h = ((h ^ b) * 16777619) & 0xffffffff
    return h
fid = lambda f: '%08x' % fnv(f[1].encode(), fnv(f[0].encode() + b'\0'))
small, whole = tree(get('max_nodes=300')), tree(get('max_nodes=100000'))
count = lambda n: 1 + sum(map(count, n[2]))
sys.setrecursionlimit(10000)
assert count(small) < 700 < count(whole), (count(small), count(whole))
assert small[0] == whole[0]
OTHER = ('(other)', '')
def sums(n):
    assert sum(c[0] for c in n[2]) <= n[0]
    assert sum(c[1] == OTHER for c in n[2]) <= 1
    for c in n[2]: sums(c)
sums(small)
# Down the biggest child: the subtree that is fetched has what the whole has there, unless it is pruned there too.
n, path, checked = whole, [], 0
while n[2] and checked < 12:
    n = max((c for c in n[2] if c[1] != OTHER), key=lambda c: c[0], default=None)
    if n is None: break
    path.append(fid(n[1]))
    got = tree(get('max_nodes=100000&root=' + '.'.join(path)))
    assert got[0] == n[0] and got[1] == n[1], (got[:2], n[:2])
    names = {c[1]: c[0] for c in n[2] if c[1] != OTHER}
    assert all({c[1]: c[0] for c in got[2]}.get(k) == v for k, v in names.items())
    checked += 1
assert checked > 3, checked
print(count(small), count(whole), checked)
PY
ok "pruned, and a part of it" python3 zoom.py "$url"
refused 404 'no such frame' "$url/api/v1/flame?root=00000000"
refused 400 'eight hexadecimal digits' "$url/api/v1/flame?root=xyz"
refused 400 'eight hexadecimal digits' "$url/api/v1/flame?root=00000000."

# ---- the page ----
gets 200 '<!doctype html>' "$url/"
gets 200 '<!doctype html>' --compressed "$url/"
etag=$(curl -si "$url/" | tr -d '\r' | sed -n 's/^ETag: //p')
gets 304 '' -H "If-None-Match: $etag" "$url/"
ok "nothing foreign is loaded" sh -c "curl -si '$url/' | grep -q \"Content-Security-Policy: default-src 'self'\""

# ---- metrics ----
for i in 1 2 3; do curl -gs "$url/api/v1/table?where={comm=\"never$i\"}" >/dev/null; done
gets 200 'ascribe_http_requests_total{route="flame",code="2xx"}' "$url/metrics"
ok "promtool check metrics" sh -c 'promtool check metrics <body'
before=$(grep -c . body)
for i in $(seq 40); do
	curl -gs "$url/api/v1/table?where={comm=\"x$i\"}&by=k$i" "$url/no/$i" >/dev/null
done
gets 200 '' "$url/metrics"
ok "series do not grow with what is asked" test "$(grep -c . body)" -le $((before + 25))

# ---- tokens, TLS ----
echo "0123456789abcdef0123" >token
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
	-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
serve log3 "$ascribe" serve store -l 127.0.0.1:0 --token-file token --tls-cert cert.pem \
	--tls-key key.pem || finish
gets 200 ok --cacert cert.pem "$url/healthz"
refused 401 'a token is needed' --cacert cert.pem "$url/api/v1/stat"
refused 401 'wrong token' --cacert cert.pem -H 'Authorization: Bearer 0123456789abcdef0124' \
	"$url/api/v1/stat"
refused 401 'wrong token' --cacert cert.pem -H 'Authorization: Bearer ' "$url/api/v1/stat"
refused 401 'wrong token' --cacert cert.pem -H 'Authorization: Basic 0123456789abcdef0123' \
	"$url/api/v1/stat"
refused 401 'a token is needed' --cacert cert.pem "$url/metrics"
gets 200 '<!doctype html>' --cacert cert.pem "$url/" # it asks for the token
refused 401 'a token is needed' --cacert cert.pem "$url/export/flame.html"
refused 401 'a token is needed' --cacert cert.pem "$url/no/such/path"
handshake() { # version: that of the connection, or nothing
	echo | OPENSSL_CONF=/dev/null openssl s_client -connect "${url#https://}" -"$1" -cipher ALL:@SECLEVEL=0 2>/dev/null | sed -n 's/^New, \(TLSv[0-9.]*\).*/\1/p'
}
for v in tls1 tls1_1; do
	ok "no $v" test "$(handshake $v)" = ""
done
ok "TLS 1.2" test "$(handshake tls1_2)" = TLSv1.2
ok "TLS 1.3" test "$(handshake tls1_3)" = TLSv1.3
gets 200 '"fired"' --cacert cert.pem -H 'Authorization: Bearer 0123456789abcdef0123' "$url/api/v1/stat"
says() { # what it must say, arguments of serve...
	local text=$1
	shift
	ok "says: $text" sh -c "! timeout 10 '$ascribe' serve $* 2>say && grep -qF '$text' say"
}
says 'unencrypted' store -l 0.0.0.0:0
says 'is no address' store -l example:port
says 'TLS needs a certificate and a key' store --tls-cert cert.pem -l 127.0.0.1:0
says '16 to 1024 bytes' store --token-file /dev/null -l 127.0.0.1:0
says 'cannot listen on' store -l "${url#https://}"
says 'nothere' nothere -l 127.0.0.1:0

# ---- several stores ----
serve log5 "$ascribe" serve store wide -l 127.0.0.1:0 --anonymous || finish
both=$(curl -s "$url/api/v1/stat" | jq .fired)
ok "several stores are served as one: $both" test "$both" = \
	$(($("$ascribe" stat store --json | jq .fired) + \
		$("$ascribe" stat wide --json | jq .fired)))
ok "with the label host" sh -c "curl -s '$url/api/v1/labels' | jq -e '[.keys[].key] | index(\"host\")' >/dev/null"
kill "$pid"

# ---- a graph by a key of thousands of values, over hours ----
serve log6 "$ascribe" serve "$build/tests/long" -l 127.0.0.1:0 --anonymous || finish
curl -s "$url/api/v1/flame?split=query_id&limit=5" >body
ok "each of the five is a value, the rest are others" \
	jq -e '.values | length == 6 and .[5] == "(others)" and (.[:5] | all(test("^[0-9]+$")))' body
ok "they add up to all samples" python3 - "$build/tests/long.json" <<'PY'
import json, sys
d, truth = json.load(open('body')), json.load(open(sys.argv[1]))
top = [n for depth, n, frame in zip(*[iter(d['nodes'])] * 3) if depth == 1]
assert len(top) > 2 and sum(top) == d['samples'] == truth['samples'], (top, d['samples'], truth)
PY
kill "$pid"

# ---- while it is written ----
"$build/tests/mkstore" growing grow >/dev/null &
writer=$!
for i in $(seq 600); do [ -e growing/HEADER ] && break; sleep 0.05; done
serve log4 "$ascribe" serve growing -l 127.0.0.1:0 --anonymous || finish
last=0 seen=0
while kill -0 $writer 2>/dev/null; do
	n=$(curl -s "$url/api/v1/stat" | jq -r '.fired // "none"')
	case $n in none | '') last=bad; break ;; esac
	[ "$n" -ge "$last" ] || { last=bad; break; }
	[ "$n" = "$last" ] || seen=$((seen + 1))
	last=$n
	sleep 0.1
done
wait $writer
ok "windows come into sight as they are written: $seen, $last" test "$last" != bad -a "$seen" -ge 2
"$ascribe" stat growing --json >want.json
for i in $(seq 120); do # what took long on a busy host is answered from memory for 10 s at most
	curl -s "$url/api/v1/stat" | grep -qF "\"fired\":$(jq .fired want.json)," && break
	sleep 0.1
done
gets 200 "\"fired\":$(jq .fired want.json)" "$url/api/v1/stat"
kill -TERM $pid
wait $pid
ok "SIGTERM ends it well" test $? = 0
finish
