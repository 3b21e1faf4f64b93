#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ascribe report` for people: who and where, as wide as the terminal, and the calls, against the
# folded stacks.
. "$(dirname "$0")/lib.bash"

# ---- who, then where ----
cp -r store copy
"$ascribe" report store >both.txt 2>both.err
"$ascribe" report store --by tenant -n 10 >who.txt 2>/dev/null
"$ascribe" report store --by function -n 15 >where.txt 2>/dev/null
ok "who is by the label that covers most samples" diff <(sed -n '/SHARE/,/^$/p' both.txt) \
	<(sed -n '/SHARE/,$p' who.txt; echo)
ok "where is by function" diff <(sed -n '/SELF%/,$p' both.txt) <(sed -n '/SELF%/,$p' where.txt)
"$ascribe" report store --where 'tenant!~".+"' >none.txt 2>/dev/null
ok "by process where no label covers half" grep -q 'SHARE.* comm$' none.txt
"$ascribe" report store copy --where 'tenant!~".+"' >hosts.txt 2>/dev/null
ok "nor by host, which every sample of several stores has" grep -q 'SHARE.* comm$' hosts.txt
# Rows, heads, idle CPUs
ok "-n is for both" test "$("$ascribe" report store -n 2 2>/dev/null | grep -c '%')" = 7
ok "nothing for nothing" sh -c "./ascribe report empty 2>/dev/null | grep -q 'nothing: 0 samples'"

# ---- the columns, in the order that the rows are in: what is sorted by comes before the rest ----
columns() { # what, the heads, arguments of report
	local what=$1 heads=$2
	shift 2
	"$ascribe" report store "$@" 2>/dev/null | grep -m 1 'SELF%\|SHARE' | tr -s ' ' >heads.txt
	ok "columns $what" test "$(cat heads.txt)" = " $heads"
}
columns "of functions" 'SAMPLES SECONDS SELF% TOTAL% 95% INTERVAL FUNCTION' --by function
columns "of a label" 'SAMPLES SECONDS SHARE 95% INTERVAL tenant' --by tenant
columns "of two labels" 'SAMPLES SECONDS SHARE 95% INTERVAL tenant comm' --by tenant,comm
columns "of the calls" 'TOTAL% SELF% CALLS' --tree
columns "with the change" 'SAMPLES SECONDS SELF% TOTAL% CHANGE 95% INTERVAL FUNCTION' \
	--by function --from 2026-05-01T10:00:10Z --before 2026-05-01T10:00:00Z
ok "rows are sorted by SELF%" sh -c "sed -n '/SELF%/,\$p' where.txt | awk '/^ *[0-9]+ +[0-9.]+ / { print \$3 + 0 }' >self.txt; test \$(wc -l <self.txt) = 15 && sort -c -g -r self.txt"
ok "one SELF% in all of a report" test "$(grep -o 'SELF%' both.txt | wc -l)" = 1

# ---- names: short, whole where nothing is cut off ----
"$ascribe" report store --by function -n 0 >simple.txt 2>/dev/null
"$ascribe" report store --by function -n 0 --full-names >full.txt 2>/dev/null
ok "without parameters" sh -c "grep -q 'serve_request  ' simple.txt && ! grep -q 'serve_request(' simple.txt"
ok "with them" grep -q 'serve_request(request const&)  ' full.txt
ok "JSON has whole names" sh -c "./ascribe report store --json 2>/dev/null | grep -q 'serve_request(request const&)'"

# ---- as wide as the terminal; whole into a pipe ----
"$build/tests/mkstore" wide wide >/dev/null
screen() { # columns, command
	script -qec "stty cols $1; $2" tty.log </dev/null >/dev/null 2>&1
	sed '1{/^Script started/d};${/^Script done/d}' tty.log | tr -d '\r' |
		sed 's/\x1b\[[0-9;]*m//g' >tty.out
}
for cols in 60 80 100 160; do
	for c in 'report store' 'report store --by tenant,comm' 'report store --by function -n 0' \
		'report wide --by tenant' 'report store --tree' \
		'report store --peek main' 'diff store --against tenant="a" -n 0' \
			'diff store --against tenant="a" --by comm,tenant' \
		'report store --full-names --by tenant'; do
		screen $cols "ASCRIBE_PAGER= $ascribe $c"
		most=$(grep -v '^ascribe: \|complete: \|^not shown\|idle CPUs\|UTC\|Z \.\.\|Z:' \
			tty.out | python3 -c 'import sys; print(max(len(l.rstrip("\n")) for l in sys.stdin))')
		ok "$cols columns: $c ($most)" test "$most" -le $cols
	done
done
screen 80 "ASCRIBE_PAGER= $ascribe stat store"
ok "stat folds what a counter means" sh -c "grep -q '^ *the CPU was idle' tty.out || grep -q '%  the CPU was idle$' tty.out; test \$(grep -c '^\{81\}' tty.out) = 0 && test \$(sed -n '/^fired/,/^CPU/p' tty.out | awk '{ if (length > n) n = length } END { print n }') -le 80"
screen 80 "ASCRIBE_PAGER=cat $ascribe report store"
ok "80 columns: the shares, no interval" sh -c "grep -q 'SELF%' tty.out && ! grep -q INTERVAL tty.out"
screen 160 "ASCRIBE_PAGER='cat' $ascribe report store"
ok "160 columns: the interval, too" grep -q '95% INTERVAL' tty.out
long=xxx$(printf "x%.0s" {1..300})
printf '%s;leaf 7\n' "$long" >long.folded
ok "a long name" "$ascribe" import folded long.folded -o long
ok "is whole in a pipe" sh -c "./ascribe report long --by function 2>/dev/null | grep -q '$long'"
screen 80 "$ascribe report long --by function --no-pager"
ok "and cut on a terminal" sh -c "grep -q 'xxx…' tty.out && ! grep -q '$long' tty.out"
screen 80 "$ascribe report long --by function --no-pager --full-names"
ok "but when asked for" grep -q "$long" tty.out

# ---- calls ----
"$ascribe" report store --tree -n 0 >tree.txt 2>/dev/null
"$ascribe" report store --peek deflate_slow -n 0 >peek.txt 2>/dev/null
"$ascribe" report store --peek rve_reque -n 0 >part.txt 2>part.err
"$ascribe" export store --format folded >folded.txt 2>/dev/null
cat >check.py <<'PY'
import collections, re
stacks = [(l.rsplit(' ', 1)[0].split(';')[1:], int(l.rsplit(' ', 1)[1])) for l in open('folded.txt', errors='replace')]
short = lambda name: re.sub(r'\(.*', '', name)
stacks = [([short(f) for f in s], n) for s, n in stacks]
total = sum(n for _, n in stacks)
# The first lines of the tree: what all stacks begin with.
tree = [l.rstrip('\n') for l in open('tree.txt') if re.match(r' *\d+\.\d\d% ', l)]
assert tree[0].split()[:3] == ['100.00%', '0.00%', '_start'], tree[0]
paths = collections.Counter()
for s, n in stacks:
    for i in range(len(s)):
        paths[tuple(s[:i + 1])] += n
assert abs(len(tree) - len(paths)) <= 0.02 * len(paths), (len(tree), len(paths))
seconds = sorted((n for p, n in paths.items() if len(p) == 3), reverse=True)
below = [l for l in tree if re.search(r'%  [├└]─ ', l)]
assert [l.split()[0] for l in below] == [f'{100 * n / total:.2f}%' for n in seconds], (below, seconds)
# Callers and callees of where it is called first.
callers, callees, own, of = collections.Counter(), collections.Counter(), 0, 0
for s, n in stacks:
    if 'deflate_slow' in s:
        i = s.index('deflate_slow')
        of += n
        callers[s[i - 1]] += n
        if i + 1 < len(s):
            callees[s[i + 1]] += n
        else:
            own += n
lines = [l.rstrip('\n') for l in open('peek.txt')]
at = [i for i, l in enumerate(lines) if l.startswith('----')]
rows = lambda ls: sorted(l.split()[0] for l in ls if '|' in l)
want = lambda c: sorted(f'{100 * n / total:.2f}%' for n in c.values())
assert rows(lines[:at[0]]) == want(callers), (lines, callers)
assert rows(lines[at[1]:]) == want(callees), (lines, callees)
it = lines[at[0] + 1:at[1]]
assert it[0].split()[:3] == [f'{100 * of / total:.2f}%', '100.00%', 'deflate_slow'] and it[1].split()[0] == f'{100 * own / total:.2f}%', it
assert 'serve_request' in open('part.txt').read(), open('part.err').read()
PY
ok "tree and peek against the stacks" python3 check.py
exits 2 "no function of these samples has 'nosuch'" "$ascribe" report store --peek nosuch
exits 2 'which one?' "$ascribe" report store --peek e
exits 2 'stand alone' "$ascribe" report store --tree --by comm
exits 2 'stand alone' "$ascribe" report store --tree --peek main
exits 0 'holds no window' "$ascribe" report empty --peek main
exits 0 'no sample matches' "$ascribe" report store --tree --where 'tenant=~"x.*"'

# ---- what changed: against the amounts that each range has by itself ----
"$build/tests/mkstore" incident incident >/dev/null
to=$("$ascribe" stat incident --json | jq '.to | floor')
range() { echo "--from $((to - $1)) --to $((to - $2))"; }
for by in function tenant; do
	# shellcheck disable=SC2046
	"$ascribe" report incident --by $by $(range 1800 900) --json >before.json 2>/dev/null
	# shellcheck disable=SC2046
	"$ascribe" report incident --by $by $(range 900 0) --json >now.json 2>/dev/null
	# shellcheck disable=SC2046
	"$ascribe" report incident --by $by $(range 900 0) --before $((to - 1800)) -n 0 \
		--full-names >table.txt 2>err
	cat >change.py <<'PY'
import json, re, sys
by = sys.argv[1]
name = lambda r: r['key'][by] if by == 'tenant' else r['function']
def read(f):
    d, out = json.load(open(f)), {}
    for r in d['rows']: out[name(r)] = out.get(name(r), 0) + r['samples'] * d['seconds'] / d['samples'] / (10 * d['windows'])
    return out
now, before = read('now.json'), read('before.json')
lines = [l for l in open('table.txt') if re.match(r'^ +\d+ +\d+\.\d{3} ', l)]
assert len(lines) > (1 if by == 'tenant' else 10)
changed = 0
for l in lines:
    f = l.split()
    at = 3 if by == 'tenant' else 4
    who = l.split('%')[-1].strip().split('  ')[0].removesuffix(' (inlined)')
    if f[at] == '.' or who not in now or ' (inlined)' in l or list(l.split('%')[-1].strip().split('  ')[0] == x.split('%')[-1].strip().split('  ')[0] for x in lines).count(True) > 1:
        continue
    changed += 1
    assert abs(float(f[at]) - (now[who] - before.get(who, 0))) < 0.006, (l, now[who], before.get(who, 0))
assert changed > (0 if by == 'tenant' else 5), lines
assert by == 'tenant' or any(l.split()[4] == '.' for l in lines), 'all changed'
PY
	ok "the column of the change, by $by" python3 change.py $by
done
ok "the earlier range is said" grep -q 'CHANGE: in CPUs .* against 20.*;' table.txt
"$ascribe" report incident --from $((to - 900)) --before $((to - 1800)) >table.txt 2>err
ok "in both tables" test "$(grep -c ' CHANGE ' table.txt)" = 2
"$ascribe" report incident --from $((to - 900)) --before $((to - 9000)) >table.txt 2>err
ok "an earlier range without data is said" \
	grep -q 'nothing was recorded in the earlier range' table.txt
exits 2 'before is for tables' "$ascribe" report incident --before -1h --json
exits 2 'before is for tables' "$ascribe" report incident --before -1h --tree
finish
