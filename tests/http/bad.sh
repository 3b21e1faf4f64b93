#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whoever asks badly: a status of 4xx with a clear body, nobody else is harmed, memory stays.
. "$(dirname "$0")/lib.bash"

"$build/tests/mkstore" store >/dev/null || exit 1
serve log "$ascribe" serve store -l 127.0.0.1:0,unix:"$dir/sock" --host profiles.example \
	--anonymous || finish
port=${url##*:}
rss() { awk '/VmRSS/ { print $2 }' "/proc/$pid/status"; }

# ---- who asks ----
refused 421 'Host header' -H 'Host: evil.example' "$url/api/v1/stat"
refused 421 'Host header' -H "Host: 127.0.0.1.evil.example:$port" "$url/api/v1/stat"
refused 421 'Host header' -H 'Host: localhost.' "$url/api/v1/stat"
refused 421 'Host header' -H 'Host: localhost:80x' "$url/api/v1/stat"
refused 421 'Host header' -H 'Host: [::1' "$url/api/v1/stat"
refused 421 'Host header' -H "Host: $(printf 'a%.0s' $(seq 5000))" "$url/api/v1/stat"
gets 200 '<!doctype html>' -H 'Host: evil.example' "$url/" # it says nothing of the host
gets 200 '' -H 'Host: profiles.example' "$url/api/v1/stat"
gets 200 '' -H 'Host: LOCALHOST:1' "$url/api/v1/stat"
refused 403 'other origins' -H 'Origin: http://evil.example' "$url/api/v1/stat"
refused 403 'other origins' -H 'Origin: null' "$url/api/v1/stat"
refused 403 'other origins' -H "Origin: https://127.0.0.1:$port" "$url/api/v1/stat"
refused 403 'other origins' -H "Origin: http://127.0.0.1" "$url/api/v1/stat"
gets 200 '' -H "Origin: http://127.0.0.1:$port" "$url/api/v1/stat"

# ---- for what ----
for p in /nope /api /api/v1 /api/v1/ /api/v1/tables /../../etc/passwd /..%2f..%2fetc%2fpasswd \
	/web/../../HEADER /%00 //api/v1/stat /style.css/ \
	/./style.css /STYLE.CSS "/$(printf 'a%.0s' $(seq 3000))"; do
	refused 404 'nothing is at this path' "$url$p"
done
refused 405 'method' -X POST -d '' "$url/api/v1/stat"
refused 405 'method' -X DELETE "$url/api/v1/stat"
refused 405 'method' -X PUT -d x "$url/"
gets 200 '' -I "$url/api/v1/stat"

# ---- how ----
asks() { # text, path and query
	refused 400 "$1" "$url/api/v1/$2"
}
asks "no parameter 'nope'" 'stat?nope=1'
asks 'given twice' 'table?by=a&by=b'
asks 'selector, column' 'table?where={tenant=}'
asks 'selector, column' 'flame?where={tenant=~"("}'
asks 'selector' "table?where=$(printf '%%7b%%00')"
asks 'more than 8192' "table?where={a=\"$(printf 'x%.0s' $(seq 9000))\"}"
asks 'is not a time' 'stat?from=yesterday'
asks 'is not a time' 'stat?from=now-'
asks 'is not a time' 'stat?to=99999999999999999999'
asks 'from must be before' 'stat?from=100&to=50'
asks 'no event' 'table?event=nope'
asks 'limit: a number' 'table?limit=-1'
asks 'limit: a number' 'table?limit=1e9'
asks 'max_nodes: a number' 'flame?max_nodes=100001'
asks 'names: full' 'table?names=short'
asks 'stands alone' 'table?by=function,comm'
asks 'keys have 1 to' 'table?by=,'
asks 'at most 8 keys' 'table?by=a,b,c,d,e,f,g,h,i'
asks 'step: a duration' 'series?step=0'
asks 'nothing to compare with' 'diff?by=comm'
asks 'against_from must be' 'diff?against_from=9&against_to=3'
asks 'key: which label' values
asks 'at most 1000 groups' 'series?limit=5000'
asks 'route' 'histogram?route=nope'
asks 'too many parameters' "table?$(printf 'a%d=1&' $(seq 40))"

# ---- where a request ends ----
ok "requests whose end is unclear" python3 "$here/framing.py" "$port"
gets 200 'reason="framing"} ' "$url/metrics"
# libmicrohttpd 1.0 refuses ten of them before we see them, as clearly: with 400, and the end of the
# connection.
ok "they are counted" grep -qE 'reason="framing"\} (14|4)$' body

# ---- too much, too slow, no HTTP at all ----
cat >abuse.py <<'PY'
import socket, sys, time, threading
port = int(sys.argv[1])
def conn():
    s = socket.create_connection(('127.0.0.1', port), timeout=20)
    return s
def answer(data):
    s = conn()
    try:
        s.sendall(data)
        out = b''
        while True:
            d = s.recv(65536)
            if not d: break
            out += d
            if b'\r\n\r\n' in out: break
    except (ConnectionError, socket.timeout):
        out = out if 'out' in dir() else b''
    s.close()
    return out
status = lambda a: int(a.split()[1]) if a.startswith(b'HTTP/') else None
H = b'Host: localhost\r\n'
ok = lambda what, good, seen='': (print('FAIL', what, seen), sys.exit(1)) if not good else None
for name, data in {
    'long head': b'GET / HTTP/1.1\r\n' + H + b'X: ' + b'a' * 200000 + b'\r\n\r\n',
    'many heads': b'GET / HTTP/1.1\r\n' + H + b''.join(b'X%d: y\r\n' % i for i in range(20000)) + b'\r\n',
    'long line': b'GET /' + b'a' * 200000 + b' HTTP/1.1\r\n' + H + b'\r\n',
    'no Host': b'GET /api/v1/stat HTTP/1.1\r\n\r\n',
    'huge length': b'POST /api/v1/stat HTTP/1.1\r\n' + H + b'Content-Length: 99999999999999999999\r\n\r\n',
    'bad length': b'POST /api/v1/stat HTTP/1.1\r\n' + H + b'Content-Length: -5\r\n\r\n',
    'body for a GET': b'GET /api/v1/stat HTTP/1.1\r\n' + H + b'Content-Length: 1000000\r\n\r\n' + b'x' * 10000,
    'no such version': b'GET / HTTP/9.9\r\n' + H + b'\r\n',
    'garbage': bytes(range(256)) * 50 + b'\r\n\r\n',
}.items():
    a = answer(data)
    ok(name, status(a) is None or 400 <= status(a) < 600, a[:100])
# Has no end of a line: it is waited for.
tls = []
waiting = threading.Thread(target=lambda: tls.append(answer(b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\0' * 600)))
waiting.start()
ok('body for a GET is too long', status(answer(b'GET /api/v1/stat HTTP/1.1\r\n' + H + b'Content-Length: 1000000\r\n\r\n')) == 413)
# Chunks say no length: they are counted.
a = answer(b'GET /api/v1/stat HTTP/1.1\r\n' + H + b'Transfer-Encoding: chunked\r\n\r\n' + (b'1000\r\n' + b'x' * 4096 + b'\r\n') * 64 + b'0\r\n\r\n')
ok('chunks', status(a) == 413, a[:100])
# Which of them would be believed?
for other in b'Host: evil.example\r\n', b'hOST: localhost\r\n':
    ok('two Hosts', status(answer(b'GET /api/v1/stat HTTP/1.1\r\n' + H + other + b'\r\n')) == 400)
# A byte now and then is not silence: closed all the same, after 10 s, while others are served.
closed = []
def slow(data):
    s = conn()
    t = time.time()
    try:
        for b in data:
            s.sendall(bytes([b]))
            s.settimeout(0.5)
            try:
                if not s.recv(1): break
            except socket.timeout: pass
            if time.time() - t > 17: break
    except ConnectionError: pass
    closed.append(time.time() - t)
threads = [threading.Thread(target=slow, args=(d,)) for d in (
    b'GET /api/v1/stat HTTP/1.1\r\nX: ' + b'a' * 100, b'G' * 100,
    b'POST /api/v1/stat HTTP/1.1\r\n' + H + b'Content-Length: 0' + b' ' * 100)] * 1
for t in threads: t.start()
idle = [conn() for _ in range(60)]
times = []
while any(t.is_alive() for t in threads):
    t0 = time.time()
    a = answer(b'GET /api/v1/stat HTTP/1.1\r\n' + H + b'Connection: close\r\n\r\n')
    times.append(time.time() - t0)
    ok('others are served', status(a) == 200, a[:80])
    time.sleep(0.5)
waiting.join()
ok('TLS', status(tls[0]) is None or 400 <= status(tls[0]) < 600, tls[0][:100])
ok('slow ones are closed', all(8 < t < 16 for t in closed), closed)
for s in idle: s.close()
# More connections than are let in: the oldest are closed, the newest stay, and afterwards all is well.
many = [socket.create_connection(('127.0.0.1', port), timeout=5) for _ in range(400)]
time.sleep(0.5)
def is_open(s):
    s.setblocking(False)
    try: return s.recv(1) != b''
    except BlockingIOError: return True
    except OSError: return False
stay = [is_open(s) for s in many]
ok('connections have a limit', sum(stay) <= 128 and all(stay[-100:]) and not any(stay[:250]), stay)
for s in many: s.close()
for _ in range(30):  # until all of them are gone
    time.sleep(0.5)
    a = answer(b'GET /healthz HTTP/1.1\r\n' + H + b'\r\n')
    if status(a) == 200: break
ok('after too many', status(a) == 200, a[:100])
PY
ok "abuse" python3 abuse.py "$port"
for how in silent slow answered; do
	ok "a crowd" python3 "$here/crowd.py" "$port" $how 3
done
ok "a crowd on the Unix socket" python3 "$here/crowd.py" "$dir/sock" slow 3
gets 200 'reason="crowd"} ' "$url/metrics"
ok "what had to make room is counted" sh -c "grep -q 'crowd\"} [1-9]' body"
gets 200 'ascribe_http_refused_total{reason="slow_request"}' "$url/metrics"
gets 200 'ascribe_queries_bounded_total ' "$url/metrics"
ok "slow requests are counted" sh -c "grep -q 'slow_request\"} [1-9]' body"
kb=$(rss)
ok "resident memory: $kb KiB" test "$kb" -lt 60000
ok "it says nothing of all that" test "$(wc -l <log)" -le 3
kill -TERM "$pid"
wait "$pid"
ok "ends well" test $? = 0
finish
