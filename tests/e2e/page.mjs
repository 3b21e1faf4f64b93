/* SPDX-License-Identifier: Apache-2.0 */
/* The page over real servers, in Chromium: what a person does, and what the API says of it. */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { api, build, clickFrame, colours, digits, launch, open, param, q, run, said, serve, settled,
	stop } from './lib.mjs';

const truth = JSON.parse(readFileSync('truth.json'));
const only = process.argv[2];
const browser = await launch();
const url = await serve('store'), wide = await serve('wide'), long = await serve('long'),
	names = await serve('names'), incident = await serve('incident');
const tests = [];
const test = (name, f) => (!only || name.includes(only)) && tests.push([name, f]);

/* A test with a page that must not complain. */
const onPage = (name, base, query, f, options) => test(name, async () => {
	const it = await open(browser, base + '/' + query, options);
	await settled(it.page);
	await f(it.page, it);
	assert.deepEqual(it.bad, []);
	await it.context.close();
});

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
		/^server uses 0\.9\d CPUs since \d\d:\d\d:\d\d, 0\.2\d before, mostly in render_report\nb uses 0\.8\d CPUs/);
	const found = await api(incident, `findings?from=${all.to - 900}&to=${all.to}&limit=12`);
	assert.equal(await page.locator('#findings li').count(), found.findings.length);
	assert.match(await said(page, '#values tbody tr:nth-child(1)'), /^server/);
	assert.match(await said(page, '#values tbody tr:nth-child(1) .more'), /^\+0\.2\d$/);
	assert.match(await said(page, '#panel-flame .legend'), /^server\npostgres/);
	await page.click('#findings li:nth-child(2) button');
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

/* A link to a label that nobody sets any more. */
onPage('a key that is gone', url, '?by=no_such_key&split=1', async page => {
	assert.equal(param(page, 'by'), 'no_such_key');
	assert.match(await said(page, '#values'), /\(none\)[\s\S]*100%|no_such_key/);
	assert.equal(await page.locator('#values select[name=by]').inputValue(), 'no_such_key');
	await page.selectOption('select[name=by]', 'comm');
	await settled(page);
	assert.match(await said(page, '#values tbody tr:nth-child(1)'), /server/);
});

/* The times of the host are those that count, whatever the clock of the browser says. */
onPage('a browser with a wrong clock', incident, '?by=comm', async page => {
	await page.addInitScript(() => {
		const now = Date.now;
		Date.now = () => now() + 400 * 86400000;
	});
	await page.goto(incident);
	await settled(page);
	const all = await api(incident, 'labels?names_only=1');
	assert.deepEqual([param(page, 'from'), param(page, 'to')],
		[String(all.to - 900), String(all.to)]);
	assert.match(await said(page, '#findings'), /server uses/);
	await page.click('button[data-from="now-1h"]');
	await settled(page);
	assert.equal(param(page, 'from'), 'now-1h');
});

/* Each has an address of its own. */
onPage('two windows of one page', url, '?by=comm', async (page, { context }) => {
	const other = await context.newPage();
	await other.goto(`${url}/?by=tenant`);
	await settled(other);
	await page.click('#tab-functions');
	await other.click('#values button[data-value=a]');
	await Promise.all([settled(page), settled(other)]);
	assert.deepEqual([param(page, 'where'), param(page, 'tab'), param(page, 'by')],
		['', 'functions', 'comm']);
	assert.deepEqual([param(other, 'where'), param(other, 'tab'), param(other, 'by')],
		['{tenant="a"}', '', 'tenant']);
	await other.goBack();
	await settled(other);
	assert.equal(param(other, 'where'), '');
});

/*
 * What was shown stays, and what cannot be answered any more is said; the page goes on when the
 * store is there again.
 */
test('a store that is deleted while it is shown', async () => {
	cpSync('store', 'doomed', { recursive: true });
	const { page, context, bad } = await open(browser, await serve('doomed') + '/?by=comm');
	await settled(page);
	rmSync('doomed', { recursive: true });
	await page.waitForTimeout(600); /* the server looks at the directory twice a second */
	await page.click('button[data-from="now-6h"]');
	await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
	assert.match(await said(page, 'body'), /the store is not there/);
	assert.match(await said(page, '#values tbody tr:nth-child(1)'), /server/);
	cpSync('store', 'doomed', { recursive: true });
	await page.waitForTimeout(600);
	await page.click('button[data-from=""]');
	await settled(page);
	assert.doesNotMatch(await said(page, 'body'), /the store is not there/);
	assert.deepEqual(bad.filter(t => !/status of 50\d/.test(t)), []);
	await context.close();
});

/* The server asks a database for it: at first there is no answer. */
onPage('the SQL behind query ids', url, '?by=tenant', async page => {
	const ids = (await api(url, 'table?by=query_id')).rows.map(r => r.key.query_id)
		.filter(v => v !== null), asked = [];
	await page.route('**/api/v1/statements?*', r => {
		asked.push(new URL(r.request().url()).searchParams.get('ids'));
		const done = asked.length > 1;
		r.fulfill({ json: { configured: true, pending: !done, error: null,
			statements: done
			? { [ids[0]]: 'select\n  <img src=x onerror=alert(1)>\u202e from t' }
			: {} } });
	});
	await page.selectOption('select[name=by]', 'query_id');
	await page.waitForSelector('#values small.sql');
	assert.equal(await said(page, '#values small.sql'),
		'select <img src=x onerror=alert(1)>\ufffd from t');
	assert.equal(asked.length, 2);
	assert.ok(asked[0].split(',').includes(ids[0]));
});

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

onPage('bad addresses say what is wrong', url,
	'?from=yesterday&nothing=1&tab=x&colour=red&root=zz&view=sandwich', async page => {
	const text = await said(page, '#problems');
	for (const name of ['from=yesterday', 'nothing=1', 'tab=x', 'colour=red', 'root=zz',
		'view=sandwich'])
		assert.ok(text.includes(name), `${name} in ${text}`);
	assert.ok(await colours(page, '#panel-flame .graph canvas >> nth=-1') >= 8);
	await page.click('#tab-functions');
	assert.equal(await said(page, '#problems'), '');
});

/* What the server refuses is a message in the console, too: that one is the browser's. */
test('what the server refuses is said, and left out', async () => {
	for (const [query, text,
		left] of [
		[
		`?where=${q('{tenant=')}`, 'selector, column', 'where'],
		['?root=00000001', 'no such frame', 'root'],
		['?event=none', 'event', 'event'], [`?from=5&to=${q('now-90000w')}`, 'from',
			'from']]) {
		const { page, bad, context } = await open(browser, url + '/' + query);
		await settled(page);
		await page.waitForFunction(() => document.querySelector('#problems').textContent);
		assert.ok((await said(page, '#problems')).includes(text),
			await said(page, '#problems'));
		assert.ok((await said(page, '#facts')).includes('samples'), left);
		assert.deepEqual(bad.filter(b => !/status of 40[04]/.test(b)), []);
		await context.close();
	}
});

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
}, { viewport: { width: 400, height: 700 } });

onPage('nothing to show', url, '?from=100&to=200', async page => {
	assert.match(await said(page, '#facts'), /^no samples\s/);
	assert.match(await said(page, '#time'), /No window in this range/);
	assert.match(await said(page, '#values'), /Nothing matches/);
	assert.match(await said(page, '#panel-flame'), /No sample matches/);
});

onPage('a value too long to be selected', names, '?by=tenant', async page => {
	await page.click('#values button[data-value^=xxxx]');
	assert.match(await said(page, '#problems'), /cannot be selected/);
	assert.equal(param(page, 'where'), '');
});

test('live', async () => {
	run(`${build}/tests/mkstore`, 'drip', 'drip');
	let base;
	for (let i = 0; !base; i++) {
		await new Promise(go => setTimeout(go, 100));
		base = await serve('drip').catch(e => { if (i > 50) throw e; });
	}
	const { page, bad, context } = await open(browser, base + '/?live=1&from=now-1h');
	await settled(page);
	await page.click('summary[name=health]');
	const fired = async () => digits((await said(page, '#facts'))
		.match(/due ([\d\u202f]+)/)[1]), before = await fired();
	await page.waitForFunction(n => Number(document.querySelector('#facts')
		.innerText.match(/due ([\d\u202f]+)/)[1].replace('\u202f', '')) > n, before,
		{ timeout: 60000 });
	assert.equal(await page.getAttribute('button[name=live]', 'aria-pressed'), 'true');
	assert.deepEqual(bad, []);
	await context.close();
});

test('a token', async () => {
	const base = await serve('store', '--token-file', 'token');
	const { page, context } = await open(browser, base);
	await page.fill('input[name=token]', '0123456789abcdef0123');
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => performance.getEntriesByName('drawn-flame').length);
	assert.match(await said(page, '#facts'), /samples/);
	await context.close();
});

test('the token of the address', async () => {
	const base = await serve('store', '--workers', '2'),
		token = base.match(/#token=([0-9a-f]{48})$/)[1];
	assert.equal((await fetch(base.replace(/#.*/, 'api/v1/stat'))).status, 401);
	const { page, bad, context } = await open(browser, base), asked = [];
	page.on('request', r => asked.push(r.url()));
	await settled(page);
	assert.ok(!(await page.evaluate(() => location.href)).includes('token'));
	await page.reload();
	await settled(page);
	assert.match(await said(page, '#facts'), /samples/);
	await page.click('.menu summary');
	const [d] = await Promise.all([page.waitForEvent('download'),
		page.click('a[data-export="stacks.folded"]')]);
	assert.equal(d.suggestedFilename(), 'stacks.folded');
	await d.saveAs('saved-with-token');
	assert.match(readFileSync('saved-with-token', 'utf8'), / \d+\n$/);
	assert.ok(asked.length > 3 && !asked.some(u => u.includes(token)), asked.join());
	assert.deepEqual((await context.cookies()), []);
	assert.deepEqual(bad, []);
	/* Another token in the same tab, as after a restart of the server. */
	await page.evaluate(() => sessionStorage.setItem('ascribe-token', 'no longer good, 0123'));
	await page.goto(base);
	await page.waitForFunction(() => !location.hash);
	await settled(page);
	assert.match(await said(page, '#facts'), /samples/);
	await context.close();
});

test('the policy allows nothing inline', async () => {
	const policy = (await fetch(url)).headers.get('content-security-policy');
	assert.ok(policy.includes("default-src 'self'") && !policy.includes('unsafe'), policy);
});

/* What was recorded here, if it could be: with waits. */
if (process.env.REAL) {
	test('a real recording', async () => {
		const base = await serve(process.env.REAL), stat = await api(base, 'stat');
		const { page, bad, context } = await open(browser, base + '/?by=comm');
		await settled(page);
		await page.click('summary[name=health]');
		assert.equal(digits((await said(page, '#facts')).match(/due ([\d\u202f]+)/)[1]),
			stat.fired);
		await clickFrame(page, 1, 0.01);
		await page.goto(base + '/?by=comm&tab=blame');
		await page.waitForFunction(() => performance.getEntriesByName('drawn-blame')
			.length);
		const blame = await api(base, 'blame?by=comm&limit=12');
		assert.equal(await page.locator('.matrix tbody tr').count(),
			blame.victims.length || 1);
		assert.equal(await page.locator('.matrix td.heat').count(), blame.cells.length);
		/* Waits for a CPU are never idle */
		assert.equal(await page.locator('input[name=blame-idle]').isVisible(), false);
		await page.selectOption('select[name=blame]', 'waker');
		await settled(page);
		const heats = async query => {
			const wakers = await api(base, 'blame?by=comm&limit=12&metric=waker' +
				query), text = await said(page, '#panel-blame .match');
			assert.equal(await page.locator('.matrix td.heat').count(),
				wakers.cells.length);
			assert.match(text, /blocked by \d+ values of comm/);
			assert.equal(/idle waits left out/.test(text), wakers.idle_waits > 0);
			return wakers;
		};
		const without = await heats('');
		await page.check('input[name=blame-idle]');
		await settled(page);
		assert.match(page.url(), /[?&]idle=1/);
		const all = await heats('&idle=1');
		assert.ok(without.idle_waits > 0 && all.seconds > without.seconds);
		await page.uncheck('input[name=blame-idle]');
		await page.selectOption('select[name=blame]', '');
		await settled(page);
		await page.click('#tab-waits');
		await settled(page);
		const waits = await api(base, 'histogram?metric=runq&by=comm&limit=30');
		assert.equal(digits(await page.locator('#panel-waits tbody tr:nth-child(1) td.n')
			.first().innerText()), waits.rows[0].count);
		assert.equal(await page.locator('#panel-waits svg.hist').count(),
			waits.rows.length);
		await page.check('input[name=waits]');
		await settled(page);
		assert.match(await said(page, '#values thead'), /Run queue[\s\S]*Blocked/);
		await page.selectOption('select[name=event]', 'metric:wall');
		await page.click('#tab-flame');
		await settled(page);
		assert.match(await said(page, '#facts'), /wall time/);
		assert.match(await said(page, '#panel-flame .frame'),
			/^all\s+[\d.]+ (s|ms|min|h), 100% of all/);
		assert.deepEqual(bad, []);
		await context.close();
	});
}

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
