#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 24 stripped libraries have a debug link to one sparse file of 1 GiB without a build id. Only the
# CRC of the whole file could tell it from theirs. It is not read: no drain waits for it, no sample
# is lost, and functions have their names from .dynsym at once.
. "$(dirname "$0")/lib.bash"
n=24

lib() { # number: lib/NUMBER.so, which exports link_NUMBER
	${CC:-cc} -O1 -g -shared -fPIC -Wl,--build-id=none -DWORK="link_$1" -o "lib/$1.so" work.c
}
mkdir lib
cat >work.c <<'C'
#include <time.h>
double WORK(double seconds);
double WORK(double seconds)
{
	volatile double x = 0;
	for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
		for (int i = 0; i < 200000; i++)
			x = x * 1.0000001 + i;
	return x;
}
C
cat >load.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	double (*work[N])(double);
	char path[32], name[32];
	for (int i = 0; i < N; i++) {
		snprintf(path, sizeof(path), "lib/%d.so", i + 1);
		snprintf(name, sizeof(name), "link_%d", i + 1);
		void *lib = dlopen(path, RTLD_NOW);
		work[i] = lib ? (double (*)(double))dlsym(lib, name) : NULL;
		if (!work[i])
			return 1;
	}
	for (int turn = 0; argc > 1 && turn < atoi(argv[1]); turn++)
		for (int i = 0; i < N; i++)
			work[i](0.02);
	return 0;
}
C
${CC:-cc} -O1 -g -DN=$n -o load load.c -ldl || bad "no load"
lib 0 && objcopy --only-keep-debug lib/0.so lib/big.debug || bad "no debug file"
for i in $(seq $n); do
	lib "$i" && objcopy --strip-all --add-gnu-debuglink=lib/big.debug "lib/$i.so" ||
		bad "no library $i"
done
truncate -s 1G lib/big.debug # no longer what the links' CRC says

record -F 499 -o store -- ./load 20
report store -n 0 >names.json
"$ascribe" stat store --json >stat.json
check "each library's function is named" r=names.json -- \
	"(lambda named: all('link_%d' % i in named for i in range(1, $n + 1)))({x['function'] for x in r['rows']})" \
	"sorted(x['function'] for x in r['rows'] if x['function'].startswith('link_'))"
ok "links that were not followed are counted" \
	grep -q "$n debug links lead to files of more than 64 MiB" record.err
check "names do not wait for it" s=stat.json -- 's["flagged"]["names_late"] < 0.05 * s["stored"]' \
	's["flagged"]["names_late"], s["stored"]'
check "no drain waits" s=stat.json -- 's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 1e9' \
	's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9'
check "no sample is lost" s=stat.json -- 'exact(s) and not any(n for k, n in s["lost"].items() if k not in ("not_run", "idle_not_run"))' \
	's["stored"], {k: n for k, n in s["lost"].items() if n}'
finish
