# SPDX-License-Identifier: Apache-2.0
"""One client that holds as many connections as it gets, in one of three ways, while others want to know whether the server
lives: crowd.py ADDRESS silent|slow|answered SECONDS. ADDRESS: a port of loopback, or the path of a Unix socket."""
import resource
import socket
import sys
import threading
import time

address, how, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
end = time.time() + seconds


def connect(timeout):
    s = socket.socket(socket.AF_INET if address.isdigit() else socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(('127.0.0.1', int(address)) if address.isdigit() else address)
    return s


def attack():
    held = []
    while time.time() < end:
        for _ in range(20):
            try:
                s = connect(0.05)
                if how == 'answered':
                    s.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
                s.setblocking(False)
                held.append(s)
            except OSError:
                break
        for s in held[:]:
            try:
                if how == 'slow':
                    s.send(b'G')
                if s.recv(1000) == b'':
                    raise OSError
            except BlockingIOError:
                pass
            except OSError:
                s.close()
                held.remove(s)
        opened.append(len(held))
        time.sleep(0.02)


opened, statuses, worst = [], {}, 0
attacker = threading.Thread(target=attack)
attacker.start()
time.sleep(1)
while time.time() < end:
    began, status = time.time(), 'nothing'
    try:
        s = connect(2)
        s.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        status = s.recv(1000)[9:12].decode() or 'closed'
        s.close()
    except OSError as e:
        status = type(e).__name__
    worst = max(worst, time.time() - began)
    statuses[status] = statuses.get(status, 0) + 1
    time.sleep(0.05)
attacker.join()
print(f'{how}: {statuses}, the slowest after {worst:.2f} s, {max(opened)} held')
sys.exit(set(statuses) != {'200'} or max(opened) < 100)
