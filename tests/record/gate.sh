#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A gate for CI on real programs: deploy/ci/compare-runs fails one whose function does 40% more,
# passes the same one twice, and says when a run failed. docs/ci.md has the figures for 5%.
. "$(dirname "$0")/lib.bash"
export ASCRIBE=$ascribe
compare=$source_root/deploy/ci/compare-runs load=$loads/gated
rules=(--fail-on 'function="parse" > 1%' --fail-on 'function="render" > 1%')
run() {
	"$compare" -n 3 -F 4999 -o "$1" "$load 12000 0" "$load 12000 $2" -- "${rules[@]}" "${@:3}"
}

run grown 40 --json >grown.json 2>grown.err
status=$?
[ -s grown.json ] || bad "compare-runs: $(cat grown.err)"
check "a function that does 40% more fails the gate, and it alone" d=grown.json -- \
	"$status == 1 and [r['verdict'] for r in d['gate']['rules']] == ['broken', 'holds']" \
	"d['gate']['rules'][0]['why']"
# By the work itself: parse() has 20,000 and 28,000 rounds, render() 14,000 in both.
check "its CPU time grew as its work did" d=grown.json -- \
	'1.25 < (lambda r: r["seconds"][0] / r["seconds"][1])([r for r in d["rows"] if r["function"] == "parse"][0]) < 1.55' \
	'[(r["function"], r["seconds"]) for r in d["rows"][:2]]'
run same 0 --json >same.json 2>same.err
status=$?
check "the same program twice passes" d=same.json -- \
	"$status == 0 and d['gate']['holds']" "[r.get('note') for r in d['gate']['rules']]"
ok "each side was recorded three times" \
	test "$(find same -maxdepth 1 -type d -name '*.[123]' | wc -l)" = 6
ok "the recordings keep what is required of them" "$ascribe" stat same/base.1 same/head.1 \
	--require 'lost < 5%' --require 'rooted > 90%' --require 'stored >= 100'

exits 1 'run 1 of head failed' "$compare" -n 1 -o bad "$load 10" "sh -c 'exit 3'" -- "${rules[@]}"
exits 2 'usage' "$compare" -n 0 a b
exits 2 'usage' "$compare" -n 31 a b
exits 2 'usage' "$compare" a
exits 2 'usage' "$compare" a b --fail-on 'total>1%'
exits 2 'expected > or <' "$compare" -n 1 "$load 10" "$load 10" -- --fail-on 'function'
finish
