# SPDX-License-Identifier: Apache-2.0
"""names.py FLAME.json STAT.json [RAW]: are frames named wherever the file has a symbol? The oracle is readelf.

FLAME.json: `ascribe flame --json`; STAT.json: `ascribe stat --json`; RAW: `go tool pprof -raw`, for build ids."""
import json
import os
import re
import subprocess
import sys

MAX_FRAMES = 400  # to look up; the hottest ones
d = json.load(open(sys.argv[1]))
frames = [tuple(d['frames'][i:i + 3]) for i in range(0, len(d['frames']), 3)]
total = [0] * len(frames)
for i in range(0, len(d['nodes']), 3):
    total[d['nodes'][i + 2]] += d['nodes'][i + 1]


def readelf(*args):
    return subprocess.run(['readelf', *args], capture_output=True, text=True).stdout


class File:
    def __init__(self, path):
        self.loads, self.functions, self.names, self.bytes = [], [], set(), b''
        for m in re.finditer(r'LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) ', readelf('-lW', path)):
            self.loads.append(tuple(int(x, 16) for x in m.groups()))
        if ' .gopclntab ' in readelf('-SW', path):
            self.bytes = open(path, 'rb').read()
        id_ = re.search(r'Build ID: (\w\w)(\w+)', readelf('-nW', path))
        debug = '/usr/lib/debug/.build-id/%s/%s.debug' % id_.groups() if id_ else ''
        text = readelf('-sW', '--dyn-syms', path) + (readelf('-sW', debug) if os.path.isfile(debug) else '')
        for line in text.splitlines():
            f = line.split()
            if len(f) >= 8 and f[6] != 'UND' and f[3] in ('FUNC', 'IFUNC', 'NOTYPE', 'GNU_IFUNC'):
                name = f[7].split('@')[0]
                self.names.add(name)
                size = int(f[2], 0)
                if size and f[3] != 'NOTYPE':
                    self.functions.append((int(f[1], 16), size, name))

    def has_name(self, name):
        """Is this C name one of the file's? Symbols, mangled or not; in Go's own table a string."""
        # .part, .cold and the like belong to their function.
        return (name in self.names or name.split('.')[0] in {n.split('.')[0] for n in self.names} or
                any(n.startswith('_Z') and name in n for n in self.names) or
                b'\0%s\0' % name.encode() in self.bytes)

    def covering(self, offset):
        """Names of the functions that cover this offset of the file."""
        for off, vaddr, size in self.loads:
            if off <= offset < off + size:
                at = offset - off + vaddr
                return [n for v, s, n in self.functions if v <= at < v + s]
        return None


files = {}


def file(path):
    if path not in files:
        files[path] = File(path) if os.path.isfile(path) and path not in other else None
    return files[path]


# Build ids. Programs of another root have other files at the same paths, but not those that the test runs.
same, other = set(), set()
if len(sys.argv) > 3:
    for m in re.finditer(r'^\d+: 0x\w+/0x\w+/0x\w+ (/\S+) ([0-9a-f]{16,})', open(sys.argv[3]).read(), re.M):
        if os.path.isfile(m[1]):
            (same if 'Build ID: ' + m[2] in readelf('-nW', m[1]) else other).add(m[1])


# Kernel frames.
kernel = {i for i, f in enumerate(frames) if f[2] == 0}
raw = sum(total[i] for i in kernel if re.search(r'\+?0x[0-9a-f]+$', frames[i][0]))
all_ = sum(total[i] for i in kernel)
print('kernel frames: %d different, %d of %d samples without a name' % (len(kernel), raw, all_))
assert all_ > 100 and raw <= 0.01 * all_

# User frames without a name: no symbol may cover them.
checked, wrong = 0, []
hot = sorted((i for i in range(len(frames)) if frames[i][1][:1] == '/'), key=lambda i: -total[i])
for i in hot:
    m = re.search(r'\+0x([0-9a-f]+)$', frames[i][0])
    f = file(frames[i][1]) if m and checked < MAX_FRAMES else None
    if not f:
        continue
    checked += 1
    names = f.covering(int(m[1], 16))
    if names:
        wrong.append((frames[i], names[:3], total[i]))
late = json.load(open(sys.argv[2]))['flagged']['names_late']  # as the recording itself says
print('unnamed user frames: %d looked up, %d have a symbol all the same; %d samples late' % (checked, len(wrong), late))
assert sum(n for _, _, n in wrong) <= late, wrong[:5]

# User frames with a name: it is one of the file's. C only: other names are demangled.
checked, wrong = 0, []
for i in hot:
    name, path, _ = frames[i]
    if '+0x' in name or not re.fullmatch(r'[A-Za-z_][\w.]*', name) or checked >= MAX_FRAMES:
        continue
    f = file(path)
    if not f or not f.names:
        continue
    checked += 1
    if not f.has_name(name):
        wrong.append(frames[i])
print('named user frames: %d looked up, %d not a name of their file' % (checked, len(wrong)))
assert checked > 10 and not wrong, wrong[:5]
print('files:', ' '.join(sorted({os.path.basename(frames[i][1]) for i in hot[:200]}))[:400])

if len(sys.argv) > 3:
    print('build ids: %d are those of readelf -n; of another root: %s' % (len(same), sorted(other)))
    assert len(same) > 5
    for program in 'openssl', 'python3', 'cc1', 'demo', 'postgres':
        assert any(program in os.path.basename(path) for path in same), program
