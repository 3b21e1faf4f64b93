#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The DaemonSet of deploy/kubernetes/base on a real node, with the rights that it ships with. It
# becomes ready, misses nothing, and samples of other pods carry their container and pod. Its
# manifests are what the API server takes. An upgrade leaves next to no gap.
. "$(dirname "$0")/lib.bash"
start_node

# ---- no other node beside it ----
ok "another node waits for its end" sh -c '! NODE_WAIT=1 "$1" up "$2" 2>other.err &&
	grep -q "another node runs here.* $3$" other.err' sh "$node" "$dir/other" "$state"
ok "and its end is not ours" sh -c '"$1" down "$2" && ! [ -e "$2" ] &&
	"$1" in "$3" kubectl get --raw /readyz' sh "$node" "$dir/other" "$state"

# ---- the API server takes the manifests ----
kubectl create namespace ascribe >/dev/null
head -c 20 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >capture.token
manifests base | sed -e 's|^\( *\)plain-http: true|&\n\1capture-token-file: /etc/ascribe/capture.token|' \
	-e 's|memory-max: 96MiB|memory-max: 256MiB|; s|memory: 128Mi|memory: 384Mi|' \
	-e "s|^  ascribe.yaml: .*|  capture.token: $(cat capture.token)\n&|" >base.yaml
ok "captures are allowed" grep -q capture-token-file base.yaml
ok "the server takes the manifests" kubectl apply --server-side --dry-run=server -f base.yaml

# ---- other pods: one that runs before the agent starts ----
workload_pod before
ok "a pod runs" within 60 running before

# ---- the agent ----
kubectl apply --server-side --force-conflicts -f base.yaml >/dev/null
ok "the agent becomes ready" within 90 agent_ready || {
	kubectl -n ascribe describe pods | tail -n 20
	kubectl -n ascribe logs daemonset/ascribe
}
workload_pod after
ok "another pod runs" within 60 running after
process=$(in_node pgrep -o -f '^/usr/bin/ascribe daemon --config /etc/ascribe')
rights() { awk '/^Cap(Eff|Prm)/ { print $2 }' "/proc/$1/status" | sort -u; }
keeper=$(in_node pgrep -P "$process" -x ascribe-keeper)
ok "the recorder has no capability: $(rights "$process")" \
	test "$(rights "$process")" = 0000000000000000
ok "its keeper has six and no others: $(rights "$keeper")" \
	test "$(rights "$keeper")" = 000001c400080004
ok "a seccomp filter" grep -q '^Seccomp:.2' "/proc/$process/status"
ok "and gains no privileges" grep -q '^NoNewPrivs:.1' "/proc/$process/status"
in_agent ascribe check --json >check.json
# Not judged: hardware counters, and process 1, which a sandbox may hide from root, too.
ok "check finds no right missing" jq -e '.ok and ([.checks[] | select(.result != "ok" and
	(.check | startswith("CAP_") or IN("BTF", "BPF", "BPF for --wall", "tracefs", "kernel symbols",
		"PID namespace")))] == [])' check.json

# ---- what it recorded ----
sleep 22
in_agent ascribe report /var/lib/ascribe --by container_id,pod_uid --where '{comm="workload"}' \
	--json >pods.json
for pod in before after; do
	uid=$(kubectl get pod $pod -o 'jsonpath={.metadata.uid}')
	id=$(kubectl get pod $pod -o 'jsonpath={.status.containerStatuses[0].containerID}')
	ok "samples of '$pod' have its container and pod" jq -e --arg pod "$uid" --arg id "${id##*/}" \
		'[.rows[] | select(.key.container_id == $id and .key.pod_uid == $pod)] | length == 1' \
		pods.json
done
in_agent ascribe report /var/lib/ascribe --by namespace,pod,container,node \
	--where '{comm="workload"}' --json >called.json
for pod in before after; do
	ok "samples of '$pod' are called by its names" jq -e --arg pod $pod \
		'[.rows[] | select(.key == {namespace: "default", pod: $pod, container: "wheel",
			node: "node1"})] | length == 1' called.json
done
in_agent ascribe report /var/lib/ascribe --where '{comm="workload"}' --json >names.json
ok "functions of a program in another pod's image have names" grep -q turn_the_wheel names.json
in_agent ascribe report /var/lib/ascribe -n 0 --json >all.json
ok "kernel functions have names" grep -q '"[a-z_0-9]*\(do_syscall_64\|sys_\)' all.json

# ---- the plug-in of kubectl; curl is the browser ----
plugin=$top/deploy/kubernetes:$build
printf '#!/bin/sh\nexec curl -sS -o opened "$1"\n' >xdg-open
chmod 755 xdg-open
asks() { in_node env PATH="$dir:$plugin:$PATH" kubectl ascribe "$@"; }
background asks default/before --open >address 2>address.err
ok "the plug-in prints an address" within 20 grep -q '^http' address || cat address.err
address=$(cat address)
page=${address%%/\?*}
ok "that selects the pod" \
	grep -qF '/?where=%7Bnamespace%3D%22default%22%2Cpod%3D%22before%22%7D#' address
ok "the forwarded agent answers" [ "$(in_node curl -sS "$page/healthz")" = ok ]
ok "it opens the page" within 10 grep -q '<html' opened
metrics() { # argument of curl...
	in_node curl -sS -o /dev/null -w '%{http_code}' "$@" "$page/metrics"
}
ok "its token is the agent's" \
	[ "$(metrics) $(metrics -H "Authorization: Bearer ${address##*#token=}")" = "401 200" ]
ok "other commands are ascribe's" sh -c 'jq -e "[.rows[].key.comm] == [\"workload\"]"' <<<"$(
	asks default/before report --by comm --json)"
asks default/nobody >nobody 2>&1
ok "it knows no pod of another name" grep -q 'name its node: --node' nobody
asks default >usage 2>&1
ok "it explains itself" grep -q '^Usage: kubectl ascribe NAMESPACE/POD' usage

# ---- a capture through the API server, which takes Authorization for itself ----
background in_node kubectl proxy --port=0 >proxy
ok "kubectl proxy begins" within 20 grep -q '^Starting to serve' proxy
through=http://$(grep -o '127.0.0.1:[0-9]*' proxy)/api/v1/namespaces/ascribe/pods/$(
	agent '{.items[0].metadata.name}'):4041/proxy
ok "the agent answers there" [ "$(in_node curl -sS "$through/healthz")" = ok ]
ok "it asks for a token" [ "$(page=$through metrics)" = 401 ]
ok "which another header brings" \
	[ "$(page=$through metrics -H "X-Ascribe-Token: ${address##*#token=}")" = 200 ]
ok "the page is there, too" sh -c 'grep -q "<html"' <<<"$(in_node curl -sS "$through/")"
ok "a capture" in_node "$ascribe" record --host "$through" --token-file "$dir/capture.token" \
	-F 499 -d 3s --where '{comm="workload",pod="before"}' -o "$dir/captured"
"$ascribe" report captured --by pod --json >captured.json
ok "it has the samples of the pod: $(jq -c '[.rows[] | .samples]' captured.json)" jq -e \
	'[.rows[].key.pod] == ["before"] and .rows[0].samples > 20' captured.json

# ---- a read-only root, and no more calls than the profile has ----
ok "its root is read-only" sh -c '! touch "/proc/$1/root/etc/x"' sh "$process"
agent_log >agent.log
ok "its log has no errors" sh -c 'test -s agent.log && ! grep -i error agent.log'

# ---- an upgrade: the new agent stands by until the old one has ended ----
# This API server knows no maxSurge: a DaemonSet beside the first does what it does.
ok "the surge overlay is what it should be" sh -c 'kubectl kustomize "$1" | grep -q "maxSurge: 1"' \
	sh "$dir/kubernetes/surge"
next() { kubectl -n ascribe logs daemonset/next | grep -q "$1"; }
kubectl -n ascribe get daemonset ascribe -o json | jq '.metadata = {name: "next", namespace: "ascribe"}
	| .spec.selector.matchLabels = {next: "yes"} | .spec.template.metadata.labels = {next: "yes"}' |
	kubectl apply -f - >/dev/null
ok "the new one stands by" within 60 next 'standing by'
ok "and is ready" kubectl -n ascribe rollout status daemonset/next --timeout=60s
kubectl -n ascribe delete daemonset ascribe --wait=false >/dev/null
ok "the old one ends" within 30 sh -c '! kill -0 "$1" 2>/dev/null' sh "$process"
ok "the new one records" within 30 next ': recording '
process=$(in_node pgrep -n -f '^/usr/bin/ascribe daemon --config /etc/ascribe')
sleep 12
"$ascribe" stat "$state/ascribe" --json >upgraded.json
# Every CPU fires 19 times a second: what is missing of the whole time is the gap.
gap=$(jq --argjson cpus "$(nproc)" \
	'(.to - .from - .fired / 19 / $cpus) * 100 | round / 100' upgraded.json)
ok "nobody recorded for $gap s of $(jq '.to - .from | round' upgraded.json) s" \
	jq -n -e "$gap > -0.5 and $gap < 1"

# ---- its end ----
kubectl -n ascribe delete daemonset next --wait=false >/dev/null
ok "it ends" within 30 sh -c '! kill -0 "$1" 2>/dev/null' sh "$process"
ok "its store is good" "$ascribe" store verify "$state/ascribe"
finish
