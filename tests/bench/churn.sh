#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compare what recording costs beside compilers, interpreters and short processes: ascribe against
# `perf record -a -g` with `perf script`. Runs are interleaved; all are told. CPU time is
# that of the recorder's cgroup, so its children count, and of its BPF programs, which run in other
# processes' time. Arguments: none. RUNS=3 SECONDS_EACH=20 BUILD=build.
set -eu
ascribe=$(realpath "${BUILD:-build}/ascribe")
runs=${RUNS:-3} each=${SECONDS_EACH:-20}
dir=$(mktemp -d)
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$cgroups" ] || { echo "churn: no cgroup v2 filesystem is mounted; mount one" >&2; exit 1; }
group=$cgroups/ascribe-bench-$$
mkdir "$group"
stats_before=$(sysctl -n kernel.bpf_stats_enabled)
loads=() pid=

at_exit() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || :
	for pid in "${loads[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || :; done
	sysctl -qw kernel.bpf_stats_enabled="$stats_before"
	rmdir "$group" 2>/dev/null || :
	rm -rf "$dir"
}
trap at_exit EXIT
sysctl -qw kernel.bpf_stats_enabled=1

. "$(dirname "$0")/churn_load.bash"
. "$(dirname "$0")/figure.bash"
start_load "$dir"

# The time that the BPF programs of a recorder have run for, in microseconds: its own, since others
# may record, too.
bpf_us() { # descriptors come and go while they are read
	cat /proc/"$1"/fdinfo/* 2>/dev/null |
		awk '/^prog_id:/ { id = $2 } /^run_time_ns:/ { ns[id] = $2 }
			END { for (id in ns) sum += ns[id]; print int(sum / 1000) }'
}

usage_us() { sed -n 's/^usage_usec //p' "$group/cpu.stat"; }

# in_group COMMAND ...: in the background, in the cgroup; its id in $pid
in_group() {
	bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@" >"$dir/log" 2>&1 &
	pid=$!
}

ascribe_once() { # name, arguments: appends "percent MiB" to the name's file
	local name=$1 before after bpf peak
	shift
	before=$(usage_us)
	in_group "$ascribe" record -a -o "$dir/store" "$@"
	sleep "$each"
	bpf=$(bpf_us "$pid")
	peak=$(awk '/^VmHWM/ { print $2 / 1024 }' "/proc/$pid/status")
	kill -INT $pid
	wait $pid || { cat "$dir/log" >&2; exit 1; }
	after=$(usage_us)
	rm -rf "$dir/store"
	echo "$((after - before + bpf)) $bpf $peak" >>"$dir/$name.runs"
}

# perf 6.1 aborts at times, on an assertion about the sizes of build ids, while other recorders run
# on this host. Its cost until then is no measurement: run it again.
# Since 5.12; else perf reads all files when it ends
mmap_ids=$(perf record -h 2>&1 | grep -qe --buildid-mmap && echo --buildid-mmap || :)
perf_once() { # name, rate, how stacks are taken, options of perf script
	local before after
	for _ in 1 2 3; do
		before=$(usage_us)
		in_group perf record -q $mmap_ids -a --call-graph "$3" -F "$2" -e cpu-clock \
			-o "$dir/perf.data"
		sleep "$each"
		kill -INT $pid
		wait $pid || :
		in_group perf script "${@:4}" -i "$dir/perf.data"
		if wait $pid; then
			after=$(usage_us)
			echo "$((after - before)) 0 0" >>"$dir/$1.runs"
			return
		fi
	done
	echo "churn: perf script failed three times" >&2
	exit 1
}

sleep 3
for _ in $(seq "$runs"); do
	ascribe_once ascribe-19 -F 19
	perf_once perf-19 19 fp
	perf_once dwarf-19 19 dwarf --no-inline
	ascribe_once ascribe-99 -F 99
	perf_once perf-99 99 fp
	perf_once dwarf-99 99 dwarf --no-inline
	ascribe_once wall-19 -F 19 --wall
	ascribe_once waker-19 -F 19 --wall --waker
done

# Of microseconds in so many seconds, the percent of a CPU.
told() { # name, figure, who, column, by
	# shellcheck disable=SC2046 # a word for each run
	figure "churn/$2" "$3" $(awk -v c="$4" -v by="$5" '{ print $c / by }' "$dir/$1.runs")
}
for name in hz19:ascribe-19 hz99:ascribe-99 wall:wall-19 waker:waker-19; do
	told "${name#*:}" "${name%:*}" ascribe 1 "$((each * 10000))"
	told "${name#*:}" "${name%:*}-bpf" ascribe 2 "$((each * 10000))"
	told "${name#*:}" "${name%:*}-memory" ascribe 3 1
done
told dwarf-19 hz19 "perf dwarf" 1 "$((each * 10000))"
told dwarf-99 hz99 "perf dwarf" 1 "$((each * 10000))"
told perf-19 hz19 "perf -g" 1 "$((each * 10000))"
told perf-99 hz99 "perf -g" 1 "$((each * 10000))"
