/* SPDX-License-Identifier: Apache-2.0 */
/* The flame graph, the table of functions, and what is exported. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ROW, api, clickFrame, colours, digits, param, q, said, settled } from '../lib.mjs';
import { name, unpack } from '../../../web/tree.js';
import { incident, onPage, truth, url, wide } from './shared.mjs';

onPage('zoom fetches what was left out', wide, '?by=comm', async page => {
	const asked = [];
	page.on('request', r => r.url().includes('root=') && r.url().includes('/flame') &&
		asked.push(r.url()));
	assert.ok(await page.evaluate(() => !!document.querySelector('#panel-flame')));
	await clickFrame(page, 3, 0.05);
	await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
	assert.equal(param(page, 'root').split('.').length, 3);
	assert.equal(asked.length, 1);
	await page.click('.list summary');
	await page.waitForSelector('.list tbody tr');
	const rows = await page.locator('.list tbody tr').allInnerTexts(),
		sub = await api(wide, `flame?max_nodes=8192&root=${param(page, 'root')}`);
	assert.equal(digits(rows[0].split('\t')[2]), sub.nodes[1]);
	const kids = [];
	for (let i = 3; i < sub.nodes.length; i += 3)
		if (sub.nodes[i] === 1)
			kids.push(sub.nodes[i + 1]);
	assert.deepEqual(rows.slice(1).map(r => digits(r.split('\t')[2])), kids);
	const address = page.url();
	await page.keyboard.press('Escape');
	await settled(page);
	assert.equal(param(page, 'root').split('.').length, 2);
	await page.goto(address); /* the crumbs come from the server */
	await settled(page);
	await page.click('.list summary');
	await page.waitForSelector('.list tbody tr');
	assert.equal(digits((await page.locator('.list tbody tr').first().innerText())
		.split('\t')[2]), sub.nodes[1]);
	await clickFrame(page, 0, 0.5);
	assert.equal(param(page, 'root'), '');
});

onPage('search', url, '?by=tenant', async page => {
	const inner = (await api(url, 'table?limit=1000')).rows.find(r => r.function === 'inner');
	await page.keyboard.press('/');
	await page.keyboard.type('^inner$');
	const text = `matched ${(100 * inner.share).toFixed(1)}%, ${inner.samples} samples`;
	await page.waitForFunction(t => document.querySelector('#panel-flame .match')
		.textContent === t, text);
	assert.equal(param(page, 'find'), '^inner$');
	await page.fill('input[name=find]', '(');
	assert.equal(await said(page, '#panel-flame .match'), 'not a regular expression');
	await page.reload();
	await settled(page);
	assert.equal(await page.inputValue('input[name=find]'), '(');
});

onPage('from the leaf; callers and callees', url, '?view=inverted', async page => {
	const t = await api(url, 'table?limit=1000'),
		top = t.rows.reduce((a, b) => b.self > a.self ? b : a);
	await clickFrame(page, 1, 0.01);
	assert.match(await said(page, '#panel-flame .frame'), new RegExp(`${top.self} samples`));
	await page.click('#panel-flame button[name=sandwich]');
	await settled(page);
	assert.equal(param(page, 'fn'), top.function);
	assert.match(await said(page, '#panel-flame .frame'),
		new RegExp(
		`^${top.function.replace(/[^\w ]/g, '.')}[\\s\\S]*${top.samples} samples`));
	assert.equal(await page.locator('#panel-flame .graph canvas >> visible=true').count(), 2);
	await page.keyboard.press('Escape');
	await settled(page);
	assert.equal(param(page, 'view'), '');
});

onPage('colours by library and by label', url, '?by=tenant&colour=library', async page => {
	assert.match(await said(page, '.legend'), /libc\.so\.6/);
	await page.selectOption('select[name=colour]', 'label');
	await settled(page);
	assert.match(await said(page, '.legend'), /^(a|b)\n/);
	assert.ok(await colours(page, '#panel-flame .graph canvas >> nth=-1') >= 6);
});

/* The root is at the bottom then, whatever the line below it needs. */
onPage('from the bottom up', url, '?up=1&view=inverted', async page => {
	for (const height of [900, 560]) {
		await page.setViewportSize({ width: 1100, height });
		await settled(page);
		let said = '';
		/* The canvas follows the window a frame later */
		for (let i = 0; i < 100 && said !== 'all'; i++) {
			const box = await page.locator('#panel-flame .graph canvas >> visible=true')
				.boundingBox();
			await page.mouse.move(1, 1);
			await page.mouse.move(box.x + 20, box.y + box.height - 5);
			said = await page.evaluate(() => document.querySelector('.tip').hidden ? ''
				: document.querySelector('.tip b').textContent);
		}
		assert.equal(said, 'all');
	}
});

onPage('the table of functions', url, '?tab=functions', async page => {
	const first = () => page.locator('#panel-functions tbody tr:nth-child(1)').innerText();
	const t = await api(url, 'table?limit=1000');
	assert.ok((await first()).includes(t.rows[0].function));
	assert.equal(await page.locator('#panel-functions th[aria-sort=descending]').innerText(),
		'Self▾');
	await page.click('button[data-sort=samples]');
	await settled(page);
	assert.ok((await first()).includes('main') || (await first()).includes('_start'));
	await page.fill('input[name=filter]', 'LIBZ');
	await page.waitForFunction(() => !document.querySelector('[aria-busy]') &&
		/of \d+ functions/.test(document.querySelector('#panel-functions .match')
		.textContent));
	await settled(page);
	const match = t.rows.filter(r => /libz/i.test(r.function + ' ' + r.module)).length;
	await page.waitForFunction(n => document.querySelectorAll('#panel-functions tbody tr')
		.length === n, match);
	assert.equal(param(page, 'filter'), 'LIBZ');
});

onPage('export', url, `?where=${q('{tenant="a"}')}`, async (page, { context }) => {
	await page.click('.menu summary');
	const save = async name => {
		const [d] = await Promise.all([page.waitForEvent('download'),
			page.click(`a[data-export="${name}"]`)]);
		await d.saveAs('saved-' + name);
		return readFileSync('saved-' + name);
	};
	assert.deepEqual([...(await save('profile.pb.gz')).subarray(0, 2)], [0x1f, 0x8b]);
	const folded = (await save('stacks.folded')).toString().trim().split('\n')
		.reduce((n, l) => n + Number(l.match(/ (\d+)$/)[1]), 0);
	assert.equal(folded, truth.a);
	await save('flame.html');
	const file = await context.newPage(), bad = [];
	file.on('console', m => bad.push(m.text()));
	file.on('pageerror', e => bad.push(e.message));
	await file.goto('file://' + process.cwd() + '/saved-flame.html');
	assert.match(await file.locator('#facts').innerText(),
		new RegExp(`${truth.a.toLocaleString('en-US').replace(',', '.')} samples`));
	assert.deepEqual(bad, []);
});

/*
 * Compared with a baseline: the colour of a frame and the words beside it say what the table says
 * of its function. A function that is in several stacks has no frame that is all of it.
 */
for (const [what, from, wanted] of [['an incident', 1777631000, ['more', 'less']],
	['a quiet time', 1777630400, ['noise']]])
	onPage(`the graph of ${what} marks what the table does`, incident, '?by=comm', async page => {
		const range = `from=${from}&to=${from + 400}&` +
			`against_from=${from - 400}&against_to=${from}`;
		await page.goto(`${incident}/?by=comm&tab=diff&${range}`);
		await settled(page);
		const table = new Map(await page.locator('#panel-diff tbody tr').evaluateAll(rows =>
			rows.map(r => [r.querySelector('th bdi').textContent, r.className])));
		await page.goto(`${incident}/?by=comm&tab=flame&${range}`);
		await settled(page);
		const t = unpack(await api(incident, `flame?max_nodes=8192&${range}`)),
			nodes = new Map();
		for (let i = 1; i < t.n; i++)
			nodes.set(name(t, i), [...(nodes.get(name(t, i)) || []), i]);
		const canvas = page.locator('#panel-flame .graph canvas >> visible=true >> nth=0'),
			box = await canvas.boundingBox(), found = new Set();
		for (const [called, [i, ...others]] of nodes) {
			const x = (t.start[i] + t.total[i] / 2) / t.total[0] * box.width,
				y = t.depth[i] * ROW + 2, verdict = table.get(called);
			if (others.length || t.total[i] / t.total[0] * box.width < 4 ||
				y > box.height || !verdict)
				continue;
			const [red, , blue] = await canvas.evaluate((c, at) =>
				[...c.getContext('2d').getImageData(...at, 1, 1).data],
			[Math.floor(x), y]);
			assert.equal(red - blue > 20 ? 'more' : blue - red > 20 ? 'less' : 'noise',
				verdict, `${called}: ${red}, ${blue}`);
			await page.mouse.move(box.x + x, box.y + y);
			await page.waitForFunction(text =>
				document.querySelector('.tip b').textContent === text, called);
			assert.ok((await page.locator('.tip').textContent())
				.endsWith(verdict === 'noise' ? 'may be chance' : verdict), called);
			found.add(verdict);
		}
		for (const verdict of wanted)
			assert.ok(found.has(verdict), `${verdict} in ${[...found]}`);
	});
