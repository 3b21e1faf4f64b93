#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What makes a recorder's life hard. Its helpers are killed and stopped again and again, /proc hides
# processes, a program changes its name and calls exec in a loop. It goes on, accounts for every
# sample, and leaves no process behind.
. "$(dirname "$0")/lib.bash"
[ -r "/proc/$$/task/$$/children" ] || skip "this kernel does not tell a process's children"
cp "$loads/labelled" beside
cat >turns.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static __attribute__((noinline)) void burn(double seconds)
{
	for (clock_t begin = clock(); clock() < begin + (clock_t)(seconds * CLOCKS_PER_SEC);)
		;
}
int main(int argc, char **argv)
{
	char name[16], left[16];
	int n = argc > 1 ? atoi(argv[1]) : 0;
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "name_%d", i);
		prctl(PR_SET_NAME, name);
		burn(0.004);
	}
	if (!n)
		return 0;
	snprintf(left, sizeof(left), "%d", n - 1);
	execl(argv[0], argv[0], left, (char *)NULL);
	return 1;
}
C
${CC:-cc} -O1 -o turns turns.c || bad "no program that changes its name"

descendants() {
	local i
	for i in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
		echo "$i"
		descendants "$i"
	done
}

whole() { # store: what holds of each recording
	"$ascribe" stat "$1" --json >"$1.s.json"
	check "$1: every sample is accounted for" s="$1.s.json" -- 'exact(s) and s["stored"] > 0' \
		's["stored"], {k: n for k, n in s["lost"].items() if n}'
	check "$1: no drain waited" s="$1.s.json" -- 's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 1e9' \
		's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9'
}

# ---- helpers ----
background "$ascribe" record -a -F 499 -o helpers 2>helpers.err
recorder=$pid
recording helpers.err
background ./beside share 90 >/dev/null
beside=$pid
helpers=() hits=0
RANDOM=7
end=$(($(date +%s%N) + 5000000000)) most=$(($(date +%s%N) + 60000000000))
# A busy machine has fewer turns in five seconds.
while [ "$(date +%s%N)" -lt $end ] || { [ $hits -le 20 ] && [ "$(date +%s%N)" -lt $most ]; }; do
	mapfile -t helpers < <(descendants $recorder)
	for i in "${helpers[@]}"; do
		[ $((RANDOM % 3)) = 0 ] || continue
		# What the keeper has, nobody else has: without it there are no helpers any more.
		[ "$(cat "/proc/$i/comm" 2>/dev/null)" != ascribe-keeper ] || continue
		[ $((RANDOM % 2)) = 0 ] && signal=STOP || signal=KILL
		kill -$signal "$i" 2>/dev/null && hits=$((hits + 1))
	done
	sleep 0.05
done
sleep 4
mapfile -t helpers < <(descendants $recorder)
kill -INT $recorder
wait $recorder
ok "helpers: the recorder ends well" test $? = 0
kill $beside
ok "helpers were hit: $hits times" test $hits -gt 20
for _ in $(seq 100); do
	left=$(for i in "${helpers[@]}"; do grep -l '^ascribe' "/proc/$i/comm" 2>/dev/null; done)
	[ -n "$left" ] || break
	sleep 0.05
done
ok "helpers: none is left" test -z "$left"
whole helpers
report helpers --by tenant --where '{exe=~".*/beside"}' >tenants.json
check "helpers: labels, once they are left alone" r=tenants.json -- 'samples(r).get("a", 0) > 100' \
	'samples(r)'

# ---- a /proc that hides processes, and a program that changes its name ----
unshare --mount sh -c 'mount -t proc -o hidepid=2 proc /proc && exec "$0" record -F 499 -o names -- ./turns 100' "$ascribe" 2>names.err
ok "names: a /proc with hidepid=2" test $? = 0
whole names
report names --by exe,thread --where '{exe=~".*/turns"}' >threads.json
check "names: each name has its part of the time, after each exec" r=threads.json -- \
	"(lambda s: all(0.1 * sum(s.values()) < s.get(('$PWD/turns', 'name_%d' % i), 0) < 0.4 * sum(s.values()) for i in range(4)))(samples(r))" \
	'samples(r)'
report names --where '{exe=~".*/turns"}' -n 0 >functions.json
check "names: and its functions" r=functions.json \
	-- 'samples(r).get("burn", 0) > 0.5 * r["samples"]' 'samples(r).get("burn", 0), r["samples"]'
finish
