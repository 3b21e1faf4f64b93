# SPDX-License-Identifier: Apache-2.0
# One request over FastCGI: ask.py SOCKET SCRIPT QUERY. Prints the body of the answer.
import socket, struct, sys

path, script, query = sys.argv[1:]
begin, params, stdin, stdout = 1, 4, 5, 6


def record(kind, data):
    return struct.pack('>BBHHBB', 1, kind, 1, len(data), 0, 0) + data


def pair(name, value):
    return struct.pack('>BB', len(name), len(value)) + name.encode() + value.encode()


environment = {'REQUEST_METHOD': 'GET', 'SCRIPT_FILENAME': script, 'QUERY_STRING': query}
s = socket.socket(socket.AF_UNIX)
s.connect(path)
s.sendall(record(begin, struct.pack('>HB5x', 1, 0)) +
          record(params, b''.join(pair(*p) for p in environment.items())) +
          record(params, b'') + record(stdin, b''))
data = b''
while more := s.recv(65536):
    data += more
body = b''
while len(data) >= 8:
    _, kind, _, length, padding, _ = struct.unpack('>BBHHBB', data[:8])
    if kind == stdout:
        body += data[8:8 + length]
    data = data[8 + length + padding:]
sys.stdout.write(body.decode().split('\r\n\r\n', 1)[1])
