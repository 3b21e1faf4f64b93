#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pods of all kinds with known loads on a real node, beside the agent of deploy/kubernetes: bursts,
# restarts, a crash loop, Jobs of a second, init containers, sidecars, the host's network,
# containers of one name. The CPU time of each pod, workload and container agrees with the kernel's
# own account of their cgroups, and no sample has a name of another.
. "$(dirname "$0")/lib.bash"
start_node
kubectl create namespace ascribe >/dev/null
kubectl create namespace other >/dev/null
manifests base | kubectl apply --server-side --force-conflicts -f - >/dev/null
ok "the agent becomes ready" within 90 agent_ready
ok "it records" within 30 agent_says ": recording "
background kubectl get pods -A -w --output-watch-events -o json >watch.json 2>/dev/null
background python3 -S "$here/usage.py" usage.json
usage=$pid
sleep 2

# ---- loads ----
# A container: name, workload, arguments of the program in quotes.
container() {
	echo "{name: $1, image: $workload, args: [$3], env: [{name: COMM, value: l-$2}]}"
}
# What a pod is: workload, its kind, further lines of its spec.
pod() {
	cat <<-END
		metadata: {labels: {load: $1, kind: "$2"}}
		spec:
		  terminationGracePeriodSeconds: 0
		  automountServiceAccountToken: false
	END
	printf '  %s\n' "${@:3}"
}
object() { # version, kind, namespace, name, lines of its spec; standard input: the pod
	printf '%s\n' --- "apiVersion: $1" "kind: $2" \
		"metadata: {name: $4, namespace: $3}" 'spec:'
	printf '  %s\n' "${@:5}"
	sed 's/^/    /'
}
selecting() { echo "selector: {matchLabels: {load: $1}}"; }
bare() { # namespace, name: a pod that nobody owns; its workload is itself
	printf '%s\n' --- 'apiVersion: v1' 'kind: Pod'
	sed "s/^metadata: {/&name: $2, namespace: $1, /"
}
{
	pod burst Deployment "containers: [$(container wheel burst '"3000", "9000"')]" |
		object apps/v1 Deployment default burst 'replicas: 2' "$(selecting burst)" \
			'template:'
	pod pair Deployment "containers: [$(container main pair '"20", "80"'), \
		$(container sidecar pair '"10", "90"')]" |
		object apps/v1 Deployment default pair 'replicas: 1' "$(selecting pair)" 'template:'
	pod twin StatefulSet "containers: [$(container same twin '"15", "85"')]" |
		object apps/v1 StatefulSet default twin 'replicas: 2' 'serviceName: twin' \
			'podManagementPolicy: Parallel' "$(selecting twin)" 'template:'
	pod twin StatefulSet "containers: [$(container same twin '"30", "70"')]" |
		object apps/v1 StatefulSet other twin 'replicas: 1' 'serviceName: twin' \
			"$(selecting twin)" 'template:'
	pod hosted DaemonSet 'hostNetwork: true' \
		"containers: [$(container wheel hosted '"10", "90"')]" |
		object apps/v1 DaemonSet default hosted "$(selecting hosted)" 'template:'
	pod crash Deployment "containers: [$(container wheel crash '"700", "1", "0.7", "1"')]" |
		object apps/v1 Deployment default crash 'replicas: 1' "$(selecting crash)" \
			'template:'
	pod brief Job 'restartPolicy: Never' \
		"containers: [$(container wheel brief '"1000", "1", "1"')]" |
		object batch/v1 Job default brief 'completions: 6' 'parallelism: 2' 'template:'
	pod again '' 'restartPolicy: Always' \
		"containers: [$(container wheel again '"1000", "1", "2"')]" | bare default again
	pod prepared '' \
		"initContainers: [$(container first prepared '"500", "500", "2"'), \
		$(container second prepared '"300", "1", "1"')]" \
		"containers: [$(container wheel prepared '"10", "90"')]" | bare other prepared
} >loads.yaml
ok "the server takes the loads" kubectl apply -f loads.yaml
ok "the Job ends" kubectl wait --for=condition=Complete job/brief --timeout=120s
restarts() {
	[ "$(kubectl get pods -l load=crash -o json |
		jq '.items[0].status.containerStatuses[0].restartCount')" -ge 2 ]
}
ok "a crash loop" within 120 restarts
sleep 30
kubectl delete -f loads.yaml --wait=true >/dev/null
sleep 14 # the window, and cgroups that go
kill "$usage" && wait "$usage"

# ---- what was recorded ----
answer() { # file, keys
	in_agent ascribe report /var/lib/ascribe --by "$2" -n 0 --json >"$1.json"
}
answer names comm,container_id,pod_uid,namespace,pod,container,workload,workload_kind
answer pods namespace,pod
answer workloads namespace,workload_kind,workload
answer containers pod,container
for question in names by_pod by_workload by_container; do
	ok "$question" python3 -S "$here/judge.py" $question
done
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' names.json
finish
