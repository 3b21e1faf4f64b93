#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose files lie about their symbols: they run, are recorded, and go without names. Who
# runs beside them has his. The child that parses may die of them, the recorder does not.
. "$(dirname "$0")/lib.bash"

cat >spin.c <<'C'
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) double my_work(double x) { for (int i = 0; i < 100000; i++) x = x * 1.0000001 + i; return x; }
int main(int c, char **v)
{
	double x = 0;
	/* Not atoi: glibc's is inlined, and its name, which is right, is one more that DWARF tells. */
	clock_t end = strtol(v[1], NULL, 10) * (CLOCKS_PER_SEC / 10);
	(void)c;
	while (clock() < end)
		x = my_work(x);
	return x == 42;
}
C
gcc -O1 -g -Wl,--build-id=none -o good spin.c
# Sections are not needed to run: lie in their headers.
cat >lie.py <<'PY'
import struct, sys
kind, source, out = sys.argv[1:]
b = bytearray(open(source, 'rb').read())
shoff, = struct.unpack_from('<Q', b, 40)
shnum, strndx = struct.unpack_from('<HH', b, 60)
def field(i, at): return shoff + 64 * i + at
names, = struct.unpack_from('<Q', b, field(strndx, 24))
def name(i):
    at = names + struct.unpack_from('<I', b, field(i, 0))[0]
    return bytes(b[at:b.index(0, at)]).decode()
where = {name(i): i for i in range(shnum)}
def put(section, at, value): struct.pack_into('<Q', b, field(where[section], at), value)
if kind == 'size': put('.symtab', 32, 24 << 40)
elif kind == 'offset': put('.symtab', 24, 1 << 62)
elif kind == 'strings': put('.strtab', 32, 1 << 50)
elif kind == 'self': struct.pack_into('<I', b, field(where['.symtab'], 40), where['.symtab'])
elif kind == 'sections': struct.pack_into('<Q', b, 40, len(b) - 10)
elif kind == 'names':
    at, size = struct.unpack_from('<QQ', b, field(where['.symtab'], 24))
    for i in range(size // 24): struct.pack_into('<I', b, at + 24 * i, 0xfffffff0)
elif kind == 'dwarf':
    for s in where:
        if s.startswith('.debug'):
            at, size = struct.unpack_from('<QQ', b, field(where[s], 24))
            for i in range(size): b[at + i] = (i * 37 + 11) & 255
elif kind == 'sparse':
    put('.debug_info', 24, len(b))
    put('.debug_info', 32, (1 << 40) - len(b))
open(out, 'wb').write(b)
if kind == 'sparse': open(out, 'r+b').truncate(1 << 40)
PY
lies="size offset strings self sections names dwarf sparse"
for lie in $lies; do
	python3 lie.py $lie good bad-$lie && chmod +x bad-$lie || bad "cannot make bad-$lie"
done
# 128 MiB of packed nothing in the place of symbols.
python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.compress(bytes(1 << 27), preset=0))' >packed
strip -o bad-packed good && objcopy --add-section .gnu_debugdata=packed bad-packed ||
	bad "cannot make bad-packed"
background "$ascribe" record -a -F 199 -d 60s -o st 2>rec.err
recorder=$pid
recording rec.err
pids=()
for p in good $(printf 'bad-%s ' $lies packed); do
	./$p 4 &
	pids+=($!)
done
wait "${pids[@]}"
kill -INT $recorder
wait $recorder
ok "the recorder is whole" test $? = 0
"$ascribe" report st --json -n 0 >all.json 2>/dev/null
ok "the good program has its names" jq -e '[.rows[] | select(.function == "my_work" and (.module | endswith("/good"))) | .self] | add > 20' all.json
for lie in size offset strings self sections names packed; do
	ok "$lie: seen, without a wrong name" jq -e --arg m "/bad-$lie" \
		'[.rows[] | select(.module | endswith($m))] | length > 0 and all(.function | test("^(bad-|my_work$|main$|_start)"))' all.json
done
for lie in dwarf sparse; do
	ok "$lie: the symbols stay" jq -e --arg m "/bad-$lie" \
		'[.rows[] | select(.function == "my_work" and (.module | endswith($m)))] | length > 0' all.json
done
ok "refusals are counted" jq -e '.flagged.names_refused > 0' \
	<("$ascribe" stat st --json 2>/dev/null)
ok "and said" grep -q 'names: .* files refused' rec.err
finish
