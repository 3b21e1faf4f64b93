#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Gates: rules over a comparison and over a recording's accounting, in each format. What is true of
# the store is in truth.json; JUnit's XML is read by Python's parser and held against its schema.
. "$(dirname "$0")/lib.bash"
both=(--where '{tenant="a"}' --against '{tenant="b"}')
half=(--where 'tenant=~"a|b"' --against 'tenant=~"a|c"')

# ---- verdicts ----
"$ascribe" diff store --json "${both[@]}" --by tenant >shares.json 2>/dev/null
exits 1 '' "$ascribe" diff store "${both[@]}" --by tenant --fail-on 'tenant > 50%'
ok "it says which row, and by how much" \
	grep -q 'tenant="a": 0.00% -> 100.00%, +100.00 points, certainly' out
exits 0 '' "$ascribe" diff store "${both[@]}" --by tenant --fail-on 'tenant="b" > 0%'
exits 1 '' "$ascribe" diff store "${half[@]}" --by tenant \
	--fail-on 'tenant=~"b|c" > 10%' --fail-on 'total > 500%'
ok "a rule that holds says what is noise" grep -q 'holds    total > 500%' out
ok "and one that does not stands beside it" grep -q 'broken   tenant=~"b|c" > 10%' out
exits 0 '' "$ascribe" diff store --against-store store --fail-on 'function > 0%' \
	--fail-on 'total > 0%' --fail-on 'function > 1x'
exits 1 '' "$ascribe" diff store --against-to 2020-01-01T00:00:00Z --fail-on 'total > 1%'
ok "where B is empty nothing can be judged" grep -q 'unknown  total > 1%' out
exits 1 '' "$ascribe" diff store --against 'tenant="a"' --fail-on 'function="mian" > 1%'
ok "nor of a function that is not there" grep -q 'no row of A or B is called so' out
# 2 recordings against 1 of the same work: as much for each.
cp -r store again
exits 0 '' "$ascribe" diff store again --against-store store \
	--fail-on 'total > 1%' --fail-on 'function > 1.01x'
# 10 s against 20 s of one store: per second recorded.
exits 0 '' "$ascribe" diff store --to 1777629610 --against-from 1777629610 --against-to 1777629630 \
	--fail-on 'total > 20%'

# ---- accounting ----
cat >stat.py <<'PY'
import json, subprocess, sys
ascribe = sys.argv[1]
truth = json.load(open('truth.json'))
run = lambda *a: subprocess.run([ascribe, *a], capture_output=True, text=True)
s = json.loads(run('stat', 'store', '--json').stdout)
lost = 100 * (sum(s['lost'].values()) - s['lost']['idle_not_run']) / s['fired']
labelled = 100 * (1 - s['flagged']['unlabelled'] / s['flagged_of']['unlabelled'])
assert lost > 0.5 and 0 < labelled < 100, (lost, labelled)
for rule, status in ((f'lost < {lost + .01:.4f}%', 0), (f'lost < {lost - .01:.4f}%', 1),
                     (f'labelled > {labelled - .01:.4f}%', 0), (f'labelled > {labelled + .01:.4f}%', 1),
                     (f'stored >= {s["stored"]}', 0), (f'stored > {s["stored"]}', 1),
                     (f'fired <= {s["fired"] - 1}', 1), ('rooted > 97%', 1)):
    r = run('stat', 'store', '--require', rule)
    assert r.returncode == status, (rule, r.returncode, r.stdout[-300:], r.stderr)
g = json.loads(run('stat', 'store', '--require', 'lost < 0%', '--require', 'stored > 0', '--json').stdout)['gate']
assert not g['holds'] and [r['verdict'] for r in g['rules']] == ['broken', 'holds'], g
print(f'lost {lost:.3f}%, labelled {labelled:.3f}%')
PY
ok "stat --require against the counts of --json" python3 stat.py "$ascribe"
exits 1 '' "$ascribe" stat empty --require 'lost < 1%'
ok "an empty store is no proof" grep -q 'unknown  lost < 1%' out

# ---- formats ----
cat >formats.py <<'PY'
import json, re, subprocess, sys
import xml.etree.ElementTree as ET
ascribe = sys.argv[1]
run = lambda *a: subprocess.run([ascribe, *a], capture_output=True)
# What the usual schema (Ant's JUnit XML, windyroad's XSD) asks for, in its order.
def valid(x):
    assert x.tag == 'testsuites' and not x.attrib
    for suite in x:
        assert suite.tag == 'testsuite'
        for a in ('name', 'package', 'id', 'timestamp', 'hostname', 'tests', 'failures', 'errors', 'time'):
            assert suite.get(a), a
        assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d', suite.get('timestamp'))
        tags = [c.tag for c in suite]
        assert tags[0] == 'properties' and tags[-2:] == ['system-out', 'system-err'], tags
        cases = suite.findall('testcase')
        assert tags[1:-2] == ['testcase'] * len(cases)
        for c in cases:
            assert c.get('name') and c.get('classname') and float(c.get('time')) >= 0
            assert len(c) <= 1 and all(f.tag in ('failure', 'error') and f.get('type') for f in c)
        count = lambda tag: str(sum(c.find(tag) is not None for c in cases))
        assert suite.get('tests') == str(len(cases)) and suite.get('failures') == count('failure')
        assert suite.get('errors') == count('error')
    return x
rules = ['function > 0%', 'total > 500%', 'function="<&\\x00\'>" > 1%', 'function=~".*" > 1x']
gate = [w for r in rules for w in ('--fail-on', r)]
for where in ('{tenant="a"}', '{query_id=~"4.*"}'):
    side = ['diff', 'store', '--where', where, '--against', 'tenant="b"', '-n', '3']
    r = run(*side, *gate, '--format', 'junit')
    assert r.returncode == 1, r.stderr
    x = valid(ET.fromstring(r.stdout))
    d = json.loads(run(*side, *gate, '--format', 'json').stdout)
    kind = {'broken': 'failure', 'unknown': 'error', 'holds': None}
    cases = x.findall('.//testcase')
    assert [c.get('name') for c in cases] == rules, [c.get('name') for c in cases]
    for c, rule in zip(cases, d['gate']['rules']):
        assert (c[0].tag if len(c) else None) == kind[rule['verdict']], rule
    m = run(*side, *gate, '--format', 'markdown')
    assert m.returncode == 1
    text = m.stdout.decode()
    assert '\x1b' not in text and '<script' not in text and '<img' not in text
    tables = re.findall(r'(?:^\|.*\|$\n)+', text, re.M)
    assert len(tables) == 2, text
    for t in tables:
        lines = t.splitlines()
        columns = {len(re.findall(r'(?<!\\)\|', l)) for l in lines}
        assert len(columns) == 1, t
    assert len(tables[0].splitlines()) == 2 + len(rules)
    assert len(tables[1].splitlines()) <= 2 + 3
# Names that were made to break formats, all of them in one table and one suite.
subprocess.run([sys.argv[2], 'names', 'names'], check=True, stdout=subprocess.DEVNULL)
for by in ([], ['--by', 'tenant']):
    key = 'tenant' if by else 'function'
    for form in ('junit', 'markdown'):
        r = run('diff', 'names', '--against-store', 'store', *by, '--fail-on', f'{key} > 0%', '--format', form)
        assert r.returncode == 1, r.stderr
        if form == 'junit':
            assert len(valid(ET.fromstring(r.stdout)).find('.//failure').text.splitlines()) > 1
s = run('stat', 'store', '--require', 'lost<1%', '--require', 'lost<0', '--format', 'junit')
assert s.returncode == 1 and valid(ET.fromstring(s.stdout))[0].get('failures') == '1'
s = run('stat', 'store', '--format', 'markdown')
assert s.returncode == 0 and b'| stored |' in s.stdout
PY
ok "JUnit and Markdown, of names that break formats" python3 formats.py "$ascribe" "$build/tests/mkstore"

# ---- typos ----
exits 2 'expected > or <' "$ascribe" diff store "${both[@]}" --fail-on 'function'
exits 2 'a number of at most 15 digits' \
	"$ascribe" diff store "${both[@]}" --fail-on 'function > two%'
exits 2 'function, module or total are allowed' \
	"$ascribe" diff store "${both[@]}" --fail-on 'funtion > 2%'
exits 2 'these or total are allowed' \
	"$ascribe" diff store "${both[@]}" --by comm --fail-on 'function > 2%'
exits 2 'expected % or x' \
	"$ascribe" diff store "${both[@]}" --fail-on 'function > 2'
exits 2 'write > instead of <' \
	"$ascribe" diff store "${both[@]}" --fail-on 'function < 2%'
exits 2 '      ^' "$ascribe" diff store "${both[@]}" --fail-on 'name~"x" > 2%'
exits 2 'there is no counter rootet' "$ascribe" stat store --require 'rootet > 97%'
exits 2 'expected % or a count' "$ascribe" stat store --require 'lost < 1x'
exits 2 'did you mean junit' "$ascribe" stat store --require 'lost < 1%' --format juint
exits 2 'junit needs a rule' "$ascribe" diff store "${both[@]}" --format junit
exits 2 'exclude each other' "$ascribe" stat store --json --format markdown
many=()
for i in $(seq 65); do many+=(--require "lost < $i%"); done
exits 2 'at most 64 rules' "$ascribe" stat store "${many[@]}"
exits 1 'too many steps' "$ascribe" diff store "${both[@]}" \
	--fail-on 'function=~"(a|a?)+(((.+)+)+)+[yz0]" > 1%'
finish
