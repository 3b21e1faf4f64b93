#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Captures: the daemon records at a high rate for whoever has the token, one at a time, and goes on
# with its own samples as if nothing were. By HTTP, by go tool pprof, by record --host. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
make_tokens read capture
reader=(-u ":$(cat read.token)") capturer=(-u ":$(cat capture.token)")
background "$build/tests/record/tenants" 500
load=$pid
serve log "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 -l "unix:$dir/sock" -F 49 \
	--label-drop trace_id --token-file read.token --capture-token-file capture.token || finish
daemon=$pid
profile=$url/debug/pprof/profile

# ---- who may, and what ----
refused 401 'a token is needed' "$profile?seconds=1&hz=99"
refused 403 'needs a token with the scope capture' "${reader[@]}" "$profile?seconds=1&hz=99"
refused 401 'a token is needed' --unix-socket sock 'http://x/debug/pprof/profile?seconds=1&hz=99'
refused 400 'seconds: 1 to 60' "${capturer[@]}" "$profile?seconds=61&hz=99"
refused 400 'hz: 1 to 999' "${capturer[@]}" "$profile?seconds=1&hz=1000"
refused 400 'hz: 1 to 999' "${capturer[@]}" "$profile?seconds=1&hz=0"
refused 400 'hz: 1 to 999' "${capturer[@]}" "$profile?seconds=1&hz="
refused 400 'selector' "${capturer[@]}" "$profile?seconds=1&hz=99&where=%7Ba="
refused 400 "no parameter 'rate'" "${capturer[@]}" "$profile?seconds=1&hz=99&rate=1"
gets 200 stored "${capturer[@]}" "$url/api/v1/stat" # it may read, too
cp read.token same.token
"$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --token-file read.token \
	--capture-token-file same.token --check-config 2>err
ok "the tokens differ" grep -q 'capture-token-file: .*capture-token has the token of token' err

# ---- a capture: samples of the load alone, at its rate; the daemon's own go on ----
value() { curl -gsS "${reader[@]}" "$url/metrics" | awk -v m="$1" '$1 == m { print $2 }'; }
used() { awk '{ print ($14 + $15) / 100 }' "/proc/$load/stat"; }
recorded() { [ "$(value ascribe_windows_total)" -ge 1 ]; }
within 30 recorded
memory=$(value ascribe_memory_used_bytes) cpu=$(used)
(sleep 5 && value ascribe_memory_used_bytes >during && kept "$daemon" -f -- --capture= >process
	curl -gsS -o busy -D busy.head -w '%{http_code}' "${capturer[@]}" \
		"$profile?seconds=1&hz=99" >busy.status) &
gets 200 '' "${capturer[@]}" "$profile?seconds=8&hz=999&where=%7Btenant=%22t0%22%7D"
cp body t0.pb.gz
cpu=$(python3 -c "print($(used) - $cpu)")
wait $!
ok "another one meanwhile is told to come later" test "$(cat busy.status)" = 429
ok "and when" grep -qi '^Retry-After: 10' busy.head
ok "the process was there, and is gone" sh -c "[ -s process ] && ! [ -e /proc/\$(cat process) ]"
ok "its store is gone" test ! -e store/capture
ok "the daemon's memory stays: $memory, $(cat during)" \
	test "$(cat during)" -lt $((memory + (40 << 20)))
gets 200 'ascribe_cpu_step 0' "${reader[@]}" "$url/metrics"
ok "nothing was given up" grep -q '^ascribe_sample_weight 1$' body
"$ascribe" import pprof t0.pb.gz -o t0 >/dev/null 2>&1
cat >judge.py <<'PY'
import json, subprocess, sys
ascribe, cpu = sys.argv[1], float(sys.argv[2])
def run(*a): return json.loads(subprocess.run([ascribe, *a, '--json'], capture_output=True, check=True).stdout)
r = run('report', 't0', '--by', 'tenant,comm', '-n', '0')
assert [x['key'] for x in r['rows']] == [{'tenant': 't0', 'comm': 'tenants'}], r['rows']
period = r['seconds'] / r['samples']
assert abs(period - 1 / 999) < 1e-5, period
# Of the load's CPU time by the kernel's clock t0 has 20 parts of 48, in 8 s of somewhat more.
# A load that hardly ran tells nothing: others may have had the CPUs.
assert r['seconds'] < 1.2 * cpu * 20 / 48 + .1 and (cpu < 1.5 or r['seconds'] > .25 * cpu * 20 / 48), (r['seconds'], cpu)
assert not any(k['key'] == 'trace_id' for k in run('labels', 't0')['keys'])  # the daemon's rule holds
print(r['samples'], 'samples,', round(r['seconds'], 2), 's of', round(cpu * 20 / 48, 2))
PY
ok "what was captured" python3 judge.py "$ascribe" "$cpu"
if command -v go >/dev/null; then
	address="http://:$(cat capture.token)@${profile#http://}?seconds=2&hz=499"
	ok "go tool pprof captures" grep -q 'flat%' <(go tool pprof -top "$address" 2>&1)
fi

# ---- record --host ----
exits() { # status, text, command...
	local want=$1 text=$2 got
	shift 2
	"$@" >out 2>err
	got=$?
	if [ $got = "$want" ] && grep -qF -- "$text" err; then
		good "$*"
	else
		bad "exit $got, want $want and '$text': $(cat err)"
	fi
}
exits 1 'needs a token' "$ascribe" record --host "$url" --token-file read.token -F 499 -d 1s \
	-o none
exits 2 'hz: 1 to 999' "$ascribe" record --host "$url" --token-file capture.token -F 5000 -d 1s \
	-o none
exits 2 'goes with' "$ascribe" record --host "$url" -e cycles -o none
exits 2 'go with --host' "$ascribe" record --where '{a="b"}' -o none
exits 2 'must begin with' "$ascribe" record --host ftp://x -o none
exits 2 'use --token-file' "$ascribe" record --host http://u:p@x -o none
exits 1 'no sample was taken' "$ascribe" record --host "$url" --token-file capture.token -F 99 \
	-d 1s --where '{tenant="none"}' -o none
ok "nothing was written" test ! -e none
exits 0 'stacks and label sets' "$ascribe" record --host "$url" --token-file capture.token -F 997 \
	-d 3s --where '{tenant=~"t[01]"}' -o far
exits 0 'is now far.old' "$ascribe" record --host "unix:$dir/sock" --token-file capture.token -F 499 \
	-d 2s --where '{tenant="t1"}' -o far
tenants() { "$ascribe" report "$1" --by tenant --json 2>/dev/null | jq -c '[.rows[].key.tenant] | sort'; }
ok "the first had both tenants: $(tenants far.old)" test "$(tenants far.old)" = '["t0","t1"]'
ok "the second one" test "$(tenants far)" = '["t1"]'

"$ascribe" record --host "$url" --token-file capture.token -F 99 -d 1s -o - >printed.pb.gz 2>err
ok "printed, and nothing else" "$ascribe" import pprof printed.pb.gz -o printed
ok "no store was made" test ! -e ./-

# ---- --pod: a stand-in for kubectl runs here what would run in the agent ----
mkdir bin
cat >bin/kubectl <<END
#!/bin/bash
case "\$*" in
*"get pod -n"*) printf node1 ;;
*"get pods"*) printf agent1 ;;
*) while [ "\$1" != -- ]; do shift; done
	shift 2
	exec "$ascribe" "\${@//http:\/\/127.0.0.1:4041/$url}" ;;
esac
END
chmod +x bin/kubectl
pod() { PATH=$dir/bin:$PATH "$ascribe" --pod shop/web-1 record -F 199 -d 1s "$@" >pod.out; }
exits 1 'no sample was taken of {namespace="shop",pod="web-1",}' pod --token-file capture.token
exits 1 'needs a token with the scope capture' pod --token-file read.token
exits 1 "cannot open the token's file nothing" pod --token-file nothing

# ---- the daemon ends, is killed, reloads meanwhile ----
curl -gsS -o ended -w '%{http_code}' "${capturer[@]}" "$profile?seconds=30&hz=99" >ended.status &
asked=$!
within 60 kept "$daemon" -f -- --capture= >/dev/null
kill -HUP "$daemon"
wait $asked
ok "a reload ends it" test "$(cat ended.status)" = 503
ok "with a reason" grep -q 'ended with the server' ended
within 60 none_kept "$daemon" -f -- --capture= >/dev/null
curl -gsS -o /dev/null "${capturer[@]}" "$profile?seconds=30&hz=99" 2>/dev/null &
within 60 kept "$daemon" -f -- --capture= >process
kill -KILL "$daemon"
within 20 sh -c "! [ -e /proc/$(cat process) ]"
ok "it dies with the daemon" test ! -e "/proc/$(cat process)"
serve log2 "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --anonymous || finish
refused 403 'capture-token-file' "$url/debug/pprof/profile?seconds=1&hz=99"
kill "$pid"
wait "$pid"
ok "the store is whole" "$ascribe" store verify store

# ---- its budget: what memory-max leaves, and an hour's part of cpu-max ----
serve log4 "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --token-file read.token \
	--capture-token-file capture.token --cpu-max 0.005% || finish
daemon=$pid profile=$url/debug/pprof/profile
within 30 recorded
(within 20 kept "$daemon" -f -- --capture= >process &&
	tr '\0' '\n' <"/proc/$(cat process)/cmdline" >args
	sleep 8 && value ascribe_memory_reserved_bytes >kept) &
gets 200 '' "${capturer[@]}" "$profile?seconds=12&hz=99"
wait $!
given=$(sed -n 's/^--memory-max=//p' args)
ok "of 256 MiB it may take $((given >> 20))" \
	test "$given" -gt $((64 << 20)) -a "$given" -lt $((160 << 20))
ok "the daemon keeps that: $(cat kept)" awk -v g="$given" '{ exit !($1 >= g) }' kept
for _ in 1 2; do
	refused 429 'may use 0.4 s an hour by cpu-max: the next one may begin in' \
		"${capturer[@]}" "$profile?seconds=1&hz=99"
done
kill "$pid"
wait "$pid"
serve log5 "$ascribe" daemon -s "$dir/store" -l 127.0.0.1:0 --token-file read.token \
	--capture-token-file capture.token --memory-max 134MiB || finish
daemon=$pid profile=$url/debug/pprof/profile
within 30 recorded
refused 429 'MiB of memory-max, and a capture needs' "${capturer[@]}" "$profile?seconds=1&hz=99"
kill "$pid"
wait "$pid"
serve log3 "$ascribe" serve store -l 127.0.0.1:0 --anonymous || finish
refused 501 'no daemon' "$url/debug/pprof/profile?seconds=1&hz=99"
finish
