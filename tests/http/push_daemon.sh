#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `push:` of the daemon: windows go out while it records, each once, whatever is killed; receivers
# that fail are in the log once, and in the metrics. Its processes have no privileges. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
hasty=$build/tests/hasty/ascribe # looks each second; 3 s of failures are long
export PUSHED=$dir ASCRIBE=$ascribe
receive() { # DIR: a receiver, sets $to
	mkdir -p "$1"
	background python3 "$here/receiver.py" "$1" 2>"$1.log"
	receiver=$pid
	within 20 test -e "$1/port" || bad "no receiver"
	to=http://127.0.0.1:$(cat "$1/port")
}
receive otlp
first=$receiver
otlp=$to
receive pyroscope
pyroscope=$to

# ---- the configuration ----
config() { # lines of push:
	{ echo push:; cat; } >c.yaml
	chmod 600 c.yaml
}
config <<<'  - {url: "http://a:4040", tokn-file: x}'
checks 2 'c.yaml:1: push: receiver 1: tokn-file: no such key; did you mean token-file?'
config <<<'  - {url: "http://u:secret@a:4040"}'
checks 2 'user or password'
ok "no secret" sh -c '! grep -q secret err'
config <<<'  - {format: parca}'
checks 2 'receiver 1: url: it must begin with http'
config <<<'  - {url: [[1]]}'
checks 2 'c.yaml:2: push: a value or a list of values'
config <<<'  - {url: {a: b}}'
checks 2 'a value or a list of values'
config <<<'  - {}'
checks 2 'nothing stands in it'
config <<<'  - {url: "http://a", keys: [query_id], format: pyroscope}'
checks 2 'query_id would make a series'
config <<<'  - {url: "http://a", follow: true}'
checks 2 'follow: no such key'
config <<<"$(printf '  - http://a%d\n' 1 2 3 4 5 6 7 8 9)"
checks 2 'more than 8 receivers'
config <<<'  {url: "http://a"}'
checks 2 'a value or a list of values'
printf 'select: [{a: b}]\n' >c.yaml
checks 2 'a list of plain values'
echo secret >token
chmod 600 token
config <<END
  - url: $otlp
    label: [cluster=prod]
    header: ["X-One: 1", "X-Two: 2"]
    token-file: $dir/token
  - url: $pyroscope
    format: pyroscope
    tenant: acme
  - url: http://127.0.0.1:1
    format: parca
END
checks 0 'the configuration is good'

# ---- while it records ----
start() {
	serve "$1" "$hasty" daemon -c "$dir/c.yaml" -s "$dir/store" -l 127.0.0.1:0 --anonymous \
		--cpu-max 0
	daemon=$pid
}
pushers() { pgrep -P "$(kept "$daemon" -d, -x ascribe-pushkee)" -x ascribe-push; }
metric() { # text of the line
	curl -gsS "$url/metrics" >metrics && grep -F -- "$1" metrics
}
start log
ok "windows go out" within 40 sh -c '[ $(cat otlp/taken 2>/dev/null | wc -l) -ge 2 ]'
ok "three processes" test "$(pushers | wc -l)" = 3
for p in $(pushers); do
	ok "without capabilities, with seccomp" test "$(grep -cE \
		'^(CapEff:.0000000000000000|NoNewPrivs:.1|Seccomp:.2)' "/proc/$p/status")" = 3
	kb=$(awk '/^RssAnon/ { print $2 }' "/proc/$p/status")
	ok "memory: $kb KiB" test "$kb" -lt 16384
done
target="target=\"otlp to ${otlp#http://}\""
ok "metrics: sent" metric "ascribe_push_windows_total{$target,result=\"sent\"} "
ok "metrics: no lag" metric "ascribe_push_lag_seconds{$target} 0"
ok "metrics: failing" metric 'ascribe_push_failing{target="parca to 127.0.0.1:1"} 1'
ok "the log says so" within 10 grep -q 'push: failing for .*parca to 127.0.0.1:1.*Connection refused' log
# the pusher dies, the receiver is away for a while, the daemon is killed
before=$(pushers)
for p in $before; do kill -9 "$p"; done
started_again() { [ "$(pushers | wc -l)" = 3 ] && [ "$(pushers)" != "$before" ]; }
ok "they are started again" within 20 started_again
echo 'def rule(headers, body, n): return "status 503 1"' >otlp/rules
n=$(wc -l <otlp/taken)
ok "the receiver is away: said" within 40 grep -q "push: failing for .*otlp.*503" log
lags() { metric "ascribe_push_lag_seconds{$target}" | awk '{ exit !($NF > 5) }'; }
ok "lag" within 30 lags
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
ok "its processes end with it" within 10 sh -c "! pgrep -x ascribe-push -P 1 && ! pgrep -x ascribe-pushkee -P 1"
rm otlp/rules
start log2
ok "it goes on" within 40 sh -c "[ \$(wc -l <otlp/taken) -gt $((n + 1)) ]"
ok "said once" test "$(grep -c 'failing for .*parca' log)" = 1
kill "$daemon"
wait "$daemon"
ok "ends well" test $? = 0
ok "no secret is said" sh -c '! grep -rq secret log log2 metrics store/push'
ok "tokens, tenants, headers, labels" jq -es 'all(.headers.authorization == "Bearer secret" and
	.headers["x-two"] == "2" and all(.profiles[].labels; .["k8s.cluster.name"] == "prod"))' otlp/taken
ok "tenant" jq -es 'all(.headers["x-scope-orgid"] == "acme")' pyroscope/taken
# what came last: by the command, with the daemon's cursor
"$ascribe" push store "$otlp" -l cluster=prod 2>last
"$ascribe" push store "$pyroscope" --format pyroscope --tenant acme 2>>last
cat >once.py <<'PY'
import collections, json, os, subprocess
def run(*a):
    return json.loads(subprocess.run([os.environ['ASCRIBE'], *a, '--json'], capture_output=True, check=True).stdout)
series = run('report', 'store', '--step', '10s')
ns = run('report', 'store')['seconds'] / max(1, run('report', 'store')['samples'])
total = run('report', 'store')
for name in 'otlp', 'pyroscope':
    assert not os.path.exists(name + '/wrong'), open(name + '/wrong').read()
    ids, times, twice, value = set(), collections.Counter(), 0, 0
    for m in map(json.loads, open(name + '/taken')):
        key = tuple(m['ids']) or json.dumps(m['profiles'])
        if key in ids:
            twice += 1
            continue
        ids.add(key)
        value += sum(s[2] for p in m['profiles'] for s in p['samples'] if p['type'] in ('samples', 'cpu'))
        for p in m['profiles']: times[p['time']] += 1
    assert twice <= 2, twice  # for each kill one whose answer was not read
    assert abs(value / 1e9 - total['seconds']) < 1e-6, (name, value / 1e9, total['seconds'])
    print(name, len(times), 'windows,', value / 1e9, 's,', twice, 'twice;', end=' ')
PY
ok "each window is there once" python3 once.py

# ---- a store that is not there yet, though its directory is; a reload leaves processes alone ----
mkdir -p late/store
config <<END
  - $otlp
END
serve log3 "$hasty" daemon -c "$dir/c.yaml" -s "$dir/late/store" -l 127.0.0.1:0 --anonymous \
	--cpu-max 0
daemon=$pid
ok "a store that comes later" within 30 sh -c 'ls late/store/push/otlp*'
before=$(pushers)
kill -HUP "$daemon"
ok "reloaded" within 10 grep -q reloaded log3
ok "the same process" test "$(pushers)" = "$before"
# Another list: other receivers, and back where the cursor is.
there() { wc -l <"$1/taken"; }
more() { [ "$(there "$1")" -gt "$2" ]; }
some=$(there pyroscope)
config <<END
  - {url: "$pyroscope", format: pyroscope}
END
kill -HUP "$daemon"
ok "the other receiver gets windows" within 40 more pyroscope "$some"
ok "one other process" sh -c "[ '$(pushers | wc -l)' = 1 ] && [ '$(pushers)' != '$before' ]"
some=$(there otlp)
config <<END
  - $otlp
END
kill -HUP "$daemon"
ok "the first one goes on" within 40 more otlp "$some"
printf 'store: %s\n' "$dir/late/store" >c.yaml
kill -HUP "$daemon"
nobody() { [ -z "$(pushers)" ]; }
ok "and nobody at last" within 10 nobody
gets 200 ascribe_windows_total "$url/metrics"
ok "nor a metric of them" sh -c '! grep -q ascribe_push_ body'
config <<END
  - $otlp
END
kill -HUP "$daemon"
somebody() { [ -n "$(pushers)" ]; }
ok "and again" within 10 somebody
kill -9 "$first" # the receiver itself
kill "$daemon"
wait "$daemon"
ok "ends well without its receiver" test $? = 0
finish
