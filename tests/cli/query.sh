#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Questions to a store through the commands: diff and series against sums of plain reports, and
# every bad input. That is a wrong selector, a regular expression without end, ranges without data,
# stores that are damaged, newer, forbidden, or being written while they are read.
. "$(dirname "$0")/lib.bash"

# It takes 15 s and is read below, beside other stores.
"$build/tests/mkstore" drip.data drip >/dev/null &
drip=$!

# ---- diff, series ----
cat >check.py <<'PY'
import functools, json, subprocess, sys
@functools.cache # each plain report is compared with several
def run(*args):
    r = subprocess.run(['./ascribe', *args, '--json'], capture_output=True)
    assert r.returncode == 0, (args, r.stderr)
    return json.loads(r.stdout)
report = lambda *a: run('report', 'store', *a)
diff = lambda *a: run('diff', 'store', *a)
key = lambda r: json.dumps(r.get('key') or [r['function'], r['module']])
rows = lambda d: {key(r): r for r in d['rows']}
T = 1777629600
sides = {
    'selectors': (['--where', '{tenant="a"}'], ['--where', '{tenant="b"}'],
                  ['--where', '{tenant="a"}', '--against', '{tenant="b"}']),
    'ranges': (['--from', f'{T}', '--to', f'{T + 10}'], ['--from', f'{T + 10}', '--to', f'{T + 30}'],
               ['--from', f'{T}', '--to', f'{T + 10}', '--against-from', f'{T + 10}', '--against-to', f'{T + 30}']),
    'before and after': (['--from', f'{T + 20}'], ['--to', f'{T + 20}'],
                         ['--from', f'{T + 20}', '--against-to', f'{T + 20}']),
    'both': (['--where', 'comm="server"', '--to', f'{T + 20}'], ['--where', 'tenant="b"', '--from', f'{T + 20}'],
             ['--where', 'comm="server"', '--to', f'{T + 20}', '--against', 'tenant="b"', '--against-from', f'{T + 20}']),
    'another event': (['-e', 'page-faults'], ['-e', 'page-faults', '--to', f'{T + 10}'],
                      ['-e', 'page-faults', '--against-to', f'{T + 10}']),
}
for name, (a, b, both) in sides.items():
    for by in [], ['--by', 'tenant'], ['--by', 'comm,query_id']:
        for how in [], ['--absolute'], ['--inclusive']:
            ra, rb, d = report(*a, *by), report(*b, *by), diff(*both, *by, *how)
            assert (d['a']['samples'], d['b']['samples']) == (ra['samples'], rb['samples']), name
            assert (d['a']['from'], d['a']['to'], d['b']['from'], d['b']['to']) == \
                   (ra['from'], ra['to'], rb['from'], rb['to']), name
            for side in d['a'], d['b']:
                assert side['fired'] == side['stored'] + sum(side['lost'].values())
            xa, xb, xd = rows(ra), rows(rb), rows(d)
            assert set(xd) == set(xa) | set(xb) and len(xd) == len(d['rows']) == d['n_rows'], name
            of = 'samples' if by or how == ['--inclusive'] else 'self'
            assert d['of'] == of and d['compared'] == ('rate' if how == ['--absolute'] else 'share')
            for k, r in xd.items():
                for i, (x, whole) in enumerate(((xa, ra), (xb, rb))):
                    have = x.get(k, {'samples': 0, 'self': 0})
                    assert (r['samples'][i], r['self'][i]) == (have['samples'], have['self']), (name, k)
                    assert abs(r['share'][i] - have[of] / whole['samples']) < 1e-12
                assert abs(r['change'] - (r['share'][0] - r['share'][1])) < 1e-12
                assert r['low'] <= r['change'] <= r['high'] and 0 < r['p'] <= 1 and 0 < r['q'] <= 1
                assert (r['verdict'] == 'noise') == (r['q'] >= d['threshold']), (name, k, r)
            assert d['n_changed'] == sum(r['verdict'] != 'noise' for r in d['rows'])
# The same on both sides is noise, all of it.
d = diff('--against', '')
assert d['n_changed'] == 0 and d['shared'] == d['a']['samples'] == d['b']['samples']
assert all(r['p'] == 1 for r in d['rows'])
assert diff('--against', '{tenant="a"}', '--where', '{tenant="b"}')['shared'] == 0
# A time within a window parts two ranges where the window begins: none is on both sides.
d = diff('--from', f'{T + 15}', '--against-to', f'{T + 15}')
assert d['shared'] == 0 and (d['a']['windows'], d['b']['windows']) == (1, 2), d['a']
assert d['a']['samples'] + d['b']['samples'] == report()['samples']
# The other store: another copy is the same, too; half of it is not.
d = diff('--against-store', 'copy')
assert d['n_changed'] == 0 and d['shared'] == 0 and d['b']['store'] == 'copy'

# ---- series: each step is what a report of that step says ----
for by in [], ['--by', 'tenant'], ['--by', 'tenant,comm']:
    for where in [], ['--where', '{comm="server"}']:
        s = report('--step', '10s', '-n', '0', *by, *where)
        assert (s['step'], s['from'], s['to'], s['n_steps']) == (10, T, T + 30, 3)
        assert sum(r['samples'] for r in s['series']) == s['samples'] == report(*where)['samples']
        assert len(s['series']) == (s['n_groups'] if by else 1) and not any(r['other'] for r in s['series'])
        for i in range(3):
            r = report('--from', str(T + 10 * i), '--to', str(T + 10 * i + 10), *by, *where)
            assert r['windows'] == 1
            want = {json.dumps(x['key']): x['samples'] for x in r['rows']} if by else {'{}': r['samples']}
            have = {json.dumps(x['key']): x['points'][i] for x in s['series']}
            assert all(p[0] == T + 10 * i for p in have.values())
            assert {k: p[1] for k, p in have.items() if p[1]} == want, (by, i)
s = report('--step', '1m', '--by', 'tenant', '-n', '2')
assert [r['other'] for r in s['series']] == [False, False, True] and s['series'][2]['key'] is None
assert len(s['series'][0]['points']) == 1 and sum(r['samples'] for r in s['series']) == s['samples']
assert s['n_groups'] == 5 and s['step'] == 60 and s['from'] % 60 == 0
assert report('--step', '11s')['step'] == 20
s = report('--step', '10s', '--from', '2020-01-01T00:00:00Z', '--to', '2020-01-02T00:00:00Z')
assert s['series'] == [] and s['blocks'] == 0
PY
cp -r store copy
ok "diff and series against reports" python3 check.py
ok "series, a line per step" sh -c "./ascribe report store --step 10s 2>/dev/null | grep -q '^2026-05-01T10:00:20Z  *$(./ascribe report store --from 1777629620 --json 2>/dev/null | jq .samples) '"
ok "series, a line per group" sh -c "./ascribe report store --step 10s --by tenant -n 2 2>/dev/null | grep -q '[█].*(other)'"
echo 'main;work 898' >long.txt # one window of 44.9 s
"$ascribe" import folded long.txt -o late --from 2026-05-01T10:00:03Z --rate 20 2>/dev/null
ok "a window longer than a step is drawn over all steps that it ran in" sh -c \
	"[ \$(./ascribe report late --step 10s 2>/dev/null | grep -c ' 1.000  *####') = 4 ]"
ok "the step that is used is printed" sh -c "./ascribe report store --step 3s 2>/dev/null | grep -q 'steps of 10 s (asked: 3 s'"
ok "noise says so" sh -c "./ascribe diff store --where '{tenant=\"a\"}' --against '{tenant=\"b\"}' 2>/dev/null | grep -q ' noise '"
ok "--changes leaves it out" sh -c "! ./ascribe diff store --where '{tenant=\"a\"}' --against '{tenant=\"b\"}' -c -n 0 2>/dev/null | grep -q ' noise '"
ok "no escape sequence reaches the terminal" sh -c "! { ./ascribe diff store --against 'tenant=\"a\"' -n 0; ./ascribe diff store --against 'tenant=\"a\"' --by comm; ./ascribe report store --step 1m --by comm; } 2>&1 | grep -qP '[\x00-\x08\x0b-\x1f\x7f]'"

# ---- misuse of diff and series ----
against="--against tenant=\"a\""
exits 2 'nothing to compare with' "$ascribe" diff store
exits 2 'unknown option --nonsense' "$ascribe" diff store --nonsense

# ---- --pod: what is wrong before kubectl is asked (tests/kubernetes asks it) ----
exits 2 'not NAMESPACE/NAME' "$ascribe" --pod
exits 2 'not NAMESPACE/NAME' "$ascribe" --pod name report
exits 2 'not NAMESPACE/NAME' "$ascribe" --pod 'a/--all' report
exits 2 'not NAMESPACE/NAME' "$ascribe" --pod '-A/b' report
exits 2 'not NAMESPACE/NAME' "$ascribe" --pod 'a/b"}' report
exits 2 'no name of a node' "$ascribe" --pod a/b --node -w report
exits 2 'no name of a namespace' env ASCRIBE_NAMESPACE=-x "$ascribe" --pod a/b report
exits 2 'which command' "$ascribe" --pod a/b
exits 2 'token for captures' "$ascribe" --pod a/b record -F 999
exits 2 'redirect stdout' "$ascribe" --pod a/b record -F 999 --token-file t -o x
exits 2 '--pod is for commands' "$ascribe" --pod a/b store delete
exits 2 'report: unknown option --nonsense' "$ascribe" --pod a/b report --nonsense
exits 2 'redirect stdout' "$ascribe" --pod a/b flame -o x.html
exits 2 'has no place' "$ascribe" --pod a/b report -- x
exits 0 '' "$ascribe" --pod=a/b report --help
exits 1 'cannot run kubectl' env PATH=/nonexistent "$ascribe" --pod a/b report
exits 1 'there is no store b' "$ascribe" diff store b $against
exits 1 'nowhere' "$ascribe" diff nowhere $against
exits 1 'nowhere' "$ascribe" diff store --against-store nowhere
exits 2 '--from must be before --to' "$ascribe" diff store $against --from 20 --to 10
exits 2 '--against-from must be before --against-to' "$ascribe" diff store --against-from 20 \
	--against-to 10
exits 2 '--by function stands alone' "$ascribe" diff store $against --by function,comm
exits 2 'no event cycles' "$ascribe" diff store $against -e cycles
exits 0 'holds no window' "$ascribe" diff empty $against
exits 0 'no sample matches A' "$ascribe" diff store --where 'tenant="a",comm="kworker/0:1"' $against

# ---- findings: tests/unit/test_findings.c has a host where something happens ----
ok "findings: nothing in half a minute" sh -c "./ascribe findings store | grep -q 'none: nothing differs'"
ok "findings: it says that there is nothing before" sh -c "./ascribe findings store | grep -q 'Nothing was recorded before'"
ok "findings: JSON" sh -c "./ascribe findings store --by tenant --json | jq -e '.findings == [] and .keys == [\"tenant\"] and .tested > 2 and .before == false and .from == 1777629600'"
exits 0 'holds no window' "$ascribe" findings empty
exits 2 'at most 8 keys' "$ascribe" findings store --by a,b,c,d,e,f,g,h,i
exits 2 '--from must be before --to' "$ascribe" findings store --from 20 --to 10

# ---- keys and values that nothing has: the nearest that there is; what others have is an empty
# answer ----
for c in 'report store --by tenat' 'report store --by tenant,tenat' \
	'report store --step 10s --by tenat' 'report store --where {tenat="a"}' \
	'report store --step 10s --where {tenat="a"}' 'report store --where {tenat!="a"}' \
		'report store --by tenat --json' 'labels store tenat' \
	'diff store --by tenat --against {tenant="a"}' 'diff store --against {tenat="a"}' \
		'flame store --where {tenat="a"} -o x.html' \
	'export store --format folded --where {tenat="a"}' 'blame store --by tenat' \
		'why store --where {tenat="a"}' \
	'findings store --by tenat' 'findings store --where {tenat="a"}' \
	'top --store store --once --by tenat' 'top --store store --once --where {tenat="a"}'; do
	# shellcheck disable=SC2086
	exits 2 'unknown label key "tenat"; did you mean "tenant"? keys here: comm, event, query_id, tenant, thread' "$ascribe" $c
	ok "nothing is printed" test ! -s out
done
for c in 'report store --where {comm="servr"}' 'report store --step 10s --where {comm="servr"}' \
	'report store --where {comm="servr",tenant="a"} --json' \
	'why store --where {comm="servr"}' 'findings store --where {comm="servr"}' \
	'diff store --where {comm="servr"} --against {tenant="a"}' \
		'export store --format pprof -o x.pb.gz --where {comm="servr"}'; do
	# shellcheck disable=SC2086
	exits 2 'no sample has comm="servr"; did you mean "server"? values in this time: server, ' "$ascribe" $c
done
exits 2 'no sample has query_id="99999"' "$ascribe" report store --where 'query_id="99999"'
exits 2 'no sample has tenant="'"'"'x\x0a"' "$ascribe" report store --where $'tenant="\'x\\n"'
exits 0 '' "$ascribe" report store --by pod
ok "a label of the system that no sample has" grep -q '(none)' out
exits 0 '' "$ascribe" report store --by by.tenant
exits 0 'no sample matches' "$ascribe" report store --where 'tenant=~"x.*"'
# A range without data says so first.
exits 0 'no data in this time range' "$ascribe" report store --where 'tenant="a"' --to 1000000
exits 0 'holds no window' "$ascribe" report empty --by whatever --where 'other="x"'
exits 1 'o space left' sh -c "exec '$ascribe' diff store --against-to 1777629610 >/dev/full"
exits 2 '--step is for label keys' "$ascribe" report store --step 1m --by function
exits 2 'step' "$ascribe" report store --step 0
exits 2 'step' "$ascribe" report store --step nonsense

# ---- selectors: the message, the selector, a caret under the place ----
# what is wrong, the column from 0, the selector
caret() {
	local text=$1 at=$2 where=$3 c
	for c in 'report store --where' 'labels store --where' 'flame store -o x.html --where' \
		'diff store --against' \
		'export store --format folded --where' 'report store --step 1m --where'; do
		exits 2 "$text" "$ascribe" $c "$where"
		ok "caret: $where" test "$(sed -n 3p err)" = "  $(printf '%*s' "$at" '')^"
		ok "selector above it: $where" test "$(sed -n 2p err | cut -c -2)" = "  "
	done
}
caret 'expected a quoted value' 8 '{tenant=a}'
caret 'expected , or }' 12 '{tenant="a" comm="b"}'
caret 'expected = or != or =~ or !~' 7 '{tenant}'
caret 'a quote that is not closed' 8 '{tenant="a}'
caret 'unknown escape' 10 '{tenant="a\q"}'
caret 'expected the key of a label' 1 '{="a"}'
caret 'expected nothing behind }' 13 '{tenant="a"} x'
caret 'regular expression: missing closing parenthesis' 9 '{tenant=~"(a"}'
caret 'regular expression' 15 '{comm="é",tid=~"*"}'  # columns of the screen, not bytes
caret 'expected = or' 8 $'{ten\tant="a"}'                # a tab is shown as \x09
caret 'expected' 0 '=' # nothing before the place
exits 1 'takes too many steps on the value' \
	"$ascribe" report store --where '{tenant=~"(.*)*(.*)*(.*)*[!?]"}'
exits 1 'takes too many steps' "$ascribe" diff store --against '{tenant=~"(a|a?)+(((.+)+)+)+[yz0]"}'
exits 1 'takes too many steps' "$ascribe" report store --step 1m \
	--where '{tenant=~"(.*)*(.*)*(.*)*[!?]"}'
exits 2 'pattern' "$ascribe" report store --where "{tenant=~\"$(printf '%05000d' 0)\"}"

# ---- ranges without data ----
for c in 'report store' 'report store --json' 'labels store' 'stat store' 'flame store -o x.html' \
	'export store --format folded' "diff store $against" 'report store --step 1m'; do
	exits 0 'ends before the first window; the store holds 2026-05-01T10:00:00Z .. 2026-05-01T10:00:30Z' \
		"$ascribe" $c --to 2026-05-01T10:00:00Z
	exits 0 'begins after the last window; the store holds' "$ascribe" $c --from 2026-05-01T10:00:30Z
	exits 0 '' "$ascribe" $c --from 2026-05-01T10:00:29Z
done
exits 0 'holds no window' "$ascribe" report empty
exits 0 'ends before the first window' "$ascribe" diff store --against-to 2020-01-01T00:00:00Z

# ---- stores that cannot be read ----
for f in $(cd store && find . -type f ! -name lock ! -name reserve ! -name '*.copy'); do
	rm -rf cut
	cp -r store cut
	rm "cut/$f"
	# Refused, or read without what needs the file; the message names it and the status says so
	# in any case.
	"$ascribe" report cut >out 2>err </dev/null
	got=$?
	ok "without $f" sh -c "grep -qF '${f##*/}' err && [ $got = 1 ]"
done
cat >newer.py <<'PY'
import struct, sys
def crc32c(data):
    crc = 0xffffffff
    for b in data:
        crc ^= b
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
path = sys.argv[1]
d = bytearray(open(path, 'rb').read())
assert crc32c(d[:28]) == struct.unpack_from('<I', d, 28)[0]
struct.pack_into('<I', d, 8, int(sys.argv[2]))
struct.pack_into('<I', d, 28, crc32c(d[:28]))
open(path, 'wb').write(d)
PY
rm -rf newer && cp -r store newer
ok "make a newer store" python3 newer.py newer/HEADER 99
for c in report labels stat "diff $against"; do
	# shellcheck disable=SC2046 # a word for each option
	exits 1 'newer version (format 99' "$ascribe" ${c%% *} newer $(cut -sd' ' -f2- <<<"$c")
done
ok "make an older store" python3 newer.py newer/HEADER 1
exits 1 'older version (format 1' "$ascribe" report newer
rm -rf damaged && cp -r store damaged
printf 'X' | dd of=damaged/HEADER bs=1 seek=9 conv=notrunc 2>/dev/null
# shellcheck disable=SC2016 # the message has them
exits 1 'HEADER is damaged (offset 0); `ascribe store verify` lists' "$ascribe" report damaged
ok "damage is not taken for a newer version" sh -c "! grep -q newer err"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	exits 1 'ermission denied' setpriv --reuid=65534 --regid=65534 --clear-groups "$ascribe" \
		report "$dir/store"
	ok "the message names the store" grep -q "$dir/store" err
	exits 1 'ermission denied' setpriv --reuid=65534 --regid=65534 --clear-groups "$ascribe" \
		diff "$dir/store" $against
	chmod -R a+rX store && chmod 600 "$(find store -name '*.seg' | head -1)"
	exits 1 'ermission denied' setpriv --reuid=65534 --regid=65534 --clear-groups "$ascribe" \
		report "$dir/store"
	chmod -R a+rX store
	ok "whoever may read needs no more" setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$ascribe" report "$dir/store"
fi

# ---- several stores, one of them of format 2 ----
python3 "$here/../tools/old_store.py" old >/dev/null || exit 1
ln -s "$build/tests/long" many
wait "$drip"
cat >several.py <<'PY'
import collections, json, subprocess
def run(*args):
    r = subprocess.run(['./ascribe', *args], capture_output=True)
    assert r.returncode == 0, (args, r.stderr)
    return r.stdout
ask = lambda *a: json.loads(run(*a, '--json'))
STORES = ['store', 'many', 'drip.data']
def sums(d, keys, of='samples'):
    c = collections.Counter()
    for r in d['rows']:
        c[tuple(r['key'].get(k) for k in keys)] += r[of]
    return c
e = ['-e', 'cpu-clock', '-n', '0']
by = lambda stores, keys, *a: ask('report', *stores, '--by', ','.join(keys), *e, *a)
for keys in ['tenant'], ['comm'], ['comm', 'tenant']:
    want = collections.Counter()
    for s in STORES:
        want += sums(by([s], keys), keys)
    assert sums(by(STORES, keys), keys) == want, keys
    assert sums(by(STORES, ['host'] + keys), keys) == want, keys
total = sum(want.values())
assert list(sums(by(STORES, ['host']), ['host']).values()) == [total], 'hosts of one name are one'
# Of another rate: samples are counted in one of the two, their time is what both have.
host = {s: ask('stat', s)['host'] for s in STORES + ['old']}
mixed = by(['old', 'store'], ['host'])
assert set(sums(mixed, ['host'])) == {(host['old'],), (host['store'],)} and host['old'] != host['store']
for s, op in ('old', '='), ('store', '!='):
    alone, there = by([s], ['tenant']), by(['old', 'store'], ['tenant'], '--where', '{host%s"%s"}' % (op, host['old']))
    alone, there = sums(alone, ['tenant'], 'seconds'), sums(there, ['tenant'], 'seconds')
    assert set(alone) == set(there) and all(abs(alone[k] - there[k]) < 0.011 for k in alone), (alone, there)
# Other commands: the same samples.
folded = lambda *s: sum(int(l.rsplit(b' ', 1)[1]) for l in run('export', *s, '--format', 'folded', '-e', 'cpu-clock').splitlines())
assert folded(*STORES) == sum(map(folded, STORES)) == total, total
assert ask('stat', *STORES)['fired'] == sum(ask('stat', s)['fired'] for s in STORES)
keys = lambda *a: {f['key']: f['samples'] for f in ask('labels', *a)['keys']}
assert keys('store', 'drip.data')['host'] == sum(ask('report', s, *e)['samples'] for s in ('store', 'drip.data'))
assert ask('labels', 'store', 'old', 'tenant')['values'], 'a key behind stores'
assert b'host' in run('flame', *STORES, '-o', '-')
steps = ask('report', *STORES, '--step', '1d', '--by', 'host', *e)
assert sum(n for s in steps['series'] for t, n in s['points']) == total
d = ask('diff', 'store', 'old', '--where', '{host!="%s"}' % host['old'], '--against', '{host="%s"}' % host['old'], '--by', 'host', '-e', 'cpu-clock')
alone = [ask('report', s, '-n', '1', *e[:2])['samples'] for s in ('store', 'old')]
assert d['a']['samples'] > 0 and d['b']['samples'] > 0 and {r['key']['host'] for r in d['rows']} == set(host[s] for s in ('store', 'old')), d
two = ask('diff', 'store', 'drip.data', '--against-store', 'many,old', '--by', 'tenant', '-e', 'cpu-clock')
assert two['a']['samples'] == sum(ask('report', s, *e)['samples'] for s in ('store', 'drip.data')), two
assert two['a']['store'] == 'store, drip.data' and two['b']['store'].startswith('many, '), two
top = ask('top', '--once', '--store', 'store,old', '--span', '24h', '--by', 'host')
assert top['rows'], top
assert subprocess.run(['./ascribe', 'report', 'store', 'nowhere'], capture_output=True).returncode == 1
PY
ok "several stores are one: sums by any label, of each host, over time" python3 several.py

# ---- a key with too many values to keep, and what was cut ----
# Stores of many windows wait for the disk with each: in memory, where there is such a place.
if [ -d /dev/shm ]; then
	memory=$(mktemp -d -p /dev/shm)
	at_end='rm -rf "$memory"'
	mkdir "$memory/capped" && ln -s "$memory/capped" .
fi
ln -s "$build/tests/long" "$build/tests/long.json" .
cat >wide.py <<'PY'
import json, subprocess
truth = json.load(open('long.json'))
def run(*args):
    r = subprocess.run(['./ascribe', *args, '--json'], capture_output=True)
    assert r.returncode == 0, (args, r.stderr)
    return json.loads(r.stdout)
exact = run('report', 'long', '--by', 'query_id', '--exact')
top = run('report', 'long', '--by', 'query_id')
count = {r['key']['query_id']: r['samples'] for r in exact['rows']}
assert exact['exact'] and not top['exact'], (exact['exact'], top['exact'])
assert sum(count.values()) == truth['samples'] == top['samples'] == sum(r['samples'] for r in top['rows'])
assert len(count) > 2000 and exact['blocks'] == exact['windows'] > top['blocks'], (len(count), exact['blocks'])
listed = [r for r in top['rows'] if not r.get('other')]
assert len(listed) <= 256 and [r for r in top['rows'] if r.get('other')][0]['key'] is None
for r in listed:
    n = count[r['key']['query_id']]
    assert r['samples'] <= n <= r['samples'] + r.get('error', 0), (r, n)
# The one that is in every window is found, with a count that is nearly right.
most = max(count, key=count.get)
assert listed[0]['key']['query_id'] == most and listed[0]['samples'] > 0.9 * count[most], (listed[0], count[most])
# Over time: at least so many in each step, and the rest in the others, so that nothing is missing.
def course(*args):
    r = run('report', 'long', '--by', 'query_id', '--step', '2h', '-n', '0', *args)
    assert sum(n for s in r['series'] for t, n in s['points']) == truth['samples'] == r['samples']
    return r['exact'], {s['key']['query_id']: dict(map(tuple, s['points'])) for s in r['series'] if not s['other']}
(is_exact, every), (is_top, few) = course('--exact', '--memory', '1GiB'), course()
assert is_exact and not is_top and len(every) == len(count) and most in few and len(few) <= 256, (len(every), len(few))
for key, points in few.items():
    assert all(n <= every[key][t] for t, n in points.items()), key
assert sum(few[most].values()) > 0.9 * count[most]
# Within a budget: the largest rows, and exactly the rest; said once.
r = subprocess.run(['./ascribe', 'report', 'long', '--by', 'query_id', '--exact', '--memory', '2MiB', '--json', '-n', '0'], capture_output=True)
assert r.stderr == b'The answer was cut to fit 2 MiB: the smallest rows are summed as (other).\n', r.stderr
cut = json.loads(r.stdout)
assert cut['bounded'] and 'bounded' not in exact and cut['samples'] == exact['samples'] == sum(r['samples'] for r in cut['rows'])
assert cut['rows'][-1]['other'] and cut['rows'][-1]['key'] is None and 100 < len(cut['rows']) < len(count)
assert all(r['samples'] == count[r['key']['query_id']] for r in cut['rows'][:-1])
# What a selector looks at takes no part in it.
whole, some = (run('report', 'long', '--by', 'comm', '--exact', '-n', '0', '--where', 'query_id=~".+"', *a) for a in ([], ['--memory', '1MiB']))
assert some['rows'] == whole['rows'] and some['samples'] == whole['samples'], (some['rows'][:3], whole['rows'][:3])
for args in ['export', 'long', '--format', 'pprof', '--memory', '1MiB'], ['flame', 'long', '--json', '--memory', '1MiB'], \
            ['diff', 'long', '--by', 'query_id', '--against', '{query_id=~"1.*"}', '--memory', '1MiB'], ['labels', 'long', '--memory', '1MiB']:
    r = subprocess.run(['./ascribe', *args], capture_output=True)
    assert r.returncode == 0 and (b'cut to fit 1 MiB' in r.stderr or args[0] == 'flame'), (args, r.stderr)
# One value by postings: the same rows as from all windows.
one = run('report', 'long', '--where', '{query_id="%s"}' % most)
assert one['samples'] == count[most], (one['samples'], count[most])
# A narrow key is exact from few blocks.
comm = run('report', 'long', '--by', 'comm')
assert comm['exact'] and comm['blocks'] < exact['blocks'] / 10 and sum(r['samples'] for r in comm['rows']) == truth['samples']
PY
ok "the most frequent values of a wide key" python3 wide.py
ok "which says that it is approximate" sh -c "'$ascribe' report long --by query_id | grep -q 'approximate: a value of query_id'"
ok "store info: wide, and why" sh -c "'$ascribe' store info long | grep -q 'wide    query_id: at least 2048 values in an hour, more than 256'"
ok "store info: narrow" sh -c "'$ascribe' store info long | grep -q 'narrow  comm: in'"
"$build/tests/mkstore" capped cut >/dev/null || exit 1
exits 0 'past retention' "$ascribe" report capped --to 2026-05-02T00:00:00Z
ok "store info: what was cut" sh -c "'$ascribe' store info capped | grep -q 'blocks cut by retention'"
ok "a store that was cut is whole" "$ascribe" store verify capped

# ---- a store that is being written ----
cat >reading.py <<'PY'
import json, subprocess, sys, time
writer = subprocess.Popen([sys.argv[1], 'growing', 'grow'], stdout=subprocess.PIPE)
seen, reads, last = [], 0, False
while not last:
    last = writer.poll() is not None
    for args in (['report'], ['report', '--by', 'comm'], ['report', '--step', '1m'], ['stat'], ['labels', 'comm']):
        r = subprocess.run(['./ascribe', args[0], 'growing', *args[1:], '--json'], capture_output=True)
        text = r.stderr.decode()
        if r.returncode and not seen and any(t in text for t in ('not a store', 'no store', 'no such', 'No such')):
            continue  # it is not there yet
        assert r.returncode == 0, (args, text)
        d = json.loads(r.stdout)
        assert d['fired'] == d['stored'] + sum(d['lost'].values()), (args, d)
        if args[0] == 'stat':
            continue
        assert d['stored'] == d['samples'], (args, d['stored'], d['samples'])
        if args[0] == 'labels':
            assert sum(v['samples'] for v in d['values']) == d['samples']
        elif 'series' in d:
            assert sum(p[1] for s in d['series'] for p in s['points']) == d['samples']
        else:
            assert sum(x['self'] for x in d['rows']) == d['samples']
        assert not seen or (d['windows'], d['samples']) >= seen[-1], (seen[-1], d['windows'], d['samples'])
        seen.append((d['windows'], d['samples']))
        reads += 1
truth = json.loads(writer.stdout.read())
assert writer.returncode == 0 and seen[-1] == (300, truth['samples']), (seen[-1], truth)
grown = len({s for s in seen})
assert grown >= 10, grown
print(reads, 'reads,', grown, 'different states')
PY
ok "read while it is written" python3 reading.py "$build/tests/mkstore"
cat ok.out

finish
