#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bad use and bad luck: a clear message on stderr, the right exit status, and nothing lost that was
# recorded.
. "$(dirname "$0")/lib.bash"
load=$loads/busy
chmod 755 "$dir"

# A store that is whole: it can be read, its counts add up, it has N windows at least and some
# samples.
whole() { # what, store, windows
	"$ascribe" stat "$2" --json >stat.json 2>stat.err || echo '{}' >stat.json
	report "$2" --idle >report.json || echo '{}' >report.json
	check "$1: the store is readable and whole" s=stat.json r=report.json -- \
		"exact(s) and s['stored'] > 0 and s['blocks'] >= $3 and r['samples'] == s['stored']" 's.get("blocks"), s.get("stored")'
}

# ---- without rights ----
copy=$dir/ascribe
cp "$ascribe" "$copy" && chmod 755 "$copy"
mkdir -m 777 nobody
exits 1 'CAP_(BPF|PERFMON).*' setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
	--bounding-set=-all \
	"$copy" record -d 1s -o nobody/s
ok "the message says what to do" grep -qE 'be root|sudo|setcap|CAP_PERFMON' said
ok "no store is left by it" test ! -e nobody/s
exits 1 'CAP_BPF' setpriv --bounding-set=-bpf,-sys_admin --inh-caps=-all "$copy" record -d 1s \
	-o nobody/s

# What check says to do gives all that is missing, at once.
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$copy" \
	check >check.out 2>&1
ok "check names one setcap" test "$(grep -o '`setcap [^`]*`' check.out | sort -u | wc -l)" = 1
advice=$(grep -o 'setcap [^`]*' check.out | head -1)
ok "which works: $advice" sh -c "$advice"
for c in $(grep -oE 'CAP_[A-Z_]+ +missing' check.out | cut -d' ' -f1); do
	ok "and gives $c" sh -c "getcap '$copy' | grep -qi '$c'"
done
ok "all of six" test "$(getcap "$copy" | grep -o 'cap_' | wc -l)" = 6
# With them it records for its caller, and runs nothing that its caller names.
as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --)
exits 0 'complete: ' "${as_nobody[@]}" "$copy" record -d 1s -o nobody/s
exits 2 "no command '4096'" "${as_nobody[@]}" \
	bash -c 'exec -a ascribe-nursery "$0" 4096 1 1048576 4096' "$copy"
exits 2 "no command '4096'" "${as_nobody[@]}" \
	bash -c 'exec -a ascribe-keeper "$0" 4096 1' "$copy"
rm -rf nobody/s
setcap -r "$copy"
exits 2 'unknown option --pids; did you mean --pid' "$ascribe" record --pids 1
for c in record top; do
	for o in --select --rate=9; do
		exits 2 "${o%=*} is an option of ascribe daemon alone; here -F" "$ascribe" $c $o '{pod="x"}'
	done
done
exits 127 'cannot run /nonexistent: No such file' "$ascribe" record -d 1s -o gone -- /nonexistent

# This one is killed much later, when it has written some windows. What it records hardly needs a
# CPU.
background sh -c 'while :; do "$0" spin 0.05; sleep 0.3; done >/dev/null' "$load"
spin=$pid
background "$ascribe" record -F 199 -o killed 2>killed.err
killed=$pid
recording killed.err

# ---- wrong arguments ----
exits 2 "unknown event 'no-such'" "$ascribe" record -e no-such -d 1s -o x
exits 1 "no such tracepoint|tracefs is not mounted" "$ascribe" record -e no:such -d 1s -o x
exits 2 'frequency|-F' "$ascribe" record -F 0 -d 1s -o x
exits 2 'abc' "$ascribe" record -F abc -d 1s -o x
exits 2 '-F|frequency' "$ascribe" record -F 1000000 -d 1s -o x
exits 2 '-1' "$ascribe" record -F -1 -d 1s -o x
exits 2 'duration|TIME|0s' "$ascribe" record -d 0s -o x
exits 2 'exclude each other' "$ascribe" record -a -p 1 -d 1s -o x
exits 2 'do not go with a command' "$ascribe" record -p 1 -o x -- true
exits 2 "not a process or thread id" "$ascribe" record -p 12x -d 1s -o x
exits 1 'there is no process 999999999' "$ascribe" record -p 999999999 -d 1s -o x
exits 1 'there is no thread 999999999' "$ascribe" record -t 999999999 -d 1s -o x
exits 2 '' "$ascribe" record -p '' -d 1s -o x
exits 2 '' "$ascribe" record -t '' -d 1s -o x
exits 1 '' "$ascribe" record -G no/such/group -d 1s -o x
ok "none of these made a store" test ! -e x

# ---- a process that exits while it is recorded ----
background sleep 300
gone=$pid
background "$load" spin 1.5 >/dev/null
begin=$(date +%s)
exits 0 'ended' "$ascribe" record -F 499 -p "$pid" -d 60s -o ended
ok "it ended by itself" test $(($(date +%s) - begin)) -lt 15
whole "a process that exits" ended 1
kill -9 "$gone"; wait "$gone" 2>/dev/null
exits 1 "there is no process $gone" "$ascribe" record -p "$gone" -d 1s -o x

# A thread that is not the first of its process: where the kernel cannot watch it, -d ends the
# recording.
background "$load" switches 2.5 >/dev/null
sleep 0.3
tid=$(ls "/proc/$pid/task" | tail -1)
exits 0 '' "$ascribe" record -F 499 -t "$tid" -d 5s -o thread
report thread --by tid >tid.json
check "-t: that thread and no other" r=tid.json \
	-- "set(samples(r)) <= {'$tid'} and len(r['rows']) == 1" 'samples(r)'

# ---- places that cannot be written ----
echo text >plain
mkdir full && echo x >full/other
exits 1 'plain' "$ascribe" record -d 1s -o plain
ok "the file is as it was" test "$(cat plain)" = text
exits 1 'full' "$ascribe" record -d 1s -o full
ok "the directory is as it was" test "$(ls -A full)" = other
exits 1 'no/such' "$ascribe" record -d 1s -o no/such/place
exits 1 'plain' "$ascribe" record -d 1s -o plain/below
mkdir ro && if mount -t tmpfs -o ro none ro 2>/dev/null; then
	at_end='umount ro small'
	exits 1 'Read-only' "$ascribe" record -d 1s -o ro/s
	umount ro
fi 2>/dev/null

# A disk that fills up: the windows before stay, what could not be written is counted and said.
# Without what fills it there is room for several.
mkdir small && if mount -t tmpfs -o size=2m none small 2>/dev/null; then
	at_end='umount small'
	background sh -c 'while :; do "$0" deep 0.3; sleep 0.3; done >/dev/null' "$load"
	deep=$pid
	background "$ascribe" record -a -F 999 -d 40s -o small/s 2>small.err
	recorder=$pid
	recording small.err
	for _ in $(seq 250); do # a whole window first
		[ "$("$ascribe" stat small/s --json 2>/dev/null | jq '.blocks')" = 1 ] && break
		sleep 0.1
	done
	dd if=/dev/zero of=small/filler bs=1k 2>/dev/null
	sleep 11
	kill -INT "$recorder"
	wait "$recorder"
	status=$?
	kill -9 "$deep"; wait "$deep" 2>/dev/null
	ok "a full disk: exit 1" test "$status" = 1
	ok "and says so: $(tail -1 small.err)" \
		grep -qE 'windows could not be written.*(No space left|no room)' small.err
	whole "a full disk" small/s 1
	rm small/filler
	whole "a full disk, when there is room again" small/s 1
	exits 0 '' "$ascribe" record --append -F 999 -d 1s -o small/s
	whole "a full disk, appended to" small/s 2
	umount small
	at_end=
else
	echo "--    no tmpfs can be mounted here: no full disk"
fi

# ---- two recorders at one place ----
background "$ascribe" record -q -d 30s -o busy 2>busy.err
recorder=$pid
within 30 [ -e busy/lock ]
sleep 0.5
exits 1 'busy is being written by another process' "$ascribe" record -d 1s -o busy
exits 1 'being written|another process' "$ascribe" record --append -d 1s -o busy
kill -INT "$recorder"
wait "$recorder"
ok "the first goes on" test $? = 0
whole "the first" busy 1
record -q -d 300ms -o busy
ok "an earlier recording is kept" test -e busy.old/HEADER
whole "the earlier one" busy.old 1

# ---- no store, or half of one ----
mkdir empty
exits 1 'empty' "$ascribe" report empty
exits 1 'plain' "$ascribe" report plain
exits 1 'nowhere' "$ascribe" report nowhere
# HEADER.copy is the spare one: without it everything is there, and only verify says that it is
# gone.
cp -a ended spare && truncate -s 100 spare/HEADER.copy
"$ascribe" store verify spare >out 2>err
status=$?
ok "a damaged spare header is found by verify: $(head -1 out)" test $status = 1
for file in $(cd ended && find . -type f -size +0 ! -name HEADER.copy ! -name reserve); do
	rm -rf cut && cp -a ended cut
	size=$(stat -c %s "cut/$file")
	truncate -s $((size / 2)) "cut/$file"
	for command in 'report' 'stat' 'labels' 'flame -o cut.html' \
		'export --format pprof -o cut.pb'; do
		set -- $command
		timeout 60 "$ascribe" "$1" cut "${@:2}" >out 2>err
		got=$?
		# Nothing of the window is left: an error with a text, or no data; never a crash,
		# never silence.
		if [ $got -le 1 ] && [ -s err ]; then
			passed=$((passed + 1))
		else
			bad "$1 of a store with $file cut in half: exit $got, $(head -1 err)"
		fi
	done
done
good "stores with a file cut in half: $(tail -1 err)"

# ---- no BTF ----
if unshare -m true 2>/dev/null; then
	exits 1 'BTF' unshare -m sh -c 'mkdir -p nobtf && mount --bind nobtf /sys/kernel/btf && exec "$0" record -d 1s -o btf' "$ascribe"
	exits 1 '' unshare -m sh -c 'mount --bind nobtf /sys/kernel/btf && "$0" check 2>&1 | tee /dev/stderr | grep BTF; exit 1' "$ascribe"
else
	echo "--    no mount namespaces here: BTF cannot be hidden"
fi

# ---- a CPU that is there only later: the host has one more than /sys says it has ----
if unshare -m true 2>/dev/null && [ "$(cat /sys/devices/system/cpu/online)" = \
	"0-$(($(nproc) - 1))" ] && [ "$(nproc)" -gt 1 ]; then
	echo "0-$(($(nproc) - 2))" >fewer
	exits 0 '1 CPUs were added after the recording began' unshare -m sh -c \
		'mount --bind fewer /sys/devices/system/cpu/present && exec "$0" record -d 1s -o fewer.store' "$ascribe"
fi

# ---- signals ----
for signal in INT TERM HUP; do
	background "$ascribe" record -F 499 -o "$signal" 2>signal.err
	recorder=$pid
	recording signal.err
	sleep 1
	kill -$signal "$recorder"
	wait "$recorder"
	ok "SIG$signal: exit 0" test $? = 0
	ok "SIG$signal: says what was recorded: $(tail -1 signal.err)" grep -q 'complete: .* samples' signal.err
	whole "SIG$signal" "$signal" 1
done
# Twice: at once, and while a slow disk holds up the end. A shell's background jobs ignore SIGINT:
# not here.
for pause in 0 0.005; do
	rm -rf twice*
	background env --default-signal=INT "$ascribe" record -F 999 -o twice 2>signal.err
	recorder=$pid
	recording signal.err
	sleep 0.5
	begin=$(date +%s%N)
	kill -INT "$recorder"
	sleep $pause
	kill -INT "$recorder" 2>/dev/null
	apart=$((($(date +%s%N) - begin) / 1000000))
	wait "$recorder"
	status=$?
	if [ $apart -ge 250 ]; then # by its clock that is a second request
		echo "--    the machine is too busy: signals $pause s apart took $apart ms"
		continue
	fi
	took=$((($(date +%s%N) - begin) / 1000000))
	ok "SIGINT twice, $pause s apart, counts once: ended after $took ms with $status" test $took -lt 3000 -a $status = 0
	whole "SIGINT twice" twice 1
done
if command -v strace >/dev/null && cp -a INT slow; then
	background env --default-signal=INT strace -qq -o /dev/null -e trace=fsync,fdatasync \
		-e inject=fsync,fdatasync:delay_enter=1s \
			"$ascribe" record --append -F 999 -o slow 2>signal.err
	tracer=$pid
	recording signal.err
	sleep 0.5
	recorder=$(cat "/proc/$tracer/task/$tracer/children")
	kill -INT $recorder
	sleep 1
	ok "it is still at it" kill -0 $recorder
	begin=$(date +%s%N)
	kill -INT $recorder
	wait "$tracer"
	status=$?
	took=$((($(date +%s%N) - begin) / 1000000))
	ok "SIGINT again on a slow disk: ended after $took ms with $status" test $took -lt 3500 -a $status = 130
	whole "what was there before" slow 1
	exits 0 '' "$ascribe" record --append -F 499 -d 500ms -o slow
	whole "and recorded on after it" slow 2
fi
# timeout(1) signals its command and then the process group: the recorder gets two.
timeout 2 "$ascribe" record -F 499 -o timeout 2>signal.err
ok "timeout(1): its status, 124" test $? = 124
whole "timeout(1)" timeout 1
# Ctrl-C goes to the command too: it ends by it, and what was recorded stays.
background env --default-signal=INT setsid --wait "$ascribe" record -F 499 -o both \
	-- sh -c 'echo $$ >child; while :; do :; done' 2>signal.err
recording signal.err
sleep 1
kill -INT -- -"$(ps -o pgid= -p "$(cat child)" | tr -d ' ')"
wait "$pid"
ok "Ctrl-C with a command: its status, 130" test $? = 130
whole "Ctrl-C with a command" both 1

# Nobody reads stderr any more; standard descriptors are closed.
"$ascribe" record -F 99 -d 6s -o unread 2> >(head -1 >/dev/null)
ok "nobody reads the progress: exit 0" test $? = 0
whole "nobody reads the progress" unread 1
"$ascribe" record -F 99 -d 1s -o closed <&- >&- 2>&-
ok "closed descriptors: exit 0" test $? = 0
whole "closed descriptors" closed 1
exits 1 'Too many open files' sh -c 'ulimit -n 24; exec "$0" record -d 1s -o few' "$ascribe"
# Usually no sample at all; on a machine that is late, one or two.
exits 0 'complete: [0-9]' "$ascribe" record -F 1 -d 1ms -o short
exits 0 '' "$ascribe" report short

# kill -9 while recording, some time after two windows: they are there.
for _ in $(seq 300); do
	[ "$("$ascribe" stat killed --json 2>/dev/null | jq '.blocks')" -ge 2 ] 2>/dev/null && break
	sleep 0.1
done
kill -9 "$killed"; wait "$killed" 2>/dev/null
whole "kill -9 in the third window or later" killed 2
exits 0 '' "$ascribe" record --append -F 199 -d 1s -o killed
whole "and recorded on after it" killed 3
kill -9 "$spin"; wait "$spin" 2>/dev/null

# ---- the command ----
record_exits() { # status, command...
	local want=$1
	shift
	"$ascribe" record -q -F 499 -o command -- "$@" >out 2>said </dev/null
	local got=$?
	ok "exit $got of: $*" test $got = "$want"
}
record_exits 0 true
record_exits 7 sh -c 'exit 7'
record_exits 127 no-such-command-here
ok "and says so: $(cat said)" grep -q 'No such file' said
record_exits 126 ./plain
record_exits 126 ./full
record_exits 137 sh -c 'kill -9 $$'
record_exits 143 sh -c 'kill -TERM $$'
"$ascribe" record -q -o command -- printf '[%s]' a 'b c' '' -F 1 >out 2>err
ok "its arguments are its own" test "$(cat out)" = '[a][b c][][-F][1]'
exits 0 '' sh -c 'echo in | "$0" record -q -o command -- cat | grep -qx in' "$ascribe"
# -d ends the recording, not the command; its status is waited for, and that is said.
exits 3 'still runs' "$ascribe" record -F 499 -d 1s -o outlived \
	-- sh -c 'while :; do :; done & p=$!; sleep 3; kill $p; exit 3'
whole "a command that outlives -d" outlived 1
finish
