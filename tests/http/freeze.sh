#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Freezes: the daemon makes a store of its last minutes by a signal and by HTTP. A program is busy
# in bursts that it logs; the frozen store has them, to the tenth of a second. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
make_tokens read capture
reader=(-u ":$(cat read.token)") capturer=(-u ":$(cat capture.token)")
# A name of its own: other tests run the program at the same time.
cp "$build/tests/record/bursts" bursts_freeze
background ./bursts_freeze 60 9 >bursts.log
serve log "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 -F 99 --freeze-keep 3 \
	--token-file read.token --capture-token-file capture.token || finish
daemon=$pid
value() { curl -gsS "${reader[@]}" "$url/metrics" | awk -v m="$1" '$1 == m { print $2 }'; }
frozen() { find store/frozen -mindepth 1 -maxdepth 1 ! -name '*.tmp' 2>/dev/null | sort; }
has() { [ "$(frozen | wc -l)" = "$1" ]; }
recorded() { [ "$(value ascribe_windows_total)" -ge "$1" ]; }
within 40 recorded 2

# ---- by a signal: with what was recorded up to then ----
kill -USR2 "$daemon"
asked=$(date +%s.%N)
ok "a signal freezes" within 10 has 1
until_says 'frozen (SIGUSR2): '
first=$(frozen)
ok "the log says where, and how long it took: $(sed -n 's/.*frozen (SIGUSR2): //p' log)" \
	grep -q "frozen (SIGUSR2): $dir/$first, " log
ok "it is whole" "$ascribe" store verify "$first"
ok "with all that reads a store" "$ascribe" report "$first"

# ---- by HTTP: whoever may have captures made ----
refused 401 'a token is needed' -X POST "$url/api/v1/freeze"
refused 403 'scope capture' "${reader[@]}" -X POST "$url/api/v1/freeze"
refused 405 'method' "${capturer[@]}" "$url/api/v1/freeze"
refused 400 "no parameter 'x'" "${capturer[@]}" -X POST "$url/api/v1/freeze?x=1"
gets 200 '"name"' "${capturer[@]}" -X POST "$url/api/v1/freeze"
second=store/frozen/$(jq -r .name body)
ok "its name is the answer: $second" test -e "$second/HEADER"
ok "it is whole, too" "$ascribe" store verify "$second"
refused 503 'one freeze a second' "${capturer[@]}" -X POST "$url/api/v1/freeze"
sleep 1
gets 200 '"name"' "${capturer[@]}" -X POST "$url/api/v1/freeze"
sleep 1
refused 429 'freeze-keep' "${capturer[@]}" -X POST "$url/api/v1/freeze"
ok "refused is counted" test "$(value ascribe_freezes_refused_total)" = 1
# Each window that ends early lacks names, of all programs. Metrics may be 5 s old.
sleep 6
windows=$(value ascribe_windows_total)
for _ in {1..40}; do
	curl -gsS -o body "${capturer[@]}" -X POST "$url/api/v1/freeze"
done
sleep 6
refused 429 'freeze-keep' "${capturer[@]}" -X POST "$url/api/v1/freeze"
more=$(($(value ascribe_windows_total) - windows))
ok "no window ends for those that are refused: $more" test $more -le 4
ok "and made" test "$(value ascribe_freezes_total)" = 3
ok "and in the log of requests" grep -q '/api/v1/freeze' store/audit.log
rm -r "$(frozen | tail -1)"
sleep 1
gets 200 '"name"' "${capturer[@]}" -X POST "$url/api/v1/freeze"
"$ascribe" serve "$first" -l 127.0.0.1:0 --anonymous 2>serve.log &
started+=($!)
within 10 grep -q 'on http' serve.log
refused 501 'no daemon' -X POST "$(sed -n 's/.* on \(http:.*\)/\1/p' serve.log)/api/v1/freeze"

# ---- what is in it ----
kill -TERM "$daemon"
wait "$daemon"
cat >judge.py <<'PY'
import json, subprocess, sys
ascribe, store, asked = sys.argv[1], sys.argv[2], float(sys.argv[3])
def ask(*more):
    a = [ascribe, 'report', store, '--json', *more]
    return json.loads(subprocess.run(a, capture_output=True, check=True).stdout)
bursts = [tuple(int(x) / 1e9 for x in l.split()) for l in open('bursts.log')]
whole = ask('--where', '{comm="bursts_freeze"}')
assert abs(whole['to'] - asked) < 1, (whole['to'], asked)
done = [b for b in bursts if b[0] > whole['from'] + .1 and b[1] < whole['to'] - .1][-12:]
assert len(done) > 5, done
at = '{:.6f}'.format
for s, e, cpu, *_ in done:
    n = ask('--where', '{comm="bursts_freeze"}', '--from', at(s), '--to', at(e))['samples']
    assert abs(n - cpu * 99) < 5 + 4 * (cpu * 99) ** .5, (n, cpu * 99)
for (_, e, *_), (s, *_) in zip(done, done[1:]):
    if s - e > .06:
        n = ask('--where', '{comm="bursts_freeze"}', '--from', at(e + .02), '--to', at(s - .02))['samples']
        assert n == 0, ('it slept', n, e, s)
print(len(done), 'bursts')
PY
ok "bursts and pauses as the program logged them" python3 -S judge.py "$ascribe" "$first" "$asked"

# ---- by rules: pressure, and waits that are long ----
for rule in "cpu some > 1" "cpu most > 1%" "swap some > 1%" "p99(wall) > 1ms" "p0(runq) > 1ms" \
	"p99(runq) > soon" "cpu some > 1% now"; do
	printf 'store: %s/store\nwall: true\nfreeze-when: ["%s"]\n' "$dir" "$rule" >c.yaml
	checks 2 'is no rule'
done
printf 'store: %s/store\nfreeze-when: ["p99(runq) > 1ms"]\n' "$dir" >c.yaml
checks 2 'needs wall'
for what in 'tid="1":have no label tid' 'wait="io":have no label wait' 'comm=:column'; do
	printf 'store: %s/store\nwall: true\nfreeze-when: [%s]\n' "$dir" \
		"'p99(off{${what%:*}}) > 1ms'" >c.yaml
	checks 2 "${what#*:}"
done
for _ in 1 2 3 4; do
	background "$build/tests/record/busy" spin 90
done
serve rules.log "$ascribe" daemon -s "$dir/ruled" -l 127.0.0.1:0 --wall --anonymous \
	--freeze-when 'p99(runq{comm="absent"}) > 1us' --freeze-when 'p99(runq{absent="a"}) > 1us' \
	--freeze-when 'p99(runq{comm="busy"}) > 1 us' --freeze-when 'cpu some > 1%' \
	--freeze-every 1s || finish
ok "pressure freezes" within 40 grep -q 'frozen (cpu some > 1%, seen: [0-9.]*%)' rules.log
ok "and so do long waits" within 40 \
	grep -q 'frozen (p99(runq{comm="busy"}) > 1 us, seen: [0-9.]* ms)' rules.log
ok "of those labels alone" eval '! grep -q absent rules.log'
ok "what they froze is whole" "$ascribe" store verify \
	"$(find ruled/frozen -mindepth 1 -maxdepth 1 ! -name '*.tmp' | sort | tail -1)"
finish
