#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Five incidents beside a daemon, each for 20 to 30 s: `findings` must name each once, with its
# cause, and `why` the code: a hungry tenant, a lock convoy, a slow Python function, a job of cron,
# a slow query.
. "$(dirname "$0")/lib.bash"
python=$(command -v python3) || skip "no python3"
command -v gzip >/dev/null || skip "no gzip"
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -n "$pg" ] && id postgres >/dev/null 2>&1 || pg=
quiet=20 length=25
# Whoever needs a CPU gets most of one, whatever else the host does.
favour() { echo -15 >"/proc/$1/autogroup" && renice -n -15 -p "$1" >/dev/null; } 2>/dev/null
first=(setsid sh -c 'echo -15 >/proc/self/autogroup; exec nice -n -15 "$@"' sh)

cat >slow.py <<'PY'
import signal, time
wrong = False
def toggle(*_):
    global wrong
    wrong = not wrong
signal.signal(signal.SIGUSR1, toggle)
def render_invoice(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total
def handle_request():
    render_invoice(200000 if wrong else 500)
while True:
    handle_request()
    time.sleep(0.001 if wrong else 0.02)
PY
cat >nightly.sh <<'SH'
#!/bin/sh
end=$(($(date +%s) + 20))
while [ "$(date +%s)" -lt $end ]; do gzip -9 -c data.bin >/dev/null; done
SH
chmod +x nightly.sh
head -c 20000000 /dev/urandom | base64 >data.bin
as() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
stop_postgres() { timeout 10 setpriv --reuid postgres --regid postgres --clear-groups -- \
	"$pg/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1; }
if [ -n "$pg" ]; then
	mkdir data && chown postgres data && chmod 755 "$dir"
	as "$pg/initdb" -D data -A trust -U postgres -N >/dev/null 2>&1
	as "$pg/pg_ctl" -D data -w -t 20 -l data/log -o "-k $dir/data \
		-c listen_addresses= -c fsync=off -c compute_query_id=on" start >/dev/null 2>&1
	at_end=stop_postgres
	as "$pg/pgbench" -h "$dir/data" -U postgres -i -s 2 -q postgres >/dev/null 2>&1
fi
slow_query='select sum(sqrt(a.aid) * sqrt(b.aid)) from pgbench_accounts a, pgbench_accounts b'
query() {
	as "$pg/psql" -h "$dir/data" -U postgres -qAt -c 'set max_parallel_workers_per_gather = 0' \
		-c "set statement_timeout = '${length}s'" "$@" postgres
}

background "$ascribe" daemon -s store -F 49 --wall --waker --cpu-max 0 --listen none 2>daemon.err
daemon=$pid
recording daemon.err
background "${first[@]}" "$loads/incidents" tenants
tenants=$pid
background "$loads/incidents" cache
cache=$pid
ln -s "$(realpath "$python")" invoices # others run python3, too
background "${first[@]}" ./invoices slow.py
slow=$pid
if [ -n "$pg" ]; then
	background as "$pg/pgbench" -h "$dir/data" -U postgres -c 2 -R 20 -T 1000 postgres \
		>/dev/null 2>&1
fi
sleep $((2 * quiet))

# name, process: it goes wrong for a while. Beginnings and ends are those of windows, give or take.
declare -A from to
goes_wrong() {
	from[$1]=$(date +%s)
	kill -USR1 "$2"
	sleep $length
	kill -USR1 "$2"
	to[$1]=$(date +%s)
	sleep $quiet
}
goes_wrong tenants "$tenants"
goes_wrong cache "$cache"
goes_wrong python "$slow"
from[job]=$(date +%s)
"${first[@]}" ./nightly.sh
to[job]=$(date +%s)
sleep $quiet
if [ -n "$pg" ]; then
	from[query]=$(date +%s)
	background query -c "$slow_query" >/dev/null 2>&1
	asks=$pid
	sleep 1
	favour "$(query -c "select pid from pg_stat_activity where query ~ '^select sum'")"
	wait "$asks"
	to[query]=$(date +%s)
	sleep $quiet
fi
kill -TERM "$daemon"
wait "$daemon"

# what, incident, condition on a finding f: one of the whole recording is of that time. A busy host
# may have left too little of a CPU to whoever asked for one.
found() {
	check "$1" r=found.json -- "sum($3 and ${from[$2]} - 20 <= f['since'] <= ${to[$2]}
		for f in r['findings'] if f['finding'] not in ('build', 'saturated')) == 1" \
		"[(f['finding'], f.get('key'), f.get('value'), f.get('now')) for f in r['findings']]"
}
# The same who, under whatever label.
is() { echo "any((p['key'], p['value']) == ('$1', '$2') for p in [f] + f.get('places', []))"; }
uses_more="f['finding'] in ('more', 'burst')"
# What else runs on this host has incidents and labels of its own.
"$ascribe" findings store --by service,tenant,database,application,query_id -n 0 --json \
	--where '{service=~"tenants|cache|invoices|gzip|nightly.sh|postgres|psql|pgbench"}' \
	>found.json 2>/dev/null
offered() { # label selector, incident: seconds of CPU in its time
	"$ascribe" report store --where "$1" --from "${from[$2]}" --to "${to[$2]}" --json \
		2>/dev/null | jq '.seconds // 0'
}
enough() { # label selector, incident: did it get a third of a CPU, of a busy host?
	local s
	s=$(offered "$1" "$2")
	jq -en "$s > (${to[$2]} - ${from[$2]}) / 3" >/dev/null && return
	echo "--    the machine is too busy: $1 used $s s"
	return 1
}

if enough '{tenant="eve"}' tenants; then
	found "the hungry tenant, by its label" tenants \
		"(f['key'], f['value']) == ('tenant', 'eve') and $(is service tenants)"
	found "none besides of its service" tenants "$(is service tenants) and $uses_more"
fi
found "the convoy: locks, in the function that waits, held by the one that keeps them" \
	cache \
	"f['finding'] == 'blocked' and f['value'] == 'cache' and f['wait'] == 'lock' and
	f['now'] > 2 and f['before'] < 1 and f['holder'] == 'cache_refresh' and
	f['grew_most']['function'] == 'cache_get'"
if enough '{comm="invoices"}' python; then
	found "the slow Python function" python \
		"$(is service invoices) and f['grew_most']['function'] == 'render_invoice'"
fi
if enough '{comm="gzip"}' job; then
	found "the job, and who started it" job \
		"$(is service gzip) and f['parent'] == 'nightly.sh' and f['seconds'] <= 40"
fi
if [ -n "$pg" ]; then
	id=$(query -c "explain (verbose, costs off) $slow_query" |
		sed -n 's/.*Query Identifier: *//p')
	if [[ $pg = */15/* ]] && enough "{query_id=\"$id\"}" query; then
		found "one finding for the slow query, by its id" query \
			"(f['key'], f['value']) == ('query_id', '$id') and $(is service postgres)"
		found "none besides of its service" query "$(is service postgres) and $uses_more"
	fi
fi

why() {
	"$ascribe" why store --where '{service="cache"}' --from "${from[cache]}" \
		--to "${to[cache]}" "$@" 2>/dev/null
}
why --json >why.json
check "why: where it waits, and who held the lock" w=why.json -- \
	"[b['function'] for b in w['blocked'] if b['wait'] == 'lock'][0] == 'cache_get' and
	[x['function'] for x in w['wakers'] if x['holder']] == ['cache_refresh']" \
	"w['blocked'][:3], w['wakers'][:4]"
why >page
ok "why says so" grep -q 'The locks were held by cache, in cache_refresh' page
finish
