#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Grafana's SDK for Node, @pyroscope/nodejs, unmodified from npm, sends its profiles to our daemon.
# They are found by the name of the application, by the labels that the program set, and by
# function. Needs the network once; the packages stay in build/others.
. "$(dirname "$0")/../http/lib.bash"
needs_recording
modules=$build/others/pyroscope
command -v npm >/dev/null || skip "no npm"
mkdir -p "$modules"
if [ ! -d "$modules/node_modules/@pyroscope/nodejs" ] ||
	[ ! -x "$modules/node_modules/node/bin/node" ]; then
	(cd "$modules" && npm install --no-audit --no-fund node@24 @pyroscope/nodejs@0.6.4 \
		>npm.log 2>&1) ||
		skip "npm cannot install the packages"
fi
serve log "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --anonymous || finish
cat >shop.js <<'END'
const Pyroscope = require('@pyroscope/nodejs').default;
Pyroscope.init({ serverAddress: process.argv[2], appName: 'shop', tags: { region: 'north' }, flushIntervalMs: 2000,
  wall: { collectCpuTime: true, samplingDurationMs: 2000, samplingIntervalMicros: 5000 } });
Pyroscope.start();
const used = {};
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
function spin(name, ms) {
  const begin = cpu();
  while (cpu() - begin < ms * 1000) for (let i = 0; i < 10000; i++);
  used[name] = (used[name] || 0) + (cpu() - begin) / 1e6;
}
function checkout(ms) { spin('checkout', ms); }
function search(ms) { spin('search', ms); }
(async () => {
  for (let i = 0; i < 60; i++) {
    Pyroscope.wrapWithLabels({ tenant: 'acme' }, () => checkout(60));
    Pyroscope.wrapWithLabels({ tenant: 'umbrella' }, () => search(20));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Pyroscope.stop();
  console.log(JSON.stringify(used));
})();
END
ok "the program ends" env NODE_PATH="$modules/node_modules" \
	"$modules/node_modules/node/bin/node" shop.js "$url"
cp ok.out truth.json
cat >found.py <<'PY'
import json, sys, time, urllib.parse, urllib.request
url, truth = sys.argv[1], json.loads(open('truth.json').read().splitlines()[-1])
def api(path, **q):
    return json.load(urllib.request.urlopen(url + '/api/v1/' + path + '?' + urllib.parse.urlencode(q)))
events = []
for i in range(60):  # windows are of 10 s
    events = [e['value'] for e in api('values', key='event')['values'] if e['value'].startswith('ingest:')]
    if 'ingest:cpu' in events: break
    time.sleep(0.5)
assert 'ingest:cpu' in events, events
for i in range(30):
    by = {r['key']['tenant']: r['seconds'] for r in api('table', event='ingest:cpu', where='{service_name="shop",region="north"}', by='tenant')['rows']}
    if by.get('acme', 0) > 0.8 * truth['checkout']: break
    time.sleep(0.5)
rows = api('table', event='ingest:cpu', where='{service_name="shop",tenant="acme"}', limit=100)['rows']
checkout = sum(r['seconds'] for r in rows if ':checkout:' in r['function'])
search = sum(r['seconds'] for r in rows if ':search:' in r['function'])
print(events, by, checkout, search, truth)
# What the SDK sends last it may drop at its end; what it spends beside the tasks has no tenant.
for tenant, task in (('acme', 'checkout'), ('umbrella', 'search')):
    assert 0.4 * truth[task] < by[tenant] < 1.1 * truth[task], (by, truth)
assert 0.85 < by['acme'] / by['umbrella'] / (truth['checkout'] / truth['search']) < 1.15
assert 0.95 * by['acme'] < checkout <= by['acme'] * 1.001 and not search
PY
ok "CPU by tenant as the program measured it, functions by their names" python3 found.py "$url"
finish
