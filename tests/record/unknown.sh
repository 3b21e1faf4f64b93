#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runtimes of a version that is not known: `check`, the end of `record` and `stat` name the version,
# or what it lacks. The programs only look like a CPython of the future and a HotSpot without most
# of its tables; those of today stand beside them. As root.
. "$(dirname "$0")/lib.bash"
command -v cc >/dev/null || skip "no C compiler"

cat >python.c <<'C'
#include <time.h>
__attribute__((section(".PyRuntime"))) long _PyRuntime[8] = { 1 };
const unsigned Py_Version = 0x03630000; /* 3.99 */
volatile unsigned x;
__attribute__((noinline)) void _PyEval_EvalFrameDefault(void) { for (int i = 0; i < 1000000; i++) x += i; }
int main(void) { while (clock() < 4 * CLOCKS_PER_SEC) _PyEval_EvalFrameDefault(); }
C
cat >jvm.c <<'C'
#include "libjvm_tables.h"
static struct field fields[2] = {
	{ "HeapBlock::Header", "_length", "size_t", 0, 0, 0 } };
static struct type none[1];
void *gHotSpotVMStructs = fields, *gHotSpotVMTypes = none, *gHotSpotVMIntConstants = none;
C
cat >java.c <<'C'
#include <time.h>
volatile unsigned x;
int main(void) { while (clock() < 4 * CLOCKS_PER_SEC) x++; }
C
ok "a CPython 3.99" cc -O1 -rdynamic -o python3 python.c
ok "a HotSpot without its tables" cc -I "$here" -shared -fPIC -w -o libjvm.so jvm.c
ok "its launcher" cc -O1 -o java java.c -Wl,--no-as-needed ./libjvm.so
ok "recorded" "$ascribe" record -F 99 -o store -- sh -c './python3 & ./java & wait'
cp ok.err said
ok "the end of record names the version of CPython" \
	grep 'Python: 1 processes run a CPython of an unknown version (3.99)' said
"$ascribe" stat store --json >stat.json 2>/dev/null
check "stat, too" s=stat.json -- \
	'[(x["runtime"], x["processes"]) for x in s["own"]["runtimes_unknown"] if x["runtime"].startswith("CPython")] == [("CPython 3.99", 1)]' \
	's["own"]["runtimes_unknown"]'
ok "its functions have the names of the file" sh -c \
	"'$ascribe' report store --json -n 50 2>/dev/null | grep -q _PyEval_EvalFrameDefault"

checked() { # program...: the lines of check about runtimes while it runs
	"$@" &
	pid=$!
	sleep 1
	"$ascribe" check >check.out 2>&1
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}
checked ./python3
ok "check names its version" grep -E "^note +Python .*[( ]${pid}[,)].*not known: 3\.99\)" check.out
python=$(realpath "$(command -v python3)")
case $python in
*/python3.1[1-5])
	checked "$python" -c 'import time; time.sleep(20)'
	ok "check: ${python##*/} is known" sh -c "! grep -E '^note +Python .*[( ]${pid}[,)]' check.out"
	ok "check: it was looked at" grep -E '^(ok|note) +Python ' check.out
	;;
esac
if [ "$(uname -m)" = x86_64 ]; then
	ok "the end of record names what HotSpot lacks" \
		grep 'Java: 1 JVMs of an unknown version (HeapBlock::Header::_used is missing' said
	check "stat, too" s=stat.json -- \
		'("HotSpot without HeapBlock::Header::_used", 1) in [(x["runtime"], x["processes"]) for x in s["own"]["runtimes_unknown"]]' \
		's["own"]["runtimes_unknown"]'
	checked ./java
	ok "check names what it lacks" \
		grep -E "^note +Java .*[( ]${pid}[,)].*HeapBlock::Header::_used" check.out
fi
finish
