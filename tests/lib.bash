# SPDX-License-Identifier: Apache-2.0
# What the test scripts of the commands, of recordings and of the server share; sourced by their own
# lib.bash. $ascribe: what was built. The working directory is a fresh one. A test says what it saw
# with ok, good and bad, and ends with `finish`. What is in `started` ends with it at the latest,
# and then the command at_end is run. TELL=1: what is well is said, too.
set -u
build=$(realpath "${BUILD:-build}")
ascribe=$build/ascribe
name=$(basename "$0")
shorter=
[ -n "${ASCRIBE_TEST_ALL:-}" ] || ! grep -q in_part "$0" || shorter=', shorter than in test-all'
# shellcheck disable=SC2034 # for scripts
here=$(realpath "$(dirname "${BASH_SOURCE[1]}")")
dir=$(mktemp -d)
passed=0 failed=0
started=() failures=()
export TZ=UTC HOME=$dir PPROF_TMPDIR=$dir
PATH=$PATH:/usr/sbin:/sbin
# Where python3 is a script that looks for the interpreter (pyenv), find it once: that takes longer
# than most checks.
case $(head -c 2 "$(command -v python3 || echo /dev/null)" | tr -d '\0') in
'#!') PATH=$(python3 -S -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH ;;
esac

# The first value in `make test`, the second in `make test-all`; the test's line says that there is
# a difference.
in_part() { [ -n "${ASCRIBE_TEST_ALL:-}" ] && echo "$2" || echo "$1"; }

skip() {
	echo "$name: $*"
	exit 77
}

# Remove a cgroup with all below it, when their processes have ended.
remove_cgroups() {
	local _
	for _ in $(seq 100); do
		find "$1" -depth -type d -exec rmdir {} + 2>/dev/null && break
		sleep 0.05
	done
}

at_exit() {
	local p
	for p in "${started[@]}"; do
		kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null
	done
	[ -z "${at_end:-}" ] || $at_end
	cd /
	rm -rf "$dir"
}
trap at_exit EXIT
cd "$dir" || exit 1

good() {
	passed=$((passed + 1))
	[ -z "${TELL:-}" ] || echo "ok    $*"
}

bad() {
	failed=$((failed + 1))
	failures+=("$(cut -c 1-300 <<<"$*")")
	echo "FAIL  ${failures[-1]}"
}

# what, command...: must succeed.
ok() {
	local what=$1
	shift
	if "$@" >ok.out 2>ok.err; then
		good "$what$(sed -n '1s/^/: /p' ok.out)"
	else
		bad "expected: $what; seen: $( { tail -n 1 ok.err; head -n 1 ok.out; } | cut -c -140 | tr '\n' ' ')"
		head -n 6 ok.out ok.err | cut -c -200
	fi
}

# seconds, command...: until it succeeds.
within() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.05
	done
}
until_says() { within 30 grep -q -- "$1" "${2:-log}"; } # text, file

# In the background, to be ended at the latest with the test: $pid.
background() {
	"$@" &
	pid=$!
	started+=("$pid")
}

finish() {
	local f
	for f in "${failures[@]}"; do # again: tools/test shows the end
		echo "FAILED: $f"
	done
	echo "$passed passed, $failed failed$shorter"
	[ $failed = 0 ] && [ $passed -gt 0 ]
	exit
}

# Where a recording is needed: this host must let us. Once that was seen of this program, since this
# boot, it counts.
needs_recording() {
	local seen=$build/tests/records
	[ "$(id -u)" = 0 ] || skip "recording needs root"
	[ "$seen" -nt "$ascribe" ] && cmp -s "$seen" /proc/sys/kernel/random/boot_id && return
	"$ascribe" record -q -d 100ms -o probe >/dev/null 2>probe.err ||
		skip "no recording here: $(tail -1 probe.err)"
	rm -rf probe
	cat /proc/sys/kernel/random/boot_id >"$seen"
}
