#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A container as runtimes make one: PID and mount namespaces, a root and a cgroup of its own. Seen
# from the host, its program has its names, labels and container; only the container has the
# program's file at that path. What a recorder inside says is in bad.sh.
. "$(dirname "$0")/lib.bash"
unshare --pid --fork --mount true 2>/dev/null || skip "no namespaces here"
root=$dir/root
id=$(printf '%064x' $$)
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$cgroups/ascribe-test-$$/$id
[ -n "$cgroups" ] && mkdir -p "$group" || skip "no cgroup v2 here"
at_end=end_group
end_group() {
	local _
	for _ in $(seq 100); do
		rmdir "$group" 2>/dev/null && break
		sleep 0.05
	done
	rmdir "${group%/*}"
}

mkdir -p "$root/app" "$root/proc"
cp "$loads/labelled" "$root/app/inside"
for lib in $(ldd "$loads/labelled" | grep -o '/[^ ]*'); do
	mkdir -p "$root${lib%/*}" && cp -L "$lib" "$root$lib"
done
cat >container.sh <<'SH'
echo 0 >"$1/cgroup.procs"
mount --bind "$2" "$2" && cd "$2" && mount -t proc proc proc && exec chroot . /app/inside share 3
SH
record -F 499 -o st -- unshare --pid --fork --mount --kill-child sh container.sh "$group" "$root"
cp record.out truth.json
inside='{exe="/app/inside"}'
report st --by exe,comm,container_id --where "$inside" >who.json
report st --by tenant --where '{exe="/app/inside",tenant!=""}' >tenant.json
report st --where "$inside" -n 0 >names.json
"$ascribe" stat st --json >stat.json
check "it has its path, its name and its container" r=who.json -- \
	"(lambda s: s.get(('/app/inside', 'inside', '$id'), 0) > 0.9 * sum(s.values()) > 50)(samples(r))" 'samples(r)'
# Labels come some time after the program began.
check "its labels, for as long as it says itself" t=truth.json r=tenant.json -- \
	'set(samples(r)) == {"a", "b"} and all(0.7 * t[k] < x["seconds"] < 1.1 * t[k] + 0.05 for k, x in rows(r).items())' \
	'{k: x["seconds"] for k, x in rows(r).items()}, t'
check "its functions" r=names.json -- 'samples(r).get("burn", 0) > 0.8 * r["samples"]' \
	'list(samples(r).items())[:5]'
check "every sample is accounted for" s=stat.json -- 'exact(s)'
finish
