#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/helm/ascribe, by Helm: it renders to the objects of deploy/kubernetes, a real API server
# takes both and makes the same of them, and what Helm installs on a real node records. With the
# PodMonitor's settings the agent answers as Prometheus asks.
. "$(dirname "$0")/lib.bash"
helm=$(BUILD=$build "$here/helm" 2>helm.err) || skip "no Helm: $(tail -n 1 helm.err)"
chart=$top/deploy/helm/ascribe
export HELM_CACHE_HOME=$dir/helm/cache HELM_CONFIG_HOME=$dir/helm/config \
	HELM_DATA_HOME=$dir/helm/data

# ---- the same objects ----
# Sorted, each key in its place, without comments. Helm makes no namespaces; the hashes in the names
# of the configuration are two tools'.
normal() { # file, directory
	mkdir -p "$2"
	cp "$1" "$2/all.yaml"
	cat >"$2/kustomization.yaml" <<-'END'
		resources: [all.yaml]
		sortOptions: {order: legacy}
	END
	/usr/bin/env kubectl kustomize "$2" | sed -E 's/ascribe-[0-9a-z]{10}$/ascribe-HASH/' |
		awk 'BEGIN { RS = "---\n"; ORS = RS } !/\nkind: Namespace\n/'
}
render() { "$helm" template ascribe "$chart" --namespace ascribe "${@:2}" >"$1"; }
same() { # directory of deploy/kubernetes, arguments of helm...
	local of=$1
	shift
	/usr/bin/env kubectl kustomize "$top/deploy/kubernetes/$of" >"$of.kustomize" &&
		render "$of.helm" "$@" &&
		normal "$of.kustomize" "normal/$of-kustomize" >"$of.one" &&
		normal "$of.helm" "normal/$of-helm" >"$of.other" &&
		[ "$(grep -c '^kind: ' "$of.one")" -ge 6 ] && diff "$of.one" "$of.other"
}
ok "helm lint finds nothing" "$helm" lint --strict "$chart"
ok "by default the objects are those of the base" same base
ok "with surge those of surge" same surge --set surge=true
ok "with podMonitor.enabled those of podmonitor" same podmonitor --set podMonitor.enabled=true
ok "with hostPID: false those of without-host-pid" same without-host-pid --set hostPID=false
render other.yaml --set networkPolicy.enabled=false --set image.repository=r.example/a \
	--set image.tag=7 --set priorityClassName=system-node-critical --set 'tolerations=null' \
	--set resources.limits.memory=1Gi --set-string config='frequency: 7'
ok "networkPolicy.enabled: false leaves it out" sh -c '! grep -q NetworkPolicy other.yaml'
ok "the image, in both containers" [ "$(grep -c 'image: r.example/a:7$' other.yaml)" = 2 ]
for text in 'priorityClassName: system-node-critical' 'memory: 1Gi' 'frequency: 7'; do
	ok "a value is taken: $text" grep -qF "$text" other.yaml
done

# ---- a real API server ----
start_node
kubectl create namespace ascribe >/dev/null
on_server() { # file: what the server makes of it, without what it numbers
	kubectl apply --server-side --dry-run=server -o json -f "$1" |
		jq -S '.items | sort_by(.kind)[] | del(.metadata.uid, .metadata.creationTimestamp,
			.metadata.managedFields, .metadata.resourceVersion, .metadata.selfLink)' |
		sed -E 's/"ascribe-[0-9a-z]{10}"/"ascribe-HASH"/'
}
awk 'BEGIN { RS = "---\n"; ORS = RS } !/(^|\n)kind: Namespace\n/' base.kustomize >base.without
on_server base.without >base.server
on_server base.helm >chart.server
ok "the server takes the base" [ "$(grep -c '^  "kind"' base.server)" = 6 ]
ok "and makes the same of the chart" diff base.server chart.server

# The operator's CRD, as far as we need it.
kubectl apply -f "$here/podmonitor.yaml" >/dev/null
ok "there are PodMonitors" kubectl wait --for=condition=Established --timeout=30s \
	crd/podmonitors.monitoring.coreos.com
awk 'BEGIN { RS = "---\n"; ORS = RS } !/(^|\n)kind: Namespace\n/' podmonitor.kustomize >monitor.without
monitored() { # file
	kubectl apply --server-side --dry-run=server -f "$1" |
		grep -q '^podmonitor.monitoring.coreos.com/ascribe serverside-applied'
}
ok "the server takes the PodMonitor of kustomize" within 20 monitored monitor.without
ok "and that of the chart" monitored podmonitor.helm
sed 's/sourceLabels:/sourceLabel:/' podmonitor.helm >podmonitor.wrong
refused() { ! monitored podmonitor.wrong && grep -q 'sourceLabel' ok.err; }
ok "it takes no field that there is not" refused

# ---- Helm installs it ----
in_node "$helm" install ascribe "$chart" --namespace ascribe \
	--set image.repository="${image%:*}" --set image.tag="${image#*:}" >install.out 2>&1
ok "Helm installs it: $(tail -n 1 install.out)" grep -q '^STATUS: deployed' install.out
ok "the agent becomes ready" within 120 agent_ready
ok "and records" within 60 sh -c '"$1" stat "$2" --json >stat.json && jq -e ".stored > 0" stat.json >/dev/null' sh \
	"$ascribe" "$state/ascribe"

# ---- as Prometheus asks: by the pod's address, with the token of the Secret ----
token=$(openssl rand -hex 32)
kubectl -n ascribe create secret generic ascribe-token --from-literal=token="$token" >/dev/null
"$helm" template ascribe "$chart" --namespace ascribe --set podMonitor.enabled=true \
	--set image.repository="${image%:*}" --set image.tag="${image#*:}" \
	-s templates/daemonset.yaml | kubectl apply -f - >/dev/null 2>&1
ok "the agent with the token becomes ready" kubectl -n ascribe rollout status daemonset/ascribe \
	--timeout=120s
address=$(agent '{.items[0].status.podIP}')
answers() { # token, status
	[ "$(in_node curl -sS --noproxy '*' -o metrics -w '%{http_code}' \
		-H "Authorization: Bearer $1" "http://$address:4041/metrics")" = "$2" ]
}
ok "it has the metrics for the token" within 20 answers "$token" 200
ok "and they are metrics" grep -q '^ascribe_samples' metrics
ok "none for another" answers x 401
finish
