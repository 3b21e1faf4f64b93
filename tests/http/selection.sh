#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cgroups chosen by their labels, by annotations of their pods, and a rate for some. Each pod has a
# load; the truth is the CPU time that the kernel itself accounts to its cgroup. As root.
. "$(dirname "$0")/../record/lib.bash"
export no_proxy='*' PYTHONDONTWRITEBYTECODE=1
hasty=$build/tests/hasty/ascribe
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=ascribe-test-$$
base=$cgroups/$top
[ -n "$cgroups" ] && mkdir -p "$base/kubepods" || skip "no cgroup v2 here"
at_end="remove_cgroups $base"

# NAME NAMESPACE LABELS ANNOTATIONS; the names are of 253 characters, the longest there may be.
cat >pods.py <<'PY'
import json
ours, grafana = 'ascribe.io/profile', 'profiles.grafana.com/cpu.ebpf.enabled'
pods = [('web', 'shop', {'tier': 'web'}, {}),
        ('db', 'shop', {'tier': 'x' * 63}, {ours: 'false'}),
        ('card', 'pay', {}, {grafana: 'false'}),
        ('other', 'other', {}, {grafana: 'maybe'}),
        ('post', 'mail', {}, {ours: 'true', grafana: 'false'}),
        ('huge', 'mail', {}, {ours: 'false' * 52000})]
out = []
for i, (name, space, labels, notes) in enumerate(pods):
    out.append({'kind': 'Pod', 'apiVersion': 'v1',
                'metadata': {'name': (name + '-' + 'n' * 253)[:253], 'namespace': space,
                             'uid': f'{i:08x}-1111-2222-3333-444444444444',
                             'resourceVersion': str(i + 1), 'creationTimestamp': '2026-01-02T03:04:05Z',
                             'labels': labels, 'annotations': notes},
                'spec': {'nodeName': 'n1', 'containers': [{'name': f'c-{name}'}]},
                'status': {'containerStatuses': [{'name': f'c-{name}',
                                                  'containerID': f'containerd://{i:064x}'}]}})
json.dump({'pods': out, 'events': [], 'version': 100, 'fault': ''}, open('state.json', 'w'))
PY
python3 -S pods.py
group_of() { # of pod N: under kubepods
	printf 'kubepods/pod%08x-1111-2222-3333-444444444444/%064x' "$1" "$1"
}
declare -A groups=([host]=host [other/web]="$(group_of 3)/$(group_of 0)")
n=0
for g in web db card other post huge; do
	groups[$g]=$(group_of $n)
	n=$((n + 1))
done
for g in "${!groups[@]}"; do mkdir -p "$base/${groups[$g]}"; done

mkdir secrets
echo -n token | tee good >secrets/token
: >requests.log
background python3 -S "$here/../http/apiserver.py" "$dir" 0 >port 2>/dev/null
within 5 test -s port

cat >load.sh <<'SH'
echo 0 >"$1/cgroup.procs"
n=0
while [ $n -lt "$2" ] && sleep 0.02; do
	i=0
	while [ $i -lt 50000 ]; do i=$((i + 1)); done
	n=$((n + 1))
done
SH
run_groups() { # so many rounds of some 30 ms of CPU time in each cgroup, with waits between
	local g pids=()
	for g in "${groups[@]}"; do
		sh load.sh "$base/$g" "$1" &
		pids+=($!)
	done
	wait "${pids[@]}"
} 2>/dev/null
used() { # FILE: seconds of each cgroup, without those below
	for g in "${!groups[@]}"; do
		echo "$g ${groups[$g]} $(sed -n 's/^usage_usec //p' "$base/${groups[$g]}/cpu.stat")"
	done | python3 -S -c '
import json, sys
u = {g: (path, int(us) / 1e6) for g, path, us in (l.split() for l in sys.stdin)}
below = lambda p: sum(s for q, s in u.values() if q.startswith(p + "/"))
json.dump({g: [p, s - below(p)] for g, (p, s) in u.items()}, open(sys.argv[1], "w"))' "$1"
}

# What a recording may wait for, in $awaited: rules that match nothing, the window that the load
# ended in.
tells_rules() { grep -q 'nothing matches' "$name.err"; }
has_window() {
	"$ascribe" stat "st_$name" --json 2>/dev/null |
		jq -e --argjson t "$ended" '.to >= $t' >window
}

# record_groups NAME ROUNDS OPTIONS...: leaves NAME.json, NAME.stat.json, before.json, after.json
record_groups() {
	local name=$1 rounds=$2
	shift 2
	background "$hasty" daemon --listen "unix:$dir/socket" --anonymous --store "$dir/st_$name" \
		--cpu-max 0 --kubernetes-api "http://127.0.0.1:$(cat port)" --node n1 \
		--kubernetes-credentials "$dir/secrets" --container-names kubernetes \
		--pod-labels tier "$@" 2>"$name.err"
	until_says 'recording .* into' "$name.err" || bad "$name: $(cat "$name.err")"
	used before.json
	run_groups "$rounds"
	used after.json
	ended=$(date +%s)
	[ -z "${awaited:-}" ] || within 30 $awaited
	sleep 2 # its metrics are of the last look
	curl -gsS --max-time 10 --unix-socket socket http://x/metrics >"$name.metrics"
	kill -INT "$pid"
	wait "$pid" || bad "daemon $*: $(cat "$name.err")"
	report "st_$name" --by cgroup -n 0 >"$name.json"
	"$ascribe" stat "st_$name" --json >"$name.stat.json"
}
metric() { awk -v m="$1" '$1 == m { print $2 }' "$2.metrics"; }

# judge NAME GROUP...: these have the CPU time of the kernel's account, the others nothing but a
# sample from before their shell moved there.
got="{k.removeprefix('/$top/'): x['seconds'] for k, x in rows(r).items() if k}"
used='{g: a[g][1] - b[g][1] for g in a}'
show="[(k[-60:], v) for k, v in $got.items() if k in dict(a.values())], $used"
judge() {
	local name=$1 wanted
	shift
	wanted=$(python3 -c 'import sys; print(set(sys.argv[1:]))' "$@")
	cat >judge.py <<PY
(lambda got, used: exact(s) and all(
    abs(got.get(a[g][0], 0) - used[g]) < 0.03 + 4 * (used[g] / 499) ** 0.5 if g in $wanted
    else got.get(a[g][0], 0) < 0.02 for g in used))($got, $used)
PY
	check "$name: the CPU time of $*, and not of the others" \
		r="$name.json" b=before.json a=after.json s="$name.stat.json" -- \
		"$(cat judge.py)" "$show"
}

record_groups out 6 -F 499 --annotated out --exclude '{namespace="other"}'
judge out web post huge host
awaited=tells_rules record_groups in 6 -F 499 --annotated in \
	--select '{namespace="shop",pod_label_tier="web"}' \
	--select '{namespace="none"}'
judge in web post
ok "in: a rule that matches nothing is told" \
	grep -q 'select: nothing matches {namespace="none"}' in.err
ok "in: no other one is" test "$(grep -c 'nothing matches' in.err)" = 1
outside=$(jq .outside in.stat.json)
ok "in: what is left out is counted: $outside samples" test "$outside" -gt 1000

# Waits, too, of what is selected alone: its shell waits for its sleeps. (other) is without labels.
record_groups waits 6 -F 499 --wall --select '{namespace="shop"}' --exclude '{pod_label_tier="web"}'
judge waits db
report st_waits --by cgroup -e off-cpu -n 0 >off.json
check "waits: of threads that are selected, and of no others" r=off.json a=after.json -- \
	"[k for k in samples(r) if k and k.startswith('/$top/')] == ['/$top/' + a['db'][0]]" \
	'{k: v["seconds"] for k, v in rows(r).items()}'

# Rates: what each group has, and what a sample of it stands for.
awaited=has_window record_groups rates 30 -F 19 --rate '99{namespace="shop"}' \
	--rate '49{cgroup=~".*/host"}'
cat >rates.py <<PY
(lambda got, used, hz: all(
    abs(got[a[g][0]] - used[g]) < 0.05 + 4 * (used[g] / hz.get(g, 19)) ** 0.5 for g in used)
)($got, $used, {'web': 99, 'db': 99, 'host': 49})
PY
check "rates: the CPU time of all, within four deviations" \
	r=rates.json b=before.json a=after.json -- "$(cat rates.py)" "$show"
check "rates: each sample is accounted for" s=rates.stat.json -- \
	'exact(s)' 's["fired"], s["stored"]'
ok "rates: what lower rates do not take is counted" \
	test "$(metric ascribe_samples_thinned_total rates)" -gt 200
# The lowest rate of the answer is the unit in which all samples are counted.
for g in web:99 host:49 card:19; do
	report st_rates --by cgroup --where "cgroup=\"/$top/${groups[${g%:*}]}\"" >one.json
	check "rates: samples of ${g%:*} are in units of 1/${g#*:} s" r=one.json -- \
		"abs(r['samples'] - ${g#*:} * r['seconds']) <= 1" "r['samples'], r['seconds']"
done
check "rates: those of all are in units of 1/19 s" r=rates.json -- \
	"abs(r['samples'] - 19 * r['seconds']) <= 1" "r['samples'], r['seconds']"

exits 2 "exclude: selector, column" "$ascribe" daemon --exclude '{pod=' --check-config
exits 2 "select: 'pod_label_x' does not follow" \
	"$ascribe" daemon --select '{pod_label_x="1"}' --check-config
exits 2 "rate: '0.*is not HZ" "$ascribe" daemon --rate '0{pod="x"}' --check-config
exits 2 'annotated: .* is none of' "$ascribe" daemon --annotated perhaps --check-config
mapfile -t many < <(for i in $(seq 8); do echo "--rate=$((i + 20)){pod=\"x\"}"; done)
exits 2 'more than 8 rates' "$ascribe" daemon "${many[@]}" --check-config
mapfile -t many < <(for i in $(seq 65); do echo "--select={pod=\"$i\"}"; done)
exits 2 'more than 64 rules' "$ascribe" daemon "${many[@]}" --check-config
finish
