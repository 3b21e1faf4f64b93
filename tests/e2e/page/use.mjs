/* SPDX-License-Identifier: Apache-2.0 */
/* How it is used: by keyboard, in the dark, in a narrow window. */
import assert from 'node:assert/strict';
import { clickFrame, param, q, said, settled } from '../lib.mjs';
import { names, onPage, url } from './shared.mjs';

onPage('by keyboard alone', url, '?by=tenant', async page => {
	const order = [];
	for (let i = 0; i < 80; i++) {
		await page.keyboard.press('Tab');
		const at = await page.evaluate(() => {
			const e = document.activeElement;
			return e === document.body ? '' : e.name || e.id || e.tagName;
		});
		if (!at || order[0] === at && i > 3)
			break;
		order.push(at);
		if (at === 'CANVAS')
			break;
	}
	for (const name of ['from', 'to', 'where', 'live', 'by', 'tab-flame', 'find', 'CANVAS'])
		assert.ok(order.includes(name), `${name} in ${order}`);
	for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight'])
		await page.keyboard.press(key);
	await page.waitForFunction(() => /samples/.test(document.querySelector('#said')
		.textContent));
	const words = await said(page, '#said');
	await page.keyboard.press('Enter');
	await settled(page);
	assert.equal(param(page, 'root').split('.').length, 3);
	assert.ok(words.startsWith((await said(page, '#panel-flame .frame b')).slice(0, 20)));
	await page.keyboard.press('Escape');
	await settled(page);
	await page.keyboard.press('i');
	await settled(page);
	assert.equal(param(page, 'up'), '1');
	await page.focus('#tab-flame');
	await page.keyboard.press('ArrowRight');
	await settled(page);
	assert.equal(param(page, 'tab'), 'diff');
	const unnamed = await page.evaluate(() =>
		[...document.querySelectorAll('button, input, select, canvas, a')].filter(e =>
		e.checkVisibility() && !e.closest('[role=img]'))
		.filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() ||
			e.labels?.[0]?.textContent.trim())).map(e => e.outerHTML.slice(0, 120)));
	assert.deepEqual(unnamed, []);
});

/* What is shown anew must not send the keyboard back to the top of the page. */
onPage('the keyboard stays where it is', url, '?by=tenant', async page => {
	const at = () => page.evaluate(() => {
		const e = document.activeElement;
		return [e.tagName, e.name || e.id, e.dataset.value ?? e.dataset.sort ?? '']
			.filter(Boolean)
			.join(' ');
	});
	const enter = async selector => {
		await page.focus(selector);
		await page.keyboard.press('Enter');
		await settled(page);
		return at();
	};
	await page.keyboard.press('Tab');
	assert.equal(await at(), 'A skip');
	assert.ok((await page.locator('#skip').boundingBox()).y >= 0);
	await page.keyboard.press('Enter');
	assert.equal(await at(), 'BUTTON tab-flame');
	assert.equal(await enter('#values button[data-value=a]'), 'BUTTON a');
	assert.equal(await enter('button[name=against-rest]'), 'BUTTON no-baseline');
	assert.equal(await enter('.chip button'), 'BUTTON no-baseline');
	assert.equal(await enter('button[name=no-baseline]'), 'BUTTON against-before');
	await page.click('#tab-functions');
	await settled(page);
	assert.equal(await enter('button[data-sort=samples]'), 'BUTTON samples');
	assert.equal(await enter('#panel-functions tbody tr:nth-child(3) button.link'),
		'BUTTON tab-flame');
	await page.focus('#values tbody tr:nth-child(2) button[name=but]');
	await page.evaluate(() => {
		for (const e of document.querySelectorAll('#values tbody tr'))
			e.dataset.old = '1';
	});
	await page.click('button[name=live]');
	await page.focus('#values tbody tr:nth-child(2) button[name=but]');
	await page.waitForFunction(() => !document.querySelector('#values tbody tr[data-old]'));
	assert.equal(await at(), 'BUTTON but');
	await page.goto(url + '/?by=tenant');
	await settled(page);
	await clickFrame(page, 1, 0.1);
	const root = param(page, 'root');
	await enter('.menu summary');
	await page.keyboard.press('Tab');
	assert.equal(await at(), 'A');
	await page.keyboard.press('Escape'); /* closes the menu, and nothing else */
	assert.equal(await page.locator('.menu[open]').count(), 0);
	assert.equal(await at(), 'SUMMARY');
	assert.equal(param(page, 'root'), root);
	await page.focus('input[name=from]');
	await page.keyboard.type('now-');
	await page.keyboard.press('Escape');
	assert.equal(await page.inputValue('input[name=from]'), '');
	assert.equal(param(page, 'from'), '');
});

onPage('light and dark', url, '', async page => {
	const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const dark = await ground();
	await page.click('button[name=theme]');
	assert.notEqual(await ground(), dark);
	await page.reload();
	await settled(page);
	assert.notEqual(await ground(), dark);
	await page.click('button[name=theme]');
	assert.equal(await ground(), dark);
}, { colorScheme: 'dark' });

onPage('a narrow window', names, '?by=tenant', async page => {
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}, { viewport: { width: 380, height: 700 } });

/* Names that try to become markup, script or layout. */
for (const query of ['', '?tab=functions', '?split=1&colour=label', '?by=comm',
	`?where=${q('{tenant="</script><script>alert(1)</script>"}')}&against=${q('{tenant=""}')}`])
	onPage('hostile names ' + query, names, query, async page => {
		assert.equal(await page.evaluate(() => document.scripts.length), 1);
		assert.equal(await page.evaluate(() =>
			document.images.length + document.querySelectorAll('i > i, b b, iframe')
			.length), 0);
		assert.ok(!/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069]/.test(
			await page.evaluate(() => document.body.textContent + document.title)));
		assert.ok(await page.evaluate(() =>
			document.documentElement.scrollWidth <= innerWidth));
		assert.ok((await page.evaluate(() => document.body.textContent.length)) < 100000);
	});

/*
 * The name beside the number that it is sorted by, without scrolling; both ends of the range in one
 * line.
 */
onPage('functions in a narrow window', url, '?tab=functions', async page => {
	const name = await page.locator('#panel-functions tbody th').first().boundingBox();
	assert.ok(name.x + name.width <= 400 && name.width > 60, JSON.stringify(name));
	const [from, to] = await Promise.all(['from',
		'to'].map(n => page.locator(`input[name=${n}]`).boundingBox()));
	assert.equal(from.y, to.y);
	assert.equal(await page.locator('#values th.spare').isVisible(), false);
}, { viewport: { width: 400, height: 700 } });
