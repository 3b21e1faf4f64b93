#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Events in the code of programs: every hit with its label and stack, against what the program
# counted itself; of processes that begin later, in other mount namespaces, of other programs; what
# cannot be probed. As root.
. "$(dirname "$0")/lib.bash"
cp "$loads/probed" probed
probed=$PWD/probed

# ---- each hit, with label and stack ----
ok "a function and a static probe" record -o both -e "uprobe:$probed:hit,usdt:$probed:probed:passed" \
	-- ./probed 3 2000 2500
report both -e "uprobe:$probed:hit" --by index >hits.json
report both -e "usdt:$probed:probed:passed" --by index >passed.json
report both -e "uprobe:$probed:hit" >functions.json
for of in hits passed; do
	check "$of: each one, by label" r=$of.json -- \
		'{x["key"]["index"]: x["samples"] for x in r["rows"] if x["key"].get("index")} ==
		{"0": 2000, "1": 4000, "2": 6000}' \
		'r["samples"], [(x["key"], x["samples"]) for x in r["rows"]]'
done
ok "and the first one" test "$(jq .samples hits.json passed.json | xargs)" = "12001 12000"
check "where" r=functions.json -- \
	'[x["self"] for x in r["rows"] if x["function"] == "hit"] == [12001] and
	{"run", "start_thread"} <= {x["function"] for x in r["rows"] if x["samples"] > 11900}' \
	'r["rows"][:6]'
ok "the event says what it is" jq -e --arg e "uprobe:$probed:hit" \
	'.event == $e and .unit == "count"' hits.json
# The second instruction of several bytes begins here.
at=$(objdump -d --disassemble=run probed | python3 -c '
import re, sys
at = [int(l.split(":")[0], 16) for l in sys.stdin if re.match(r" +[0-9a-f]+:\t.*\t", l)]
print([a - at[0] for a, b in zip(at, at[1:]) if b - a > 1][1])')
record -o beside -e cpu-clock,"uprobe:$probed:run+$at" -- ./probed 2 5 200
ok "within a function, beside a clock" \
	test "$(report beside -e "uprobe:$probed:run+$at" | jq .samples)" = 2

# ---- more hits than there is room for: each one is stored or counted as lost ----
record -o storm -F 99 -e "uprobe:$probed:hit" -- ./probed 4 100000 1000
"$ascribe" stat storm --json >storm.json
check "a million hits: stored or lost" s=storm.json -- \
	's["fired"] == 1000001 == s["stored"] + sum(s["lost"].values())' \
	's["fired"], s["stored"], s["lost"]'

# ---- processes that begin later, and other files of the same inode ----
background "$ascribe" record -q -a -d 4s -o later -e "uprobe:$probed:hit" 2>recorder.err
recorder=$pid
sleep 1.5
ln probed other
./other 1 300 1000 >/dev/null
wait "$recorder"
ok "a process that began later" test "$(report later -w '{comm="other"}' | jq .samples)" = 301

# ---- in another mount namespace ----
background unshare --mount sh -c "mount -t tmpfs none /mnt && cp probed /mnt/inner &&
	exec /mnt/inner 1 700 5000" >/dev/null
inner=$pid
within 10 sh -c "readlink /proc/$inner/exe | grep -q inner"
kill -STOP "$inner"
background "$ascribe" record -p "$inner" -o inner 2>recorder.err \
	-e "uprobe:/proc/$inner/root/mnt/inner:hit,uprobe:/proc/$inner/exe:hit"
recorder=$pid
recording recorder.err
kill -CONT "$inner"
wait "$recorder"
ok "a file of a container: its hits" test "$(report inner | jq .samples)" = 700
ok "likewise as the program of a process" \
	test "$(report inner -e "uprobe:/proc/$inner/exe:hit" | jq .samples)" = 700

# ---- stripped files: functions that only their debug file, or .gnu_debugdata, has ----
id=$(readelf -n probed | sed -n 's/.*Build ID: //p')
debug=usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
made=
[ -d "/${debug%/*}" ] || made=/${debug%/*}
clean() {
	rm -f "/$debug"
	[ -z "$made" ] || rmdir "$made" 2>/dev/null
}
at_end=clean
hits_of() { # store, command: a recording of its function hit
	record -o "$1" -e "uprobe:$2:hit" -- "$2" 1 400 && test "$(report "$1" | jq .samples)" = 401
}
strip -o stripped probed
exits 1 "is stripped, and exports no function hit: .* debug symbols ./$debug" \
	"$ascribe" record -d 1s -o x -e "uprobe:$PWD/stripped:hit"
mkdir -p "/${debug%/*}"
objcopy --only-keep-debug "/bin/true" "/$debug"
exits 1 'has no function hit in its symbol tables' \
	"$ascribe" record -d 1s -o x -e "uprobe:$PWD/stripped:hit" # of another build id
objcopy --only-keep-debug probed "/$debug"
ok "a stripped file and its debug file: its hits" hits_of debug "$PWD/stripped"
objcopy --only-keep-debug --keep-symbol=hit --keep-symbol=run probed mini.debug &&
	strip --strip-debug mini.debug && xz -f mini.debug &&
	objcopy --add-section .gnu_debugdata=mini.debug.xz stripped mini
rm "/$debug"
ok "a stripped file with .gnu_debugdata: its hits" hits_of packed "$PWD/mini"
background unshare --mount sh -c "mount -t tmpfs none /mnt && cp stripped /mnt/inner &&
	mount -t tmpfs none /usr/lib/debug && mkdir -p '/${debug%/*}' &&
	objcopy --only-keep-debug probed '/$debug' && exec /mnt/inner 1 700 5000" >/dev/null
inner=$pid
within 10 sh -c "readlink /proc/$inner/exe | grep -q inner"
ok "the debug file of a container: its hits" \
	record -p "$inner" -o in_debug -e "uprobe:/proc/$inner/root/mnt/inner:hit"
ok "each" test "$(report in_debug | jq .samples)" = 700

# ---- programs of others ----
if readelf -n /usr/bin/python3 2>/dev/null | grep -q gc__start; then
	record -o python -e usdt:/usr/bin/python3:python:gc__start -- /usr/bin/python3 -c '
import gc
gc.disable()
for _ in range(50): gc.collect()'
	n=$(report python | jq .samples)
	ok "collections of Python: $n" test "$n" -ge 50 -a "$n" -lt 80
fi
record -o libc -e "uprobe:$(ldd ./probed | sed -n 's/.*=> \(.*libc\.so[^ ]*\).*/\1/p'):pthread_create" \
	-- ./probed 5 1 300
ok "a function of the C library" test "$(report libc | jq .samples)" = 5
ok "few hits are no rough shares: nothing was sampled" eval '! "$ascribe" report libc 2>&1 | grep rough'

# ---- a file that another program is written into: no breakpoint may stay in that one ----
same() { # does a mapping of the file have its bytes?
	python3 -c 'import mmap, sys
f = open("changing", "rb")
m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
sys.exit(m[:] != f.read())'
}
cp probed changing
background "$ascribe" record -a -o changing.data -e "uprobe:$PWD/changing:hit" 2>recorder.err
recorder=$pid
recording recorder.err
./changing 1 400 >/dev/null
ok "a breakpoint is in it" eval '! same'
cat "$loads/labelled" >changing
ok "and none after it was written to" within 10 same
kill -INT "$recorder"
wait "$recorder"
ok "which is said" grep -q 'changing:hit ended early: its file was written to' recorder.err
ok "the hits before" test "$(report changing.data | jq .samples)" = 401

# ---- what cannot be ----
exits 0 'uprobe:.*: nobody hit it' "$ascribe" record -o x -e "uprobe:$probed:hit" -- true
exits 1 'has no function nothing' "$ascribe" record -d 1s -o x -e "uprobe:$probed:nothing"
exits 1 'probed has no function a::b.int, long. in' "$ascribe" record -d 1s -o x \
	-e "cpu-clock,uprobe:$probed:a::b(int, long)"
exits 1 'has no static probe a:b: readelf -n' "$ascribe" record -d 1s -o x -e "usdt:$probed:a:b"
exits 1 'no instruction begins at run.*: objdump' \
	"$ascribe" record -d 1s -o x -e "uprobe:$probed:run+$((at + 1))"
if [ "$(uname -m)" = x86_64 ] && printf '6.18\n%s\n' "$(uname -r)" | sort -CV; then
	exits 1 'nop of 5 bytes stands at nops: .*the children of a fork crash' \
		"$ascribe" record -d 1s -o x -e "uprobe:$probed:nops"
	exits 0 '' "$ascribe" record -d 1s -o x -e "uprobe:$probed:nops+5"
fi
exits 1 'run is not as long as' "$ascribe" record -d 1s -o x -e "uprobe:$probed:run+0x10000"
exits 1 'memcpy is, is chosen' "$ascribe" record -d 1s -o x \
	-e "uprobe:$(ldd ./probed | sed -n 's/.*=> \(.*libc\.so[^ ]*\).*/\1/p'):memcpy"
exits 1 'cannot open /nowhere/x: no such file; one of a container is /proc/PID/root' "$ascribe" record -d 1s -o x -e uprobe:/nowhere/x:f
exits 1 'no 64-bit ELF file' "$ascribe" record -d 1s -o x -e uprobe:/etc/passwd:f
exits 1 'no 64-bit ELF file' "$ascribe" record -d 1s -o x -e uprobe:/dev/zero:f
mkfifo pipe
exits 1 'no 64-bit ELF file' "$ascribe" record -d 1s -o x -e "uprobe:$PWD/pipe:f"
exits 2 'has the form uprobe:FILE:SYMBOL' "$ascribe" record -d 1s -o x -e uprobe:name
exits 2 'has the form usdt:FILE:PROVIDER:NAME' "$ascribe" record -d 1s -o x -e "usdt:$probed:passed"
cp probed cut
truncate -s 9000 cut
exits 1 'no 64-bit ELF file' "$ascribe" record -d 1s -o x -e "usdt:$PWD/cut:probed:passed"
# ---- the daemon, whose recorder has no capability ----
background "$ascribe" daemon -s "$PWD/store" -l none -e cpu-clock,"uprobe:$probed:hit" 2>daemon.err
daemon=$pid
within 30 grep -q recording daemon.err
./probed 1 400 3000 >/dev/null
kill "$daemon"
wait "$daemon"
ok "the daemon's hits" test "$(report store -e "uprobe:$probed:hit" --from 1 | jq .samples)" = 401
finish
