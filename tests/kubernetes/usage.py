# SPDX-License-Identifier: Apache-2.0
"""usage.py OUT: follow the CPU time that the kernel accounts to pods and their containers, by
cpu.stat of their v2 cgroups, until SIGTERM; then write it.

{"pods": {uid: seconds}, "containers": {id: seconds}}: since this began, as last seen before the
cgroup went. A pod's cgroup outlives its containers and counts what they used.
"""
import json
import os
import signal
import sys
import time

mount = next(line.split()[1] for line in open('/proc/mounts') if line.split()[2] == 'cgroup2')
first, last = {}, {}
running = True


def stop(*_):
    global running
    running = False


def look(path, key):
    try:
        with open(path + '/cpu.stat') as f:
            used = int(f.readline().split()[1])
    except OSError:
        return
    first.setdefault(key, used if beginning else 0)
    last[key] = used


def below(path):
    try:
        return [e.path for e in os.scandir(path) if e.is_dir()]
    except OSError:
        return []


signal.signal(signal.SIGTERM, stop)
beginning = True
while running:
    top = mount + '/kubepods'
    for pod in below(top) + below(top + '/besteffort') + below(top + '/burstable'):
        uid = os.path.basename(pod)
        if not uid.startswith('pod'):
            continue
        look(pod, ('pods', uid[3:]))
        for container in below(pod):
            look(container, ('containers', os.path.basename(container)))
    beginning = False
    time.sleep(0.05)
out = {'pods': {}, 'containers': {}}
for (kind, key), used in last.items():
    out[kind][key] = (used - first[kind, key]) / 1e6
with open(sys.argv[1], 'w') as f:
    json.dump(out, f)
