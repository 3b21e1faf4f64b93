#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How right answers by label are, against programs that log the truth: the wall-clock time of 1,000
# queries (--metric latency), and the lock holders. As root, part of `make bench-probes`.
set -u
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
echo "load $(cut -d' ' -f1 /proc/loadavg)"
# 500 of each of two tenants.
"$build/ascribe" record --latency query_id -F 999 -o q -- \
	"$build/tests/record/latency" queries 500 3 >truth.json 2>record.err || cat record.err
"$build/ascribe" report q --metric latency --by query_id -n 0 --json >queries.json 2>report.err ||
	cat report.err
"$build/ascribe" stat q --json >stat.json
python3 -I -S - <<'PY'
import json
truth, rows, stat = (json.load(open(n + ".json")) for n in ("truth", "queries", "stat"))
ours = {r["key"]["query_id"]: r["seconds"] for r in rows["rows"]}
logged = truth["queries"]
sum_of = sum(ours.get(k, 0) for k in logged)
off = 100 * (sum_of / sum(logged.values()) - 1)
one = sorted(abs(ours.get(k, 0) / w - 1) for k, w in logged.items())
lost = 100 * stat["lost"].get("not_run", 0) / max(stat["fired"], 1)
print("figure", "latency/query", "ascribe", abs(off), sep="\t")
print(f"one query, median {100 * one[len(one) // 2]:.1f}%; the host had no time for {lost:.1f}% of the samples")
PY
# The test prints the scores that it judges.
BUILD=$build bash "$here/../record/locks.sh" >locks.out 2>&1
sed -n 's/.*and of the waits[^(]*(\([0-9.]*\), \([0-9]*\),.*/\1 \2/p' locks.out | awk '
	{ printf "figure\tlatency/lock\tascribe\t%.2f\n", 100 * $1 }
	END { if (!NR) print "lock holders: no score: run tests/record/locks.sh" }'
