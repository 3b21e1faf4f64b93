#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Node with @datadog/pprof, unmodified from npm, which publishes OpenTelemetry's draft for Node
# (nodejs_v1_dev). Two asynchronous tasks take turns on one thread, each with a trace id of its own.
# Needs the network once; the packages stay in build/others.
. "$(dirname "$0")/../record/lib.bash"
modules=$build/others/node
command -v npm >/dev/null || skip "no npm"
mkdir -p "$modules"
if [ ! -d "$modules/node_modules/@datadog/pprof" ] ||
	[ ! -x "$modules/node_modules/node/bin/node" ]; then
	(cd "$modules" && npm install --no-audit --no-fund node@24 @datadog/pprof@5.20.0 >npm.log \
		2>&1) || skip "npm cannot install the packages"
fi
node=$modules/node_modules/node/bin/node
cat >tasks.js <<'END'
const { ThreadContext } = require('@datadog/pprof/out/src/otel-thread-ctx.js');
const { AsyncLocalStorage } = require('async_hooks');
const others = Array.from({ length: 5 }, () => new AsyncLocalStorage()); // the context's map has other keys, too
const used = {};
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
function spin(name, ms) {
  const begin = cpu(), end = begin + ms * 1000;
  while (cpu() < end) for (let i = 0; i < 20000; i++);
  used[name] = (used[name] || 0) + cpu() - begin;
}
async function task(byte, ms) {
  const context = new ThreadContext(Buffer.alloc(16, byte), Buffer.alloc(8, byte + 1), 1, ['unnamed']);
  await context.run(async () => {
    others.forEach((o) => o.enterWith({}));
    for (let i = 0; i < 30; i++) {
      spin(byte, ms);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
}
(async () => {
  await Promise.all([task(0x11, 30), task(0x22, 10)]);
  spin('none', 200);
  console.log(JSON.stringify(used));
})();
END
NODE_PATH=$modules/node_modules record -F 999 -o node.data -- "$node" tasks.js
cp record.out truth.json
report node.data --by trace_id,span_id >ids.json
"$ascribe" stat node.data --json >stat.json 2>/dev/null
check "tasks' trace ids for as long as they ran" r=ids.json t=truth.json -- \
	'(lambda v: all(abs(v[(b * 16, s * 8)]["seconds"] - t[str(int(b, 16))] / 1e6) < 0.15 * t[str(int(b, 16))] / 1e6 + 0.1
	for b, s in (("11", "12"), ("22", "23"))) and set(v) == {("11" * 16, "12" * 8), ("22" * 16, "23" * 8), (None, None)})(rows(r))' \
	'{k[0] and k[0][:2]: round(x["seconds"], 2) for k, x in rows(r).items()}, t'
check "attributes whose names nobody publishes are counted" s=stat.json -- \
	's["flagged"]["unknown_key"] > 0 and not s["flagged"]["node_invalid"]' \
		's["flagged"]["unknown_key"], s["flagged"]["node_fault"]'
finish
