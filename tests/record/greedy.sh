#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A user whose programs take as much as they can of what all share in a recorder, in eleven ways,
# beside programs that behave. Those have their labels, names, callers and time. The recorder's CPU
# time, memory and descriptors stay within bounds. GREEDY="files map" runs these two alone.
#
# On a busy host the recorder and its parsers wait for a CPU themselves: most of the load are
# threads of this test. How long the recorder waited is what the kernel says. A drain may take that
# much longer. For each second 1.5% of the samples may find no room, 3% at most. Names, labels and
# callers may come too late for 15% more, 30% at most: most of them are still shown to be right.
# After 2 s CPU time, memory and descriptors may be more, too: such a host writes several windows
# meanwhile.
. "$(dirname "$0")/lib.bash"
[ "$(uname -m)" = x86_64 ] || skip "its code is for x86-64"
python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
	python=
chmod 755 "$dir"
for name in greedy named absent; do cp "$loads/greedy" $name; done
cp "$loads/labelled" labels
cp "$loads/chains" callers
cp "$loads/blocking" libraries
echo there >far

# Functions of which each has other names, called by each other.
cat >codes.py <<'PY'
import sys, time, types
end, n = time.monotonic() + float(sys.argv[1]), 0
base = (lambda rest: rest[0](rest[1:]) if rest else sum(range(200000))).__code__
while time.monotonic() < end:
    n += 900
    chain = [types.FunctionType(base.replace(co_name=f'greedy_{i}'), {'sum': sum, 'range': range}) for i in range(n, n + 900)]
    chain[0](chain[1:])
PY
cat >names.py <<'PY'
import sys, time
def my_leaf(end):
    while time.monotonic() < end:
        sum(range(300))
def my_caller(end): my_leaf(end)
my_caller(time.monotonic() + float(sys.argv[1]))
PY

# A library with N distinct unwind rules.
rules() { # file, the first one
	sed "s/FIRST/$2/" >rules.s <<'S'
.section .note.GNU-stack
.text
.globl work
.type work, @function
work:	.cfi_startproc
	mov $100000, %ecx
1:	dec %ecx
	jnz 1b
	ret
	.set n, FIRST
	.rept 4000
	.cfi_def_cfa_offset 8 * n
	nopl (%rax)
	.set n, n + 1
	.endr
	.cfi_endproc
	.size work, . - work
S
	${CC:-cc} -shared -o "$1" rules.s
}

greedy=()
remove_maps() { # a process that is killed leaves its own
	local i
	for i in "${greedy[@]}"; do rm -f "/tmp/perf-$i.map"; done
}
at_end=remove_maps
user=47220 # one for each time: nothing was heard of it before
as_user() {
	background nice -n 5 setpriv --reuid=$user --regid=$user --clear-groups "$@" >/dev/null
	greedy+=("$pid")
}
start() {
	local i
	case $1 in
	codes) [ -z "$python" ] || as_user "$python" codes.py 60 ;;
	jits) as_user ./greedy jits 60 520 ;;
	map) as_user ./greedy map 60 && as_user ./greedy map 60 ;;
	ranges) as_user ./greedy ranges 60 36 ;;
	files) mkdir -m 777 files && as_user sh -c 'cd files && exec ../greedy files 60 12000' ;;
	crowd)
		for i in $(seq 12); do
			mkdir -m 777 "crowd$i"
			as_user sh -c "cd crowd$i && exec ../greedy files 60 4000"
		done
		;;
	remap)
		i=$(printf '/%0250d' 1 2 3 4 5 6 7 8 9 10 11 12)
		mkdir -p ".$i" && cp far ".$i/far" && as_user ./greedy remap 60 ".$i/far"
		;;
	rules)
		for i in $(seq 9); do rules "rules$i.so" $((4000 * i)); done
		as_user ./libraries libraries 60 rules?.so
		;;
	threads) as_user ./greedy threads 60 500 ;;
	absent)
		truncate -s 64M pages
		as_user ./greedy absent 60
		;;
	*) as_user ./greedy "$1" 60 ;;
	esac
}

cpu() { awk '{ print ($14 + $15 + $16 + $17) / 100 }' "/proc/$recorder/stat"; }
beside() {
	nice -n -15 "$@" & # of a busy CPU they get theirs
	programs+=($!)
}

of() { # file, program, arguments
	report st --where "{exe=~\".*/$2\"}" -n 0 "${@:3}" >"$1.r.json"
}

attack() { # the ways
	local name began begin used fds peak waited late
	greedy=() programs=()
	user=$((user + 1))
	background "$ascribe" record -a -F 499 -o st 2>err
	recorder=$pid
	recording err
	for name in "$@"; do start "$name"; done
	sleep 2
	began=$(cpu) begin=$(date +%s%N)
	# These begin late, with files that nobody has read yet.
	for name in labels callers named absent; do cp -f $name new && mv -f new $name; done
	beside ./labels share 3 >labels.json
	beside ./callers plain 0.5
	beside ./named named 3
	beside ./absent victim 3 far
	[ -z "$python" ] || beside "$python" names.py 3
	wait "${programs[@]}"
	used=$(python3 -S -c "print(round(($(cpu) - $began) / (($(date +%s%N) - $begin) / 1e9), 3))")
	fds=$(find /proc/$recorder/fd -type l | wc -l)
	peak=$(awk '/^VmHWM/ { print $2 }' /proc/$recorder/status)
	waited=$(awk '{ print $2 / 1e9 }' /proc/$recorder/schedstat) # runnable, and not on a CPU
	late=$(awk -v s="$waited" 'BEGIN { print (s > 2) ? 0.3 : 0.15 * s }')
	kill -9 "${greedy[@]}"
	wait "${greedy[@]}" 2>/dev/null
	remove_maps
	kill -INT $recorder
	wait $recorder
	ok "$*: the recorder ends well" test $? = 0
	# Of that 10% are for what else the host may do: programs that start and end.
	local limits=(0.25 2000 131072)
	[ "$late" != 0.3 ] || limits=(0.35 6000 262144)
	# It maps 48,000 files meanwhile: news of each, looks of a tenth of a CPU, and opens.
	[ "$*" != crowd ] || limits=(0.4 16384 262144)
	ok "it used at most ${limits[0]} of a CPU: $used" \
		python3 -S -c "import sys; sys.exit($used > ${limits[0]})"
	ok "and ${limits[1]} descriptors: $fds" test "$fds" -lt "${limits[1]}"
	ok "at most ${limits[2]} KiB were resident: $peak" test "$peak" -lt "${limits[2]}"
	of labels labels --by tenant
	of names labels
	of near absent --by near,far
	of named named
	"$ascribe" stat st --json >stat.json
	"$ascribe" export st --format folded --where '{exe=~".*/callers"}' >stacks 2>/dev/null
	check "$*: labels" r=labels.r.json -- \
		'set(samples(r)) <= {"a", "b", None} and
		samples(r).get(None, 0) < (0.2 + '"$late"') * r["samples"]' 'samples(r)'
	check "its time, against its own clock" r=labels.r.json t=labels.json -- \
		'abs(r["seconds"] / (t["a"] + t["b"]) - 1) < 0.15' 'r["seconds"], t'
	check "names" r=names.r.json -- \
		'samples(r).get("burn", 0) > (0.9 - '"$late"') * r["samples"]' \
		'list(samples(r).items())[:3]'
	check "a label that is read from its memory" r=near.r.json -- \
		'samples(r).get(("here", "there"), 0) > (0.7 - '"$late"') * r["samples"] > 2' 'samples(r)'
	check "names of code made at run time" r=named.r.json -- \
		'samples(r).get("my_code", 0) > 0.7 * r["samples"] > 5' 'list(samples(r).items())[:3]'
	ok "callers" python3 -S -c '
import re, sys
n = [0, 0]
for line in open("stacks"):
    stack, k = line.rsplit(" ", 1)
    if ";leaf" in stack:
        n[bool(re.search(";main;.*;chain_a;chain_b;chain_c;leaf", stack))] += int(k)
print(n)
assert n[1] > (0.9 - float(sys.argv[1])) * sum(n) > 30' "$late"
	if [ -n "$python" ]; then
		report st --where '{exe=~".*/python3.*"}' -n 0 >python.json
		check "Python's functions" r=python.json -- \
			'(lambda s: s["my_caller"] > 5 and s["my_leaf"] == s["my_caller"])({x["function"]: x["samples"] for x in r["rows"]})' \
			'[(x["function"], x["samples"]) for x in r["rows"] if x["function"].startswith("my_")]'
	fi
	check "every sample is accounted for" s=stat.json -- 'exact(s)' \
		's["stored"], {k: n for k, n in s["lost"].items() if n}'
	check "hardly any is lost for want of room" s=stat.json -- \
		'sum(n for k, n in s["lost"].items() if k not in ("not_run", "idle_not_run")) <
		(0.001 + '"$late"' / 10) * s["stored"]' \
		'{k: n for k, n in s["lost"].items() if n}'
	check "no drain waited for them" s=stat.json waited=<(echo "$waited") -- \
		's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 1e9 * (1 + waited)' \
		's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9, waited'
	rm -rf st st.old
}

if [ -n "${GREEDY:-}" ]; then
	# shellcheck disable=SC2086 # names
	attack $GREEDY
else
	attack files remap
	attack crowd
	attack absent codes map
	attack chains jits ranges rules threads
fi
finish
