// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
// Labels for the ascribe profiler that follow asynchronous work.
//
//	const ascribe = require('ascribe');
//	ascribe.run({ tenant: 'acme' }, () => handle(request));
//
// run() calls the function with these labels on top of those in effect, and returns its result. All
// work that the function begins has them, too: promises, timers, I/O callbacks. Node's own
// threads, which compress and encrypt, have none. ASCRIBE_LABEL_LIB names another file than
// libascribe-label.so.
'use strict';
const { AsyncLocalStorage, createHook } = require('node:async_hooks');
const native = { exports: {} };
process.dlopen(native, process.env.ASCRIBE_LABEL_LIB || 'libascribe-label.so');
const thread = native.exports;

const storage = new AsyncLocalStorage(); // the saved labels of each piece of work
const outer = []; // labels of the callbacks that the running one interrupts
let attached;

function attach(saved) {
  if (saved !== attached)
    thread.restore(attached = saved);
}

// Node calls these around each callback.
createHook({
  before() {
    outer.push(attached);
    attach(storage.getStore());
  },
  after() {
    attach(outer.pop());
  },
}).enable();

function runWith(change, f) {
  const before = attached;
  change();
  const saved = thread.save();
  thread.restore(before);
  try {
    return storage.run(saved, () => {
      attach(saved);
      return f();
    });
  } finally {
    attach(before);
  }
}

// labels: strings, or integers as numbers. What does not fit is left out.
exports.run = (labels, f) => runWith(() => {
  for (const [key, value] of Object.entries(labels)) {
    if (Number.isSafeInteger(value))
      thread.setInt(key, value);
    else
      thread.set(key, String(value));
  }
}, f);

// traceId, spanId: hexadecimal, as OpenTelemetry's SpanContext has them.
exports.runTrace = ({ traceId, spanId, traceFlags }, f) => runWith(() =>
  thread.setTrace(Buffer.from(traceId, 'hex'), Buffer.from(spanId, 'hex'), traceFlags), f);

// api: @opentelemetry/api; manager: a context manager of OpenTelemetry's. Work done in one of its
// contexts has the trace and span id as labels, and those entries of the baggage that keys names.
// Returns the manager.
//
//	provider.register({ contextManager: ascribe.follow(api, manager, ['tenant']) });
exports.follow = (api, manager, keys = []) => {
  const enter = manager.with.bind(manager);
  manager.with = (context, f, self, ...args) => {
    const { traceId, spanId, traceFlags } =
      api.trace.getSpanContext(context) ?? api.INVALID_SPAN_CONTEXT;
    const baggage = api.propagation.getBaggage(context);
    return runWith(() => {
      thread.setTrace(Buffer.from(traceId, 'hex'), Buffer.from(spanId, 'hex'), traceFlags);
      for (const key of keys) // a key that the baggage has not takes the label away
        thread.set(key, baggage?.getEntry(key)?.value);
    }, () => enter(context, f, self, ...args));
  };
  return manager;
};
