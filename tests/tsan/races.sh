#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads of a build with ThreadSanitizer: a daemon that records, serves, takes profiles and is
# reloaded; a server with four workers over the same store; clients of both, some of which hang up.
# RACES_SECONDS of that. Its parsers have no rights for the sanitizer and end: names are missing.
. "$(dirname "$0")/../http/lib.bash"
needs_recording
seconds=${RACES_SECONDS:-30}
serve daemon.log "$ascribe" daemon -s store --wall --waker --cpu-max 0 -l 127.0.0.1:0 --anonymous ||
	finish
daemon=$pid recorded=$url
stored() {
	curl -gsS "$recorded/metrics" | awk '$1 == "ascribe_windows_total" { exit !$2 }'
}
within 60 stored
serve serve.log "$ascribe" serve store -l 127.0.0.1:0 --anonymous --workers 4 || finish
served=$url
cat >clients.py <<'PY'
import collections, random, sys, threading, time, urllib.error, urllib.parse, urllib.request
seconds, *servers = sys.argv[1:]
end = time.time() + float(seconds)
paths = ['/', '/metrics', '/metrics/profiles', '/readyz', '/export/profile.pb.gz', '/export/folded.txt',
         '/debug/pprof/profile?seconds=10', '/pyroscope/render?query=cpu-clock%7B%7D', '/api/v1/histogram?route=flame',
         '/api/v1/diff?from=now-30s&against_from=now-60s&against_to=now-30s', '/api/v1/why?where=%7Bcomm%3D%22python3%22%7D',
         *('/api/v1/' + p for p in ('flame', 'labels', 'table?by=comm', 'series?by=comm&step=10s', 'values?key=comm', 'findings', 'blame', 'stat'))]
answers = collections.Counter()
def client(server, seed):
    draw = random.Random(seed)
    while time.time() < end:
        path, body = draw.choice(paths), None
        if draw.random() < .1:
            path, body = '/ingest?name=a%d&format=folded' % draw.randrange(9), b'a;b;c 3\n'
        try:
            urllib.request.urlopen(urllib.request.Request(server + path, body), timeout=draw.choice([.05, 30, 30])).read()
            answers[200] += 1
        except urllib.error.HTTPError as e:
            answers[e.code] += 1
        except OSError:
            answers['none'] += 1  # it hung up, or the daemon was reloading
threads = [threading.Thread(target=client, args=(s, i)) for i in range(6) for s in servers]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(dict(answers))
assert answers[200] > 100
PY
(for _ in 1 2; do
	sleep $((seconds / 3))
	kill -HUP "$daemon"
done) &
ok "questions" python3 clients.py "$seconds" "$recorded" "$served"
cat ok.out
wait $!
kill "$daemon" "$pid"
wait "$daemon" "$pid"
for log in daemon serve; do
	n=$(grep -c '^SUMMARY: ThreadSanitizer' $log.log)
	ok "$log: $n races" test "$n" = 0
	grep '^SUMMARY: ThreadSanitizer' $log.log | sort -u
done
finish
