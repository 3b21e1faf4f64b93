#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/figures on figures that are written here: what fails, what is not compared, what it says.
. "$(dirname "$0")/../lib.bash"
export KNOWN=known
tool=$here/../../tools/figures
t=$'\t'
cat >known <<END
# a comment
with code${t}gcc 12
with store${t}zstd 1
with bpf${t}Linux 6
instructions.a${t}1000${t}instructions${t}of a
allocations.a${t}0${t}allocations${t}of a
bytes.b${t}500${t}bytes${t}of b
verified.c${t}100000${t}instructions${t}of c
END
# Change the known figures by a script of sed: the exit status of judging them, and what it says.
judged() {
	sed "$1" known >measured
	"$tool" judge measured >out 2>&1
	echo $?
}
says() { grep -qF -- "$1" out || { cat out && false; }; }

ok "the same figures pass" test "$(judged '')" = 0
ok "all were compared" says '4 compared, 0 failed'
ok "2% more pass" test "$(judged 's/a.1000/a\t1020/')" = 0
ok "2.1% more fail" test "$(judged 's/a.1000/a\t1021/')" = 1
ok "old and new figure" grep -qE '^FAIL  instructions.a +1000 +1021 +\+2.10%  instructions of a' out
ok "what to do" says 'make figures-accept, and say why in the commit that changes known'
ok "2.1% less fail" test "$(judged 's/a.1000/a\t979/')" = 1
ok "something where nothing was fails" test "$(judged 's/\(allocations.a.\)0/\11/')" = 1
ok "a new figure fails" test "$(judged '$a bytes.d\t1\tbytes\tof d')" = 1
ok "and is named" says 'FAIL  bytes.d: 1 bytes, new'
ok "a figure that is gone fails" test "$(judged '/^bytes/d')" = 1
ok "and is named, too" says 'FAIL  bytes.b: it was 500, and is measured no more'
ok "another compiler: not compared" test "$(judged 's/gcc 12/gcc 14/; s/a.1000/a\t3000/')" = 0
ok "with its figure" grep -qE '^ +instructions.a +3000 instructions, not compared' out
ok "why" says 'not compared, group code: figures are of gcc 12; here is gcc 14'
ok "the other groups still are" says '2 compared, 0 failed'
ok "also when they fail" test "$(judged 's/gcc 12/gcc 14/; s/bytes.b.500/bytes.b\t600/')" = 1
ok "a bound that holds everywhere" test "$(judged 's/Linux 6/Linux 7/; s/100000/220001/')" = 1
ok "and its message" says 'verified.c: 220001 instructions, and 220,000 is the most anywhere'
ok "no figures to judge" test "$("$tool" judge nothing >out 2>&1; echo $?)" != 0
ok "no command" test "$("$tool" >out 2>&1; echo $?)" = 1
finish
