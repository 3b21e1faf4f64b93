#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A recorder in a cgroup with little memory takes no more than is there, beside programs whose files
# cost more than that to read: else the kernel kills it. Where others take that memory and the
# kernel does kill it, what it wrote is whole.
. "$(dirname "$0")/lib.bash"
compiler=$(compgen -c clang- | grep -E '^clang-[0-9]+$' | sort -V | tail -1)
[ -n "$compiler" ] || skip "no clang here"
v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ -n "$v1" ]; then
	group=$v1/ascribe-test-$$ limit=memory.limit_in_bytes kills=memory.oom_control
elif [ -n "$v2" ] && echo +memory >"$v2/cgroup.subtree_control"; then
	group=$v2/ascribe-test-$$ limit=memory.max kills=memory.events
else
	skip "no cgroup with a limit of memory here"
fi
mkdir "$group" || skip "no cgroup can be made here"
at_end="remove_cgroups $group"

cat >inside <<'SH'
#!/bin/sh
echo "$2" >"$1" && echo $$ >"${1%/*}/cgroup.procs" && shift 2 && exec "$@"
SH
chmod +x inside
cat >code.cc <<'CC'
#include <regex>
#include <map>
std::regex r("a*b");
int main(int n, char **v) { std::map<int, std::regex> m; m[n] = r; return m.size() + std::regex_match(v[0], r); }
CC
while :; do "$compiler" -O2 -c code.cc -o /dev/null; done 2>/dev/null &
started+=($!)
ok "a recording with 128 MiB ends well" ./inside "$group/$limit" $((128 << 20)) \
	"$ascribe" record -a -F 499 -d "$(in_part 4 8)s" -o st
"$ascribe" stat st --json >stat.json
check "and names what it records" s=stat.json -- \
	'exact(s) and s["stored"] > 500 and s["flagged"]["names_refused"] < 0.2 * s["stored"]' \
	's["stored"], s["flagged"]["names_refused"]'
report st --by comm >comm.json
check "the compiler among it" r=comm.json -- 'sum(n for c, n in samples(r).items() if c.startswith("clang")) > 100'
ok "top with 128 MiB ends well" sh -c '"$@" >top.json' sh ./inside "$group/$limit" $((128 << 20)) \
	"$ascribe" top --once --seconds 3 --json
ok "the kernel killed nobody" grep -q '^oom_kill 0' "$group/$kills"
exits 1 'memory-max is too small: 60.0 MiB are given' \
	./inside "$group/$limit" $((80 << 20)) "$ascribe" daemon -s daemon -l none
# A pod that has the cgroups of its node, and a namespace of its own, where it is in "/".
exits 1 'memory-max is too small: 60.0 MiB are given' \
	./inside "$group/$limit" $((80 << 20)) unshare --cgroup "$ascribe" daemon -s daemon -l none
exits 1 'the cgroup allows 80.0 MiB of memory, less than memory-max' \
	./inside "$group/$limit" $((80 << 20)) "$ascribe" daemon -s /proc/1/none -l none --memory-max 90MiB

# ---- the kernel kills it ----
background ./inside "$group/$limit" $((160 << 20)) "$ascribe" daemon -s killed -F 499 -l none 2>killed.err
daemon=$pid
recording killed.err
within 40 sh -c "'$ascribe' stat killed --json 2>/dev/null | jq -e '.stored > 0'" ||
	bad "no window in 40 s"
echo 1000 >"/proc/$daemon/oom_score_adj"
background ./inside "$group/$limit" $((160 << 20)) sh -c 'echo -1000 >/proc/self/oom_score_adj
	exec python3 -c "import time; a = bytearray(150 << 20); time.sleep(60)"'
hog=$pid
within 30 sh -c "! kill -0 $daemon 2>/dev/null"
wait $daemon
ok "the kernel killed it" test $? = 137
kill -9 $hog
ok "what it wrote is whole" "$ascribe" store verify killed
before=$("$ascribe" stat killed --json | jq .stored)
ok "another one goes on with it" "$ascribe" record -q -a -F 499 -d 1s --append -o killed
ok "and keeps what was there" \
	test "$("$ascribe" stat killed --json | jq ".stored > $before and $before > 0")" = true
finish
