#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `--clickhouse URL` of the reading commands: for random selectors, keys and ranges the answers are
# those of the store whose windows were pushed.
. "$(dirname "$0")/lib.bash"
. "$here/clickhouse.bash"
needs_engine
"$build/tests/mkstore" store >/dev/null || exit 1
cp -r "$build/tests/long" long
minutes=$(in_part 70 200) # of `long`, a window each
engine server
clickhouse=$url
make_tables
pushes 0 'sent: ' long "$url" --to "$((1777629600 + minutes * 60))"
cat >compare.py <<'PY'
"""compare.py URL STORE SEED N MINUTES: random questions to both; the answers must be the same."""
import json, os, random, subprocess, sys
url, store, seed, n, minutes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
draw = random.Random(seed)
def run(*a):
    p = subprocess.run([os.environ['ASCRIBE'], *a], capture_output=True)
    return p.returncode, p.stdout.decode(errors='surrogateescape'), p.stderr.decode(errors='surrogateescape')
where = ['', '{comm="postgres"}', '{comm!="postgres"}', '{comm=~"p.*|nginx"}', '{comm!~".*s"}', '{tenant="a"}', '{tenant=~"a|b",comm="nginx"}', '{query_id="1"}',
         '{query_id=~"1.*"}', '{tenant=""}', r'{comm=~"(pos|ng).+"}', '{comm="it\'s \\\\ \\"}{"}']
by = [[], ['--by', 'comm'], ['--by', 'tenant,comm'], ['--by', 'query_id'], ['--by', 'thread'], ['--by', 'comm,query_id']]
def moment():
    at = 1777629600 + draw.randrange(0, minutes * 60)
    return str(at // 60 * 60 if draw.random() < 0.5 else at // 3600 * 3600 if draw.random() < 0.2 else at)
def rows(o):
    out = {}
    for r in o['rows']:
        key = json.dumps(r['key'], sort_keys=True) if 'key' in r else (r['function'], r.get('module'))
        assert key not in out, key
        out[key] = (r['samples'], r.get('self'))
    return out
def tree(o):
    return sorted((json.dumps(x, sort_keys=True) for x in o['nodes'])) if 'nodes' in o else o
same = empty = 0
for i in range(n):
    a = ['--json', '-n', '0']
    w = draw.choice(where)
    if w:
        a += ['--where', w]
    t = sorted([moment(), moment()], key=int)
    if t[0] == t[1]:
        continue
    a += ['--from', t[0], '--to', t[1]]
    if draw.random() < 0.2:
        a += ['--event', 'page-faults']
    if draw.random() < 0.2:
        a += ['--idle']
    a += draw.choice(by)
    if draw.random() < 0.2:
        a += ['-n', str(draw.randrange(1, 9))]
    code, out, err = run('report', store, '--exact', *a)  # of keys with many values a store keeps the largest
    code2, out2, err2 = run('report', '--clickhouse', url, *a)
    assert not code2 or code, (a, code2, err2)
    if code2:
        empty += 1
        continue
    if code:  # a key or value that the store never had: here that is no error
        assert ('unknown' in err or 'no sample has' in err) and not json.loads(out2)['samples'], (a, err, out2)
        empty += 1
        continue
    x, y = json.loads(out), json.loads(out2)
    assert rows(x) == rows(y), (a, [(k, rows(x).get(k), rows(y).get(k)) for k in {**rows(x), **rows(y)} if rows(x).get(k) != rows(y).get(k)][:5])
    assert x['n_rows'] == y['n_rows'], (a, x['n_rows'], y['n_rows'])
    for k in 'samples', 'fired', 'stored', 'idle', 'from', 'to', 'lost':
        if k in x and x['samples']:
            assert x[k] == y.get(k), (a, k, x[k], y.get(k))
    same += bool(x['samples'])
    empty += not x['samples']
# The whole JSON of other commands, but for what a store of its own has: a name, blocks, the label `host`.
def plain(o):
    for k in 'what', 'host', 'os', 'blocks', 'windows', 'covered', 'store':
        o.pop(k, None)
    for k in 'a', 'b':
        if isinstance(o.get(k), dict):
            plain(o[k])
    if 'keys' in o:
        o['keys'] = [k for k in o['keys'] if not isinstance(k, dict) or k['key'] != 'host']
    return o
def said(code, out, err):
    return plain(json.loads(out)) if not code else err
near = ['--against-from', '1777629600', '--against-to', '1777630200']
kinds = [['flame'], ['flame', *near], ['flame', '--against', '{comm="nginx"}'], ['flame', '--against', '{query_id=~"1.*"}', *near], ['diff', *near], ['diff', '--by', 'tenant,comm', *near],
         ['diff', '--by', 'comm', '--against', '{comm="nginx"}'], ['flame', '--view', 'inverted'], ['flame', '--view', 'callers', '--function', 'memcpy'], ['flame', '-n', '30'], ['labels'], ['labels', 'tenant'],
         ['labels', 'query_id'], ['report', '--step', '5m'], ['report', '--step', '10m', '--by', 'comm', '-n', '0'], ['report', '--step', '1m', '--by', 'tenant,comm']]
for kind in kinds:
    for a in [], ['--where', '{comm="postgres"}'], ['--where', '{comm!~"p.*"}']:
        t = sorted(draw.sample(range(1777629600, 1777629600 + minutes * 60, 60), 2))
        a = ['--json', '--from', str(t[0]), '--to', str(t[1]), *a]
        key = kind[1:2] if kind[0] == 'labels' else []
        rest = a if key else kind[1:] + a
        x, y = said(*run(kind[0], store, *key, *rest)), said(*run(kind[0], '--clickhouse', url, *key, *rest))
        assert x == y, (kind, a, [(k, x.get(k), y.get(k)) for k in x if x.get(k) != y.get(k)] if isinstance(x, dict) else (x, y))
        same += isinstance(x, dict)
assert same > n / 3 + 20, (same, empty)
print(same, 'answers with samples,', empty, 'without')
PY
export ASCRIBE=$ascribe
seed=${SEED:-$(date +%j)}
echo "SEED=$seed"
ok "random questions" python3 compare.py "$url" long "$seed" "$(in_part 15 300)" \
	"$minutes"

# ---- functions: the engine counts them, and no stack is fetched ----
# Questions to the engine with a word: what `asked` has more of than before.
questions_with() { grep -c "$1" server/asked; }
functions() {
	local counted fetched
	counted=$(questions_with 'n_all') fetched=$(questions_with 'any(kinds)')
	"$ascribe" report long --json --to "$((1777629600 + minutes * 60))" "$@" |
		jq -S .rows,.n_rows >store.json
	"$ascribe" report --clickhouse "$clickhouse" --json "$@" | jq -S .rows,.n_rows >fleet.json
	ok "functions $*: $(wc -l <store.json) lines" cmp store.json fleet.json
	[ "$(questions_with 'n_all')" -gt "$counted" ] && counted=1 || counted=0
	[ "$(questions_with 'any(kinds)')" -gt "$fetched" ] && fetched=1 || fetched=0
	how="$counted counted, $fetched fetched"
}
functions
ok "the engine counts: $how" test "$how" = "1 counted, 0 fetched"
functions -n 2 --where '{comm="postgres"}'
ok "the engine counts: $how" test "$how" = "1 counted, 0 fetched"
functions --names simple
ok "of short names it does not: $how" test "$how" = "0 counted, 1 fetched"
functions --idle
ok "with idle CPUs it does not: $how" test "$how" = "0 counted, 1 fetched"
# Sent again, by other nodes, too.
ask 'INSERT INTO ascribe_stacks (hash, kinds, functions, modules, build_ids, files, lines, offsets)
	SELECT hash, kinds, functions, modules, build_ids, files, lines, offsets FROM ascribe_stacks'
functions
ok "stacks that came twice: $how" test "$how" = "1 counted, 0 fetched"
# Stacks that come after their samples, and names of an older version.
ask 'CREATE TABLE late AS ascribe_stacks'
ask 'INSERT INTO late (hash, kinds, functions, modules, build_ids, files, lines, offsets)
	SELECT hash, kinds, functions, modules, build_ids, files, lines, offsets FROM ascribe_stacks'
ask 'ALTER TABLE ascribe_functions DELETE WHERE 1 SETTINGS mutations_sync = 1'
functions
ok "names that are missing: $how" test "$how" = "1 counted, 1 fetched"
ask 'TRUNCATE TABLE ascribe_stacks'
"$ascribe" report --clickhouse "$clickhouse" --json | jq -r '.rows[].function' >fleet.json
ok "stacks that are missing" test "$(cat fleet.json)" = '[unknown stack]'
ask 'INSERT INTO ascribe_stacks (hash, kinds, functions, modules, build_ids, files, lines, offsets)
	SELECT hash, kinds, functions, modules, build_ids, files, lines, offsets FROM late'
functions
ok "stacks that came late: $how" test "$how" = "1 counted, 0 fetched"

# ---- a new build on three of four hosts: `parse` grew on two of them, `render` on the third ----
ask 'CREATE DATABASE builds'
url="$clickhouse?database=builds"
make_tables
ask "INSERT INTO ascribe_events (name, unit, ns_per_sample, period, place)
	VALUES ('cpu-clock', 'nanoseconds', 10000000, 10000000, 0)"
ask "INSERT INTO ascribe_sets (day, hash, series, labels, integers)
	VALUES ('2026-05-01', 7, 7, map('service', 'web', 'comm', 'web'), [])"
ask "INSERT INTO ascribe_series (series, labels, integers)
	VALUES (7, map('service', 'web', 'comm', 'web'), [])"
ask "INSERT INTO ascribe_stacks (hash, kinds, functions, modules, build_ids, files, lines, offsets)
	SELECT hash, [0, 0, 0], [if(hash % 2, 'memcpy', 'render'), if(hash % 2, 'parse', 'main'),
	'main'], [if(hash % 2, '/lib/libc.so', '/usr/bin/web'), '/usr/bin/web', '/usr/bin/web'],
	[if(hash % 2, 'cc', build), build, build], ['', '', ''], [0, 0, 0], [1, 2, 3]
	FROM (SELECT number + 10 AS hash, if(number < 2, 'aaaa', 'bbbb') AS build FROM numbers(4))"
# Stacks 10 and 11 are of the old build, 12 and 13 of the new one; odd ones are in \`parse\`.
ask "INSERT INTO ascribe_windows (time, host, start, end, windows, fired, stored, outside,
	own_cpu_ns, own_rss, lost, flagged) SELECT toDateTime(1777629605 + number * 10, 'UTC'),
	'h1', toDateTime64(1777629600 + number * 10, 9, 'UTC'),
	toDateTime64(1777629610 + number * 10, 9, 'UTC'), 1, 9, 9, 0, 0, 0, map(), map()
	FROM numbers(120)"
ask "INSERT INTO ascribe_samples (time, host, event, ns_per_sample, series, set, stack, wait,
	samples, value) SELECT toDateTime(1777629605 + w * 10, 'UTC'), concat('h', toString(h)),
	'cpu-clock', 10000000, 7, 7, stack, '', n, n * 10000000 FROM (
	SELECT number % 120 AS w, intDiv(number, 120) % 4 + 1 AS h, intDiv(number, 480) AS parse,
	w >= 60 AS now, 10 + parse + if(now AND h != 4, 2, 0) AS stack,
	multiIf(NOT now, 50, parse = (h != 3), 90, 50) AS n FROM numbers(960))"
new_build() {
	"$ascribe" findings --clickhouse "$url" --from 1777630200 --to 1777630800 "$@"
}
new_build --json >out
ok "the function that grew on most hosts" jq -e '.findings[] | select(.finding == "build") |
	.file == "/usr/bin/web" and .build_id == "bbbb" and .build_id_before == "aaaa" and
	(.grew_most | .now = (.now * 1000 | round) | .before = (.before * 1000 | round)) ==
	{ function: "parse", module: "/usr/bin/web", now: 230, before: 150, hosts: 3, grew_on: 2 }' out
new_build >out
ok "in words" grep -A1 'web has a new build: bbbb, aaaa before' out
ok "and where" grep -F '+0.08 on 2 of 3 hosts in parse' out
new_build --json --where '{host="h3"}' >out
ok "of one host" jq -e '.findings[] | select(.finding == "build") |
	.grew_most | .function == "render" and .hosts == 1' out
serve builds.log "$ascribe" serve --clickhouse "$url" --anonymous -l 127.0.0.1:0 || finish
gets 200 '"grew_on":2' "$url/api/v1/findings?from=1777630200&to=1777630800"
url=$clickhouse

# ---- waits, with who was running, who woke and how long they were: of real programs ----
cat >work.sh <<'END'
for i in 1 2 3; do
	(
		n=0
		while [ $n -lt 40 ]; do
			n=$((n + 1))
			flock lock sleep 0.02
		done
	) &
done
wait
END
waits="$clickhouse?database=waits"
if [ "$(id -u)" = 0 ] && "$ascribe" record --wall --waker -o waits -- sh work.sh >out 2>&1; then
	ask 'CREATE DATABASE waits'
	pushes 0 'sent: ' waits "$waits" --create-tables --from -1h --memory 256MiB
	# Arguments of a question: the store and ClickHouse say the same.
	same_answer() {
		local of="del(.what, .host, .os, .blocks, .windows, .covered, $1)" command=$2
		shift 2
		timeout 60 "$ascribe" "$command" waits --json "$@" 2>store.err |
			jq -S "$of" >store.json
		timeout 60 "$ascribe" "$command" --clickhouse "$waits" --json "$@" 2>fleet.err |
			jq -S "$of" >fleet.json
		ok "$command $*: $(wc -l <store.json) lines" cmp store.json fleet.json
		ok "there is an answer: $command $*" test -s fleet.json ||
			tail store.err fleet.err out
	}
	same_answer .x blame
	same_answer .x blame --by comm -w '{comm="flock"}'
	same_answer .x blame --wakers
	same_answer .x blame --wakers --idle
	same_answer .x report --metric off --by comm
	same_answer .x report --metric runq --by comm
	same_answer .x report --metric off --by wait,wait_in -n 0
	same_answer .x report --metric waker --by by.comm
	for m in cpu off runq wall waker; do
		same_answer .x report --metric $m
	done
	same_answer .x flame --metric waker
	same_answer .x flame --metric off --against '{comm="sleep"}'
	same_answer .x why --where '{comm="flock"}'
	same_answer '.cpus, .own, .silent' stat
	serve waits.log "$ascribe" serve waits --anonymous -l 127.0.0.1:0 || finish
	of_store=$url
	serve fleet.log "$ascribe" serve --clickhouse "$waits" --anonymous -l 127.0.0.1:0 || finish
	for q in "blame?from=now-1h" "blame?by=comm&where=%7Bcomm=%22flock%22%7D" \
		"blame?metric=waker" "table?metric=off" "table?metric=runq&sort=samples"; do
		for of in store fleet; do
			[ $of = store ] && at=$of_store || at=$url
			curl -gsS --max-time 60 "$at/api/v1/$q" |
				jq -S 'del(.what, .host, .os, .blocks, .windows, .covered)' >of_$of.json
		done
		ok "serve: $q" cmp of_store.json of_fleet.json
		ok "rows: $q" jq -e '.rows // .cells | length > 0' of_fleet.json
	done
	for event in off-cpu runq waker; do
		for at in "$of_store" "$url"; do
			curl -gsS --max-time 60 "$at/pyroscope/render?query=$event%7B%7D" |
				jq -S .flamebearer
		done >graphs.json
		ok "serve: render of $event" jq -es '.[0] == .[1] and .[0].numTicks > 0' graphs.json
	done
else
	echo "waits are left out: $(tail -1 out 2>/dev/null)"
fi

# ---- the server ----
serve store.log "$ascribe" serve long --anonymous -l 127.0.0.1:0 || finish
of_store=$url
serve fleet.log "$ascribe" serve --clickhouse "$clickhouse" --anonymous -l 127.0.0.1:0 || finish
range="from=1777629600&to=1777632600"
same='del(.what, .host, .os, (., .a, .b | objects | (.blocks, .windows, .covered, .store)),
	(.keys | arrays | .[] | select(.key? == "host")))'
for q in "flame?$range" "flame?$range&view=inverted&split=comm" \
	"labels?$range" "table?$range" \
	"table?$range&sort=samples&limit=3" "table?$range&match=mem" \
	"table?$range&by=comm,tenant" "values?$range&key=tenant" \
	"series?$range&by=comm&step=5m" "table?$range&where=%7Bcomm%3D%22nginx%22%7D" \
	"flame?from=1777630830&to=1777632000&against_from=1777629600&against_to=1777630830" \
	"flame?$range&where=%7Btenant=%22a%22%7D&against=%7Btenant=%22b%22%7D" \
	"diff?$range&by=comm&against=%7Bcomm=%22nginx%22%7D" \
	"diff?from=1777630800&to=1777632000&against_from=1777629600&against_to=1777630800"; do
	curl -gsS --max-time 60 "$of_store/api/v1/$q" | jq -cS "$same" >of_store.json
	curl -gsS --max-time 60 "$url/api/v1/$q" | jq -cS "$same" >of_fleet.json
	ok "serve: $q" cmp of_store.json of_fleet.json
done
gets 200 '"events":["cpu-clock"' "$url/api/v1/labels?names_only=1"
gets 200 'html' "$url/"
gets 200 '"findings"' "$url/api/v1/findings?$range"
gets 400 'none of cpu' "$url/api/v1/table?metric=nix"
gets 200 '"fired"' "$url/api/v1/stat?$range"
refused 400 'no blame times' "$url/api/v1/blame?$range"
refused 501 'not served from ClickHouse' "$url/api/v1/histogram?route=flame"

# As Pyroscope: the same questions to both, by random selectors and ranges.
cat >pyroscope.py <<'PY'
import gzip, json, random, sys, urllib.error, urllib.parse, urllib.request
from wire import numbers, parse
of_store, of_fleet, draw, first, last = sys.argv[1], sys.argv[2], random.Random(sys.argv[3]), 1777629600, 1777632600
def ask(base, path, body=None, kind='json'):
    r = urllib.request.Request(base + path, body, {'Content-Type': 'application/' + kind} if body is not None else {})
    try:
        return 200, urllib.request.urlopen(r, timeout=60).read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
def drawn(text):  # steps at the end, where nothing was recorded, may be left out
    o = json.loads(text)
    t = o.get('timeline', {'samples': []})
    while t['samples'] and not t['samples'][-1]:
        t['samples'].pop()
    return o
def call(method, body):
    return '/querier.v1.QuerierService/' + method, json.dumps(body).encode()
def same(path, body=None, of=json.loads):
    (a, x), (b, y) = ask(of_store, path, body), ask(of_fleet, path, body)
    assert (a, a == 200 and of(x)) == (b, b == 200 and of(y)), (path, body, a, x[:600], b, y[:600])
    return a, x
types = json.loads(same(*call('ProfileTypes', {}))[1])['profileTypes']
names = [set(json.loads(ask(b, *call('LabelNames', {}))[1])['names']) - {'host'} for b in (of_store, of_fleet)]
assert names[0] == names[1], names
stats = [json.loads(ask(b, *call('GetProfileStats', {}))[1]) for b in (of_store, of_fleet)]
assert all(s['dataIngested'] and int(s['oldestProfileTime']) == first * 1000 for s in stats), stats
selectors = ['{}', '{comm="postgres"}', '{comm!~"p.*"}', '{tenant=~"a|b"}', '{service_name="nginx"}', '{tenant=""}', '{comm="nobody"}', '{__session_id__="x"}']
filled = 0
for i in range(int(sys.argv[4])):
    t = sorted(draw.sample(range(first, last, 60), 2))
    kind = draw.choice(types)['ID']
    where = dict(profileTypeID=kind, labelSelector=draw.choice(selectors), start=str(t[0] * 1000), end=str(t[1] * 1000))
    other = dict(where, labelSelector=draw.choice(selectors))
    keys = draw.choice([[], ['comm'], ['tenant', 'service_name']])
    matchers = [where['labelSelector'], '{__profile_type__="%s"}' % kind]
    for method, body in (('SelectMergeStacktraces', where), ('Diff', dict(left=where, right=other)), ('SelectSeries', dict(where, groupBy=keys, step=draw.choice([60, 300, 1200]))),
                         ('LabelValues', dict(name=draw.choice(['comm', 'tenant', 'service_name', 'nix']), matchers=matchers, start=where['start'], end=where['end'])),
                         ('Series', dict(labelNames=keys or ['__profile_type__'], matchers=matchers, start=where['start'], end=where['end']))):
        def sets(text):
            o = json.loads(text)
            for list_of in 'labelsSet', 'series', 'names':
                if list_of in o and method != 'SelectMergeStacktraces':
                    o[list_of] = sorted(o[list_of], key=lambda v: json.dumps(v, sort_keys=True))
            return o
        status, text = same(*call(method, body), of=sets)
        filled += status == 200 and len(text) > 200
    q = urllib.parse.urlencode({'query': kind + where['labelSelector'], 'from': t[0], 'until': t[1]})
    same('/pyroscope/render?' + q, of=drawn)
    same('/pyroscope/label-values?' + urllib.parse.urlencode({'label': 'comm', 'from': t[0], 'until': t[1]}), of=lambda x: sorted(json.loads(x)))
    same('/pyroscope/render-diff?' + urllib.parse.urlencode({'leftQuery': where['labelSelector'], 'rightQuery': other['labelSelector'], 'leftFrom': t[0], 'leftUntil': t[1], 'rightFrom': first, 'rightUntil': t[1]}))
def values(text):
    return sorted(tuple(numbers(parse(s)[2][0])) for s in parse(gzip.decompress(text))[2])
end = int(stats[1]['newestProfileTime']) // 1000  # the store goes on
for where in '', '&where=' + urllib.parse.quote('{tenant="a"}'):
    a = ask(of_fleet, '/debug/pprof/profile?seconds=600' + where)[1]
    b = ask(of_store, f'/export/profile.pb.gz?from={end - 600}&to={end}' + where)[1]
    assert values(a) == values(b) and len(values(a)) > 10, (where, len(values(a)), len(values(b)))
assert filled > 3, filled
print(filled, 'answers of some size')
PY
ok "as Pyroscope" python3 pyroscope.py "$of_store" "$url" "$seed" "$(in_part 8 100)"
ok "no store of a question stays" test "$(find "${TMPDIR:-/var/tmp}"/ascribe-*/ask-* -maxdepth 0 \
	2>/dev/null | wc -l)" = 0
finish
