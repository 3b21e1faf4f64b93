#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Libraries with labels that are looked at while the dynamic linker maps them. The code is there,
# the data is not, and in its place are other bytes of the file. strace holds up each mmap; the
# program has run before, so that it is known.
. "$(dirname "$0")/lib.bash"
command -v strace >/dev/null || skip "no strace"
cc=${CC:-cc}
flags="-O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer"
src=$here/foreign.c
cat >run.c <<'CODE'
#include <time.h>
__attribute__((constructor)) static void run(void)
{
	struct timespec t;
	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_nsec < 300000000);
}
CODE
ok "programs and libraries build" sh -ec "
	$cc $flags -fPIC -shared -o run.so run.c
	$cc $flags -DHOST -o host $src -lpthread
	$cc $flags -fPIC -shared -DLIBRARY -DBALLAST=4000 -o gd.so $src
	$cc $flags -fPIC -shared -DLIBRARY -DBALLAST=4000 -mtls-dialect=gnu2 -o desc.so $src
	$cc $flags -fPIC -shared -DLIBRARY -ftls-model=initial-exec -o ie.so $src"
names=()
for library in gd desc ie; do
	for abi in custom1 otel; do
		cp host "$library-$abi"
		names+=("$library-$abi")
		echo "strace -qq -o strace.$library-$abi -e trace=mmap -e inject=mmap:delay_exit=60000 -E LD_PRELOAD=./run.so \
			./$library-$abi $abi 1 ./$library.so &"
	done
done >programs.sh
echo wait >>programs.sh
record -F 499 -o all -- bash programs.sh >ran.out
report all --by comm,thread,tenant >tenants.json
"$ascribe" stat all --json >stat.json 2>/dev/null
for name in "${names[@]}"; do
	ok "$name: the library was held up" grep -q 'PROT_EXEC.*= 0x.*DELAYED' "strace.$name"
	check "$name: each thread has its own labels" r=tenants.json -- \
		"(lambda v: {k[2] for k in v} >= {'one', 'two'} and all(k[2] in (None, k[1]) for k in v))({k: n for k, n in samples(r).items()
		if k[0] == '$name' and k[1] in ('one', 'two')})" \
		"{k[1:]: n for k, n in samples(r).items() if k[0] == '$name'}"
done
check "no label was looked for in a wrong place" s=stat.json -- \
	'not any(v for k, v in s["flagged"].items() if k.endswith("_invalid") or k.endswith("_fault") and not k.startswith("unwind"))' \
	'{k: v for k, v in s["flagged"].items() if v}'
finish
