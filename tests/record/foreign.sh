#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Labels that programs publish in other ways than ours. They do so by the published layouts
# (foreign.c), in every way that a thread-local variable can be found, with glibc and musl. Others
# do so by Go's own runtime/pprof. The programs say nothing about us.
. "$(dirname "$0")/lib.bash"
cc=${CC:-cc}
flags="-O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer"
src=$here/foreign.c

ok "programs and libraries build" sh -ec "
	$cc $flags -o plain $src -lpthread
	$cc $flags -DCUSTOM_VERSION=0 -o plain0 $src -lpthread
	$cc $flags -DGO_VERSION='\"\\x08go1.24.1\"' -DGO_CURG=192 -DGO_LABELS=352 -o go124 $src -lpthread
	$cc $flags -DGO_VERSION='\"\\x08go1.25.3\"' -DGO_CURG=184 -DGO_LABELS=344 -o go125 $src -lpthread
	$cc $flags -DGO_VERSION='\"\\x08go1.26.0\"' -DGO_CURG=184 -DGO_LABELS=352 -o go126 $src -lpthread
	$cc $flags -static -o static $src -lpthread
	$cc $flags -DHOST -o host $src -lpthread
	$cc $flags -fPIC -shared -DLIBRARY -DBALLAST=4000 -o gd.so $src
	$cc $flags -fPIC -shared -DLIBRARY -DBALLAST=4000 -mtls-dialect=gnu2 -o desc.so $src
	$cc $flags -fPIC -shared -DLIBRARY -mtls-dialect=gnu2 -o sdesc.so $src
	$cc $flags -fPIC -shared -DLIBRARY -ftls-model=initial-exec -o ie.so $src"
musl= go=
if command -v musl-gcc >/dev/null; then
	musl=1
	ok "the same with musl" sh -ec "
		musl-gcc $flags -o musl $src
		musl-gcc $flags -static -o mstatic $src
		musl-gcc $flags -DHOST -o mhost $src
		musl-gcc $flags -fPIC -shared -DLIBRARY -o mgd.so $src
		musl-gcc $flags -fPIC -shared -DLIBRARY -mtls-dialect=gnu2 -o mdesc.so $src"
fi
if command -v go >/dev/null; then
	go=1
	export GOCACHE=$build/gocache GOFLAGS=-mod=mod # kept: the runtime's packages take long
	ok "Go programs build" sh -ec "
		go build -o go-plain $here/golabels.go
		go build -ldflags='-s -w' -o go-strip $here/golabels.go"
fi


# While musl's dynamic linker works, threads have no variables yet, but a thread pointer: here that
# takes a while.
if [ -n "$musl" ]; then
	awk 'BEGIN { print ".data"; for (i = 0; i < 1000; i++) print ".globl s" i "\ns" i ": .quad 0"
		print ".rept 400"; for (i = 0; i < 1000; i++) print ".quad s" i; print ".endr" }' >slow.s
	ok "a library that is slow to link builds" sh -ec "
		musl-gcc -shared -nostdlib -o slow.so slow.s
		musl-gcc $flags -o mslow $src -Wl,--no-as-needed ./slow.so"
	record -F 1999 -o slow -- ./mslow perforator 0.3
	report slow --by thread,tenant >slow.json
	"$ascribe" stat slow --json >slow-stat.json 2>/dev/null
	check "before there are variables none is read" r=slow.json s=slow-stat.json -- \
		'not any(v for k, v in s["flagged"].items() if k.endswith("_invalid")) and
		all(t in (None, k) for k, t in samples(r)) and samples(r).get(("one", "one"), 0) > 10' \
		'samples(r), {k: v for k, v in s["flagged"].items() if v}'
fi

# What used an attribute before it had a name has it once there is one, in the same window: those
# end with each ten seconds. The new processes are what makes the recorder look at definitions
# meanwhile.
while [ $(($(date +%s) % 10)) -gt 5 ]; do sleep 0.1; done
record -F 499 -o late -- bash -c './plain otel_late 2 & while kill -0 $! 2>/dev/null; do (for ((i = 0; i < 20000; i++)); do :; done); done'
report late --by thread,tenant --where '{comm="plain"}' >late.json
check "names that are published late count for what came before" r=late.json -- \
	"all(samples(r)[k, k] > 2 * samples(r).get((k, None), 0) for k in ('one', 'two'))" 'samples(r)'

report late --by comm,x,y --where '{comm="plain",y!=""}' >late-xy.json
check "and win over those of the next source" r=late-xy.json -- \
	'len(r["rows"]) > 30 and all(int(x) * 7919 % 1000003 == int(y) for c, x, y in samples(r))' \
	'len(r["rows"]), [k for k in samples(r) if int(k[1]) * 7919 % 1000003 != int(k[2])][:3]'

# A label path that starts at a library's thread-local variable: the first label of its set of
# custom-labels.
cat >library.recipe <<'RECIPE'
recipe library
file gd.so
file desc.so
file sdesc.so
file ie.so
file mgd.so
label path_tenant = symbol custom_labels_current_set deref deref text 24 +24 +16
label path_ballast = symbol ballast u8 nonzero
RECIPE
names=()
# One command, so that no other process of the host counts. Four at a time.
: >commands
together() {
	started_together=$((${started_together:-0} + 1))
	echo "$* >/dev/null &" >>commands
	[ $((started_together % 4)) != 0 ] || echo wait >>commands
}
# name:program:ABI:library; each process has a name of its own
programs=(otel:plain:otel: custom1:plain:custom1: custom0:plain0:custom0: elastic:plain:elastic: \
	datadog:plain:datadog:
	perforator:plain:perforator: static:static:otel: gd:host:otel:gd.so desc:host:otel:desc.so \
		sdesc:host:otel:sdesc.so
	ie:host:otel:ie.so gdcustom:host:custom1:gd.so desccustom:host:custom1:desc.so \
		iecustom:host:custom1:ie.so
	go124:go124:go: go125:go125:go: go126:go126:go:)
[ -z "$musl" ] || programs+=(musl:musl:otel: mstatic:mstatic:custom1: mgd:mhost:otel:mgd.so \
	mdesc:mhost:otel:mdesc.so mgdcustom:mhost:custom1:mgd.so)
for p in "${programs[@]}"; do
	IFS=: read -r name program abi library <<<"$p"
	cp "$program" "r-$name"
	names+=("r-$name")
	together "./r-$name" "$abi" 2 ${library:+"./$library"}
done
if [ -n "$go" ]; then
	for p in go-plain go-strip; do together "./$p" 2; done
fi
echo wait >>commands
record -F 499 --recipes library.recipe -o all -- bash commands

report all --by comm,thread,tenant >tenants.json
report all --by comm,thread,path_tenant,path_ballast \
	--where '{comm=~"r-.*custom",path_tenant!=""}' >paths.json
report all --by comm,x,y --where '{x!="",y!=""}' >xy.json
report all --by comm,thread,trace_id --where '{comm=~"r-.*"}' >traces.json
report all --by comm,span_id,transaction_id --where '{comm="r-elastic",span_id!=""}' >elastic.json
report all --by comm,span_id,local_root_span_id --where '{comm="r-datadog",span_id!=""}' \
	>datadog.json
report all --by text --where '{comm="r-otel"}' >text.json

for name in "${names[@]}"; do
	case $name in
	r-elastic | r-datadog) continue ;; # have no tenant
	esac
	# A thread's first samples come before its process is known: on a busy host many of them.
	check "$name: each thread has its own labels" r=tenants.json -- \
		"(lambda v: {k[2] for k in v} >= {'one', 'two'} and all(k[2] in (None, k[1]) for k in v))({k: n for k, n in samples(r).items()
		if k[0] == '$name' and k[1] in ('one', 'two')})" \
	"{k[1:]: n for k, n in samples(r).items() if k[0] == '$name'}"
done
if [ -n "$go" ]; then
	for name in go-plain go-strip; do
		check "$name: goroutines' labels, and none on the one without" r=tenants.json -- \
			"(lambda v: v['one'] > 3 and v['two'] > 3 and v[None] > 3)((lambda c: [c.update({k[2]: c.get(k[2], 0) + n})
			for k, n in samples(r).items() if k[0] == '$name'] and c)({}))" \
	"{k[2]: n for k, n in samples(r).items() if k[0] == '$name'}"
	done
	check "Go: each of the workers' labels is whole" r=xy.json -- \
		'sum(n for k, n in samples(r).items() if k[0].startswith("go-")) > 20' \
		'sum(n for k, n in samples(r).items() if k[0].startswith("go-"))'
fi
halves='[(k, n) for k, n in samples(r).items() if int(k[1]) * 7919 % 1000003 != int(k[2])]'
check "no sample with half of one set and half of another" r=xy.json -- \
	"sum(samples(r).values()) > 100 and not $halves" "sum(samples(r).values()), ${halves}[:5]"
check "trace ids of the thread" r=traces.json -- \
	'all(i in (None, ("%02x" % ord(t[0])) * 16) for c, t, i in samples(r)) and
	{c for c, t, i in samples(r) if i} >= {"r-otel", "r-elastic", "r-gd"}' '{(c, i) for c, t, i in samples(r) if i}'
check "Elastic: span and transaction belong together" r=elastic.json -- \
	'len(r["rows"]) > 10 and all((lambda x, y: x * 7919 % 1000003 == y)(*(int.from_bytes(bytes.fromhex(v), "little")
	for v in k[1:])) for k in samples(r))' 'len(r["rows"])'
check "Datadog: span and root span belong together" r=datadog.json -- \
	'len(r["rows"]) > 10 and all(int(x) * 7919 % 1000003 == int(y) for c, x, y in samples(r))' 'len(r["rows"])'
check "a record of more than one read" r=text.json \
	-- '"a value of some length, so that the record has two parts" in samples(r)' 'samples(r)'
check "label paths from a library's thread-local variables" r=paths.json -- \
	"{k[0] for k in samples(r)} == set('r-gdcustom r-desccustom r-iecustom ${musl:+r-mgdcustom}'.split()) and
	all(t == p and b == '1' for c, t, p, b in samples(r))" 'samples(r)'
"$ascribe" stat all --json >stat.json 2>/dev/null
check "nothing was malformed" s=stat.json -- \
	'not any(v for k, v in s["flagged"].items() if k.endswith("_invalid"))' \
	'{k: v for k, v in s["flagged"].items() if v and (k.endswith("_invalid") or k.endswith("_fault") or "label" in k or "key" in k)}'
finish
