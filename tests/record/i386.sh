#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A 32-bit program: its callers by frame pointers, its names, its inlined calls.
. "$(dirname "$0")/lib.bash"
command -v clang >/dev/null && command -v ld.lld >/dev/null || skip "no clang, or no lld"
clang -m32 -O2 -g -fno-omit-frame-pointer -ffreestanding -nostdlib -static -fuse-ld=lld -o narrow \
	"$here/i386/chain.c" ||
	skip "no 32-bit programs can be built here"
./narrow || skip "this kernel runs no 32-bit programs"
record -F 999 -o narrow.store -- ./narrow
"$ascribe" export narrow.store --format folded 2>/dev/null >folded
ok "every stack is named from the root to the leaf" \
	python3 "$here/unwind.py" whole folded '_start;main;run;chain_a;chain_b;chain_c;leaf' 50 0.8
ok "inlined calls are frames" grep -q ';leaf;mix_\[i\] ' folded
ok "no name is missing" sh -c '! grep -v "\[k\]" folded | grep -E "narrow\+0x|unknown\];.*unknown\]"'
finish
