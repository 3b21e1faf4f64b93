#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a small store of format 2 (docs/format.md, "Format 2") into a new directory, and print its rows.

Two generations of symbols, two epochs (a key is wide in the second), segments of all three states.
Of the parents one has its windows still there (to be left out), one has none. One has some of them
(to be left out), and of one the rows are gone too. A line for each row:
t0 t1 boot anchor|event|stack, root first|labels|samples value. A line for the totals of each
window: T t0 outside own_cpu own_rss cpu:fired,stored,losses,flags ...

With a number as second argument some bytes are wrong, under checksums that are right; with "nul" a
key has a NUL.
"""
import os, random, struct, sys

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
    TABLE.append(i)


def crc(data):
    c = 0xffffffff
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xffffffff


M64 = (1 << 64) - 1


NUL = sys.argv[2:] == ['nul']
spoiling = random.Random(sys.argv[2]) if len(sys.argv) > 2 and not NUL else None


def spoil(data, chance=0.03):
    if not spoiling or not data or spoiling.random() > chance:
        return data
    data = bytearray(data)
    for _ in range(spoiling.choice((1, 1, 2, 8))):
        at = spoiling.randrange(len(data))
        data[at] = spoiling.choice((0, 1, 127, 128, 255, data[at] ^ 1 << spoiling.randrange(8), data[at] + 1 & 255))
    return bytes(data)


def varint(v):
    out = b''
    v &= M64
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def zigzag(v):
    v &= M64
    return varint((v << 1 ^ (M64 if v >> 63 else 0)) & M64)


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return varint(len(b)) + b


def join(columns):
    return b''.join(struct.pack('<I', len(c)) + c for c in columns)


STORE = 0x1122334455667788
SECOND = 10**9
BASE = 1700000000 // 86400 * 86400 * SECOND  # midnight
LOST = ['not_run', 'idle_not_run']
FLAGS = ['idle']
EVENTS = [('cpu-clock', 'nanoseconds', 10**7, 10**7), ('page-faults', 'count', 0, 1)]
KINDS = {'strings': 1, 'frames': 2, 'stacks': 3, 'events': 5, 'leaves': 6}


class File:
    def __init__(self, kind, level, serial):
        self.kind = kind
        head = b'ASCRFILE' + struct.pack('<IBBHQI', 2, kind, level, 0, STORE, serial)
        self.data = head + struct.pack('<I', crc(head))

    def frame(self, first, count, payload):
        payload = payload if self.kind == 7 and count else spoil(payload)
        head = struct.pack('<IBBHQIIIII', 0x52465341, self.kind, 0, 0, len(self.data), first, count, len(payload), len(payload),
                           crc(payload))
        at = len(self.data)
        self.data += head + struct.pack('<I', crc(head)) + payload
        return at


def differences(rows, n):
    out, before = [b''] * n, [0] * n
    for row in rows:
        for i in range(n):
            out[i] += zigzag(row[i] - before[i])
        before = list(row)
    return out


def string_columns(strings):
    b = [s.encode() for s in strings]
    return [b'\0' * len(b), b'', b''.join(varint(len(s)) for s in b), b''.join(b)]


class Generation:
    """Frames are names; "[idle]" is the frame of an idle CPU, one with "@" has no name but module@offset."""

    def __init__(self, stacks):
        self.strings, self.frames, self.nodes, self.leaves, self.by = [], [], [], [], {}
        for stack in stacks:
            parent = 0
            for i, name in enumerate(stack):
                path = stack[:i + 1]
                if path not in self.by:
                    self.nodes.append((parent, self.frame(name)))
                    self.by[path] = len(self.nodes)
                parent = self.by[path]
            self.leaves.append(parent)

    def string(self, s):
        if s and s not in self.strings:
            self.strings.append(s)
        return self.strings.index(s) + 1 if s else 0

    def frame(self, name):
        if '@' in name:
            module, offset = name.split('@')
            f = (0, 0, 0, self.string(module), self.string('ab12'), 0, 0, int(offset))
        else:
            f = (2 if name == '[idle]' else 0, 0, self.string(name), self.string('/bin/prog'), 0, self.string('main.c'), len(name), 0)
        if f not in self.frames:
            self.frames.append(f)
        return self.frames.index(f) + 1

    def leaf(self, stack):
        return self.leaves.index(self.by[stack]) + 1 if stack else 0

    def files(self, serial):
        stack_columns = [b''.join(varint(i + 1 - n[0]) for i, n in enumerate(self.nodes)), b'']
        stack_columns[1] = differences([(n[1],) for n in self.nodes], 1)[0]
        events = b''.join(text(e[0]) + text(e[1]) + varint(e[2]) + varint(e[3]) for e in EVENTS)
        payload = {'strings': (1, len(self.strings), string_columns(self.strings)), 'frames': (1, len(self.frames), differences(self.frames, 8)),
                   'stacks': (1, len(self.nodes), stack_columns), 'events': (0, len(EVENTS), [events]),
                   'leaves': (1, len(self.leaves), differences([(x,) for x in self.leaves], 1))}
        out = {}
        for name, (first, n, columns) in payload.items():
            f = File(KINDS[name], 0, serial)
            f.frame(first, n, join(columns))
            out[name] = f.data
        return out

    def marks(self, files):
        n = {'strings': len(self.strings) + 1, 'frames': len(self.frames) + 1, 'stacks': len(self.nodes) + 1, 'events': len(EVENTS),
             'leaves': len(self.leaves) + 1}
        return {KINDS[k]: (len(files[k]), n[k]) for k in KINDS}


class Epoch:
    def __init__(self, sets, wide):
        self.sets = [tuple(sorted(s.items())) for s in sets]
        self.wide = wide
        self.text = []
        for s in self.sets:
            for k, v in s:
                self.string(k)
                if isinstance(v, str):
                    self.string(v)
        for k in wide:
            self.string(k)

    def string(self, s):
        s = 'sha\0d' if NUL and s == 'shard' else s
        if s not in self.text:
            self.text.append(s)
        return self.text.index(s) + 1

    def id(self, labels):
        return self.sets.index(labels) + 1 if labels else 0

    def file(self, serial):
        labels = [l for s in self.sets for l in s]
        columns = string_columns(self.text) + [varint(len(self.text)), b''.join(varint(len(s)) for s in self.sets),
                  b''.join(varint(self.string(k)) for k, v in labels), bytes(isinstance(v, int) for k, v in labels),
                  b''.join(zigzag(v) if isinstance(v, int) else varint(self.string(v)) for k, v in labels)]
        f = File(4, 0, serial)
        f.frame(1, len(self.sets), join(columns))
        return f.data


def is_uuid(v):
    return len(v) == 36 and all(c == '-' if i in (8, 13, 18, 23) else c in '0123456789abcdef' for i, c in enumerate(v))


def table_columns(epoch, entries):
    """entries: (narrow id, wide labels), sorted."""
    c = {i: b'' for i in range(9, 17)}
    before = number = 0
    for narrow, wide in entries:
        c[9] += varint(narrow - before)
        before = narrow
        c[10] += varint(len(wide))
        for k, v in wide:
            c[11] += varint(epoch.string(k))
            if isinstance(v, int):
                c[12] += b'\1'
                c[15] += zigzag(v - number)
                number = v
            elif is_uuid(v):
                c[12] += b'\2'
                c[16] += bytes.fromhex(v.replace('-', ''))
            elif len(v) == 32 and all(x in '0123456789abcdef' for x in v):
                c[12] += b'\3'
                c[16] += bytes.fromhex(v)
            else:
                c[12] += b'\0'
                c[13] += varint(len(v))
                c[14] += v.encode()
    return c


class Block:
    def __init__(self, rows, gen, epoch, level=0, seq=0, t0=0, t1=0, boot=0, anchor=0, flags=0, children=(0, 0, 0), windows=None, wide=()):
        self.__dict__.update(locals())
        self.windows = windows or (1, seq, seq + 1)
        self.totals = (seq, 1000 + seq, 2000 + seq, [(c, 10 + seq, 7 + seq, [1, 2], [seq]) for c in (0, 3)])

    def columns(self, generation, epoch):
        split = {}
        for labels, *_ in self.rows:
            key = tuple(sorted(labels.items()))
            narrow = tuple(l for l in key if l[0] not in epoch.wide)
            split[key] = (epoch.id(narrow), tuple(l for l in key if l[0] in epoch.wide))
        entries = sorted(set(split.values()), key=lambda e: (e[0], str(e[1])))
        self.n_table = len(entries) if any(e[1] for e in entries) else 0
        groups = {}
        for labels, stack, event, samples, value in self.rows:
            entry = split[tuple(sorted(labels.items()))]
            groups.setdefault((generation.leaf(stack), event), []).append(
                (entries.index(entry) if self.n_table else entry[0], samples, value))
        folded = self.flags & 5
        explicit = any(v != s * EVENTS[e][3] for _, _, e, s, v in self.rows)
        c = {i: b'' for i in range(1, 9)}
        leaf = self.n_rows = 0
        for (l, e), rows in sorted(groups.items()):
            rows.sort()
            n = sum(r[1] for r in rows)
            for i, v in enumerate((varint(l - leaf), varint(e), varint(n), varint(sum(r[2] for r in rows)))):
                c[1 + i] += v
            leaf = l
            if folded:
                continue
            self.n_rows += len(rows)
            c[5] += varint(len(rows)) if n > 1 else b''
            for i, r in enumerate(rows):
                c[6] += varint(r[0] - rows[i - 1][0] - 1 if i else r[0])
                if i + 1 < len(rows):
                    c[7] += varint(r[1] - 1)
                    c[8] += varint(r[2])
        self.n_groups = len(groups)
        for i in ([] if explicit else [4, 8]) + (list(range(5, 9)) if folded else []):
            c.pop(i, None)
        outside, cpu_ns, rss, cpus = self.totals
        c[0] = varint(outside) + varint(cpu_ns) + varint(rss) + varint(len(cpus)) + varint(len(LOST)) + varint(len(FLAGS))
        for cpu, fired, stored, lost, flagged in cpus:
            c[0] += b''.join(varint(v) for v in [cpu, fired, stored] + lost + flagged)
        if self.n_table:
            c.update(table_columns(epoch, entries))
        if self.wide:
            c[17] = b''.join(varint(epoch.string(k)) + varint(n) for k, n in self.wide)
        return c

    def fixed(self, marks, n_columns, counts=True):
        out = struct.pack('<qqqBBBBI', self.t0, self.t1, self.boot, self.level, n_columns, self.flags, 0, self.n_rows)
        for k in range(1, 7):
            out += struct.pack('<QII', marks[k][0], marks[k][1] if counts else 0, 0)
        n, lo, hi = self.children
        return out + struct.pack('<14I', self.gen, self.epoch, self.seq, n, lo, hi, self.windows[0], self.anchor, self.n_groups,
                                 self.n_table, self.windows[1], self.windows[2], 0, 0)

    def encode(self, generations, epochs):
        generation, files = generations[self.gen]
        epoch, data = epochs[self.epoch]
        marks = generation.marks(files)
        marks[4] = (len(data), len(epoch.sets) + 1)
        c = self.columns(generation, epoch)
        c = {i: spoil(d, 0.02) for i, d in c.items()}
        fixed = spoil(self.fixed(marks, len(c)))
        directory = b''.join(struct.pack('<BBHIII', i, 0, 0, len(d), len(d), crc(d)) for i, d in sorted(c.items()))
        directory = spoil(directory)
        fixed = fixed[:-4] + struct.pack('<I', crc(fixed + directory))
        alone = self.fixed(marks, 0, False)
        self.index = alone[:-4] + struct.pack('<I', crc(alone))
        return fixed + directory + b''.join(d for _, d in sorted(c.items()))


def segment(serial, level, state, blocks, generations, epochs):
    f = File(7, level, serial)
    index = b''
    for b in blocks:
        payload = b.encode(generations, epochs)
        at = f.frame(b.seq, 1, payload)
        index += struct.pack('<QI', at, len(payload)) + b.index
    index_at = len(f.data)
    if state == 1:
        f.frame(0, 0, index)
    entry = [serial, level, state, len(f.data), index_at if state == 1 else 0]
    out = b''.join(varint(v) for v in entry) + zigzag(blocks[0].t0) + zigzag(blocks[-1].t1)
    out += b''.join(varint(v) for v in (len(blocks), blocks[0].seq, blocks[-1].seq + 1, 1, 1, 2, 2))
    return f.data, out


def meta(magic, payload):
    payload = spoil(payload)
    head = magic + struct.pack('<IIQI', 2, len(payload), STORE, crc(payload))
    return head + struct.pack('<I', crc(head)) + payload


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(data)


def show(b, lines):
    sums = {}
    for labels, stack, event, samples, value in b.rows:
        labels = {} if b.flags & 5 else labels
        key = f'{b.t0} {b.t1} {b.boot} {b.anchor}|{EVENTS[event][0]}|{";".join(stack)}|' + \
              ','.join(f'{k}={v}' for k, v in sorted(labels.items()))
        s = sums.setdefault(key, [0, 0])
        s[0] += samples
        s[1] += value
    lines += [f'{k}|{s[0]} {s[1]}' for k, s in sums.items()]
    outside, cpu_ns, rss, cpus = b.totals
    lines.append(f'T {b.t0} {outside} {cpu_ns} {rss}' + ''.join(
        f' {c}:{",".join(str(v) for v in [fired, stored] + lost + flagged)}' for c, fired, stored, lost, flagged in cpus))


def main(path):
    a, b, idle, addr = ('main', 'f', 'g'), ('main', 'f'), ('[idle]',), ('main', '/lib/x.so@4096')
    generations = {1: Generation([a, b, idle]), 2: Generation([addr, b, a, ('main',), idle])}
    generations = {k: (g, g.files(k)) for k, g in generations.items()}
    narrow = [{'tenant': 'a'}, {'tenant': 'b', 'shard': 7}, {'shard': -3}]
    epochs = {1: Epoch(narrow, []), 2: Epoch(narrow[:2], ['query'])}
    epochs = {k: (e, e.file(k)) for k, e in epochs.items()}
    uuid, trace = '01234567-89ab-cdef-0123-456789abcdef', '00112233445566778899aabbccddeeff'

    def window(seq, rows, gen, epoch, minute, **kw):
        t0 = BASE + minute * 60 * SECOND + seq * 10 * SECOND
        return Block(rows, gen, epoch, seq=seq, t0=t0, t1=t0 + 10 * SECOND, boot=(100 + seq * 10) * SECOND, **kw)

    plain = [({'tenant': 'a'}, a, 0, 5, 5 * 10**7), ({'tenant': 'b', 'shard': 7}, a, 0, 1, 10**7), ({}, idle, 0, 90, 90 * 10**7),
             ({'shard': -3}, b, 1, 4, 4)]
    rich = [({'tenant': 'a', 'query': uuid}, a, 0, 2, 2 * 10**7), ({'tenant': 'a', 'query': trace}, a, 0, 3, 3 * 10**7),
            ({'query': 'SELECT 1'}, addr, 0, 1, 10**7), ({'query': -12345678901}, b, 0, 1, 10**7), ({'tenant': 'b', 'shard': 7}, b, 1, 9, 1234),
            ({'query': 77, 'tenant': 'a'}, (), 0, 1, 10**7)]
    # Windows 0 to 5 begin in minute 0: retention has cut them. 6 to 10 are in minute 1, 11 and 12 in minute 2.
    plain[0:0] = [({'shard': -3}, (), 1, 2, 2)]
    gone = Block([(l, s, e, n * 6, v * 6) for l, s, e, n, v in plain], 1, 1, level=1, seq=0, t0=BASE, t1=BASE + 60 * SECOND,
                 boot=150 * SECOND, children=(6, 0, 6), windows=(6, 0, 6), wide=[])
    first = [window(6, plain, 1, 1, 0), window(7, plain[:2], 1, 1, 0, flags=1), window(8, rich, 2, 2, 0)]
    second = [window(9, rich[1:4], 2, 2, 0), window(10, rich[2:], 2, 2, 0, anchor=1)]
    there = Block([({'tenant': 'a'}, a, 0, 5, 5 * 10**7)], 2, 2, level=1, seq=1, t0=first[0].t0, t1=second[1].t1, boot=200 * SECOND,
                  children=(5, 6, 11), windows=(5, 6, 11), wide=[('query', 3)])
    bare = Block([({'tenant': 'a'}, a, 0, 50, 50 * 10**7)], 2, 2, level=1, seq=2, t0=BASE + 120 * SECOND, t1=BASE + 140 * SECOND,
                 boot=230 * SECOND, children=(2, 11, 13), windows=(2, 11, 13), flags=4, anchor=1)
    late = [window(13, rich, 2, 2, 1, anchor=1), window(14, rich[:1], 2, 2, 1, anchor=1)]
    kept = Block(plain, 2, 1, seq=16, t0=BASE + 250 * SECOND, t1=BASE + 260 * SECOND, boot=260 * SECOND, anchor=1)
    partial = Block([(l, s, e, n * 3, v * 3) for l, s, e, n, v in plain], 2, 1, level=1, seq=3, t0=BASE + 240 * SECOND, t1=BASE + 270 * SECOND,
                    boot=270 * SECOND, children=(3, 15, 18), windows=(3, 15, 18), anchor=1)
    lossy = Block([({'tenant': 'b', 'shard': 7}, b, 0, 8, 8 * 10**7)], 2, 2, level=2, seq=0, t0=BASE + 300 * SECOND, t1=BASE + 600 * SECOND,
                  boot=250 * SECOND, children=(5, 4, 9), windows=(30, 18, 48), anchor=1, wide=[('query', 4)])
    segments = [(1, 0, 1, first), (2, 0, 2, second), (3, 0, 0, late + [kept]), (4, 1, 1, [gone, there, bare, partial]), (5, 2, 0, [lossy])]
    names = ['10s', '1m', '5m']
    entries = b''
    for serial, level, state, blocks in segments:
        data, entry = segment(serial, level, state, blocks, generations, epochs)
        write(f'{path}/seg/{names[level]}-{serial:08}.seg', data)
        entries += entry
    for k, (_, files) in generations.items():
        for name, data in files.items():
            write(f'{path}/sym/{k:08}/{name}.log', data)
    for k, (_, data) in epochs.items():
        write(f'{path}/lab/{k:08}.log', data)
    manifest = varint(5) + varint(10)
    for level in range(10):
        manifest += varint([18, 4, 1][level] if level < 3 else 0) + varint(0) + zigzag(first[0].t0 if not level else 0) + \
                    varint(0 if level else 6) + varint(0) + varint(0)
    manifest += varint(len(segments)) + entries + varint(2) + b''.join(varint(k) + zigzag(BASE) for k in (1, 2))
    manifest += varint(2) + varint(1) + zigzag(BASE) + varint(0) + varint(2) + zigzag(BASE) + varint(1) + text('query') + varint(300)
    manifest += varint(2) + bytes(range(16)) + zigzag(BASE - 100 * SECOND) + bytes(range(16)) + zigzag(BASE - 99 * SECOND)
    header = struct.pack('<q', BASE - SECOND) + text('host') + text('Linux 6.1') + text('all processes') + varint(len(LOST)) + \
             b''.join(map(text, LOST)) + varint(len(FLAGS)) + b''.join(map(text, FLAGS))
    write(f'{path}/MANIFEST', meta(b'ASCRMANI', manifest))
    write(f'{path}/HEADER.copy', meta(b'ASCRSTOR', header))
    write(f'{path}/HEADER', meta(b'ASCRSTOR', header))
    write(f'{path}/lock', b'')
    lines = []
    for block in [gone] + first + second + [bare] + late + [partial, lossy]:
        show(block, lines)
    print('\n'.join(sorted(lines)))


main(sys.argv[1])
