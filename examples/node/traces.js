// SPDX-License-Identifier: Apache-2.0
// Labels of OpenTelemetry's spans in Node: trace and span id, and the tenant that the baggage has.
// Prints the trace and the CPU seconds of each tenant.  node traces.js [SECONDS]
'use strict';
const fs = require('node:fs');
const api = require('@opentelemetry/api');
const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const ascribe = require('ascribe');

new NodeTracerProvider().register({
  contextManager: ascribe.follow(api, new AsyncLocalStorageContextManager(), ['tenant']),
});
const tracer = api.trace.getTracer('traces');
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));

// The running thread's CPU time, as the kernel counts it.
const cpu = () =>
  Number(fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e9;

function burn(seconds) {
  const begin = cpu();
  while (cpu() < begin + seconds)
    for (let i = 0; i < 100000; i++);
  return cpu() - begin;
}

// Two of these take turns on one thread.
function serve(tenant, seconds) {
  const baggage = api.propagation.createBaggage({ tenant: { value: tenant } });
  const context = api.propagation.setBaggage(api.context.active(), baggage);
  return tracer.startActiveSpan('serve', {}, context, async (span) => {
    const { traceId, spanId } = span.spanContext();
    const used = { trace: traceId, span: spanId, seconds: 0 };
    for (let i = 0; i < 20; i++) {
      // A span inside has an id of its own, and the same trace and tenant.
      used.seconds += i % 2 ? burn(seconds / 20)
        : tracer.startActiveSpan('inner', (inner) => {
          const u = burn(seconds / 20);
          inner.end();
          return u;
        });
      await pause();
    }
    span.end();
    return used;
  });
}

async function main(s) {
  const [a, b] = await Promise.all([serve('a', 3 * s), serve('b', s)]);
  console.log(JSON.stringify({ a, b, none: { seconds: burn(0.4 * s) } }));
}
main(Number(process.argv[2] || 0.5));
