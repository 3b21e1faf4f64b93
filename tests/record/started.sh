#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who started it: the labels parent, service and cmdline, of a job, of a storm of short processes,
# of a hostile command line.
. "$(dirname "$0")/lib.bash"

# ---- a job that starts one busy process after another, each too short for a look into /proc later
# ----
cat >burst.py <<'PY'
import time
e = time.process_time() + .05
while time.process_time() < e: pass
PY
cat >nightly.sh <<'SH'
#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	python3 burst.py
	n=0
	while [ $n -lt 20000 ]; do n=$((n + 1)); done # so that it has samples of its own
done
SH
printf '#!/bin/sh\n./nightly.sh\nexit 0\n' >crond
chmod +x nightly.sh crond
record -F 499 -o job -- ./crond
report job --by parent --where '{comm="python3"}' >parent.json
report job --by parent --where '{comm="nightly.sh"}' >job.json
report job --by service --where '{comm="python3"}' >service.json
check "a burst has the name of the job that started it" r=parent.json -- \
	'samples(r).get("nightly.sh", 0) > 0.9 * r["samples"] > 100' 'samples(r)'
check "the job that of who started it" r=job.json \
	-- 'set(samples(r)) <= {"crond", "nightly.sh"} and r["samples"] > 20' 'samples(r)'
check "its service is the process where there is no unit" r=service.json -- 'len(samples(r)) == 1' 'samples(r)'
"$ascribe" stat job --json >stat.json
check "every sample is accounted for" s=stat.json -- 'exact(s)'

# ---- command lines: printable, of 120 bytes, dropped or redacted by a rule ----
long=$(printf 'y%.0s' {1..300})
evil=$(printf 'a\033[31mb\tc\nd\342\200\256e\377f')
cat >evil.sh <<SH
(exec -a "\$1" $loads/busy spin 1 >/dev/null) &
(exec -a "\$2" $loads/busy spin 1 >/dev/null) &
wait
SH
record -F 499 -o lines -- bash evil.sh "$evil" "$long"
report lines --by cmdline >lines.json
check "no control character, no character that turns the text" r=lines.json -- \
	'any(k and k.startswith("a?[31mb?c?d?e?f") for k in samples(r)) and not any(c < " " for k in samples(r) if k for c in k)' 'samples(r)'
check "at most 120 bytes" r=lines.json -- 'max(len(k.encode()) for k in samples(r) if k) <= 120' \
	'[len(k) for k in samples(r) if k]'
check "most samples have one" r=lines.json -- 'samples(r).get(None, 0) < 0.2 * r["samples"]' \
	'samples(r).get(None, 0), r["samples"]'
record --label-drop cmdline -d 1s -o dropped
exits 2 'unknown label key|no sample' sh -c "$ascribe report dropped --where '{cmdline=\"x\"}'"
ok "and none when a rule drops it" sh -c "! '$ascribe' labels dropped 2>/dev/null | grep -q cmdline"
record --label-redact cmdline -F 499 -o redacted -- "$loads/busy" spin 3
report redacted --by cmdline >redacted.json
check "redacted" r=redacted.json -- \
	'any((k or "").startswith("redacted:") for k in samples(r)) and not any("spin" in (k or "") for k in samples(r))' 'samples(r)'

# ---- a storm: one process after another, each with a command line of its own ----
cat >storm.sh <<'SH'
i=0
end=$(($(date +%s) + 4))
while [ $(date +%s) -lt $end ]; do
	for _ in 1 2 3 4 5 6 7 8; do
		i=$((i + 1))
		/bin/true "argument $i" &
	done
	wait
done
SH
record --wall -F 499 -o storm -- sh storm.sh
"$ascribe" stat storm --json >storm.json
report storm --by service >services.json
check "a storm: every sample is accounted for, few are lost" s=storm.json -- \
	'exact(s) and s["lost"]["rows_full"] + s["lost"]["user_memory"] == 0' \
		's["fired"], {k: n for k, n in s["lost"].items() if n}'
report storm --event cpu-clock --by cmdline --where '{comm="true"}' -n 0 >arguments.json
check "and most of those that ran have their command line, although they have ended" r=arguments.json -- \
	'samples(r).get(None, 0) < 0.3 * r["samples"] and len(samples(r)) > 20 and
	all(k is None or k.startswith("/bin/true argument ") or k.startswith("sh ") for k in samples(r))' \
	'samples(r).get(None, 0), r["samples"], len(samples(r))'
check "and few services are in it" r=services.json -- 'len(samples(r)) < 12' 'samples(r)'

# ---- the daemon keeps no command line unless it is told to ----
background "$ascribe" daemon -s daemon.store -l none -F 99
daemon=$pid
"$loads/busy" spin 3 >/dev/null
sleep 1
kill -TERM "$daemon"
wait "$daemon"
ok "the daemon has a parent and a service" sh -c "'$ascribe' labels daemon.store 2>/dev/null >keys; grep -q ' parent' keys && grep -q ' service' keys"
ok "and no command line" sh -c "! grep -q ' cmdline' keys"
finish
