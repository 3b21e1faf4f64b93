/* SPDX-License-Identifier: Apache-2.0 */
/* Values of hits and memory of a real recording, against what the programs printed. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { api, open, param, said, serve, settled } from '../lib.mjs';
import { browser, test } from './shared.mjs';

const SUMMED = 'select[name="event"]';

/* Choose an option whose text matches, and see what the facts say. */
async function choose(page, text) {
	const value = await page.$eval(SUMMED, (e, text) =>
		[...e.options].find(o => new RegExp(text).test(o.textContent)).value, text);
	await page.selectOption(SUMMED, value);
	await settled(page);
	return (await said(page, '#facts > span')).replace(/ \d{4}-.*/, '');
}

/* The cells of a table by the name of their row: number n of each, from the end or the beginning. */
const cells = (page, host, n) => page.$$eval(host + ' tbody tr', (rows, n) =>
	Object.fromEntries(rows.map(r => [r.querySelector('th').textContent,
		[...r.children].at(n).textContent])), n);

const timeOf = text => {
	const [, n, unit] = text.match(/([\d.]+)\s*(\S+)/);
	return n * { s: 1e9, ms: 1e6, 'µs': 1e3 }[unit];
};

if (process.env.VALUED)
	test('values of probes and memory', async () => {
		const base = await serve(process.env.VALUED),
			sum = Number(readFileSync('sum')),
			clocks = JSON.parse(readFileSync('clocks.json').toString()
				.match(/^\[.*\]$/m)[0]);
		const { page, bad, context } = await open(browser, base + '/?by=index');
		await settled(page);
		const names = await page.$$eval(SUMMED + ' option',
			l => l.map(o => o.textContent));
		const offered = ['uretprobe:timed:spin: time', 'live memory',
			'uprobe:sized:take:arg2=bytes: bytes',
			'uprobe:sized:take:arg1=count: values'];
		assert.deepEqual(offered.filter(n => !names.includes(n)), []);
		assert.ok(!names.some(n => /^(cpu-clock|alloc_space): /.test(n)), names.join());

		/* Bytes: of index 1 twice those of index 0 */
		const kib = n => (n / 1024).toFixed(0) + ' KiB';
		assert.equal(await choose(page, 'arg2=bytes: '),
			`${(3 * sum / 1048576).toFixed(1)} MiB of uprobe:sized:take:arg2=bytes`);
		const bytes = await cells(page, '#values', 1);
		assert.deepEqual([bytes['0'], bytes['1']], [kib(sum), kib(2 * sum)]);
		assert.equal(param(page, 'metric'), 'value');
		assert.match(param(page, 'event'), /arg2=bytes$/);
		await page.reload();
		await settled(page);
		assert.match(await page.$eval(SUMMED, e => e.value), /^value:.*arg2=bytes$/);

		/* The same in the other views */
		await page.locator('#panel-flame canvas:visible').first()
			.hover({ position: { x: 300, y: 9 } });
		await page.waitForFunction(() => /^all.*MiB, 100% of all/.test(
			document.querySelector('#panel-flame .frame').textContent));
		await page.click('#tab-functions');
		await settled(page);
		await page.waitForSelector('#panel-functions tbody tr');
		assert.match(JSON.stringify(await cells(page, '#panel-functions', -2)), /MiB/);
		await page.click('#tab-heat');
		await settled(page);
		await page.waitForFunction(() => /samples of /.test(
			document.querySelector('#panel-heat .match').textContent));
		assert.match(await said(page, '#panel-heat .match'),
			/^[\d\u202f]+ samples of uprobe:sized:take:arg2=bytes in /);

		/* Time of calls, between the two clocks of the program */
		assert.match(await choose(page, 'timed:spin: time'), / of uretprobe:timed:spin$/);
		const times = await cells(page, '#values', 1);
		for (const [i, c] of clocks.entries()) {
			const shown = timeOf(times[i]);
			/* With two digits, as 23 ms: 5% at most */
			assert.ok(shown >= 0.95 * c.inner && shown <= 1.05 * c.outer,
				`${times[i]}, ${JSON.stringify(c)}`);
		}
		assert.match(await choose(page, 'arg1=count: '),
			/^[\d\u202f]+ of uprobe:sized:take:arg1=count$/);

		/* Memory: as the API has it, and as a link has it */
		const held = (await api(base, 'table?metric=alloc_space&by=comm')).samples;
		assert.equal(await choose(page, '^allocated memory$'),
			`${(held / 1048576).toFixed(0)} MiB allocated memory`);
		await page.goto(base + '/?by=comm&metric=inuse_space');
		await settled(page);
		assert.equal(await page.$eval('#problems', e => e.textContent), '');
		assert.match(await said(page, '#facts > span'), / [KM]iB live memory/);
		const live = (await api(base, 'table?metric=inuse_objects&by=comm')).samples;
		assert.equal((await choose(page, '^live allocations$')).replace(/\D*$/, '')
			.replace(/\D/g, ''), String(live));
		if (process.env.SHOT)
			await page.screenshot({ path: process.env.SHOT });
		assert.deepEqual(bad, []);
		await context.close();
	});
