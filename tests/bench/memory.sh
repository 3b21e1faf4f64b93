#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon with little memory beside a flood of stacks, labels and waits: it keeps to its limit at
# each look, by what the kernel says of all its processes and maps; sums of labels stay right, what
# became (other) is counted, and it never begins anew. A reload with too little memory is refused.
# By a build that looks each second. As root.
. "$(dirname "$0")/../http/lib.bash"
needs_recording
limit=96
cat >a.yaml <<Y
store: $dir/store
listen: [unix:$dir/sock, 127.0.0.1:0]
frequency: 997
wall: true
waker: true
cpu-max: 0
memory-max: ${limit}MiB
anonymous: true
Y
serve log "$build/tests/hasty/ascribe" daemon -c a.yaml || finish
daemon=$pid
# Memory of the processes and of the maps, each counted once; the program's own pages are those of
# the start.
cat >watch.py <<'PY'
import glob, json, re, socket, sys, time
daemon, seconds = int(sys.argv[1]), float(sys.argv[2])
def field(text, name):
    return next((int(l.split()[1]) * 1024 for l in text.splitlines() if l.startswith(name + ':')), 0)
def tree(pid):
    yield pid
    for f in glob.glob(f'/proc/{pid}/task/*/children'):
        try: children = open(f).read().split()
        except OSError: continue
        for c in children: yield from tree(int(c))
def anonymous(pid):
    try: text = open(f'/proc/{pid}/status').read()
    except OSError: return 0
    return field(text, 'RssAnon') + field(text, 'RssShmem')
def maps():
    seen, rings = {}, 0
    for f in glob.glob(f'/proc/{daemon}/fdinfo/*'):
        try: lines = dict(l.split(':\t') for l in open(f).read().splitlines() if ':\t' in l)
        except OSError: continue
        if 'map_id' in lines: seen[lines['map_id']] = int(lines['memlock'])
    for line in open(f'/proc/{daemon}/maps'):
        if 'anon_inode:[perf_event]' in line:
            begin, end = (int(x, 16) for x in line.split()[0].split('-'))
            rings += end - begin
    return sum(seen.values()) + rings
def metrics():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    try:
        s.connect('sock')
        s.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
        text = b''.join(iter(lambda: s.recv(65536), b'')).decode()
    except OSError:
        return {}
    finally:
        s.close()
    return {k: float(v) for k, v in re.findall(r'^(ascribe_memory\S*) (\S+)$', text, re.M)}
seen, until = [], time.time() + seconds
while time.time() < until:
    m = metrics()
    program = m.get('ascribe_memory_bytes{part="program"}', 0)
    own, *children = map(anonymous, tree(daemon))
    used = own + sum(children) + maps() + program
    if m.get('ascribe_memory_used_bytes'):
        seen.append((used / 2**20, m['ascribe_memory_used_bytes'] / 2**20, own / 2**20, sum(children) / 2**20, m))
    time.sleep(0.2)
most = max(seen)
ratio = sorted(s[1] / s[0] for s in seen)
print(json.dumps({'looks': len(seen), 'most': most[0], 'own': most[2], 'children': most[3], 'told': max(s[1] for s in seen),
                  'ratio': ratio[len(ratio) // 2], 'more': max(s[4]['ascribe_memory_more_bytes'] for s in seen) / 2**20,
                  'most children': max(s[3] for s in seen), 'step': max(s[4]['ascribe_memory_step'] for s in seen)}))
PY
python3 watch.py "$daemon" 26 >watch.json &
watcher=$!
"$build/tests/record/crowd" 22 >truth.json
wait "$watcher"
cat watch.json
ok "it was looked at" jq -e '.looks > 40' watch.json
ok "within 105% of the limit at each look" jq -e ".most <= $limit * 1.05" watch.json
ok "its own account agrees with the kernel's" jq -e '.ratio > 0.95 and .ratio < 1.05' watch.json
ok "it is the same recorder" test "$(curl -s --unix-socket sock http://x/metrics | sed -n 's/^ascribe_sample_weight //p')" = 1
sed -i 's/^memory-max.*/memory-max: 20MiB/' a.yaml
kill -HUP "$daemon"
for _ in $(seq 100); do
	grep -q reload log && break
	sleep 0.05
done
ok "a reload with too little is refused" grep -q 'reload: memory-max is too small: 20.0 MiB are given.*everything stays as it was' log
kill -TERM "$daemon"
wait "$daemon"
ok "it ends well" test $? = 0
cat log
ok "it did not begin anew" sh -c '! grep -q anew log'
"$ascribe" stat store --json >stat.json 2>/dev/null
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' stat.json
jq -c '.lost' stat.json
ok "what became (other) is counted" jq -e '.flagged.stack_other > 0' stat.json
ok "no sample is lost to it" jq -e '(.lost.user_memory // 0) == 0' stat.json
"$ascribe" report store --event cpu-clock --by tenant --json >tenants.json 2>/dev/null
# Tables that fill in a flood lose samples, whoever they are of, and count them.
ok "the sums of labels stay right" python3 - <<'PY'
import json
truth = json.load(open('truth.json'))
got = {r['key'].get('tenant'): r['seconds'] for r in json.load(open('tenants.json'))['rows']}
lost = sum(v for k, v in json.load(open('stat.json'))['lost'].items() if k != 'idle_not_run') / 997
whole, found = sum(truth.values()), sum(got.get(k, 0) for k in truth)
print({k: (round(v, 2), round(got.get(k, 0), 2)) for k, v in truth.items()}, round(whole, 2), round(found, 2), round(lost, 2))
assert 0.93 * whole - lost < found < 1.05 * whole + 0.1
for k, v in truth.items():
    assert 0.85 * v / whole < got.get(k, 0) / found < 1.15 * v / whole, k
PY
finish
