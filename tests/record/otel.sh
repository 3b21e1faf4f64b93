#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our labels stand in OpenTelemetry's variable, too: they are counted once; and beside an SDK in the
# same program both are read.
. "$(dirname "$0")/lib.bash"
build_both() { ${CC:-cc} -O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer -I"$here/../../include" \
	"$@"; }
ok "programs build" eval 'build_both -DSDK -c -o sdk.o "$here/both.c" && build_both -o both "$here/both.c" sdk.o &&
	build_both -o alone -Wl,--export-dynamic-symbol=otel_thread_ctx_v1 "$here/both.c"'
ok "the variable is there for others" eval 'nm -D alone | grep -q "otel_thread_ctx_v1"'
for name in alone both; do
	record -F 499 -o $name.data -- ./$name
	cp record.out $name.truth
	keys=tenant
	[ $name = alone ] || keys=tenant,sdk.route,span_id
	report $name.data --by $keys --where "{comm=\"$name\"}" >$name.json
	"$ascribe" stat $name.data --json >$name.stat 2>/dev/null
done
# The first samples come before the process, or the second of its slots, is known: that is counted.
check "alone: our labels, once" r=alone.json t=alone.truth -- \
	'set(samples(r)) <= {"acme", None} and abs(rows(r)["acme"]["seconds"] - t["with"]) < 0.35 * t["with"]' 'samples(r), t'
ok "and no label of another kind" sh -c "'$ascribe' labels alone.data | grep -c 'sdk\|span_id\|trace_id' | grep -qx 0"
check "beside an SDK: both kinds" r=both.json t=both.truth s=both.stat -- \
	'set(samples(r)) <= {("acme", "/sdk", "cd" * 8), (None, "/sdk", "cd" * 8), (None, None, None), ("acme", None, None)} and
	samples(r).get(("acme", None, None), 0) <= s["flagged"]["labels_late"] and
	abs(rows(r)["acme", "/sdk", "cd" * 8]["seconds"] - t["with"]) < 0.35 * t["with"] and samples(r)[None, "/sdk", "cd" * 8] > 50' \
	'samples(r), t'
finish
