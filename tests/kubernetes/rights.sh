#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each right of deploy/kubernetes/base is needed: pods like the DaemonSet's, each without one right,
# on a real node. `ascribe check` names the right and the line that gives it, and a recording lacks
# something that the whole set has. The agent of deploy/kubernetes/without-host-pid names pods.
. "$(dirname "$0")/lib.bash"
start_node
kubectl create namespace ascribe >/dev/null
manifests base >base.yaml
kubectl apply --server-side --force-conflicts -f base.yaml >/dev/null
ok "the agent becomes ready" within 90 agent_ready # it puts the seccomp profile on the node
kubectl -n ascribe get daemonset ascribe -o json >daemonset.json
# From here on the node's CPUs are for the pods below, which this agent must not record.
kubectl -n ascribe delete daemonset ascribe --cascade=foreground >/dev/null

# ---- programs of another user: an open one, one for its owner alone, one that was deleted ----
# Without a request the kernel gives them next to nothing beside other programs.
kubectl apply -f - >/dev/null <<-END
	apiVersion: v1
	kind: Pod
	metadata: {name: wheels}
	spec:
	  terminationGracePeriodSeconds: 0
	  securityContext: {runAsUser: 1000}
	  volumes: [{name: scratch, emptyDir: {}}]
	  containers:
	  - {name: open, image: $workload, resources: &cpu {requests: {cpu: 200m}}}
	  - {name: private, image: $workload, command: [/private], resources: *cpu,
	     volumeMounts: [{name: scratch, mountPath: /scratch}]}
	  - {name: deleted, image: $workload, command: [/deleted], resources: *cpu,
	     volumeMounts: [{name: scratch, mountPath: /scratch}]}
END
ok "programs run" kubectl wait --for=condition=Ready pod/wheels --timeout=60s

# ---- pods: one checks, one records ----
# A pod like the agent's, changed by a jq program of its spec; "each" are its containers.
start_pod() { # name, program
	mkdir -p "$state/ascribe/$1"
	jq --arg name "$1" 'def each(f): .containers |= map(f);
		{apiVersion: "v1", kind: "Pod", metadata: {name: $name, namespace: "ascribe"},
		spec: (.spec.template.spec | .restartPolicy = "Never" | .initContainers = []
			| (.volumes[] | select(.name == "store") | .hostPath.path) += "/" + $name
			| each(del(.ports, .startupProbe, .livenessProbe, .readinessProbe))
			| .containers[0] as $c
			| .containers = [($c | .name = "check" | .args = ["check", "--json"]),
				($c | .name = "record"
				| .args = ["record", "-q", "-d", "6s", "-F", "499", "-o", "/var/lib/ascribe/data"])]
			| '"$2"')}' daemonset.json | kubectl apply -f - >/dev/null
}
ended() {
	kubectl -n ascribe get pod "$1" -o 'jsonpath={.status.phase}' | grep -qE 'Succeeded|Failed'
}
collect() { # name: its answers are in NAME.check and NAME.record
	ok "the pod '$1' ends" within 120 ended "$1"
	kubectl -n ascribe logs "$1" check >"$1.check"
	kubectl -n ascribe logs "$1" record >"$1.record" 2>&1
}
# check names a right, and the line that it prints is one of the manifests'.
names() { # pod, check, line
	ok "without it, check asks for '$3'" jq -e --arg check "$2" --arg line "$3" \
		'[.checks[] | select(.check == $check and .result != "ok" and .yaml == $line
		and (.effect | length > 0))] | length == 1' "$1.check"
}
in_manifests() { # line
	ok "the manifests have '$1'" grep -rqF -- "$1" "$top/deploy/kubernetes/base"
}
# Whether a function of a recording is called so; there must be samples in any case.
functions() { # pod, selector
	"$ascribe" report "$state/ascribe/$1/data" -n 0 --where "$2" --json |
		jq -r 'select(.samples > 10) | "samples", .rows[].function' >functions &&
		grep -qx samples functions
}
has_wheel() { functions "$1" "{comm=\"$2\"}" && grep -qx turn_the_wheel functions; }
lacks_wheel() { functions "$1" "{comm=\"$2\"}" && ! grep -qx turn_the_wheel functions; }
has_kernel() { functions "$1" '' && grep -qx do_syscall_64 functions; }
lacks_kernel() { functions "$1" '' && ! grep -qx do_syscall_64 functions; }
records_nothing() { ! functions "$1" '' && grep -q '^ascribe: record: ' "$1.record"; }

name_of() { echo "without-$(tr A-Z_ a-z- <<<"$1")"; } # right
start_without() { # right
	start_pod "$(name_of "$1")" 'each(.securityContext.capabilities.add -= ["'"$1"'"])'
}

# These record little or nothing: all at once.
jq '(.syscalls[0].names -= ["bpf"])' "$top/deploy/kubernetes/seccomp.json" \
	>"$state/kubelet/seccomp/no-bpf.json"
start_without BPF
start_without PERFMON
start_pod without-seccomp 'each(.securityContext.seccompProfile.localhostProfile = "no-bpf.json")'
start_pod without-mounts 'each(.volumeMounts |= map(select(.name == "config")) | .env = [])
	| .automountServiceAccountToken = false'
start_pod without-role '.serviceAccountName = "default"'
for pod in bpf perfmon seccomp mounts role; do
	collect without-$pod
done
# These have the CPUs for themselves.
start_pod whole .
collect whole
start_pod without-host-pid 'del(.hostPID)'
collect without-host-pid
for right in SYS_PTRACE DAC_READ_SEARCH CHECKPOINT_RESTORE SYSLOG; do
	start_without $right
	collect "$(name_of $right)"
done

ok "the whole set lacks nothing" jq -e '[.checks[] | select(.yaml)] == []' whole.check
for comm in workload private deleted; do
	ok "functions of '$comm' have names" has_wheel whole $comm
done
ok "kernel functions have names" has_kernel whole

# ---- capabilities ----
capability() { # right, what is lost, command...
	names "$(name_of "$1")" "CAP_$1" "securityContext.capabilities.add: [$1]"
	ok "$1 is needed: $2" "${@:3}"
}
capability BPF "nothing is recorded" records_nothing without-bpf
capability PERFMON "nothing is recorded" records_nothing without-perfmon
capability SYS_PTRACE "programs of others have no names" lacks_wheel without-sys-ptrace workload
capability DAC_READ_SEARCH "private programs have no names" \
	lacks_wheel without-dac-read-search private
capability CHECKPOINT_RESTORE "deleted programs have no names" \
	lacks_wheel without-checkpoint-restore deleted
capability SYSLOG "the kernel has no names" lacks_kernel without-syslog
# A right takes no more than its own part.
ok "without SYSLOG programs keep their names" has_wheel without-syslog deleted
ok "without SYS_PTRACE the kernel keeps its names" has_kernel without-sys-ptrace

# ---- the rest ----
names without-host-pid 'PID namespace' 'hostPID: true'
for comm in workload private; do
	ok "without hostPID '$comm' has kernel functions" functions without-host-pid "{comm=\"$comm\"}"
	ok "and no others" lacks_wheel without-host-pid $comm
done
while IFS='|' read -r pod check line; do
	names "$pod" "$check" "$line"
	in_manifests "${line#securityContext.}"
done <<-'END'
	without-seccomp|seccomp|securityContext.seccompProfile: {type: Localhost, localhostProfile: ascribe.json}
	without-mounts|cgroups|- {name: cgroup, mountPath: /sys/fs/cgroup, readOnly: true}
	without-mounts|tracefs|- {name: tracing, mountPath: /sys/kernel/tracing, readOnly: true}
	without-mounts|store|- {name: store, mountPath: /var/lib/ascribe}
	without-mounts|service account|automountServiceAccountToken: true
	without-mounts|NODE_NAME|- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
	without-role|names of pods|- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
END
in_manifests 'hostPID: true'

# ---- the agent without hostPID ----
manifests without-host-pid | kubectl apply --server-side --force-conflicts -f - >/dev/null
ok "an agent without hostPID becomes ready" within 90 agent_ready
names_pods() {
	in_agent ascribe report /var/lib/ascribe --by namespace,pod,container,comm,exe --json \
		>hidden.json &&
		jq -r '.rows[].key | select(.pod == "wheels")
			| [.namespace, .container, .comm, .exe // "no exe"] | join(" ")' hidden.json |
		sort | diff - expected
}
cat >expected <<'END'
default deleted deleted no exe
default open workload no exe
default private private no exe
END
ok "it names pods and their containers, without files" within 60 names_pods
ok "its log says what is lost" agent_says 'outside of this PID namespace'
finish
