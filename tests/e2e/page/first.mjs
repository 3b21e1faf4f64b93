/* SPDX-License-Identifier: Apache-2.0 */
/* The first screen: who used the CPU and when, ranges, what changed. */
import assert from 'node:assert/strict';
import { api, clickFrame, colours, digits, param, q, said, settled } from '../lib.mjs';
import { incident, long, onPage, truth, url } from './shared.mjs';

onPage('what is recorded is shown', url, '?by=tenant', async page => {
	assert.match(await said(page, '#facts'),
		/Complete 9\d\.\d+% · labels cover [\d.]+% of samples · overhead [\d.]+% of a CPU/);
	await page.click('summary[name=health]');
	assert.match(await said(page, '#facts'), new RegExp(
		`due ${truth.fired.toLocaleString('en-US').replace(',', '.')}`));
	assert.match(await said(page, '#facts'),
		/lost 1\.31%[\s\S]*unlabelled [\d.]+%[\s\S]*truncated [\d.]+%[\s\S]*recorder [\d.]+% CPU, 20 MiB/);
	assert.match(await said(page, '#facts'), new RegExp(
		`${truth.samples.toLocaleString('en-US').replace(',', '.')} samples`));
	const rows = await page.locator('#values tbody tr').allInnerTexts(),
		table = await api(url, 'table?by=tenant');
	assert.equal(rows.length, table.rows.length);
	const seconds = (await page.locator('#values tbody tr:nth-child(1) td.n').first()
		.innerText());
	assert.equal(seconds, table.rows[0].seconds.toFixed(table.rows[0].seconds >= 10 ? 1 : 2) +
		' s');
	assert.equal(await page.locator('#values svg.spark').count(), rows.length);
	assert.ok(await colours(page, '#time canvas') >= 4);
	assert.ok(await colours(page, '#panel-flame .graph canvas >> nth=-1') >= 8);
	assert.equal(param(page, 'by'), 'tenant');
});

/*
 * Without any parameter: the last quarter of an hour, by who it was, split by that; the address
 * says so.
 */
onPage('the first screen', incident, '', async page => {
	const all = await api(incident, 'labels?names_only=1');
	assert.deepEqual(['by', 'split', 'from', 'to'].map(p => param(page, p)),
		['comm', '1', String(all.to - 900), String(all.to)]);
	assert.match(await said(page, '#bar'), /test.*host/);
	assert.match(await said(page, '#findings'),
		/^tenant b uses 0\.8\d CPUs since \d\d:\d\d:\d\d, 0\.1\d before, mostly in render_report; of comm server$/);
	const found = await api(incident, `findings?from=${all.to - 900}&to=${all.to}&limit=12`);
	assert.equal(await page.locator('#findings li').count(), found.findings.length);
	assert.match(await said(page, '#values tbody tr:nth-child(1)'), /^server/);
	assert.match(await said(page, '#values tbody tr:nth-child(1) .more'), /^\+0\.2\d$/);
	assert.match(await said(page, '#panel-flame .legend'), /^server\npostgres/);
	await page.click('#findings li:nth-child(1) button');
	await settled(page);
	assert.deepEqual(['where', 'by', 'tab'].map(p => param(page, p)),
		['{tenant="b"}', 'tenant', 'why']);
	const why = await api(incident,
		`why?where=${q('{tenant="b"}')}&from=${param(page, 'from')}&to=${param(page, 'to')}`);
	assert.match(await said(page, '#panel-why'),
		new RegExp(`on a CPU\\t${why.this.cpu.seconds.toFixed(0)} s`));
	assert.match(await said(page, '#panel-why'),
		/Code that changed since the range before[\s\S]*100%\t0%\trender_report/);
});

/*
 * The whole graph stands there until the one that is split has come, which takes the server longer.
 */
onPage('the first graph does not wait for the split', incident, '?by=comm', async page => {
	let release;
	const held = new Promise(go => { release = go; });
	await page.route(
		u => u.searchParams.has('split') && u.pathname.includes('/flame'), async r => {
			await held;
			await r.continue();
		});
	await page.goto(incident);
	await page.waitForFunction(() => performance.getEntriesByName('drawn-flame').length);
	assert.equal(await page.locator('#panes [aria-busy], #panel-flame[aria-busy]').count(), 1);
	assert.doesNotMatch(await said(page, '#panel-flame .legend'), /postgres/);
	release();
	await settled(page);
	assert.match(await said(page, '#panel-flame .legend'), /^server\npostgres/);
});

/* Whichever of them comes first, graph and chart give a value the same hue. */
for (const late of ['flame', 'series'])
	onPage(`one colour for a value, ${late} comes last`, incident, '?by=comm', async page => {
		await page.route(`**/api/v1/${late}?*`, async r => {
			await new Promise(go => setTimeout(go, 800));
			await r.continue();
		});
		await page.goto(`${incident}/?by=comm&split=1`);
		await settled(page);
		const hue = e => {
			const [r, g, b] = getComputedStyle(e).backgroundColor.match(/\d+/g)
				.map(Number), max = Math.max(r, g, b), d = max - Math.min(r, g, b);
			return Math.round(60 * (max === r ? ((g - b) / d + 6) % 6 : max === g
				? (b - r) / d + 2 : (r - g) / d + 4));
		};
		for (const i of [0, 1]) {
			const chart = await page.locator('#values .swatch').nth(i).evaluate(hue),
				graph = await page.locator('#panel-flame .legend i').nth(i)
				.evaluate(hue);
			assert.ok(Math.abs(chart - graph) <= 3, `${chart} ${graph}`);
		}
	});

/*
 * A colour is the value's, wherever it stands among the others; what was not recorded is no zero.
 */
onPage('colours stay, gaps are told', incident, '?by=comm', async page => {
	const colour = async value => page.locator(`#values button[data-value=${value}] .swatch`)
		.evaluate(e => e.style.background);
	const before = [await colour('server'), await colour('postgres')];
	await page.goto(`${incident}/?by=comm&to=1777629700`);
	await settled(page);
	assert.deepEqual([await colour('server'), await colour('postgres')], before);
	await page.goto(`${incident}/?by=comm`);
	await settled(page);
	const box = await page.locator('#time .u-over').boundingBox();
	await page.mouse.move(box.x + box.width * 121 / 180, box.y + 40);
	await page.waitForFunction(() => /nothing was recorded/.test(document.querySelector('.tip')
		.textContent));
	/* Where something was: in CPUs, beside how many there are. */
	const n_cpus = (await api(incident, 'stat')).cpus.length;
	await page.mouse.move(box.x + box.width * 60 / 180, box.y + 40);
	await page.waitForFunction(n => new RegExp(`server: [\\d.]+ CPUs[^]*of ${n} CPUs`)
		.test(document.querySelector('.tip').textContent), n_cpus);
});

/* With the shift key, the range to compare with. */
onPage('a second brush', incident, '?by=comm&from=1777631000', async page => {
	const box = await page.locator('#time .u-over').boundingBox(), y = box.y + 40;
	await page.keyboard.down('Shift');
	await page.mouse.move(box.x + box.width * 0.1, y);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.4, y, { steps: 4 });
	await page.mouse.up();
	await page.keyboard.up('Shift');
	await settled(page);
	assert.equal(param(page, 'from'), '1777631000');
	assert.ok(Number(param(page, 'against_to')) > Number(param(page, 'against_from')));
	assert.match(await said(page, '#panel-flame .legend'), /may be chance/);
});

/*
 * Against the same length of time before, with what functions call; their own CPU alone when asked
 * for.
 */
onPage('what changed', incident, '?by=comm&from=1777631000&to=1777631400&tab=diff', async page => {
	const range =
		'from=1777631000&to=1777631400&against_from=1777630600&against_to=1777631000&limit=1000';
	const diff = await api(incident, `diff?${range}&inclusive=1`),
		own = await api(incident, `diff?${range}`);
	const row = n => page.locator(`#panel-diff tbody tr:nth-child(${n})`).innerText();
	assert.ok((await row(1)).includes('render_report') &&
		diff.rows[0].function === 'render_report');
	assert.match(await said(page, '#panel-diff [role=status]'),
		new RegExp(`${diff.n_rows} functions, ${diff.n_changed} changed`));
	await page.check('input[name=own]');
	await settled(page);
	assert.match(await said(page, '#panel-diff [role=status]'),
		new RegExp(`${own.n_rows} functions, ${own.n_changed} changed`));
});

/* Nothing was recorded before: no function has grown from nothing. */
onPage('nothing to compare with', incident, '?by=comm&to=1777629900&tab=diff', async page => {
	assert.match(await said(page, '#panel-diff tbody'), /There is nothing to compare with/);
	assert.equal(await page.locator('#panel-diff tbody tr').count(), 1);
});

/* Times as people write them. */
onPage('times as they are typed', incident, '?by=comm', async page => {
	for (const [text, want] of [['5m', 'now-5m'], ['-2h', 'now-2h'],
		['10 minutes ago', 'now-10m'], ['2026-05-01 10:00',
		String(new Date('2026-05-01T10:00').getTime() / 1000)]]) {
		await page.fill('input[name=from]', text);
		await page.keyboard.press('Enter');
		assert.equal(param(page, 'from'), want);
	}
	await settled(page);
	assert.equal(await page.inputValue('input[name=from]'), '2026-05-01 10:00:00');
});

/* Signs and words that only somebody who knows the page already can read. */
onPage('words, not signs', incident, '?by=comm', async page => {
	const words = [];
	for (const query of ['?by=comm', `?by=comm&where=${q('{tenant!="b"}')}`,
		'?by=comm&tab=why', '?by=comm&tab=functions']) {
		await page.goto(`${incident}/${query}`);
		await settled(page);
		words.push(await said(page, 'body'));
	}
	for (const no of [/[≠≈≉±]/, /against before/i, /\bCourse\b/, /\bLines (waited|were)/])
		assert.doesNotMatch(words.join('\n'), no);
	assert.match(words[1], /tenant != b/);
	assert.match(words[0], /compare with before[^]*\bnot\b[^]*vs rest/);
});

/* However many columns there are: a narrow window, columns side by side. */
onPage('what can be done with a value stays in sight', url, '?by=tenant', async page => {
	const row = page.locator('#values tbody tr').first(),
		scroll = await page.locator('#values .scroll').boundingBox();
	const button = await row.locator('button[name=rest]').boundingBox();
	assert.ok(button.x + button.width <= scroll.x + scroll.width + 1,
		JSON.stringify([button, scroll]));
}, { viewport: { width: 920, height: 700 } });

onPage('brush, back and forward', long, '?by=tenant', async page => {
	const box = await page.locator('#time .u-over').boundingBox(), y = box.y + 40;
	await page.mouse.move(box.x + box.width * 0.25, y);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
	await page.mouse.up();
	await settled(page);
	const from = param(page, 'from'), to = param(page, 'to'), all = await api(long, 'series');
	assert.ok(Math.abs(from - (all.from + (all.to - all.from) / 4)) < (all.to - all.from) / 50,
		`${from} of ${all.from}`);
	const part = await api(long, `series?from=${from}&to=${to}`);
	assert.ok(part.samples < all.samples / 2 && part.samples > all.samples / 8);
	assert.equal(digits((await said(page, '#facts')).match(/([\d\u202f]+) samples/)[1]),
		part.samples);
	await page.goBack();
	await settled(page);
	assert.equal(param(page, 'from'), '');
	assert.equal(digits((await said(page, '#facts')).match(/([\d\u202f]+) samples/)[1]),
		all.samples);
	await page.goForward();
	await settled(page);
	assert.equal(param(page, 'to'), to);
	await page.click('button[name=wider]');
	await settled(page);
	assert.ok(Number(param(page, 'from')) < Number(from) &&
		Number(param(page, 'to')) > Number(to));
});

onPage('from a tenant to its queries to the rest', url, '?by=tenant', async page => {
	await page.click('#values button[data-value=a]');
	await settled(page);
	assert.equal(param(page, 'where'), '{tenant="a"}');
	assert.equal(digits((await said(page, '#facts')).match(/([\d\u202f]+) samples/)[1]),
		truth.a);
	assert.equal(await page.locator('#values tr.chosen').count(), 1);
	await page.selectOption('select[name=by]', 'query_id');
	await page.check('input[name=split]');
	await settled(page);
	const values = await api(url, `table?by=query_id&where=${q('{tenant="a"}')}`);
	assert.match(await said(page, '#panel-flame .legend'),
		new RegExp(`^${values.rows[0].key.query_id ?? '\\(none\\)'}\\n`));
	await clickFrame(page, 1, 0.02);
	assert.match(param(page, 'root'), /^[0-9a-f]{8}$/);
	assert.match(await said(page, '#panel-flame .frame'),
		new RegExp(`${values.rows[0].samples} samples`));
	await page.click('button[name=against-rest]');
	await settled(page);
	assert.equal(param(page, 'against'), '{tenant!="a"}');
	assert.match(await said(page, '#panel-flame .legend'), /may be chance/);
	await page.click('#tab-functions');
	await settled(page);
	const diff = await api(url,
		`diff?where=${q('{tenant="a"}')}&against=${q('{tenant!="a"}')}&limit=1000`);
	assert.match(await said(page, '#panel-functions [role=status]'),
		new RegExp(`${diff.n_rows} functions, ${diff.n_changed} changed`));
	await page.click('button[name=no-baseline]');
	await settled(page);
	assert.equal(param(page, 'against'), '');
	await page.click('.chip button');
	await settled(page);
	assert.equal(param(page, 'where'), '');
});
