#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The reading commands on a synthetic store whose contents tests/tools/mkstore.c prints: sums, pprof
# as Go reads it, JSON, hostile names, and the exit status of every misuse.
. "$(dirname "$0")/lib.bash"
"$build/tests/mkstore" wide wide >wide.json || exit 1
ln -s store ascribe.data

# ---- sums ----
report() { "$ascribe" report store --json "$@" 2>/dev/null; }
report >report.json
report --by tenant >tenant.json
report --by tenant,comm >both.json
"$ascribe" stat store --json >stat.json
"$ascribe" labels store --json >keys.json 2>/dev/null
"$ascribe" labels store tenant --json >values.json 2>/dev/null
"$ascribe" labels store event --json >events.json 2>/dev/null
"$ascribe" export store --format folded >folded.txt 2>/dev/null
"$ascribe" export store --format folded --unit value >values.txt 2>/dev/null
"$ascribe" export store --format pprof -o cpu.pb.gz 2>/dev/null
"$ascribe" flame store -o page.html 2>/dev/null
"$ascribe" flame store --json >page.json 2>/dev/null
cat >check.py <<'PY'
import json, re, sys
load = lambda name: json.load(open(name))
truth, report, tenant, both, stat = map(load, ('truth.json', 'report.json', 'tenant.json', 'both.json', 'stat.json'))
NS = 10101010
for r in (report, tenant, both):
    assert r['samples'] == truth['samples'], r['samples']
    assert r['fired'] == r['stored'] + sum(r['lost'].values()) == truth['fired']
    assert r['stored'] == truth['stored'] and r['idle'] == truth['idle']
    assert abs(r['seconds'] - truth['samples'] * NS / 1e9) < 1e-6
    assert (r['from'], r['to'], r['blocks']) == (1777629600, 1777629630, 3)
    for row in r['rows']:
        assert row['low'] <= row['share'] <= row['high'], row
        assert abs(row['share'] - row['samples'] / r['samples']) < 1e-9
        assert abs(row['seconds'] - row['samples'] * NS / 1e9) < 1e-6
assert sum(r['self'] for r in report['rows']) == truth['samples']
assert sum(r['samples'] for r in both['rows']) == truth['samples']
rows = {r['key']['tenant']: r['samples'] for r in tenant['rows']}
want = {'a': truth['a'], 'b': truth['b'], '<script>alert(1)</script>': truth['c'], None: truth['none']}
want[''] = truth['samples'] - sum(want.values())
assert rows == want, (rows, want)
assert stat['fired'] == stat['stored'] + sum(stat['lost'].values()) == truth['fired']
assert sum(stat['lost'].values()) == truth['lost'] and stat['outside'] == 21
for c in stat['cpus']:
    assert c['fired'] == c['stored'] + sum(c['lost'].values())
assert sum(c['fired'] for c in stat['cpus']) == stat['fired'] and len(stat['cpus']) == 2
assert stat['own']['cpu_seconds'] == 0.006 and stat['own']['rss_bytes'] == 20 << 20
values = {v['value']: v['samples'] for v in load('values.json')['values']}
del want[None]
assert values == want, values
keys = {k['key']: (k['values'], k['samples']) for k in load('keys.json')['keys']}
assert keys['tenant'] == (4, sum(want.values())), keys
assert keys['comm'][1] == truth['samples'] and keys['query_id'][0] == 40
events = {v['value']: v['samples'] for v in load('events.json')['values']}
assert events == {'cpu-clock': truth['samples'], 'page-faults': truth['faults']}, events
for name, want in ('folded.txt', truth['samples']), ('values.txt', truth['samples'] * 10101010):
    assert sum(int(l.rsplit(' ', 1)[1]) for l in open(name, 'rb').read().decode('latin1').split('\n')[:-1]) == want, name

# The page: no markup from names, its data is whole.
page = open('page.html', encoding='utf-8').read()
data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1)
assert '<' not in data
data = json.loads(data)
assert data == load('page.json')
assert data['nodes'][:2] == [0, truth['samples']] and data['idle'] == truth['idle']
assert any('</script>' in str(f) for f in data['frames'])
assert 'http' not in page.replace('http-equiv', '')
PY
ok "sums" python3 check.py
ok "report by function is the default" cmp <(report) <(report --by function)
ok "where" test "$(report --where '{tenant="a"}' | jq .samples)" = "$(jq .a truth.json)"
ok "idle" test "$(report --idle | jq .samples)" = "$(jq '.samples + .idle' truth.json)"
ok "event" test "$(report -e page-faults | jq '.samples, .seconds + 0' | xargs)" = "$(jq .faults truth.json) 0"
ok "one window" test "$(report --from 2026-05-01T10:00:10Z --to 1777629620 | jq .blocks)" = 1
ok "default store" "$ascribe" report --json
ok "limit" test "$(report -n 2 | jq '.rows | length')" = 2
ok "no escape sequence reaches the terminal" sh -c "! '$ascribe' report store -n 0 2>&1 | grep -qP '[\x00-\x08\x0b-\x1f\x7f]'"
ok "nor from stat and labels" sh -c "! { '$ascribe' stat store; '$ascribe' labels store comm; } 2>&1 | grep -qP '[\x00-\x08\x0b-\x1f\x7f]'"
exits 2 'unknown label key "k\xff"' "$ascribe" report store --json --by $'k\377'
ok "explain" sh -c "'$ascribe' report store --explain 2>&1 >/dev/null | grep -q '3 blocks that hold 3 windows'"

# ---- Go's pprof ----
if command -v go >/dev/null; then
	pprof() { go tool pprof -sample_index=samples -nodecount=1000000 -nodefraction=0 \
		-edgefraction=0 "$@" cpu.pb.gz; }
	pprof -top >top.txt 2>err || cat err
	pprof -tags >tags.txt 2>err || cat err
	cat >pprof.py <<'PY'
import json, re
truth, report = json.load(open('truth.json')), json.load(open('report.json'))
top = open('top.txt', errors='replace').read()
assert re.search(r'of %d total' % truth['samples'], top), top[:400]
want = {}
for r in report['rows']:
    s = want.setdefault(r['function'], [0, 0])
    s[0] += r['self']
    s[1] += r['samples']
seen = 0
for line in top.splitlines():
    m = re.match(r'\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(.*?)(?: \((?:partial-)?inline\))?$', line)
    # A function in two modules is two rows of the report and one of pprof.
    if m and m[3] in want and sum(r['function'] == m[3] for r in report['rows']) == 1:
        assert [int(m[1]), int(m[2])] == want[m[3]], (line, want[m[3]])
        seen += 1
assert seen >= 15, seen
tags = open('tags.txt', errors='replace').read()
for key in ('tenant', 'comm', 'thread', 'query_id', 'event'):
    assert re.search(r'^ *%s: Total' % key, tags, re.M), (key, tags)
assert re.search(r'^ *%d\.0 \([^)]*\): a$' % truth['a'], tags, re.M), tags
assert re.search(r'^ *%d\.0 \([^)]*\): cpu-clock$' % truth['samples'], tags, re.M), tags
PY
	ok "pprof -top and -tags against report" python3 pprof.py
	ok "pprof -traces" pprof -traces
	ok "pprof -raw" pprof -raw
	"$ascribe" export store --format pprof --label-names otel -o otel.pb.gz 2>/dev/null
	ok "pprof: labels by OpenTelemetry's names" sh -c \
		"tags() { go tool pprof -tags \"\$1\" | sed 's/^ *//' | sort; }
		tags otel.pb.gz | sed 's/^thread.name:/thread:/' | sort >otel.txt
		tags cpu.pb.gz | cmp - otel.txt && grep -q '^thread:' otel.txt"
	ok "pprof: seconds" sh -c "go tool pprof -top cpu.pb.gz | grep -q 'cpu'"
	ok "pprof: a tag selects" sh -c "go tool pprof -sample_index=samples -top -tagfocus=tenant=^a\$ cpu.pb.gz 2>&1 | grep -q 'accounting for $(jq .a truth.json)'"
	"$ascribe" export empty --format pprof -o empty.pb.gz 2>/dev/null
	ok "pprof of nothing" sh -c "go tool pprof -raw empty.pb.gz 2>&1 | grep -q 'Samples:\|empty common sample type list'" # what Go 1.24 says
fi

# ---- pruning ----
ok "wide: pruned, sums kept" python3 - <<PY
import json, subprocess
d = json.loads(subprocess.run(["$ascribe", "flame", "wide", "--json"], capture_output=True, check=True).stdout)
n = len(d['nodes']) // 3
assert d['pruned'] > 0 and n <= 40001, n
assert d['nodes'][1] == json.load(open('wide.json'))['samples']
assert sum(d['nodes'][i + 1] for i in range(0, 3 * n, 3) if d['nodes'][i] == 1) == d['nodes'][1]
PY

# ---- other views, and a comparison: beside the table of functions ----
ok "views and a baseline" python3 - <<PY
import json, subprocess
def run(*args):
    return json.loads(subprocess.run(["$ascribe", *args, "--json"], capture_output=True, check=True).stdout)
def nodes(d):
    f = d['frames']
    return [(d['nodes'][i], d['nodes'][i + 1], f[3 * d['nodes'][i + 2]], f[3 * d['nodes'][i + 2] + 1]) for i in range(0, len(d['nodes']), 3)]
rows = run('report', 'store')['rows']
leaves = {(n.replace(' (inlined)', ''), m): s for depth, s, n, m in nodes(run('flame', 'store', '--view', 'inverted')) if depth == 1}
assert leaves == {(r['function'], r['module']): r['self'] for r in rows if r['self']}, leaves
for view in 'callers', 'callees':
    for r in [r for r in rows if '\ufffd' not in r['function']]:  # no UTF-8: not to be typed
        d = nodes(run('flame', 'store', '--view', view, '--function', r['function'], '--module', r['module']))
        assert d[0][1] == d[1][1] == r['samples'] and d[1][0] == 1 and sum(x[0] == 1 for x in d) == 1, (view, r, d[:2])
truth = json.load(open('truth.json'))
d = run('flame', 'store', '--where', '{tenant="a"}', '--against', '{tenant="b"}')
assert (d['nodes'][1], d['against'][0], d['against_samples'], len(d['verdicts'])) == (truth['a'], truth['b'], truth['b'], len(d['nodes']) // 3)
PY
ok "a comparison as a page" sh -c "'$ascribe' flame store --where '{tenant=\"a\"}' --against '{tenant=\"b\"}' -o against.html && grep -q against_samples against.html"

# ---- misuse ----
exits 2 'none of down, inverted' "$ascribe" flame store --view up -o no.html
exits 2 'of which --function' "$ascribe" flame store --view callers -o no.html
exits 2 'are for --view' "$ascribe" flame store --function main -o no.html
exits 1 'no such function' "$ascribe" flame store --view callers --function nobody -o no.html
exits 2 '--against: selector' "$ascribe" flame store --against '{a=' -o no.html
exits 2 '--against-from must be before' \
	"$ascribe" flame store --against-from now --against-to now-1h -o no.html
ok "no file of what was not done" test ! -e no.html
mkdir other && echo x >other/file
echo x >plain
# Run with stdout a pipe that nobody reads, SIGPIPE ignored as under some services.
cat >broken.py <<'PY'
import os, signal, subprocess, sys
r, w = os.pipe()
os.close(r)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
sys.exit(subprocess.run(sys.argv[1:], stdout=w, restore_signals=False).returncode)
PY
exits 2 'Usage: ascribe' "$ascribe"
exits 2 "did you mean 'report'" "$ascribe" reprot
exits 2 "no command 'zzzzz'" "$ascribe" zzzzz
exits 2 'a command comes first' "$ascribe" --nonsense
exits 0 '' "$ascribe" --version
exits 0 '' "$ascribe" --help
for c in report flame export labels stat; do
	exits 0 '' "$ascribe" help $c
	exits 0 '' "$ascribe" $c --help
	exits 2 "unknown option --nonsense" "$ascribe" $c --nonsense
	exits 2 "unexpected argument" "$ascribe" $c $(seq 70)
	args=
	[ $c = export ] && args='--format pprof'
	[ $c = flame ] && args='-o x.html'
	exits 1 'nowhere' "$ascribe" $c ./nowhere $args
	exits 1 'other' "$ascribe" $c ./other $args
	exits 1 'plain' "$ascribe" $c ./plain $args
	exits 0 '' "$ascribe" $c store $args
	exits 0 '' "$ascribe" $c empty $args
	exits 2 '--from must be before --to' "$ascribe" $c store $args --from 20 --to 10
	exits 2 'not a time' "$ascribe" $c store $args --from yesterday
	[ $c = stat ] || exits 2 '' "$ascribe" $c store $args --where '{tenant='
	[ $c = stat ] || exits 2 'no-such' "$ascribe" $c store $args --event no-such
	exits 1 'o space left' sh -c "exec '$ascribe' $c store ${args/-o x.html/} >/dev/full"
	exits 1 '' sh -c "exec '$ascribe' $c store ${args/-o x.html/} >&-"
	# A reader that is gone, whether SIGPIPE is ignored or not: quiet, as by SIGPIPE (-13 in a
	# byte).
	exits 243 '' python3 broken.py "$ascribe" $c store ${args/-o x.html/}
	ok "$c: nobody complains" sh -c '! grep -v "complete: " err'
done
exits 2 'no format' "$ascribe" export store --format flamebearer
exits 2 '--format is missing' "$ascribe" export store
exits 2 'pprof, otlp, folded' "$ascribe" export store --format svg
exits 2 'none of ascribe, otel' "$ascribe" export store --format pprof --label-names k8s
exits 2 'not folded' "$ascribe" export store --format folded --label-names otel
exits 2 'none of samples, value' "$ascribe" export store --format folded --unit hours
exits 2 '--by function stands alone' "$ascribe" report store --by function,tenant
exits 2 'not a whole number' "$ascribe" report store -n x
for c in 'export store --format pprof' 'export store --format folded' 'flame store'; do
	exits 1 'No such file or directory' "$ascribe" $c -o no/such/dir/file
	exits 1 'Is a directory' "$ascribe" $c -o other
	exits 1 'No space left' "$ascribe" $c -o /dev/full
done
# A failed export leaves the old file alone, a good one replaces it, nothing else stays behind.
mkdir small && cp plain small/out.html
ok "replaces" "$ascribe" flame store -o small/out.html
ok "nothing beside" test "$(ls small)" = out.html
if [ "$(id -u)" = 0 ] && mkdir tiny && mount -t tmpfs -o size=16k none tiny 2>/dev/null; then
	cp plain tiny/out.html
	exits 1 'No space left' "$ascribe" flame store -o tiny/out.html
	ok "old file kept on a full disk" cmp plain tiny/out.html
	ok "no temporary left" test "$(ls tiny)" = out.html
	umount tiny
fi

finish
