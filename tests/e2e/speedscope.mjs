/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `ascribe export --format speedscope` writes, read by speedscope itself: its table of
 * functions has the samples that our report has.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { digits, launch, open } from './lib.mjs';

const viewer = `${process.env.E2E_MODULES}/speedscope/dist/release`,
	types = { html: 'text/html', js: 'text/javascript', css: 'text/css' };
const server = createServer((request, answer) => {
	const name = new URL(request.url, 'http://x').pathname.slice(1);
	try {
		const body = readFileSync(name === 'cpu.json' ? name : `${viewer}/${name}`);
		answer.setHeader('Content-Type',
			types[name.split('.').pop()] || 'application/json');
		answer.end(body);
	} catch {
		answer.writeHead(404).end();
	}
});
await new Promise(go => server.listen(0, '127.0.0.1', go));
const at = `http://127.0.0.1:${server.address().port}/`;
const browser = await launch();
const { page, bad } = await open(browser,
	`${at}index.html#profileURL=${encodeURIComponent(at + 'cpu.json')}&view=sandwich`);
await page.waitForSelector('table tr:nth-child(2)');
const rows = await page.locator('table tr').evaluateAll(all => all.map(r =>
	[...r.cells].map(c => c.innerText.trim())));
assert.deepEqual(rows[0], ['Total', 'Self', 'Symbol Name']);

/* Both have functions of one name one by one, by their file or module. Numbers end with a share. */
const self = new Map();
for (const [, own, name] of rows.slice(1)) {
	const n = digits(own.split(' ')[0]);
	if (n)
		self.set(name, (self.get(name) || 0) + n);
}
const want = new Map();
for (const r of JSON.parse(readFileSync('report.json')).rows)
	if (r.self)
		want.set(r.function, (want.get(r.function) || 0) + r.self);
const shown = name => name.replace(/[\s\u2028\u2029]+/g, ' ').trim();
const ordered = m => [...m].map(([name, n]) => [shown(name), n]).sort();
assert.ok(want.size > 20);
assert.deepEqual(ordered(self), ordered(want));
assert.deepEqual(bad.filter(text => !/WebGL|GL Driver/.test(text)), []);
await browser.close();
server.close();
console.log(`speedscope.sh: passed, ${want.size} functions`);
