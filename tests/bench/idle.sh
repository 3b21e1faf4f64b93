#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What processes that do nothing cost a recorder of the whole host. Measured are its start, its
# drains (their median) and its CPU time beside 100 and beside 32,000 of them, in turns. As root,
# two minutes. BUILD=build RUNS=3 SECONDS_EACH=6.
set -eu
build=$(realpath "${BUILD:-build}")
dir=$(mktemp -d)
pid_max=$(sysctl -n kernel.pid_max)
idle=

begin_idle() { # number of processes
	rm -f "$dir/made"
	"$dir/idle-bench" "$1" >"$dir/made" </dev/null &
	idle=$!
	for _ in $(seq 600); do
		[ ! -s "$dir/made" ] || break
		sleep 0.1
	done
	[ "$(cat "$dir/made")" = "$1" ] || {
		echo "idle: $(cat "$dir/made") of $1 processes" >&2
		exit 1
	}
	sleep 1
}

end_idle() { # they all end with the first one
	[ -n "$idle" ] || return 0
	kill -KILL "$idle" 2>/dev/null || :
	wait "$idle" 2>/dev/null || :
	idle=
	for _ in $(seq 300); do
		pgrep -x idle-bench >/dev/null || return 0
		sleep 0.1
	done
	echo "idle: some processes did not end" >&2
}

at_exit() {
	end_idle
	sysctl -qw kernel.pid_max="$pid_max"
	rm -rf "$dir"
}
trap at_exit EXIT
trap 'exit 1' INT TERM
[ "$pid_max" -ge 131072 ] || sysctl -qw kernel.pid_max=131072
cp "$build/tests/record/idle" "$dir/idle-bench"

measure() { # processes, options of record
	python3 - "$build/ascribe" "$dir" "$@" <<'PY' >>"$dir/runs"
import json, os, subprocess, sys, time
ascribe, dir, n, seconds, *more = sys.argv[1:]
begin = time.monotonic()
p = subprocess.Popen([ascribe, 'record', '-a', '-F', '997', '-d', seconds + 's', *more, '-o', dir + '/store'], stderr=subprocess.PIPE, text=True)
for line in p.stderr:
    if line.startswith('ascribe: recording'):
        started = time.monotonic() - begin
p.stderr.close()
_, status, use = os.wait4(p.pid, 0)
assert status == 0, status
stat = json.loads(subprocess.check_output([ascribe, 'stat', dir + '/store', '--json']))
drain = stat['own']['metrics']['ascribe_drain_seconds']
print(json.dumps({'n': int(n), 'kind': ' '.join(more), 'start': started, 'drains': drain['count'], 'drain': drain['quantiles']['0.5'] / 1e9,
                  'longest': drain['quantiles']['1'] / 1e9, 'cpu': use.ru_utime + use.ru_stime}))
PY
	rm -rf "$dir/store"
}

for _ in $(seq "${RUNS:-3}"); do # in turns: what else the host does changes
	for n in 100 32000; do
		begin_idle $n
		measure $n "${SECONDS_EACH:-6}"
		measure $n "${SECONDS_EACH:-6}" --wall
		end_idle
	done
done

python3 - "$dir/runs" <<'PY'
import json, statistics, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
def median(n, kind, what):
    return statistics.median(r[what] for r in runs if (r['n'], r['kind']) == (n, kind))
print(f"{'processes':>10} {'':8}{'start':>10}{'drain':>12}{'longest':>12}{'CPU in all':>12}   (medians of the runs)")
for kind in '', '--wall':
    for n in 100, 32000:
        print(f"{n:10} {kind:8}{median(n, kind, 'start'):8.3f} s{1e3 * median(n, kind, 'drain'):9.2f} ms"
              f"{1e3 * median(n, kind, 'longest'):9.2f} ms{median(n, kind, 'cpu'):10.3f} s")
start = median(32000, '', 'start')
print(f'start beside 32,000: {start:.3f} s   (aim 0.5)')
times = median(32000, '', 'drain') / median(100, '', 'drain')
print(f'a drain beside 32,000, times one beside 100: {times:.2f}   (aim 1)')
sys.exit(start > 0.5 or times > 1.5)
PY
