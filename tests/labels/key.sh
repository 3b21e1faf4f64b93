#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# include/ascribe/label_key.h in BPF, by every clang there is: the kernel takes it, and it gives
# what user space gives.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" = 0 ] || { echo "root is needed to load a program"; exit 77; }
cc -O2 -Wall -Wextra -Werror -Iinclude -o "$dir/key_bpf" tests/labels/key_bpf.c -lbpf || exit 1
n=0
for clang in clang-14 clang-19; do
	command -v $clang >/dev/null || { echo "no $clang"; continue; }
	$clang -g -O2 -target bpf -mcpu=v3 -Wall -Werror -Iinclude \
		-I/usr/include/"$(uname -m)"-linux-gnu -c \
		-o "$dir/key.bpf.o" tests/labels/key.bpf.c || exit 1
	out=$("$dir/key_bpf" "$dir/key.bpf.o" 2>&1)
	[ "$(tail -n 1 <<<"$out")" = PASS ] || {
		tail -n 40 <<<"$out"
		echo "FAIL with $clang"
		exit 1
	}
	n=$((n + 1))
done
[ $n -gt 0 ] || { echo "no clang"; exit 77; }
echo "the key in BPF: $n compilers"
