# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API server of Kubernetes, for faults that a real one cannot show on demand.
It reads `state.json` for each request: pods, version, and a fault; and writes a line per request
to requests.log. Arguments: directory, port (0: any; printed)."""
import http.server, json, sys, time, urllib.parse, os

root = sys.argv[1]


def state():
    with open(root + '/state.json') as f:
        return json.load(f)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *a):
        pass

    def say(self, code, body, headers=()):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, code, text):
        self.say(code, {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure',
                        'message': text, 'code': code})

    def chunk(self, o):
        line = json.dumps(o).encode() + b'\n'
        self.wfile.write(b'%x\r\n%s\r\n' % (len(line), line))
        self.wfile.flush()

    def watch(self, since):
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        seen, end = since, time.time() + 60
        while time.time() < end:
            s = state()
            if s.get('fault') in ('cut', 'down'):
                break
            if s.get('fault') == 'gone':
                self.chunk({'type': 'ERROR', 'object': {'kind': 'Status', 'code': 410,
                                                        'message': 'too old resource version'}})
                break
            if s.get('fault') == 'garbage':
                self.wfile.write(b'7\r\n{"type"\r\n')
                break
            for e in s.get('events', []):
                if int(e['object']['metadata']['resourceVersion']) > seen:
                    seen = int(e['object']['metadata']['resourceVersion'])
                    self.chunk(e)
            time.sleep(0.02)
        self.wfile.write(b'0\r\n\r\n')

    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        q = dict(urllib.parse.parse_qsl(at.query))
        s = state()
        with open(root + '/requests.log', 'a') as f:
            kind = 'watch' if 'watch' in q else 'list'
            f.write(f'{kind} {q.get("resourceVersion", "-")} {q.get("limit", "-")} '
                    f'{q.get("continue", "-")} {q.get("fieldSelector", "-")}\n')
        token = open(root + '/good').read()
        if self.headers.get('Authorization') != 'Bearer ' + token:
            return self.status(401, 'Unauthorized')
        fault = s.get('fault')
        if fault == 'hang':
            time.sleep(60)
        if fault == 'forbidden':
            return self.status(403, 'pods is forbidden: User "x" cannot list resource "pods"')
        if fault == 'down':
            return self.status(503, 'the server is currently unable to handle the request')
        if fault == 'garbage':
            return self.say(200, b'{"kind":"PodList","items":[{"metadata"')
        if 'watch' in q:
            if fault == 'gone':
                return self.status(410, 'too old resource version')
            return self.watch(int(q['resourceVersion']))
        pods = s['pods'] * s.get('times', 1)
        if s.get('times', 1) > 1:
            pods = [json.loads(json.dumps(p).replace('NUMBER', f'{i:012d}'))
                    for i, p in enumerate(pods)]
        meta = {'resourceVersion': str(s['version'])}
        if 'limit' in q:
            first, n = int(q.get('continue', 0)), int(q['limit'])
            if first + n < len(pods):
                meta['continue'] = str(first + n)
            pods = pods[first:first + n]
        self.say(200, {'kind': 'PodList', 'apiVersion': 'v1', 'metadata': meta, 'items': pods})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


server = Server(('127.0.0.1', int(sys.argv[2])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
