# SPDX-License-Identifier: Apache-2.0
# What the tests of real recordings share; sourced, not run. $loads: what they record. What is well
# is said, too.
TELL=1
. "$(dirname "${BASH_SOURCE[0]}")/../lib.bash"
# shellcheck disable=SC2034 # for scripts
loads=$build/tests/record
# shellcheck disable=SC2034 # likewise
source_root=$(realpath "$here/../..")

# Exit status, a pattern that stderr must match, command... What it said stays in the file `said`.
exits() {
	local want=$1 text=$2 got
	shift 2
	timeout 60 "$@" >out 2>err </dev/null
	got=$?
	cp err said
	if [ $got = "$want" ] && { [ -z "$text" ] || grep -qE -- "$text" err; }; then
		good "exit $got: ${*//$ascribe/ascribe}: $(grep -E -m 1 -- "$text" err | cut -c 1-160)"
	else
		bad "exit $got, want $want and /$text/: $*"
		head -5 err
	fi
}

# A condition in Python over the JSON files named before it: check "what" a=a.json b=b.json --
# 'expression', values to show
check() {
	local what=$1
	shift
	ok "$what" python3 -I -S "$here/check.py" "$@"
}

record() { # a recording that must succeed
	"$ascribe" record "$@" >record.out 2>record.err || {
		bad "record $*"
		cat record.err
		return 1
	}
}

report() { "$ascribe" report "$@" --json 2>/dev/null; }

# Wait until a recorder in the background says that it records: its stderr file, at most 20 s.
recording() {
	for _ in $(seq 400); do
		grep -q '^ascribe: recording' "$1" && return
		sleep 0.05
	done
	bad "the recorder did not begin: $(cat "$1")"
	return 1
}

# Let go whoever waits for the filesystem of blocking.c on MNT, also when the test fails.
fuse_let_go() {
	local device
	device=$(awk -v m="$1" '$5 == m { split($3, d, ":"); print d[2] }' /proc/self/mountinfo)
	mountpoint -q /sys/fs/fuse/connections ||
		mount -t fusectl fusectl /sys/fs/fuse/connections 2>/dev/null
	[ -z "$device" ] || echo 1 >"/sys/fs/fuse/connections/$device/abort" 2>/dev/null
	umount -l "$1" 2>/dev/null
	return 0
}

needs_recording

# Each JVM that is installed, once.
jvms() { realpath -qe /usr/lib/jvm/*/bin/java "$(command -v java)" | sort -u; }
