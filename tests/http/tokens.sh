#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon's tokens with scopes: what each may send and have captured, and that its file is read
# again on SIGHUP while connections are open. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
cat >tokens <<T
stays  0123456789abcdef-stays  read
goes   0123456789abcdef-goes   read
agent  0123456789abcdef-agent  ingest
mine   0123456789abcdef-mine   read {comm="mine"}, capture
T
printf 'store: %s\nlisten: 127.0.0.1:0\ntokens-file: %s\ncpu-max: 0\n' "$dir/daily" "$dir/tokens" >a.yaml
serve log "$ascribe" daemon -c a.yaml || finish
bearer() { printf 'Authorization: Bearer 0123456789abcdef-%s' "$1"; }
gets 200 '' -H "$(bearer agent)" --data-binary 'a;b 1' "$url/ingest?name=app"
refused 403 'scope ingest' -H "$(bearer stays)" --data-binary 'a;b 1' "$url/ingest?name=app"
gets 403 'scope ingest' -H "$(bearer stays)" -H 'Content-Type: application/x-protobuf' \
	--data-binary '' "$url/v1development/profiles"
refused 403 'scope read' -H "$(bearer agent)" "$url/api/v1/labels"
refused 403 'scope capture' -H "$(bearer stays)" "$url/debug/pprof/profile?seconds=1&hz=99"
gets 200 keys -H "Authorization: Bearer $(cat daily/http.token)" "$url/api/v1/labels"

# ---- a capture of one who sees a part ----
cp "$(command -v bash)" mine
cp "$(command -v dash || echo /bin/sh)" theirs
background ./mine -c 'while :; do :; done'
background ./theirs -c 'while :; do :; done'
captured() {
	[ "$(curl -gs -o body -w '%{http_code}' -H "$(bearer mine)" \
		"$url/debug/pprof/profile?$1")" = 200 ]
}
# Not before the daemon knows what memory it leaves
ok "a capture" within 40 captured 'seconds=2&hz=199'
gunzip <body >capture
ok "it has its own" grep -qa mine capture
ok "and nothing of others" sh -c '! grep -qa theirs capture'
ok "another one" within 40 captured 'seconds=1&hz=199&where={comm=~"the.*"}'
gunzip <body >capture
ok "whatever is asked" sh -c '! grep -qa theirs capture'

# ---- reloads ----
background python3 "$here/tokens.py" "${url#http://}" 0123456789abcdef-stays "$dir/stop" >said 2>&1
client=$pid
pid=$(pgrep -P $$ -x ascribe | head -1)
gets 200 keys -H "$(bearer goes)" "$url/api/v1/labels"
sed -i 's/^goes .*/new 0123456789abcdef-new read/' tokens
kill -HUP "$pid"
until_says reloaded
is_status() {
	test "$(curl -s -o body -w '%{http_code}' -H "$(bearer "$1")" "$url/api/v1/labels")" = "$2"
}
ok "a new token is good" within 10 is_status new 200
ok "one that went is not" is_status goes 401
n=0
complaints() { test "$(grep -c 'tokens-file: line [56]: .*everything stays as it was' log)" = "$1"; }
for bad in 'x 0123456789abcdef-x write' 'new 0123456789abcdef-y read' 'x short read'; do
	cp tokens good
	echo "$bad" >>tokens
	kill -HUP "$pid"
	n=$((n + 1))
	ok "a bad line changes nothing: $bad" within 20 complaints $n
	ok "all are as before" is_status new 200
	cp good tokens
done
for _ in 1 2 3; do
	sleep 0.5
	kill -HUP "$pid"
done
sleep 1
touch stop
ok "open connections lose no request" wait "$client"
kill "$pid"
wait "$pid"
finish
