# SPDX-License-Identifier: Apache-2.0
"""events.py: read a watch of pods, a line for each event, and write when each pod (by uid) and each
container (by id) came first: "TIME NAME" a line, in seconds of the epoch."""
import json
import sys
import time

seen = set()
for line in sys.stdin:
    now = time.time()
    pod = json.loads(line)['object']
    names = [pod['metadata'].get('uid', '')]
    names += [c.get('containerID', '').rpartition('/')[2]
              for c in pod.get('status', {}).get('containerStatuses', [])]
    for name in names:
        if name and name not in seen:
            seen.add(name)
            print(f'{now:.3f} {name}', flush=True)
