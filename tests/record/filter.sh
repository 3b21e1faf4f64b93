#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --label-keep, --label-drop, --label-redact: what is denied never reaches the disk. The store is
# read as it is and by the second decoder (its blocks are compressed); the recording without a
# filter shows that both would find it.
. "$(dirname "$0")/lib.bash"
load=$loads/secret

# Is any of the patterns anywhere in the store?
in_store() {
	local store=$1 found=1
	shift
	"$source_root/tools/store_decode" "$store" >decoded 2>decoded.err || {
		cat decoded.err
		return 2
	}
	for p in "$@"; do
		grep -qa -- "$p" decoded && found=0
		grep -rqa -- "$p" "$store" && found=0
	done
	return $found
}
not_in_store() {
	in_store "$@"
	[ $? = 1 ]
}

record -F 999 --label-credentials -o open -- "$load" 2 --password=Hy9marker
for p in Zq7markerTokenXw Kp4marker 774411220003 api_token Hy8marker Hy9marker; do
	ok "without a filter $p is in the store" in_store open "$p"
done

record -F 999 -o usual -- "$load" 1 --password=Hy9marker
ok "what looks like a credential is not in the store" not_in_store usual Hy8marker Hy9marker
"$ascribe" stat usual --json >stat.json
check "which is counted" s=stat.json -- 's["flagged"]["label_credential"] > 50' \
	's["flagged"]["label_credential"]'
report usual --by auth --where '{tenant!=""}' >auth.json
check "it has a hash" r=auth.json -- \
	'len(r["rows"]) == 1 and all(k.startswith("redacted:") for k in samples(r))' 'samples(r)'

record -F 999 --label-drop 'api_*,user_id' --label-keep '*,api_region' --label-redact user \
	-o filtered -- "$load" 2
ok "no token, number or name in the store" not_in_store filtered Zq7markerTokenXw Kp4marker \
	774411220 api_token user_id
report open --by user --where '{tenant!=""}' >names.json
report filtered --by user --where '{tenant!=""}' >users.json
report filtered --by tenant,api_region --where '{tenant!=""}' >kept.json
check "as many users as there are, by hashes" r=users.json n=names.json -- \
	'len(r["rows"]) == len(n["rows"]) == 40 and all(k.startswith("redacted:") and len(k) == 25 for k in samples(r))' \
	'len(r["rows"]), len(n["rows"])'
check "every user has some of the time" r=users.json -- 'min(x["seconds"] for x in r["rows"]) > 0.01' \
	'min(x["seconds"] for x in r["rows"])'
check "what is kept is as it was" r=kept.json \
	-- 'set(samples(r)) == {("acme", "eu"), ("globex", "eu")}' 'samples(r)'

record -F 999 --label-keep tenant -o few -- "$load" 0.5
ok "of a keep list the rest is dropped" not_in_store few Zq7markerTokenXw Kp4marker 774411220 \
	api_region api_token 'user=' user_id
report few --by tenant >few.json
check "and the system's labels stay" r=few.json -- 'set(samples(r)) >= {"acme", "globex"}' \
	'samples(r)'

record -F 999 --label-redact user -o again -- "$load" 0.5
report again --by user --where '{tenant!=""}' >again.json
check "another recording has another key" r=users.json a=again.json \
	-- 'not set(samples(r)) & set(samples(a)) and samples(a)'

# The daemon: what is redacted stays the same when recording is changed; what others push goes
# through the same rules.
printf 'store: %s\nlisten: [127.0.0.1:0]\nfrequency: 499\nlabel-drop: [api_*, user_id]\nlabel-redact: [user]\ncpu-max: 0\n' "$dir/lasting" >daemon.yaml
background "$ascribe" daemon -c daemon.yaml 2>daemon.log
daemon=$pid
ok "the daemon begins" until_says recording daemon.log
"$load" 1
url=$(sed -n 's/.* on \(http:.*\)/\1/p' daemon.log)
printf 'main;work 10\n' >pushed.txt
ok "a profile is taken" curl -sSf -H "Authorization: Bearer $(cat lasting/http.token)" \
	--noproxy '*' --data-binary @pushed.txt -H 'Content-Type: text/plain' \
	"$url/ingest?name=shop%7Bapi_token%3DZq7markerTokenXw%2Cuser%3DKp4marker%2Cauth%3DBearer%20Hy8marker.0123456789%7D&format=folded&from=$(($(date +%s) - 5))&until=$(date +%s)"
sed -i s/499/498/ daemon.yaml
kill -HUP "$daemon"
ok "it records anew" until_says 'recording as it is asked for now' daemon.log
"$load" 1
kill "$daemon"
wait "$daemon"
ok "its store has no token, number or name" not_in_store lasting Zq7markerTokenXw Kp4marker \
	774411220 api_token user_id Hy8marker
# Others on the host have labels, too
report lasting --by user --where '{tenant!="",comm="secret"}' >lasting.json
check "no more users than there are, before and after: with another key each would be two" n=names.json r=lasting.json -- \
	'(lambda hashes: 20 < len(hashes) <= len(n["rows"]) and set(samples(r)) - hashes <= {"(other)"})(
	{k for k in samples(r) if k.startswith("redacted:")})' \
	'len(r["rows"]), [k for k in samples(r) if not k.startswith("redacted:")]'
report lasting --by service_name,user --event ingest:cpu --where '{service_name="shop"}' >shop.json
check "what was pushed has its name, and a hash" r=shop.json \
	-- 'all(k[0] == "shop" and k[1].startswith("redacted:") for k in samples(r)) and samples(r)' 'samples(r)'

exits 2 'only means something at the end' "$ascribe" record --label-drop 'a*b' -o bad -- true
exits 2 'two meanings' "$ascribe" record --label-drop a --label-redact a -o bad -- true
exits 2 'more than the 16384' sh -c "'$ascribe' record --label-drop \$(seq -s, 17000) -o bad -- true"
ok "nothing was recorded then" test ! -e bad
finish
