#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Code that processes made while they ran, named by what they say about it: node, the JVM (asked by
# us), CPython with its trampoline. Also maps that must not be believed.
. "$(dirname "$0")/lib.bash"

# The share of CPU seconds of one function, in percent, in all rows of the report.
share() { # store, function
	"$ascribe" report "$1" --json -n 1000 2>/dev/null |
		jq -r --arg f "$2" '[.rows[] | select(.function == $f) | .share * 100] | add // 0 | floor'
}

at_least() { # percent, store, function
	local got
	got=$(share "$2" "$3")
	echo "$3 $got%"
	[ "$got" -ge "$1" ]
}

cat >hot.js <<'JS'
function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
let x = 0;
while (process.cpuUsage().user < 1e6) x += fibonacci(24);
console.log(x);
JS
cat >Hot.java <<'JAVA'
public class Hot {
	static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
	public static void main(String[] a) {
		long now = System.currentTimeMillis(), end = now + Integer.parseInt(a[0]), x = 0;
		// Of a busy CPU it needs its part, too.
		while (System.currentTimeMillis() < end || ProcessHandle.current().info().totalCpuDuration().get().toMillis() < (end - now) * 3 / 4)
			for (int i = 0; i < 50; i++) x += fibonacci(24);
		System.out.println(x);
	}
}
JAVA
cat >hot.py <<'PY'
import time
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
while time.process_time() < 1:
    fibonacci(15)
PY

run=(sh -c 'echo /tmp/perf-$$.map >>maps; exec "$@"' sh)
if command -v node >/dev/null; then
	ok "node: recorded" "$ascribe" record -F 499 -o node -- "${run[@]}" node \
		--perf-basic-prof hot.js
	ok "node: its function" at_least 50 node fibonacci
	ok "node: where it stands" test "$("$ascribe" export node --format pprof -o - 2>/dev/null | gzip -dc | grep -ac 'hot\.js')" -ge 1
fi

# `check` names those that lack an option, and only those.
checked() { # what must be there and what not (@: its number), command
	local want=$1 without=$2
	shift 2
	background "$@" >/dev/null
	sleep 0.5
	"$ascribe" check >check.out 2>&1
	kill "$pid" 2>/dev/null
	want=${want//@/$pid} without=${without//@/$pid}
	grep -E "$want" check.out | grep -v "$without"
}
if command -v node >/dev/null; then
	ok "check: a node without" checked '^(ok|note) *Node ' '[( ]@[,)]' node \
		-e 'setTimeout(() => 0, 20000)'
	ok "check: a node with" checked '^(ok|note) *Node ' '[( ]@[,)]' node \
		--perf-basic-prof -e 'setTimeout(() => 0, 20000)'
fi
for java in $(jvms); do # one that waits before its first class: a JRE will do
	paused=(-XX:+UnlockDiagnosticVMOptions -XX:+PauseAtStartup -version)
	case $(uname -m) in
	x86_64)
		ok "$java: check: without" checked '^(ok|note) *Java ' '[( ]@[,)]' \
			"$java" "${paused[@]}"
		;;
	*)
		ok "$java: check: without" checked \
			'^note  Java .*[( ]@[,)].*-XX:\+PreserveFramePointer' '^$' \
			"$java" "${paused[@]}"
		;;
	esac
	ok "$java: check: with" checked '^(ok|note) *Java ' '[( ]@[,)]' "$java" \
		-XX:+PreserveFramePointer "${paused[@]}"
	ok "$java: check: by its environment" checked '^(ok|note) *Java ' \
		'[( ]@[,)]' env JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer "$java" "${paused[@]}"
done
if command -v java >/dev/null && command -v javac >/dev/null; then
	javac --release 17 Hot.java
	for java in $(jvms); do
		rm -rf java
		ok "$java: recorded" "$ascribe" record --jvm-attach -F 499 -d 4s -o java \
			-- sh -c 'echo /tmp/perf-$$.map >java.map; exec "$@"' \
			sh "$java" -XX:+PreserveFramePointer Hot 5000
		ok "$java: its function, from the map that we asked for" at_least 50 java \
			'int Hot.fibonacci(int)'
		ok "$java: no map stays in /tmp" test ! -e "$(cat java.map)"
	done
	ok "java: nor what it was asked by" test "$(find /tmp -maxdepth 1 -name '.attach_pid*' -newer Hot.class | wc -l)" -eq 0
	"$ascribe" record -F 499 -o java-alone -- java -XX:+PreserveFramePointer Hot 4000 \
		>alone.out 2>&1
	ok "java: not asked unless we are told to" sh -c '! grep -q "Full thread dump" alone.out'
	[ "$(uname -m)" != x86_64 ] ||
		ok "java: its function, without asking" at_least 50 java-alone \
			'int Hot.fibonacci(int)'
	"$ascribe" record --jvm-attach -F 499 -o java-deaf -- java \
		-XX:+DisableAttachMechanism -XX:+PreserveFramePointer Hot 1000 >deaf.out 2>&1
	ok "java: who wants no attaching gets no signal" sh -c '! grep -q "Full thread dump" deaf.out'
fi

python=
for p in python3.13 python3.12 /root/.pyenv/versions/3.1[23]*/bin/python3; do
	"$p" -X perf -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && python=$p
done
if [ -n "$python" ]; then
	ok "python: recorded" "$ascribe" record -F 499 -o python -- "${run[@]}" "$python" \
		-X perf hot.py
	ok "python: calls" "$ascribe" flame python -o python.html
	ok "python: its function" test "$(grep -c 'fibonacci' python.html)" -ge 1
fi

# ---- what only looks like a JVM ----
fake=$build/tests/record/fakejvm
cp "$fake" libjvm.so
cp "$fake" fakejvm # is found where another directory stands in the place of /tmp, too
if [ "$(uname -m)" = x86_64 ]; then
	ok "a libjvm.so, SIGQUIT not caught: it lives" \
		test \
		"$("$ascribe" record --jvm-attach -F 499 -o fake1 -- \
			"$fake" 3 ./libjvm.so 2>/dev/null)" = 0
	ok "a libjvm.so, SIGQUIT caught: none comes" \
		test \
		"$("$ascribe" record --jvm-attach -F 499 -o fake2 -- \
			"$fake" 3 ./libjvm.so catch 2>/dev/null)" = 0
	# It has the counters of a JVM, too, in a /tmp of its own choice, which is root's and not
	# its user's.
	mkdir -m 755 roots roots/hsperfdata_x
	chmod 755 .
	if unshare --mount true 2>/dev/null && command -v setpriv >/dev/null; then
		cat >looks.sh <<-'SH'
			mount --bind roots /tmp || exit 9
			{ printf '\312\376\300\300'; printf 'java.rt.vmArgs %040d' 0; } >/tmp/hsperfdata_x/$$
			chown 12345 /tmp/hsperfdata_x/$$
			exec setpriv --reuid 12345 --regid 12345 --clear-groups "$1" 3 ./libjvm.so /tmp/hsperfdata_x/$$ catch
		SH
		quits=$("$ascribe" record --explain --jvm-attach -F 499 -o fake3 -- unshare \
			--mount sh looks.sh ./fakejvm 2>fake3.err)
		ok "a directory of root's: no signal ($quits)" test "$quits" = 0
		ok "a directory of root's: nothing is made there" \
			test "$(stat -c %Y roots)" -le "$(stat -c %Z roots/hsperfdata_x)"
		ok "it was asked" grep -q 'JVMs asked [1-9]\|without answer' fake3.err
		# In a /tmp of its user's it is asked and silent: time to look at who asks.
		mkdir -m 1777 its
		mkdir its/hsperfdata_x
		chown -R 12345 its
		sed 's/--bind roots/--bind its/' looks.sh >asked.sh
		cat >watch.py <<-'PY'
			import subprocess, sys, time
			secret, until = sys.argv[1].encode(), time.time() + 20
			def holds(pid):
			    mem = open(f'/proc/{pid}/mem', 'rb', 0)
			    for line in open(f'/proc/{pid}/maps'):
			        begin, end = (int(x, 16) for x in line.split()[0].split('-'))
			        if 'w' not in line.split()[1]: continue
			        mem.seek(begin)
			        if secret in mem.read(end - begin): return True
			    return False
			def status(pid):
			    return dict(l.strip().split(':', 1) for l in open(f'/proc/{pid}/status'))
			while time.time() < until:
			    for pid in subprocess.run(['pgrep', '-x', 'ascribe-jvm'],
			                              capture_output=True, text=True).stdout.split():
			        try:
			            s = status(pid)
			            if s['Seccomp'].strip() != '2' or s['Uid'].split() != ['12345'] * 4: continue
			            rights = sum(int(s[key], 16) for key in ('CapPrm', 'CapEff', 'CapInh'))
			            keeper = s['PPid'].strip()
			            recorder = status(keeper)['PPid'].strip()
			            print('secrets', *(holds(p) for p in (recorder, keeper, pid)), 'capabilities', rights,
			                  'no_new_privs', s['NoNewPrivs'].strip())
			            sys.exit()
			        except (FileNotFoundError, ProcessLookupError): pass
			    time.sleep(.005)
		PY
		python3 watch.py asecretofthetest >watched &
		watcher=$!
		quits=$("$ascribe" record --jvm-attach -F 499 -o fake4 \
			--label-drop asecretofthetest -- unshare --mount sh asked.sh ./fakejvm \
			2>fake4.err)
		wait $watcher
		ok "a /tmp of its own: it is signalled ($quits)" test "${quits:-0}" -ge 1
		ok "what asked has no right, and no secret of the recorder: $(cat watched)" \
			grep -q 'secrets True False False capabilities 0 no_new_privs 1' watched
		ok "and leaves nothing there" sh -c '! ls -a its | grep attach'
		# It answers, a byte at a time and without end.
		cat >drip.py <<-'PY'
			import os, socket, sys, time
			s = socket.socket(socket.AF_UNIX)
			s.bind(sys.argv[1])
			s.listen()
			while True:
			    c, _ = s.accept()
			    open('dripped', 'w').close()
			    try:
			        while True: c.send(b'0'), time.sleep(.05)
			    except OSError: pass
		PY
		sed "s|^exec|timeout 20 setpriv --reuid 12345 --regid 12345 --clear-groups python3 - /tmp/.java_pid\$\$ <drip.py \&\nsleep 0.3\nexec|" \
			asked.sh >drips.sh
		chmod 777 .
		begin=$SECONDS
		"$ascribe" record --jvm-attach -F 499 -o fake5 -- unshare --mount sh drips.sh \
			./fakejvm >fake5.out 2>fake5.err
		status=$? took=$((SECONDS - begin))
		chmod 755 .
		ok "one that answers without end: it was asked, and the recording ends after $took s" \
			test -e dripped -a $status = 0 -a $took -lt 30
		ok "one that answers without end: every sample is accounted for" sh -c "'$ascribe' stat fake5 --json |
			jq -e '.stored > 0 and .fired == .stored + ([.lost[]] | add)'"
	fi
fi

# ---- maps that are not believed: the process goes on unnamed, everybody else is named ----
cat >code.c <<'C'
#include <string.h>
#include <sys/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int c, char **v)
{
	/* push %rbp; mov %rsp,%rbp; mov $5000000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
	static const unsigned char loop[] = { 0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x4b, 0x4c, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char cmd[512];
	memcpy(p, loop, sizeof(loop));
	snprintf(cmd, sizeof(cmd), "P=%d A=%lx; M=/tmp/perf-$P.map; echo $M >>maps; %s", getpid(), (unsigned long)p, v[1]);
	if (system(cmd))
		return 1;
	if (c > 2 && setuid((unsigned)atoi(v[2])))
		return 1;
	while (clock() < CLOCKS_PER_SEC / 2)
		((void (*)(void))p)();
	return 0;
}
C
gcc -O1 -o code code.c
if [ "$(uname -m)" = x86_64 ]; then
	# Each looks at no process but its own, in its CPU time: three at a time.
	tries=() running=()
	try() { # what, wanted share at least, at most, arguments of code
		tries+=("$2 $3 $1")
		"$ascribe" record -F 499 -o "st.${#tries[@]}" -- ./code "${@:4}" >/dev/null 2>&1 &
		running+=($!)
		[ ${#running[@]} -lt 3 ] || tried
	}
	tried() {
		wait "${running[@]}"
		running=()
	}
	try "an honest map" 80 100 'echo $A 20 my_code >$M'
	try "the map of another user" 0 0 'echo $A 20 my_code >$M; chown 12345 $M' 23456
	try "the map of root for another user" 80 100 'echo $A 20 my_code >$M' 23456
	try "a symbolic link" 0 0 "echo \$A 20 my_code >$dir/real; ln -s $dir/real \$M"
	try "a pipe" 0 0 'mkfifo $M'
	try "a terabyte" 0 0 'echo $A 20 my_code >$M; truncate -s 1T $M'
	try "a directory" 0 0 'mkdir -p $M && rmdir $M && mkdir $M; exit 0'
	try "noise" 0 0 'head -c 200000 /dev/urandom >$M'
	tried
	for i in "${!tries[@]}"; do
		read -r low high what <<<"${tries[i]}"
		got=$(share "st.$((i + 1))" my_code)
		ok "$what: my_code has $got%" test "$got" -ge "$low" -a "$got" -le "$high"
	done
	# A container: another number, another /tmp.
	cp code /usr/local/bin/ascribe-test-code
	at_end='rm -f /usr/local/bin/ascribe-test-code'
	if unshare --pid --fork --mount true 2>/dev/null; then
		"$ascribe" record -F 499 -o ns -- unshare --pid --fork --mount sh -c \
			'mount -t tmpfs none /tmp && cd /tmp && exec ascribe-test-code "echo \$A 20 my_code >\$M"' >ns.out 2>&1
		ok "in a namespace of its own" at_least 80 ns my_code
	fi
fi
while read -r map; do rm -rf "$map"; done <maps
finish
