# SPDX-License-Identifier: Apache-2.0
"""A stand-in for receivers of profiles (OpenTelemetry collectors, Pyroscope, Parca, a store of pprof): none of them is here.
It decodes every message by code that shares nothing with ours, and keeps what it took, a line of JSON a message.

    receiver.py DIR [--tls CERT KEY [CLIENT_CA]]

DIR/plan: what to do with the next messages, one a line, taken from the front; without: take it. Lines:
    take | status CODE [RETRY_AFTER] | cut (the message is taken, the answer never comes) | refuse (the connection is closed
    before the message is read) | slow SECONDS | partial N | redirect
DIR/rules: Python, evaluated for each message: `def rule(headers, body, n): return None or a line as above`.
DIR/taken: what was taken; DIR/seen: a line for each request."""
import gzip, http.server, json, os, ssl, sys, threading, time, zlib
import otlp, published
from wire import field, parse, numbers

dir_ = sys.argv[1]
lock = threading.Lock()
MAX = 64 << 20


def unpack(body, encoding):
    if encoding == 'gzip':
        d = zlib.decompressobj(31)
        body = d.decompress(body, MAX)
        assert d.eof and not d.unused_data
    elif encoding == 'zstd':
        import subprocess
        body = subprocess.run(['zstd', '-dcq'], input=body, capture_output=True, check=True).stdout
    else:
        assert not encoding, encoding
    return body


def pprof(raw):
    """(types, period, time, duration, [(frames, values, labels)])"""
    p = parse(published.pprof(unpack(raw, 'gzip') if raw[:2] == b'\x1f\x8b' else raw))
    text = [s.decode() for s in p[6]]
    assert text[0] == ''
    value_type = lambda b: tuple(text[parse(b).get(k, [0])[0]] for k in (1, 2))
    functions = {f[1][0]: text[f[2][0]] for f in map(parse, p.get(5, []))}
    locations = {}
    for b in map(parse, p.get(4, [])):
        locations[b[1][0]] = [functions[parse(line)[1][0]] for line in b[4]]
    signed = lambda v: v - (v >> 63 << 64)
    out = []
    for b in map(parse, p.get(2, [])):
        packed = lambda k: [n for v in b.get(k, []) for n in (numbers(v) if isinstance(v, bytes) else [signed(v)])]
        labels = {}
        for label in map(parse, b.get(3, [])):
            labels[text[label[1][0]]] = text[label[2][0]] if 2 in label else signed(label.get(3, [0])[0])
        out.append(([name for i in packed(1) for name in locations[i]], packed(2), labels))
    types = [value_type(b) for b in p.get(1, [])]
    assert all(len(v) == len(types) for _, v, _ in out)
    return types, p.get(12, [0])[0], p.get(9, [0])[0], p.get(10, [0])[0], out


def pairs(series):
    out = [tuple(parse(x)[k][0].decode() for k in (1, 2)) for x in series]
    assert len(dict(out)) == len(out) <= 30 and all(len(v.encode()) <= 2048 for _, v in out), out
    return dict(out)


def decode(path, body):
    """What a message says: [{labels, type, time, duration, samples: [[frames, labels, value]]}]"""
    out = []
    if path.endswith('/v1development/profiles'):
        r = otlp.decode(published.otlp(body))
        otlp.check(r)
        text = r['dictionary']['strings']
        one = {}
        for rp in r['resource_profiles']:
            for sp in rp['scope_profiles']:
                for p in sp['profiles']:
                    one[p['profile_id']] = p
        assert len(one) == len(r['resource_profiles'])
        times = {(p['time'], p['duration']) for p in one.values()}
        assert len(times) <= 1
        for kind, period_type, period, resource, attributes, link, frames, value in otlp.samples(r):
            out.append({'labels': resource, 'type': kind[0], 'time': min(times)[0], 'duration': min(times)[1],
                        'samples': [[frames, {**attributes, **({'link': link['trace_id'].hex()} if link else {})}, value * (period if kind[0] == 'samples' else 1)]]})
        return out, [i.hex() for i in one]
    if path.endswith('/push.v1.PusherService/Push'):
        for series in map(parse, parse(published.again('pyroscope', 'push.v1.PushRequest', body))[1]):
            labels = pairs(series[1])
            assert {'__name__', 'service_name'} <= set(labels), labels
            for sample in map(parse, series[2]):
                out.append((labels, pprof(sample[1][0])))
                assert len(out[-1][1][4]) <= 16000
    elif path.endswith('/profiles/writeraw'):
        for series in map(parse, parse(published.again('parca', 'parca.profilestore.v1alpha1.WriteRawRequest', body))[2]):
            labels = pairs(parse(series[1][0])[1])
            for sample in map(parse, series[2]):
                out.append((labels, pprof(sample[1][0])))
    else:
        out.append(({}, pprof(body)))
    return [{'labels': labels, 'type': types[-1][0], 'time': at, 'duration': duration, 'samples': [[f, k, v[-1]] for f, v, k in samples]}
            for labels, (types, _, at, duration, samples) in out], []


def plan(headers, body, n):
    name = os.path.join(dir_, 'rules')
    if os.path.exists(name):
        scope = {}
        exec(open(name).read(), scope)
        line = scope['rule'](headers, body, n)
        if line:
            return line.split()
    try:
        lines = open(os.path.join(dir_, 'plan')).read().splitlines()
    except FileNotFoundError:
        lines = []
    if not lines:
        return ['take']
    with open(os.path.join(dir_, 'plan'), 'w') as f:
        f.write(''.join(line + '\n' for line in lines[1:]))
    return lines[0].split()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    n = 0

    def log_message(self, *a):
        pass

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace('_', '-'), v)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, b'here')

    def do_POST(self):
        with lock:
            Handler.n += 1
            n = Handler.n
            body = self.rfile.read(int(self.headers['Content-Length']))
            headers = {k.lower(): v for k, v in self.headers.items()}
            do = plan(headers, body, n)
            with open(os.path.join(dir_, 'seen'), 'a') as f:
                f.write(json.dumps({'at': time.time(), 'path': self.path, 'headers': headers, 'bytes': len(body), 'do': do}) + '\n')
            if do[0] in ('take', 'cut', 'slow', 'partial'):
                try:
                    profiles, ids = decode(self.path.split('?')[0], unpack(body, headers.get('content-encoding', '')))
                except Exception as e:
                    with open(os.path.join(dir_, 'wrong'), 'a') as f:
                        f.write(f'{self.path}: {e!r}\n')
                    self.answer(500, repr(e).encode()[:500])
                    return
                with open(os.path.join(dir_, 'taken'), 'a') as f:
                    f.write(json.dumps({'path': self.path, 'headers': headers, 'ids': ids, 'do': do[0], 'profiles': profiles}) + '\n')
        if do[0] == 'take':
            self.answer(200)
        elif do[0] == 'status':
            self.answer(int(do[1]), b'{"message": "as the plan says"}', **({'Retry_After': do[2]} if len(do) > 2 else {}))
        elif do[0] == 'slow':
            time.sleep(float(do[1]))
            self.answer(200)
        elif do[0] == 'partial':
            self.answer(200, field(1, field(1, int(do[1])) + field(2, 'too many')))
        elif do[0] == 'redirect':
            self.answer(307, Location='http://127.0.0.1:1/')
        else:
            self.close_connection = True
            self.connection.close()


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *a):
        pass


server = Server(('127.0.0.1', 0), Handler)
if '--tls' in sys.argv:
    files = sys.argv[sys.argv.index('--tls') + 1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[0], files[1])
    if len(files) > 2:
        context.load_verify_locations(files[2])
        context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(os.path.join(dir_, 'port.new'), 'w') as f:
    f.write(str(server.server_port))
os.rename(os.path.join(dir_, 'port.new'), os.path.join(dir_, 'port'))
server.serve_forever()
