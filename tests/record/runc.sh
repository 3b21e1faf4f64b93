#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A container by runc, as container runtimes make them. Seen from the host, its program has its
# path, labels, functions and the container's id. A recorder inside names its own processes alone,
# and says so.
. "$(dirname "$0")/lib.bash"
command -v runc >/dev/null || skip "no runc here: apt-get install runc"
id=$(printf '%064x' $$)
bundle=$dir/bundle
mkdir -p "$bundle/rootfs/app" "$bundle/rootfs/proc" "$bundle/rootfs/dev" "$bundle/rootfs/sys"
at_end=end_container
end_container() { runc --root "$dir/runc" delete --force "$id" >/dev/null 2>&1; }

add() { # program, its name inside: with its libraries
	local lib
	cp "$1" "$bundle/rootfs/app/$2"
	for lib in $(ldd "$1" | grep -o '/[^ ]*'); do
		mkdir -p "$bundle/rootfs${lib%/*}" && cp -L "$lib" "$bundle/rootfs$lib"
	done
}
add "$loads/labelled" inside
add "$ascribe" ascribe
(cd "$bundle" && runc spec) || skip "runc makes no configuration"

configure() { # arguments of its program, as JSON
	jq --argjson args "$1" '.process.args = $args | .process.terminal = false | .root.readonly = false
		| .process.capabilities |= map_values(. + ["CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_BPF"])' \
		"$bundle/config.json" >config.json && mv config.json "$bundle/config.json"
}
run() { timeout 60 runc --root "$dir/runc" run --bundle "$bundle" "$id"; }
configure '["/app/inside", "share", "0.05"]'
run >probe.out 2>&1 || skip "runc starts no container here: $(tail -1 probe.out)"

# ---- seen from the host ----
configure '["/app/inside", "share", "3"]'
background "$ascribe" record -a -F 499 -o st 2>st.err
recorder=$pid
recording st.err
run >truth.json 2>run.err
ok "the container's program ends well" test $? = 0
kill -INT $recorder
wait $recorder
inside='{exe="/app/inside"}'
report st --by comm,container_id --where "$inside" >who.json
report st --by tenant --where '{exe="/app/inside",tenant!=""}' >tenant.json
report st --where "$inside" -n 0 >names.json
"$ascribe" stat st --json >stat.json
check "it has its path, its name and its container" r=who.json -- \
	"(lambda s: s.get(('inside', '$id'), 0) > 0.9 * sum(s.values()) > 50)(samples(r))" 'samples(r)'
check "its labels, for as long as it says itself" t=truth.json r=tenant.json -- \
	'set(samples(r)) == {"a", "b"} and all(0.7 * t[k] < x["seconds"] < 1.1 * t[k] + 0.05 for k, x in rows(r).items())' \
	'{k: x["seconds"] for k, x in rows(r).items()}, t'
check "its functions" r=names.json -- 'samples(r).get("burn", 0) > 0.8 * r["samples"]' \
	'list(samples(r).items())[:5]'
check "every sample is accounted for" s=stat.json -- 'exact(s)'

# ---- a recorder inside ----
configure '["/app/ascribe", "record", "-a", "-d", "100ms", "-o", "/app/st"]'
run >inside.out 2>&1
ok "a recorder inside records" test $? = 0
cat inside.out
ok "and says what is lost" grep -q 'outside of this PID namespace' inside.out
report "$bundle/rootfs/app/st" --by exe >inside.json
check "it names its own processes alone" r=inside.json -- 'set(rows(r)) <= {None, "/app/ascribe"}' \
	'samples(r)'
finish
