# SPDX-License-Identifier: Apache-2.0
"""peers.py KIND FILE: a server that does harm to who asks it. FILE gets its address, and FILE.seen
what it was told: secrets among it.

HTTP: file, other (redirects), headers, body, bomb, slow. On a Unix socket, for engines: deep, long.
PostgreSQL: password (asks for it in clear), notices, huge, silent.
"""
import gzip
import os
import socket
import struct
import sys
import threading
import time

kind, file = sys.argv[1:3]
lock = threading.Lock()


def seen(data):
    with lock, open(file + '.seen', 'ab') as f:
        f.write(data[:4096] + b'\n--\n')


def request(c):
    """The head of a request and its body, which goes unread but for a part."""
    data = b''
    while b'\r\n\r\n' not in data:
        got = c.recv(65536)
        if not got:
            return b''
        data += got
    return data


def forever(c, first, part, pause=0.0):
    c.sendall(first)
    while True:
        c.sendall(part)
        time.sleep(pause)


def chunk(data):
    return b'%x\r\n%s\r\n' % (len(data), data)


OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
CHUNKED = OK + b'Transfer-Encoding: chunked\r\n\r\n'
WHOLE = 30 << 20


def http(c):
    data = request(c)
    seen(data)
    if kind == 'file':
        c.sendall(b'HTTP/1.1 307 Go\r\nLocation: file:///etc/shadow\r\nContent-Length: 0\r\n\r\n')
    elif kind == 'other':
        to = open('thief').read().encode()
        c.sendall(b'HTTP/1.1 307 Go\r\nLocation: %s/x\r\nContent-Length: 0\r\n\r\n' % to)
    elif kind == 'headers':
        forever(c, b'HTTP/1.1 200 OK\r\n', b'X-A: ' + b'a' * 1000 + b'\r\n')
    elif kind == 'body':
        forever(c, CHUNKED, chunk(b'a' * 65536))
    elif kind == 'bomb':
        body = gzip.compress(bytes(1 << 28))
        c.sendall(OK + b'Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
    elif kind == 'slow':
        forever(c, CHUNKED, chunk(b'a'), 0.5)
    elif kind == 'deep':
        body = b'[' * WHOLE
        c.sendall(OK + b'Content-Length: %d\r\n\r\n' % len(body) + body)
    elif kind == 'long':
        body = b'[{"Id":"' + b'a' * (WHOLE - 20) + b'"}]'
        c.sendall(OK + b'Content-Length: %d\r\n\r\n' % len(body) + body)


def message(letter, data):
    return letter + struct.pack('>i', len(data) + 4) + data


def postgres(c):
    first = c.recv(65536)
    if first[4:8] == struct.pack('>i', 80877103):  # SSL? No.
        c.sendall(b'N')
        first = c.recv(65536)
    if kind == 'password':
        c.sendall(message(b'R', struct.pack('>i', 3)))
        seen(c.recv(65536))
        return
    if kind == 'silent':
        time.sleep(3600)
    hello = message(b'R', struct.pack('>i', 0)) + message(b'Z', b'I')
    if kind == 'notices':
        forever(c, hello, message(b'N', b'SNOTICE\0C00000\0M' + b'a' * 60000 + b'\0\0'))
    if kind == 'huge':
        c.sendall(hello)
        c.recv(65536)
        forever(c, b'D' + struct.pack('>i', 0x7ffffff0), b'a' * 65536)


def serve(c):
    try:
        (postgres if kind in ('password', 'notices', 'huge', 'silent') else http)(c)
    except OSError:
        pass
    finally:
        c.close()


if kind in ('deep', 'long'):
    s = socket.socket(socket.AF_UNIX)
    s.bind(file + '.sock')
    address = file + '.sock'
else:
    s = socket.create_server(('127.0.0.1', 0))
    address = '127.0.0.1:%d' % s.getsockname()[1]
s.listen(16)
with open(file + '.new', 'w') as f:
    f.write(address if kind not in ('thief',) else 'http://' + address)
os.rename(file + '.new', file)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
