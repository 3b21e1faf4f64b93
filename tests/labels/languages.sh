#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Labels in Rust, Python, Node, Java and Go: the programs of examples/, as they stand. Each measures
# the CPU time of its labels by its threads' clocks; the recording must say the same.
. "$(dirname "$0")/../record/lib.bash"
here=$source_root/tests/record
lib=$build/libascribe-label.so bindings=$source_root/lib/label examples=$source_root/examples
[ -e "$lib" ] || skip "no $lib: make"
# Where rustc is rustup's: HOME is a new directory.
export RUSTUP_HOME=${RUSTUP_HOME:-$(eval echo "~$(id -un)")/.rustup}
export ASCRIBE_LABEL_LIB=$lib LD_LIBRARY_PATH=$build PYTHONDONTWRITEBYTECODE=1
seconds=$(in_part 0.5 2)

# language, does it name its threads (yes, or no), command...
language() {
	local l=$1 named=$2
	shift 2
	record -F 997 -o "$l" -- "$@" "$seconds"
	tail -1 record.out >"$l.truth"
	"$ascribe" stat "$l" --json >"$l.stat" 2>/dev/null
	report "$l" --by tenant >"$l.tenant"
	report "$l" --by tenant,query_id --where '{tenant=~"a|b"}' >"$l.ids"
	report "$l" --by thread,tenant --where '{tenant=~"a|b"}' >"$l.threads"
	# 10% and 0.1 s: the truth is CPU time of a few seconds, the samples are counted by a clock.
	check "$l: each label for as long as its threads' clocks say" r="$l.tenant" t="$l.truth" -- \
		'all(abs(rows(r)[k]["seconds"] - s) < 0.1 * s + 0.1 for k, s in t.items() if k != "none") and
		{k for k in samples(r) if k} == {k for k in t if k != "none"}' \
		'{k: (round(x["seconds"], 2), round(t.get(k or "none", 0), 2)) for k, x in rows(r).items()}'
	check "$l: 3 to 1" r="$l.tenant" t="$l.truth" -- \
		'(lambda a, b: abs(a / (a + b) - t["a"] / (t["a"] + t["b"])) < 0.03)(
		samples(r)["a"], samples(r)["b"])'
	check "$l: gone at the end of the scope" r="$l.tenant" t="$l.truth" -- \
		'rows(r)[None]["seconds"] > 0.8 * t["none"]'
	check "$l: two labels at once" r="$l.ids" -- \
		'all(sum(n for k, n in samples(r).items() if k == (x, "7")) > 0.97 * sum(n for k, n in
		samples(r).items() if k[0] == x) for x in "ab")' 'samples(r)'
	# All places of labels are known soon: what the library cannot have is not waited for.
	check "$l: known soon" s="$l.stat" -- \
		's["flagged"]["labels_late"] < 0.5 * s["stored"]' 's["flagged"]["labels_late"]'
	[ "$named" = no ] || check "$l: no thread has another's label" r="$l.threads" -- \
		'samples(r) and all(t == x for t, x in samples(r))' 'samples(r)'
}
absent() { echo "      not run: $1 is missing"; }

export PYTHONPATH=$bindings/python
language python yes python3 "$examples/python/tenants.py"

if command -v rustc >/dev/null; then
	ok "Rust builds" rustc --edition 2021 -O -L "$build" -o rust-tenants \
		"$examples/rust/tenants.rs"
	language rust yes ./rust-tenants
else
	absent rustc
fi
if command -v node >/dev/null; then
	NODE_PATH=$bindings/node language node yes node "$examples/node/tenants.js"
else
	absent node
fi
if command -v javac >/dev/null; then
	ok "Java builds" javac -d classes -sourcepath "$bindings/java" "$examples/java/Tenants.java"
	language java yes java -Xshare:auto -cp classes Tenants
else
	absent javac
fi
if command -v go >/dev/null; then
	ok "Go builds" env GOCACHE="$dir/go-cache" GO111MODULE=off GOFLAGS= CGO_ENABLED=0 \
		go build -o go-tenants "$examples/go/tenants.go"
	language go no ./go-tenants
else
	absent go
fi
finish
