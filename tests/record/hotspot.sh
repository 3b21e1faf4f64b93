#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Java without options, for each JVM that is here: compiled, interpreted and inlined frames,
# lambdas, virtual threads, against what the program says that it did. Then JVMs that live for an
# instant, and what only looks like HotSpot, and lies about where its code is.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
[ "$(uname -m)" = x86_64 ] || skip "only x86-64 code is walked"
command -v javac >/dev/null || skip "no javac"

cat >Truth.java <<'JAVA'
public class Truth {
	static volatile long sink;
	static final java.lang.management.ThreadMXBean clock = java.lang.management.ManagementFactory.getThreadMXBean();
	static final com.sun.management.OperatingSystemMXBean process =
		(com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
	static long cpuThree, cpuOne;
	static long three(int n) { long x = n; for (int i = 0; i < n; i++) x = x * 6364136223846793005L + (x >>> 7); return x; }
	static long one(int n) { long x = n; for (int i = 0; i < n; i++) x = x * 6364136223846793005L + (x >>> 7); return x; }
	static long deep(int d, int n, boolean three) {
		if (d == 0) return three ? three(n) : one(n);
		return deep(d - 1, n, three) + 1;
	}
	static long now(boolean virtual) { return virtual ? System.nanoTime() : clock.getCurrentThreadCpuTime(); }
	static void work(int ms, int depth, int n, boolean virtual) {
		long end = process.getProcessCpuTime() + ms * 1000000L; // others may have the CPU meanwhile
		java.util.function.IntUnaryOperator w = k -> {
			long a = now(virtual);
			sink += deep(depth, 3 * k, true);
			long b = now(virtual);
			sink += deep(depth, k, false);
			cpuThree += b - a;
			cpuOne += now(virtual) - b;
			return 0;
		};
		while (process.getProcessCpuTime() < end) w.applyAsInt(n);
	}
	public static void main(String[] a) throws Exception {
		int ms = Integer.parseInt(a[0]), depth = Integer.parseInt(a[1]), n = Integer.parseInt(a[2]);
		if (a.length > 3) {
			Runnable r = () -> work(ms, depth, n, true);
			((Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, r)).join();
		} else {
			work(ms, depth, n, false);
		}
		System.out.println((double) cpuThree / (cpuThree + cpuOne));
	}
}
JAVA
# What a recording says: judge FOLDED DEPTH SHARE TOLERANCE. Virtual threads have no CPU clock:
# their truth is of elapsed time, which others on the CPU shift. What is in neither function is in
# what calls them, which takes longer until it is compiled: a busy host compiles late.
cat >judge.py <<'PY'
import sys
least, tolerance = .7, float(sys.argv[4])

def sample_of(frames):
    if not any(f.split('(')[0].endswith('Truth.work') for f in frames):
        return None
    names = [f.split('(')[0].split(' ')[-1] for f in frames]
    what = 'three' if 'Truth.three' in names else 'one' if 'Truth.one' in names else None
    lambdas = [f for f in names if f.startswith('Truth.lambda$work$')]
    return (not {'[java]', '[anon]', '[unknown]'} & set(frames), what,
            names.count('Truth.deep') == depth + 1 and len(lambdas) == 1 and
            names.index('Truth.work') < names.index('Truth.deep'))
PY

javac --release 17 Truth.java 2>javac.err || skip "javac: $(cat javac.err)"
for java in $(jvms); do
	major=$("$java" -version 2>&1 | sed -n '1s/[^"]*"\([0-9]*\).*/\1/p')
	for mode in -Xmixed -Xint -XX:TieredStopAtLevel=1 virtual; do
		option=$mode word=() n=20000 tolerance=0.02 what="Java $major $mode"
		if [ $mode = virtual ]; then
			[ "$major" -ge 21 ] || continue
			option=-Xmixed word=(virtual) tolerance=0.1
		fi
		[ $mode != -Xint ] || n=2000
		rm -rf java
		ok "$what: recorded" "$ascribe" record -q -F 499 -o java -- \
			"$java" $option Truth 4000 24 $n "${word[@]}"
		truth=$(tail -1 ok.out)
		"$ascribe" export java --format folded >java.folded 2>/dev/null
		ok "$what" judge java.folded 24 "$truth" $tolerance
		ok "$what" rooted java 97
	done
done

# ---- JVMs that end before their rows are read ----
rm -rf short
ok "short: recorded" "$ascribe" record -q -F 49 -o short -- \
	sh -c 'for i in 1 2 3 4 5; do java Truth 300 24 20000; done; sleep 8'
"$ascribe" export short --format folded 2>/dev/null >short.folded
ok "short: JVMs of 0.3 s have names" awk '
	{ n = split($0, frame, ";"); sub(/ [0-9]+$/, "", frame[n])
	for (i = 1; i <= n; i++) { bare += frame[i] == "[java]" ? $NF : 0
		named += frame[i] ~ /Truth\.[a-z]+\(/ ? $NF : 0 } }
	END { print named + 0 " frames named, " bare + 0 " without a name"
		exit !(named > 500 && bare < 0.15 * named) }' short.folded
finish
