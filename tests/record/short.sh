#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 2,000 processes (600 in `make test`) that live 5-20 ms: comm, exe and function names of what is
# long gone when the samples are read. Then the same with binaries that are deleted as soon as they
# run.
. "$(dirname "$0")/lib.bash"
load=$loads/short

judge() { # store, how many processes; truth in record.out
	cp record.out truth.json
	report "$1" --by comm,exe --where '{comm!="short"}' >who.json
	report "$1" --where '{comm!="short"}' >functions.json
	"$ascribe" export "$1" --format folded --where '{comm!="short"}' 2>/dev/null >folded
	"$ascribe" stat "$1" --json >stat.json
	check "$1: >= 99% with the right comm and exe" r=who.json -- \
		"sum(n for (c, e), n in samples(r).items() if c and c[:2] == 's_' and e == '$PWD/' + c) >= 0.99 * r['samples']" \
		'r["samples"], len(r["rows"])'
	check "$1: all eight names" r=who.json -- "{c for c, e in samples(r)} >= {'s_%d' % i for i in range(8)}"
	# Before its main a program is exec and the loader, a sixth of such a life where caches are
	# cold. What is its own has its work_<n>, and nothing of it stays a number.
	ok "$1: functions of the program by name" python3 - <<'PY'
import re
total = named = raw = before = 0
for line in open('folded'):
    stack, n = line.rsplit(' ', 1)
    n = int(n)
    user = [f for f in stack.split(';')[1:] if not f.endswith('_[k]')]
    work = bool(re.search(r';work_[0-3](;|$)', stack))
    total += n
    named += n * work
    before += n * (not work and 'main' not in user)
    raw += n * bool(re.search(r'(^|;)(s_\d|short)( \(deleted\))?\+0x', stack))
print(f'{total}, {named} named, {before} before main or behind it, {raw} without a name')
assert total > 200 and named >= 0.985 * (total - before) and named >= 0.6 * total and raw <= 0.01 * total
PY
	check "$1: stacks reach their root" s=stat.json \
		-- 's["flagged"]["rooted"] >= 0.95 * s["stored"]' 's["flagged"]["rooted"], s["stored"]'
	check "$1: accounting" s=stat.json -- 'exact(s)' 's["fired"], s["stored"], {k: n for k, n in s["lost"].items() if n}'
	report "$1" >all.json
	# Samples of other processes are outside; the launcher itself (copies, forks) is inside, and
	# is not a child.
	check "$1: CPU of the children against their rusage, within 6%" \
		r=who.json every=all.json truth=truth.json -- \
		'r["seconds"] < 1.06 * truth["seconds"] and every["seconds"] > 0.94 * truth["seconds"]' \
		'round(r["seconds"], 2), round(every["seconds"], 2), truth["seconds"]'
}

record -F 99 -o plain -- "$load" launch "$(in_part 600 2000)" 8
judge plain
record -F 199 -o deleted -- "$load" launch "$(in_part 200 300)" 8 delete
judge deleted
ok "they are gone" sh -c '! ls s_0 2>/dev/null'
finish
