// SPDX-License-Identifier: Apache-2.0
// Labels in Node: worker threads, then promises that take turns on one thread. Prints the CPU
// seconds of each label.  node tenants.js [SECONDS]
'use strict';
const fs = require('node:fs');
const ascribe = require('ascribe');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

const used = {};

// The running thread's CPU time, as the kernel counts it.
const cpu = () =>
  Number(fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e9;

function burn(name, seconds) {
  const begin = cpu();
  while (cpu() < begin + seconds)
    for (let i = 0; i < 100000; i++);
  used[name] = (used[name] || 0) + cpu() - begin;
}

async function task(tenant, seconds) {
  for (let i = 0; i < 20; i++) {
    burn(tenant, seconds / 20);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function serve(tenant, seconds) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { tenant, seconds } });
    worker.on('error', reject);
    worker.on('message', resolve);
  });
}

async function main(s) {
  for (const u of await Promise.all([serve('a', 3 * s), serve('b', s)]))
    for (const [name, seconds] of Object.entries(u))
      used[name] = (used[name] || 0) + seconds;
  await Promise.all([
    ascribe.run({ tenant: 'task-a' }, () => task('task-a', 3 * s)),
    ascribe.run({ tenant: 'task-b' }, () => task('task-b', s)),
  ]);
  console.log(JSON.stringify(used));
}

if (isMainThread) {
  main(Number(process.argv[2] || 0.5));
} else {
  const { tenant, seconds } = workerData;
  fs.writeFileSync('/proc/thread-self/comm', tenant);
  ascribe.run({ tenant, query_id: 7 }, () => burn(tenant, seconds));
  burn('none', seconds / 10);
  parentPort.postMessage(used);
}
