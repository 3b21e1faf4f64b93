#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of code that comes and goes: libraries that are loaded late, generated code, exec
# after exec, files that are replaced while they run. Also more rules than there is room for.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"
load=$loads/changes

library() { # file, function
	gcc -O2 -fomit-frame-pointer -fPIC -shared -x c -o "$1" - <<C || bad "gcc $1"
#include <time.h>
volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
__attribute__((noinline)) void $2(double until) { while (now() < until) for (int i = 0; i < 5000; i++) sink += sink * 7; sink++; }
void burn(double s) { $2(now() + s); sink++; }
C
}
whole() { # what, the pattern that stacks of `comm` read, least number of samples [share]
	"$ascribe" export "$store" --format folded --where "{comm=~\"$comm.*\"}" 2>/dev/null >folded
	"$ascribe" stat "$store" --json >stat.json
	check "$1: accounting" s=stat.json -- 'exact(s)'
	ok "$1" python3 "$here/unwind.py" whole folded "$2" "$3" "${4:-0.99}"
}

libraries=()
for i in 1 2 3 4 5 6 7 8; do
	library "./late$i.so" "late_$i"
	libraries+=("./late$i.so")
done
store=loaded comm=changes
record -F 499 -o $store -- "$load" dlopen 0.15 "${libraries[@]}"
whole "libraries that are loaded late" '_start;.*;main;by_dlopen;burn;late_[1-8]' 400
for i in 1 8; do
	ok "late_$i by its name" grep -q ";late_$i\(;\| \)" folded
done

store=jit
record -F 499 -o $store -- "$load" jit 1.5
# The mappings are made in by_jit itself, which on some machines takes part of the time: that is a
# stack of its own.
whole "code that is made as it is needed, in 75 mappings" \
	'_start;.*;main;by_jit(;[^;]*;called;leaf|;clock_gettime|$)' 500

for i in 1 2 3 4 5 6; do
	cp "$load" "./changes$i"
done
store="exec"
record -F 499 -o $store -- "$load" exec 0.1 ./changes1 ./changes2 ./changes3 ./changes4 ./changes5 \
	./changes6
whole "exec after exec" '_start;.*;main;before_exec;leaf' 200 0.95

# ---- other programs at the same addresses, with other frames, on one CPU ----
for bytes in 400 1200 4000; do
	gcc -O2 -fomit-frame-pointer -no-pie -static -DBYTES=$bytes -x c -o ./placed$bytes - \
		<<'C' || bad "gcc, $bytes"
#include <time.h>
volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
__attribute__((noinline)) void leaf(double until) { volatile char room[BYTES]; while (now() < until) for (int i = 0; i < 500; i++) sink += sink * 7 + (unsigned long)(room[i & 255] = 1); }
__attribute__((noinline)) void inner(double until) { volatile char room[BYTES]; room[0] = 1; leaf(until); sink += (unsigned long)room[0]; }
__attribute__((noinline)) void outer(double until) { volatile char room[BYTES]; room[0] = 1; inner(until); sink += (unsigned long)room[0]; }
int main(void) { outer(now() + 1); sink++; }
C
done
ok "their functions are at the same addresses" test "$(nm placed400 | grep -E ' T (inner|leaf|outer|main)$')" = \
	"$(nm placed4000 | grep -E ' T (inner|leaf|outer|main)$')"
store=placed comm=placed
record -F 999 -o $store -- taskset -c 0 sh -c './placed400 & ./placed1200 & ./placed4000 & wait'
whole "other programs at the same addresses" '_start;.*;main;outer;inner;leaf' 1500

# ---- files that are replaced while they run ----
cp "$load" running
library ./in_use.so before
background ./running dlopen 3 ./in_use.so
old=$pid
background ./running run 3
sleep 0.3
library ./new.so after
mv new.so in_use.so
cp "$load" new_program
mv new_program running
store=replaced comm=running
background "$ascribe" record -q -F 499 -d 2s -p "$old,$pid" -o $store
recorder=$pid
sleep 0.5
wait $recorder
whole "deleted: the library that runs" '_start;.*;main;(by_dlopen;burn;before|leaf)' 50
ok "deleted: the old library's function by its name, not the new one's" \
	sh -c 'grep -q ";before\(;\| \)" folded && ! grep -q ";after" folded'
rm -rf $store
record -F 499 -o $store -- ./running dlopen 0.5 ./in_use.so
whole "the new library under the same name" '_start;.*;main;by_dlopen;burn;after' 50

# ---- what is used stays, what is too large is said ----
cat >crowd.sh <<SH
$load run 20 &
used=\$!
sleep 0.2
{
	python3 -c 'for i in range(100000): str(i)'
	perl -e 'for (1..200000) { \$x = chr(\$_ & 127) }'
	gdb --batch -ex 'python print(1)'
	openssl version
	git --version
} >/dev/null
sleep 1 # of samples, however soon the others end
kill \$used
wait
SH
ASCRIBE_UNWIND_MIB=1 record -F 499 -o used -- bash crowd.sh
store=used comm=changes
whole "under a small cap, what is in use all the time keeps its rules" '_start;.*;main;leaf' 40
ok "under a small cap, files gave way" grep -q '[1-9][0-9]* files gave way to others' record.err
clang=$(command -v clang-19 || command -v clang-14 || command -v clang)
echo 'int main(void) { return 0; }' >empty.c
cat >large.sh <<SH
$load run 20 &
used=\$!
sleep 0.2
for i in 1 2 3; do $clang -O2 -c empty.c; done
kill \$used
wait
SH
ASCRIBE_UNWIND_MIB=1 record -F 499 -o large -- bash large.sh
ok "a file that is larger than the cap: counted, and said" grep -q '[1-9][0-9]* found no room' record.err
store=large
whole "a file that is larger than the cap takes the rules of no other" '_start;.*;main;leaf' 20
check "a file that is larger than the cap: its stacks say why they end" s=stat.json -- 's["flagged"]["unwind_no_rule"] > 0' \
	's["flagged"]["unwind_no_rule"], s["stored"]'
finish
