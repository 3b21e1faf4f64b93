#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of each linker's layout, in C, with ThinLTO and in Rust: all callers and all names, in
# one recording.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"
source=$here/chains.c
export RUSTUP_HOME=${RUSTUP_HOME:-$(eval echo "~$(id -un)")/.rustup} # HOME is a new directory
flags='-O2 -fomit-frame-pointer -D_GNU_SOURCE -pthread'
programs=()

# The program's name, what builds it of its source, and what must be there for that.
build() {
	local name=$1 command=$2 need
	shift 2
	for need; do
		command -v "$need" >/dev/null && continue
		[ -z "${CI:-}" ] && echo "$name: no $need here" || bad "$name: no $need"
		return
	done
	if $command -o "$name" 2>build.err; then
		programs+=("$name")
	else
		bad "$name: $command"
		head -5 build.err
	fi
}

build bfd "gcc $flags -fuse-ld=bfd $source" ld.bfd
build bfd-together "gcc $flags -fuse-ld=bfd -Wl,-z,noseparate-code $source" ld.bfd
build gold "gcc $flags -fuse-ld=gold $source" ld.gold
build mold "gcc $flags -fuse-ld=mold $source" ld.mold
build lld "gcc $flags -fuse-ld=lld $source" ld.lld
build lld-fixed "gcc $flags -fuse-ld=lld -no-pie $source" ld.lld
build lld-separate "gcc $flags -fuse-ld=lld -Wl,-z,separate-loadable-segments $source" ld.lld
build lld-64k "gcc $flags -fuse-ld=lld -Wl,-z,max-page-size=65536 $source" ld.lld
build clang-lld "clang $flags -fuse-ld=lld $source" clang ld.lld
build clang-thinlto "clang $flags -fuse-ld=lld -flto=thin $source" clang ld.lld
build rust "rustc -O $here/linked.rs" rustc
build rust-lld "rustc -O -C link-arg=-fuse-ld=lld $here/linked.rs" rustc ld.lld
build labelled-lld "gcc -O2 -D_GNU_SOURCE -pthread -fuse-ld=lld -I$source_root/include $here/labelled.c -ldl" ld.lld
build trampolines-lld "g++ -O2 -std=c++20 -pthread -fuse-ld=lld -I$source_root/include $here/trampolines.cpp" ld.lld

cat >all.sh <<'SH'
seconds=$1
shift
for p; do
	case $p in
	rust*) ./$p 3 & ;;
	labelled*) ./$p nest 0.05 >/dev/null & ;;
	trampolines*) ./$p 0.5 >/dev/null & ;;
	*) ./$p plain "$seconds" & ;;
	esac
done
wait
SH
record -F 999 -o all -- bash all.sh "$(in_part 1 3)" "${programs[@]}"
"$ascribe" stat all --json >stat.json
for p in "${programs[@]}"; do
	case $p in labelled* | trampolines*) continue ;; esac
	"$ascribe" export all --format folded --where "{comm=\"$p\"}" 2>/dev/null |
		sed 's/;linked::/;/g' >folded
	ok "$p: every stack whole" python3 "$here/unwind.py" chains folded stat.json \
		'_start;.*;main;run;chain_a;chain_b;chain_c'
done

# What else is found by where a file was mapped: labels and trampoline labels.
report all --by tenant,query_id --where '{comm="labelled-lld"}' >labels.json
check "labels of a program that lld has linked" r=labels.json -- \
	'set(samples(r)) == {(None, None), ("x", None), ("x", "7"), ("x", "-8"), ("y", "7")}' 'samples(r)'
report all --by task --where '{comm="trampolines-lld"}' >tasks.json
check "trampoline labels of a program that lld has linked" r=tasks.json \
	-- '{"first", "second"} <= set(samples(r))' 'samples(r)'
finish
