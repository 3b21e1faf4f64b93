#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server's figures: the time of the flame graph API over 24 hours, 50 readers beside a writer,
# what the daemon uses at 19 Hz. BUILD; PARTS: of flame, readers, daemon, high (default: all);
# SECONDS_DAEMON: how long the daemon is measured (default 120). DAY, HIGH: stores that
# bench/serve_store made before, for flame and high. ROUNDS: how often the readers ask for 30 s
# (default 1). SECONDS_HIGH: how long beside the load of high (default 300).
set -u
. "$(dirname "$0")/figure.bash"
build=$(realpath "${BUILD:-build}")
# A day of windows is 8,640 times waiting for a disk: in memory, where there is such a place.
dir=$(TMPDIR=$([ -d /dev/shm ] && echo /dev/shm || echo /tmp) mktemp -d)
pids=()
# shellcheck disable=SC2154 # p is of the loop in the trap
trap 'for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

start() { # log, command...
	local log=$1
	shift
	"$@" 2>"$log" &
	pid=$!
	pids+=("$pid")
	for _ in $(seq 200); do
		url=$(sed -n 's/.* on \(http:\/\/.*\)/\1/p' "$log" | head -1)
		[ -n "$url" ] && return
		sleep 0.05
	done
	cat "$log"
	exit 1
}
rss_kib() { awk '/VmRSS/ { print $2 }' "/proc/$1/status"; }

flame() {
	echo "== flame graph API: 24 hours, 20,000 nodes"
	if [ -n "${DAY:-}" ]; then
		ln -s "$DAY" day
	else
		"$build/bench/serve_store" day || exit 1
	fi
	start log "$build/ascribe" serve day -l 127.0.0.1:0 --workers 2 --anonymous
	cat >flame.py <<'PY'
import json, sys, time, urllib.request
url, n = sys.argv[1], 15
times, size = [], 0
for i in range(n):  # each another range, so that no answer is one of before
    t = time.perf_counter()
    body = urllib.request.urlopen(url + '/api/v1/flame?max_nodes=20000&from=%d' % (1777629600 + 10 * i)).read()
    times.append(time.perf_counter() - t)
    size = len(body)
d = json.loads(body)
h = json.load(urllib.request.urlopen(url + '/api/v1/histogram?route=flame'))
times.sort()
print('nodes %d of %d, %d KiB; client: median %.1f ms, worst %.1f ms; server: median %.1f ms, p99 %.1f ms, best of the client %.1f ms' % (
    len(d['nodes']) // 3, len(d['nodes']) // 3 + d['pruned'], size // 1024, times[n // 2] * 1e3, times[-1] * 1e3,
    h['quantiles']['0.5'] / 1e6, h['quantiles']['0.99'] / 1e6, times[0] * 1e3))
print('figure', 'asked/flame', 'ascribe', h['quantiles']['0.5'] / 1e6, sep='\t')
print('figure', 'asked/flame99', 'ascribe', h['quantiles']['0.99'] / 1e6, sep='\t')
PY
	python3 flame.py "$url"
	echo "resident after it: $(rss_kib "$pid") KiB"
	kill "$pid"
}

readers() {
	echo "== 50 readers beside a writer"
	"$build/bench/serve_store" live write >live.txt &
	writer=$!
	pids+=("$writer")
	until grep -q begun live.txt; do sleep 0.5; done
	start log2 "$build/ascribe" serve live -l 127.0.0.1:0 --workers 2 --anonymous
	cat >readers.py <<'PY'
import http.client, random, sys, threading, time
host = sys.argv[1].split('//')[1]
paths = ['/api/v1/table?by=tenant&limit=20', '/api/v1/series?by=container&step=1m', '/api/v1/flame?max_nodes=2000', '/api/v1/stat',
         '/api/v1/values?key=tenant', '/api/v1/labels?names_only=1', '/api/v1/table?limit=50', '/api/v1/flame?max_nodes=5000&where={tenant="t1"}']
times, later, bad, by, lock, end = [], [], [], {}, threading.Lock(), time.time() + 30
warm = time.time() + 12
def reader(seed):
    rnd = random.Random(seed)
    c = http.client.HTTPConnection(host, timeout=20)
    while time.time() < end:
        p = rnd.choice(paths).replace('{', '%7B').replace('}', '%7D').replace('"', '%22')
        t = time.perf_counter()
        try:
            c.request('GET', p)
            r = c.getresponse()
            r.read()
            status = r.status
        except Exception as e:
            status = repr(e); c.close()
        with lock:
            times.append(time.perf_counter() - t)
            by.setdefault(p, []).append(times[-1])
            if time.time() - times[-1] > warm: later.append(times[-1])
            if status != 200: bad.append((status, p))
        time.sleep(rnd.random() * 2)  # people look at what they got
for t in [threading.Thread(target=reader, args=(i,)) for i in range(50)]:
    t.start(); 
for t in threading.enumerate():
    if t is not threading.current_thread(): t.join()
times.sort(), later.sort()
q = lambda x, v=times: v[min(len(v) - 1, int(len(v) * x))] * 1e3
print('%d answers, %d bad %s; median %.1f ms, p99 %.1f ms, worst %.1f ms' % (len(times), len(bad), bad[:2], q(0.5), q(0.99), times[-1] * 1e3))
print('figure', 'asked/readers', 'ascribe', q(0.99), sep='\t')
print('figure', 'asked/readers-warm', 'ascribe', q(0.99, later), sep='\t')
print('figure', 'kept/refused', 'ascribe', len(bad), sep='\t')
print('after the first 12 s: %d answers; median %.1f ms, p99 %.1f ms, worst %.1f ms' % (len(later), q(0.5, later), q(0.99, later), later[-1] * 1e3))
for p, v in sorted(by.items()):
    v.sort()
    print('  %-64s %4d: median %6.1f ms, 90%% %6.1f ms, worst %6.1f ms' % (p, len(v), q(0.5, v), q(0.9, v), v[-1] * 1e3))
PY
	for _ in $(seq "${ROUNDS:-1}"); do python3 readers.py "$url"; done
	kill -TERM "$writer"
	wait "$writer"
	cat live.txt
	stored=$("$build/ascribe" report live --json --by comm 2>/dev/null | jq .windows)
	written=$(sed -n 's/^\([0-9]*\) windows of.*/\1/p' live.txt)
	figure kept/windows ascribe $((written - stored))
	echo "server resident: $(rss_kib "$pid") KiB"
	awk '{ printf "CPU of the server: %.1f s\n", ($14 + $15) / 100 }' "/proc/$pid/stat"
	kill "$pid"
}

daemon() {
	[ "$(id -u)" = 0 ] || return
	seconds=${SECONDS_DAEMON:-120}
	echo "== the daemon at 19 Hz, $seconds s, two busy CPUs"
	for _ in 1 2; do openssl speed -seconds 1000 sha256 >/dev/null 2>&1 & pids+=($!); done
	start log3 "$build/ascribe" daemon -s "$dir/own" -l 127.0.0.1:0 --anonymous
	sleep 20
	cpu() { awk '{ print ($14 + $15) * 10 }' "/proc/$1/stat"; }
	before=$(cpu "$pid")
	sleep "$seconds"
	after=$(cpu "$pid")
	share=$(awk "BEGIN { printf \"%.3f\", ($after - $before) / 10 / $seconds }")
	figure daemon/cpu ascribe "$share"
	figure daemon/memory ascribe "$(rss_kib "$pid" | awk '{ print $1 / 1024 }')"
	kill -TERM "$pid"
	wait "$pid"
	"$build/ascribe" stat own 2>/dev/null | grep 'own cost'
}

high() {
	[ "$(id -u)" = 0 ] || return
	echo "== a day of high cardinality: 2,800 new query ids in each of 8,640 windows, then a daemon that goes on there"
	if [ -n "${HIGH:-}" ]; then
		cp -r "$HIGH" high
	else
		"$build/bench/serve_store" high high || exit 1
	fi
	"$build/bench/high_load" 2 & pids+=($!)
	start log4 "$build/ascribe" daemon -s "$dir/high" -l 127.0.0.1:0 --anonymous
	cat >high.py <<'PY'
import sys, threading, time, urllib.error, urllib.request
url, pid, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
page = ['labels?names_only=1', 'stat?from=now-2h', 'flame?max_nodes=8192&from=now-2h', 'series?by=query_id&limit=50&from=now-2h', 'table?by=query_id&limit=50&from=now-2h',
        'flame?max_nodes=8192', 'table?by=tenant&limit=50']
rss = lambda: int(next(l for l in open('/proc/%s/status' % pid) if l.startswith('VmRSS')).split()[1]) / 1024
seen, begun = [], time.time()
def ask(q):
    try:
        return str(len(urllib.request.urlopen(url + '/api/v1/' + q, timeout=60).read())) + ' bytes'
    except urllib.error.HTTPError as e:
        return '%d %s' % (e.code, e.read().decode().strip())
def watch(what, until):
    v = []
    while time.time() < until:
        time.sleep(1)
        v.append(rss())
        if what == 'asked the page\'s questions every 10 s' and len(v) % 10 == 0:
            for q in page: ask(q)
    n = max(1, len(v) // 4)
    mid = lambda x: sorted(x)[len(x) // 2]
    print('figure', 'daemon/high' + ('-asked' if 'asked' in what else ''), 'ascribe', mid(v), sep='\t')
    print('%s: resident median %.1f MiB (first quarter %.1f, last %.1f), most %.1f' % (what, mid(v), mid(v[:n]), mid(v[-n:]), max(v)))
time.sleep(20)
watch('recording alone', begun + seconds / 2)
watch('asked the page\'s questions every 10 s', begun + seconds)
t = time.time()
print('all label sets of that day: %s, %.1f s; resident after it %.1f MiB' % (ask('labels'), time.time() - t, rss()))
PY
	python3 high.py "$url" "$pid" "${SECONDS_HIGH:-300}"
	kill -TERM "$pid"
	wait "$pid"
}

for part in ${PARTS:-flame readers daemon high}; do $part; done
