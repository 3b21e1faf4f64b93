#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Node with dd-trace, Datadog's tracer, unmodified from npm: it publishes OpenTelemetry's thread
# context (nodejs_v1_dev) for the active span, and the process context with the names of its
# attributes. Two traces that take turns on one thread. Needs the network once; the packages stay in
# build/others.
. "$(dirname "$0")/../record/lib.bash"
modules=$build/others/dd
command -v npm >/dev/null || skip "no npm"
mkdir -p "$modules"
if [ ! -d "$modules/node_modules/dd-trace" ] || [ ! -x "$modules/node_modules/node/bin/node" ]; then
	(cd "$modules" && npm install --no-audit --no-fund node@24 dd-trace@6.21.0 >npm.log 2>&1) ||
		skip "npm cannot install the packages"
fi
node=$modules/node_modules/node/bin/node
export DD_TRACE_OTEL_CTX_ENABLED=true DD_INSTRUMENTATION_TELEMETRY_ENABLED=false \
	DD_REMOTE_CONFIGURATION_ENABLED=false
cat >spans.js <<'END'
const tracer = require('dd-trace').init({ url: 'http://127.0.0.1:9', startupLogs: false, plugins: false });
const used = {};
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
function spin(id, ms) {
  const begin = cpu(), end = begin + ms * 1000;
  while (cpu() < end) for (let i = 0; i < 20000; i++);
  used[id] = (used[id] || 0) + cpu() - begin;
}
function task(name, ms) {
  return tracer.trace(name, async (span) => {
    const id = span.context().toTraceId(true) + ' ' + span.context().toSpanId(true);
    for (let i = 0; i < 30; i++) {
      spin(id, ms);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
}
(async () => {
  await Promise.all([task('one', 30), task('two', 10)]);
  console.log(JSON.stringify(used));
  process.exit(0);
})();
END
NODE_PATH=$modules/node_modules record -F 999 -o node.data -- "$node" spans.js
tail -1 record.out >truth.json
report node.data --by trace_id,span_id --where '{trace_id!=""}' >ids.json
report node.data --by span_id,datadog.local_root_span_id,datadog.thread_name \
	--where '{span_id!=""}' >roots.json
check "the traces for as long as they ran" r=ids.json t=truth.json -- \
	'(lambda v: len(t) == 2 and set(v) == {tuple(k.split()) for k in t} and
	all(abs(v[tuple(k.split())]["seconds"] - us / 1e6) < 0.15 * us / 1e6 + 0.1 for k, us in t.items()))(rows(r))' \
	'{k[1]: round(x["seconds"], 2) for k, x in rows(r).items()}, t'
check "attributes by the names of the process context" r=roots.json -- \
	'samples(r) and all(span == root and thread == "Main Event Loop" for span, root, thread in samples(r))' 'samples(r)'
finish
