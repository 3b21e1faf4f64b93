#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What fails around the agent of deploy/kubernetes on a real node, one after the other: the API
# server is away, the token is revoked, its time is over, the kubelet starts again, the agent is
# killed, the node is drained, memory is short. Each time pods that start afterwards get their
# names, and the log says what was the matter. In the end the store is whole.
. "$(dirname "$0")/lib.bash"
start_node
kubectl create namespace ascribe >/dev/null
manifests base >base.yaml
kubectl apply --server-side --force-conflicts -f base.yaml >/dev/null

# All that the API server says of pods, for judge.py; a watch ends with the server.
watch_pods() {
	local n=0
	while n=$((n + 1)); do
		kubectl get pods -A -w --output-watch-events -o json >"watch.$n.json" 2>/dev/null
		sleep 0.3
	done
}
background watch_pods

# ---- a token that ends with a Secret: in a directory of the store's volume ----
credentials=$state/ascribe/credentials store=$state/ascribe/store
mkdir "$credentials"
kubectl -n ascribe get serviceaccount ascribe -o json |
	jq -r '.secrets[0].name' >secret
kubectl -n ascribe get secret "$(cat secret)" -o 'jsonpath={.data.ca\.crt}' | base64 -d \
	>"$credentials/ca.crt"
give_token() { # the Secret's name
	kubectl -n ascribe create secret generic "$1" >/dev/null
	kubectl -n ascribe create token ascribe --bound-object-kind Secret \
		--bound-object-name "$1" >"$credentials/token.new"
	mv "$credentials/token.new" "$credentials/token"
}
give_token first
mv "$credentials/ca.crt" "$credentials/right"
cp "$state/pki/api.crt" "$credentials/ca.crt" # of somebody else
# start_agent LIMITS ARGUMENT...
start_agent() {
	local limits=$1
	shift
	kubectl -n ascribe get daemonset ascribe -o json |
		jq --argjson limits "$limits" '.spec.template.spec.containers[0] |=
			(.resources.limits += $limits | .resources.requests += $limits
			| .args = ["daemon", "--config", "/etc/ascribe/ascribe.yaml"] + $ARGS.positional)' \
			--args -- --store /var/lib/ascribe/store \
			--kubernetes-credentials /var/lib/ascribe/credentials "$@" |
		kubectl apply -f - >/dev/null 2>&1
	ok "the agent is rolled out" \
		kubectl -n ascribe rollout status daemonset/ascribe --timeout=120s
	process=$(agent_process)
}
start_agent '{}'
ok "it records" within 30 agent_says ': recording '
ok "a wrong CA is said" within 30 agent_says 'certificate.*; give the file of its CA'
mv "$credentials/right" "$credentials/ca.crt"
ok "with the right one it names pods" within 60 \
	agent_says 'names of pods and containers: pods of node1'

# By the samples of its uid.
named() { # pod
	local uid
	uid=$(kubectl get pod "$1" -o 'jsonpath={.metadata.uid}')
	"$ascribe" report "$store" --by pod,namespace,container --from -60s --json \
		--where "{comm=\"workload\",pod_uid=\"$uid\"}" |
		jq -e --arg pod "$1" '.rows[] | select(.key ==
			{pod: $pod, namespace: "default", container: "wheel"}) | .samples > 0' >/dev/null
} 2>/dev/null
new_pod() { # name
	workload_pod "$1"
	ok "the pod '$1' runs" within 60 running "$1"
	ok "and has its names" within 45 named "$1"
}
# Of its last life, read without the API server.
log() {
	# shellcheck disable=SC2012 # names of numbers
	cat "$(ls -t "$state"/log/pods/ascribe_ascribe-*/ascribe/*.log | head -n 1)"
}
count() { log | grep -cE -- "$1"; }
more_than() { [ "$(count "$2")" -gt "$1" ]; } # number, text
names_again='names of pods and containers: pods of node1'
lists() { grep -c '"verb":"list"' "$state/log/audit"; }
api() { in_node kubectl get --raw /readyz >/dev/null 2>&1; }
same_agent() { [ "$(agent_process)" = "$process" ]; }
new_pod calm

# ---- the API server is away, and knows the agent's version no more: 410 ----
good=$(count "$names_again") listed=$(lists)
"$node" stop "$state" apiserver
ok "it says that there is no API server" within 60 more_than 0 'have ids alone until then'
sleep 22 # a whole window at least
"$ascribe" report "$store" --from -20s --by pod --where '{comm="workload"}' --json >away.json
ok "a pod that was there keeps its name" jq -e '[.rows[] | select(.key.pod == "calm")] == .rows
	and .samples > 0' away.json
"$node" start "$state" apiserver
ok "the API server is there again" within 60 api
ok "the agent says so" within 60 more_than "$good" "$names_again"
ok "after another list: $((listed / 2)) before" [ "$(lists)" -gt "$listed" ]
new_pod after-api-server

# ---- a token that is good no more; its successor comes as a file is replaced ----
kubectl -n ascribe delete secret first >/dev/null
"$node" stop "$state" apiserver # a watch is asked for its token when it begins
"$node" start "$state" apiserver
ok "the API server is there again" within 60 api
ok "it says that the token is refused" within 90 more_than 0 'answers 401'
good=$(count "$names_again")
give_token second
ok "the next token is taken" within 60 more_than "$good" "$names_again"
new_pod after-token

# ---- a token that ends by its time ----
# The server gives none of less than ten minutes: this is one of its own, signed anew. It takes a
# token for a minute longer than that says.
base64url() { base64 -w 0 | tr '+/' '-_' | tr -d =; }
from_base64url() { tr '_-' '/+' | sed 's/$/==/' | base64 -d 2>/dev/null; }
short_token() { # seconds from now
	kubectl -n ascribe create token ascribe >token.long
	{
		cut -d. -f1 <token.long | tr -d '\n'
		printf .
		cut -d. -f2 <token.long | from_base64url | jq -jc ".exp = (now | floor) + $1" |
			base64url
	} >token.unsigned
	printf '%s.%s' "$(cat token.unsigned)" "$(openssl dgst -sha256 -sign "$state/pki/sa.key" \
		token.unsigned | base64url)"
}
answer_to() { # token, status
	[ "$(in_node curl -sk -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $(cat "$1")" \
		https://10.96.0.1/api/v1/pods)" = "$2" ]
}
short_token -35 >token.short
ok "a token is good for some seconds more" answer_to token.short 200
refused=$(count 'answers 401') good=$(count "$names_again")
cp token.short "$credentials/token.new" && mv "$credentials/token.new" "$credentials/token"
ok "until its time is over" within 60 answer_to token.short 401
"$node" stop "$state" apiserver
"$node" start "$state" apiserver
ok "the API server is there again" within 60 api
ok "it says that the token is refused" within 90 more_than "$refused" 'answers 401'
give_token third
ok "the next token is taken" within 60 more_than "$good" "$names_again"
new_pod after-expiry

# ---- the kubelet ----
"$node" stop "$state" kubelet
sleep 2
"$node" start "$state" kubelet
new_pod after-kubelet
ok "it is the same agent" same_agent

# ---- the node is drained ----
ok "the node is drained" kubectl drain node1 --ignore-daemonsets --force --delete-emptydir-data \
	--timeout=60s
ok "the agent stays" same_agent
kubectl uncordon node1 >/dev/null
new_pod after-drain

# ---- killed: the kubelet starts it again ----
another() { [ "$(agent_process)" != "$process" ] && more_than 0 ': recording '; }
kill -9 "$process"
at=$EPOCHREALTIME
ok "it records again" within 60 another
took=$(echo "$EPOCHREALTIME $at" | awk '{ printf "%.1f", $1 - $2 }')
ok "after $took s, most of it the kubelet's" jq -n -e "$took < 10"
process=$(agent_process)
new_pod after-kill

# ---- little memory: it gives things up, and is not killed ----
start_agent '{"memory": "128Mi"}' -F 997 --wall --waker --cpu-max 0 --memory-max 104MiB
ok "it records with 128 MiB" within 30 agent_says ': recording '
"$build/tests/record/crowd" 60 >truth.json
ok "it says what it gives up" agent_says 'close to memory-max'
ok "it is the same agent: nobody killed it" same_agent
limit=/sys/fs/cgroup/memory$(sed -n 's/^0:://p' "/proc/$process/cgroup")
most=$(($(cat "$limit/memory.max_usage_in_bytes") >> 20))
ok "nothing was killed for want of memory: $most MiB at most" \
	grep -qx 'oom_kill 0' "$limit/memory.oom_control"
new_pod after-flood

# ---- the whole ----
kubectl -n ascribe delete daemonset ascribe --wait >/dev/null
ok "the store is whole" "$ascribe" store verify "$store"
"$ascribe" report "$store" -n 0 --json \
	--by comm,container_id,pod_uid,namespace,pod,container,workload,workload_kind >names.json
# Few have none: of pods that began while the API server did not answer, or refused the token.
ok "no sample has the name of another pod" python3 -S "$here/judge.py" names 0.3 0.02
ok "every sample is accounted for" jq -e '.fired == .stored + ([.lost[]] | add)' names.json
finish
