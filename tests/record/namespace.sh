#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A recorder in a PID namespace of its own. Processes there, and below, have all their names, with
# the ids of that namespace. Processes outside have their comm, cgroup, the host's tgid and kernel
# frames, and are counted. Equal numbers are never confused. Without its own /proc it refuses.
. "$(dirname "$0")/lib.bash"
unshare --pid --fork --mount-proc true 2>/dev/null || skip "no PID namespaces here"
cp "$loads/busy" inside && cp "$loads/busy" outside && cp "$loads/busy" below
cp "$(command -v sleep)" insleep && cp insleep outsleep

# In a new PID namespace: a script, which may use what lib.bash defines.
in_namespace() {
	unshare --pid --fork --kill-child --mount-proc bash -c "
		dir=$dir ascribe=$ascribe; recording() { for _ in \$(seq 400); do
			grep -q '^ascribe: recording' \"\$1\" && return; sleep 0.05; done; return 1; }
		$1"
}

# ---- beside processes of the host ----
in_namespace '"$ascribe" record -a -F 499 -d 6 -o all 2>all.err & recorder=$!
	recording all.err
	./inside spin 3 >inside.json & echo $! >inside.tgid
	unshare --pid --fork ./below spin 3 >below.json & echo $! >below.parent
	touch inside.started
	wait $recorder' &
recorder=$!
within 20 test -e inside.started
./outside spin 3 >outside.json &
outside=$!
wait $outside $recorder
ok "it says what is lost" grep -q 'outside of this PID namespace' all.err
report all --by comm,tgid,exe --where '{comm=~"inside|outside|below"}' >who.json
for name in inside outside below; do
	report all --where "{comm=\"$name\"}" -n 0 >$name.names.json
done
report all --by comm,exe >all.json
"$ascribe" stat all --json >stat.json
check "a process there has its id and path" r=who.json -- \
	"('inside', '$(<inside.tgid)', '$dir/inside') in rows(r)" 'list(rows(r))'
check "one of a namespace below has its path" r=who.json -- \
	"[k for k in rows(r) if k[0] == 'below' and k[2] == '$dir/below' and 0 < int(k[1]) - $(<below.parent) < 9]" \
	'list(rows(r))'
check "one of the host has the host's id and no path" r=who.json -- \
	"[k for k in rows(r) if k[0] == 'outside'] == [('outside', '$outside', None)]" 'list(rows(r))'
for name in inside outside below; do
	check "the samples of '$name' are its CPU time" t=$name.json r=who.json -- \
		"abs(sum(x['seconds'] for k, x in rows(r).items() if k[0] == '$name') - t['seconds'])
			< 0.05 * t['seconds'] + 4 * (t['seconds'] / 499) ** 0.5" \
		"sum(x['seconds'] for k, x in rows(r).items() if k[0] == '$name'), t"
done
for name in inside below; do
	check "functions of '$name' have names" r=$name.names.json -- \
		'samples(r).get("spin_here", 0) > 0.8 * r["samples"]' 'list(samples(r).items())[:5]'
done
check "no frame of a hidden process is a user's" r=outside.names.json -- \
	'all(x["module"] == "[kernel]" for x in r["rows"])' '[x for x in r["rows"]][:3]'
check "no path is that of an equal number" r=all.json -- \
	'all(k[0] in k[1] or k[0].startswith("ascribe") or k[0] in ("unshare", "touch", "bash", "sleep", "grep", "seq")
		for k in rows(r) if k[1])' '[k for k in rows(r) if k[1]]'
check "hidden samples are counted" s=stat.json r=who.json -- \
	"s['flagged']['hidden_process'] >= sum(x['samples'] for k, x in rows(r).items() if k[0] == 'outside') > 10" \
	"s['flagged']['hidden_process']"
check "every sample is accounted for" s=stat.json -- 'exact(s)'

# ---- a command, its children, and a later process with the id of one of them ----
in_namespace '"$ascribe" record -F 499 -o command -- sh -c "
		./inside spin 1 & echo \$! >child; wait; touch ended; sleep 2" >/dev/null 2>command.err &
	for _ in $(seq 400); do test -e ended && break; sleep 0.05; done
	sleep 0.1
	echo $(($(<child) - 1)) >/proc/sys/kernel/ns_last_pid
	./outside spin 1 >/dev/null & echo $! >again
	wait'
report command --by comm,tgid >command.json
ok "a later process has the child's id" cmp child again
check "of a command, it and its children are recorded" r=command.json -- \
	"('inside', '$(<child)') in rows(r) and {k[0] for k in rows(r)} <= {'inside', 'sh', 'sleep', 'touch', 'ascribe'}" \
	'list(rows(r))'

# ---- a process by its id ----
in_namespace './inside spin 3 >/dev/null & "$ascribe" record -F 499 -d 1 -p $! -o one --quiet 2>/dev/null'
report one --by comm,exe >one.json
check "a process by its id" r=one.json -- \
	"list(rows(r)) == [('inside', '$dir/inside')] and r['samples'] > 50" 'samples(r)'

# ---- waits ----
in_namespace '"$ascribe" record -a -F 99 --wall --waker -d 4 -o waits 2>waits.err & recorder=$!
	recording waits.err
	./insleep 2 & touch sleeping
	wait $recorder' &
recorder=$!
within 20 test -e sleeping
./outsleep 2
wait $recorder
report waits --metric off --idle --by comm --where '{comm=~"insleep|outsleep"}' >waits.json
"$ascribe" stat waits --json >stat.json
check "waits there are measured, and no others" r=waits.json -- \
	"list(rows(r)) == ['insleep'] and 1.9 < rows(r)['insleep']['seconds'] < 2.2" \
	"{k: x['seconds'] for k, x in rows(r).items()}"
check "no wait of a hidden process counts as untracked" s=stat.json -- \
	"s['lost'].get('wait_untracked', 0) == 0 and exact(s)" "s['lost']"

# ---- what check says; another namespace's /proc ----
exits 0 '^note +PID namespace +processes outside' unshare --pid --fork --mount-proc sh -c \
	'"$0" check >&2' "$ascribe"
exits 0 '^ok +PID namespace' sh -c '"$0" check >&2' "$ascribe"
remedy='mount one in this namespace.*hostPID: true.*--pid=host'
exits 1 "$remedy" unshare --pid --fork "$ascribe" record -o refused -- true
exits 1 "$remedy" unshare --pid --fork "$ascribe" top --once
exits 1 "$remedy" unshare --pid --fork "$ascribe" daemon -s refused-daemon
exits 1 "$remedy" unshare --pid --fork sh -c '"$0" check >&2' "$ascribe"
ok "no store is left by it" test ! -e refused
finish
