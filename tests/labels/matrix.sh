#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build the self tests with every compiler, language and way of linking, and run each: the labels
# must be readable from outside, through one note per module. `make test-all` takes every compiler,
# LTO and the other architecture; `make test` one compiler of each family, C by both, C++ by gcc,
# trampolines by clang. Every way of linking is in both.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
pass=0 fail=0 skip=0

have() { command -v "$1" >/dev/null; }

# check NAME FILE [ARGUMENT ...]: one ascribe note inside a PT_NOTE, and the program says PASS.
check() {
	local name=$1 file=$2 notes out
	shift
	notes=$(readelf -nW "$file" 2>/dev/null | grep -c '^ *ascribe ')
	[ "${unlabelled:-0}" = 1 ] && notes=1
	out=$(timeout 60 ${emulator:-} "$@" 2>&1)
	if [ "$(tail -n 1 <<<"$out")" = PASS ] && [ "$notes" = 1 ]; then
		pass=$((pass + 1))
	else
		printf 'FAIL %s (%s notes)\n%s\n' "$name" "$notes" "$out"
		fail=$((fail + 1))
	fi
}

# build NAME COMMAND ...: a build that fails is a failure.
build() {
	local name=$1 out
	shift
	out=$("$@" 2>&1) && return 0
	printf 'FAIL %s: does not build\n%s\n' "$name" "$out"
	fail=$((fail + 1))
	return 1
}

flags="-O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Itests/labels"

# compile NAME PREFIX SOURCES COMMAND ...: PREFIX.1.o, PREFIX.2.o, ... of the sources (in one word).
compile() {
	local name=$1 prefix=$2 sources=$3 source n=0
	shift 3
	rm -f "$prefix".*.o
	for source in $sources; do
		n=$((n + 1))
		build "$name" "$@" -c -o "$prefix.$n.o" "$source" || return
	done
}

# What is linked in several ways, by several linkers, is compiled once for each kind of code.
programs() { # compiler, language flags, sources ...
	local cc=$1 lang=$2 mode ld
	shift 2
	compile "$cc $lang -fno-pie" "$dir/-fno-pie" "$*" $cc $flags $lang -fno-pie
	compile "$cc $lang -fPIE" "$dir/-fPIE" "$*" $cc $flags $lang -fPIE
	compile "$cc $lang gc" "$dir/gc" "$*" $cc $flags $lang \
		-O0 -ffunction-sections -fdata-sections
	for ld in "" -fuse-ld=lld; do
		[ -n "$ld" ] && { [[ $cc == clang* ]] && have ld.lld || continue; }
		for mode in "-fno-pie -no-pie" "-fPIE -pie" "-fno-pie -static" \
			"-fPIE -static-pie"; do
			local name="$cc $lang $ld $mode"
			build "$name" $cc $mode $ld -o "$dir/selftest" "$dir/${mode% *}".*.o \
				-lpthread || continue
			check "$name" "$dir/selftest"
			strip "$dir/selftest" && check "$name stripped" "$dir/selftest"
		done
		build "$cc gc" $cc $ld -Wl,--gc-sections -o "$dir/selftest" "$dir"/gc.*.o \
			-lpthread &&
			check "$cc $lang $ld gc-sections -O0" "$dir/selftest"
	done
	[ -z "${ASCRIBE_TEST_ALL:-}" ] || [[ $cc == clang* ]] ||
		{ build "$cc lto" $cc $flags $lang -flto=auto -o "$dir/selftest" "$@" -lpthread &&
			check "$cc $lang lto" "$dir/selftest"; }
}

otel() { # what was built
	check "$1, for OpenTelemetry's readers" "$dir/otel"
	check "$1, behind another publisher" "$dir/otel" first
	check "$1, before another publisher" "$dir/otel" later
	ASCRIBE_NO_OTEL=1 check "$1, switched off" "$dir/otel" quiet
}

plugins() { # compiler, language flags
	local cc=$1 lang=$2 n
	for n in plugin_one plugin_two plugin_three; do
		build "$cc $n" $cc $flags $lang -fPIC -shared -DNAME="\"$n\"" -o "$dir/$n.so" \
			tests/labels/plugin.c || return
	done
	strip "$dir/plugin_two.so"
	build "$cc host" $cc $flags $lang -o "$dir/host" tests/labels/host.c -lpthread -ldl ||
		return
	unlabelled=1 check "$cc $lang dlopen" "$dir/host" "$dir"/plugin_*.so
	build "$cc host" $cc $flags $lang -DLABELLED -rdynamic -o "$dir/host" tests/labels/host.c \
		-lpthread -ldl ||
		return
	check "$cc $lang dlopen, two tables" "$dir/host" "$dir"/plugin_*.so
	build "$cc host" $cc $flags $lang -DLABELLED -DLINKED -o "$dir/host" tests/labels/host.c \
		-x none \
		"$dir/plugin_one.so" -Wl,-rpath,"$dir" -lpthread -ldl || return
	check "$cc $lang linked library" "$dir/host" "$dir/plugin_two.so"
}

# Pools of other sizes; two in one program do not link.
pool_sizes() { # compiler
	local n o=$dir/pool
	for n in 100 500; do
		build "$1 pool of $n" $1 $flags -std=c++17 -DASCRIBE_TRAMPOLINES=$n -o $o \
			tests/labels/selftest_trampoline.cpp -lpthread && check "$1 pool of $n" $o
		$1 $flags -std=c++17 -DASCRIBE_TRAMPOLINES=$n -Dmain=main$n -c -o $o.$n.o \
			tests/labels/selftest_trampoline.cpp
	done
	echo 'int main() {}' | $1 -x c++ -c -o $o.main.o -
	for n in bfd lld; do
		have ld.$n || continue
		build "$1 with a pool, ld.$n" $1 -fuse-ld=$n -o $o $o.main.o $o.100.o -lpthread
		if $1 -fuse-ld=$n -o $o $o.main.o $o.100.o $o.500.o -lpthread 2>$o.log ||
			! grep -q 'ascribe_trampolines_v1_[15]00' $o.log; then
			fail=$((fail + 1))
			echo "FAIL $1, ld.$n: pools of two sizes link"
		else
			pass=$((pass + 1))
		fi
	done
}

compilers="gcc clang"
[ -z "${ASCRIBE_TEST_ALL:-}" ] || compilers="gcc clang clang-14 clang-19"
seen=
for cc in $compilers; do
	[ "$cc" = clang ] && ! have clang &&
		cc=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -V | tail -n 1)
	version=$(have "${cc:-none}" && $cc --version | head -n 1)
	# Absent, or another name of one that was
	if [ -z "$version" ] || [[ $seen == *"<$version>"* ]]; then
		skip=$((skip + 1))
		continue
	fi
	seen="$seen<$version>"
	cxx=${cc/gcc/g++} cxx=${cxx/clang/clang++}
	programs "$cc" "-std=gnu11" tests/labels/selftest.c tests/labels/unit2.c
	plugins "$cc" "-std=gnu11"
	for mode in "-fno-pie -no-pie" "-fPIE -pie" "-static"; do
		build "$cc otel $mode" $cc $flags $mode -o "$dir/otel" tests/labels/otel.c &&
			otel "$cc $mode"
	done
	build "$cc otel_signal" $cc $flags -o "$dir/otel_signal" tests/labels/otel_signal.c &&
		check "$cc, signals between its stores" "$dir/otel_signal"
	have "$cxx" || { skip=$((skip + 1)); continue; }
	if [ -n "${ASCRIBE_TEST_ALL:-}" ] || [[ $cc != clang* ]]; then
		programs "$cxx" "-std=c++17" tests/labels/selftest_cpp.cpp
	fi
	if [ -n "${ASCRIBE_TEST_ALL:-}" ]; then
		programs "$cxx" "-std=c++20" tests/labels/selftest_cpp.cpp
		programs "$cxx" "-std=c++17 -x c++" tests/labels/selftest.c tests/labels/unit2.c
	fi
	if [ -n "${ASCRIBE_TEST_ALL:-}" ] || [[ $cc == clang* ]]; then
		programs "$cxx" "-std=c++17" tests/labels/selftest_trampoline.cpp
		pool_sizes "$cxx"
	fi
	if [ -n "${ASCRIBE_TEST_ALL:-}" ] || [[ $cc != clang* ]]; then
		plugins "$cxx" "-std=c++17 -x c++"
		build "$cxx otel" $cxx $flags -x c++ -o "$dir/otel" tests/labels/otel.c &&
			otel "$cxx"
		build "$cxx otel_signal" $cxx $flags -x c++ \
			-o "$dir/otel_signal" tests/labels/otel_signal.c &&
			check "$cxx, signals between its stores" "$dir/otel_signal"
	fi
	# one module of both languages
	build "$cc + $cxx" $cc $flags -c -o "$dir/unit2.o" tests/labels/unit2.c &&
		build "$cc + $cxx" $cxx $flags -c -x c++ \
			-o "$dir/selftest.o" tests/labels/selftest.c &&
		build "$cc + $cxx" $cxx -o "$dir/selftest" "$dir/selftest.o" "$dir/unit2.o" \
			-lpthread &&
		check "$cc + $cxx in one module" "$dir/selftest"
done
# The other architecture, where its compiler and an emulator are installed.
arm=aarch64-linux-gnu
if [ -n "${ASCRIBE_TEST_ALL:-}" ] && [ "$(uname -m)" = x86_64 ] && have $arm-gcc &&
	have qemu-aarch64; then
	emulator="qemu-aarch64 -L /usr/$arm"
	for mode in "-fno-pie -no-pie" "-fPIE -pie" "-static -fno-pie" "-fPIE -static-pie"; do
		build "$arm $mode" $arm-gcc $flags $mode \
			-o "$dir/selftest" tests/labels/selftest.c tests/labels/unit2.c \
			-lpthread && check "$arm $mode" "$dir/selftest"
	done
	build "$arm plugin" $arm-gcc $flags -fPIC -shared -DNAME='"plugin_arm"' -o \
		"$dir/plugin_arm.so" \
		tests/labels/plugin.c &&
		build "$arm host" $arm-gcc $flags -DLABELLED -o "$dir/host" tests/labels/host.c \
			-lpthread -ldl &&
		check "$arm dlopen" "$dir/host" "$dir/plugin_arm.so"
	emulator=
fi

echo "$pass passed, $fail failed, $skip compilers skipped$([ -n "${ASCRIBE_TEST_ALL:-}" ] || echo ', more in test-all')"
[ "$fail" = 0 ] && [ "$pass" -gt 20 ]
