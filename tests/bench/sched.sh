#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What watching the scheduler costs, beside an unprofiled run: `make bench-sched`, as root. Runs are interleaved; the figures are
# medians. CPU time of the load alone counts, so that others on the machine add noise but no cost.
set -u
build=$(realpath "$1")
runs=${RUNS:-7}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export TZ=UTC

field() { sed "s/.*\"$1\":\([0-9.]*\).*/\1/"; }
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

judge() { # what, figure, promised at most, unit
	awk -v w="$1" -v x="$2" -v p="$3" -v u="$4" 'BEGIN { printf "%-58s %8.2f %-3s  promised %g%s%s\n", w, x, u, p, u, x <= p ? "" : "  MISSED" }'
}

echo "== context switches: 2 threads on each CPU wake each other through pipes, $runs runs"
for i in $(seq "$runs"); do
	"$build/bench/bench_switch" 1 >plain.json
	options= && profiled "$build/bench/bench_switch" 1 >samples.json
	options=--wall && profiled "$build/bench/bench_switch" 1 >wall.json
	options="--wall --waker" && profiled "$build/bench/bench_switch" 1 >waker.json
	for k in plain samples wall waker; do field ns <$k.json >>$k.ns; done
	paste plain.json | awk -F'[:,}]' '{ printf "%.0f\n", $4 / $6 }' >>rate
	echo "$(field ns <samples.json) $(field ns <plain.json)" | awk '{ print $1 - $2 }' >>samples.more
	echo "$(field ns <wall.json) $(field ns <plain.json)" | awk '{ print $1 - $2 }' >>wall.more
done
echo "unprofiled $(median plain.ns) ns of CPU a switch, $(median rate) switches a second; sampled at 99 Hz $(median samples.ns); with --wall $(median wall.ns), with --wall --waker $(median waker.ns)"
judge "a switch costs more, --wall" "$(median wall.more)" 250 ns
judge "(the same of sampling alone)" "$(median samples.more)" 250 ns

pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -n "$pg" ] && id postgres >/dev/null 2>&1; then
	as() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
	mkdir data && chown postgres data && chmod 755 "$dir"
	as "$pg/initdb" -D data -A trust -U postgres -N >/dev/null 2>&1
	as "$pg/pg_ctl" -D data -w -l data/log -o "-k $dir/data -c listen_addresses= -c fsync=off" start >/dev/null 2>&1
	stop() { as "$pg/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1; cd /; rm -rf "$dir"; }
	trap stop EXIT
	bench() { as pgbench -h "$dir/data" -U postgres "$@" postgres; }
	bench -i -s 5 -q >/dev/null 2>&1
	# CPU seconds of the whole cluster (server and client) for each transaction.
	cpu() { awk '{ s += $14 + $15 + $16 + $17 } END { print s }' $(ls -d /proc/$(head -1 data/postmaster.pid)/stat); }
	transactions() { # pgbench's options...
		local a b t
		a=$(cpu)
		t=$(bench "$@" -c 4 -j 2 -T 3 2>/dev/null | sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p')
		sleep 0.5 # the sessions are gone, their time is counted
		b=$(cpu)
		echo "$a $b $t" | awk '{ print ($2 - $1) / 100 / $3 * 1e6 }'
	}
	for kind in -S "-b tpcb-like"; do
		echo "== pgbench $kind, 4 clients: CPU of the server for each transaction, us, $runs runs"
		rm -f pg.*
		for i in $(seq "$runs"); do
			transactions $kind >p
			options=--wall && profiled transactions $kind >w
			cat p >>pg.plain
			paste w p | awk '{ print 100 * ($1 / $2 - 1) }' >>pg.more
		done
		echo "unprofiled $(median pg.plain) us"
		judge "pgbench costs more, --wall" "$(median pg.more)" 2 %
	done
else
	echo "no postgres here"
fi

echo "== sums, of a thread on one CPU for 10 s"
"$build/ascribe" record -q --wall -F 99 -o sums -- "$build/tests/record/waits" shares 10 0 >truth.json
for m in off runq; do "$build/ascribe" report sums --metric $m --by tenant --where '{tenant="a"}' --json 2>/dev/null >$m.json; done
python3 - <<'END'
import json
t = json.load(open('truth.json'))['worker']
off, runq = (json.load(open(f'{m}.json'))['seconds'] for m in ('off', 'runq'))
print(f"running {t['run']:.4f} + queue {runq:.4f} + blocked {off:.4f} = {t['run'] + runq + off:.4f} s, wall {t['wall']:.4f} s: "
      f"{100 * abs((t['run'] + runq + off) / t['wall'] - 1):.3f}%, promised 0.5%")
END
"$build/ascribe" blame sums --by comm --json 2>/dev/null >blame.json
"$build/ascribe" report sums --metric runq --json 2>/dev/null >all.json
python3 -c "
import json
b, r = json.load(open('blame.json')), json.load(open('all.json'))
print(f\"occupants' time during waits {b['seconds']:.6f} s, waits {r['seconds']:.6f} s\")"
