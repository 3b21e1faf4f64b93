#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ascribe import: what it reads is what the report shows, for each format; what is no profile leaves
# no store.
. "$(dirname "$0")/lib.bash"
export PYTHONPATH=$here/../http

rows() { "$ascribe" report "$@" -n 0 --json 2>/dev/null |
	jq -S '[.rows[] | [.key // [.function, .self], .samples, .seconds]] | sort'; }

# ---- pprof: our own, there and back ----
"$ascribe" export store --format pprof -o cpu.pb.gz 2>/dev/null
exits 0 '' "$ascribe" import pprof cpu.pb.gz -o back -l site=b,rack=4
ok "functions are those of the export" cmp <(rows store) <(rows back)
ok "and tenants" cmp <(rows store --by tenant) <(rows back --by tenant)
ok "and query ids" cmp <(rows store --by query_id) <(rows back --by query_id)
ok "and its time" test "$("$ascribe" report back --json 2>/dev/null | jq -c '[.from + 0, .to + 0]')" = \
	"[1777629600,1777629630]"
ok "labels of all samples" test "$(rows back --by site,rack | jq -c '.[0][0]')" = '{"rack":"4","site":"b"}'
ok "no accounting is made up" sh -c "! '$ascribe' report back 2>&1 | grep -q 'complete:'"
ok "a pipe is read" "$ascribe" import pprof - -o piped < <(cat cpu.pb.gz)
ok "as the file is" cmp <(rows store) <(rows piped)

# ---- what fails leaves nothing of its own, and what was there before ----
{ yes 'main;work 1' | head -200000; echo 'main;work many'; } >broken.txt
exits 1 'broken.txt' "$ascribe" import folded broken.txt -o broken
ok "no store is left" test ! -e broken
mkdir broken
exits 1 'broken.txt' "$ascribe" import folded broken.txt -o broken
ok "an empty directory stays one" test -d broken -a -z "$(ls -A broken)"
cp -r back kept
exits 1 'broken.txt' "$ascribe" import folded broken.txt -o kept
ok "a store that was there stays" cmp <(rows back) <(rows kept)

# ---- folded ----
"$ascribe" export store --format folded >stacks.txt 2>/dev/null
exits 0 '' "$ascribe" import folded stacks.txt -o folded --rate 99
exits 0 '' "$ascribe" findings folded # nothing says who it is
ok "all samples, in the time of 99 Hz" test "$(rows folded --by event | jq -c '.[0][1]')" = \
	"$(jq .samples truth.json)"
ok "the kernel's frames are the kernel's" sh -c "'$ascribe' report folded -n 0 2>/dev/null | grep -q 'vfs_read  \[kernel\]'"
ok "inlined frames are inlined" sh -c "'$ascribe' report folded -n 0 2>/dev/null | grep -q 'inner (inlined)'"

# ---- perf script ----
cat >perf.txt <<'TXT'
# a comment
worker 1 pool  100/101   [001]  5000.100000:   10101010 cpu-clock:pppH: 
	ffffffff81000010 do_sys+0x10 ([kernel.kallsyms])
	ffffffffc0001010 ext4_read+0x9 ([ext4])
	    7f0000001234 operator new(unsigned long)+0x14 (/usr/lib/libstdc++.so.6)
	    55d0c0de0010 inner (inlined)
	    55d0c0de0010 main+0x2 (/srv/app)

worker 1 pool  100/102   [000]  5000.200000:   10101010 cpu-clock:pppH: 
	    55d0c0de0020 main+0x12 (/srv/app)

idler   7 5012.000000001: cpu-clock:      7f0000001234 [unknown] ([unknown])
idler   7 5012.5: sched:sched_switch: prev_comm=idler
	ffffffff81000010 schedule+0x10 ([kernel.kallsyms])

nonsense that is no sample
TXT
touch -d '2026-05-01T10:00:00Z' perf.txt
exits 0 'warning: import: perf.txt: 1 lines are not of the format' "$ascribe" import perf-script perf.txt -o perf
cat >perf.py <<'PY'
import json, subprocess, sys
def run(*a):
    r = subprocess.run([sys.argv[1], 'report', 'perf', '-n', '0', '--json', *a], capture_output=True)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)
r = run()
assert {(x['function'], x['module'], x['samples'], x['self']) for x in r['rows']} == {
    ('do_sys', '[kernel]', 1, 1), ('ext4_read', '[ext4]', 1, 0), ('operator new(unsigned long)', 'libstdc++.so.6', 1, 0),
    ('inner', 'inlined', 1, 0), ('main', 'app', 2, 1)}, r['rows']
assert (r['from'], r['blocks']) == (1777629600, 2) and abs(r['seconds'] - 2 * .01010101) < 1e-9, r
by = {(x['key']['comm'], x['key']['tgid'], x['key']['tid']): x['samples'] for x in run('--by', 'comm,tgid,tid')['rows']}
assert by == {('worker 1 pool', '100', '101'): 1, ('worker 1 pool', '100', '102'): 1}, by
s = run('--event', 'sched:sched_switch', '--from', '1777629611')
assert [(x['function'], x['samples']) for x in s['rows']] == [('schedule', 1)] and s['blocks'] == 1 and abs(s['from'] - 1777629611.9) < .01, s
PY
ok "what it says" python3 perf.py "$ascribe"

# ---- a profile of another time than can be; a profile that is too large; what is no profile ----
cat >make.py <<'PY'
import sys, time
from wire import field
def profile(n, when): return (field(1, field(1, 1) + field(2, 2)) + field(2, field(1, 1) + field(2, 7)) * n + field(4, field(1, 1) + field(4, field(1, 1))) +
    field(5, field(1, 1) + field(2, 3)) + b''.join(field(6, x) for x in ('', 'alloc_space', 'bytes', 'f')) + field(9, when))
for name, n, when in ('old', 1, 1), ('tomorrow', 1, int(time.time() + 3 * 86400) * 10**9), ('large', 1000001, 0), ('larger', 6000000, 0): open(name, 'wb').write(profile(n, when))
PY
python3 make.py && touch -d '2026-05-01T10:00:00Z' old tomorrow
for name in old tomorrow; do
	exits 0 "the profile's time cannot be right" "$ascribe" import pprof $name -o of-$name
	ok "then it is of when the file was written" \
		test "$("$ascribe" report of-$name -e alloc_space --json 2>/dev/null | jq -c '[.from + 0, .value]')" = '[1777629600,7]'
done
exits 1 'too many samples' "$ascribe" import pprof large -o none
exits 1 'too many samples' "$ascribe" import pprof larger -o none # than memory for the message
head -c 300 cpu.pb.gz >cut.pb.gz
exits 1 'no whole gzip' "$ascribe" import pprof cut.pb.gz -o none
exits 1 'no pprof profile' "$ascribe" import pprof perf.txt -o none
exits 1 'line 1 is not' "$ascribe" import folded perf.txt -o none
{ printf 'main;a 1\n' && head -c 2000000 /dev/zero | tr '\0' a && echo ' 1'; } >long.txt
exits 1 'line 2 is longer' "$ascribe" import folded long.txt -o long
exits 1 'no samples in the format' "$ascribe" import perf-script stacks.txt -o none
exits 1 'no samples in the format' "$ascribe" import folded /dev/null -o none
exits 1 'is a directory' "$ascribe" import pprof / -o none
exits 1 'No such file' "$ascribe" import pprof missing -o none
exits 2 'no format' "$ascribe" import jfr cpu.pb.gz -o none
exits 2 'where to' "$ascribe" import pprof cpu.pb.gz
exits 2 'which file' "$ascribe" import pprof -o none
exits 2 'KEY=VALUE' "$ascribe" import pprof cpu.pb.gz -o none -l nothing
for magic in PERFILE2 2ELIFREP; do # of this byte order, and of the other
	printf '%s\150\0\0\0' $magic >perf.data
	exits 1 'perf script -i perf.data | ascribe' "$ascribe" import perf-script perf.data -o none
	exits 1 'a recording of perf, not pprof' "$ascribe" import pprof perf.data -o none
	exits 2 'perf script -i perf.data | ascribe' "$ascribe" import perf.data -o none
done
printf 'PERFILE' >perf.data
exits 1 'no samples in the format' "$ascribe" import perf-script perf.data -o none
if sh -c "perf record -e cpu-clock -o real.data sleep 0.2; exit" >perf.out 2>&1; then
	exits 1 'perf script -i real.data | ascribe' "$ascribe" import perf-script real.data -o none
fi
ok "none of them left a store" test ! -e none
exits 1 'holds other things' "$ascribe" import pprof cpu.pb.gz -o /etc
finish
