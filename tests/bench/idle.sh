#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What processes and threads that do nothing cost a recorder of the whole host. Measured are its
# start, its drains (their median, the longest) and its CPU time, in turns. As root. BUILD=build
# RUNS=3 SECONDS_EACH=6, PROCESSES and THREADS: how many.
set -eu
build=$(realpath "${BUILD:-build}")
dir=$(mktemp -d)
pid_max=$(sysctl -n kernel.pid_max)
idle=

begin_idle() { # number, of what
	rm -f "$dir/made"
	"$dir/idle-bench" "$1" "$2" >"$dir/made" </dev/null &
	idle=$!
	for _ in $(seq 600); do
		[ ! -s "$dir/made" ] || break
		sleep 0.1
	done
	[ "$(cat "$dir/made")" = "$1" ] || {
		echo "idle: $(cat "$dir/made") of $1 $2" >&2
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

measure() { # section, number, seconds, options of record
	python3 - "$build/ascribe" "$dir" "$@" <<'PY'
import json, os, subprocess, sys, time
ascribe, dir, section, n, seconds, *more = sys.argv[1:]
begin = time.monotonic()
p = subprocess.Popen([ascribe, 'record', '-a', '-F', '997', '-d', seconds + 's', *more, '-o', dir + '/store'], stderr=subprocess.PIPE, text=True)
for line in p.stderr:
    if line.startswith('ascribe: recording'):
        started = time.monotonic() - begin
p.stderr.close()
_, status, use = os.wait4(p.pid, 0)
assert status == 0, status
stat = json.loads(subprocess.check_output([ascribe, 'stat', dir + '/store', '--json']))
drain = stat['own']['metrics']['ascribe_drain_seconds']['quantiles']
for name, v in ('start', started), ('drain', drain['0.5'] / 1e9), ('longest', drain['1'] / 1e9), ('cpu', use.ru_utime + use.ru_stime):
    print('figure', f'{section}/{"".join(o[2:] + "-" for o in more)}{name}@{n}', 'ascribe', v, sep='\t')
PY
	rm -rf "$dir/store"
}

each=${SECONDS_EACH:-6}
for _ in $(seq "${RUNS:-3}"); do # in turns: what else the host does changes
	for what in processes threads; do
		counts=${PROCESSES-10 100 1000 10000 32000}
		[ $what = processes ] || counts=${THREADS-10 100 1000 10000 60000}
		for n in $counts; do
			begin_idle "$n" $what
			measure $what "$n" "$each"
			measure $what "$n" "$each" --wall
			end_idle
		done
	done
done
