#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Heat maps: a program is busy in bursts that it logs. The columns of 50 ms agree with its log, and
# add up to what reports say; a burst can be compared with what is beside it. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
# A name of its own: other tests run the program at the same time.
cp "$build/tests/record/bursts" bursts_heat
background ./bursts_heat 120 5 >bursts.log
load=$pid
background python3 -I -S -c 'import os, select
open("/proc/self/comm", "w").write("idler_heat")
select.select([os.pipe()[0]], [], [])'
idler=$pid
"$ascribe" record --tracks --wall -F 199 -d 12s -o tracked -q || bad "record"
kill "$load" "$idler"
"$ascribe" record -F 99 -d 1s -o plain -q || bad "record"
cat >tokens <<-END
	all $(printf a%.0s {1..32}) read
	part $(printf b%.0s {1..32}) read {comm="bursts_heat"}
END
chmod 600 tokens
serve log "$ascribe" serve tracked -l 127.0.0.1:0 --tokens-file tokens || finish
url=${url%%/#*}
all=(-u ":$(printf a%.0s {1..32})") part=(-u ":$(printf b%.0s {1..32})")
map=$url/api/v1/heatmap
bursts='where=%7Bcomm%3D%22bursts_heat%22%7D'

gets 200 '"unit":"samples"' "${all[@]}" "$map?from=-1h&step=50ms&$bursts"
cp body map.json
gets 200 '"rows"' "${all[@]}" "$map?from=-1h&step=50ms&by=cpu&$bursts"
cp body cpus.json
gets 200 '"rows"' "${all[@]}" "$map?from=-1h&step=50ms&by=comm&limit=3"
cp body comms.json
gets 200 '"unit":"microseconds"' "${all[@]}" "$map?from=-1h&step=100ms&metric=off&idle=1&$bursts"
cp body off.json
idle='where=%7Bcomm%3D%22idler_heat%22%7D'
gets 200 '"total":0' "${all[@]}" "$map?from=-1h&step=100ms&metric=off&$idle"
gets 200 '"rows"' "${all[@]}" "$map?from=-1h&step=100ms&metric=off&idle=1&$idle"
ok "idle waits are shown where they are asked for" jq -e '.total > 9000000' body
gets 200 '"rows"' "${part[@]}" "$map?from=-1h&step=50ms&by=comm"
cp body part.json
"$ascribe" report tracked --where '{comm="bursts_heat"}' --json >report.json
"$ascribe" report tracked --json >all.json

cat >judge.py <<'PY'
import json
def load(f): return json.load(open(f))
bursts = [tuple(int(x) / 1e9 for x in l.split()) for l in open('bursts.log')]
m = load('map.json')
cells, step = m['rows'][0]['cells'], m['step']
assert len(cells) == m['steps'] and step == .05 and m['untracked'] == 0, m
assert sum(cells) == m['total'] == load('report.json')['samples'] > 60, m['total']
asleep = wrong = far = busy = 0
for i, n in enumerate(cells):
    a, b = m['from'] + i * step, m['from'] + (i + 1) * step
    over = [(max(0, min(b, e) - max(a, s)), e - s, cpu) for s, e, cpu, *_ in bursts]
    want = sum(o / d * cpu for o, d, cpu in over) * 199
    near = any(s - .01 < b and e + .01 > a for s, e, *_ in bursts)
    asleep += not near
    wrong += n > 0 and not near
    busy += want > 1
    far += abs(n - want) > 4 + 4 * want ** .5
print(len(cells), 'columns,', busy, 'busy,', asleep, 'asleep')
# It runs a little around its bursts, to log them: later, where others have the CPU.
assert asleep > 30 and busy > 5 and wrong <= asleep // 50, (asleep, busy, wrong)
assert far <= len(cells) // 20, far
cpus = load('cpus.json')
assert [sum(c) for c in zip(*(r['cells'] for r in cpus['rows']))] == cells
assert len(cpus['rows']) > 1
comms = load('comms.json')
assert [r['value'] for r in comms['rows']].index(None) == 3, comms['rows']
total = load('all.json')['samples']
assert comms['total'] == sum(r['total'] for r in comms['rows']) == total, comms['total']
part = load('part.json')
assert [r['value'] for r in part['rows']] == ['bursts_heat'] and part['rows'][0]['cells'] == cells
# A step within a pause that it asked for is a wait of 100 ms.
off = load('off.json')
slept = [n for i, n in enumerate(off['rows'][0]['cells'])
         if any(at < off['from'] + i * .1 and off['from'] + (i + 1) * .1 < at + ns
                for *_, at, ns in bursts)]
assert len(slept) > 10
assert sum(95000 <= n <= 100500 for n in slept) >= len(slept) * .7, slept
PY
ok "columns as the program logged them" python3 -S judge.py

# ---- one burst against what is before it ----
jq -r '"\(.from) \(.from + .steps * .step)"' map.json >range
read -r from to before <<<"$(awk -v begin="$(cut -d' ' -f1 range)" -v end="$(cut -d' ' -f2 range)" '
	$1 / 1e9 > begin + 2 && $2 / 1e9 < end && $3 > most {
	most = $3; of = sprintf("%.6f %.6f %.6f\n", $1 / 1e9, $2 / 1e9, $1 / 1e9 - 0.1) }
	END { print of }' <(sed '$d' bursts.log))"
gets 200 '"rows"' "${all[@]}" \
	"$url/api/v1/diff?from=$from&to=$to&against_from=$before&against_to=$from&by=comm"
ok "a burst stands out against its pause, of 100 ms at least" jq -e '
	[.rows[] | select(.key.comm == "bursts_heat")][0] | .samples[0] > .samples[1]' body
gets 200 '"nodes"' "${all[@]}" "$url/api/v1/flame?from=$from&to=$to&$bursts"
ok "and is a flame graph by itself" grep -q burst_of_work body

# ---- what cannot be ----
refused 400 'step: at least 1ms' "${all[@]}" "$map?step=10us"
refused 400 'one label key' "${all[@]}" "$map?by=comm,tid"
refused 400 'cpu, off and runq' "${all[@]}" "$map?metric=wall"
refused 400 'no event' "${all[@]}" "$map?event=cycles"
refused 400 'no labels wait' "${all[@]}" "$map?where=%7Bwait%3D%22io%22%7D"
refused 401 'a token is needed' "$map"
serve plain.log "$ascribe" serve plain -l 127.0.0.1:0 --anonymous || finish
gets 200 '"total":0' "$url/api/v1/heatmap"
ok "windows without tracks are told" jq -e '.untracked == .windows and .untracked > 0' body
finish
