#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The log of requests: who asked what, without secrets, within its bytes, and through reloads. As
# root.
. "$(dirname "$0")/lib.bash"
needs_recording
command -v setpriv >/dev/null || skip "no setpriv"
cat >tokens <<T
alice 0123456789abcdef-alice read
bob 0123456789abcdef-bob read {tenant="a"}
carol 0123456789abcdef-carol ingest, capture
T
cat >a.yaml <<Y
store: $dir/daily
listen: [127.0.0.1:0, unix:$dir/sock]
socket-mode: 0666
tokens-file: $dir/tokens
audit-max: 64KiB
cpu-max: 0
Y
serve log "$ascribe" daemon -c a.yaml || finish
as() { curl -gs -o body -H "Authorization: Bearer 0123456789abcdef-$1" "${@:2}"; }
as alice "$url/api/v1/table?by=comm&where={tenant=\"x%0ay%22\"}"
as alice "$url/api/v1/labels?unknown=hunter2"
as bob "$url/metrics?token=hunter2"
as nobody "$url/api/v1/labels"
curl -gs -o body "$url/api/v1/labels?token=hunter2"
as alice -H 'Content-Type: application/json' -d '{"name":"tenant"}' \
	"$url/querier.v1.QuerierService/LabelValues"
as carol --data-binary 'a;b 1' "$url/ingest?name=app"
captured() { [ "$(as carol -w '%{http_code}' "$url/debug/pprof/profile?seconds=1&hz=99")" = 200 ]; }
within 40 captured # not before it is known what memory the daemon leaves
as alice "$url/healthz"
chmod 711 .
setpriv --reuid 12345 --regid 12345 --clear-groups curl -gs --unix-socket "$dir/sock" http://x/api/v1/labels >body
chmod 700 .
has() { jq -es "map(select($1)) | length == ${2:-1}" daily/audit.log; }
ok "every line is JSON" jq -es 'length >= 9' daily/audit.log
ok "who asked for a table" has \
	'.who == "token:alice" and .path == "/api/v1/table" and .params == {by: "comm", where: "{tenant=\"x\ny\"\"}"} and .status == 400'
ok "a parameter that is unknown is not told" has '.status == 400 and .params == {}'
ok "a refusal for want of a scope" has '.who == "token:bob" and .path == "/metrics" and .status == 403'
ok "wrong tokens are nobody's" has '.who == "-" and .status == 401' 2
ok "what a call asks" has '.body == "{\"name\":\"tenant\"}" and .method == "POST" and .status == 200'
ok "what was sent, without what it was" has '.who == "token:carol" and .path == "/ingest" and .status == 200 and .body == null and .params == null'
ok "a capture" has '.who == "token:carol" and .params == {seconds: "1", hz: "99"} and .status == 200 and .bytes > 100'
ok "a user of the socket" has '.who == "uid:12345" and .peer == "unix" and .status == 200'
ok "where from, when, how much" jq -es 'map(select(.peer == "unix" or (.peer | startswith("127.0.0.1:")))) | length >= 9' daily/audit.log
ok "and at what cost" jq -es 'map(select(.time | test("^20..-..-..T..:..:..\\....Z$"))) | length >= 9' daily/audit.log
ok "no secret is in it" sh -c "! grep -E 'hunter2|0123456789abcdef' daily/audit.log"
ok "it is root's alone" test "$(stat -c '%a %u' daily/audit.log)" = "600 0"
for _ in $(seq 100); do as nobody "$url/api/v1/labels"; done
ok "who has no token does not fill it" test "$(grep -c '"who":"-"' daily/audit.log)" -le 62
as alice "$url/metrics"
ok "what is left out is counted" grep -qE '^ascribe_http_audit_lost_total [3-9][0-9]' body

# ---- its bytes ----
flood() {
	curl -s -o /dev/null -H "Authorization: Bearer 0123456789abcdef-alice" \
		"$url/api/v1/labels?limit=[1-150]"
}
flood
ok "it begins anew" within 5 test -s daily/audit.log.1
flood
for _ in 1 2 3 4; do flood; done
size=$(cat daily/audit.log* | wc -c)
ok "both are bounded: $size" test "$size" -le 65536
ok "and whole" jq -es 'length > 10' daily/audit.log.1
sleep 5 # an idle recorder looks so often
as bob "$url/api/v1/values?key=newest"
ok "the newest is there" within 5 grep -q newest daily/audit.log daily/audit.log.1
mv daily/audit.log moved && rm moved
ok "one that was removed is made again" within 15 test -e daily/audit.log
as alice "$url/api/v1/labels"
ok "and written to" within 5 grep -q token:alice daily/audit.log

# ---- a reload, and none ----
kill -HUP "$pid"
until_says reloaded
within 10 as alice "$url/api/v1/findings"
ok "the next server goes on with it" within 5 grep -q '/api/v1/findings' daily/audit.log
sed -i 's/^audit-max.*/audit-max: 0/' a.yaml
before=$(cat daily/audit.log | wc -l)
kill -HUP "$pid"
within 10 sh -c "[ \$(grep -c reloaded log) = 2 ]"
within 10 as alice "$url/api/v1/labels"
ok "switched off" test "$(wc -l <daily/audit.log)" = "$before"
as alice "$url/metrics"
ok "nothing is lost then" sh -c "! grep -q audit_lost body"
kill "$pid"
wait "$pid"
ok "the store is good with it" "$ascribe" store verify daily
finish
