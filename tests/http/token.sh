#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may read a store by default: nobody but whoever has the token. Which files a configuration may
# come from.
. "$(dirname "$0")/lib.bash"
"$build/tests/mkstore" store >/dev/null || exit 1

# ---- serve: a new token each time, in the address that is printed ----
serve log "$ascribe" serve store -l 127.0.0.1:0,unix:"$dir/sock" || finish
token=${url##*#token=} url=${url%%/#*}
ok "a token of 192 random bits" grep -qE '^[0-9a-f]{48}$' <<<"$token"
refused 401 'a token is needed' "$url/api/v1/stat"
refused 401 'a token is needed' "$url/metrics"
refused 401 'a token is needed' "$url/api/v1/stat?token=$token"
refused 401 'a token is needed' -H "Cookie: token=$token" "$url/api/v1/stat"
refused 401 'wrong token' -H "Authorization: Bearer ${token%?}x" "$url/api/v1/stat"
refused 401 'wrong token' -u ":${token%?}x" "$url/api/v1/stat"
gets 200 '<!doctype html>' "$url/"
gets 200 ok "$url/healthz"
gets 200 stored -H "Authorization: Bearer $token" "$url/api/v1/stat"
gets 200 stored -u "anybody:$token" "$url/api/v1/stat"
# Other names of the host: a page of another site knows no token.
gets 200 stored -H "Authorization: Bearer $token" -H 'Host: node-1.example:4041' "$url/api/v1/stat"
gets 200 ok -H 'Host: 10.1.2.3:4041' "$url/healthz"
refused 401 'a token is needed' -H 'Host: node-1.example:4041' "$url/api/v1/stat"
refused 403 'other origins' -H "Authorization: Bearer $token" -H 'Host: node-1.example' \
	-H 'Origin: http://evil.example' "$url/api/v1/stat"
# A proxy may take Authorization for itself.
gets 200 stored -H "X-Ascribe-Token: $token" "$url/api/v1/stat"
gets 200 stored -H "X-Ascribe-Token: $token" -H 'Authorization: Bearer another' "$url/api/v1/stat"
refused 401 'wrong token' -H "X-Ascribe-Token: ${token%?}x" "$url/api/v1/stat"
gets 200 stored --unix-socket sock http://x/api/v1/stat
if command -v go >/dev/null; then
	ok "go tool pprof" sh -c "go tool pprof -top 'http://:$token@${url#http://}/debug/pprof/profile?seconds=3600' 2>&1 | grep -q 'flat%'"
fi
ok "no token stands in what the server sends" sh -c "! curl -s '$url/' '$url/app.js' | grep -q '$token'"
kill "$pid"
wait "$pid" 2>/dev/null
first=$token
serve log2 "$ascribe" serve store -l 127.0.0.1:0 || finish
ok "another token the next time" test "${url##*#token=}" != "$first"
serve log3 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
gets 200 stored "$url/api/v1/stat"

# ---- addresses that other hosts reach ----
says() { # text, arguments
	local text=$1
	shift
	timeout 5 "$ascribe" "$@" >say 2>&1
	ok "refused: $*" sh -c "[ $? = 1 ] || [ $? = 2 ]"
	ok "$text" grep -qF -- "$text" say
}
echo "0123456789abcdef0123" >token
says 'unencrypted' serve store -l 0.0.0.0:0 --token-file token
says 'unencrypted' daemon -s new -l 0.0.0.0:0 --token-file token --check-config
says 'unencrypted' daemon -s new -l 0.0.0.0:0 --check-config
ok "allowed when it is said" "$ascribe" daemon -s new -l 0.0.0.0:0 --token-file token \
	--plain-http --check-config
ok "and without a token" "$ascribe" daemon -s new -l 0.0.0.0:0 --anonymous --check-config

# ---- what a daemon's token is ----
says 'new/http.token' daemon -s new --print-token
ok "asking makes no store" test ! -e new
mkdir own && (umask 077 && echo 0123456789abcdef-own >own/http.token)
ok "that of the store" test "$("$ascribe" daemon -s own --print-token)" = 0123456789abcdef-own
ok "that of a file" test "$("$ascribe" daemon -s own --token-file token --print-token)" = "$(cat token)"
says 'no token' daemon -s own --anonymous --print-token

# ---- files that another user may change, or owns ----
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
	-subj /CN=localhost 2>/dev/null
printf 'tls-cert: %s\ntls-key: %s\ntoken-file: %s\nrecipes: %s\nlisten: 127.0.0.1:0\n' "$dir"/{cert.pem,key.pem,token,my.recipe} >a.yaml
printf 'recipe mine\nfile mine\nlet a = symbol my_label deref\nlabel mine = a cstr 9\n' >my.recipe
ok "a configuration of mine" "$ascribe" daemon -c a.yaml --check-config
for f in a.yaml token cert.pem key.pem my.recipe; do
	for mode in 0666 0620; do
		old=$(stat -c %a $f)
		chmod $mode $f
		says "$f has mode $mode, so other users may change it: run chmod go-w on it" daemon -c a.yaml --check-config
		chmod "$old" $f
	done
	[ "$(id -u)" = 0 ] || continue
	chown 12345 $f
	says "$f belongs to user 12345" daemon -c a.yaml --check-config
	chown 0 $f
done
ok "as before" "$ascribe" daemon -c a.yaml --check-config

# ---- daemon: the token is kept in the store ----
needs_recording
serve log4 "$ascribe" daemon -s "$dir/daily" -l 127.0.0.1:0,unix:"$dir/sock2" || finish
ok "it says where the token is" grep -qF "need the token in $dir/daily/http.token" log4
ok "nobody else may read it" test "$(stat -c '%a %u' daily/http.token)" = "600 0"
ok "it does not say the token itself" sh -c '! grep -qF "$(cat daily/http.token)" log4'
refused 401 'a token is needed' "$url/metrics"
gets 200 ascribe -H "Authorization: Bearer $(cat daily/http.token)" "$url/metrics"
gets 200 ready "$url/readyz" # a kubelet asks without one
gets 200 ready --unix-socket sock2 http://x/readyz
if command -v setpriv >/dev/null; then
	ok "not for another user of this host" sh -c "test \$(setpriv --reuid 1000 --clear-groups curl -so /dev/null -w '%{http_code}' $url/api/v1/stat) = 401"
	ok "nor over the socket" sh -c "! setpriv --reuid 1000 --clear-groups curl -so /dev/null --unix-socket $dir/sock2 http://x/api/v1/stat"
fi
cp daily/http.token before
kill -HUP "$pid"
within 30 grep -q reloaded log4
kill "$pid"
wait "$pid"
serve log5 "$ascribe" daemon -s "$dir/daily" -l 127.0.0.1:0 || finish
ok "the same after a restart" cmp before daily/http.token
gets 200 ascribe -H "Authorization: Bearer $(cat before)" "$url/metrics"
kill "$pid"
wait "$pid"
ok "the store is good with it" "$ascribe" store verify daily
finish
