#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A ClickHouse without replication that is killed may know an insert's token and have lost its rows.
# This makes that state: the answer is cut, the server killed, the rows removed from its disk.
# The views are dropped, since a server in that state has not reached them.
. "$(dirname "$0")/lib.bash"
. "$here/clickhouse.bash"
needs_engine
"$build/tests/mkstore" store >truth.json || exit 1

# The requests that insert, by table, of a push that is not disturbed.
engine plain
make_tables
: >plain/asked
cp -r store undisturbed
pushes 0 'sent: 3 windows' undisturbed "$url"
rows() { ask "SELECT count(), sum(samples), uniqExact(time, event, set, stack) FROM ascribe_samples" &&
	ask 'SELECT count(), uniqExact(start), sum(fired) FROM ascribe_windows'; }
rows >want
jq -r 'select(.query | startswith("INSERT")) | .query | split(" ")[2]' plain/asked >order
kill "$server"
wait "$server" 2>/dev/null

# lose TABLE: kill the server, without the part of $1 that came last.
lose() {
	local part
		part=$(ask "SELECT path FROM system.parts WHERE active AND table = '$1' AND database = 'default'
		ORDER BY modification_time DESC, min_block_number DESC LIMIT 1")
	kill -9 "$server"
	wait "$server" 2>/dev/null
	rm -f ./*/plan
	[ -n "$part" ] && [ -d "$part" ] && rm -r "$part"
}
# Cut the answer of the $2nd request that inserts into table $1, and refuse those behind it.
begin() {
	engine "$3"
	make_tables
	ask 'DROP VIEW ascribe_to_1m'
	: >"$3/asked"
	local before
	before=$(grep -n "^$1\$" order | sed -n "$2p" | cut -d: -f1)
	{ yes take | head -n $((before - 1)) && echo cut && yes refuse | head -n 99; } >"$3/plan"
	cp -r store "$3/store"
}
# A request is noted when it comes, so the next one says that this one was done.
was_cut() { grep -qF '"do": ["refuse"]' "$1/asked"; }

n=0
for table in ascribe_samples ascribe_windows; do
	for nth in 1 2; do
		n=$((n + 1))
		# The pusher goes on.
		begin $table $nth a$n
		background "$ascribe" push --format clickhouse a$n/store "$url" 2>a$n.said
		pusher=$pid
		within 30 was_cut a$n || bad "no answer was cut"
		ok "a row of $table is lost" lose $table
		engine a$n
		wait "$pusher"
		ok "the pusher ends: $(tail -1 a$n.said)" test $? = 0
		rows >got
		ok "$table, $nth: all rows are there, once" cmp want got
		kill "$server"
		wait "$server" 2>/dev/null

		# The pusher was ended, too.
		begin $table $nth b$n
		pushes 1 'given up' b$n/store "$url" --give-up 1ms
		ok "a row of $table is lost" lose $table
		engine b$n
		pushes 0 'sent: ' b$n/store "$url"
		rows >got
		ok "$table, $nth: all rows are there, once, after another start" cmp want got
		kill "$server"
		wait "$server" 2>/dev/null
	done
done

# The rows are there: the server was killed behind them. They are not sent by another token.
begin ascribe_samples 1 kept
background "$ascribe" push --format clickhouse kept/store "$url" 2>kept.said
pusher=$pid
within 30 was_cut kept || bad "no answer was cut"
kill -9 "$server"
wait "$server" 2>/dev/null
rm -f kept/plan
engine kept
wait "$pusher"
ok "the pusher ends: $(tail -1 kept.said)" test $? = 0
rows >got
ok "rows that are there do not come twice" cmp want got
ok "nor was another token used" test \
	"$(jq -r 'select(.token) | .token' kept/asked | grep -c -- '-[0-9]*-[0-9]*-1$')" = 0
kill "$server"
wait "$server" 2>/dev/null
finish
