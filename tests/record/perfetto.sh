#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `export --format perfetto` of a recording, decoded by Google's protobuf from the published numbers
# (perfetto_trace.proto): samples against report, their times against the log of a program that is
# busy in bursts, slices against its pauses, labels against those of another program. And the same
# recording by `--format firefox`. As root.
. "$(dirname "$0")/lib.bash"

for python in python3 /usr/bin/python3 none; do
	$python -c 'import google.protobuf' 2>/dev/null && break
done
[ $python != none ] || skip "python3-protobuf is missing"
command -v protoc >/dev/null || skip "protoc is missing"
protoc -I "$here" --python_out=. "$here/perfetto_trace.proto" || exit 1

cp "$loads/bursts" bursts_pf
cp "$loads/labelled" labelled_pf
background ./bursts_pf 120 3 >bursts.log
background ./labelled_pf share 60 >/dev/null
record --wall --tracks -F 199 -d 12s -o tracked || finish
kill "${started[@]}"
record -F 199 -d 1s -o plain || finish

cat >decoded.py <<'PY'
import collections, json, subprocess
import perfetto_trace_pb2 as pb
# A trace as its readers take it: names by the sequence's interned data, slices by nesting.
class Trace:
    def __init__(self, path):
        trace = pb.Trace.FromString(open(path, 'rb').read())
        self.strings, self.frames, self.stacks = {}, {}, {}
        self.paths, self.mappings, self.builds = {}, {}, {}
        self.tracks, self.samples, self.waits, open_ = {}, [], [], collections.defaultdict(list)
        self.processes = {}
        cleared, events = False, []
        for p in trace.packet:
            assert not p.DiscardUnknownFields(), p
            assert p.trusted_packet_sequence_id == 1
            cleared |= p.sequence_flags == pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            if p.HasField('trace_packet_defaults'):
                self.defaults = p.trace_packet_defaults
            for table, into in (('function_names', self.strings), ('mapping_paths', self.paths),
                                ('build_ids', self.builds), ('mappings', self.mappings),
                                ('frames', self.frames), ('callstacks', self.stacks)):
                for e in getattr(p.interned_data, table):
                    assert e.iid and e.iid not in into, (table, e.iid)
                    into[e.iid] = e
            kind = p.WhichOneof('data')
            if kind == 'clock_snapshot':
                self.clock = p.clock_snapshot
            elif kind == 'track_descriptor':
                d = p.track_descriptor
                assert d.uuid and d.uuid not in self.tracks
                assert not d.parent_uuid or d.parent_uuid in self.tracks
                self.tracks[d.uuid] = d
                if d.HasField('process'):
                    assert d.process.pid not in self.processes
                    self.processes[d.process.pid] = d.process.process_name
            elif kind == 'perf_sample':
                assert cleared and p.perf_sample.HasField('cpu')
                self.samples.append((p.timestamp, p.perf_sample))
            elif kind == 'track_event':
                assert cleared and p.track_event.track_uuid in self.tracks
                events.append((p.timestamp, p.track_event))
        for at, e in sorted(events, key=lambda e: e[0]): # stable, as its readers sort
            if e.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                assert not open_[e.track_uuid], 'slices of a track overlap'
                open_[e.track_uuid].append((at, e))
            else:
                assert e.type == pb.TrackEvent.TYPE_SLICE_END
                begin, b = open_[e.track_uuid].pop()
                assert at >= begin
                self.waits.append((begin, at, b))
        assert not any(open_.values()), 'slices without an end'
        for s in self.stacks.values():
            assert s.frame_ids and all(f in self.frames for f in s.frame_ids)
        for f in self.frames.values():
            assert f.function_name_id in self.strings and f.HasField('rel_pc')
            m = self.mappings[f.mapping_id]
            assert m.build_id in self.builds and all(s in self.paths for s in m.path_string_ids)
    def names(self, stack): # root first
        return [self.strings[self.frames[f].function_name_id].str.decode()
                for f in self.stacks[stack].frame_ids] if stack else []
    def thread(self, uuid):
        d = self.tracks[uuid]
        return d.thread if d.HasField('thread') else self.thread(d.parent_uuid)
def run(*a):
    return subprocess.run(a, capture_output=True, check=True).stdout
def report(ascribe, *more):
    return json.loads(run(ascribe, 'report', 'tracked', '-n', '0', '--json', *more))
PY
cat >judge.py <<'PY'
import collections, sys
from decoded import Trace, report
ascribe = sys.argv[1]
t = Trace('all.perfetto')
whole = report(ascribe)
assert t.clock.primary_trace_clock == 1 and {c.clock_id for c in t.clock.clocks} == {1, 6}
assert t.defaults.timestamp_clock_id == 1
base = t.defaults.perf_sample_defaults.timebase
assert (base.name, base.frequency) == ('cpu-clock', 199), base
assert len(t.samples) == whole['samples'] > 500, (len(t.samples), whole['samples'])
assert all(whole['from'] - 1 < at / 1e9 < whole['to'] + 1 for at, _ in t.samples)
# By thread, and by function.
got = collections.Counter((str(s.pid), str(s.tid)) for _, s in t.samples)
want = collections.Counter()
for r in report(ascribe, '--by', 'tgid,tid', '--exact')['rows']:
    want[str(r['key']['tgid']), str(r['key']['tid'])] += r['samples']
assert got == want, (got - want, want - got)
got = collections.Counter((t.names(s.callstack_iid) or [None])[-1] for _, s in t.samples)
want = collections.Counter()
for r in whole['rows']:
    want[r['function']] += r['self']
del got[None]
assert +got == +want, ((got - want).most_common(3), (want - got).most_common(3))
total = collections.Counter(f for _, s in t.samples for f in set(t.names(s.callstack_iid)))
for r in whole['rows'][:20]:
    if not r['function'].endswith(')'): # one name, one function
        assert total[r['function']] >= r['samples'], r
# The program's own log: its samples are in its bursts, its slices are its pauses.
tid = next(u.thread.tid for u in t.tracks.values() if u.HasField('thread') and
           u.thread.thread_name == 'bursts_pf')
assert t.processes[tid] == 'bursts_pf'
bursts = [tuple(map(int, l.split())) for l in open('bursts.log')]
SLACK = 15 * 10**6
mine = [at for at, s in t.samples if s.tid == tid and at < bursts[-1][1]] # later ones: no log
out = [at for at in mine if not any(b - SLACK < at < e + SLACK for b, e, *_ in bursts)]
assert len(mine) > 10 and len(out) <= 2 + len(mine) // 50, (len(mine), len(out))
sleeps = [(b, e) for b, e, w in t.waits if w.name == 'off-cpu' and t.thread(w.track_uuid).tid == tid]
first, last = min(at for at, _ in t.samples), max(at for at, _ in t.samples)
pauses = [(at, at + length) for *_, at, length in bursts
          if at > first + 10**9 and at + length < last - 10**9]
# On a busy host not each wait has a stack: the others are told of with a later one.
found = sum(any(min(e, pe) - max(b, pb) > .9 * (pe - pb) and e - b < pe - pb + SLACK
                for b, e in sleeps) for pb, pe in pauses)
assert len(pauses) > 8 and found >= .3 * len(pauses), (found, len(pauses), sleeps, pauses)
# A blocked wait ends with its wake-up, where the wait for a CPU begins; the tracks have one end.
ends = collections.defaultdict(set)
for b, e, w in t.waits:
    if w.name == 'off-cpu':
        ends[t.thread(w.track_uuid).tid].add(e // 1000)
after = [(e - b, (b // 1000) in ends[t.thread(w.track_uuid).tid],
          (e // 1000) in ends[t.thread(w.track_uuid).tid]) for b, e, w in t.waits if w.name == 'runq']
assert sum(a for _, a, _ in after) > 5 * sum(s for *_, s in after) > -1, after[:9]
assert sum(a for _, a, _ in after) > 10, after[:9]
stacks = [t.names(w.callstack_iid) for b, e, w in t.waits if t.thread(w.track_uuid).tid == tid and
          w.name == 'off-cpu' and e - b > 90 * 10**6]
slept = sum(any('nanosleep' in f for f in s) for s in stacks)
assert slept > .7 * len(stacks) > 2, (slept, len(stacks), stacks[-2:])
# Labels of the work are annotations of its waits.
tenants = collections.Counter(a.string_value for b, e, w in t.waits for a in w.debug_annotations
                              if a.name == 'tenant')
assert {'a', 'b'} <= set(tenants), tenants # and of what else runs here
assert any(w.name == 'runq' for *_, w in t.waits)
print(len(t.samples), 'samples,', len(t.waits), 'waits,', found, 'of', len(pauses), 'pauses,',
      len(t.stacks), 'stacks')
# Tracks by a label, of samples alone: their names, and the sums of report.
t = Trace('tenant.perfetto')
assert not t.waits
got = collections.Counter(t.processes[s.pid] for _, s in t.samples)
tenants = {r['key']['tenant'] for r in report(ascribe, '--by', 'tenant', '--exact')['rows']}
assert {'a', 'b'} <= tenants # and of what else runs here
want = {f'tenant={v}': report(ascribe, '--where', f'{{tenant="{v}"}}')['samples']
        for v in tenants - {None, '(none)'}}
assert got.pop('(none)') == whole['samples'] - sum(want.values())
assert got == want, (got, want)
PY
cat >part.py <<'PY'
import sys
from decoded import Trace, report
t = Trace('part.perfetto')
n = report(sys.argv[1], '--from', sys.argv[2], '--to', sys.argv[3])['samples']
lo, hi = float(sys.argv[2]), float(sys.argv[3])
assert len(t.samples) == n > 20, (len(t.samples), n)
assert all(lo <= at / 1e9 < hi for at, _ in t.samples)
assert all(b / 1e9 < hi and e / 1e9 > lo for b, e, _ in t.waits) and t.waits
PY
cat >firefox.py <<'PY'
import collections, sys
import firefox_profile
from decoded import report
p, whole = firefox_profile.load(open('tracked.firefox').read()), report(sys.argv[1])
strings, begin = p['shared']['stringArray'], p['meta']['startTime']
got = collections.Counter({(t['pid'], str(t['tid'])): t['samples']['length'] for t in p['threads']})
want = collections.Counter()
for r in report(sys.argv[1], '--by', 'tgid,tid', '--exact')['rows']:
    want[str(r['key']['tgid']), str(r['key']['tid'])] += r['samples']
assert +got == +want, (got - want, want - got)
got = collections.Counter(firefox_profile.leaf(p, s) for t in p['threads']
                          for s in t['samples']['stack'] if s is not None)
want = collections.Counter({r['function']: 0 for r in whole['rows']})
for r in whole['rows']:
    want[r['function'][:4095]] += r['self']
assert +got == +want, ((got - want).most_common(3), (want - got).most_common(3))
weight = sum(sum(t['samples']['weight']) for t in p['threads'])
assert abs(float(weight) / 1000 - whole['seconds']) < 1e-6 * whole['seconds'], (weight, whole)
[mine] = [t for t in p['threads'] if t['name'] == 'bursts_pf']
bursts = [[int(x) / 1e6 - begin for x in l.split()] for l in open('bursts.log')]
at = [float(x) for x in mine['samples']['time'] if x < bursts[-1][1]]
out = [x for x in at if not any(b - 15 < x < e + 15 for b, e, *_ in bursts)]
assert len(at) > 10 and len(out) <= 2 + len(at) // 50, (len(at), len(out))
m = mine['markers']
sleeps = [(float(b), float(e), d) for b, e, n, d in zip(m['startTime'], m['endTime'], m['name'],
          m['data']) if strings[n] == 'off-cpu' and e - b > 90]
frames = p['shared']['stackTable']
def stack(i):
    while i is not None:
        yield firefox_profile.leaf(p, i)
        i = frames['prefix'][i]
slept = sum(any('nanosleep' in f for f in stack(d['cause']['stack'])) for *_, d in sleeps
            if 'cause' in d)
assert slept > .7 * len(sleeps) > 2, (slept, len(sleeps))
# A pause lasts until its burst begins.
pauses = [(paused, begun) for begun, _, _, paused, _ in bursts]
strange = [(b, e) for b, e, _ in sleeps if e < bursts[-1][0] and
           not any(at - 15 < b and e < to + 15 for at, to in pauses)]
assert not strange, (strange, pauses)
assert any('tenant=a' in d['labels'] for t in p['threads'] for d in t['markers']['data'])
print(sum(got.values()), 'samples,', len(sleeps), 'pauses')
PY
exits 0 'samples and [0-9]+ waits have times' "$ascribe" export tracked --format perfetto \
	-o all.perfetto
exits 0 'samples and [0-9]+ waits have times' "$ascribe" export tracked --format firefox \
	-o tracked.firefox
ok "firefox: samples, times, waits, stacks and labels" \
	env PYTHONPATH="$source_root/tests/tools" $python firefox.py "$ascribe"
exits 0 '' "$ascribe" export tracked --format perfetto --by tenant --metric cpu -o tenant.perfetto
ok "samples, times, waits, stacks and labels" $python judge.py "$ascribe"
begin=$(report tracked | jq '.from | floor + 4')
exits 0 '' "$ascribe" export tracked --format perfetto --from "$begin" --to $((begin + 2)) \
	-o part.perfetto
ok "a range within windows" $python part.py "$ascribe" "$begin" $((begin + 2))
ok "of waits alone" $python -c '
from decoded import Trace
import subprocess, sys
subprocess.run([sys.argv[1], "export", "tracked", "--format", "perfetto", "--metric", "off", "-o",
                "off.perfetto"], check=True, stderr=subprocess.DEVNULL)
t = Trace("off.perfetto")
assert not t.samples and {w.name for *_, w in t.waits} == {"off-cpu"}' "$ascribe"
# Many threads on one track: their waits overlap, and lie side by side.
exits 0 '' "$ascribe" export tracked --format perfetto --by tenant -o wide.perfetto
ok "waits that overlap" $python -c '
from decoded import Trace
t = Trace("wide.perfetto")
assert len(t.processes) >= 3 and sum(d.name == "waits" for d in t.tracks.values()) > 1'
exits 1 'record with --tracks' "$ascribe" export plain --format perfetto -o plain.perfetto
ok "without times no file" test ! -e plain.perfetto
exits 1 'only cpu, off, runq and wall have times' \
	"$ascribe" export tracked --format perfetto --metric waker -o no.perfetto
exits 1 'No space left' "$ascribe" export tracked --format perfetto -o /dev/full
finish
