#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verifier's work is most of what a start costs, some microseconds for ten instructions. It
# follows each turn of a loop: one loop with branches can cost more than all else together.
. "$(dirname "$0")/lib.bash"
most=125000 # instructions of one program; the largest has 95,000
"$ascribe" record -F 19 --wall --waker -o s >out 2>err &
pid=$!
recording err || finish
tells() {
	sed -n 's/^verified_insns:[[:space:]]*//p' /proc/$pid/fdinfo/* 2>/dev/null >verified
	[ -s verified ]
}
within 10 tells # descriptors come and go meanwhile
kill -INT $pid
wait $pid
[ -s verified ] || skip "this kernel does not tell how many instructions it verified"
ok "at least five programs were loaded" test "$(wc -l <verified)" -ge 5
for n in $(sort -nr verified | head -3); do
	ok "$n instructions verified, at most $most" test "$n" -le $most
done
finish
