#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names of pods from an API server that fails in every way a real one can. Each time another pod
# starts meanwhile, and has its name in the end. By a stand-in (apiserver.py); what a real one shows
# is in tests/kubernetes. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
base=$cgroups/ascribe-test-$$/kubepods
[ -n "$cgroups" ] && mkdir -p "$base" || skip "no cgroup v2 here"
at_end="remove_cgroups ${base%/*}"

# What the server has: pods by number. set_state KEY=JSON.. changes it.
echo '{"pods": [], "events": [], "version": 100, "fault": ""}' >state.json
set_state() {
	python3 - "$@" <<'PY'
import json, os, sys
s = json.load(open('state.json'))
for a in sys.argv[1:]:
    k, v = a.split('=', 1)
    s[k] = json.loads(v)
json.dump(s, open('state.new', 'w'))
os.rename('state.new', 'state.json')
PY
}
uid_of() { printf '%08x-1111-2222-3333-444444444444' "$1"; }
id_of() { printf '%064x' $((1000 + $1)); }
# Another pod, number N, called p-N of workload w-N, in the list and as an event.
add_pod() {
	python3 - "$1" "$(uid_of "$1")" "$(id_of "$1")" <<'PY'
import json, os, sys
n, uid, cid = int(sys.argv[1]), sys.argv[2], sys.argv[3]
s = json.load(open('state.json'))
s['version'] += 1
pod = {'kind': 'Pod', 'apiVersion': 'v1',
       'metadata': {'name': f'w-{n}-5d8f7b9c66-x{n:04d}', 'namespace': f'space-{n}', 'uid': uid,
                    'resourceVersion': str(s['version']), 'creationTimestamp': '2026-01-02T03:04:05Z',
                    'labels': {'pod-template-hash': '5d8f7b9c66', 'app.kubernetes.io/name': f'app-{n}'},
                    'ownerReferences': [{'kind': 'ReplicaSet', 'name': f'w-{n}-5d8f7b9c66',
                                         'apiVersion': 'apps/v1', 'uid': 'x', 'controller': True}]},
       'spec': {'nodeName': 'n1', 'containers': [{'name': f'c-{n}'}]},
       'status': {'containerStatuses': [{'name': f'c-{n}', 'containerID': 'containerd://' + cid}]}}
s['pods'].append(pod)
s['events'].append({'type': 'ADDED', 'object': pod})
json.dump(s, open('state.new', 'w'))
os.rename('state.new', 'state.json')
PY
}
# A busy process in the cgroup of pod N.
run_pod() {
	local group
	group=$base/burstable/pod$(uid_of "$1")/$(id_of "$1")
	mkdir -p "$group"
	background bash -c 'echo 0 >"$1/cgroup.procs"; while :; do for i in {1..1500}; do :; done; sleep 0.2; done' _ "$group"
}
metric() { curl -gsS --max-time 5 "$url/metrics" | sed -n "s/^$1 //p"; }
until_metric() { # name, value: within 30 s
	local _
	for _ in $(seq 300); do
		[ "$(metric "$1")" = "$2" ] && return
		sleep 0.1
	done
	echo "$1 is $(metric "$1"), not $2"
	return 1
}
asked() { grep -c "^$1" requests.log; }

mkdir secrets
echo -n first >good
cp good secrets/token
: >requests.log
background python3 -S "$here/apiserver.py" "$dir" 0 >port 2>/dev/null
for _ in $(seq 100); do
	[ -s port ] && break
	sleep 0.05
done
add_pod 1
run_pod 1
serve log "$hasty" daemon -s store -F 49 --listen 127.0.0.1:0 --anonymous --cpu-max 0 \
	--kubernetes-api "http://127.0.0.1:$(cat port)" --kubernetes-credentials "$dir/secrets" \
	--container-names kubernetes --node n1 --pod-labels app.kubernetes.io/name || finish
daemon=$pid
ok "the list is there" until_metric ascribe_pods 1
ok "by one request, for this node, from the server's memory" \
	grep -qx 'list 0 - - spec.nodeName=n1' requests.log
add_pod 2
run_pod 2
ok "a pod that starts is told by the watch" until_metric ascribe_pods 2
lists=$(asked list)
set_state 'fault="cut"'
sleep 0.3
set_state 'fault=""'
add_pod 3
run_pod 3
ok "a watch that ends is gone on with" until_metric ascribe_pods 3
ok "without another list" test "$(asked list)" = "$lists"
set_state 'fault="gone"'
sleep 0.5
add_pod 4
set_state 'events=[]' 'fault=""'
run_pod 4
ok "410 Gone: another list" until_metric ascribe_pods 4
echo -n second >good
set_state 'fault="cut"'
sleep 0.5
set_state 'fault=""'
add_pod 5
run_pod 5
ok "a token that expired is said" bash -c 'for _ in $(seq 100); do grep -q "answers 401" log && exit; sleep 0.1; done; exit 1'
cp good secrets/token.new
mv secrets/token.new secrets/token
ok "and its successor is taken" until_metric ascribe_pods 5
for fault in $(in_part garbage "down garbage"); do
	set_state "fault=\"$fault\""
	sleep 1
	n=$(metric ascribe_pods)
	ok "$fault: names stay" test "$n" -ge 5
	add_pod $((n + 1))
	run_pod $((n + 1))
	set_state 'fault=""'
	ok "$fault: and go on when it is over" until_metric ascribe_pods $((n + 1))
done
n=$(metric ascribe_pods)
# Windows end at multiples of ten seconds.
sleep 12
by=pod_uid,namespace,pod,container,workload,workload_kind,node,service
curl -gsS --max-time 20 -o names.json "$url/api/v1/table?by=$by&limit=100"
curl -gsS --max-time 20 -o ids.json \
	"$url/api/v1/table?by=pod_uid,container_id,pod_label_app_kubernetes_io_name&limit=100"
cat >named.py <<'PY'
import json, sys
n, wrong, seen = int(sys.argv[1]), [], set()
rows = [r['key'] for f in ('names.json', 'ids.json') for r in json.load(open(f))['rows']]
# Not those of a node that runs beside this test.
rows = [k for k in rows if (k.get('pod_uid') or '').endswith('-1111-2222-3333-444444444444')]
for k in rows:
    i = int(k['pod_uid'][:8], 16)
    if k.get('pod') or k.get('pod_label_app_kubernetes_io_name'):
        seen.add((i, 'pod' in k))
    want = {'namespace': f'space-{i}', 'pod': f'w-{i}-5d8f7b9c66-x{i:04d}', 'container': f'c-{i}',
            'workload': f'w-{i}', 'workload_kind': 'Deployment', 'node': 'n1',
            'service': f'space-{i}/w-{i}', 'pod_label_app_kubernetes_io_name': f'app-{i}',
            'pod_uid': f'{i:08x}-1111-2222-3333-444444444444', 'container_id': f'{1000 + i:064x}'}
    # Those that began while the server failed have ids alone until it is back.
    if not k.get('namespace') and not k.get('pod_label_app_kubernetes_io_name'):
        want['service'] = '0' * 12
    wrong += [(i, x, v) for x, v in k.items() if v is not None and v != want[x]]
print(len(rows), 'rows; wrong:', wrong[:3], '' if len(seen) == 2 * n else f'seen: {sorted(seen)}')
sys.exit(bool(wrong) or len(seen) != 2 * n)
PY
ok "each sample has the names of its own pod" python3 -S named.py "$n"
ok "few requests: $(asked list) lists, $(asked watch) watches" test "$(wc -l <requests.log)" -le 60
# ---- an id of a container that two pods claim: neither sample has the other's name ----
claimed=$((n + 50))
add_pod $claimed
set_state "pods=$(jq --arg other "$(id_of $claimed)" --arg same "$(id_of 1)" \
	'.pods | map(tojson | gsub($other; $same) | fromjson)' state.json)" 'fault="gone"' 'events=[]'
sleep 0.5
set_state 'fault=""'
ok "a pod with the container id of another is listed" until_metric ascribe_pods $((n + 1))
mkdir -p "$base/burstable/pod$(uid_of $claimed)/$(id_of 1)"
background bash -c 'echo 0 >"$1/cgroup.procs"; while :; do for i in {1..9000}; do :; done; sleep 0.1; done' _ \
	"$base/burstable/pod$(uid_of $claimed)/$(id_of 1)"
sleep 12
curl -gsS --max-time 20 -o claim.json \
	"$url/api/v1/table?by=container_id,pod_uid,namespace,container&limit=100"
ok "samples of each have its own names, and no container's that is in doubt" jq -e \
	--arg id "$(id_of 1)" --arg new "$(uid_of $claimed)" --arg space space-$claimed \
	'[.rows[].key | select(.container_id == $id)] | any(.pod_uid == $new) and all(
		if .pod_uid == $new then .namespace == $space and .container == null
		else .namespace == "space-1" and (.container | IN(null, "c-1")) end)' claim.json

# ---- what 500 pods of four containers cost the processes that name them ----
many() { # pods, containers of each: in the state, in the place of all others
	python3 - "$1" "$2" <<'PY'
import json, os, sys
s = json.load(open('state.json'))
pod = s['pods'][0]
pod['metadata'].update(name='many-NUMBER', uid='00000000-0000-0000-0000-NUMBER')
pod['status']['containerStatuses'] = [{'name': f'c-{i}', 'containerID': f'containerd://{i:052x}NUMBER'}
                                      for i in range(int(sys.argv[2]))]
s.update(pods=[pod], times=int(sys.argv[1]), fault='gone')
json.dump(s, open('state.new', 'w'))
os.rename('state.new', 'state.json')
PY
	sleep 0.5
	set_state 'fault=""'
}
# Of the three processes that name pods: pages that are theirs alone, in KiB.
own_pages() {
	local keeper
	keeper=$(pgrep -P "$daemon" -x ascribe-podkeep)
	for p in "$keeper" $(pgrep -P "$keeper"); do
		awk '/^Private_Dirty/ { print $2 }' "/proc/$p/smaps_rollup"
	done | awk '{ n += $1 } END { print n }'
}
known() { # metric, number: that many at least
	[ "$(metric "$1")" -ge "$2" ]
}
many 500 4
ok "500 pods of four containers" within 30 known ascribe_containers 2000
# The table of these takes 0.6 MiB: test_pods_table.
own=$(own_pages)
ok "they take at most 4 MiB with the table: $own KiB" test "$own" -gt 0 -a "$own" -le $((4096 - 614))

# ---- ten thousand pods on a node, more than there is room for ----
many 10000 1
all_known() { # or refused for want of room
	[ $(($(metric ascribe_pods) + $(metric ascribe_pods_refused_total))) -ge 10000 ]
}
ok "ten thousand pods on a node" within 30 all_known
gets 200 '' "$url/readyz"

# ---- a runtime whose socket takes connections and never answers ----
background python3 -S -c 'import socket, time
s = socket.socket(socket.AF_UNIX)
s.bind("hang.sock")
s.listen(5)
time.sleep(600)'
serve hang.log "$hasty" daemon -s hang.store --listen 127.0.0.1:0 --anonymous \
	--container-names cri --container-socket "$dir/hang.sock" || finish
run_pod 700
ok "a socket that hangs is told" until_says 'hang.sock.*see whether its server' hang.log
sleep 12
curl -gsS --max-time 20 -o hang.json "$url/api/v1/table?by=pod_uid,container_id,pod"
ok "samples have ids alone" jq -e --arg uid "$(uid_of 700)" --arg id "$(id_of 700)" \
	'[.rows[].key | select(.pod_uid == $uid)] == [{pod_uid: $uid, container_id: $id, pod: null}]' \
	hang.json
gets 200 '' "$url/readyz"
finish
