# SPDX-License-Identifier: Apache-2.0
"""unwind_perf.py NAME REPLAY SCRIPT: stacks by rules (unwind_replay) against perf's (perf script -F tid,time,ip --ns
--no-inline) of the same recorded bytes. Prints the shares of equal call edges and of stacks that reach their root."""
import collections
import re
import sys

name, replay, script = sys.argv[1:]
ours, ends, roots = {}, collections.Counter(), set()
for line in open(replay):
    time, tid, end, *pcs = line.split()
    ours[int(time), int(tid)] = (end, [int(p, 16) for p in pcs])
    ends[end] += 1
    if end == 'rooted':
        roots.add(int(pcs[-1], 16))

theirs, key = {}, None
for line in open(script):
    head = re.match(r'\s*(\d+)\s+(\d+)\.(\d{9}):', line)
    if head:
        key = (int(head[2]) * 10**9 + int(head[3]), int(head[1]))
        theirs[key] = []
    elif key and line.strip():
        ip = int(line.split()[0], 16)
        if ip < 1 << 63:
            theirs[key].append(ip)

both = [k for k in ours if k in theirs and theirs[k]]
edges = same = rooted = perf_rooted = worse = 0
apart, short = collections.Counter(), collections.Counter()
for k in both:
    end, a = ours[k]
    b = theirs[k]
    x, y = collections.Counter(zip(a, a[1:])), collections.Counter(zip(b, b[1:]))
    edges += sum(y.values())
    same += sum((x & y).values())
    whole = end in ('rooted', 'truncated')
    perf_whole = b[-1] in roots or len(b) >= 127
    rooted += whole
    perf_rooted += perf_whole
    worse += perf_whole and not whole
    if a != b:
        apart[end, len(a) - len(b)] += 1
    if not whole:
        short[end, len(a)] += 1
n = len(both)
print(f"{name}: {n} samples, {worse} rooted by perf alone")
if n:
    print('figure', 'edges/' + name, 'ascribe', 100 * same / max(edges, 1), sep='\t')
    print('figure', f'edges/{name}-rooted', 'ascribe', 100 * rooted / n, sep='\t')
    print('figure', f'edges/{name}-rooted', 'perf dwarf', 100 * perf_rooted / n, sep='\t')
if apart:
    print('           chains that differ (our end, frames more than perf):',
          ', '.join(f'{e} {d:+d}: {c}' for (e, d), c in apart.most_common(6)))
if short:
    print('           not whole (our end, frames):', ', '.join(f'{e} {f}: {c}' for (e, f), c in short.most_common(6)))
