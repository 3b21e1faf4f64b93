#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of code without frame pointers: chains that are known.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"
base='main;run'

# ---- what is written in chains.c ----
while read -r kind chain copied; do
	rm -rf chains
	record -F 499 -o chains -- "$load" "$kind" "$(in_part 0.5 1)" || continue
	stacks chains
	ok "$kind" python3 "$here/unwind.py" chains folded stat.json \
		"$chain;chain_a;chain_b;chain_c" $copied
	check "$kind: accounting" s=stat.json -- 'exact(s)'
done <<END
plain _start;.*;$base
qsort _start;.*;$base;by_qsort;.*compare
signal _start;.*;$base;(interrupted;)?(gsignal|raise).*
altstack _start;.*;$base;(interrupted;)?(gsignal|raise).* copied
alloca _start;.*;$base;by_alloca
realign _start;.*;$base;by_realign
deep _start;.*;$base(;by_deep){101}
turns _start;.*;$base;(odd_turn;at_turn;odd_chain|even_turn;at_turn;even_chain)
vfork _start;.*;$base;by_vfork
thread (libc[^;]*|clone3?);[^;]*;thread
asm _start;.*;$base;by_asm;asm_calls
END
stacks chains # of asm
for f in asm_bare asm_saves; do
	ok "$f, which has no call frame information" \
		python3 "$here/unwind.py" whole folded "_start;.*;$base;by_asm;$f" 20 0.99 $f
done

# ---- from the first sample on ----
rm -rf twice
background "$load" plain 3
record -F 499 -d 1s -o twice -p "$pid"
stacks twice
ok "a process that runs already: every stack whole from the first sample on" \
	python3 "$here/unwind.py" chains folded stat.json "_start;.*;$base;chain_a;chain_b;chain_c"

# ---- more files than there is room for ----
cat >crowd.sh <<SH
for i in 1 2 3; do
	python3 -c 'for i in range(200000): str(i)'
	perl -e 'for (1..300000) { \$x = chr(\$_ & 127) }'
	gdb --batch -ex 'python for i in range(2000000): str(i)'
	openssl version
	git --version
done >/dev/null
exec "$load" plain 1
SH
rm -rf crowd
ASCRIBE_UNWIND_MIB=1 record -F 499 -o crowd -- bash crowd.sh
"$ascribe" export crowd --format folded --where '{comm="chains"}' >folded 2>/dev/null
"$ascribe" stat crowd --json >stat.json
check "no room for all rules: accounting" s=stat.json -- 'exact(s)'
ok "no room for all rules: it is said" grep -qE '[1-9][0-9]* (files gave way|found no room)' record.err
ok "no room for all rules: those that came last are right" \
	python3 "$here/unwind.py" chains folded stat.json "_start;.*;$base;chain_a;chain_b;chain_c"

# ---- files that no stack leads to ----
unused=liblzma.so.5:libz.so.1:libzstd.so.1:libpcre2-8.so.0:libxxhash.so.0:libelf.so.1:libdw.so.1
rm -rf preloaded
record --explain -F 499 -o preloaded -- env LD_PRELOAD=$unused "$load" plain 1 && {
	stacks preloaded
	ok "with libraries that are not used" \
		python3 "$here/unwind.py" chains folded stat.json \
			"_start;.*;$base;chain_a;chain_b;chain_c"
	files=$(sed -n 's/.*unwind rules of \([0-9]*\) files.*/\1/p' record.err)
	# On a busy host env and its loader are sampled, too.
	ok "rules of the program and of what it runs ($files files)" test "${files:-99}" -le 7
}
finish
