#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ascribe push --format clickhouse` to ClickHouse's own engine behind a small HTTP front
# (tests/tools/clickhouse): the tables, that each window is there once after every kind of failure,
# and that what is there is what the store has, by SQL that this test writes itself.
. "$(dirname "$0")/lib.bash"
. "$here/clickhouse.bash"
needs_engine
"$build/tests/mkstore" store >truth.json || exit 1
cp -r "$build/tests/long" long
# Windows of `long` that are sent: 40, or all.
until=(--to "$(in_part 2026-05-01T10:40:00Z 2026-05-03T00:00:00Z)")
cat >compare.py <<'PY'
"""compare.py URL STORE [--to T]: what the engine has against what other commands say of the store."""
import collections, json, os, re, subprocess, sys, urllib.request
url, store, *to = sys.argv[1:]
def ask(sql):
    body = urllib.request.urlopen(url, (sql + ' FORMAT JSONCompact').encode(), 60).read()
    return json.loads(body.decode(errors='surrogateescape'))['data']
def run(*a):
    p = subprocess.run([os.environ['ASCRIBE'], *a], capture_output=True)
    assert not p.returncode, p.stderr
    return p.stdout.decode(errors='surrogateescape')
# windows: one row each, with the counters of the recorder
report = json.loads(run('report', store, '--json', '--idle', '-n', '0', *to))
windows, fired, stored, twice = ask('SELECT count(), toString(sum(fired)), toString(sum(stored)), count() - uniqExact(host, start) FROM ascribe_windows')[0]
assert int(twice) == 0, twice
assert (int(fired), int(stored)) == (report['fired'], report['stored']), (fired, stored, report['fired'], report['stored'])
# no row twice: a window has a stack, a label set and an event once
assert ask('SELECT count() FROM (SELECT 1 FROM ascribe_samples GROUP BY time, host, event, set, stack HAVING count() > 1)')[0][0] in (0, '0')
# stacks with labels: folded text has them, root first
got = collections.Counter()
clean = lambda s: re.sub('[\ufffd\udc80-\udcff]+', '\ufffd', ''.join(':' if c == ';' else '_' if ord(c) < 32 or ord(c) == 127 else c for c in s))
rows = ask("""SELECT l.labels['comm'], k.functions, k.modules, k.offsets, toString(sum(s.samples)) FROM ascribe_samples s
    JOIN (SELECT hash, any(functions) AS functions, any(modules) AS modules, any(offsets) AS offsets FROM ascribe_stacks GROUP BY hash) k ON k.hash = s.stack
    JOIN (SELECT hash, any(labels) AS labels FROM ascribe_sets GROUP BY hash) l ON l.hash = s.set WHERE s.event = 'cpu-clock' GROUP BY ALL""")
for comm, functions, modules, offsets, n in rows:
    names = [f or (m.rsplit('/', 1)[-1] + f'+{int(o):#x}' if m else '[unknown]') for f, m, o in zip(functions, modules, offsets)]
    got[tuple(map(clean, [comm, *reversed(names)]))] += int(n)
want = collections.Counter()
for line in run('export', store, '--format', 'folded', '--idle', '--memory', '1GiB', *to).split('\n')[:-1]:
    stack, n = line.rsplit(' ', 1)
    want[tuple(clean(f.removesuffix('_[k]').removesuffix('_[i]')) for f in stack.split(';'))] += int(n)
assert got == want, ((got - want).most_common(3), (want - got).most_common(3))
# roll-ups: the same sums by event, minute, hour, day
for table, unit in ('ascribe_samples_1m', 'Minute'), ('ascribe_samples_1h', 'Hour'), ('ascribe_samples_1d', 'Day'):
    f = lambda t, at: sorted(map(tuple, ask(f'SELECT event, toString({at}), toString(sum(samples)), toString(sum(value)) FROM {t} GROUP BY ALL')))
    a, b = f('ascribe_samples', f'toStartOf{unit}(time)'), f(table, 'toDateTime(time, \'UTC\')')
    assert a == b, (table, a[:3], b[:3])
print(windows, 'windows,', sum(got.values()), 'samples,', len(rows), 'stacks with labels')
PY
export ASCRIBE=$ascribe

# ---- tables ----
engine first
pushes 1 'no tables of ascribe: add --create-tables' store "$url" --give-up 1s
pushes 1 'Database nowhere|UNKNOWN_DATABASE' store "$url?database=nowhere" --give-up 1s
ask 'CREATE TABLE ascribe_samples (a Int8) ENGINE = Memory'
pushes 1 "ascribe_samples that is there is not ascribe's" store "$url" --create-tables
ok "nothing was made beside it" test \
	"$(ask "SELECT count() FROM system.tables WHERE database = 'default'")" = 1
ask 'DROP TABLE ascribe_samples'
ask 'CREATE DATABASE other'
url="$url?database=other"
make_tables
pushes 0 'sent: 3 windows' store "$url" -l cluster=prod,region=eu
ok "sums, stacks, roll-ups" python3 compare.py "$url" store
pushes 0 'sent: 0 windows' store "$url"
sees() { # what, statement, answer
	ok "$1" test "$(ask "$2")" = "$3"
}
sees "labels of --label are in the sets, and in the series" "
	SELECT countIf(labels['cluster'] = 'prod' AND labels['region'] = 'eu') = count() AND count() > 1
	FROM (SELECT labels FROM ascribe_sets UNION ALL SELECT labels FROM ascribe_series)" 1
sees "integers are known as such" "
	SELECT DISTINCT integers FROM ascribe_sets WHERE mapContains(labels, 'query_id')" "['query_id']"
sees "the event and its rate" "
	SELECT unit, ns_per_sample FROM ascribe_events WHERE name = 'cpu-clock'" "nanoseconds	10101010"
ok "a host is a column" test "$(ask "SELECT uniqExact(host) FROM ascribe_samples")" = 1
ok "a schema" test "$(ask 'SELECT max(version) FROM ascribe_schema')" = 2
pushes 0 'sent: 0 windows' store "$url" --create-tables
# The same windows again, by another cursor: the engine drops them by their tokens.
pushes 0 'sent: 3 windows' store "$url" -l cluster=prod,region=eu --cursor again
ok "sent again: nothing twice" python3 compare.py "$url" store
cp -r store old
rm -r old/push
ask 'ALTER TABLE ascribe_schema DELETE WHERE 1 SETTINGS mutations_sync = 1'
# As schema 1 is: without functions.
ask 'DROP TABLE ascribe_to_functions'
ask 'DROP TABLE ascribe_functions'
ask 'ALTER TABLE ascribe_stacks DROP COLUMN called'
pushes 1 'no tables of ascribe|of schema 0' old "$url" --give-up 1s
pushes 0 'sent: 3 windows' old "$url" --create-tables -l cluster=prod,region=eu
ok "migrated" python3 compare.py "$url" store
sees "stacks that were there have functions" "
	SELECT count() > 0 AND countIf(empty(called)) = 0 FROM ascribe_stacks" 1
# Sums that a killed server lost, and some that are too large.
ask 'ALTER TABLE ascribe_samples_1m DELETE WHERE cityHash64(stack) % 3 = 0 SETTINGS mutations_sync = 1'
ask 'ALTER TABLE ascribe_samples_1h DELETE WHERE cityHash64(stack) % 2 = 0 SETTINGS mutations_sync = 1'
ask 'ALTER TABLE ascribe_samples_1d DELETE WHERE cityHash64(stack) % 5 = 0 SETTINGS mutations_sync = 1'
ask 'INSERT INTO ascribe_samples_1d SELECT * FROM ascribe_samples_1d LIMIT 5'
not() { ! "$@"; }
ok "sums are wrong" not python3 compare.py "$url" old
mend_sums "$(ask 'SELECT min(toDate(time)) FROM ascribe_samples')" >refused
ok "mend-sums.sql: $(head -c 300 refused)" test ! -s refused
ok "sums are mended" python3 compare.py "$url" old
sees "functions have names" "
	SELECT count() > 0 AND countIf(empty(name)) = 0 FROM ascribe_functions WHERE id IN
		(SELECT bitAnd(arrayJoin(called), 18446744073709551614) FROM ascribe_stacks)" 1

# ---- tables of clusters: made without rows, for there is no Keeper and no second server ----
mkdir clusters
cat >clusters/config.xml <<'END'
<clickhouse><macros><cluster>one</cluster></macros><remote_servers><one><shard><replica>
<host>127.0.0.1</host><port>9000</port></replica></shard></one></remote_servers></clickhouse>
END
one_node=$url
engine clusters
for kind in replicated distributed; do
	ask "CREATE DATABASE $kind"
	sed "s/ ON CLUSTER '{cluster}'//; s/= Replicated/= /; /^INSERT/d" \
		"$root/deploy/clickhouse/$kind.sql" >$kind.sql
	url+="?database=$kind"
	ask "$(cat $kind.sql)" >refused
	ok "$kind.sql: $(head -c 300 refused)" test ! -s refused
	ok "all its tables" test "$(ask 'SELECT count() FROM system.tables WHERE database =
		currentDatabase()')" = "$(grep -c '^CREATE' $kind.sql)"
	url=${url%\?*}
done
# What --create-tables makes is what replicated.sql makes.
names="SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table LIKE
	'ascribe%' ORDER BY ALL"
url+='?database=replicated'
ask "$names" >replicated.columns
url=$one_node
ask "$names" >one_node.columns
ok "replicated tables have the columns of one server's" cmp replicated.columns one_node.columns

# ---- otel_profiles: the table of OpenTelemetry's exporter, as its documentation has it ----
ask 'CREATE DATABASE otel'
saved=$url
url=${url%other}otel
ask "CREATE TABLE otel_profiles (Timestamp DateTime64(9), ProfileId String,
	SampleType LowCardinality(String), SampleUnit LowCardinality(String),
	ServiceName LowCardinality(String), ResourceAttributes Map(LowCardinality(String), String),
	ScopeName String, ScopeVersion String,
	ProfileAttributes Map(LowCardinality(String), String),
	SampleAttributes Map(LowCardinality(String), String), StackHash UInt64,
	Addresses Array(UInt64), FunctionNames Array(LowCardinality(String)),
	FileNames Array(LowCardinality(String)), LineNumbers Array(Int32),
	MappingFileNames Array(LowCardinality(String)), Values Array(Int64),
	TimestampsUnixNano Array(UInt64), DurationNano UInt64, Period Int64,
	PeriodType LowCardinality(String), PeriodUnit LowCardinality(String), TraceId String,
	SpanId String) ENGINE = MergeTree PARTITION BY toDate(Timestamp)
	ORDER BY (ServiceName, SampleType, toDateTime(Timestamp))"
timeout 100 "$ascribe" push store "$url" --format clickhouse-otel -l service.name=shop 2>said
ok "otel_profiles is filled" grep -q 'sent: 3 windows' said
"$ascribe" report store --json >report.json
"$ascribe" report store --json --by tenant,comm >keys.json
sees "samples" "SELECT sum(Values[1]) FROM otel_profiles WHERE SampleType = 'samples'" \
	"$(jq .samples report.json)"
ask "SELECT FunctionNames[1] AS function, MappingFileNames[1] AS module,
	toInt32(sum(Values[1])) AS self FROM otel_profiles WHERE SampleType = 'samples' AND
	function != '' GROUP BY ALL FORMAT JSONEachRow" | jq -cS . | sort >functions
jq -cS '.rows[] | select(.self > 0 and (.function | contains("+0x") | not)) |
	{ function: .function, module: .module, self: .self }' report.json | sort >want
ok "functions by their own samples: $(wc -l <want)" cmp functions want
ask "SELECT SampleAttributes['process.context.label.tenant'] AS tenant,
	SampleAttributes['comm'] AS comm, toInt32(sum(Values[1])) AS samples
	FROM otel_profiles WHERE SampleType = 'samples' GROUP BY ALL FORMAT JSONEachRow" |
	jq -cS . | sort >keys
jq -cS '[.rows[] | { tenant: (.key.tenant // ""), comm: (.key.comm // ""), samples: .samples }] |
	group_by(.tenant, .comm)[] | .[0] + { samples: (map(.samples) | add) }' keys.json |
	sort >want
ok "attributes of samples: $(wc -l <want)" cmp keys want
sees "the rest of a row" "SELECT DISTINCT ResourceAttributes['service.name'], ScopeName,
	ResourceAttributes['host.name'] != '', length(ProfileId), Period, PeriodType, PeriodUnit,
	StackHash = xxHash64(arrayStringConcat(arrayMap(
		(f, p) -> concat(f, char(0), p, char(0)), FunctionNames, FileNames))),
	length(Addresses) = length(FunctionNames) AND length(LineNumbers) = length(Addresses)
	FROM otel_profiles WHERE SampleType = 'samples'" \
	"shop	ascribe	1	32	10101010	cpu	nanoseconds	1	1"
sees "a profile has the rows of a window and event" "
	SELECT count(), uniqExact(Timestamp, SampleType) FROM (
	SELECT ProfileId, Timestamp, SampleType FROM otel_profiles GROUP BY ALL)" "$(ask \
	'SELECT uniqExact(ProfileId) AS n, n FROM otel_profiles')"
pushes 0 'sent: 0 windows' store "$url" --format clickhouse-otel -l service.name=shop
url=$saved

# Windows of long ago: with the tables' own TTL their sums are there, and push says so.
ask 'CREATE DATABASE late'
pushes 0 'older than the receiver keeps them whole: 3 windows' store "${url%other}late" \
	--create-tables --cursor late
ok "their sums are there" test "$(curl -sS "${url%other}late" --data-binary \
	'SELECT (SELECT sum(samples) FROM ascribe_samples), sum(samples) > 0 FROM ascribe_samples_1d')" \
	= "$(printf '0\t1')"

# ---- users ----
echo secret >password
pushes 1 'Authentication failed' store "$url" --user writer --give-up 1ms --cursor u1
pushes 1 'READONLY|readonly' store "$url" --user reader --token-file password --give-up 1ms \
	--cursor u2
pushes 0 'sent: 3 windows' store "$url" --user writer --token-file password --cursor u3
ok "who asked" test "$(jq -r .user first/asked | tail -1)" = writer
ok "the password is in no message" sh -c '! grep -q secret said first/asked'
pushes 2 "user: of ClickHouse's formats alone" store "${url%\?*}" --format otlp --user me

# ---- bad answers: each window is there once all the same ----
ask 'CREATE DATABASE bad'
url=${url%other}bad
make_tables
cp -r store answers
cat >first/plan <<'END'
status 429 1
status 500
refuse
take
cut
status 503
partial
take
slow 2
cut
take
cut
END
pushes 0 'sent: 3 windows' answers "$url" --timeout 1s
ok "after all answers" test ! -s first/plan
ok "bad answers: each window once" python3 compare.py "$url" answers
ask 'CREATE DATABASE pieces'
url=${url%bad}pieces
make_tables
cp -r store pieces
for n in 1 2 3 4 5 6; do printf 'take\ncut\nstatus 500\n'; done >first/plan
pushes 0 'sent: 3 windows' pieces "$url" --max-bytes 64KiB --compression gzip
ok "in pieces, by gzip" python3 compare.py "$url" pieces
# A window with more rows than fit the memory goes in shares, also when it goes on within one.
"$build/tests/mkstore" crowd crowd >/dev/null
ask 'CREATE DATABASE shares'
url=${url%pieces}shares
make_tables
for n in 1 2 3 4 5; do
	# Two messages of five posts, and those of a window's begin; then nothing is taken.
	{ yes take | head -n 12 && yes 'status 500' | head -n 20; } >first/plan
	pushes 1 'sent: 0 windows' crowd "$url" --give-up 500ms
done
rm -f first/plan
pushes 0 'sent: 1 windows' crowd "$url"
sees "all rows in shares, each once" \
	'SELECT count(), sum(samples), uniqExact(set, stack) FROM ascribe_samples' \
	"100000	$("$ascribe" report crowd --json -n 1 | jq .samples)	100000"
kill "$server"
wait "$server" 2>/dev/null

# ---- the engine and the pusher are killed, again and again ----
engine killed
make_tables
cp -r long life
n=0
end_job() { # of ours, if it is not over: its number may be another one's then
	jobs -pr | grep -qx "$1" && kill -9 "$1"
	wait "$1" 2>/dev/null
}
: >killed/plan
while [ $n -lt "$(in_part 4 30)" ]; do
	n=$((n + 1))
	# shellcheck disable=SC2034
	for i in $(seq $((n % 7 * 3 + 5))); do echo take; done >killed/plan
	echo "die 0.00$((n * 7 % 10))" >>killed/plan
	background "$ascribe" push --format clickhouse life "$url" "${until[@]}" 2>>killed.said
	pusher=$pid
	# It kills itself in the middle of an insert, unless all is sent before.
	wait -n "$server" "$pusher" 2>/dev/null
	end_job "$server"
	[ $((n % 2)) = 0 ] && end_job "$pusher"
	rm -f killed/plan
	engine killed
	end_job "$pusher"
done
pushes 0 'sent: ' life "$url" "${until[@]}"
python3 compare.py "$url" life "${until[@]}" >/dev/null 2>unlike ||
	echo "sums are missing, as documented: $(tail -n 1 unlike)"
mend_sums 2026-05-01 2026-05-02 >refused
ok "mend-sums.sql: $(head -c 300 refused)" test ! -s refused
ok "the engine and the pusher were killed $n times" python3 compare.py "$url" life "${until[@]}"
ok "windows: none is missing" test "$(ask 'SELECT count() FROM ascribe_windows')" = \
	"$("$ascribe" report life --json "${until[@]}" 2>/dev/null | jq .windows)"
kill "$server"
wait "$server" 2>/dev/null

# ---- three hosts at a time, of the same stacks and label sets; the engine dies meanwhile ----
engine hosts
make_tables
{ yes take | head -n 9 && echo 'die 0.004'; } >hosts/plan
pushers=()
for h in h1 h2 h3; do
	"$build/tests/mkstore" $h host $h >/dev/null
	background "$ascribe" push --format clickhouse $h "$url" 2>$h.said
	pushers+=("$pid")
done
wait "$server" 2>/dev/null
rm -f hosts/plan
engine hosts
wait "${pushers[@]}"
sees "each host's windows, once" "SELECT groupArray((host, n)) FROM
	(SELECT host, count() AS n FROM ascribe_windows GROUP BY host ORDER BY host)" \
	"[('h1',3),('h2',3),('h3',3)]"
rows_of() { # by tenant and comm, each $n times
	"$ascribe" report "$@" --by tenant,comm --json -n 0 |
		jq -cS ".rows | map([.key, .samples * $n])"
}
n=1
for h in h1 h2 h3; do
	ok "$h has what its store has" test "$(rows_of $h)" = \
		"$(rows_of --clickhouse "$url" --where "{host=\"$h\"}")"
done
all=$(rows_of --clickhouse "$url")
n=3
ok "all have three times that" test "$(rows_of h1)" = "$all"
sees "stacks and label sets are there once, whoever sent them" "
	SELECT uniqExact(hash) * 3 = (SELECT sum(n) FROM (SELECT uniqExact(stack) AS n
		FROM ascribe_samples WHERE stack != 0 GROUP BY host)) FROM ascribe_stacks" 1
kill "$server"
wait "$server" 2>/dev/null

# ---- a full disk ----
if [ "$(id -u)" = 0 ] && mkdir -p full && mount -t tmpfs -o size=24m none full 2>/dev/null; then
	at_end='umount -l full'
	engine full/engine
	make_tables
	cp -r long wide
	background "$ascribe" push --format clickhouse wide "$url" "${until[@]}" --give-up 100s \
		2>full.said
	pusher=$pid
	dd if=/dev/zero of=full/ballast bs=1M 2>/dev/null
	within 60 grep -qE 'NOT_ENOUGH_SPACE|No space|HTTP status 500' full.said ||
		bad "no full disk: $(tail -2 full.said)"
	rm full/ballast
	mount -o remount,size=400m full
	wait "$pusher"
	ok "the push goes on when there is room: $(tail -1 full.said)" test $? = 0
	ok "after a full disk: each window once" python3 compare.py "$url" wide "${until[@]}"
	kill "$server"
	wait "$server" 2>/dev/null
fi
finish
