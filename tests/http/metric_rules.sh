#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `metrics:` of the daemon: seconds of profiles as counters, scraped by a real Prometheus, compared
# with ascribe report; a fixed number of series; trace ids as exemplars; lengths of waits as
# histograms and summaries, compared with a program that sleeps; a reload. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
command -v prometheus >/dev/null && command -v promtool >/dev/null || skip "no prometheus"

# ---- the configuration ----
config() { # lines of metrics:
	{ printf 'store: %s/store\nlisten: 127.0.0.1:0\nanonymous: true\nfrequency: 99\nwall: true\n' "$dir"
		echo cpu-max: 0; echo metrics:; cat; } >c.yaml
	chmod 600 c.yaml
}
config <<<'  - {metric: wall}'
checks 2 "c.yaml:7: metrics: rule 1: metric: 'wall'; there are cpu, off-cpu and runq"
config <<<'  - {name: x}'
checks 2 'metric: which one?'
config <<<'  - {metric: cpu, name: "a-b"}'
checks 2 "name: 'a-b' has other than letters"
config <<<'  - {metric: cpu, by: [a.b, a_b]}'
checks 2 'two labels would be called a_b'
config <<<'  - {metric: cpu, by: [a, b, c, d, e]}'
checks 2 'by: 1 to 4 labels'
config <<<'  - {metric: cpu, where: "{a="}'
checks 2 'where: '
config <<<'  - {metric: cpu, top: 2000}'
checks 2 'top'
config <<<"$(printf '  - cpu\n  - {metric: runq, name: cpu}\n')"
checks 2 'two rules are called cpu'
config <<<'  - {metric: cpu, topp: 2}'
checks 2 'did you mean top?'
config <<<'  - {metric: cpu, type: histogram}'
checks 2 'type: histograms and summaries are of waits: choose metric off-cpu or runq'
config <<<'  - {metric: runq, type: gauge}'
checks 2 "type: 'gauge'; there are counter, histogram and summary"
config <<<'  - {metric: runq, type: histogram, buckets: [1ms, 1ms]}'
checks 2 "buckets: '1ms,1ms' is none of 1ms,10ms,1s; linear:"
config <<<'  - {metric: runq, type: histogram, buckets: "linear:0:1ms:61"}'
checks 2 'must give 1 to 60 bounds'
config <<<'  - {metric: runq, buckets: [1ms]}'
checks 2 'buckets: for type: histogram alone'
config <<<'  - {metric: runq, type: histogram, quantiles: [0.5]}'
checks 2 'quantiles: for type: summary alone'
config <<<'  - {metric: runq, type: summary, quantiles: [0.9, 0.5]}'
checks 2 "quantiles: '0.5'; give ascending numbers from 0 to 1"
config <<<'  - {metric: runq, type: summary, quantiles: [99]}'
checks 2 "quantiles: '99'; give ascending"
config <<<'  - {metric: runq, type: summary, by: [quantile]}'
checks 2 'by: not quantile with type: summary'
config <<<'  - {metric: runq, type: histogram, by: [le]}'
checks 2 'by: not le with type: histogram'
config <<<'  - {metric: off-cpu, type: histogram, by: [tgid]}'
checks 2 'lengths of waits are not kept by tgid, tid or thread'
config <<<'  - {metric: off-cpu, type: histogram, where: "{event=\"off-cpu\"}"}'
checks 2 'where: not `event` with type: histogram'
config <<<'  - {metric: off-cpu, type: histogram, top: 101}'
checks 2 'top: at most 100 with histograms and summaries'

# ---- a load: three tenants with much work, three with little ----
config <<'END'
  - {metric: cpu, name: tenants, by: [tenant], where: '{comm="tenants",tenant!=""}', top: 3}
  - {metric: off-cpu, name: blocked, by: [comm], top: 5}
  - {metric: runq, by: [service, comm], top: 4}
  - cpu
  - {metric: off-cpu, name: slept, by: [comm], where: '{comm="sleeper"}', type: histogram, buckets: [15ms, 25ms, 60ms, 100ms], top: 3}
  - {metric: off-cpu, name: quantiles, by: [comm], where: '{comm="sleeper"}', type: summary, quantiles: [0.5, 0.95]}
  - {metric: runq, name: queued, by: [comm], type: histogram, buckets: "log:10us:10s", top: 4}
  - {metric: off-cpu, name: usual, by: [comm], type: histogram, top: 2}
END
checks 0 'is good'
background "$build/tests/record/tenants" 100
sleep 1
serve log "$ascribe" daemon -c c.yaml || finish
daemon=$pid
cat >sleeper.py <<'PY'
import ctypes, time
ctypes.CDLL(None).prctl(15, b'sleeper')
for length, n in ((.02, 150), (.08, 20)):
    for _ in range(n): time.sleep(length)
PY
ok "a program slept 150 times 20 ms, 20 times 80 ms" python3 sleeper.py
cat >prometheus.yaml <<END
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: profiles
    metrics_path: /metrics/profiles
    static_configs: [{targets: ['${url#http://}']}]
  - job_name: ascribe
    static_configs: [{targets: ['${url#http://}']}]
END
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
background prometheus --config.file=prometheus.yaml --storage.tsdb.path="$dir/tsdb" \
	--web.listen-address="127.0.0.1:$port" --enable-feature=exemplar-storage 2>prometheus.log
cat >compare.py <<'PY'
import json, re, subprocess, sys, time, urllib.parse, urllib.request
ascribe, url, prometheus = sys.argv[1], sys.argv[2], 'http://127.0.0.1:' + sys.argv[3]
def fetch(at, **h): return urllib.request.urlopen(urllib.request.Request(at, headers=h)).read().decode()
def scrape():
    out = {}
    for name, labels, value in re.findall(r'^ascribe_profile_(\w+)_seconds_total\{(.*)\} ([0-9.]+)$', fetch(url + '/metrics/profiles'), re.M):
        out.setdefault(name, {})[tuple(v for _, v in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))] = float(value)
    return out
def report(metric, by, where='{}'):
    r = subprocess.run([ascribe, 'report', 'store', '--metric', metric, '--by', by, '--where', where, '-n', '0', '--json'], capture_output=True, check=True)
    return {tuple(x['key'][k] or '' for k in by.split(',')): x['seconds'] for x in json.loads(r.stdout)['rows']}
def ask(path, **q):
    r = json.loads(fetch(prometheus + '/api/v1/' + path + '?' + urllib.parse.urlencode(q)))
    assert r['status'] == 'success', r
    return r['data']
rules = {'tenants': ('cpu', 'tenant', '{comm="tenants",tenant!=""}', 3), 'blocked': ('off', 'comm', '{}', 5), 'runq': ('runq', 'service,comm', '{}', 4),
         'cpu': ('cpu', 'service', '{}', 20)}
def compare():
    while True:  # no window in between
        before = scrape()
        want = {name: report(*r[:3]) for name, r in rules.items()}
        if before == scrape(): break
    for name, (metric, by, where, top) in rules.items():
        got, sums = before[name], want[name]
        assert abs(sum(got.values()) - sum(sums.values())) < 1e-3, (name, sum(got.values()), sum(sums.values()))
        assert len(got) <= top + 1 and tuple('(other)' for _ in by.split(',')) in got, (name, got)
        for group, seconds in got.items():
            assert '(other)' in group or abs(seconds - sums[group]) < 1e-3, (name, group, seconds, sums[group])
    return before
deadline = time.time() + 90
while not scrape().get('tenants') or sum(scrape()['tenants'].values()) < 1:
    assert time.time() < deadline, scrape()
    time.sleep(1)
values = compare()
assert {k[0] for k in values['tenants']} == {'t0', 't1', 't2', '(other)'}, values['tenants']
print({k[0]: round(v, 2) for k, v in values['tenants'].items()}, round(sum(values['cpu'].values()), 2), 's of CPU in all')
time.sleep(2.5)  # Prometheus has them, too
last = compare()
deadline = time.time() + 60
while time.time() < deadline:  # its latest scrape is of the same windows
    got = {tuple(x['metric'].get(k, '') for k in rules['tenants'][1].split(',')): float(x['value'][1])
           for x in ask('query', query='ascribe_profile_tenants_seconds_total')['result']}
    now = scrape()['tenants']
    if got == now: break
    time.sleep(.7)
assert got == now, (got, now)
x = 'ascribe_profile_%s_seconds_total'
for q in *(f'resets({x % n}[5m]) > 0' for n in rules), *(f'count(count_over_time({x % n}[5m])) != count({x % n})' for n in rules), 'up == 0', \
        'ascribe_profile_rule_ok == 0':
    assert ask('query', query=q)['result'] == [], (q, ask('query', query=q))
# A scrape of ours may have taken those of a window: the next one brings others.
want, deadline = {f't{k}': {'%032x' % (0xabc0 + k)} for k in range(3)}, time.time() + 60
while time.time() < deadline:
    exemplars = ask('query_exemplars', query='ascribe_profile_tenants_seconds_total', start=time.time() - 120, end=time.time())
    seen = {e['seriesLabels']['tenant']: {x['labels']['trace_id'] for x in e['exemplars']} for e in exemplars}
    if seen == want: break
    time.sleep(1)
assert seen == want, seen
last = compare()
json.dump([sorted(last), sum(last['tenants'].values())], open('last.json', 'w'))
PY
ok "Prometheus, the report and the counters agree" python3 compare.py "$ascribe" "$url" "$port"
cat >lengths.py <<'PY'
import json, re, subprocess, sys, time, urllib.parse, urllib.request
ascribe, url, prometheus = sys.argv[1], sys.argv[2], 'http://127.0.0.1:' + sys.argv[3]
def fetch(at): return urllib.request.urlopen(at).read().decode()
def ask(query):
    r = json.loads(fetch(prometheus + '/api/v1/query?' + urllib.parse.urlencode({'query': query})))
    return {tuple(sorted((k, v) for k, v in x['metric'].items() if k in ('comm', 'le', 'quantile'))): float(x['value'][1]) for x in r['data']['result']}
def one(query):
    got = ask(query)
    assert len(got) == 1, (query, got)
    return next(iter(got.values()))
p, of = 'ascribe_profile_', '{comm="sleeper"}'
deadline = time.time() + 90  # its windows are written
while time.time() < deadline and ask(f'{p}slept_seconds_bucket{{comm="sleeper",le="+Inf"}}').get((('comm', 'sleeper'), ('le', '+Inf')), 0) < 170: time.sleep(1)
le = {dict(k)['le']: v for k, v in ask(f'{p}slept_seconds_bucket' + of).items()}
assert list(map(float, sorted(le, key=float))) == [.015, .025, .06, .1, float('inf')], le
assert 170 <= le['+Inf'] - le['0.015'] <= 172, le  # timers of a busy host come late
assert 143 <= le['0.025'] - le['0.015'] <= 152 and 18 <= le['0.1'] - le['0.06'] <= 22, le
assert one(f'{p}slept_seconds_count' + of) == le['+Inf'] == one(f'{p}quantiles_seconds_count' + of), le
total = one(f'{p}slept_seconds_sum' + of)
assert 4.6 * (1 - 1 / 16) <= total <= 4.9 * (1 + 1 / 16) and total == one(f'{p}quantiles_seconds_sum' + of), total
half, most = (one(f'histogram_quantile({q}, {p}slept_seconds_bucket{of})') for q in (.5, .95))
assert .015 < half <= .025 and .06 < most <= .1, (half, most)
got = {dict(k)['quantile']: v for k, v in ask(f'{p}quantiles_seconds' + of).items()}
assert abs(got['0.5'] / .0201 - 1) <= .08 and abs(got['0.95'] / .0801 - 1) <= .08, got
print('buckets', le, 'sum', round(total, 3), 'histogram_quantile', round(half, 4), round(most, 4), 'summary', got)
assert not ask(f'{p}slept_seconds_count{{comm="(other)"}}').get((('comm', '(other)'),)), 'none is elsewhere'
# Rules that count everything, beside the report.
def scrape(name):
    out = {}
    for comm, bound, n in re.findall(p + name + r'_seconds_bucket\{comm="((?:[^"\\]|\\.)*)",le="([^"]*)"\} (\d+)', fetch(url + '/metrics/profiles')):
        out.setdefault(comm, []).append(int(n))
    return out
def report(metric, buckets):
    r = subprocess.run([ascribe, 'report', 'store', '--metric', metric, '--by', 'comm', '--buckets', buckets, '-n', '0', '--json'], capture_output=True, check=True)
    out = {}
    for row in json.loads(r.stdout)['rows']:
        upto = 0
        out[row['key']['comm'] or ''] = [upto := upto + b[2] for b in row['buckets']]
    return out
usual = ','.join(f'{n}{u}' for u in ('us', 'ms', 's') for n in ('1', '2.5', '5', '10', '25', '50', '100', '250', '500') if (u, n) not in (('us', '1'), ('us', '2.5'), ('us', '5')) and (u != 's' or n in ('1', '2.5', '5', '10')))
for name, metric, buckets, top in ('queued', 'runq', 'log:10us:10s', 4), ('usual', 'off', usual, 2):
    while True:  # no window in between
        before = scrape(name)
        want = report(metric, buckets)
        if before == scrape(name): break
    assert len(before) == top + 1 and '(other)' in before, before.keys()
    for comm, counts in before.items():
        assert counts == sorted(counts) and (comm == '(other)' or counts == want[comm]), (name, comm, counts, want.get(comm))
    assert [sum(v) for v in zip(*before.values())] == [sum(v) for v in zip(*want.values())], name
for q in *(f'resets({p}{n}_seconds_{x}[5m]) > 0' for n in ('slept', 'queued', 'usual') for x in ('bucket', 'sum', 'count')), 'ascribe_profile_rule_ok == 0':
    assert ask(q) == {}, (q, ask(q))
PY
ok "histograms and summaries are what the program slept, and the report's" \
	python3 lengths.py "$ascribe" "$url" "$port"
curl -s "$url/metrics/profiles" >text
curl -s "$url/metrics" >metrics.txt
ok "promtool: the text is good" promtool check metrics <text
gets 200 '# EOF' -H 'Accept: application/openmetrics-text; version=1.0.0' "$url/metrics/profiles"
ok "OpenMetrics has the name without _total" grep -q '^# TYPE ascribe_profile_tenants_seconds counter$' body

# ---- what is shipped ----
monitoring=$here/../../deploy/monitoring
ok "promtool: the alerts are good" promtool check rules "$monitoring/alerts.yaml"
ok "and fire" promtool test rules "$monitoring/alerts_test.yaml"
ok "the dashboard's queries name metrics that there are" python3 "$here/dashboard.py" \
	"$monitoring/dashboard.json" "http://127.0.0.1:$port" text metrics.txt

# ---- a reload: the same rules go on, others begin anew ----
kill -HUP "$daemon"
until_says 'reloaded' log
gets 200 'tenant="t0"' "$url/metrics/profiles"
ok "the same rules go on" python3 -c "
import json, re
n = sum(float(v) for v in re.findall(r'tenants_seconds_total{.*} ([0-9.]+)', open('body').read()))
assert n >= json.load(open('last.json'))[1] > 0, n"
ok "histograms, too" python3 -c "
import re
assert re.search(r'slept_seconds_bucket{comm=\"sleeper\",le=\"0.025\"} 15[0-9]\b', open('body').read())
assert re.search(r'quantiles_seconds{comm=\"sleeper\",quantile=\"0.5\"} 0.0[12]', open('body').read())"
config <<<'  - cpu'
kill -HUP "$daemon"
within 20 sh -c '[ "$(grep -c reloaded log)" = 2 ]'
gets 200 'ascribe_profile_cpu_seconds_total{service="(other)"} 0.000000000' "$url/metrics/profiles"
ok "the others are gone" sh -c '! grep -q tenants body'
kill "$daemon"
wait "$daemon"
serve log2 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
refused 404 'no rules' "$url/metrics/profiles"

finish
