#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Quotas of tokens and of users of a Unix socket, and that who asks much does not slow who asks
# little. As root.
. "$(dirname "$0")/lib.bash"

# ---- a greedy token and a modest one ----
"$build/tests/mkstore" store crowd >/dev/null || exit 1
cat >tokens <<T
greedy 0123456789abcdef-greedy read
modest 0123456789abcdef-modest read
T
serve log "$ascribe" serve store -l 127.0.0.1:0 --tokens-file tokens || finish
ok "the modest one is answered first" python3 "$here/quota.py" "${url%%/#*}" \
	0123456789abcdef-greedy 0123456789abcdef-modest
kill "$pid"

# ---- what is over is refused ----
needs_recording
command -v setpriv >/dev/null || skip "no setpriv"
cat >a.yaml <<Y
store: $dir/daily
listen: [127.0.0.1:0, unix:$dir/sock]
socket-mode: 0666
tokens-file: $dir/tokens
quota-cpu: 1
quota-bytes: 2MiB
Y
chmod 711 .
serve log2 "$ascribe" daemon -c a.yaml || finish
bearer() { printf 'Authorization: Bearer 0123456789abcdef-%s' "$1"; }
codes() {
	curl -s -o /dev/null -w '%{http_code} %header{retry-after}\n' -H "$(bearer greedy)" "$@"
}
ok "bytes are used up" grep -qE '^429 [1-9]' <(codes "$url/metrics?n=[1-300]")
refused 429 'quota-bytes' -H "$(bearer greedy)" "$url/api/v1/labels"
gets 200 ok -H "$(bearer greedy)" "$url/healthz"
gets 200 keys -H "$(bearer modest)" "$url/api/v1/labels"
as_user() {
	setpriv --reuid "$1" --regid "$1" --clear-groups curl -gs --unix-socket "$dir/sock" \
		"${@:2}" >body
}
as_user 12345 http://x/api/v1/labels
ok "a user of the socket is served" grep -q keys body
gets 200 'who="uid:12345"' --unix-socket sock http://x/metrics
ok "who asked what is counted" grep -qE '^ascribe_http_asker_bytes_total\{who="token:greedy"\} [0-9]{7}' body
ok "and what was refused" grep -qE 'quota_refused_total\{who="token:greedy",what="bytes"\} [1-9]' body
ok "not of the others" grep -qE 'quota_refused_total\{who="token:modest",what="bytes"\} 0' body
head -c 1500000 /dev/zero >zeros
for _ in 1 2; do as_user 12345 --data-binary @zeros 'http://x/ingest?name=x'; done
as_user 12345 http://x/api/v1/labels
ok "what is sent counts, by user" grep -q quota-bytes body
as_user 12346 http://x/api/v1/labels
ok "another user is served" grep -q keys body
chmod 700 .
sed -i 's/^quota-bytes.*/quota-bytes: 0/' a.yaml
kill -HUP "$pid"
until_says reloaded log2
answers() { curl -sf -H "$(bearer "$1")" "$url/api/v1/labels" | grep -q "$2"; }
ok "a reload changes them" within 20 answers greedy keys
ok "there is a window" within 40 answers modest comm
ok "CPU time is used up" grep -qE '^429 [1-9]' <(codes "$url/api/v1/flame?max_nodes=[1000-9999]")
refused 429 quota-cpu -H "$(bearer greedy)" "$url/api/v1/labels"
kill "$pid"
wait "$pid"
finish
