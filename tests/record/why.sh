#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ascribe why` on two recordings of one store: a thread that spins, then the same beside another on
# its CPU; and postgres, whose sessions wait for a lock.
. "$(dirname "$0")/lib.bash"
load=$loads/waits
cpu=$(($(nproc) - 1))

# ---- alone, then in each other's way ----
record --wall -F 499 -o two -- "$load" shares 2 $cpu
# On a busy host, the second recording may begin much later than the first ended
first=$("$ascribe" stat two --json | jq .from)
sleep 0.1
from=$(date +%s.%N)
record --wall -F 499 --append -o two -- "$load" pair 2 $cpu
"$ascribe" why two --where '{comm="waits"}' --from "$from" --before "$first" >page 2>err
ok "a page with an earlier range" sh -c "grep -q '^before  *20' page && grep -q '^waiting for a CPU .* s .* s .* s' page"
ok "its code differs: it slept before" grep -q 'CODE that differs from before' page
ok "with what it calls, and by itself" sh -c "grep -q 'before .*, with all that it calls' page && grep -q 'before .*, by its own samples' page"
for m in cpu off runq wall; do
	"$ascribe" export two -f folded --metric $m 2>unit >folded
	"$ascribe" report two --metric $m --json >metric.json 2>/dev/null
	ok "export --metric $m: nanoseconds, as many as report says" \
		sh -c "grep -q 'nanoseconds of $m' unit &&
		awk '{ n += \$NF } END { printf \"%.6f\\n\", n / 1e9 }' folded |
		python3 -c 'import json, sys; assert abs(float(sys.stdin.read()) - json.load(open(\"metric.json\"))[\"seconds\"]) < 1e-3'"
done
for m in off runq wall; do
	ok "report --step --metric $m: as long as without steps" \
		sh -c "'$ascribe' report two --metric $m --by comm --step 10s --json | jq -e --argjson want \"\$('$ascribe' report two --metric $m --json | jq .seconds)\" '.metric == \"$m\" and (.seconds - \$want | fabs) < 1e-3'"
done
exits 2 'unit samples is for events' "$ascribe" export two -f folded --metric off --unit samples
"$ascribe" why two --where '{tenant="l"}' --from "$from" >page 2>err
check_part() { # name, least share of this side
	awk -v p="$1" -v least="$2" 'index($0, p) == 1 && !seen { seen = 1; v = substr($0, length(p) + 1); split(v, f, " "); sub("%", "", f[3]);
		print v; exit !(f[3] + 0 >= least) } END { if (!seen) exit 1 }' page
}
ok "it waits for a CPU, more than a third of its time" check_part 'waiting for a CPU' 33
ok "with who was running" grep -q 'WHO WAS RUNNING' page
ok "its quantiles" grep -Eq '^waiting for a CPU +[0-9.]+(us|ms|s)/' page
"$ascribe" why two --where '{tenant="l"}' --from "$from" --before "$first" --json >page.json 2>err
"$ascribe" report two --metric runq --where '{tenant="l"}' --from "$from" --json >runq.json 2>err
check "the page as JSON: its parts add up, each is what report says" p=page.json r=runq.json -- \
	'abs(sum(p["this"][k]["share"] for k in ("cpu", "runq", "off")) - 1) < 1e-6 and p["before"]["cpu"]["samples"] >= 0 and
	abs(p["this"]["runq"]["seconds"] - r["seconds"]) < 1e-6 and p["this"]["runq"]["waits"] > 0 and
	abs(sum(x["share"]["this"] for x in p["occupants"]) - 1) < 1e-6 and "differs_from_before" in p' 'p["this"]'
check "for the other thread of its process, besides what else ran" p=page.json -- \
	'sum(x["share"]["this"] for x in p["occupants"] if "waits" in json.dumps(x)) > 0' 'p["occupants"]'
exits 2 'where SELECTOR' "$ascribe" why two
exits 2 'where: ' "$ascribe" why two --where '{tenant='
exits 2 'no sample has tenant="nobody"' "$ascribe" why two --where '{tenant="nobody"}'
exits 0 'not kept by tgid' "$ascribe" why two --where '{tid!="1"}'
record -F 99 -d 300ms -o plain
exits 0 'no waits: record with --wall' "$ascribe" why plain --where '{comm!="nobody"}'

# ---- postgres: a session holds a row, another wants it ----
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -n "$pg" ] && id postgres >/dev/null 2>&1; then
	mkdir data && chown postgres data && chmod 755 "$dir"
	as() { timeout 30 setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
	as "$pg/initdb" -D data -A trust -U postgres -N >/dev/null 2>&1
	ln -s "$pg/postgres" pgwhy # its own name: the host may have another server
	as "$pg/pg_ctl" -D data -p "$dir/pgwhy" -w -t 20 -l data/log \
		-o "-k $dir/data -c listen_addresses= -c fsync=off -c compute_query_id=on" start >/dev/null 2>&1
	at_end='stop_postgres'
	stop_postgres() { timeout 10 setpriv --reuid postgres --regid postgres \
		--clear-groups -- "$pg/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1; }
	sql() { as "$pg/psql" -w -h "$dir/data" -U postgres -qAt -c "$1"; }
	sql 'create table t (id int primary key, v int); insert into t values (1, 1)'
	background "$ascribe" record --wall -a -F 99 -o pg 2>pg.err
	recorder=$pid
	recording pg.err
	background sql 'begin; update t set v = 2; select pg_sleep(5); commit' >/dev/null
	holder=$pid
	for _ in $(seq 100); do # until it holds the row
		[ "$(sql "select count(*) from pg_stat_activity where wait_event = 'PgSleep'")" != \
			1 ] || break
		sleep 0.05
	done
	# Its session has been there for a moment: what a new process does first goes without
	# labels. It says itself how long it was blocked, which is less where the machine is busy.
	as "$pg/psql" -w -h "$dir/data" -U postgres -qAt -c 'select pg_sleep(1.5)' \
		-c 'select extract(epoch from clock_timestamp())' -c 'update t set v = 3 where id = 1' \
		-c 'select extract(epoch from clock_timestamp())' >clock
	wait "$holder"
	kill -INT "$recorder"
	wait "$recorder"
	blocked=$(awk 'NF && $1 > 1e9 { if (begin) print $1 - begin; begin = $1 }' clock)
	if ! python3 -c "exit(not ${blocked:-0} > 1.5)"; then
		echo "--    the machine is too busy: the session was blocked for ${blocked:-0} s"
		finish
	fi
	# All time that the recorder can have seen, less what passed in the queue of a CPU. On a
	# busy host not each wait has its stack, which tells what it was for.
	near="0.8 * $blocked < x < 1.02 * $blocked + 0.02"
	"$ascribe" export pg --event off-cpu --where '{comm="pgwhy"}' --format folded >folded \
		2>/dev/null
	"$ascribe" report pg --metric off --where '{comm="pgwhy"}' -n 0 --json >off.json \
		2>/dev/null
	"$ascribe" report pg --metric off --where '{comm="pgwhy"}' --by wait --json >wait.json \
		2>/dev/null
	check "postgres: that is a lock, and sessions that wait for their clients are idle" r=wait.json -- \
		"0 < rows(r)['lock']['seconds'] < 1.02 * $blocked + 0.02 and r['idle_waits'] > 10e9 and
		rows(r)['lock']['seconds'] + sum(rows(r)[k]['seconds'] for k in ('other', 'unknown') if k in rows(r)) > 0.8 * $blocked" \
		"$blocked, {k: round(x['seconds'], 3) for k, x in rows(r).items()}, r['idle_waits']"
	most() { echo "max([x['seconds'] for x in r['rows'] if x['function'] in ($1)] + [0])"; }
	waiting=$(most "'WaitOnLock', 'ProcSleep', 'LockAcquireExtended', 'heap_update'")
	in_code="$waiting < 1.02 * $blocked + 0.02 and $waiting + $(most "'[no stack]',") > 0.8 * $blocked"
	check "postgres: blocked for the row, as long as it was, under the function that waits for locks" r=off.json -- \
		"$in_code" "$blocked, $waiting"
	[[ $pg = */15/* ]] || finish # the recipe that reads it is for that version
	# The server computes the same id for the same statement: the recipe reads it from its
	# memory where the session blocks.
	"$ascribe" report pg --metric off --by query_id --where '{comm="pgwhy"}' -n 0 \
		--json >ids.json 2>/dev/null
	id=$(sql 'explain (verbose, costs off) update t set v = 3 where id = 1' | sed -n 's/.*Query Identifier: *//p')
	"$ascribe" report pg --metric off --where "{query_id=\"$id\"}" -n 0 --json >stack.json \
		2>/dev/null
	check "its blocking stack alone has that query id" r=stack.json \
		-- "$in_code" "$blocked, $waiting"
	check "under its query id, as EXPLAIN prints it" r=ids.json \
		-- "(lambda x: $near)(rows(r)['$id']['seconds'])" \
		"'$id', {k: round(x['seconds'], 3) for k, x in rows(r).items()}"
else
	echo "--    no postgres here"
fi
finish
