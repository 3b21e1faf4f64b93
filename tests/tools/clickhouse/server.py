# SPDX-License-Identifier: Apache-2.0
"""A ClickHouse server for tests: the engine is npm's chdb (ClickHouse 26 in a library), the HTTP interface is ours.

    server.py DIR [PORT]

Serves on 127.0.0.1 until it is ended or killed; DIR/port holds the port, DIR/db the data, DIR/config.xml more configuration. What the server's own interface
has and `ascribe` uses is here, by its documentation: the query in ?query= and in the body, settings and param_NAME as
parameters, external tables, Content-Encoding, X-ClickHouse-User and -Key, the status and X-ClickHouse-Exception-Code of errors, /ping.
Each request has a session of its own. Users: `default` without password, `writer` and `reader` with the password `secret`,
the last one with readonly=1.

DIR/plan: what to do with the next requests that insert, one a line, taken from the front; none: as they should. Lines:
    take | status CODE [RETRY_AFTER] | refuse (closed before the query) | cut (done, the answer never comes)
    | partial (done, half of the answer comes) | slow SECONDS (then done) | die (the process is killed inside of the insert)
DIR/asked: a line of JSON for each request."""
import ctypes, glob, http.server, json, os, re, signal, socket, sys, tempfile, threading, time, urllib.parse, zlib

base = sys.argv[1]
port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
here = os.path.dirname(os.path.abspath(__file__))
BODY_MAX = 256 << 20
USERS = {'default': ('', False), 'writer': ('secret', False), 'reader': ('secret', True)}
# src/Server/HTTP/exceptionCodeToHTTPStatus.cpp
STATUS = {**dict.fromkeys((6, 26, 27, 36, 41, 42, 43, 44, 53, 62, 69, 70, 72, 117, 131, 321, 427, 501), 400), **dict.fromkeys((46, 47, 50, 56, 60, 81, 115), 404),
          194: 401, **dict.fromkeys((192, 193, 516, 164, 497), 403), 48: 501, 159: 408, 209: 503, 439: 503, 307: 413}
RESERVED = {'query', 'user', 'password', 'database', 'default_format', 'query_id', 'session_id', 'compress', 'decompress'}
lock = threading.Lock()


class Engine:
    """libchdb: its C interface."""

    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(find_library())
        lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
        lib.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        lib.chdb_close_conn.argtypes = [ctypes.c_void_p]
        lib.chdb_query_n.restype = ctypes.c_void_p
        lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        for name, kind in (('buffer', ctypes.c_void_p), ('length', ctypes.c_size_t), ('error', ctypes.c_char_p)):
            f = getattr(lib, 'chdb_result_' + name)
            f.restype, f.argtypes = kind, [ctypes.c_void_p]
        lib.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        self.args = [b'clickhouse', b'--path=' + path.encode()]
        if os.path.exists(base + '/config.xml'):
            self.args.append(b'--config-file=' + base.encode() + b'/config.xml')
        self.first = self.connect()  # keeps the engine

    def connect(self):
        c = self.lib.chdb_connect(len(self.args), (ctypes.c_char_p * len(self.args))(*self.args))
        assert c, 'chdb_connect'
        return c

    def ask(self, c, sql, form=b'TabSeparated'):
        """(result, '') or (b'', error)"""
        r = self.lib.chdb_query_n(c[0], sql, len(sql), form, len(form))
        try:
            error = self.lib.chdb_result_error(r)
            n = self.lib.chdb_result_length(r)
            return (ctypes.string_at(self.lib.chdb_result_buffer(r), n) if n else b''), (error or b'').decode(errors='replace')
        finally:
            self.lib.chdb_destroy_query_result(r)


def find_library():
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    for path in glob.glob(root + '/build/npm/clickhouse/node_modules/@chdb/*/libchdb.so'):
        return path
    sys.exit('no libchdb.so: run `make build/npm/clickhouse/node_modules/.fetched`')


def literal(text):
    """A string of SQL."""
    return b"'" + text.encode('latin-1').replace(b'\\', b'\\\\').replace(b"'", b"\\'") + b"'"


def unpack(body, encoding):
    if encoding == 'gzip':
        d = zlib.decompressobj(31)
        out = d.decompress(body, BODY_MAX)
        assert d.eof and not d.unconsumed_tail, 'gzip'
        return out
    if encoding == 'zstd':
        import subprocess
        return subprocess.run(['zstd', '-dcq'], input=body, capture_output=True, check=True).stdout
    assert not encoding, encoding
    return body


def planned():
    try:
        with open(base + '/plan') as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return ['take']
    if not lines:
        return ['take']
    with open(base + '/plan', 'w') as f:
        f.write(''.join(line + '\n' for line in lines[1:]))
    return lines[0].split()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1

    def log_message(self, *a):
        pass

    def answer(self, status, body=b'', headers=()):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def fail(self, code, text):
        text = text.encode() + b'\n'
        self.answer(STATUS.get(code, 500), text, [('X-ClickHouse-Exception-Code', str(code)), ('Content-Type', 'text/plain; charset=UTF-8')])

    def give_up(self):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')

    def do_GET(self):
        if self.path == '/ping':
            return self.answer(200, b'Ok.\n')
        self.serve(b'', readonly=True)

    def body(self):
        if self.headers.get('Transfer-Encoding') == 'chunked':
            parts = []
            while n := int(self.rfile.readline().split(b';')[0], 16):
                parts.append(self.rfile.read(n))
                self.rfile.readline()
            self.rfile.readline()
            return b''.join(parts)
        return self.rfile.read(int(self.headers['Content-Length']))

    def do_POST(self):
        self.serve(self.body(), readonly=False)

    def serve(self, body, readonly):
        q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True, encoding='latin-1'))
        sql = q.get('query', '')
        user = self.headers.get('X-ClickHouse-User') or q.get('user') or 'default'
        key = self.headers.get('X-ClickHouse-Key') or q.get('password') or ''
        with lock:
            insert = 'INSERT INTO' in (sql or body[:100].decode('latin-1')).upper()
            do = planned() if insert else ['take']
            with open(base + '/asked', 'a') as f:
                f.write(json.dumps({'at': time.time(), 'query': (sql or body[:2000].decode('latin-1'))[:2000], 'token': q.get('insert_deduplication_token'), 'user': user, 'bytes': len(body),
                                    'encoding': self.headers.get('Content-Encoding'), 'do': do}) + '\n')
        if do[0] == 'refuse':
            return self.give_up()
        if do[0] == 'status':
            return self.answer(int(do[1]), b'Code: 202. DB::Exception: planned\n', [('Retry-After', do[2])] if len(do) > 2 else [])
        if user not in USERS or USERS[user][0] != key:
            return self.fail(516, f'Code: 516. DB::Exception: {user}: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)')
        if do[0] == 'slow':
            time.sleep(float(do[1]))
        try:
            body = unpack(body, self.headers.get('Content-Encoding'))
        except Exception as e:
            return self.fail(354, f'Code: 354. DB::Exception: cannot decompress: {e}')
        if do[0] == 'die':
            threading.Timer(float(do[1]) if len(do) > 1 else 0.004, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        out, error = self.run(q, sql.encode('latin-1'), body, readonly or USERS[user][1])
        if do[0] == 'die':
            time.sleep(1)
        if do[0] == 'cut':
            return self.give_up()
        if error:
            code = re.search(r'Code: (\d+)', error)
            return self.fail(int(code[1]) if code else 1000, error)
        if do[0] == 'partial':
            self.send_response(200)
            self.send_header('Content-Length', str(len(out) + 100))
            self.end_headers()
            self.wfile.write(out[:len(out) // 2])
            return self.give_up()
        self.answer(200, out, [('Content-Type', 'application/octet-stream')])

    def run(self, q, sql, body, readonly):
        c = engine.connect()
        try:
            sets = [(k, v) for k, v in q.items() if k not in RESERVED and not k.endswith(('_structure', '_format'))]
            if 'database' in q:
                out, error = engine.ask(c, b'USE `' + q['database'].replace('`', '').encode('latin-1') + b'`')
                if error:
                    return out, error
            for k, v in sets:
                if not re.fullmatch(r'\w+', k):
                    return b'', f'Code: 115. DB::Exception: Unknown setting {k!r} (UNKNOWN_SETTING)'
                out, error = engine.ask(c, b'SET ' + k.encode() + b' = ' + (literal(v) if k.startswith('param_') or not v.isdigit() else v.encode()))
                if error:
                    return out, error
            if readonly:
                engine.ask(c, b'SET readonly = 1')
            kind = self.headers.get('Content-Type') or ''
            if kind.startswith('multipart/form-data'):
                return self.with_tables(c, q, sql, body, kind.split('boundary=')[1].encode())
            rows = re.fullmatch(rb'(?s)(\s*INSERT\s.*)\sFORMAT\s+(\w+)\s*', sql, re.I)
            if not (rows and body):
                return engine.ask(c, sql + (b'\n' if sql and body else b'') + body, q.get('default_format', 'TabSeparated').encode())
            # By a file: rows behind a statement end at their first semicolon before a line feed.
            with tempfile.NamedTemporaryFile(prefix='rows-') as f:
                f.write(body)
                f.flush()
                return engine.ask(c, rows[1] + b' FROM INFILE ' + literal(f.name) + b' FORMAT ' + rows[2])
        finally:
            engine.lib.chdb_close_conn(c)


    def with_tables(self, c, q, sql, body, boundary):
        """External tables: parts of the body, with NAME_structure and NAME_format as parameters."""
        files = []
        for part in body.split(b'\r\n--' + boundary)[:-1] if body.startswith(b'--') else []:
            head, data = part.split(b'\r\n\r\n', 1)
            name = re.search(rb'name="(\w+)"', head)[1]
            f = tempfile.NamedTemporaryFile(prefix='table-')
            f.write(data)
            f.flush()
            files.append(f)
            table = b'file(' + b', '.join(literal(v) for v in (f.name, q[name.decode() + '_format'], q[name.decode() + '_structure'])) + b')'
            sql = b'WITH ' + name + b' AS (SELECT * FROM ' + table + b') ' + sql
        try:
            return engine.ask(c, sql, q.get('default_format', 'TabSeparated').encode())
        finally:
            for f in files:
                f.close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


engine = Engine(base + '/db')
server = Server(('127.0.0.1', port), Handler)
with open(base + '/port.new', 'w') as f:
    f.write(f'{server.server_port}\n')
os.rename(base + '/port.new', base + '/port')
signal.signal(signal.SIGTERM, lambda *a: os._exit(0))
server.serve_forever()
