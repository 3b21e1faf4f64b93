#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients that are known by their TLS certificates: of the right authority, in time, for clients,
# and with a name that the file of tokens has.
. "$(dirname "$0")/lib.bash"
command -v openssl >/dev/null || skip "no openssl"
"$build/tests/mkstore" store >/dev/null || exit 1

authority() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.pem" -days 2 \
		-subj "/CN=$1" 2>/dev/null
}
signed() { # file, authority, common name, extension, arguments
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$3" \
		2>/dev/null
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -out "$1.pem" \
		-extfile <(echo "extendedKeyUsage=$4") "${@:5}" 2>/dev/null
}
authority ours
authority others
openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.pem -days 2 \
	-subj /CN=localhost 2>/dev/null
signed grafana ours grafana clientAuth -days 2
signed shop ours shop clientAuth -days 2
signed stranger ours stranger clientAuth -days 2
signed foreign others grafana clientAuth -days 2
signed served ours grafana serverAuth -days 2
signed past ours grafana clientAuth -days -1
cat >tokens <<T
grafana certificate read
shop    certificate read {tenant="a"}
other   0123456789abcdef-token read
T
serve log "$ascribe" serve store -l "127.0.0.1:0" --tokens-file tokens --tls-cert server.pem \
	--tls-key server.key --tls-client-ca ours.pem || finish
url=${url%%/#*}
with() { printf '%s\n' -k --cert "$1.pem" --key "$1.key"; }
for version in 1.2 1.3; do
	v=("--tlsv$version" --tls-max "$version")
	mapfile -t c < <(with grafana)
	gets 200 rows "${v[@]}" "${c[@]}" "$url/api/v1/table"
	mapfile -t c < <(with shop)
	gets 200 '"values":[{"value":"a"' "${v[@]}" "${c[@]}" "$url/api/v1/values?key=tenant"
	ok "and nothing else" sh -c "test \$(jq '.values | length' body) = 1"
	gets 403 everybody "${v[@]}" "${c[@]}" "$url/metrics"
	for who in stranger foreign served past; do
		mapfile -t c < <(with $who)
		gets 401 'a token is needed' "${v[@]}" "${c[@]}" "$url/api/v1/table"
	done
	gets 401 'a token is needed' "${v[@]}" -k "$url/api/v1/table"
	gets 200 rows "${v[@]}" -k -H 'Authorization: Bearer 0123456789abcdef-token' "$url/api/v1/table"
done
mapfile -t c < <(with grafana)
gets 401 'wrong token' -k -H 'Authorization: Bearer certificate' "$url/api/v1/table"
gets 200 'who="cert:grafana"' "${c[@]}" "$url/metrics"
for version in 1.0 1.1; do
	ok "no TLS $version" sh -c "! curl -sk --tlsv$version --tls-max $version --ciphers DEFAULT@SECLEVEL=0 --cert grafana.pem --key grafana.key $url/api/v1/table"
done
"$ascribe" serve store -l 127.0.0.1:0 --tokens-file tokens --tls-client-ca ours.pem 2>say
ok "it needs TLS" grep -q 'certificates of clients need TLS' say

# ---- a daemon ----
needs_recording
printf 'store: %s\nlisten: 127.0.0.1:0\ntokens-file: %s\ntls-cert: %s\ntls-key: %s\ntls-client-ca: %s\n' \
	"$dir"/{daily,tokens,server.pem,server.key,ours.pem} >a.yaml
serve log2 "$ascribe" daemon -c a.yaml || finish
gets 200 keys "${c[@]}" "$url/api/v1/labels"
mapfile -t c < <(with foreign)
gets 401 'a token is needed' "${c[@]}" "$url/api/v1/labels"
ok "who it was is logged" jq -es 'map(.who) == ["cert:grafana", "-"]' daily/audit.log
sed -i /^grafana/d tokens
kill -HUP "$pid"
until_says reloaded log2
mapfile -t c < <(with grafana)
is_refused() { test "$(curl -so body -w '%{http_code}' "${c[@]}" "$url/api/v1/labels")" = 401; }
ok "a name that went is nobody's" within 10 is_refused
kill "$pid"
wait "$pid"
finish
