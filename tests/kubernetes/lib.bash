# SPDX-License-Identifier: Apache-2.0
# What the tests on a real node share; sourced. Needs root and the packages of `tools/deps
# kubernetes`. The node is ./node's; it ends with the test, however that ends. $image: the image of
# the built program; $workload: one whose program uses a CPU.
home=$HOME # of the cache; tests have one of their own
. "$(dirname "${BASH_SOURCE[0]}")/../lib.bash"
top=$(realpath "$here/../..")
node=$here/node state=$dir/node
image=localhost/ascribe:test workload=localhost/workload:test
export no_proxy='*'

[ "$(id -u)" = 0 ] || skip "a node needs root"
for command in etcd containerd runc kubectl ctr openssl ip nsenter; do
	command -v "$command" >/dev/null ||
		skip "no $command here: tools/deps kubernetes installs it"
done

export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$home/.cache}
"$here/binaries" >binaries.out 2>&1 || skip "no node: $(tail -n 1 binaries.out)"

in_node() { "$node" in "$state" "$@"; }
kubectl() { in_node kubectl "$@"; }

at_end=end_node
end_node() { "$node" down "$state"; }

# /workload, and /private and /deleted, of other kinds.
make_workload() {
	local kind files=()
	cc -O1 -g -static -o workload "$here/workload.c" || return
	for kind in private deleted; do
		cc -O1 -g -static -DKIND="\"$kind\"" -o $kind "$here/workload.c" || return
		files+=("$kind=/$kind")
	done
	"$here/image" $workload workload.tar /workload workload=/workload "${files[@]}"
}

start_node() {
	"$node" up "$state" >node.out 2>&1 || {
		cat node.out
		bad "the node starts: $(tail -n 1 node.out)"
		finish
	}
	BUILD=$build "$top/tools/image-root" "$dir/root" >image.out 2>&1 &&
		"$top/tools/oci-archive" $image "$dir/root" ascribe.tar \
			--entrypoint /usr/bin/ascribe >>image.out 2>&1 &&
		make_workload &&
		in_node ctr images import ascribe.tar >>image.out &&
		in_node ctr images import workload.tar >>image.out || {
		bad "images of what was built: $(tail -n 1 image.out)"
		finish
	}
}

# The manifests of deploy/kubernetes/$1 with the image of what was built.
manifests() {
	rm -rf "$dir/kubernetes"
	cp -r "$top/deploy/kubernetes" "$dir/kubernetes"
	mkdir "$dir/kubernetes/test"
	cat >"$dir/kubernetes/test/kustomization.yaml" <<-END
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [../$1]
		images:
		- {name: ascribe, newName: ${image%:*}, newTag: ${image#*:}}
	END
	kubectl kustomize "$dir/kubernetes/test"
}

agent() { kubectl -n ascribe get pods -l app.kubernetes.io/name=ascribe -o "jsonpath=$1"; }
# In the agent's container.
in_agent() { kubectl -n ascribe exec daemonset/ascribe -c ascribe -- "$@"; }
agent_ready() {
	[ "$(agent '{.items[*].status.containerStatuses[0].ready}')" = true ]
}

# A pod that computes for a fifth of the time.
workload_pod() { # name
	kubectl apply -f - >/dev/null <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $1}
		spec:
		  terminationGracePeriodSeconds: 0
		  containers: [{name: wheel, image: $workload, resources: {limits: {memory: 32Mi}}}]
	END
}
running() { [ "$(kubectl get pod "$1" -o 'jsonpath={.status.phase}')" = Running ]; }

agent_log() { kubectl -n ascribe logs daemonset/ascribe -c ascribe; }
agent_says() { agent_log | grep -qE -- "$1"; }
# Its children have the same command line.
agent_process() { in_node pgrep -o -f '^/usr/bin/ascribe daemon --config /etc/ascribe'; }
