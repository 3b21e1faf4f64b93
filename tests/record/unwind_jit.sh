#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of code that is made while it runs, and of Go, reach their root. Each for a second of
# CPU time, so that there are as many samples on a busy host.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"

if command -v node >/dev/null; then
	cat >work.js <<'JS'
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
while (cpu() < 1e6) {
	const o = [];
	for (let i = 0; i < 1000; i++) o.push({ a: i, b: String(i) });
	JSON.parse(JSON.stringify(o)).sort((x, y) => y.a - x.a).map(x => x.b.replace(/1/g, 'x'));
	fib(18);
}
JS
	roots node 0.985 node work.js
fi
if command -v java >/dev/null && command -v javac >/dev/null; then
	cat >Work.java <<'JAVA'
import java.util.*;
public class Work {
	static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	public static void main(String[] args) {
		long sum = 0;
		java.lang.management.ThreadMXBean t = java.lang.management.ManagementFactory.getThreadMXBean();
		while (t.getCurrentThreadCpuTime() < 1000000000L) {
			Map<Integer, String> m = new HashMap<>();
			for (int i = 0; i < 1000; i++) m.put(i * 31, "" + i);
			sum += new TreeMap<>(m).size() + fib(18);
		}
		System.out.println(sum);
	}
}
JAVA
	javac --release 17 Work.java
	for java in $(jvms); do
		roots "$java with frame pointers" 0.985 "$java" -XX:+PreserveFramePointer Work
	done
fi
cat >work.go <<'GO'
package main

import (
	"fmt"
	"sort"
	"syscall"
)

func cpu() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func main() {
	for cpu() < 1e9 {
		m := map[int]string{}
		for i := 0; i < 2000; i++ {
			m[i*7] = fmt.Sprint(i)
		}
		v := []int{}
		for i := range m {
			v = append(v, i)
		}
		sort.Ints(v)
	}
}
GO
GOCACHE=$PWD/gocache go build -o work-go work.go && roots Go 0.98 ./work-go
GOCACHE=$PWD/gocache go build -ldflags='-s -w' -o goframes "$here/goframes.go"
roots 'Go, without frames' 0.99 ./goframes
ok "Go: callers of functions that have no frame" python3 "$here/unwind.py" callers folded
finish
