#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Labels of OpenTelemetry's spans: the programs of examples/ with its SDKs for Node and Go, as they
# stand. The ids are those that the SDK made, the CPU time is that of the threads' clocks.
. "$(dirname "$0")/../record/lib.bash"
examples=$source_root/examples modules=$source_root/build/npm/otel/node_modules
export ASCRIBE_LABEL_LIB=$build/libascribe-label.so
seconds=$(in_part 0.5 2)

# language, command...
traces() {
	local l=$1
	shift
	record -F 997 -o "$l" -- "$@" "$seconds"
	tail -1 record.out >"$l.truth"
	report "$l" --by trace_id,tenant >"$l.traces"
	report "$l" --by trace_id,span_id,tenant >"$l.spans"
	check "$l: each trace and tenant for as long as its clocks say" r="$l.traces" t="$l.truth" -- \
		'all(abs(seconds(r)[t[k]["trace"], k] - t[k]["seconds"]) < 0.1 * t[k]["seconds"] + 0.1
		for k in "ab") and
		set(samples(r)) == {(t["a"]["trace"], "a"), (t["b"]["trace"], "b"), (None, None)}' \
		'seconds(r), t'
	check "$l: half of it in the span, half in spans inside" r="$l.spans" t="$l.truth" -- \
		'all(abs(seconds(r)[t[k]["trace"], t[k]["span"], k] - t[k]["seconds"] / 2) <
		0.05 * t[k]["seconds"] + 0.1 for k in "ab")' 'seconds(r), t'
	check "$l: gone at the end of the span" r="$l.traces" t="$l.truth" -- \
		'seconds(r)[None, None] > 0.8 * t["none"]["seconds"]'
}

if command -v node >/dev/null; then
	[ -e "$modules/.fetched" ] ||
		(cd "$source_root" &&
			CI= tools/fetch-npm tests/tools/otel build/npm/otel "OpenTelemetry's SDK")
	if [ -e "$modules/.fetched" ]; then
		export NODE_PATH=$source_root/lib/label/node:$modules
		traces node node "$examples/node/traces.js"
	else
		echo "      Node: not run: its SDK cannot be fetched"
	fi
fi
if [ -d /usr/share/gocode/src/go.opentelemetry.io/otel ] && command -v go >/dev/null; then
	mkdir -p gopath/src/ascribeotel
	cp "$source_root/lib/label/go/otel.go" gopath/src/ascribeotel
	ok "Go builds" env GOPATH="$PWD/gopath:/usr/share/gocode" GOCACHE="$dir/go-cache" \
		GO111MODULE=off GOFLAGS= CGO_ENABLED=0 \
		go build -o go-traces "$examples/go/traces.go"
	traces go ./go-traces
else
	echo "      Go: not run: golang-opentelemetry-otel-dev or go is missing"
fi
finish
