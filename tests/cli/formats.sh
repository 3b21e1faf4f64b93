#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Export as CSV, as speedscope's file and as the text of perf script, from a synthetic store with
# hostile names: read by Python's csv, by speedscope's own schema where it is there, and by
# `ascribe import`; sums against what made the store.
. "$(dirname "$0")/lib.bash"

for format in csv speedscope perf-script folded; do
	ok "$format" "$ascribe" export store --format $format -o out.$format
done
cat >check.py <<'PY'
import csv, json
truth = json.load(open('truth.json'))
rows = list(csv.DictReader(open('out.csv', newline='', encoding='utf-8')))
assert list(rows[0])[:5] == ['event', 'unit', 'samples', 'value', 'stack'], list(rows[0])
assert list(rows[0])[5:] == sorted(list(rows[0])[5:])
assert all(None not in r and None not in r.values() for r in rows)
assert sum(int(r['samples']) for r in rows) == truth['samples']
assert sum(int(r['value']) for r in rows) == truth['samples'] * 10101010
by = lambda key, value: sum(int(r['samples']) for r in rows if r[key] == value)
want = {'a': truth['a'], 'b': truth['b'], '<script>alert(1)</script>': truth['c']}
assert {v: by('tenant', v) for v in want} == want
# Functions have the samples that folded stacks give them.
folded = {}
for line in open('out.folded', encoding='utf-8', errors='replace', newline='\n').read().split('\n')[:-1]:
	stack, n = line.rsplit(' ', 1)
	leaf = stack.rsplit(';', 1)[1].removesuffix('_[k]').removesuffix('_[i]')
	folded[leaf] = folded.get(leaf, 0) + int(n)
leaves = {}
for r in rows:
	leaf = ''.join('_' if c < ' ' or c == '\x7f' else c for c in r['stack'].rsplit(';', 1)[-1])
	leaves[leaf] = leaves.get(leaf, 0) + int(r['samples'])
assert leaves == folded, (leaves, folded)

scope = json.load(open('out.speedscope'))
profile, frames = scope['profiles'][0], scope['shared']['frames']
assert profile['unit'] == 'nanoseconds'
assert sum(profile['weights']) == profile['endValue'] == truth['samples'] * 10101010
assert len(profile['weights']) == len(profile['samples'])
assert max(max(s) for s in profile['samples']) == len(frames) - 1

heads = [l for l in open('out.perf-script', encoding='utf-8', errors='replace', newline='\n').read().split('\n')
	 if l and l[0] != '\t']
assert len(heads) == truth['samples'], len(heads)
assert sum(int(l.rsplit(' ', 2)[1]) for l in heads) == truth['samples'] * 10101010
times = [float(l.rsplit(':', 2)[0].rsplit(' ', 1)[1]) for l in heads]
assert times == sorted(times) and 1777629600 <= times[0] < times[-1] < 1777629630
PY
ok "sums, columns and names" python3 check.py

ok "ascribe reads what is written for perf's readers" \
	"$ascribe" import perf-script out.perf-script -o again
report() { "$ascribe" report "$@" -n 0 --json 2>/dev/null; }
ok "with the same samples" \
	test "$(report again | jq .samples)" = "$(jq .samples truth.json)"
self='[.rows[] | select(.self > 0 and (.function | test("^[a-z_]+$")))] | group_by(.function) |
	map({(.[0].function): map(.self) | add}) | add'
report again | jq -S "$self" >again.self
report store | jq -S "$self" >store.self
ok "and functions: $(wc -l <again.self) lines" cmp again.self store.self

ok "a selector is in each format" python3 - <<PY
import csv, json, subprocess
for f in 'csv', 'speedscope', 'perf-script':
	subprocess.run(['$ascribe', 'export', 'store', '--format', f, '--where', '{tenant="a"}',
			'-o', 'a.' + f], check=True, stderr=subprocess.DEVNULL)
n = json.load(open('truth.json'))['a']
assert sum(int(r['samples']) for r in csv.DictReader(open('a.csv', newline=''))) == n
assert sum(json.load(open('a.speedscope'))['profiles'][0]['weights']) == n * 10101010
assert sum(l[0] not in '\t\n' for l in open('a.perf-script', errors='replace')) == n
PY
scope() {
	"$ascribe" export store --format speedscope "$@" 2>/dev/null | jq -r ".profiles[0].$what"
}
what=unit
ok "an event without time" test "$(scope -e page-faults)" = none
what=endValue
ok "samples where they are asked for" test "$(scope --unit samples)" = "$(jq .samples truth.json)"
exits 2 'not csv' "$ascribe" export store --format csv --label-names otel
if [ -e /dev/full ]; then
	for format in csv speedscope perf-script; do
		exits 1 'No space left' "$ascribe" export store --format $format -o /dev/full
	done
fi
"$ascribe" export store --format csv --by tenant >by.csv 2>/dev/null
ok "csv: --by chooses the columns of labels" test "$(head -1 by.csv | tr -d '\r')" = \
	event,unit,samples,value,stack,tenant
ok "and loses no sample" python3 -c 'import csv, json
t, rows = json.load(open("truth.json")), list(csv.DictReader(open("by.csv", newline="")))
assert sum(int(r["samples"]) for r in rows) == t["samples"]
assert sum(int(r["samples"]) for r in rows if r["tenant"] == "a") == t["a"]'
finish
