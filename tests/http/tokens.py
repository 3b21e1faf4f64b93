# SPDX-License-Identifier: Apache-2.0
"""Four clients on connections that stay open, through reloads: tokens.py HOST:PORT TOKEN STOP-FILE.

No request may be refused or lost. A connection may be closed between two requests, as any."""
import http.client
import os
import sys
import threading

address, token, stop = sys.argv[1:4]
done, wrong = [0], []


def ask(c):
    c.request('GET', '/api/v1/labels?names_only=1', headers={'Authorization': 'Bearer ' + token})
    r = c.getresponse()
    return r.status, r.read()


def run():
    c = http.client.HTTPConnection(address, timeout=20)
    while not os.path.exists(stop):
        try:
            status, body = ask(c)
        except (http.client.HTTPException, ConnectionError, BrokenPipeError):
            c.close()  # once more on a new one
            try:
                status, body = ask(c)
            except Exception as e:
                wrong.append(repr(e))
                return
        done[0] += 1
        if status not in (200, 503):  # 503: one server ends, and the next one begins
            wrong.append((status, body[:200]))


threads = [threading.Thread(target=run) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(done[0], 'requests')
assert done[0] > 50 and not wrong, wrong[:3]
