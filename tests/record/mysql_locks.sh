#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits for locks of rows and tables in MariaDB, against the server's own account. The program is
# stripped: of its functions only those that it exports have names. As root.
. "$(dirname "$0")/lib.bash"
command -v mariadbd >/dev/null || skip "no MariaDB here"
chmod 755 "$dir"
mkdir my
chown mysql: my
mariadb-install-db --user=mysql --datadir="$dir/my/data" --auth-root-authentication-method=normal \
	>install.out 2>&1 || bad "mariadb-install-db: $(tail -1 install.out)"
background mariadbd --no-defaults --user=mysql --datadir="$dir/my/data" --socket="$dir/my/s" \
	--skip-networking --pid-file="$dir/my/pid" >mariadb.log 2>&1
server=$pid
my() { mariadb --no-defaults -S "$dir/my/s" -N "$@"; }
within 60 my -e 'select 1' 2>/dev/null
my -e "create database t; use t; create table a (id int primary key, v int) engine = innodb;
	insert into a values (1, 1); create table m (id int primary key) engine = myisam"
row_lock_ms() { my -e "show global status like 'innodb_row_lock_time'" | cut -f2; }
before=$(row_lock_ms)
background "$ascribe" record -o locks --wall --waker -F 199 -d 120s -p "$server" 2>recorder.err
recorder=$pid
recording recorder.err
sleep 1
clients=()
for _ in $(seq 80); do
	echo "begin; update a set v = v + 1 where id = 1; do sleep(0.02); commit;" >&3
	echo "lock tables m write; do sleep(0.02); unlock tables;" >&4
done 3>rows.sql 4>tables.sql
for table in rows rows tables tables; do
	background my t -e "source $table.sql" >client.out 2>>clients.err
	clients+=("$pid")
done
wait "${clients[@]}"
ok "the clients did all" test ! -s clients.err
own=$(awk "BEGIN { print ($(row_lock_ms) - $before) / 1000 }")
kill -INT "$recorder"
wait "$recorder"
report locks -e off-cpu --by wait_in,wait -n 0 >waits.json
rows="sum(x['value'] for x in r['rows'] if x['key']['wait'] == 'lock' and
	x['key']['wait_in'].startswith('handler::ha_')) / 1e9"
check "waits for locks of rows are those that InnoDB measured: $own s" r=waits.json -- \
	"0.7 * $own < $rows < 1.1 * $own" "$rows, [(x['key'], x['value']) for x in r['rows']][:6]"
check "SLEEP() is asleep" r=waits.json -- \
	"sum(x['value'] for x in r['rows'] if x['key'] == {'wait': 'sleep', 'wait_in': 'Item_func_sleep::val_int()'}) >
	0.9 * 320 * 0.02 * 1e9" "[(x['key'], x['value']) for x in r['rows']][:6]"
"$ascribe" blame locks --locks --json -n 0 >blame.json
mysql="[x for x in b['locks'] if x['kind'] == 'mysql lock']"
check "locks of rows and of tables, and who released one held it" b=blame.json -- \
	"sum(x['seconds'] for x in $mysql) > 1.4 * $own and
	sum(x['seconds'] for x in $mysql if x['is'] == 'holder') > 0.9 * sum(x['seconds'] for x in $mysql)" \
	"[(x['kind'], x['is'], x['seconds']) for x in b['locks']][:9]"
finish
