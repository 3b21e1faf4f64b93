#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose labels are not what they should be (hostile.c), beside one that behaves. Its labels
# are unharmed, nothing is lost without a name, and each kind of failure is counted.
. "$(dirname "$0")/lib.bash"
load=$loads/hostile
ok "the program that behaves builds" ${CC:-cc} -O2 -g -D_GNU_SOURCE -o victim "$here/foreign.c" \
	-lpthread
cp "$load" ./floods
cp "$load" ./other

# ---- all kinds at once ----
cat >hostile.recipe <<'RECIPE'
recipe hostile
file hostile
label root = symbol hostile_root deref deref u64 +8
RECIPE
cp "$load" ./liar
cp "$load" ./honest
background "$ascribe" record -q -a -F 1999 --recipes hostile.recipe -o all 2>all.err
recorder=$pid
sleep 0.7
life=$(in_part 8 11) each=$(in_part 1.6 2.5)
background ./victim custom1 "$life" >victim.json
victim=$pid
background ./floods floods "$life" >floods.json
flooder=$pid
background ./honest honest "$life" >/dev/null # its tenant acme has the id that the liar uses
honest=$pid
background ./liar lies "$life" >/dev/null
liar=$pid
for mode in pointers lengths loops changes own; do
	"$load" $mode "$each" >/dev/null || bad "hostile $mode ended with status $?"
done
wait "$victim" "$flooder" "$honest" "$liar"
kill -INT "$recorder"
wait "$recorder"
ok "the recording ended well" test $? = 0
report all --by thread,tenant --where '{comm="victim"}' >victims.json
report all --by comm,tenant --where '{comm=~"liar|honest",tenant!=""}' >lies.json
report all --by x,y --where '{comm="victim",x!="",y!=""}' >xy.json
report all --by floz --where '{comm="floods",floz!=""}' >cut.json
report all --by flow --where '{comm="floods"}' >flow.json
"$ascribe" stat all --json >stat.json 2>/dev/null
check "the labels of the one that behaves are unharmed" r=victims.json -- \
	'all(k[1] in (None, k[0]) for k in samples(r)) and
	sum(n for k, n in samples(r).items() if k[1]) > 0.8 * sum(n for k, n in samples(r).items() if k[0] in ("one", "two"))' 'samples(r)'
check "who lies about an id mislabels himself alone" r=lies.json -- \
	'samples(r)["honest", "acme"] > 50 and all((c == "honest") == (t == "acme") for c, t in samples(r)) and
	any(c == "liar" for c, t in samples(r))' 'samples(r)'
check "none of them is mixed" r=xy.json -- \
	'len(r["rows"]) > 100 and all(int(x) * 7919 % 1000003 == int(y) for x, y in samples(r))' 'len(r["rows"])'
check "texts are cut between two characters" r=cut.json -- \
	'r["samples"] > 100 and all(len(k.encode()) <= 255 and "\ufffd" not in k and k == "z" + 84 * "\u20ac" for k in samples(r))' \
	'{k[-3:]: (n, len(k.encode())) for k, n in samples(r).items()}'
# What is asked for, less what the others take 'f["turns"]'
check "the flood came" f=floods.json -- 'f["turns"] > 4 * 20000'
check "every kind of failure has a name" s=stat.json -- \
	'all(s["flagged"][k] > 0 for k in ("otel_fault", "otel_invalid", "custom_fault", "custom_invalid", "elastic_fault",
	"elastic_invalid", "datadog_invalid", "perforator_fault", "node_fault", "node_invalid", "go_fault", "go_invalid",
	"path_fault", "label_fault", "label_invalid", "labels_cut"))' \
	'{k: v for k, v in s["flagged"].items() if v and ("_fault" in k or "_invalid" in k or "label" in k)}'
check "every sample is accounted for" s=stat.json -- 'exact(s)' 's["fired"], s["stored"]'

# ---- more sets than are kept of one process ----
export ASCRIBE_LABEL_SETS=20
background "$ascribe" record -q -a -F 1999 -o many 2>many.err
recorder=$pid
sleep 0.7
background ./victim custom1 3 >/dev/null
victim=$pid
"./other" floods 3 >/dev/null
wait "$victim"
kill -INT "$recorder"
wait "$recorder"
report many --by flow --where '{comm="other"}' >flow.json
report many --by comm --where '{comm="other"}' >comm.json
report many --by floy --where '{comm="other",flow="(other)"}' >floy.json
report many --by thread,tenant --where '{comm="victim"}' >victims.json
"$ascribe" stat many --json >stat.json 2>/dev/null
check "beyond the limit: (other), and the sum is exact" r=flow.json all=comm.json s=stat.json -- \
	'samples(r).get("(other)", 0) > 20 and sum(samples(r).values()) == all["samples"] and len(r["rows"]) <= 22 and
	s["flagged"]["labels_other"] >= samples(r)["(other)"]' \
	'len(r["rows"]), samples(r)["(other)"], all["samples"]'
check "every key that the process has is (other) then" r=floy.json \
	-- 'set(samples(r)) == {"(other)"}' 'samples(r)'
finish
