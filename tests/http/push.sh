#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ascribe push` to a stand-in for collectors, Pyroscope and Parca (receiver.py: none of them is
# here), which decodes each message by code of its own and behaves badly; and to our own daemon,
# which takes Pyroscope's messages. Sums are those of other commands, each window is there once.
. "$(dirname "$0")/lib.bash"
"$build/tests/mkstore" store >truth.json || exit 1
cp -r "$build/tests/long" long
[ -n "${ASCRIBE_TEST_ALL:-}" ] || "$ascribe" store delete long --where '{comm=~".*"}' \
	--from 2026-05-01T14:00:00Z >/dev/null 2>&1
windows=$(in_part 240 1200) # that are not empty
export PUSHED=$dir

# A receiver in the directory $1 with more arguments: sets $url.
receive() {
	local at=$1
	shift
	mkdir -p "$at"
	background python3 "$here/receiver.py" "$at" "$@" 2>"$at.log"
	within 20 test -e "$at/port" || bad "no receiver: $(cat "$at.log")"
	url=http://127.0.0.1:$(cat "$at/port")
}
# Exit status, a pattern for stderr, arguments of push. What it said stays in `said`.
pushes() {
	local want=$1 text=$2 got
	shift 2
	timeout 100 "$ascribe" push "$@" >out 2>said
	got=$?
	if [ $got = "$want" ] && grep -qE -- "$text" said; then
		good "exit $got: push $*: $(grep -E -m 1 -- "$text" said | cut -c 1-150)"
	else
		bad "exit $got, want $want and /$text/: push $*: $(head -3 said)"
	fi
}

cat >compare.py <<'PY'
"""compare.py DIR STORE FORMAT WINDOWS [key=value]: what was taken against other commands."""
import collections, json, os, subprocess, sys
at, store, kind, windows = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
ascribe = os.environ['ASCRIBE']
assert not os.path.exists(at + '/wrong'), open(at + '/wrong').read()
taken = [json.loads(line) for line in open(at + '/taken')]
where = sys.argv[5:]
got, times, by_comm, per_window = (collections.Counter() for _ in range(4))
events = collections.Counter()
sent = set()
for m in taken:
    if m['do'] == 'cut' and '--cut-is-twice' in where:
        continue
    for p in m['profiles']:
        times[p['time']] += 1
        for frames, labels, value in p['samples']:
            event = {'samples': 'cpu', 'cpu': 'cpu'}.get(p['type'], p['type'])
            events[event] += value
            if event != 'cpu':
                continue
            comm = labels.get('comm', p['labels'].get('comm'))
            got[tuple(reversed(frames))] += value
            by_comm[comm] += value
            per_window[p['time']] += value
def run(*a):
    return subprocess.run([ascribe, *a], capture_output=True, check=True).stdout
folded, comms = collections.Counter(), collections.Counter()
for line in run('export', store, '--format', 'folded', '--unit', 'value', '--memory', '1GiB').decode(errors='surrogateescape').split('\n')[:-1]:
    stack, n = ''.join('\ufffd' if '\udc80' <= c <= '\udcff' else c for c in line).rsplit(' ', 1)
    comm, *frames = (f.removesuffix('_[k]').removesuffix('_[i]') for f in stack.split(';'))
    folded[tuple(frames)] += int(n)
    comms[comm] += int(n)
clean = lambda s: ''.join(':' if c == ';' else '_' if ord(c) < 32 or ord(c) == 127 else c for c in s).removesuffix('_[k]').removesuffix('_[i]')
ours = collections.Counter()
for stack, n in got.items():
    ours[tuple(map(clean, stack))] += n
assert ours == folded, ((ours - folded).most_common(2), (folded - ours).most_common(2))
if kind != 'pprof' or 1:
    assert {clean(k): v for k, v in by_comm.items()} == comms, (by_comm, comms)
assert len(times) == windows, (len(times), windows)
print(kind, len(taken), 'messages,', len(times), 'windows,', dict(events))
PY
export ASCRIBE=$ascribe

# ---- each format: whole, and in small pieces ----
for format in otlp pyroscope parca pprof; do
	receive "$format"
	pushes 0 'sent: 3 windows' store "$url/" --format $format --max-age 99w \
		-l cluster=prod,region=eu
	ok "$format: sums, windows" python3 compare.py "$format" store $format 3
	pushes 0 'sent: 0 windows, 0 messages' store "$url/" --format $format --max-age 99w
done
ok "series have no ids of queries; labels from outside" jq -es '[.[].profiles[]] |
	all((.labels | .cluster == "prod" and .region == "eu" and .service_name and .host and
	(has("query_id") or has("thread") | not)) and all(.samples[]; .[1] == {}))' pyroscope/taken
ok "otlp: query ids are attributes of samples" jq -es '[.[].profiles[]] |
	all(.labels | .["k8s.cluster.name"] == "prod" and .region == "eu" and .["host.name"]) and
	([.[].samples[][1]["process.context.label.query_id"] | values] | length > 100)' otlp/taken
ok "names of profiles" jq -es '[.[].profiles[].labels.__name__] | unique ==
	["page_faults", "process_cpu"]' parca/taken
cp -r long pieces
receive pieces.in
pushes 0 'sent: 1200 windows' pieces "$url" --compression zstd --max-bytes 64KiB
ok "zstd, many windows" python3 compare.py pieces.in long otlp "$windows"
ok "zstd" jq -es 'all(.headers["content-encoding"] == "zstd")' pieces.in/seen
"$build/tests/mkstore" wide wide >/dev/null
receive wide.in
pushes 0 'sent: 1 windows' wide "$url" --format pyroscope --max-age 99w --max-bytes 64KiB
ok "a window in pieces: $(wc -l <wide.in/taken)" python3 compare.py wide.in wide pyroscope 1
ok "more than five" test "$(wc -l <wide.in/taken)" -gt 5
"$build/tests/mkstore" crowd crowd >/dev/null
receive crowd.in
echo 'def rule(headers, body, n): return "status 200"' >crowd.in/rules
for format in otlp pprof; do # 13 and 6 in the order of label sets
	pushes 0 ' 4 messages, 100000 rows' crowd "$url" --format $format --memory 64MiB \
		--cursor $format.cursor
done
receive some.in
pushes 0 'sent: 2 windows' store "$url" --where '{tenant="a"}' --keys comm --to 2026-05-01T10:00:15Z
ok "a selector, a range, one label" jq -es --argjson a "$(jq .a truth.json)" \
	'[.[].profiles[].samples[]] | all(.[1] | keys == ["comm"]) and length > 10' some.in/taken

cp -r store since
receive since.in
pushes 0 'sent: 1 windows' since "$url" --from 2026-05-01T10:00:20Z
pushes 0 'sent: 0 windows' since "$url" --from 2026-05-01T09:00:00Z
ok "it begins there, and goes on" jq -es '[.[].profiles[].time] | unique == [1777629620000000000]' since.in/taken

# What was sent before a deletion is not sent again, what was not is.
cp -r store thinned
receive thinned.in
pushes 0 'sent: 3 windows' thinned "$url"
echo 'main;work 5' | "$ascribe" import folded - -o thinned >/dev/null 2>&1
"$ascribe" store delete thinned --where '{tenant="a"}' --to 2026-05-01T10:00:05Z >/dev/null 2>&1
pushes 0 'sent: 1 windows' thinned "$url"
ok "that one" jq -es '[.[].profiles[] | select(.samples[0][0] == ["work", "main"])] | length == 1' \
	thinned.in/taken
"$ascribe" store delete thinned --where '{comm=~"kworker.*"}' >/dev/null 2>&1
pushes 0 'sent: 0 windows' thinned "$url"
ok "the store is whole" "$ascribe" store verify thinned

# Retention has cut most: the sums that are left go out, once.
"$build/tests/mkstore" cut cut >/dev/null
receive cut.in
pushes 0 'sent: [0-9]+ windows' cut "$url"
# By labels, as an export: a sum that some of its windows outlived is left out there, too. How large
# files are, and so which outlive it, depends on the version of zstd.
left=$("$ascribe" export cut --format pprof -o cut.pb.gz 2>&1 |
	sed -n 's/^complete: \([0-9,]*\) of.*/\1/p' | tr -d ,)
ok "what retention left: all of it" jq -es --argjson left "$left" \
	'[.[].profiles[].samples[][2]] | add / 10101010 == $left' cut.in/taken
pushes 0 'sent: 0 windows' cut "$url"

# ---- bad answers: each window is there once all the same ----
cp -r store answers
receive bad
cat >bad/plan <<'END'
status 429 1
status 500
refuse
status 503
redirect
status 401
take
slow 1.2
status 404
END
pushes 0 'sent: 3 windows' answers "$url" --timeout 3s
ok "it said so" grep -q 'HTTP status 429.*it is tried again' said
ok "and that it goes on" grep -q 'sending again' said
ok "after all answers" test ! -s bad/plan
ok "bad answers: sums" python3 compare.py bad answers otlp 3
ok "Retry-After" python3 -c "
import json
at = [json.loads(l) for l in open('bad/seen')]
assert at[1]['at'] - at[0]['at'] > 1, at[1]['at'] - at[0]['at']"
cp -r store dropped
receive drop
printf 'status 400\ntake\nstatus 422\npartial 2\n' >drop/plan
pushes 0 'refused by the receiver: 2 messages' dropped "$url"
ok "partial success" grep -q 'not kept by the receiver: 2 profiles' said
ok "the others went out" test "$(wc -l <drop/taken)" = 4
cp -r store large
receive large.in
echo 'def rule(headers, body, n): return "status 413" if len(body) > 3000 else None' >large.in/rules
pushes 0 'sent: 3 windows' large "$url" --compression none --max-bytes 1MiB
ok "413: smaller ones" python3 compare.py large.in large otlp 3
cp -r store plain
receive plain.in
echo 'def rule(headers, body, n): return "status 415" if "content-encoding" in headers else None' >plain.in/rules
pushes 0 'sent: 3 windows' plain "$url"
ok "415: not compressed" python3 compare.py plain.in plain otlp 3
ok "asked once" jq -es 'map(select(.headers["content-encoding"])) | length == 1' plain.in/seen
receive away
echo 'def rule(headers, body, n): return "redirect"' >away/rules
cp -r store redirected
pushes 1 'given up: .*307.*redirects are not followed' redirected "$url" --give-up 1ms
pushes 1 'given up: .*(refused|connect)' redirected http://127.0.0.1:1 --give-up 1ms
receive lost
printf 'cut\n' >lost/plan
cp -r store answer
pushes 0 'sent: 3 windows' answer "$url"
ok "an answer that was lost: the same profile ids again" jq -es \
	'.[0].ids == .[1].ids and (.[0].ids | length > 0)' lost/taken
sed -i 1d lost/taken
ok "and the rest once" python3 compare.py lost answer otlp 3

# ---- killed in the middle, again and again ----
cp -r long killed
receive kill
echo 'def rule(headers, body, n): return "slow 0.004"' >kill/rules
for n in 1 2 3 4 5; do
	background "$ascribe" push killed "$url" 2>/dev/null
	within 30 sh -c "[ \$(cat kill/taken 2>/dev/null | wc -l) -ge $((n * windows / 8)) ]"
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
done
pushes 0 'sent: ' killed "$url"
cat >once.py <<'PY'
import json
seen, out, twice = set(), [], 0
for line in open('kill/taken'):
    ids = tuple(json.loads(line)['ids'])
    twice += ids in seen
    if ids not in seen: out.append(line)
    seen.add(ids)
open('kill/taken', 'w').write(''.join(out))
assert twice <= 5, twice  # at most one for each kill: its answer was not read
print(twice, 'messages twice')
PY
ok "killed five times" python3 once.py
ok "nothing is missing" python3 compare.py kill long otlp "$windows"
cp -r long ended
receive end
background "$ascribe" push ended "$url" 2>ended.log
within 30 sh -c '[ $(cat end/taken 2>/dev/null | wc -l) -ge 40 ]'
kill -TERM "$pid"
wait "$pid"
ok "SIGTERM ends it well" test $? = 0
pushes 0 'sent: ' ended "$url"
ok "ended by SIGTERM: each window once" python3 compare.py end long otlp "$windows"
ok "no message twice" jq -es '[.[].ids[]] | length == (unique | length)' end/taken

# ---- TLS, tokens ----
make_ca() { # NAME
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" \
		-out "$1.crt" 2>/dev/null
}
make_cert() { # CA NAME
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$2.key" -out "$2.csr" \
		2>/dev/null
	printf 'subjectAltName=IP:127.0.0.1\n' >ext
	openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 2 \
		-extfile ext -out "$2.crt" 2>/dev/null
}
make_ca ca
make_ca other
make_cert ca server
make_cert ca client
make_cert other stranger
receive tls --tls server.crt server.key ca.crt
https=https${url#http}
cp -r store secure
pushes 1 'given up.*certificate' secure "$https" --ca-file other.crt \
	--cert-file client.crt --key-file client.key --give-up 1ms
pushes 1 'given up' secure "$https" --ca-file ca.crt --give-up 1ms
pushes 1 'given up' secure "$https" --ca-file ca.crt \
	--cert-file stranger.crt --key-file stranger.key --give-up 1ms
pushes 2 'cert-file: the other one' secure "$https" --cert-file client.crt
ok "nothing went out" test ! -e tls/taken
pushes 0 'sent: 3 windows' secure "$https" --ca-file ca.crt \
	--cert-file client.crt --key-file client.key
ok "TLS both ways" python3 compare.py tls secure otlp 3
receive token
cat >token/rules <<'END'
import os
def rule(headers, body, n):
    if n == 3:
        open(os.environ['PUSHED'] + '/token.txt', 'w').write('second-secret\n')
    return None if headers.get('authorization') == 'Bearer ' + ('first-secret' if n < 3 else 'second-secret') else 'status 401'
END
echo first-secret >token.txt
cp -r store tokens
pushes 0 'sent: 3 windows' tokens "$url" --token-file token.txt --tenant acme --header 'X-One: 1'
ok "a token that changes, a tenant, a header" python3 compare.py token tokens otlp 3
ok "headers" jq -es 'all(.headers | .["x-scope-orgid"] == "acme" and .["x-one"] == "1")' token/taken
ok "no secret is said" sh -c '! grep -rq secret said tokens/push'

# ---- bad input ----
pushes 2 'user or password' store 'http://me:hidden@127.0.0.1:1/'
ok "and does not repeat it" sh -c '! grep -q hidden said'
pushes 2 'begin with http' store ftp://host/
pushes 2 'none of otlp' store "$url" --format jfr
pushes 2 'query_id would make a series' store "$url" --format parca --keys service,query_id
pushes 2 'none of gzip' store "$url" --compression lz4
pushes 2 'where: ' store "$url" --where '{a'
pushes 2 'no KEY=VALUE' store "$url" -l x
pushes 2 'no "Name: value"' store "$url" --header 'no colon'
pushes 2 'which store' store
pushes 1 'no such|No such' nothing "$url"
pushes 1 'cannot write the cursor' store "$url" --cursor /nowhere/cursor
pushes 0 'older than the receiver takes: 3 windows' answers "$url" --format pyroscope --cursor aged
receive sink
cp -r store damaged
pushes 0 'sent' damaged "$url" --cursor mark
sed -i 's/^window 3/window 1/' mark
pushes 1 'mark is damaged' damaged "$url" --cursor mark
echo 'main;work 5' | "$ascribe" import folded - -o another >/dev/null 2>&1
pushes 0 'sent: 1 windows' another "$url" --cursor mark2
pushes 1 'of another store' damaged "$url" --cursor mark2
receive hold
echo 'slow 3' >hold/plan
cp -r store held
background "$ascribe" push held "$url" 2>/dev/null
within 20 test -s hold/seen
pushes 1 'another process sends' held "$url"
wait "$pid"
receive gone
echo 'def rule(headers, body, n): return "status 503"' >gone/rules
cp -r store deleted
background "$ascribe" push deleted "$url" --give-up 3s 2>deleted.log
within 20 test -s gone/seen
rm -rf deleted
rm gone/rules
wait "$pid"
ok "a store that is deleted meanwhile: an error" grep -q 'deleted' deleted.log

# ---- our own daemon takes Pyroscope's messages ----
# Somebody must use a CPU: a quiet host has no samples to send.
if [ "$(id -u)" = 0 ] && "$ascribe" record -q -a -o own -- \
	sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done' >/dev/null 2>&1; then
	serve daemon.log "$ascribe" daemon -s "$dir/server" -l 127.0.0.1:0 --anonymous -F 1 ||
		finish
	pushes 0 'sent: [12] windows' own "$url" --format pyroscope
	pushes 0 'sent: [12] windows' own "$url/ingest?name=whole&format=pprof" --format pprof
	# At 1 Hz the daemon has no sample of its own yet: what it took is written all the same.
	kill "$pid"
	wait "$pid"
	cat >own.py <<'PY'
import json, os, subprocess
def run(*a):
    p = subprocess.run([os.environ['ASCRIBE'], *a, '--json'], capture_output=True, text=True)
    assert not p.returncode, p.stderr
    return json.loads(p.stdout)
sent = run('report', 'own', '--by', 'service', '-n', '0')
want = {r['key']['service']: round(r['seconds'], 6) for r in sent['rows']}
got = {r['key']['service_name']: round(r['seconds'], 6) for r in
       run('report', 'server', '--event', 'ingest:cpu', '--where', '{service_name!="whole"}', '--by', 'service_name', '-n', '0', '--from', '1')['rows']}
assert got == want, (got, want)
whole = run('report', 'server', '--event', 'ingest:cpu', '--where', '{service_name="whole"}', '--from', '1', '-n', '0')
a = {(r['function']): round(r['self_seconds'], 6) for r in run('report', 'own', '-n', '0')['rows'] if r['self']}
assert abs(whole['seconds'] - sent['seconds']) < 1e-6, (whole['seconds'], sent['seconds'])
print(sum(want.values()), 'seconds of', len(want), 'services')
PY
	ok "the daemon has the same sums" python3 own.py
fi
finish
