#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Label paths into unmodified servers of the distribution, against what the servers themselves say.
# Each is left out when it is not installed, or when there is no recipe for its version. Which ones
# were met stands in the output, what is left out also in the last line. And rules without reads of
# memory.
. "$(dirname "$0")/lib.bash"
chmod 755 "$dir"
tested=0
left_out=

# Name, the versions that have a recipe (a pattern), programs of it.
met() {
	local name=$1 pattern=$2 version program found=
	shift 2
	for program; do
		version=$("$program" --version 2>/dev/null |
			grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -1)
		[ -n "$version" ] || continue
		found=1
		# shellcheck disable=SC2053 # it is a pattern
		if [[ $version = $pattern ]]; then
			echo "--    $name $version: has a recipe"
		else
			echo "--    $name $version: no recipe, left out (there is one for $pattern)"
			left_out="$left_out${left_out:+, }$name $version"
		fi
	done
	[ -n "$found" ] || echo "--    no $name here"
}
met PostgreSQL '15.*' /usr/lib/postgresql/*/bin/postgres
met MariaDB '*' mariadbd
met Redis '7.0.*' redis-server
met CPython '3.11.*' /usr/bin/python3
# shellcheck disable=SC2034 # finish prints it
shorter=${left_out:+, left out for want of a recipe: $left_out}

# Records everything into $1 in the background, once this says that it does. $recorder: its id.
everything() {
	background "$ascribe" record -a -F 1999 -o "$1" 2>"$1.err"
	recorder=$pid
	for _ in $(seq 300); do grep -q 'ascribe: recording' "$1.err" && return; sleep 0.1; done
	bad "$1: $(tail -1 "$1.err")"
}

# ---- PostgreSQL 15: three kinds of queries of known order of cost; the query ids are those of
# pg_stat_statements ----
pg=/usr/lib/postgresql/15/bin
if [ -x $pg/postgres ] && [ -x $pg/pgbench ] &&
	[ -e /usr/share/postgresql/15/extension/pg_stat_statements.control ] &&
	id postgres >/dev/null 2>&1; then
	tested=$((tested + 1))
	mkdir -m 755 pg
	chown postgres pg
	su postgres -c "$pg/initdb -D '$dir/pg/data' -A trust --no-sync" >initdb.out 2>&1 ||
		bad "initdb: $(tail -1 initdb.out)"
	setpriv --reuid postgres --regid postgres --clear-groups $pg/postgres -D "$dir/pg/data" \
		-k "$dir/pg" -p 5599 \
		-c listen_addresses= -c shared_preload_libraries=pg_stat_statements \
			-c compute_query_id=on -c fsync=off \
		-c max_parallel_workers_per_gather=0 >pg.log 2>&1 &
	server=$!
	started+=("$server")
	sql() { psql -h "$dir/pg" -p 5599 -U postgres -qAtX "$@"; }
	for _ in $(seq 600); do sql -c 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
	sql -c 'create extension pg_stat_statements' -c 'create database shop' >/dev/null
	sql -d shop -c "create table t as select i, md5(i::text) m from generate_series(1,20000) i" -c 'analyze t'
	echo "select sum(hashtext(m || i::text)::bigint), count(distinct m) from t;" >heavy.sql
	echo "select count(*) from t where m like '%abc%';" >middle.sql
	echo "select count(*) from t where i < 3000;" >light.sql
	sql -c 'select pg_stat_statements_reset()' >/dev/null
	everything pg.data
	# The files of a busy host are parsed one after the other, and labels come after that
	sleep 1
	PGAPPNAME=shop-bench $pg/pgbench -h "$dir/pg" -p 5599 -U postgres -n -T 3 -c 2 \
		-f heavy.sql -f middle.sql -f light.sql \
		shop >pgbench.out 2>&1 || bad "pgbench: $(tail -1 pgbench.out)"
	kill -INT "$recorder"
	wait "$recorder"
	sql -c "select json_object_agg(queryid::text, json_build_object('ms', total_exec_time, 'query', query)) from
		pg_stat_statements s join pg_database d on d.oid = dbid and datname = 'shop' where query like '%from t%'" >truth.json
	report pg.data --by query_id --where '{exe=~".*/postgres",application="shop-bench",query_id!=""}' >ids.json
	report pg.data --by database,user --where '{application="shop-bench"}' >who.json
	"$ascribe" stat pg.data | grep -E '^(fired|stored)|unlabelled|path_|new_process' >&2
	kill -INT "$server"
	wait "$server" 2>/dev/null
	check "PostgreSQL: CPU by query id joins pg_stat_statements, in its order of cost" r=ids.json t=truth.json -- \
		'(lambda mine, theirs: len(theirs) == 3 and mine == theirs)(
		[k for k, n in sorted(samples(r).items(), key=lambda x: -x[1]) if k in t],
		sorted(t, key=lambda k: -t[k]["ms"])) and sum(n for k, n in samples(r).items() if k in t) > 0.8 * r["samples"]' \
		'[(t[k]["query"][:40], round(t[k]["ms"]), n) for k, n in samples(r).items() if k in t]'
	check "PostgreSQL: database and user" r=who.json -- \
		'max(samples(r).items(), key=lambda x: x[1])[0] == ("shop", "postgres")' \
		'samples(r)'
fi

# ---- MariaDB: the connection that each statement ran on ----
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null &&
	id mysql >/dev/null 2>&1; then
	tested=$((tested + 1))
	mkdir -m 755 my
	chown mysql my
	mariadb-install-db --user=mysql --datadir="$dir/my/data" \
		--auth-root-authentication-method=normal --skip-test-db \
		>install.out 2>&1 || bad "mariadb-install-db: $(tail -1 install.out)"
	background mariadbd --no-defaults --user=mysql --datadir="$dir/my/data" \
		--socket="$dir/my/s" --skip-networking \
		--pid-file="$dir/my/pid" >my.log 2>&1
	server=$pid
	my() { mariadb --no-defaults -S "$dir/my/s" -N "$@"; }
	for _ in $(seq 600); do my -e 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
	my -e "create database d; use d; create table t as select seq i, md5(seq) m from seq_1_to_50000;
		create user one@localhost; create user two@localhost; grant all on *.* to one@localhost, two@localhost"
	everything my.data
	# The files of a busy host are parsed one after the other, and labels come after that
	sleep 1
	statement() { for _ in $(seq "$1"); do echo "$2;"; done; echo "select connection_id();"; }
	statement 30 "select count(*) from t where m like '%ab%'" | my -u one d | tail -1 >one.id &
	clients=($!)
	statement 30 "select count(distinct m) from t" | my -u two d | tail -1 >two.id &
	clients+=($!)
	wait "${clients[@]}"
	kill -INT "$recorder"
	wait "$recorder"
	kill "$server"
	wait "$server" 2>/dev/null
	report my.data --by user,connection_id --where '{comm="mariadbd",user=~"one|two"}' >who.json
	report my.data --by query_id --where '{comm="mariadbd",user="one"}' >ids.json
	check "MariaDB: users and their connections" r=who.json -- \
		"(lambda v: v == {('one', '$(cat one.id)'), ('two', '$(cat two.id)')})({(u, str(c)) for (u, c), n in samples(r).items()
		if n > 5})" 'samples(r)'
	check "MariaDB: one query id for each statement" r=ids.json \
		-- '10 <= len([k for k in samples(r) if k]) <= 40' 'len(samples(r))'
fi

# ---- Redis: the command that the main thread executes ----
if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null &&
	redis-server --version | grep -q 'v=7\.0'; then
	tested=$((tested + 1))
	background redis-server --port 0 --unixsocket "$dir/redis.sock" --dir "$dir" --save '' \
		>redis.log 2>&1
	server=$pid
	for _ in $(seq 600); do
		redis-cli -s redis.sock ping >/dev/null 2>&1 && break; sleep 0.1
	done
	everything redis.data
	# The files of a busy host are parsed one after the other, and labels come after that
	sleep 1
	# The cheap ones take 0.1 us each: as many as some tens of samples need, and when the server
	# is known already.
	redis-benchmark -s "$dir/redis.sock" -q -n 20000 -t lrange_300 -P 8 >/dev/null 2>&1
	redis-benchmark -s "$dir/redis.sock" -q -n 100000 -t lpush,set -P 8 >/dev/null 2>&1
	redis-cli -s redis.sock info commandstats | tr -d '\r' |
		sed -n 's/^cmdstat_\([a-z]*\):.*usec=\([0-9]*\),.*/\1 \2/p' >commands.txt
	kill -INT "$recorder"
	wait "$recorder"
	kill "$server"
	wait "$server" 2>/dev/null
	report redis.data --by command --where '{comm="redis-server",command!=""}' >commands.json
	check "Redis: commands by CPU, as INFO commandstats has them" r=commands.json -- \
		"(lambda t: max(t, key=t.get) == max(samples(r), key=samples(r).get) == 'lrange' and
		{'set', 'lpush'} <= set(samples(r)) <= set(t) | {'info', 'ping', 'config|get'})({k: int(v) for k, v in
		(l.split() for l in open('commands.txt'))})" 'samples(r)'
fi

# ---- CPython: two threads, each in a function of its own ----
if [ -x /usr/bin/python3.11 ]; then
	tested=$((tested + 1))
	cat >two.py <<-'END'
		import threading, time
		def alpha(n):
		    return sum(i * i for i in range(n)) if n < 0 else loop(n)
		def loop(n):
		    t = 0
		    for i in range(n): t += i
		    return t
		class Other:
		    def beta(self, n):
		        t = 0
		        for i in range(n): t ^= i * 3
		        return t
		end = time.time() + 1.5
		def one():
		    while time.time() < end: alpha(20000)
		def two():
		    while time.time() < end: Other().beta(20000)
		a, b = threading.Thread(target=one), threading.Thread(target=two)
		a.start(); b.start(); a.join(); b.join()
	END
	record -F 999 -o py.data -- /usr/bin/python3.11 two.py
	report py.data --by python_function >functions.json
	check "CPython: the running functions" r=functions.json -- \
		'samples(r).get("loop", 0) > 0.2 * r["samples"] and samples(r).get("Other.beta", 0) > 0.2 * r["samples"]' 'samples(r)'
fi

# ---- members by name, from the DWARF of the file; a thread-local start ----
cat >server.c <<'END'
#include <time.h>
struct session { char pad[37]; struct { int x; } in; long id; const char *user; };
struct server { char pad[11]; struct session *current; };
__thread struct server *server_now;
int main(void)
{
	struct session session = { .id = -4711, .user = "alice" };
	struct server server = { .current = &session };
	server_now = &server;
	char touched = *(const volatile char *)session.user; /* what no page is there for cannot be read in a sample */
	(void)touched;
	for (time_t end = time(0) + 2; time(0) < end;)
		for (volatile int i = 0; i < 100000; i++)
			;
}
END
cat >server.recipe <<'END'
recipe server
file server-test
let session = symbol server_now deref field server.current deref
label session = session field session.id i64
label user = session field session.user deref cstr 20
END
ok "a server with DWARF builds" ${CC:-cc} -O1 -g -o server-test server.c
record -F 999 --recipes server.recipe -o server.data -- ./server-test
report server.data --by session,user >server.json
check "members by their names" r=server.json -- \
	'{(str(k[0]), k[1]) for k, n in samples(r).items() if n > 0.3 * r["samples"]} == {("-4711", "alice")}' 'samples(r)'

# ---- rules, and errors ----
cat >rules.recipe <<'END'
recipe rules
env ASCRIBE_TEST_TEAM as team
title "job-(?<job>[0-9]+)"
END
ASCRIBE_TEST_TEAM=storage record -F 999 --recipes rules.recipe -o rules.data -- \
	bash -c 'exec -a job-42 "$0" nest 0.05' "$loads/labelled"
report rules.data --by team,job,tenant >rules.json
check "labels from the environment and the title, beside the program's own" r=rules.json -- \
	'{k[:2] for k, n in samples(r).items() if k[2] and n > 60} == {("storage", "42")}' 'samples(r)'
printf 'recipe x\nfile y\nlabel z = symbol s u9\n' >bad.recipe
exits 2 'bad.recipe:3: z: .u9. is neither a step nor a let' \
	"$ascribe" record -d 100ms --recipes bad.recipe -o bad.data
printf 'recipe x\nfile labelled\nlabel z = symbol no_such_symbol u8\n' >missing.recipe
"$ascribe" record --recipes missing.recipe -o missing.data -- "$loads/labelled" nest 0.02 \
	>/dev/null 2>missing.err
ok "a symbol that is not there is named" \
	grep -q 'missing.recipe:3: z: in .*labelled: there is no symbol .no_such_symbol.' missing.err
[ $tested -gt 0 ] || [ -n "$left_out" ] ||
	bad "none of the servers is installed: see tools/deps test"
finish
