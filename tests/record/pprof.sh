#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A real recording as Go's pprof reads it: every label is a tag, and the totals are those of
# `report`.
. "$(dirname "$0")/lib.bash"
command -v go >/dev/null || skip "no go here: no go tool pprof"
pprof() { go tool pprof "$@" 2>/dev/null; }

record -F 499 -o cross -- "$loads/labelled" cross
report cross -n 0 >functions.json
report cross --by tenant >tenant.json
report cross --by thread >thread.json
ok "export" "$ascribe" export cross --format pprof -o cpu.pb.gz
pprof -raw cpu.pb.gz >raw
pprof -tags -sample_index=samples cpu.pb.gz >tags
pprof -traces -sample_index=samples cpu.pb.gz >traces
pprof -top -nodecount=1000000 -nodefraction=0 -sample_index=samples cpu.pb.gz >top
pprof -top -nodecount=1000000 -nodefraction=0 -cum -sample_index=samples cpu.pb.gz >cum
check "-raw: as many samples as report" r=functions.json -- \
	"r['samples'] == $(awk '/^Samples:/ { on = 1; next } /^Locations/ { on = 0 } on && /^ +[0-9]+ +[0-9]+:/ { n += $1 } END { print n + 0 }' raw)" 'r["samples"]'
ok "-raw: mappings with build ids" sh -c "sed -n '/^Mappings/,\$p' raw | grep -E '/labelled [0-9a-f]{40}'"

cat >compare.py <<'PY'
import json, re
functions, tenant, thread = (json.load(open(f + '.json')) for f in ('functions', 'tenant', 'thread'))
# -top: flat flat% sum% cum cum% name. pprof drops the arguments of C++ names; here all is C.
def top(file):
    flat, cum = {}, {}
    for line in open(file):
        m = re.match(r'\s*(\d+)\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s+(.*?)( \(inline\))?$', line)
        if m:
            flat[m[3]] = flat.get(m[3], 0) + int(m[1])
            cum[m[3]] = cum.get(m[3], 0) + int(m[2])
    return flat, cum
flat, cum = top('top')
self_, total = {}, {}
for r in functions['rows']:
    self_[r['function']] = self_.get(r['function'], 0) + r['self']
    total[r['function']] = total.get(r['function'], 0) + r['samples']
assert sum(flat.values()) == functions['samples'] == sum(self_.values()), (sum(flat.values()), functions['samples'])
assert set(flat) == set(self_), set(flat) ^ set(self_)
assert flat == self_, {k: (flat[k], self_[k]) for k in flat if flat[k] != self_[k]}
# The same name in two modules is one function to pprof and two to us: totals may then differ.
same = sum(cum[k] == total[k] for k in cum)
assert same >= 0.98 * len(cum), {k: (cum[k], total[k]) for k in cum if cum[k] != total[k]}
# -tags: " key: Total N", then "   N (p%): value".
tags, key = {}, None
for line in open('tags'):
    m = re.match(r'\s*(\S+): Total', line)
    if m:
        key = m[1]
        tags[key] = {}
        continue
    m = re.match(r'\s*([\d.]+)(k|M)? \(\s*[\d.]+%\): (.*)$', line)
    if m and key:
        tags[key][m[3].strip()] = float(m[1]) * {'k': 1e3, 'M': 1e6, None: 1}[m[2]]
for key, report in (('tenant', tenant), ('thread', thread)):
    want = {r['key'][key]: r['samples'] for r in report['rows'] if r['key'][key] is not None}
    assert {k: round(v) for k, v in tags[key].items()} == want, (key, tags[key], want)
assert {'tenant', 'thread', 'comm', 'exe'} <= set(tags), set(tags)
# -traces: the value stands before the leaf of each, labels above it.
n = sum(int(m[1]) for m in re.finditer(r'^ +(\d+)   \S', open('traces').read(), re.M))
assert n == functions['samples'], (n, functions['samples'])
print(functions['samples'], 'samples,', len(flat), 'functions,', len(tags), 'tags')
PY
ok "-top, -tags, -traces against report" python3 compare.py
check "a tag selects what --where does" r=tenant.json -- \
	"all(n == int(__import__('re').search(r'Showing nodes accounting for (\\d+)', __import__('subprocess').run(['go', 'tool',
	'pprof', '-top', '-nodefraction=0', '-nodecount=100000', '-sample_index=samples', '-tagfocus=tenant=^' + k.replace('.', '[.]') + '\$',
	'cpu.pb.gz'], capture_output=True, text=True).stdout)[1]) for k, n in list(samples(r).items())[:4] if k)"

# Names that are not C's: the demo server, in C++.
if [ -x "$build/demo" ]; then
	record -F 499 -o demo -- "$build/demo" --seconds 2
	"$ascribe" export demo --format pprof -o demo.pb.gz
	report demo --by tenant,endpoint >demo.json
	pprof -tags -sample_index=samples demo.pb.gz >tags
	ok "the demo's labels are tags" sh -c "grep -q ' tenant: Total' tags && grep -q ' endpoint: Total' tags && grep -q ' query_id: Total' tags"
	check "and its samples" r=demo.json -- "r['samples'] == $(pprof -raw demo.pb.gz |
		awk '/^Samples:/ { on = 1; next } /^Locations/ { on = 0 } on && /^ +[0-9]+ +[0-9]+:/ { n += $1 } END { print n + 0 }')" 'r["samples"]'
fi
finish
