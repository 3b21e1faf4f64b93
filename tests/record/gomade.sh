#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who made a goroutine, for each Go that is here: with symbols, stripped, position-independent. Two
# makers of goroutines of one function that work 3 : 1, makers of makers, and a pool of 1,000
# goroutines a second. What is right is what Go's own traces say (debug.Stack), with the time by the
# clock of the thread. Another Go: Debian's golang-1.NN-go and golang-1.NN-src, by dpkg-deb -x to
# build/roots/go.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
command -v go >/dev/null || skip "no go here"
export GOCACHE=$build/gocache GOFLAGS=-mod=mod GOTOOLCHAIN=local
cp -r "$here/gomade" source
printf 'module gomade\n\ngo 1.19\n' >source/go.mod

cat >makers.py <<'PY'
"""makers.py FOLDED TRUTH ANCESTORS: of the stacks with main.worker or main.task below it, the part
that says who made them, and how the time is shared between the makers."""
import collections, math, sys

made, unmade, makers = collections.Counter(), 0, set()
for line in open(sys.argv[1]):
    stack, n = line.rstrip('\n').rsplit(' ', 1)
    names = [f for f in stack.split(';')[1:] if not f.endswith('_[k]')]
    created = [f for f in names if f.startswith('created by ')]
    assert names[:len(created)] == created, names  # at the root alone
    makers.update(created)
    if created:
        assert 'runtime.main' not in names, names
        assert names[len(created)].startswith('runtime.goexit'), names
    if 'main.worker' not in names and 'main.task' not in names:
        continue
    if created:
        made[tuple(f.removeprefix('created by ') for f in reversed(created))] += int(n)
    else:
        unmade += int(n)
truth = dict((f[0], int(f[2])) for f in map(str.split, open(sys.argv[2])) if len(f) == 3)
total = sum(made.values())
print(dict(made), unmade, 'without')
assert total > 500 and unmade <= 5 + total // 50, unmade
if int(sys.argv[3]):  # who made main.middle, which made the goroutine
    assert {len(m) for m in made} == {1, 2} and made['main.inner', 'main.nested'], made
    made = collections.Counter({m[0]: n for m, n in made.items()})
else:
    made = collections.Counter({m[0]: n for m, n in made.items() if len(m) == 1})
assert sum(made.values()) == total
assert set(made) == {*truth, 'main.poolMany', 'main.poolFew'}, (set(made), truth)
# A table does not grow with goroutines: few places make them. Go's runtime has some of its own.
assert len(makers) < 20, makers
for group in (set(truth), {'main.poolMany', 'main.poolFew'}):
    n = sum(made[m] for m in group)
    for m in group:
        share = truth[m] / sum(truth.values()) if m in truth else .75 if m == 'main.poolMany' else .25
        got = made[m] / n
        print(f'{m}: {got:.3f} of {share:.3f}')
        # pool: the same work at another speed, when the host is busy
        assert abs(got - share) < .015 + 3 * math.sqrt(share * (1 - share) / n) + (m not in truth) * .03, m
PY

built() { # go, name, options...
	local of=$1 name=$2
	shift 2
	(cd source && GOROOT=${of%/bin/go} "$of" build -o "../$name" "$@" .) 2>build.err ||
		bad "$name: $(head -3 build.err)"
}
lines() { # truth has "MAKER LINE NS"
	local n=0 maker line ns
	while read -r maker line ns; do
		[ -n "$ns" ] || continue
		grep -qE " created by $maker .*/main.go:$line s=" raw || return 1
		grep -E " created by $maker " raw | grep -qvE "/main.go:$line s=" && return 1
		n=$((n + 1))
	done <truth
	echo "$n makers"
	test $n = 3
}
look() { # what, program, ancestors
	rm -rf st
	ok "$1: recorded" "$ascribe" record -q -F 499 -o st -- "./$2" 600
	cp ok.out truth
	"$ascribe" export st --format folded 2>/dev/null >folded
	ok "$1: makers" python3 -I -S makers.py folded truth "${3:-0}"
	"$ascribe" export st --format pprof -o st.pb.gz 2>/dev/null
	GOROOT=${of%/bin/go} "$of" tool pprof -raw st.pb.gz >raw 2>/dev/null
	ok "$1: each go statement's line" lines
	ok "$1: main.own has no maker" grep -qE ';runtime.goexit(.abi0)?;runtime.main;main.main;main.own' folded
	ok "$1" rooted st 98
}

for of in $(compgen -G '/usr/lib/go-1.*/bin/go') \
	$(compgen -G "$here/../../build/roots/*/usr/lib/go-1.*/bin/go"); do
	version=$(GOROOT=${of%/bin/go} "$of" version | awk '{ print $3 }')
	built "$of" made
	look "$version" made
	export GODEBUG=tracebackancestors=5
	look "$version, ancestors" made 1
	unset GODEBUG
	built "$of" stripped -ldflags '-s -w'
	look "$version, stripped" stripped
	built "$of" pie -buildmode=pie -ldflags '-s -w'
	look "$version, position-independent" pie
done
finish
