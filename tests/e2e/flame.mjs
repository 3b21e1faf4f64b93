/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that `ascribe flame` writes: drawn, zoomed, flipped, searched, by mouse and keyboard;
 * hostile names stay text.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ROW, colours, launch, open } from './lib.mjs';

const truth = JSON.parse(readFileSync('truth.json')),
	report = JSON.parse(readFileSync('report.json'));
const inner = report.rows.find(r => r.function === 'inner');
const browser = await launch();
const { page, bad } = await open(browser, `file://${process.cwd()}/page.html`,
	{ viewport: { width: 1200, height: 800 } });
const text = selector => page.locator(selector).innerText();
const thousands = n => n.toLocaleString('en-US').replace(',', '\u202f');
const frame = () => page.evaluate(() => new Promise(go =>
	requestAnimationFrame(() => requestAnimationFrame(go))));

await frame();
assert.ok(await colours(page, '.graph canvas >> nth=-1') >= 8);
assert.ok((await text('#facts')).includes(`${thousands(truth.samples)} samples`));
const box = await page.locator('.graph canvas >> nth=-1').boundingBox();
await page.mouse.move(box.x + 5, box.y + 5);
await frame();
assert.match(await text('.tip'),
	new RegExp(`^all\\s+${thousands(truth.samples)} samples = [\\d.]+ s, 100% of all`));

await page.mouse.click(box.x + 5, box.y + 3.5 * ROW);
await frame();
const zoomed = await text('.frame b');
assert.ok(zoomed !== 'all' && await page.isEnabled('button[name=out]'));
assert.ok(await colours(page, '.graph canvas >> nth=-1') >= 3);
await page.mouse.click(box.x + 5, box.y + 0.5 * ROW); /* the root is still there */
await frame();
assert.equal(await text('.frame b'), 'all');

await page.keyboard.press('/');
await page.keyboard.type('^inner$');
assert.equal(await text('.match'),
	`matched ${(100 * inner.share).toFixed(1)}%, ${thousands(inner.samples)} samples`);
await page.fill('input[name=find]', '(');
assert.equal(await text('.match'), 'not a regular expression');
await page.keyboard.press('Escape');
assert.equal(await page.inputValue('input[name=find]') + await text('.match'), '');

await page.click('button[name=flip]');
await frame();
assert.ok(await colours(page, '.graph canvas >> nth=-1') >= 8);
await page.focus('.graph canvas >> nth=-1');
for (const key of ['ArrowUp', 'ArrowUp', 'Enter'])
	await page.keyboard.press(key);
assert.ok(await page.isEnabled('button[name=out]'));
await page.keyboard.press('Escape');
await page.click('.list summary');
await page.waitForSelector('.list tbody tr:nth-child(2)');

/* Names of the store try to set the title, to add scripts and images. */
assert.equal(await page.title(), 'ascribe: flame graph');
assert.equal(await page.evaluate(() => document.scripts.length), 2);
assert.equal(await page.evaluate(() => document.images.length), 0);
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
assert.deepEqual(bad, []);
await browser.close();
console.log('flame_page.sh: passed');
