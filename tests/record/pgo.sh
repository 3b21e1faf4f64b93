#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles for compilers, by label: clang takes one, and inlines what was hot; LLVM's own reader
# sees the samples that report sees. Go takes one where there is a Go that can (1.21). As root.
. "$(dirname "$0")/lib.bash"
command -v clang++ >/dev/null || skip "no clang++"

# Two programs from one source: left spends its time in one function, right in the other. Both are
# too large to be inlined, but for what is hot.
cat >work.cc <<'C'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define BODY(name, seed)                                                              \
	static uint64_t name(uint64_t x, int kind, unsigned k)                        \
	{                                                                             \
		switch (kind) {                                                       \
		case 0:                                                               \
			x = x * 6364136223846793005u + k;                             \
			return x ^ x >> seed;                                         \
		case 1:                                                               \
			for (unsigned i = 0; i < k; i++)                              \
				x = (x << 3) ^ (x / (i + seed)) ^ i;                  \
			printf("%lu\n", x);                                           \
			return x;                                                     \
		case 2:                                                               \
			for (unsigned i = 0; i < k; i++)                              \
				x = x % (i + seed) + i * 11;                          \
			fprintf(stderr, "%lu\n", x);                                  \
			return x + 1;                                                 \
		case 3:                                                               \
			for (unsigned i = 1; i < k; i++) {                            \
				x += x / i;                                           \
				x ^= seed;                                            \
				if (x % 3 == 1)                                       \
					x--;                                          \
			}                                                             \
			puts("three");                                                \
			return x;                                                     \
		default:                                                              \
			abort();                                                      \
		}                                                                     \
	}
BODY(in_left, 13)
BODY(in_right, 17)
int main(int argc, char **argv)
{
	const bool left = strstr(argv[0], "left");
	uint64_t x = (uint64_t)argc;
	for (long i = atol(argv[1]); i > 0; i--) {
		if (__builtin_expect(x == 12345, 0))
			x = in_left(x, argc, 9) + in_right(x, argc, 9);
		if (left)
			x = in_left(x, x == 999, 5) + in_left(x, x == 998, 3);
		else
			x = in_right(x, x == 999, 5) + in_right(x, x == 998, 3);
	}
	printf("%lu\n", x);
}
C
flags="-O2 -g -fdebug-info-for-profiling -Wno-everything"
clang++ $flags -o left work.cc || bad "no program"
ln left right
# Calls of a function that are left in main.
calls() { objdump -d --disassemble=main "$1" | grep -c "call.*$2"; }
ok "without a profile both are called at three places" test "$(calls left in_left)" = 3 -a \
	"$(calls left in_right)" = 3

record -o store -F 499 -- sh -c './left 200000000 & ./right 200000000; wait'
for of in left right; do
	other=$([ $of = left ] && echo right || echo left)
	ok "$of: a profile of its label" sh -c "'$ascribe' export store --format llvm-prof \
		--binary left -w '{comm=\"$of\"}' -o $of.prof 2>$of.err"
	without=$(sed -n 's/.*export: \([0-9]*\) of [0-9]* samples in left have no line.*/\1/p' $of.err)
	report store -w "{comm=\"$of\"}" -n 0 >$of.json
	reader=$(compgen -c llvm-profdata | sort | head -1)
	"$reader" show --sample "$of.prof" >$of.shown || bad "$reader cannot read it"
	sed -n 's/^Function: \([^:]*\): \([0-9]*\).*/\1 \2/p' $of.shown >$of.sums
	n=$(awk '{ n += $2 } END { print n + 0 }' $of.sums)
	check "$of: LLVM's reader sees $n samples, ${without:=0} have no line, as report" r=$of.json -- \
		"$n and $n + $without == sum(x['self'] for x in r['rows'] if
		x['module'].endswith(('/left', '/right')))" \
		"[(x['function'], x['module'], x['self']) for x in r['rows']][:5]"
	ok "and its own function alone" sh -c "grep -q in_$of $of.sums && ! grep -q in_$other $of.prof"
	ok "clang takes it" clang++ $flags -Werror -fprofile-sample-use="$of.prof" work.cc \
		-o "$of.fast"
	own=$(calls "$of.fast" in_$of) others=$(calls "$of.fast" in_$other)
	ok "and inlines what was hot: $own of 3 calls are left, of the other one $others" \
		test "$own" -lt 3 -a "$others" -gt 0
done

# ---- what cannot be ----
exits 2 'needs --binary' "$ascribe" export store --format llvm-prof
exits 2 'is for --format go-pgo and llvm-prof' "$ascribe" export store --format csv --binary left
exits 1 'no sample is in its code' "$ascribe" export store --format llvm-prof --binary left.fast
strip -o stripped left
exits 1 'has no DWARF that says' "$ascribe" export store --format llvm-prof --binary stripped
exits 1 'cannot open nowhere' "$ascribe" export store --format llvm-prof --binary nowhere
exits 1 'work.cc: cannot read' "$ascribe" export store --format llvm-prof --binary work.cc

# ---- Go ----
go=
for of in $(compgen -G '/usr/lib/go-1.*/bin/go' | sort -V) $(command -v go); do
	[[ $("$of" version) != *go1.1[0-9].* && $("$of" version) != *go1.20.* ]] && go=$of
done
if [ -z "$go" ]; then
	echo "      not run: no Go that takes profiles (1.21)"
	finish
fi
mkdir work && cat >work/go.mod <<'GO'
module work

go 1.21
GO
cat >work/main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"strconv"
)

func step(x uint64, kind int, k uint64) uint64 {
	switch kind {
	case 0:
		return x ^ k
	case 1:
		for i := uint64(0); i < k; i++ {
			x = (x << 3) ^ (x / (i + 3)) ^ i
		}
		fmt.Println("one", x)
		return x
	}
	panic("kind")
}

//go:noinline
func work(n int) uint64 {
	x := uint64(1)
	for i := 0; i < n; i++ {
		x += step(uint64(i), 0, 5) + step(uint64(n), 0, 3)
	}
	return x
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	fmt.Println(work(n))
}
GO
export GOCACHE=$PWD/cache GOTOOLCHAIN=local GOFLAGS=-mod=mod
(cd work && "$go" build -o work .) || bad "no Go program"
record -o go -F 499 -- work/work 1000000000
ok "a profile for Go" "$ascribe" export go --format go-pgo --binary work/work -o go.pgo
ok "Go takes it" sh -c "cd work && '$go' build -pgo ../go.pgo -o fast ."
left() { objdump -d --disassemble=main.work "work/$1" | grep -c 'call.*main.step'; }
ok "and inlines what was hot" test "$(left work)" -gt 0 -a "$(left fast)" = 0
finish
