#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits of a token that reads by a selector: two programs share a CPU, and one wakes the other. Who
# may see one sees its waits, and nothing of the other one: neither that it was running, nor that it
# woke anybody. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
routes=$here/../../user/http/routes.c
cp "$(command -v bash)" scope_a
cp "$(command -v dash || echo /bin/sh)" scope_b
mkfifo pipe
# shellcheck disable=SC2016
spin='i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done'
background taskset -c 0 ./scope_a -c "exec <pipe; while read -r -t 5 x; do $spin; done"
background taskset -c 0 ./scope_b -c "exec >pipe; while :; do echo x; $spin; done"
background taskset -c 0 ./scope_b -c 'while :; do :; done'
"$ascribe" record -q --wall --waker -F 99 -d 6s -o store || bad "no recording"
cat >tokens <<T
a 0123456789abcdef-a read {comm="scope_a"}
whole 0123456789abcdef-whole read
T
serve log "$ascribe" serve store -l 127.0.0.1:0 --tokens-file tokens || finish
url=${url%%/#*}
get() { curl -sfg -H "Authorization: Bearer 0123456789abcdef-$1" "$url$2"; }
get whole '/api/v1/blame?where={comm="scope_a"}' >whole.json
get a /api/v1/blame >a.json
ok "who sees all sees who was running" jq -e '[.occupants[].occupant] | index("scope_b")' whole.json
ok "the other one is (other)" jq -e \
	'[.occupants[] | .nobody // .occupant] | index("(other)") != null and index("scope_b") == null' a.json
ok "the time is the same" sh -c \
	"[ \"\$(jq '.seconds * 1e6 | round' a.json)\" = \"\$(jq '.seconds * 1e6 | round' whole.json)\" ]"
ok "the victim is its own" jq -e '[.victims[].victim] == ["scope_a"]' a.json
get whole '/api/v1/why?where={comm="scope_a"}' >whole.json
ok "why tells it apart, too" sh -c "grep -q scope_b whole.json"
{ echo scope_b && get whole '/export/folded.txt?where={comm="scope_b"}' | grep -o 'scope_b[^; ]*'; } |
	sort -u >theirs
ok "nothing of it through any path" python3 "$here/scope.py" "$routes" "$url" \
	0123456789abcdef-whole 0123456789abcdef-a <theirs
finish
