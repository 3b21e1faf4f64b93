# SPDX-License-Identifier: Apache-2.0
"""memory.py DAEMON SECONDS [MOST]: look at a daemon's memory five times a second, by the kernel and by the daemon's own
account; up to MOST seconds, until it has given something up.

Memory of the processes and of the maps, each counted once; the program's own pages are those of the start. The daemon
listens on ./sock. One line of JSON at the end: MiB.
"""
import glob, json, re, socket, sys, time
daemon, seconds = int(sys.argv[1]), float(sys.argv[2])
longest = float(sys.argv[3]) if len(sys.argv) > 3 else seconds
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
def steps(): return max((s[4]['ascribe_memory_step'] for s in seen), default=0)
seen, begun = [], time.time()
while time.time() < begun + seconds or (time.time() < begun + longest and not steps()):
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
                  'most children': max(s[3] for s in seen), 'step': steps()}))
