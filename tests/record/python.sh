#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Python frames without the interpreter's help, for each CPython 3.11 to 3.13 that is here. Whole
# chains, also through C, in threads that have let go of the lock, in generators, in forked
# children. How the time is shared, against the program's own clock.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"

cat >load.py <<'PY'
import hashlib, os, sys, threading, time
took = {}

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))

class Server:
    def heavy(self):
        burn(0.6)
    def light(self):
        burn(0.2)
    @staticmethod
    def größe():
        burn(0.1)

def through_c():
    def by_key(x):
        burn(0.02)
        return -x
    sorted(range(8), key=by_key)

def numbers():
    for i in range(4):
        burn(0.03)
        yield i

def in_generator():
    return list(numbers())

def deep(n):
    return deep(n - 1) if n else burn(0.2)

def without_lock():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        hashlib.pbkdf2_hmac('sha256', b'x', b'y', 30000)

def reuse():
    for i in range(8): # code comes and goes, mostly at one address
        names = {'burn': burn}
        exec('def reused_%d():\n    burn(0.05)\n' % i, names)
        names['reused_%d' % i]()
        del names

def in_child():
    burn(0.2)

def timed(f, *args):
    begin = time.thread_time()
    f(*args)
    took[f.__qualname__] = time.thread_time() - begin

def main():
    server = Server()
    time.sleep(0.3) # found by its first samples
    burn(0.1)
    for f in server.heavy, server.light, Server.größe, through_c, in_generator:
        timed(f)
    timed(reuse)
    timed(deep, 300)
    thread = threading.Thread(target=timed, args=(without_lock,))
    thread.start()
    thread.join()
    pid = os.fork()
    if pid == 0:
        in_child()
        os._exit(0)
    os.waitpid(pid, 0)
    print('\n'.join('%s %f' % x for x in took.items()))

sys.setrecursionlimit(2000)
main()
PY

versions=0 known=
pids=()
for p in /usr/bin/python3.1[123] "$HOME"/.pyenv/versions/3.1[123].*/bin/python3 \
	/root/.pyenv/versions/3.1[123].*/bin/python3; do
	[ -x "$p" ] || continue
	v=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
	case $known in *" $v "*) continue ;; esac
	known="$known $v "
	versions=$((versions + 1))
	"$ascribe" record -F 499 -o st$v -- "$p" load.py >st$v.took 2>st$v.err &
	pids+=($!)
done
[ $versions -gt 0 ] || skip "no CPython from 3.11 to 3.13 here"
for p in "${pids[@]}"; do
	wait "$p" || bad "recording: $(cat ./*.err)"
done
for v in $known; do
	st=st$v
	"$ascribe" export $st --format folded -o $st.folded 2>/dev/null
	ok "$v: a method" seen $st.folded ';<module>;main;timed;([^;<]*;)*Server[.]heavy;burn(;| )' \
		"$(clock $st.took Server.heavy)" 80
	ok "$v: another" seen $st.folded ';<module>;main;timed;([^;<]*;)*Server[.]light;burn(;| )' \
		"$(clock $st.took Server.light)" 70
	ok "$v: not ASCII" seen $st.folded ';<module>;main;timed;([^;<]*;)*Server[.]größe;burn(;| )' \
		"$(clock $st.took Server.größe)" 60
	ok "$v: called back by C" seen $st.folded \
		';timed;([^;<]*;)*through_c;[^<]*;through_c[.]<locals>[.]by_key;burn(;| )' "$(clock $st.took through_c)" 60
	ok "$v: C is in between" seen $st.folded \
		';through_c;([^;<]*;)*[^;<]*(sort|[+]0x)[^<]*;through_c[.]<locals>[.]by_key;' "$(clock $st.took through_c)" 60
	ok "$v: a generator" seen $st.folded ';timed;([^;<]*;)*in_generator;([^;<]*;)*numbers;burn(;| )' \
		"$(clock $st.took in_generator)" 60
	for i in 0 3 7; do
		ok "$v: code where other code was: $i" seen $st.folded \
			";([^;<]*;)*reuse;([^;<]*;)*reused_$i;burn(;| )" 0.05 30
	done
	ok "$v: deeper than can be kept" seen $st.folded '(;deep){100}.*;burn(;| )' \
		"$(clock $st.took deep)" 60
	ok "$v: a thread that has let go of the lock" seen $st.folded \
		';([^;]*bootstrap[^;]*|Thread[.]run);.*timed;([^;<]*;)*without_lock;' "$(clock $st.took without_lock)" 70
	ok "$v: a child that was forked" seen $st.folded ';main;in_child;burn(;| )' 0.2 50
	ok "$v: where" test "$("$ascribe" export $st --format pprof -o - 2>/dev/null | gzip -dc | grep -ac 'load\.py')" -ge 1
	"$ascribe" report $st --json -n 0 >$st.json 2>/dev/null
	ok "$v: the language" jq -e '[.rows[] | select(.function == "Server.heavy")] | length == 1 and .[0].module == "[python]"' $st.json
	ok "$v: the interpreter's own frames do not show" jq -e '.samples as $all |
		([.rows[] | select(.function | startswith("_PyEval_EvalFrameDefault")) | .samples] | add // 0) < 0.15 * $all' $st.json
	ok "$v: all code is known" jq -e '[.rows[] | select(.module == "[python]" and .function == "[unknown]")] | length == 0' $st.json
	"$ascribe" stat $st --json >$st.stat 2>/dev/null
	check "$v: accounting" s=$st.stat -- 'exact(s)'
done

# A process that says it is CPython and is not: what it has where the interpreter would be.
cat >liar.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <time.h>
__attribute__((section(".PyRuntime"))) unsigned long _PyRuntime[20000] = { 1 };
const unsigned long Py_Version = VERSION;
unsigned long _PyEval_EvalFrameDefault(unsigned long n)
{
	for (int i = 0; i < 100000; i++)
		n = n * 31 + i;
	return n;
}
int main(int c, char **v)
{
	unsigned long self = c > 9, *p = _PyRuntime, n = 0;
	(void)v;
	asm("mov %%fs:0, %0" : "=r"(self));
	for (size_t i = 0; i < 20000; i++)
		p[i] = (unsigned long)p + 8 * (i * 7919 % 10000); /* everything points into it, in circles */
	p[152 / 8] = self;
	p[576 / 8] = p[48 / 8] = (unsigned long)p;
	while (clock() < CLOCKS_PER_SEC / 2)
		n += _PyEval_EvalFrameDefault(n);
	return n == 1;
}
C
if [ "$(uname -m)" = x86_64 ]; then
	for version in 0x030b07f0 0x030c01f0 0x030d00f0; do
		gcc -O1 -rdynamic -DVERSION=$version -o liar liar.c
		ok "$version, a liar: recorded" "$ascribe" record -F 499 -o liar.$version -- ./liar
		"$ascribe" stat liar.$version --json >liar.json 2>/dev/null
		check "$version, a liar: accounting" s=liar.json -- 'exact(s) and s["stored"] > 10'
	done
fi
finish
