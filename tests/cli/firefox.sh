#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `export --format firefox` of synthetic stores, held against the published types
# (tests/tools/firefox_profile.py), and summed against report.
. "$(dirname "$0")/lib.bash"
for store in wide names; do
	"$build/tests/mkstore" $store $store >/dev/null || exit 1
done

cat >compare.py <<'PY'
import collections, json, subprocess, sys
import firefox_profile
from firefox_profile import leaf
ascribe, NS = sys.argv[1], 10101010
def run(*a):
    return subprocess.run([ascribe, *a], capture_output=True, check=True).stdout
def report(store, *more):
    return json.loads(run('report', store, '-n', '0', '--json', *more))['rows']
def load(store, *more):
    return firefox_profile.load(run('export', store, '--format', 'firefox', *more).decode())
for store in 'store', 'wide', 'names':
    p = load(store)
    threads, self = collections.Counter(), collections.Counter()
    for t in p['threads']:
        assert t['samples']['weightType'] == 'tracing-ms'
        for stack, w in zip(t['samples']['stack'], t['samples']['weight']):
            n, rest = divmod(w * 10**6, NS)
            assert rest == 0, w
            threads[t['processName'], t['name']] += int(n)
            self[leaf(p, stack)] += int(n)
    want = collections.Counter()
    for r in report(store, '--by', 'comm,thread', '--exact'):
        want[r['key']['comm'] or '(none)', r['key']['thread'] or '(none)'] += r['samples']
    assert threads == want, (threads, want)
    want = collections.Counter()
    for r in report(store):
        want[r['function'][:4095]] += r['self']
    assert +self == +want, (store, (self - want).most_common(2), (want - self).most_common(2))
    print(store, len(p['threads']), 'threads,', p['shared']['stackTable']['length'], 'stacks,',
          sum(threads.values()), 'samples', end='; ')
truth = json.load(open('truth.json'))
p = load('store', '--by', 'tenant', '--unit', 'samples')
assert {t['samples']['weightType'] for t in p['threads']} == {'samples'}
by = {t['name']: sum(t['samples']['weight']) for t in p['threads']}
assert by['a'] == truth['a'] and by['b'] == truth['b'] and by['(none)'] == truth['none'], by
p = load('store', '-e', 'page-faults')
assert sum(w for t in p['threads'] for w in t['samples']['weight']) == truth['faults']
p = load('empty')
assert [t['samples']['length'] for t in p['threads']] == [0]
PY
export PYTHONPATH=$here/../tools
ok "the published types, and the sums of report" python3 compare.py "$ascribe"
exits 2 "--by is for" "$ascribe" export store --format pprof --by tenant
exits 2 'unknown label key "tenan"' "$ascribe" export store --format firefox --by tenan
exits 1 "No space left" sh -c "'$ascribe' export wide --format firefox >/dev/full"
finish
