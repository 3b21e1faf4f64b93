#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# examples/: labels that go with a task from thread to thread. The share of each task against what
# the task itself measured.
. "$(dirname "$0")/lib.bash"

# NAME KEYS SECONDS [WORD]: the example's labels, by these keys; WORD is what the truth calls no
# second label.
example() {
	local name=$1 keys=$2 seconds=$3 word=${4:-}
	record -F 999 -o "$name.data" -- "$build/examples/$name" "$seconds"
	cp record.out truth.json
	report "$name.data" --by "$keys" --where "{comm=\"$name\"}" >shares.json
	# {"acme parse": samples, ...}, "" for what has no label of the task's
	python3 - "$word" >got.json <<-'END'
	import json, sys
	got = {}
	for x in json.load(open("shares.json"))["rows"]:
	    v = list(x["key"].values())
	    k = " ".join(p for p in (v[0], *(q or sys.argv[1] for q in v[1:])) if p) if v[0] else ""
	    got[k] = got.get(k, 0) + x["samples"]
	json.dump(got, sys.stdout)
	END
	check "$name: the share of every task" got=got.json truth=truth.json -- \
		'all((lambda lo, hi: lo <= truth[k] / sum(truth.values()) <= hi)
		(*wilson(got[k], sum(got[t] for t in truth), 3.29)) for k in truth)' 'got, truth'
	check "$name: nearly nothing else" got=got.json truth=truth.json -- \
		'sum(got[k] for k in got if k not in truth) < 0.2 * sum(got.values())' 'sum(got.values())'
}

example coroutines tenant,step 1
example thread_pool tenant,step 1
example poll task 0.8
example event_loop tenant,step 0.8 read
if "$build/examples/uring" 0.01 >uring.out; then
	example uring tenant,step 0.8 read
else
	ok "uring: left out, $(tail -1 uring.out)" test $? = 77
fi
finish
