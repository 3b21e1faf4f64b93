/* SPDX-License-Identifier: Apache-2.0 */
/* The heat map of a real recording with tracks: keys, the mouse, what is asked then. */
import assert from 'node:assert/strict';
import { api, open, param, said, serve, settled } from '../lib.mjs';
import { browser, test } from './shared.mjs';

const drawn = page => page.waitForFunction(() => performance.getEntriesByName('drawn-heat').length);
const digits = t => Number(t.replace(/[^\d]/g, ''));

if (process.env.TRACKED)
	test('a heat map', async () => {
		const base = await serve(process.env.TRACKED),
			all = await api(base, 'heatmap?step=50ms');
		const { page, bad, context } = await open(browser, base + '/?by=comm&tab=heat');
		await settled(page);
		await drawn(page);
		const status = () => said(page, '#panel-heat .match');
		assert.equal(digits((await status()).split(' samples')[0]), all.total);
		/* By keys: the last step, and one more before it */
		await page.focus('#panel-heat canvas');
		await page.keyboard.press('ArrowDown');
		const last = all.rows[0].cells;
		assert.match(await status(), new RegExp(`: ${last[last.length - 1]} samples$`));
		await page.keyboard.press('Shift+ArrowDown');
		await page.keyboard.press('Shift+ArrowDown');
		const three = last.slice(-3).reduce((a, b) => a + b, 0);
		assert.match(await status(), new RegExp(`: ${three} samples$`));
		if (process.env.SHOT)
			await page.screenshot({ path: process.env.SHOT });
		await page.keyboard.press('Enter');
		await settled(page);
		assert.equal(param(page, 'tab'), ''); /* the flame graph */
		const from = Number(param(page, 'from')), to = Number(param(page, 'to'));
		assert.ok(Math.abs(to - from - 0.15) < 0.002, `${from} to ${to}`);
		const flame = await api(base, `flame?from=${from}&to=${to}`);
		const all_three = `${flame.samples}, ${three}`;
		assert.ok(Math.abs(flame.samples - three) <= 2, all_three);
		/* By the mouse: from one step to another of the next second */
		await page.goBack();
		await settled(page);
		await page.waitForFunction(() =>
			document.querySelector('#panel-heat canvas').width > 0);
		const box = await page.locator('#panel-heat canvas').boundingBox();
		const width = box.width / Math.ceil(all.steps / 20 + 1e-9);
		await page.mouse.move(box.x + width * 1.5, box.y + box.height / 2);
		await page.mouse.down();
		await page.mouse.move(box.x + width * 1.5, box.y + 4, { steps: 4 });
		await page.mouse.up();
		assert.match(await status(), /\d+ samples$/);
		await page.click('text=Compare with the second before');
		await settled(page);
		assert.equal(param(page, 'tab'), 'diff');
		const end = Number(param(page, 'against_to'));
		assert.ok(Math.abs(Number(param(page, 'from')) - end) < 0.002);
		assert.deepEqual(bad, []);
		await context.close();
	});
