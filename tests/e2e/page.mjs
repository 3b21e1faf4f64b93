/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page over real servers, in Chromium: what a person does, and what the API says of it. The
 * tests are in page/, three of them run at a time.
 */
import { stop } from './lib.mjs';
import { browser, tests } from './page/shared.mjs';
import './page/first.mjs';
import './page/graph.mjs';
import './page/heat.mjs';
import './page/values.mjs';
import './page/use.mjs';
import './page/serve.mjs';

let failed = 0;
async function worker() {
	for (let next; (next = tests.shift());) {
		const [name, f] = next, begin = Date.now();
		await f().then(() => process.env.V &&
			console.log(`ok ${name} ${Date.now() - begin} ms`), e => {
			failed++;
			console.log(
				`FAIL: ${name}: ${e.message}\n${e.stack.split('\n').filter(l => l.includes('.mjs')).slice(0, 4).join('\n')}`);
		});
	}
}
const n = tests.length;
tests.reverse(); /* the one that waits comes early */
await Promise.all([worker(), worker(), worker()]);
await browser.close();
stop();
console.log(`${n - failed} passed, ${failed} failed`);
process.exit(failed || !n ? 1 : 0);
