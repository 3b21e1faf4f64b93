# SPDX-License-Identifier: Apache-2.0
"""A greedy token and a modest one: quota.py URL GREEDY MODEST. The greedy one has 24 questions waiting
at any time, the modest one asks one after the other: it must not wait behind all of them."""
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request

url, greedy, modest = sys.argv[1:4]
stop = False
lock = threading.Lock()
serial = 0
took = {greedy: [], modest: []}
refused = {greedy: 0, modest: 0}


def ask(token):
    global serial
    with lock:
        serial += 1
        n = serial
    began = time.monotonic()
    try:
        urllib.request.urlopen(urllib.request.Request(f'{url}/api/v1/diff?against=%7B%7D&limit={100 + n}',
                                                      headers={'Authorization': 'Bearer ' + token}), timeout=100).read()
        took[token].append(time.monotonic() - began)
    except urllib.error.HTTPError as e:
        assert e.code in (429, 503) and int(e.headers['Retry-After']) > 0, (e.code, e.read())
        refused[token] += 1
        time.sleep(0.05)


def flood():
    while not stop:
        ask(greedy)


for _ in range(5):
    ask(modest)
alone = statistics.median(took[modest])
took[modest].clear()
threads = [threading.Thread(target=flood) for _ in range(24)]
for t in threads:
    t.start()
time.sleep(0.5)
until = time.monotonic() + 6
while time.monotonic() < until or len(took[modest]) < 3:
    ask(modest)
stop = True
for t in threads:
    t.join()
m, g = statistics.median(took[modest]), statistics.median(took[greedy])
print(f'modest alone {alone * 1000:.0f} ms, beside {m * 1000:.0f} ms ({len(took[modest])}), greedy {g * 1000:.0f} ms ({len(took[greedy])}, {refused[greedy]} refused)')
assert (m < g / 3 or m < 6 * alone) and not refused[modest], refused
