#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of code without frame pointers: chains that are known, real programs, and perf's DWARF unwinding.
. "$(dirname "$0")/lib.bash"
[ "$(uname -m)" = x86_64 ] || skip "unwind rules are for x86-64"
load=$loads/chains
base='main;run'

stacks() { # store -> folded, stat.json
	"$ascribe" export "$1" --format folded 2>/dev/null >folded
	"$ascribe" stat "$1" --json >stat.json
}

# ---- what is written in chains.c ----
while read -r kind chain; do
	rm -rf chains
	record -F 499 -o chains -- "$load" "$kind" 1 || continue
	stacks chains
	ok "$kind" python3 "$here/unwind.py" chains folded stat.json "$chain;chain_a;chain_b;chain_c"
	check "$kind: accounting" s=stat.json -- 'exact(s)'
done <<END
plain _start;.*;$base
qsort _start;.*;$base;by_qsort;.*compare
signal _start;.*;$base;(interrupted;)?(gsignal|raise).*
altstack _start;.*;$base;(interrupted;)?(gsignal|raise).*
alloca _start;.*;$base;by_alloca
realign _start;.*;$base;by_realign
deep _start;.*;$base(;by_deep){101}
vfork _start;.*;$base;by_vfork
thread libc[^;]*;[^;]*;thread
END
rm -rf chains
record -F 499 -o chains -- "$load" deep 1 300
stacks chains
check "deeper than 127 frames: truncated" s=stat.json -- \
	's["flagged"]["truncated"] > 0.9 * s["stored"]' 's["flagged"]["truncated"], s["stored"]'

# ---- real programs ----
cat >work.py <<'PY'
import json, re, sys, time
def deep(n): return n if n < 2 else deep(n - 1) + deep(n - 2)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    text = json.dumps([{'n': i, 's': str(i) * 3} for i in range(500)])
    json.loads(text)
    re.findall(r'"n": (\d+)', text)
    sorted(range(3000), key=lambda v: -v)
    deep(12)
PY
roots() { # name, share, command...
	local what=$1 share=$2
	shift 2
	rm -rf real
	record -F 299 -o real -- "$@" || return
	stacks real
	ok "$what: stacks reach their root" python3 "$here/unwind.py" roots stat.json "$share"
}
roots python3 0.98 python3 work.py 2
roots openssl 0.99 openssl speed -seconds 1 -evp aes-128-cbc
{
	echo '#include <stdio.h>'
	for i in $(seq 2000); do
		echo "int f$i(int x) { for (int i = 0; i < x; i++) x = x * $i + (i ^ $i) % 7; return printf(\"%d\", x); }"
	done
} >much.c
roots gcc 0.99 gcc -O2 -c much.c -o much.o

# ---- the same process, by ascribe and by perf's copies of the stack ----
command -v perf >/dev/null || {
	echo "--    no perf here: call edges not compared"
	finish
}
background python3 work.py 9
python=$pid
sleep 0.5
background perf record -q -F 97 -e cpu-clock --call-graph dwarf,32768 -p "$python" -o perf.data >/dev/null 2>&1
perf=$pid
record -F 499 -p "$python" -d 20s -o both
wait "$perf"
stacks both
perf script --no-inline -i perf.data -F ip,sym,dso 2>/dev/null >perf.txt
ok "who calls whom, as perf has it" python3 "$here/unwind.py" edges folded perf.txt stat.json
finish
