# SPDX-License-Identifier: Apache-2.0
# For the tests of user stacks, after lib.bash.
# shellcheck disable=SC2034,SC2154 # variables of lib.bash, and for scripts
[ "$(uname -m)" = x86_64 ] || skip "unwind rules are for x86-64"
load=$loads/chains

stacks() { # store -> folded, stat.json
	"$ascribe" export "$1" --format folded 2>/dev/null >folded
	"$ascribe" stat "$1" --json >stat.json
}

roots() { # name, share, command...
	local what=$1 share=$2
	shift 2
	rm -rf real
	record -F 299 -o real -- "$@" || return
	stacks real
	ok "$what: stacks reach their root" python3 "$here/unwind.py" roots stat.json \
		"$share" folded
}

cat >work.py <<'PY'
import json, re, sys, time
def deep(n): return n if n < 2 else deep(n - 1) + deep(n - 2)
end = time.process_time() + float(sys.argv[1])  # as many samples where the host is busy
while time.process_time() < end:
    text = json.dumps([{'n': i, 's': str(i) * 3} for i in range(500)])
    json.loads(text)
    re.findall(r'"n": (\d+)', text)
    sorted(range(3000), key=lambda v: -v)
    deep(12)
PY
