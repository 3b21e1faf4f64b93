#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each kind of system call that a recorder makes fails once: the first, the last and one between.
# The recorder goes on, or ends with a message. It never hangs or crashes, and what is in the store
# is whole. One place in 24, or in 8, others each day; ASCRIBE_FAULT_FULL: all of them.
# CALLS="openat bpf" tries all of these.
. "$(dirname "$0")/lib.bash"
command -v strace >/dev/null || skip "needs strace"
run() { # store, arguments of strace: the exit status of the recorder
	local store=$1
	shift
	rm -rf "$store"
	timeout -s KILL 60 strace -qq "$@" \
		"$ascribe" record -q -a -F 99 -d 300ms -o "$store" >/dev/null 2>err
}
counted() { awk '$1 ~ /^[0-9]+$/ && $2 != "total" { print $2, $1 }' "$1"; }
# What the dynamic linker does is not ours.
strace -qq -o linked -c -U calls,name "$ascribe" --version >/dev/null
counted linked >before
run all -o counts -c -U calls,name || bad "a recording under strace: $(tail -n 1 err)"
mapfile -t calls < <(counted counts | awk 'NR == FNR { before[$1] = $2; next }
	$2 > before[$1] { print $1, before[$1] + 1, $2 }' before -)
# Those that never return, and those whose failure libc takes for a broken kernel.
never=' execve exit_group rt_sigreturn brk futex '
step=$(in_part 24 8) at=0 tried=0
[ -z "${ASCRIBE_FAULT_FULL:-}${CALLS:-}" ] || step=1
turn=$(($(date +%s) / 86400 % step))
for line in "${calls[@]}"; do
	read -r call first n <<<"$line"
	[[ $never != *" $call "* ]] || continue
	[ -z "${CALLS:-}" ] || [[ " $CALLS " = *" $call "* ]] || continue
	for when in $(printf '%s\n' "$first" $(((first + n) / 2)) "$n" | sort -nu); do
		at=$((at + 1)) error=ENOMEM
		[ $((at % 2)) = 0 ] || error=EIO
		[ $((at % step)) = $turn ] || continue
		tried=$((tried + 1))
		what="$call, number $when of $n: $error"
		run st -o /dev/null -e trace="$call" -e inject="$call:error=$error:when=$when"
		status=$?
		"$ascribe" store verify st >out 2>&1
		whole=$?
		if [ $status -ge 124 ]; then
			bad "$what: status $status: $(tail -n 1 err)"
		elif [ $status != 0 ] && ! grep -q '^ascribe: ' err; then
			bad "$what: status $status without a word"
		elif { [ $status = 0 ] && [ $whole != 0 ]; } || grep -q '^damaged' out; then
			bad "$what: status $status, then $(tail -n 1 out)"
		else
			good "$what: status $status"
		fi
	done
done
ok "there are calls of ${#calls[@]} kinds" test ${#calls[@]} -gt 30
echo "$tried of $at places, calls of ${#calls[@]} kinds"
finish
