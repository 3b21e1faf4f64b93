# SPDX-License-Identifier: Apache-2.0
"""ask_always.py PORT SOCKET END TIMEOUT: ask /healthz of both addresses each 10 ms until the file END
is there, each time by a new connection, which may wait TIMEOUT seconds. Say how many failed; exit 1
when any did, or when fewer than 100 were asked."""
import http.client, os, socket, sys, threading, time
port, path, end, patience = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
took, failed, until = [], [], time.time() + 600
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(patience)
        self.sock.connect(path)
def ask(c):
    begin = time.time()
    try:
        c.request('GET', '/healthz')
        r = c.getresponse()
        assert r.read() == b'ok\n' and r.status == 200
    except Exception as e:
        failed.append(repr(e))
    c.close()
    took.append(time.time() - begin)
threads = []
while time.time() < until and not os.path.exists(end):
    time.sleep(0.01)
    for c in (http.client.HTTPConnection('127.0.0.1', port, timeout=patience), Unix('localhost')):
        threads.append(threading.Thread(target=ask, args=(c,)))
        threads[-1].start()
    threads = [t for t in threads if t.is_alive()]
for t in threads:
    t.join()
print(f'{len(took)} requests, the slowest {max(took, default=0):.1f} s, failed: {failed[:5]}')
sys.exit(bool(failed) or len(took) < 100)
