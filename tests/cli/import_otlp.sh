#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ascribe import otlp: our own export comes back with the same sums, another profiler's request is
# found by every label and function, what makes no sense is refused with its reason.
. "$(dirname "$0")/lib.bash"
NOW=$(date +%s)
export PYTHONPATH=$here/../http PYTHONDONTWRITEBYTECODE=1 NOW
"$build/tests/mkstore" wide wide >wide.json || exit 1

rows() { "$ascribe" report "$@" -n 0 --json 2>/dev/null |
	jq -S '[.rows[] | [.key // [.function, .self], .samples, .seconds]] | sort'; }

# ---- our own, there and back ----
for store in store wide; do
	"$ascribe" export $store --format otlp -o $store.otlp 2>/dev/null
	exits 0 '' "$ascribe" import otlp $store.otlp -o back-$store
	ok "$store: functions are those of the export" cmp <(rows $store) <(rows back-$store)
	ok "and tenants" cmp <(rows $store --by tenant) <(rows back-$store --by tenant)
	ok "and query ids" cmp <(rows $store --by query_id) <(rows back-$store --by query_id)
done
ok "and its time" test \
	"$("$ascribe" report back-store --json 2>/dev/null | jq -c '[.from + 0, .to + 0]')" = \
	"[1777629600,1777629630]"
gzip -k store.otlp
exits 0 '' "$ascribe" import otlp store.otlp.gz -o zipped -l site=b
ok "gzipped, with a label" test "$(rows zipped --by site | jq -c '.[0][0]')" = '{"site":"b"}'
"$ascribe" export store -e page-faults --format otlp -o faults.otlp 2>/dev/null
exits 0 '' "$ascribe" import otlp faults.otlp -o faults
ok "another event" cmp <(rows faults -e page_faults --by tenant) \
	<(rows store -e page-faults --by tenant)

# ---- another profiler's ----
cat >foreign.py <<'PY'
import json, subprocess, sys, otlp, otlp_foreign
ascribe = sys.argv[1]
def run(*a, want=0):
    r = subprocess.run([ascribe, *a], capture_output=True, text=True)
    assert r.returncode == want, (a, r)
    return r
def importing(name, bytes, **k):
    open(name, 'wb').write(bytes)
    return run('import', 'otlp', name, '-o', name + '.store', **k)
importing('whole', otlp.encode(otlp_foreign.request()))
otlp_foreign.check(lambda event, where, *a: json.loads(run('report', 'whole.store', '-e', event, '--where', where, *a, '-n', '0', '--json').stdout))
for i, (why, n, body) in enumerate(otlp_foreign.damaged()):
    r = importing(f'damaged{i}', body, want=1 if n == 4 else 0)
    assert why in r.stderr and (n == 4 or f' {n} of {4 if n < 4 else 84} profiles' in r.stderr), (why, n, r.stderr)
for why, body in *otlp_foreign.undecodable(), ('too many samples', otlp_foreign.many(1000001)), ('too many samples', otlp_foreign.many(10000000)):
    r = importing('undecodable', body, want=1)
    assert why in r.stderr, (why, r.stderr)
PY
ok "another profiler's request, and damaged ones" python3 foreign.py "$ascribe"
exits 1 'no samples in the format' "$ascribe" import otlp /dev/null -o none
head -c 200 store.otlp.gz >cut.gz
exits 1 'no whole gzip' "$ascribe" import otlp cut.gz -o none
ok "none of them left a store" test ! -e none -a ! -e undecodable.store
finish
