#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several cgroups, and some left out: of shop, shop/cache, shop/cache/warm and mail each runs a
# load. The truth is the CPU time that the kernel itself accounts to each cgroup.
. "$(dirname "$0")/lib.bash"
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=ascribe-test-$$
groups=(shop shop/cache shop/cache/warm mail)
[ -n "$mount" ] && mkdir "$mount/$top" || skip "no cgroup v2 here"
at_end=end_groups
end_groups() {
	local _ g
	for g in mail shop/cache/warm shop/cache shop .; do
		for _ in $(seq 100); do
			rmdir "$mount/$top/$g/" 2>/dev/null && break
			sleep 0.05
		done
	done
}
for g in "${groups[@]}"; do mkdir "$mount/$top/$g"; done

cat >load.sh <<'SH'
echo 0 >"$1/cgroup.procs"
ulimit -t 1
while sleep 0.02; do
	i=0
	while [ $i -lt 50000 ]; do i=$((i + 1)); done
done
SH
run_groups() { # a second of CPU time in each cgroup, and waits between
	local g pids=()
	for g in "${groups[@]}"; do
		sh load.sh "$mount/$top/$g" &
		pids+=($!)
	done
	wait "${pids[@]}"
} 2>/dev/null
used() { # seconds of each cgroup, without those below
	python3 - "$mount/$top" "${groups[@]}" <<'PY'
import json, sys
def usage(group):
    for line in open(f'{sys.argv[1]}/{group}/cpu.stat'):
        if line.startswith('usage_usec'):
            return int(line.split()[1]) / 1e6
groups = sys.argv[2:]
below = {g: [b for b in groups if b.rpartition('/')[0] == g] for g in groups}
print(json.dumps({g: usage(g) - sum(usage(b) for b in below[g]) for g in groups}))
PY
}

# record_groups NAME OPTIONS...: leaves NAME.json, NAME.stat.json, before.json and after.json.
record_groups() {
	local name=$1
	shift
	background "$ascribe" "${command[@]}" "st_$name" "$@" 2>"$name.err"
	recording "$name.err" || return
	used >before.json
	run_groups
	used >after.json
	kill -INT "$pid"
	wait "$pid" || bad "record $*: $(cat "$name.err")"
	report "st_$name" --by cgroup -n 0 >"$name.json"
	"$ascribe" stat "st_$name" --json >"$name.stat.json"
}

# judge NAME GROUP...: these have the CPU time of the kernel's account. The others have nothing but
# a sample from before their shell moved there: where a v2 cgroup is the root, /proc is asked later.
judge() {
	local name=$1 wanted
	shift
	wanted=$(python3 -c 'import sys; print(set(sys.argv[1:]))' "$@")
	cat >judge.py <<PY
(lambda got, used: exact(s) and all(
    0.93 * used[g] - 0.03 < got.get(g, 0) < 1.07 * used[g] + 0.03 if g in $wanted
    else got.get(g, 0) < 0.02 for g in used))(
    {g: x['seconds'] for g in a for k, x in rows(r).items() if k == '/$top/' + g},
    {g: a[g] - b[g] for g in a})
PY
	check "$name: the CPU time of ${*:-none of them}, and not of the others" \
		r="$name.json" b=before.json a=after.json s="$name.stat.json" -- "$(cat judge.py)" \
		'[(k, x["seconds"]) for k, x in rows(r).items()][:6], {g: a[g] - b[g] for g in a}'
}

in=$top/shop
command=(record -F 499 -o)
record_groups both -G "$in/cache,$top/mail"
judge both shop/cache shop/cache/warm mail
record_groups nested -G "$in" --exclude-cgroup "$in/cache" -G "$in/cache/warm"
judge nested shop shop/cache/warm
record_groups all_but -a --exclude-cgroup "$in" --exclude-cgroup "$top/mail"
judge all_but
check "all_but: the rest of the host is there" r=all_but.json -- 'r["samples"] > 50' 'r["samples"]'
record_groups waits --wall -G "$mount/$in" --exclude-cgroup "$in/cache"
judge waits shop
report st_waits --by cgroup -e off-cpu -n 0 >off.json
check "waits: only of threads in the selected cgroups" r=off.json -- \
	"samples(r) and all(k == '/$in' for k in samples(r))" 'list(samples(r))[:5]'
# ---- cgroups that are gone before the tables are drained, as of short containers ----
background "$ascribe" record -a -F 499 -o st_brief 2>brief.err
if recording brief.err; then
	recorder=$pid
	for i in 1 2 3 4 5; do
		mkdir "$mount/$top/brief$i"
		sh -c 'echo 0 >"$1/cgroup.procs"; exec timeout 0.4 sh -c "while :; do :; done"' sh \
			"$mount/$top/brief$i"
		sed -n "s/^usage_usec /brief$i /p" "$mount/$top/brief$i/cpu.stat" >>brief.used
		rmdir "$mount/$top/brief$i"
	done
	kill -INT "$recorder"
	wait "$recorder"
	jq -nR '[inputs / " " | {(.[0]): (.[1] | tonumber / 1e6)}] | add' brief.used >used.json
	report st_brief --by cgroup -n 0 >brief.json
	check "brief: cgroups that are gone have their paths" r=brief.json u=used.json -- \
		"all(abs(rows(r)['/$top/' + k]['seconds'] - v) < 0.1 + 0.1 * v for k, v in u.items())" \
		"u, {k: v['seconds'] for k, v in rows(r).items() if k and '$top' in k}"
fi

command=(daemon -F 499 --listen none --store)
record_groups daemon -G "$in" --exclude-cgroup "$in/cache"
judge daemon shop
ok "daemon: it says what it records" grep 'recording selected cgroups' daemon.err
ok "all_but: it says what it leaves out" grep -i 'recording all but excluded cgroups' all_but.err

exits 2 'exclude each other' "$ascribe" record -p $$ --exclude-cgroup "$in" -d 1s -o x
exits 2 'exclude each other' "$ascribe" record -a -G "$in" -d 1s -o x
exits 2 "no cgroup 'no/such'" "$ascribe" daemon --exclude-cgroup no/such --store x
exits 1 "no cgroup 'no/such'" "$ascribe" record --exclude-cgroup no/such -d 1s -o x
many=$in$(printf ",$in%.0s" $(seq 40))
exits 2 'more than 64 cgroups' "$ascribe" record -G "$many" --exclude-cgroup "$many" -d 1s -o x
finish
