# SPDX-License-Identifier: Apache-2.0
"""asked.py AUDIT_LOG SINCE: what the agent has asked of the API server since a time (of the epoch)."""
import datetime
import json
import sys
import time

log, since = sys.argv[1], float(sys.argv[2])
minutes = (time.time() - since) / 60
requests = {'list': 0, 'watch': 0, 'other': 0}
watches = most = 0
answered = None
for line in open(log):
    event = json.loads(line)
    when = datetime.datetime.fromisoformat(event['stageTimestamp'].replace('Z', '+00:00'))
    after = when.timestamp() - since
    pods = event.get('objectRef', {}).get('resource') == 'pods'
    kind = event['verb'] if pods and event['verb'] in requests else 'other'
    if after < 0:
        continue
    requests[kind] += event['stage'] == 'RequestReceived'
    if kind == 'watch':
        watches += {'ResponseStarted': 1, 'ResponseComplete': -1}.get(event['stage'], 0)
        most = max(most, watches)
    if kind == 'list' and event['stage'] == 'ResponseComplete' and answered is None:
        answered = after
total = sum(requests.values())
for row in (
        ('the list of all pods is answered after the start, s', '1', f'{answered:.3f}'),
        ('watches at a time', '1', most),
        (f'lists, watches, others in {minutes:.1f} minutes', '', ', '.join(map(str, requests.values()))),
        ('a minute, without the first list and watch', '1', f'{(total - 2) / minutes:.2f}')):
    print('%-64s %-8s %s' % row)
