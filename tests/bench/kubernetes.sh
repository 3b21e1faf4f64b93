#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The node agent on a real node that is full of pods: how soon pods have names, what it asks of the
# API server, what it uses, and how it does with little memory and CPU. As root, 16 minutes, and 8
# more where tests/kubernetes/binaries builds.
# PODS=110 NEW=20 SECONDS_EACH=330 (a watch is renewed after 300 s)
# PARTS: of shipped, least (memory), slow (CPU).
. "$(dirname "$0")/figure.bash"
. "$(dirname "$0")/../kubernetes/lib.bash"
pods=${PODS:-110} new=${NEW:-20} seconds=${SECONDS_EACH:-330}
start_node
kubectl create namespace ascribe >/dev/null
manifests base >base.yaml

# ---- a node full of pods: each computes for a millisecond a second ----
began=$SECONDS
kubectl apply -f - >/dev/null <<-END
	apiVersion: apps/v1
	kind: Deployment
	metadata: {name: crowd}
	spec:
	  replicas: $pods
	  selector: {matchLabels: {app: crowd}}
	  template:
	    metadata: {labels: {app: crowd}}
	    spec:
	      terminationGracePeriodSeconds: 0
	      automountServiceAccountToken: false
	      containers: [{name: wheel, image: $workload, args: ["1", "999"]}]
END
kubectl wait --for=condition=Available deployment/crowd --timeout=580s >crowd.out 2>&1 || {
	bad "$pods pods run: $(kubectl get pods | awk '{ print $3 }' | sort | uniq -c | paste -sd' ')"
	finish
}
echo "$pods pods run on one node after $((SECONDS - began)) s"

# ---- an agent with a store of its own ----
# start_agent LIMITS ARGUMENT...: sets $process, when it began ($begin) and its $cgroup.
start_agent() {
	local limits=$1
	shift
	kubectl -n ascribe delete daemonset ascribe --ignore-not-found --wait >/dev/null
	within 60 sh -c '! pgrep -f "^/usr/bin/ascribe daemon --config /etc/ascribe" >/dev/null'
	rm -rf "$state/ascribe"/*
	kubectl apply -f base.yaml --dry-run=client -o json |
		jq --argjson limits "$limits" '(.items[] | select(.kind == "DaemonSet")
			| .spec.template.spec.containers[0]) |= (.resources.limits += $limits
			| .resources.requests += $limits
			| .args += $ARGS.positional)' --args -- "$@" |
		kubectl apply --server-side --force-conflicts -f - >/dev/null
	within 120 running || { bad "the agent starts"; finish; }
	cgroup=$(sed -n 's/^0:://p' "/proc/$process/cgroup")
	begin=$(began_at "$process")
}
running() {
	process=$(in_node pgrep -o -f '^/usr/bin/ascribe daemon --config /etc/ascribe')
}
# When a process began, in seconds of the epoch; to 10 ms.
began_at() {
	local ticks
	ticks=$(cut -d')' -f2 "/proc/$1/stat" | awk '{ print $20 }')
	awk -v now="$(date +%s.%N)" -v ticks="$ticks" -v hz="$(getconf CLK_TCK)" \
		'{ printf "%.3f", now - $1 + ticks / hz }' /proc/uptime
}
first_window() { # seconds until samples are in the store
	within 120 sh -c '"$1" stat "$2" --json 2>/dev/null | jq -e ".stored > 0" >/dev/null' sh \
		"$ascribe" "$state/ascribe"
	echo "$(date +%s.%N) $1" | awk '{ printf "%.1f", $1 - $2 }'
}
usage() { sed -n 's/^usage_usec //p' "/sys/fs/cgroup/unified/$cgroup/cpu.stat"; }
memory() { cat "/sys/fs/cgroup/memory/$cgroup/memory.$1"; }
metrics() {
	in_node curl -sS -H 'Host: localhost' \
		-H "Authorization: Bearer $(cat "$state/ascribe/http.token")" \
		"http://$(agent '{.items[0].status.podIP}'):4041/metrics"
}
metric() { awk -v m="$2" '$1 == m { print $2 }' "$1"; } # file, name
show() { printf '%-64s %s\n' "$@"; }
# Of the agent as it is shipped alone.
tell() { [ "$shown" != shipped ] || figure "$1" ascribe "${@:2}"; }

# Of a histogram in two files of metrics: how many came between, and a bound of all of them.
waited() { # before, after, name
	awk -v m="$3" 'FILENAME != last { file++; last = FILENAME }
		$1 == m "_count" { n[file] = $2 }
		index($1, m "_bucket{le=") == 1 {
			split($1, le, "\"")
			at[file, le[2]] = $2
			if (file == 2)
				order[++k] = le[2]
		}
		END {
			for (i = 1; i <= k; i++)
				if (at[2, order[i]] - at[1, order[i]] == n[2] - n[1])
					break
			printf "%d, at most %s", n[2] - n[1], order[i]
		}' "$1" "$2"
}

# Use of CPU and memory over some seconds.
measure() { # seconds
	local from began ran
	metrics >before.metrics
	from=$(usage) began=$EPOCHREALTIME
	sleep "$1"
	metrics >after.metrics
	ran=$(echo "$(metric after.metrics ascribe_bpf_run_seconds_sum)" \
		"$(metric before.metrics ascribe_bpf_run_seconds_sum)" | awk '{ print $1 - $2 }')
	read -r cpu bpf <<<"$(echo "$from $(usage) $began $EPOCHREALTIME $ran" |
		awk '{ s = ($4 - $3) / 100; printf "%.2f %.3f", ($2 - $1) / 1e6 / s, $5 / s }')"
	show "CPU over $1 s, % of one: agent + its BPF programs" "$cpu + $bpf"
	tell kubernetes/cpu "$cpu"
	tell kubernetes/bpf "$bpf"
	tell part/idle-pods \
		"$(metric after.metrics ascribe_memory_used_bytes | awk '{ print $1 / 1048576 }')"
	sed -n 's/^ascribe_memory_bytes{part="\(.*\)"} /\1 /p' after.metrics | sort -k2nr |
		awk '{ printf "%s%s %.1f", (NR > 1 ? ", " : "    "), $1, $2 / 2^20 } END { print "" }'
	read -r now most uncached <<<"$(
		echo "$(memory usage_in_bytes) $(memory max_usage_in_bytes)" \
			"$(memory stat | awk '$1 == "total_cache" { print $2 }')" |
			awk '{ printf "%.1f %.1f %.1f", $1 / 2^20, $2 / 2^20, ($1 - $3) / 2^20 }')"
	show "memory of its cgroup, MiB: now, most" "$now, $most"
	tell part/idle-pods-cgroup "$uncached"
	show "steps of what is given up for memory, for CPU" \
		"$(metric after.metrics ascribe_memory_step), $(metric after.metrics ascribe_cpu_step)"
}

first_figures() {
	tell kubernetes/window "$(first_window "$begin")"
}

# How long after its first process each was known: median, most.
known_after() { # column of new.ids
	awk -v column="$1" 'FNR == NR { at[$2] = $1; next }
		{ print $column in at ? at[$column] - $3 : "never" }' events new.ids | sort -n |
		awk '{ v[NR] = $1 } END { printf "%.2f, %.2f", v[int((NR + 1) / 2)], v[NR] }'
}

# The API server's events, as the agent gets them, against the start of each container's first
# process: the earliest time at which it can be sampled.
new_pods() {
	: >watch
	in_node curl -skN -H "Authorization: Bearer $(cat "$state/pki/token")" \
		'https://10.96.0.1/api/v1/pods?watch=1' >>watch 2>/dev/null &
	started+=($!)
	background sh -c 'tail -n +1 -f watch | python3 -S "$1/events.py" >events' sh "$here"
	for i in $(seq "$new"); do
		workload_pod "new-$i"
		kubectl wait --for=condition=Ready "pod/new-$i" --timeout=60s >/dev/null
		kubectl get pod "new-$i" -o json | jq -r '"\(.metadata.uid) \(
			.status.containerStatuses[0].containerID | ltrimstr("containerd://"))"' >ids
		read -r uid id <ids
		first=$(find /sys/fs/cgroup -path "*/pod$uid/$id/cgroup.procs" \
			-exec head -n 1 {} + -quit)
		echo "$uid $id $(began_at "$first")" >>new.ids
		sleep 3
		kubectl delete pod "new-$i" --wait=false >/dev/null
	done
	sleep 12 # their window
	show "new pods known after their first process: median, most, s" "$(known_after 1)"
	IFS=', ' read -r middle last <<<"$(known_after 2)"
	tell kubernetes/container "$middle"
	tell kubernetes/container-most "$last"
	in_agent ascribe report /var/lib/ascribe -n 0 --json \
		--by pod_uid,pod,container_id,container |
		jq --rawfile ids new.ids '($ids | [splits("[ \n]+")]) as $ids | [.rows[] |
			select(.key.container_id as $c | $c != "" and ($ids | index($c)))]' >new.json
	show "of them with samples; samples; without pod, without container" "$(jq -r '
		def of(f): map(select(f).samples) | add // 0;
		[(map(.key.pod_uid) | unique | length), of(true), of(.key.pod | not),
			of(.key.container | not)] | join(", ")' new.json)"
}

shipped() {
	echo "-- as it is shipped"
	start_agent '{}'
	first_figures
	sleep 20
	metrics >first.metrics
	show "pods with names, of $((pods + 1))" "$(metric first.metrics ascribe_pods)"
	echo >none
	show "pods at the start: named after their first sample, s" \
		"$(waited none first.metrics ascribe_pod_wait_seconds)"
	show "containers at the start likewise, s" \
		"$(waited none first.metrics ascribe_container_wait_seconds)"
	new_pods
	measure "$seconds"
	python3 "$here/asked.py" "$state/log/audit" "$begin"
}

least() {
	echo "-- with little memory: memory-max 88 MiB, a limit of 96 MiB"
	start_agent '{"memory": "96Mi"}' --memory-max 88MiB
	first_figures
	sleep 30
	measure 120
}

slow() {
	echo "-- with 1% of a CPU, the least that a kubelet gives"
	start_agent '{"memory": "96Mi", "cpu": "10m"}' --memory-max 88MiB
	first_figures
	sleep 30
	measure 120
	show "restarts" "$(agent '{.items[0].status.containerStatuses[0].restartCount}')"
}

for part in ${PARTS:-shipped least slow}; do
	shown=$part
	$part
done
good "the figures are above"
finish
