#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What watching the scheduler costs: `make bench-sched`, as root. Medians, of neighbours in one run
# (tests/bench/toggle.h) or of interleaved runs. CPU time of the load alone counts, so that others
# on the machine add noise but no cost.
set -u
. "$(dirname "$0")/figure.bash"
build=$(realpath "$1")
runs=${RUNS:-7}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export TZ=UTC

field() { sed "s/.*\"$1\":\([-0-9.]*\).*/\1/"; }
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.4g", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# command... while recording with the options in $options; its output
profiled() {
	"$build/ascribe" record -q -a -d 60s -o store $options 2>/dev/null &
	local recorder=$!
	sleep 1
	"$@"
	kill -INT $recorder
	wait $recorder
}

# What a load's CPU time grows by, nanoseconds and percent: bench_switch or bench_pg beside a
# program that does nothing, and beside a recorder.
toggled() { # command...
	"$@" nothing >nothing.json
	"$build/ascribe" record -q -a -d 3600s --wall -o store 2>/dev/null &
	local recorder=$!
	sleep 2
	"$@" $recorder >on.json
	kill -INT $recorder
	wait $recorder
	[ -s nothing.json ] && [ -s on.json ] || return
	field more <nothing.json >n.more
	field percent <nothing.json >n.percent
	echo "a program that does nothing: $(cat n.more) ns, $(cat n.percent)%; ours, more than one that returns at once: $(field more <on.json) ns, $(field percent <on.json)% (standard error $(field error <on.json)%)"
	both() { echo "$(cat "n.$1") $(field "$1" <on.json)" | awk '{ print $1 + $2 }'; }
}

echo "== context switches: 2 threads on each CPU wake each other through pipes; switched on and off every 30 ms"
toggled "$build/bench/bench_switch" $((runs * 3)) && {
	figure switch/wall ascribe "$(both more)"
	figure switch/wall "(a program that does nothing)" "$(cat n.more)"
}

others="bpftrace perf"
for o in $others; do
	command -v $o >/dev/null || { echo "no $o here to compare with"; others=${others/$o/}; }
done
cat >off.bt <<'END'
tracepoint:sched:sched_switch {
	if (args->prev_pid) { @off[args->prev_pid] = nsecs; }
	$t = @off[args->next_pid];
	if ($t) { @us[args->next_comm] = hist((nsecs - $t) / 1000); delete(@off[args->next_pid]); }
}
END
beside() { # command...: the load while that runs
	"$@" >/dev/null 2>&1 &
	local other=$!
	sleep 1.5
	"$build/bench/bench_switch" 1
	kill -TERM $other
	wait $other
}
echo "== the same beside an unprofiled run, and what others cost, $runs runs"
for _ in $(seq "$runs"); do
	"$build/bench/bench_switch" 1 >plain.json
	options= && profiled "$build/bench/bench_switch" 1 >samples.json
	options=--wall && profiled "$build/bench/bench_switch" 1 >wall.json
	options="--wall --waker" && profiled "$build/bench/bench_switch" 1 >waker.json
	options="--latency tenant" && profiled "$build/bench/bench_switch" 1 >latency.json
	export LABELLED=1
	options=--wall && profiled "$build/bench/bench_switch" 1 >labelled.json
	options="--latency tenant" && profiled "$build/bench/bench_switch" 1 >weighed.json
	unset LABELLED
	[[ $others != *bpftrace* ]] || beside bpftrace off.bt >bpftrace.json
	[[ $others != *perf* ]] || {
		beside perf record -q -a -e sched:sched_switch -o perf.data >perf.json
		beside perf sched record -o perf.data >perfsched.json
	}
	paste plain.json | awk -F'[:,}]' '{ printf "%.0f\n", $4 / $6 }' >>rate
	for k in samples wall waker latency labelled weighed bpftrace perf perfsched; do
		[ ! -f $k.json ] || echo "$(field ns <$k.json) $(field ns <plain.json)" |
			awk '{ print $1 - $2 }' >>$k.more
	done
	field ns <plain.json >>plain.ns
	rm -f ./*.json perf.data*
done
echo "unprofiled $(median plain.ns) ns of CPU a switch, $(median rate) switches a second; runs differ by more than what is looked for"
told() { # file, id, who
	# shellcheck disable=SC2046 # a word for each run
	[ ! -f "$1.more" ] || figure "switch/$2" "$3" $(cat "$1.more")
}
told wall wall-run ascribe
told waker waker ascribe
told latency latency-run ascribe
told weighed latency-labels-run ascribe
told bpftrace wall "bpftrace, off-CPU time by command"
told perf wall "perf record -e sched:sched_switch"
told perfsched wall "perf sched record"

pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -n "$pg" ] && id postgres >/dev/null 2>&1; then
	as() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
	mkdir data && chown postgres data && chmod 755 "$dir"
	as "$pg/initdb" -D data -A trust -U postgres -N >/dev/null 2>&1
	as "$pg/pg_ctl" -D data -w -l data/log \
		-o "-k $dir/data -c listen_addresses= -c fsync=off" start >/dev/null 2>&1
	stop() { as "$pg/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null \
		2>&1; cd /; rm -rf "$dir"; }
	trap stop EXIT
	as pgbench -h "$dir/data" -U postgres -i -s 5 -q postgres >/dev/null 2>&1
	for kind in select tpcb; do
		echo "== PostgreSQL, pgbench's $kind, 4 clients: CPU of the server for each transaction; switched on and off every 30 ms"
		toggled "$build/bench/bench_pg" "host=$dir/data user=postgres dbname=postgres" \
			$((runs * 6)) $kind && figure switch/$kind ascribe "$(both percent)"
	done
else
	echo "no postgres here"
fi

echo "== sums, of a thread on one CPU for 10 s"
"$build/ascribe" record -q --wall -F 99 -o sums -- "$build/tests/record/waits" shares 10 0 \
	>truth.json
for m in off runq; do
	"$build/ascribe" report sums --metric $m --by tenant --where '{tenant="a"}' \
		--json 2>/dev/null >$m.json
done
python3 - <<'END'
import json
t = json.load(open('truth.json'))['worker']
off, runq = (json.load(open(f'{m}.json'))['seconds'] for m in ('off', 'runq'))
print(f"running {t['run']:.4f} + queue {runq:.4f} + blocked {off:.4f} = {t['run'] + runq + off:.4f} s, "
      f"wall {t['wall']:.4f} s")
print('figure', 'latency/sum', 'ascribe', 100 * abs((t['run'] + runq + off) / t['wall'] - 1), sep='\t')
END
"$build/ascribe" blame sums --by comm --json 2>/dev/null >blame.json
"$build/ascribe" report sums --metric runq --json 2>/dev/null >all.json
python3 -c "
import json
b, r = json.load(open('blame.json')), json.load(open('all.json'))
print(f\"occupants' time during waits {b['seconds']:.6f} s, waits {r['seconds']:.6f} s\")"
