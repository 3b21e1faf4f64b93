#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A leak of 1 MiB/s in one of 50 tenants, which all replace 2 MiB/s of what they hold: found within
# a minute, with its function; nobody else is. As root.
. "$(dirname "$0")/lib.bash"
background "$ascribe" record -q -a -d 58s -o leak -e heap 2>recorder.err
recorder=$pid
sleep 1
background env LD_PRELOAD="$build/libascribe-heap.so" "$loads/leaks" 50 37 1024 60
wait "$recorder"
ok "complete" sh -c "'$ascribe' stat leak --json | jq -e '.fired == .stored'"
from=$(("$(date +%s)" - 45))
ok "asked" sh -c "'$ascribe' why leak --metric heap --from $from --json >why.json"
check "tenant 37 leaks, and nobody else" w=why.json -- \
	'w["key"] == "tenant" and [x["value"] for x in w["rows"] if x["grows"]] == ["37"]' \
	'[(x["value"], x["first"], x["last"], x["chance"]) for x in w["rows"]][:3]'
check "at this rate" w=why.json -- '0.6 < w["rows"][0]["bytes_per_second"] / 2**20 < 1.5' \
	'w["rows"][0]["bytes_per_second"]'
check "there" w=why.json -- 'w["rows"][0]["stacks"][0]["frames"][:3] == ["malloc", "leak", "run"]' \
	'w["rows"][0]["stacks"]'
"$ascribe" why leak --metric heap --from "$from" >why.txt
ok "as text" grep -q 'malloc < leak < run' why.txt
exits 2 'heap is the one metric' "$ascribe" why leak --metric alloc_space
exits 1 'a range of two windows' "$ascribe" why leak --metric heap --from "$(($(date +%s) - 15))" \
	--to "$(($(date +%s) - 8))"
finish
