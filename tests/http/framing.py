# SPDX-License-Identifier: Apache-2.0
"""Requests whose end is unclear, each with a second one behind it: framing.py PORT. One answer of 400, then the end of the connection."""
import re
import socket
import sys

port = int(sys.argv[1])


def answers(data):
    """The statuses of what came back, and whether the server closed the connection."""
    s = socket.create_connection(('127.0.0.1', port), timeout=5)
    s.sendall(data)
    out, closed = b'', True
    s.settimeout(1)
    try:
        while d := s.recv(65536):
            out += d
    except socket.timeout:
        closed = False
    except ConnectionResetError:
        pass
    s.close()
    return [int(n) for n in re.findall(rb'HTTP/1\.1 (\d+)', out)], closed


GET = b'GET /api/v1/stat HTTP/1.1\r\nHost: localhost\r\n\r\n'
POST = b'POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
LENGTH, CHUNKED, CHUNKS = b'Content-Length: 2\r\n', b'Transfer-Encoding: chunked\r\n', b'\r\n2\r\n{}\r\n0\r\n\r\n'
unclear = {
    'a length, then chunks': POST + LENGTH + CHUNKED + CHUNKS,
    'chunks, then a length': POST + CHUNKED + LENGTH + CHUNKS,
    'chunks, and a length that hides the next request': POST + CHUNKED + b'Content-Length: %d\r\n' % (5 + len(GET)) + b'\r\n0\r\n\r\n',
    'two lengths': POST + LENGTH + b'Content-Length: %d\r\n\r\n{}' % (2 + len(GET)),
    'two equal lengths': POST + LENGTH + LENGTH + b'\r\n{}',
    'a length before its colon': POST + b'Content-Length : 2\r\n\r\n{}',
    'chunks before their colon': POST + b'Transfer-Encoding : chunked\r\n' + LENGTH + b'\r\n{}',
    'a tab before the colon': POST + b'Content-Length\t: 2\r\n\r\n{}',
    'another encoding': POST + b'Transfer-Encoding: gzip, chunked\r\n' + CHUNKS,
    'no encoding that there is': POST + b'Transfer-Encoding: xchunked\r\n' + LENGTH + b'\r\n{}',
    'the encoding that is none': POST + b'Transfer-Encoding: identity\r\n\r\n{}',
    'two encodings': POST + CHUNKED + b'Transfer-Encoding: identity\r\n' + CHUNKS,
    'chunks in HTTP/1.0': POST.replace(b'1.1', b'1.0') + CHUNKED + CHUNKS,
    'a folded length': POST + b'X: a\r\n Content-Length: 2\r\n\r\n{}',
}
clear = {
    'a length': POST + LENGTH + b'\r\n{}',
    'chunks': POST + CHUNKED + CHUNKS,
    'CHUNKS': POST + CHUNKED.upper() + CHUNKS,
    'a length of nothing': GET[:-2] + b'Content-Length: 0\r\n\r\n',
}
failed = 0
for what, want, requests in (('unclear', ([400], True), unclear), ('clear', ([200, 200], False), clear)):
    for name, data in requests.items():
        got = answers(data + GET)
        if got != want:
            print(f'{what}: {name}: {got}, not {want}')
            failed += 1
print(len(unclear) + len(clear), 'requests,', failed, 'failed')
sys.exit(failed > 0)
