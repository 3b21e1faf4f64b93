#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ascribe mcp: by the protocol's own client (npm's @modelcontextprotocol/sdk, fetched once into
# build/npm/mcp), and by lines that no client would send.
. "$(dirname "$0")/lib.bash"
top=$here/../..
MCP_MODULES=$top/build/npm/mcp/node_modules
lock=$top/tests/tools/mcp
if command -v node >/dev/null; then
	if [ ! -f "$MCP_MODULES/.fetched" ] || [ "$lock/package-lock.json" \
		-nt "$MCP_MODULES/.fetched" ]; then
		(cd "$top" && CI= tools/fetch-npm tests/tools/mcp build/npm/mcp "the MCP SDK")
	fi
fi
export MCP_MODULES
cp -r store second
if [ -d "$MCP_MODULES/@modelcontextprotocol" ]; then
	ok "the protocol's own client" node "$here/mcp.mjs" "$ascribe" truth.json store second
	[ $failed = 0 ] || cat ok.err
elif [ -n "${CI:-}" ]; then
	bad "the client is not there: node, and @modelcontextprotocol/sdk from npm"
else
	echo "without the protocol's own client: it could not be fetched"
fi

cat >lines.py <<'PY'
import hashlib, json, os, subprocess, sys, time
ascribe = sys.argv[1]
def files():
    return {p: hashlib.sha256(open(p, 'rb').read()).hexdigest()
            for d, _, names in os.walk('store') for p in (os.path.join(d, n) for n in names)}
before = files()
class Server:
    def __init__(self, *args):
        self.p = subprocess.Popen([ascribe, 'mcp', 'store', *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    def send(self, line):
        self.p.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode())
        self.p.stdin.write(b'\n')
        self.p.stdin.flush()
    def ask(self, line):
        self.send(line)
        r = json.loads(self.p.stdout.readline())
        assert r['jsonrpc'] == '2.0', r
        return r
    def code(self, line, code, id=None):
        r = self.ask(line)
        assert r['error']['code'] == code and r['id'] == id and r['error']['message'], r
    def close(self):
        self.p.stdin.close()
        assert self.p.stdout.read() == b''
        assert self.p.wait(timeout=20) == 0
s = Server()
req = lambda method, id=1, **params: {'jsonrpc': '2.0', 'id': id, 'method': method, 'params': params}
for wanted, got in (('2025-06-18', '2025-06-18'), ('2024-11-05', '2024-11-05'), ('1999-01-01', '2025-06-18')):
    r = s.ask(req('initialize', protocolVersion=wanted, capabilities={}, clientInfo={'name': 'x', 'version': '1'}))
    assert r['result']['protocolVersion'] == got, r
s.code(req('initialize'), -32602, 1)
# Notifications, and answers to nothing, have no answer: the next line is the ping's.
s.send({'jsonrpc': '2.0', 'method': 'notifications/initialized'})
s.send({'jsonrpc': '2.0', 'method': 'notifications/nonsense', 'params': []})
s.send({'jsonrpc': '2.0', 'id': 7, 'result': {}})
assert s.ask(req('ping', id='ping'))== {'jsonrpc': '2.0', 'id': 'ping', 'result': {}}
for line in (b'', b'{', b'nonsense', b'{"a":1,"a":2}', b'\xff\xfe', b'\x00', b'{"jsonrpc":"2.0","id":1,"method":"ping"}x',
             b'[' * 100000, b'"\\u0000"', b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}'):
    s.code(line, -32700)
for line in (b'[]', b'3', b'null', b'"x"', [req('ping')], {'id': None, 'jsonrpc': '2.0', 'method': 'ping'},
             {'id': {}, 'jsonrpc': '2.0', 'method': 'ping'}):
    s.code(line, -32600)
s.code({'id': 3, 'method': 'ping'}, -32600, 3)
s.code({'id': 3, 'jsonrpc': '1.0', 'method': 'ping'}, -32600, 3)
s.code({'id': 3, 'jsonrpc': '2.0', 'method': 5}, -32600, 3)
s.code({'id': 3, 'jsonrpc': '2.0'}, -32600, 3)
s.code({'id': 3, 'jsonrpc': '2.0', 'method': 'ping', 'params': [1]}, -32602, 3)
s.code(req('resources/list'), -32601, 1)
s.code(req('x' * 100000), -32601, 1)
s.code(req('tools/list', cursor='x'), -32602, 1)
s.code(req('tools/call'), -32602, 1)
s.code(req('tools/call', name='rm'), -32602, 1)
s.code(req('tools/call', name='report', arguments=[]), -32602, 1)
# A line of the limit is read; one byte more is dropped, and so are 200 MiB of one line.
limit = 262144
line = json.dumps(req('ping')).encode()
assert s.ask(line + b' ' * (limit - len(line)))['result'] == {}
s.code(line + b' ' * (limit - len(line) + 1), -32600)
for _ in range(200):
    s.p.stdin.write(b'x' * 1048576)
s.code(b'', -32600)
peak = int([l for l in open(f'/proc/{s.p.pid}/status') if l.startswith('VmHWM')][0].split()[1])
assert peak < 64 << 10, f'{peak} KiB'
assert s.ask(req('ping'))['result'] == {}
# 500 questions at once, ids come back in order; a last line without its end counts.
for i in range(500):
    s.send(req('tools/call' if i % 100 == 0 else 'ping', id=i, name='stat'))
assert [json.loads(s.p.stdout.readline())['id'] for _ in range(500)] == list(range(500))
s.p.stdin.write(json.dumps(req('ping', id='last')).encode())
s.p.stdin.close()
assert json.loads(s.p.stdout.readline())['id'] == 'last'
assert s.p.wait(timeout=20) == 0
# A store that goes while the server runs: each answer says so.
s = Server('second')
s.ask(req('ping'))
os.rename('second', 'third')
r = s.ask(req('tools/call', name='stat', arguments={'store': 2}))['result']
assert r['isError'] and 'second' in r['content'][0]['text'], r
r = s.ask(req('tools/call', name='stat', arguments={'store': 1}))['result']
assert not r['isError'], r
s.close()
assert files() == before
print(f'peak memory {peak} KiB')
PY
ok "bad lines are errors, not ends; stores stay as they are" python3 lines.py "$ascribe"
exits 2 'not a size' "$ascribe" mcp store --max-bytes 5x
exits 2 '' "$ascribe" mcp store --max-bytes 5
exits 1 'nowhere' "$ascribe" mcp nowhere
exits 0 '' "$ascribe" mcp store
finish
