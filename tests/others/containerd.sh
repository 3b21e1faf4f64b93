#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian's containerd, asked by gRPC on its socket as the watcher of pods asks. It has a pod with
# one container that is never started, listed by each version of CRI that it has. By hand, as root.
messages=$(realpath "$(dirname "$0")")/cri.py
. "$(dirname "$0")/../record/lib.bash"
for p in containerd ctr runc python3 "$build/tests/webask"; do
	command -v "$p" >/dev/null || skip "$p is missing: install containerd, make test-others"
done
[ "$(id -u)" = 0 ] || skip "containerd needs root"
cat >config.toml <<END
version = 2
root = "$dir/root"
state = "$dir/state"
[grpc]
  address = "$dir/sock"
[ttrpc]
  address = "$dir/ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "local/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "$dir/cni"
END
containerd --config config.toml >containerd.log 2>&1 &
containerd=$!
at_end=end_containerd
sandbox=
end_containerd() {
	[ -z "$sandbox" ] || call runtime.v1 StopPodSandbox sandbox "$sandbox"
	[ -z "$sandbox" ] || call runtime.v1 RemovePodSandbox sandbox "$sandbox"
	kill "$containerd" && wait "$containerd"
}
for _ in $(seq 100); do
	ctr -a sock version >/dev/null 2>&1 && break
	sleep 0.2
done
printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' >pause.c
cc -static -o pause pause.c
cri() { python3 -I -S "$messages" "$@"; }
ok "an image is made" cri pause pause.tar pause
ok "and imported" ctr -a sock -n k8s.io images import pause.tar

# version, method, request...: the answer in `answer`, its fields in `fields`.
call() {
	local path=/$1.RuntimeService/$2
	shift 2
	: >request
	[ $# = 0 ] || cri "$@" >request
	"$build/tests/webask" "$dir/sock" "$path" <request >answer 2>status &&
		[ "$(cat status)" = 200 ] && cri show <answer >fields && return
	cat status answer >&2
	return 1
}
call runtime.v1 RunPodSandbox sandbox || bad "no sandbox: $(tail -1 containerd.log)"
sandbox=$(awk '$1 == "1" { print $2 }' fields)
ok "a container" call runtime.v1 CreateContainer container "$sandbox"
container=$(awk '$1 == "1" { print $2 }' fields)
for v in runtime.v1 runtime.v1alpha2; do
	ok "$v: Version" call $v Version
	echo "      $(tr '\n' ' ' <fields)"
	ok "the name of the runtime" grep -qx '2 containerd' fields
	ok "the version of CRI" grep -qx "4 ${v#runtime.}" fields
	ok "$v: ListPodSandbox" call $v ListPodSandbox
	ok "the pod's id" grep -qx "1.1 $sandbox" fields
	ok "its name" grep -qx '1.2.1 web-0' fields
	ok "its uid" grep -qx '1.2.2 6a7b' fields
	ok "its namespace" grep -qx '1.2.3 shop' fields
	ok "$v: ListContainers" call $v ListContainers
	ok "the container's id" grep -qx "1.1 $container" fields
	ok "its pod" grep -qx "1.2 $sandbox" fields
	ok "its name" grep -qx '1.3.1 nginx' fields
done
"$build/tests/webask" "$dir/sock" /runtime.v9.RuntimeService/Version <request >answer 2>status
ok "a version that is not there: 512" grep -qx 512 status
ok "and its text" grep -q 'unknown service runtime.v9' answer
finish
