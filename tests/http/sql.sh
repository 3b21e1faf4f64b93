#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The SQL behind query ids: from a real PostgreSQL, and from servers that never answer.
. "$(dirname "$0")/lib.bash"
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -n "$pg" ] && id postgres >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || skip "no postgres, or not root"
mkdir data run && chown postgres data run && chmod 755 "$dir" run
as() { timeout 60 setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
as "$pg/initdb" -D data -A trust -U postgres -N >/dev/null 2>&1
as "$pg/pg_ctl" -D data -w -t 50 -l data/log -o "-k $dir/run -c listen_addresses= -c fsync=off -c compute_query_id=on -c shared_preload_libraries=pg_stat_statements" \
	start >/dev/null 2>&1 || skip "postgres does not start with pg_stat_statements"
at_end='stop_postgres'
stop_postgres() { timeout 10 setpriv --reuid postgres --regid postgres \
	--clear-groups -- "$pg/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1; }
sql() { as "$pg/psql" -w -h "$dir/run" -U postgres -qAt -c "$1"; }
sql 'create extension pg_stat_statements' || skip "no pg_stat_statements here"
sql 'select  /* <b>%s */ count(*)
	from pg_class where relname = '"'x'" >/dev/null
sql "select pg_sleep(0.001)" >/dev/null
id=$(sql "select queryid from pg_stat_statements where query like '%from pg_class where relname%' limit 1")
other=$(sql "select queryid from pg_stat_statements where query like '%pg_sleep%' limit 1")
ok "postgres has ids" test -n "$id" -a -n "$other"

# A store with these ids, with one that the server does not know, and with one that is no number.
for q in "$id" "$other" 42 none; do
	echo "main;work 10" >one.folded
	"$ascribe" import folded one.folded --label "query_id=$q" -o store >/dev/null \
		2>import.err || {
		cat import.err
		bad "import"
	}
done
conninfo="host=$dir/run user=postgres dbname=postgres"
"$ascribe" report store --by query_id --postgres "$conninfo" >out 2>err
ok "report has the statements below the table" grep -qE "^ +$id  select /\* <b>%s \*/ count\(\*\) from pg_class where relname = \\\$1$" out
ok "of those that it knows" sh -c "grep -q 'pg_sleep' out && ! grep -qE '^ +42  ' out"
"$ascribe" report store --by query_id --postgres "host=$dir/nowhere user=postgres" >out 2>err
ok "a server that is not there is said, and the table is there" \
	sh -c "grep -q 'postgres: .*nowhere' err && grep -q -- '$id' out"

# A libpq that was taken over reads what its server needs, and root's other files it does not.
mkdir lib home
${CC:-cc} -shared -fPIC -o lib/libpq.so.5 "$here/hostile_libpq.c" || bad "no library"
touch home/.pgpass "$dir/secret"
reaches() { # conninfo
	HOME=$dir/home HOSTILE_READS="/etc/shadow $dir/secret $dir/home/.pgpass /etc/hosts " \
		LD_LIBRARY_PATH=$dir/lib \
		"$ascribe" report store --by query_id --postgres "$1" 2>&1 >out |
		sed -n 's/.*reached: *//p'
}
ok "it reads its password and the hosts" \
	test "$(reaches host=127.0.0.1)" = "$dir/home/.pgpass /etc/hosts"
ok "it has Unix sockets where the server has one" \
	test "$(reaches host=/run)" = "$dir/home/.pgpass /etc/hosts unix"

# Asked by the page: the first answer waits for nobody.
texts() { # until nothing is pending
	for _ in $(seq 40); do
		gets 200 '' "$url/api/v1/statements?ids=$1" >/dev/null
		jq -e '.pending' body >/dev/null || return
		sleep 0.1
	done
}
serve log "$ascribe" serve store -l 127.0.0.1:0 --anonymous --postgres "$conninfo" || finish
gets 200 '"pending":true' "$url/api/v1/statements?ids=$id"
texts "$id,$other,42"
ok "statements by their ids" jq -e --arg a "$id" --arg b "$other" \
	'.configured and .error == null and
	(.statements | keys | length == 2) and
	(.statements[$a] | test("count")) and (.statements[$b] | test("pg_sleep"))' body
ok "from memory the next time" jq -e '.pending == false' <(curl -s "$url/api/v1/statements?ids=$id")
refused 400 'integers' "$url/api/v1/statements?ids=1,x"
refused 400 'at most 64' "$url/api/v1/statements?ids=$(seq -s, 65)"
refused 400 'ids: ' "$url/api/v1/statements?ids=99999999999999999999"

# A server that takes the connection and says nothing: the page is not kept waiting, and is told
# after a second.
cat >silent.py <<'PY'
import socket, time
s = socket.socket(socket.AF_UNIX)
s.bind('.s.PGSQL.5432')
s.listen()
kept = []
while True:
    kept.append(s.accept())
PY
background python3 silent.py
within 30 [ -S .s.PGSQL.5432 ]
serve log2 "$ascribe" serve store -l 127.0.0.1:0 --anonymous --postgres "host=$dir user=postgres" ||
	finish
gets 200 '"pending":true' "$url/api/v1/statements?ids=$id"
gets 200 '' "$url/api/v1/table?by=query_id"
texts "$id"
ok "no answer within a second" jq -e '.error == "no answer within 1 s" and .statements == {}' body
printf 'store: %s\npostgres: "%s"\n' "$dir/none" "$conninfo" >daemon.yaml
ok "the daemon's file may name it" "$ascribe" daemon --config daemon.yaml --check-config
serve log3 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
gets 200 '"configured":false' "$url/api/v1/statements?ids=$id"
server=$pid
kill "$server"
finish
