#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure what it costs that a recorder is several processes, beside compilers and short processes.
#
#   CPU      by perf, from 5 s after its start: all of the keeper, the nursery and the server; of
#            the recorder what runs in user/sandbox and in user/proc/reader*.c, with its system
#            calls; of parsers and readers, messages, and what the kernel does to make and end them
#   memory   of all but the recorder, what they share with nobody: Pss of anonymous memory and
#            private clean pages; of each parser what one has at least, before it has parsed
#
# What is read and parsed would be read and parsed in one process, too. SECONDS_EACH=30 RUNS=3
# BUILD=build, as root.
set -eu
ascribe=$(realpath "${BUILD:-build}/ascribe")
runs=${RUNS:-3} each=${SECONDS_EACH:-30}
dir=$(mktemp -d)
loads=()
at_exit() {
	for pid in "${loads[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || :; done
	rm -rf "$dir"
}
trap at_exit EXIT
. "$(dirname "$0")/churn_load.bash"
start_load "$dir"

descendants() {
	local id
	for id in $(pgrep -P "$1" || :); do
		echo "$id"
		descendants "$id"
	done
}
# Each process and its memory, in KiB.
pss() {
	local id
	for id; do
		echo "$(cat "/proc/$id/comm") $(awk '/^Pss_Anon:|^Private_Clean:/ { n += $2 } END { print n }' \
			"/proc/$id/smaps_rollup")"
	done 2>/dev/null | awk 'NF == 2'
	echo end
}

for run in $(seq "$runs"); do
	"$ascribe" daemon -F 99 -s "$dir/store" -l "unix:$dir/socket" >"$dir/log" 2>&1 &
	recorder=$!
	sleep 5
	kill -0 $recorder || { cat "$dir/log" >&2; exit 1; }
	# It refuses a process that has just ended.
	until [ "${perf:-}" ] && kill -0 "$perf" 2>/dev/null; do
		ids=$(descendants $recorder | paste -sd,)
		perf record -q -e cpu-clock -F 997 --call-graph dwarf,16384 -p "$recorder,$ids" \
			-o "$dir/perf.data" 2>/dev/null &
		perf=$!
		sleep 0.3
	done
	for _ in $(seq $((each / 3))); do
		sleep 3
		mapfile -t all < <(echo $recorder; descendants $recorder)
		pss "${all[@]}" >>"$dir/pss"
	done
	kill -INT "$perf"
	wait "$perf" || :
	perf=
	kill -TERM $recorder
	wait $recorder || { cat "$dir/log" >&2; exit 1; }
	perf script --no-inline -i "$dir/perf.data" -F comm,pid,ip,sym 2>/dev/null \
		>"$dir/samples.$run"
	rm -rf "$dir/store"
done

nm "${BUILD:-build}"/user/sandbox/*.o "${BUILD:-build}"/user/proc/reader*.o |
	awk 'tolower($2) == "t" { print $3 }' >"$dir/functions"
python3 - "$dir" "$runs" <<'EOF'
import collections, re, statistics, sys
dir, runs = sys.argv[1], int(sys.argv[2])
MESSAGES = re.compile(r"__sys_(send|recv)|do_sys_poll|do_epoll_wait|__sys_socketpair")
LIVES = re.compile(r"\b(do_exit|ret_from_fork\w*|kernel_clone|do_wait|begin_new_exec)\b")
OWN = {line.strip().split(".")[0] for line in open(f"{dir}/functions")}
shares = []
for run in range(1, runs + 1):
    n, cost = collections.Counter(), collections.Counter()
    for sample in open(f"{dir}/samples.{run}").read().split("\n\n"):
        if not sample.strip():
            continue
        comm = sample.split()[0]
        n[comm] += 1
        frames = {line.split()[1] for line in sample.split("\n")[1:] if len(line.split()) > 1}
        if comm in ("ascribe-keeper", "ascribe-nursery", "ascribe-web") or (
                frames & OWN if comm == "ascribe" else MESSAGES.search(sample) or LIVES.search(sample)):
            cost[comm] += 1
    total = sum(n.values())
    shares.append(100 * sum(cost.values()) / total)
    print(f"run {run}: {total} samples:", ", ".join(
        f"{c} {100 * n[c] / total:.1f}%, of it {100 * cost[c] / total:.1f}%" for c, _ in n.most_common()))
looks, look = [], []
for line in open(f"{dir}/pss"):
    if line == "end\n":
        looks.append(look)
        look = []
    else:
        look.append((line.split()[0][:15], int(line.split()[1])))
parser = min((kib for l in looks for comm, kib in l if comm == "ascribe-parser"), default=0)
beside = [sum(parser if comm == "ascribe-parser" else kib for comm, kib in l if comm != "ascribe") / 1024
          for l in looks]
print("figure", "separation/cpu", "ascribe", " ".join(map(str, shares)), sep="\t")
print("figure", "separation/memory", "ascribe", " ".join(map(str, beside)), sep="\t")
print(f"the recorder has {statistics.median(k for l in looks for c, k in l if c == 'ascribe') / 1024:.1f} MiB")
EOF
