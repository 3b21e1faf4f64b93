#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tokens with names and scopes: what each may do, and that one that reads by a selector sees nothing
# of others through any path of the server.
. "$(dirname "$0")/lib.bash"
routes=$here/../../user/http/routes.c
"$build/tests/mkstore" store >/dev/null || exit 1
cp -r store alone
"$ascribe" store delete alone -w '{tenant!="a"}' >/dev/null || exit 1
for i in $(seq 30); do echo "zed_main;zed_function_$i;zed_leaf_$i $i"; done |
	"$ascribe" import folded - -o store -l tenant=zed,zedkey=zedvalue,comm=zedcomm \
		--from 2026-05-01T10:00:01Z 2>/dev/null || exit 1
token_of() { printf '%s-0123456789abcdef' "$1"; }
cat >tokens <<T
# name token scopes
mine   $(token_of mine)   read {tenant="a"}
not-b  $(token_of not-b)  read {tenant!="b", comm=~".*"}
whole  $(token_of whole)  read
send   $(token_of send)   ingest
high   $(token_of high)   capture, ingest
boss   $(token_of boss)   admin
T
bearer() { printf 'Authorization: Bearer %s' "$(token_of "$1")"; }

serve log1 "$ascribe" serve alone -l 127.0.0.1:0 --anonymous || finish
alone=$url
serve log2 "$ascribe" serve store -l "127.0.0.1:0,unix:$dir/sock" --tokens-file tokens || finish
url=${url%%/#*}
for part in fresh again; do # and from the cache
	ok "by a selector ($part)" python3 "$here/scope.py" "$routes" "$url" \
		"$(token_of whole)" "$(token_of mine)" "$alone"
done
curl -sf -H "$(bearer not-b)" "$url/api/v1/values?key=tenant" |
	jq -c '[.values[].value] | sort' >seen
ok "what has no such label is not seen" grep -qxF '["","<script>alert(1)</script>","a"]' seen

# ---- scopes ----
gets 200 rows -H "$(bearer whole)" "$url/api/v1/table"
gets 200 ascribe -H "$(bearer whole)" "$url/metrics"
gets 200 rows -H "$(bearer boss)" "$url/api/v1/table"
refused 403 'scope read' -H "$(bearer send)" "$url/api/v1/table"
refused 403 'scope read' -H "$(bearer high)" "$url/debug/pprof/profile"
refused 403 'scope ingest' -H "$(bearer whole)" -d 'a;b 1' "$url/ingest?name=x"
refused 403 'scope ingest' -H "$(bearer mine)" -d 'a;b 1' "$url/ingest?name=x"
gets 501 'no daemon' -H "$(bearer send)" -d 'a;b 1' "$url/ingest?name=x"
gets 501 'no daemon' -H "$(bearer boss)" -d 'a;b 1' "$url/ingest?name=x"
gets 501 'no daemon' -H "$(bearer whole)" "$url/debug/pprof/profile?hz=99&seconds=1"
gets 501 'no daemon' -H "$(bearer high)" "$url/debug/pprof/profile?hz=99&seconds=1"
refused 401 'wrong token' -H "$(bearer nobody)" "$url/api/v1/table"
gets 200 rows --unix-socket sock http://x/api/v1/table
gets 200 rows -u ":$(token_of mine)" "$url/api/v1/table"

# ---- files that make no sense ----
wrong() { # text, line
	printf 'good 0123456789abcdefg read\n%s\n' "$2" >bad
	"$ascribe" serve store -l 127.0.0.1:0 --tokens-file bad 2>say
	ok "exit 2: $2" test $? = 2
	ok "$1" grep -qF -- "line 2: $1" say
	ok "no token is told" sh -c '! grep -q 0123456 say'
}
wrong 'a token has 16' 'a short read'
wrong 'a scope is read, ingest' 'a 0123456789abcdef write'
wrong 'a has no scope' 'a 0123456789abcdef'
wrong 'the name good is there twice' 'good 0123456789abcdef read'
wrong 'a has the token of good' 'a 0123456789abcdefg read'
wrong 'a name has' 'a/b 0123456789abcdef read'
wrong 'read is there twice' 'a 0123456789abcdef read, read'
wrong 'a selector without its }' 'a 0123456789abcdef read {tenant="a}"'
wrong 'selector, column' 'a 0123456789abcdef read {tenant}'
wrong 'the selector names no label' 'a 0123456789abcdef read {}'
wrong '`event` and `wait`' 'a 0123456789abcdef read {tenant="a",event="cpu-clock"}'
wrong "'by.comm' is no label" 'a 0123456789abcdef read {by.comm="a"}'
wrong 'admin sees everything' 'a 0123456789abcdef admin read {tenant="a"}'
chmod 666 tokens
"$ascribe" serve store -l 127.0.0.1:0 --tokens-file tokens 2>say
ok "a file that others may change" grep -q 'other users may change it' say
finish
