#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory by label (-e heap), against what the program counted itself: allocated, live, by tenant; a
# free counts for who allocated. Above other allocators, in children of a fork, in signal handlers,
# in programs that lie. As root.
. "$(dirname "$0")/lib.bash"
lib=$build/libascribe-heap.so
memory() { # STORE METRIC [OPTIONS]: by tenant
	"$ascribe" report "$1" -m "$2" --by tenant --json "${@:3}" 2>/dev/null
}
# What each tenant has, and what it counted: within five standard deviations of a sample of so many.
shown='[(x["key"], x["samples"]) for x in a["rows"]]'
near='all(abs(v[t] - own[t][k]) < 5 * (own[t][k] * u) ** 0.5 for t in own)'

# ---- allocated and live, by who allocated ----
truth() { # NAME EVENT PRELOAD PROGRAM, which is allocates: record, and compare
	local name=$1
	ok "$name: recorded" record -o "$name" -e "$2" -- env LD_PRELOAD="$3" "$4" 3 200 4
	tail -1 record.out >own.json
	memory "$name" alloc_space >alloc.json
	memory "$name" alloc_objects >objects.json
	"$ascribe" stat "$name" --json >stat.json
	check "$name: bytes allocated" a=alloc.json own=own.json -- \
		"(lambda v, k, u: $near)({x['key']['tenant']: x['samples'] for x in a['rows']}, 'allocated', 524288)" \
		"$shown"
	check "$name: nothing by who frees" a=alloc.json -- \
		'all(x["samples"] < {None: 80, "main": 1}.get(x["key"]["tenant"], 4096) << 20 for x in a["rows"])' \
		"$shown"
	check "$name: allocations, roughly" a=objects.json own=own.json -- \
		'all(0.6 < {x["key"]["tenant"]: x["samples"] for x in a["rows"]}[t] / own[t]["objects"] < 1.6 for t in own)' \
		"$shown"
	check "$name: complete" s=stat.json -- \
		's["fired"] == s["stored"] + sum(s["lost"].values()) and s["lost"]["heap_refused"] == 0 and
		s["flagged"]["heap_free_lost"] < 20 and s["flagged"]["heap_untracked"] == 0' \
		'{k: n for k, n in (s["lost"] | s["flagged"]).items() if n}'
}
truth glibc heap "$lib" "$loads/allocates"
for preload in /usr/lib/*/libjemalloc.so.2 /usr/lib/*/libtcmalloc_minimal.so.4; do
	[ -e "$preload" ] && truth "$(basename "$preload" | cut -d. -f1)" heap "$lib:$preload" \
		"$loads/allocates"
done
# Its calloc asks malloc, and its posix_memalign aligned_alloc.
if command -v musl-gcc >/dev/null; then
	source=$source_root/tests/record/allocates.c
	ok "a program of musl" musl-gcc -O1 -I"$source_root/include" -o musl-program "$source"
	truth musl heap "$lib" ./musl-program
	ok "heap.c in a program of musl" musl-gcc -O1 -I"$source_root/include" -o musl-whole "$source" \
		"$source_root/lib/heap.c"
	truth musl-in "heap:$PWD/musl-whole" "" ./musl-whole
fi

# ---- an allocator of the program's own, by ascribe/heap.h: two files, without a dynamic linker ----
arena() { # which is compiled by the command
	local part
	for part in allocates heap_arena; do
		"$@" -O2 -D_GNU_SOURCE -DARENA -I"$source_root/include" -c -o "$part.o" \
			"$source_root/tests/record/$part.c" || return
	done
	"$@" -static -o arena allocates.o heap_arena.o -lpthread
}
for compiler in "${CC:-cc}" clang; do
	command -v "$compiler" >/dev/null || continue
	ok "an arena, by $compiler" arena "$compiler"
	truth "arena-$compiler" "heap:$PWD/arena" "" ./arena
done

# ---- live memory, beside what the program says; a recorder of a window's length ----
background "$ascribe" record -a -d 25s -o live -e heap 2>recorder.err
recorder=$pid
recording recorder.err
background env LD_PRELOAD="$lib" "$loads/allocates" 3 200 60 >own.json
wait "$recorder"
memory live heap --from now-9s >live.json
memory live inuse_objects --from now-9s >objects.json
check "live bytes, by who allocated" a=live.json own=own.json -- \
	"(lambda v, k, u: $near)({x['key']['tenant']: x['samples'] for x in a['rows']}, 'live', 524288)" \
	"$shown"
check "live objects, roughly" a=objects.json own=own.json -- \
	'all(0.5 < {x["key"]["tenant"]: x["samples"] for x in a["rows"]}[t] / own[t]["live_objects"] < 2 for t in own)' \
	"$shown"
"$ascribe" report live -m heap -n 0 --json 2>/dev/null >functions.json
check "stacks end in the function that was called" f=functions.json -- \
	'{"malloc", "mmap", "run"} <= {x["function"] for x in f["rows"]} and
	"take" not in {x["function"] for x in f["rows"]}' '[x["function"] for x in f["rows"]]'
kill "$pid"
if command -v go >/dev/null; then
	"$ascribe" export live --format pprof -m heap -o heap.pb.gz 2>/dev/null
	for metric in alloc_objects alloc_space inuse_objects inuse_space; do
		total=$(go tool pprof -raw -sample_index=$metric heap.pb.gz 2>/dev/null |
			awk -v m="$metric" '/^Samples:/ { getline; for (i = 1; i <= NF; i++)
				if (index($i, m "/") == 1) c = i; next }
				/^Locations/ { exit } $1 ~ /^[0-9]+$/ && c { split($0, v, ":"); split(v[1], n, " ")
					sum += n[c] } END { printf "%d", sum }')
		ok "go tool pprof: $metric $total" test "$total" = \
			"$("$ascribe" report live -m $metric --json 2>/dev/null | jq .samples)"
	done
fi

# ---- what the process did not free it frees by ending ----
background "$ascribe" record -a -d 26s -o ended -e heap 2>recorder.err
recorder=$pid
recording recorder.err
LD_PRELOAD=$lib "$loads/allocates" 2 100 1 >own.json
wait "$recorder"
memory ended alloc_space >alloc.json
memory ended heap --from now-8s >ended.json
check "a process that ended has nothing any more" a=ended.json b=alloc.json -- \
	'a["samples"] < 1 << 20 and b["samples"] > 250 << 20' "$shown"

# ---- the daemon, whose recorder has no capability ----
background "$ascribe" daemon -s "$PWD/store" -l none -e cpu-clock,heap 2>daemon.err
daemon=$pid
within 30 grep -q recording daemon.err
LD_PRELOAD=$lib "$loads/allocates" 2 100 1 >own.json
kill "$daemon"
wait "$daemon"
memory store alloc_space --from 1 >alloc.json
check "the daemon: bytes allocated" a=alloc.json own=own.json -- \
	"(lambda v, k, u: $near)({x['key']['tenant']: x['samples'] for x in a['rows']}, 'allocated', 524288)" \
	"$shown"

# ---- children of a fork, without exec ----
cat >fork.py <<'PY'
import os, time
time.sleep(0.5)
keep = [bytearray(1 << 20) for _ in range(50)]
if not os.fork():
    del keep[:25]  # the parent's
    mine = [bytearray(1 << 20) for _ in range(120)]
    time.sleep(0.5)
    os._exit(0)
os.wait()
PY
record -o fork -e heap -- env LD_PRELOAD="$lib" /usr/bin/python3 -S fork.py
"$ascribe" report fork -m alloc_space --by tgid --json 2>/dev/null >fork.json
check "a child of a fork: its own" a=fork.json -- \
	'sorted(x["samples"] >> 20 for x in a["rows"])[-2:] and
	45 < sorted(x["samples"] / 2**20 for x in a["rows"])[-2] < 85 and
	100 < sorted(x["samples"] / 2**20 for x in a["rows"])[-1] < 150' "$shown"
"$ascribe" stat fork --json >stat.json
ok "frees of what the parent allocated are no frees of the child's" \
	test "$(jq .flagged.heap_free_unknown stat.json)" -ge 15

cat >children.py <<'PY'
import os
for _ in range(400):
    if not os.fork():
        for _ in range(64):
            bytearray(4096)
        os._exit(0)
    os.wait()
PY
record -o children -e heap -- env LD_PRELOAD="$lib" /usr/bin/python3 -S children.py
"$ascribe" report children -m alloc_space --json 2>/dev/null >children.json
check "400 children with 256 KiB each do not take the same samples" a=children.json -- \
	'abs(a["samples"] - 400 * 64 * 4097) < 5 * (400 * 64 * 4097 * 2**19) ** 0.5 + 400 * 2**15' \
	'a["samples"] / 2**20'

# ---- signal handlers; no system calls; a malloc in the program; setuid ----
record -o signals -e "heap:$loads/heap_odd" -- "$loads/heap_odd" signals
ok "signal handlers" grep -q whole record.out
record -o strict -e "heap:$loads/heap_odd" -- "$loads/heap_odd" strict
ok "where no system call is allowed" grep -q whole record.out
strict=$("$ascribe" report strict -m alloc_space --json 2>/dev/null | jq .samples)
ok "its 200 MB are seen: $strict" test "$strict" -gt 140000000 -a "$strict" -lt 260000000
record -o own -e heap -- env LD_PRELOAD="$lib" "$loads/heap_own"
ok "a program with a malloc of its own runs" grep -q own record.out
own=$("$ascribe" report own -m alloc_space --json 2>/dev/null | jq .samples)
ok "its mappings are counted: $own" test "$own" -gt $((56 << 20)) -a "$own" -lt $((80 << 20))
cp "$(command -v cat)" setuid-cat
chmod 4755 setuid-cat
chmod 711 .
if [ "$(setpriv --reuid=65534 --clear-groups ./setuid-cat /proc/self/status | awk '/^Uid/ { print $3 }')" = 0 ]; then
	ok "a setuid program ignores it" sh -c "! LD_PRELOAD=$lib setpriv --reuid=65534 --clear-groups \
		./setuid-cat /proc/self/maps 2>/dev/null | grep -q ascribe-heap"
fi

# ---- lies ----
record -o lies -e "heap:$loads/heap_odd" -- "$loads/heap_odd" lies
"$ascribe" stat lies --json >lies.json
check "lies are refused, and counted" s=lies.json -- \
	's["lost"]["heap_refused"] == 35 and s["fired"] == 47 and s["stored"] == 12 and
	s["flagged"]["heap_free_lost"] == 10 and s["flagged"]["heap_free_unknown"] == 14' \
	's["fired"], s["stored"], {k: n for k, n in (s["lost"] | s["flagged"]).items() if n}'

# ---- what cannot be ----
exits 0 'heap: no program allocated with this library' "$ascribe" record -o x -e heap -- true
exits 1 'arguments of otel_memory:alloc are not in the registers' "$ascribe" record -d 1s -o x \
	-e "heap:$loads/heap_args"
exits 1 'has no static probe otel_memory:alloc' "$ascribe" record -d 1s -o x -e "heap:/bin/true"
exits 2 'has the form heap or heap:FILE' "$ascribe" record -d 1s -o x -e heap:x
exits 2 'no inuse_space in the store: record with -e heap' "$ascribe" report \
	"$(record -o plain -d 1s -e cpu-clock; echo plain)" -m heap
exits 2 'metric: x is none of cpu, .*heap' "$ascribe" report glibc -m x
finish
