// SPDX-License-Identifier: Apache-2.0

// truth.h in JavaScript: truth.js TRIALS MILLISECONDS FIRST ROUNDS. The clock is that of the
// process, whose other threads have nothing to do after a while.
'use strict';
const fs = require('fs');
const rounds = +process.argv[5];
let sink = 0;

const cpu = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1e6; };
const rename = (name) => fs.writeFileSync('/proc/thread-self/comm', name);

function three(n) { // <three>
	let x = n | 0;
	for (let i = 0; i < n * rounds; i++) {
		x = (Math.imul(x, 1664525) + 1013904223) | 0;
		x ^= x >>> 7;
		x = (Math.imul(x, 22695477) + 12345) | 0;
		x ^= x >>> 9;
		x = (Math.imul(x, 69069) + 1) | 0;
		x ^= x >>> 11;
	}
	return x;
} // </three>

function one(n) { // <one>
	let x = n | 0;
	for (let i = 0; i < n * rounds; i++) {
		x = (Math.imul(x, 1103515245) + 12345) | 0;
		x ^= x >>> 8;
		x = (Math.imul(x, 134775813) + 1) | 0;
		x ^= x >>> 10;
		x = (Math.imul(x, 214013) + 2531011) | 0;
		x ^= x >>> 12;
	}
	return x;
} // </one>

function down(depth, part, n) {
	return depth ? down(depth - 1, part, n) + 1 : part(n);
}

function run(took, n) {
	let begin = cpu();
	sink += down(8, three, 3 * n); // calls three
	took[0] += cpu() - begin;
	begin = cpu();
	sink += down(8, one, n); // calls one
	took[1] += cpu() - begin;
}

function trials(n, seconds, first) {
	for (let i = first; i < first + n; i++) {
		const took = [0, 0];
		rename(`truth.${i}`);
		const begin = cpu();
		while (cpu() - begin < seconds)
			run(took, 40 + Math.floor(160 * Math.random()));
		const all = cpu() - begin;
		rename('rest');
		console.log(`truth.${i} ${took[0].toFixed(9)} ${took[1].toFixed(9)} ${all.toFixed(9)}`);
	}
}

for (const end = cpu() + 0.4; cpu() < end;) // compiled meanwhile
	run([0, 0], 100);
trials(+process.argv[2], +process.argv[3] / 1e3, +process.argv[4]);
process.exitCode = sink === 0.5 ? 1 : 0;
