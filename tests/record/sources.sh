#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One program with its names in every place where they may be: in it, compressed in it, beside it,
# under /usr/lib/debug, in Go's own table. Also in containers, where one path is two files. Each has
# a function that only its own build has. The oracles are the source, nm and addr2line.
. "$(dirname "$0")/lib.bash"
for tool in gcc objcopy xz readelf unshare; do
	command -v $tool >/dev/null || skip "no $tool here"
done

cat >spin.c <<'C'
#include <stdlib.h>
#include <time.h>
static inline __attribute__((always_inline)) double hot(double x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 1.0000001 + i; /* the hot line */
	return x;
}
static __attribute__((noinline)) double WORK(double x)
{
	x = hot(x); /* the inlined call */
	return x + 1;
}
int main(int c, char **v)
{
	double x = 0;
	(void)c;
	while (clock() < atoi(v[1]) * (CLOCKS_PER_SEC / 10))
		x += WORK(x);
	return x == 42;
}
C
hot_line=$(grep -n 'the hot line' spin.c |
	cut -d: -f1) call_line=$(grep -n 'the inlined call' spin.c | cut -d: -f1)
build() { gcc -O1 -g -fno-omit-frame-pointer -DWORK="$1_work" -Wl,--build-id="${2:-sha1}" -o "$1" \
	spin.c; }
build full
build stripped && strip stripped
# As Fedora does it: the functions that .dynsym has not, compressed.
build mini
objcopy --only-keep-debug mini mini.debug &&
	objcopy -S --remove-section .gnu_debuglink mini.debug mini.symbols 2>/dev/null
nm mini --format=posix --defined-only | awk '$2 == "T" || $2 == "t" { print $1 }' | sort >keep
objcopy -S --remove-section .comment --keep-symbols=keep mini mini.symbols && strip -g mini.symbols
objcopy --only-keep-debug --keep-symbols=keep mini mini.symbols && strip --strip-debug mini.symbols
xz -f mini.symbols && strip mini && objcopy --add-section .gnu_debugdata=mini.symbols.xz mini
for p in link wronglink; do
	build $p none && objcopy --only-keep-debug $p $p.debug && strip $p &&
		objcopy --add-gnu-debuglink=$p.debug $p
done
printf x >>wronglink.debug # its checksum
build buildid
id=$(readelf -n buildid | sed -n 's/.*Build ID: //p')
under=/usr/lib/debug/.build-id/${id:0:2}
made=
[ -d "$under" ] || made=$under
clean() {
	rm -f "$under/${id:2}.debug"
	[ -z "$made" ] || rmdir "$made" 2>/dev/null
}
at_end=clean
mkdir -p "$under" && objcopy --only-keep-debug buildid "$under/${id:2}.debug" && strip buildid
programs="full stripped mini link wronglink buildid"
if command -v go >/dev/null; then
	cat >spin.go <<'GO'
package main

//go:noinline
func goWork(n int) (x int) {
	for i := 0; i < n; i++ {
		x += i ^ x
	}
	return
}
func main() {
	for i := 0; i < 400; i++ {
		goWork(1000000)
	}
}
GO
	GOCACHE=$dir/cache GOFLAGS=-mod=mod go build -ldflags='-s -w' -o gospin spin.go 2>go.err &&
		programs="$programs gospin"
fi
# Two containers with one path, and a third file under it here.
build one && build two && build here
mkdir -p m/one m/two m/at && cp one m/one/app && cp two m/two/app && cp here m/at/app
contain() { unshare -m sh -c "mount --bind '$dir/m/$1' '$dir/m/at' && exec '$dir/m/at/app' 4"; }
build gone
build before && build after && cp before upgraded

background "$ascribe" record -a -F 499 -d 60s -o st 2>rec.err
recorder=$pid
recording rec.err
pids=()
for p in $programs; do
	./$p 4 &
	pids+=($!)
done
if unshare -m true 2>/dev/null; then
	contain one & pids+=($!)
	contain two & pids+=($!)
fi
m/at/app 4 & pids+=($!)
sh -c './gone 4 & rm gone; wait' & pids+=($!)
sh -c './upgraded 4 & sleep 0.05; cp after new && mv new upgraded; ./upgraded 4; wait' & pids+=($!)
wait "${pids[@]}"
kill -INT $recorder
wait $recorder
ok "recorded" test $? = 0
"$ascribe" report st --json -n 0 >all.json 2>/dev/null
# A function has most samples of its file: on a busy host the first ones come before its names.
has() { # file, function
	jq -e --arg m "/$1" --arg f "$2" '[.rows[] | select(.module | endswith($m))] | (map(select(.function == $f) | .samples) | add // 0) as $n |
		(map(.self) | add // 0) as $all | $n > 20 and $n > 0.5 * $all' all.json
}
ok "symbols and DWARF in the file" has full full_work
ok "stripped: no names" jq -e '[.rows[] | select(.module | endswith("/stripped"))] | length > 0 and all(.function | startswith("stripped+0x") or . == "_start")' all.json
ok ".gnu_debugdata" has mini mini_work
ok ".gnu_debuglink" has link link_work
ok ".gnu_debuglink to another file: not believed" \
	jq -e '[.rows[] | select(.function == "wronglink_work")] | length == 0' all.json
ok "/usr/lib/debug by build id" has buildid buildid_work
case $programs in *gospin) ok "Go without symbols, by its pclntab" has gospin main.goWork ;; esac
if unshare -m true 2>/dev/null; then
	for c in one two here; do
		ok "one path, three files: $c" jq -e --arg f "${c}_work" \
			'[.rows[] | select(.function == $f and (.module | endswith("/m/at/app"))) | .samples] | add > 20' all.json
	done
fi
ok "a file that was removed" jq -e '[.rows[] | select(.function == "gone_work") | .samples] | add > 20' all.json
for c in before after; do
	ok "a file that was replaced while it ran: $c" \
		jq -e --arg f "${c}_work" '[.rows[] | select(.function == $f) | .samples] | add > 20' all.json
done

# ---- inlined calls and lines ----
ok "report: the inlined call, marked" jq -e '[.rows[] | select(.function == "hot" and .inlined and (.module | endswith("/full")))] | length == 1 and .[0].self > 20' all.json
ok "report: its caller is not" jq -e '[.rows[] | select(.function == "full_work" and .inlined)] | length == 0' all.json
for f in link buildid; do
	ok "$f: inlined calls of the separate file" \
		jq -e --arg m "/$f" '[.rows[] | select(.function == "hot" and .inlined and (.module | endswith($m)))] | length == 1' all.json
done
"$ascribe" export st --where '{comm="full"}' --format folded -o folded 2>/dev/null
# Of libc's frames before main some may have their names late, on a busy host.
ok "folded" awk '/;main;full_work;hot_\[i\] [0-9]+$/ { n += $NF; sub(/.*;main;/, ""); lines += !seen[$1]++ } END { print n " samples in " lines " line"; exit !(n > 20 && lines == 1) }' folded
"$ascribe" flame st --where '{comm="full"}' --json >flame.json 2>/dev/null
ok "flame" jq -ce '.frames as $f | [range(0; $f | length; 3) | select($f[.] == "hot (inlined)") | $f[.:. + 3]] | ., length == 1' flame.json
if command -v go >/dev/null; then
	"$ascribe" export st --where '{comm="full"}' --format pprof -o full.pb.gz 2>/dev/null
	go tool pprof -lines -top full.pb.gz >lines 2>/dev/null
	ok "pprof: the line that ran" grep -E "hot .*/spin\.c:($hot_line|$((hot_line - 1)))( |\$)" lines
	go tool pprof -lines -traces full.pb.gz >traces 2>/dev/null
	ok "pprof: the line that was inlined" grep -E "full_work .*/spin\.c:$call_line( |\$)" traces
fi
finish
