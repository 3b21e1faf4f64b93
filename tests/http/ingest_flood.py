# SPDX-License-Identifier: Apache-2.0
"""Profiles of 1 to 2 MiB in which every name is new, as fast as they are taken: ingest_flood.py URL PID STORE SECONDS."""
import http.client
import json
import os
import sys
import threading
import time

host, pid, store, seconds = sys.argv[1].split('//')[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
end = time.time() + seconds
statuses, sent, delays = {}, [0], []


def flood():
    while time.time() < end:
        names = os.urandom(21 * 9000).hex()
        body = '\n'.join(f'{names[i:i + 120]};{names[i + 120:i + 240]} 1' for i in range(0, len(names), 240)) * 3
        body = body.replace('\n', ' 1\n').encode()[:1 << 20].rpartition(b'\n')[0]
        try:
            c = http.client.HTTPConnection(host, timeout=20)
            c.request('POST', f'/ingest?name=x%7Ba={os.urandom(8).hex()}%7D&format=folded', body)
            r = c.getresponse()
            status = r.status
            if status in (429, 503):
                delays.append(int(r.getheader('Retry-After')))
                json.loads(r.read())['message']
            else:
                r.read()
            if status == 200:
                sent[0] += len(body)
        except (OSError, http.client.HTTPException) as e:  # refused by its head while we still sent
            status = type(e).__name__
        statuses[status] = statuses.get(status, 0) + 1
        time.sleep(0.01)


def size():
    total = 0
    for root, _, files in os.walk(store):
        for f in files:
            try:
                total += os.stat(f'{root}/{f}').st_blocks * 512
            except FileNotFoundError:
                pass
    return total >> 20


def resident():
    return next(int(l.split()[1]) >> 10 for l in open(f'/proc/{pid}/status') if l.startswith('VmRSS'))


threads = [threading.Thread(target=flood) for _ in range(4)]
for t in threads:
    t.start()
most = [0, 0]
while time.time() < end:
    most = [max(most[0], size()), max(most[1], resident())]
    time.sleep(0.5)
for t in threads:
    t.join()
print(json.dumps({'taken': sent[0] >> 20, 'store': most[0], 'resident': most[1], 'statuses': statuses, 'delays': sorted(set(delays))}))
