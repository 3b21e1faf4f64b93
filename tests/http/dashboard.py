# SPDX-License-Identifier: Apache-2.0
"""dashboard.py DASHBOARD PROMETHEUS METRICS...: every query of a Grafana dashboard is PromQL that Prometheus takes, over metrics that
stand in the texts. Names of push are of a daemon that has receivers."""
import json, re, sys, urllib.parse, urllib.request

dashboard, prometheus, *texts = sys.argv[1:]
known = set()
for name in texts:
    known |= set(re.findall(r'^([a-z_]+)(?:\{|\s)', open(name).read(), re.M))
panels = json.load(open(dashboard))['panels']
places = [tuple(p['gridPos'].values()) for p in panels]
assert len(set(places)) == len(panels) and len({p['id'] for p in panels}) == len(panels)
n = 0
for p in panels:
    for t in p['targets']:
        q = t['expr'].replace('$__rate_interval', '1m').replace('$instance', '.*')
        r = json.load(urllib.request.urlopen(prometheus + '/api/v1/query?' + urllib.parse.urlencode({'query': q})))
        assert r['status'] == 'success', (q, r)
        names = re.findall(r'\bascribe_\w+', q)
        assert names and all(m in known or m.startswith('ascribe_push_') for m in names), (q, names)
        n += 1
print(n, 'queries')
