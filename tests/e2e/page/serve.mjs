/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from outside: addresses, clocks, servers that refuse, tokens, a real recording. */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { api, build, clickFrame, colours, digits, open, param, q, run, said, serve, settled } from
	'../lib.mjs';
import { browser, incident, long, names, onPage, test, url } from './shared.mjs';

/* Who opens the link later sees what was seen. */
onPage('share', incident, '?by=comm&from=1777631000', async (page, { context }) => {
	await context.grantPermissions(['clipboard-read', 'clipboard-write']);
	await page.click('button[name=share]');
	await page.waitForFunction(() => /Copied/.test(document
		.querySelector('button[name=share]').textContent));
	await settled(page);
	const link = await page.evaluate(() => navigator.clipboard.readText());
	assert.equal(link, page.url());
	const { to } = await api(incident, 'labels?names_only=1');
	assert.deepEqual([param(page, 'from'), param(page, 'to')], ['1777631000', String(to)]);
	assert.deepEqual([param(page, 'live'), param(page, 'by')], ['', 'comm']);
});

/* A link to a label that nobody sets any more. */
onPage('a key that is gone', url, '?by=no_such_key&split=1', async page => {
	assert.equal(param(page, 'by'), 'no_such_key');
	assert.match(await said(page, '#values'), /No sample here has a label no_such_key\./);
	assert.equal(await page.locator('#values select[name=by]').inputValue(), 'no_such_key');
	await page.selectOption('select[name=by]', 'comm');
	await settled(page);
	assert.match(await said(page, '#values tbody tr:nth-child(1)'), /server/);
});

/* Of a key that became wide in the newest file there are sets of both kinds. */
onPage('each label once', long, '', async page => {
	const keys = await page.locator('#values select[name=by] option').allInnerTexts();
	assert.ok(keys.includes('query_id'));
	assert.equal(new Set(keys).size, keys.length, keys.join(' '));
});

test('each label of several stores once', async () => {
	const several = await serve('store', 'wide', '--anonymous'),
		keys = (await api(several, 'labels?names_only=1')).keys.map(k => k.key);
	assert.ok(keys.includes('comm'));
	assert.equal(new Set(keys).size, keys.length, keys.join(' '));
});

/* Of what somebody else sampled nobody knows what was lost. */
test('a profile of others', async () => {
	const it = await open(browser, await serve('others'));
	await it.page.waitForFunction(() => performance.getEntriesByName('drawn-findings').length);
	assert.match(await said(it.page, '#findings'), /Nothing differs/);
	assert.match(await said(it.page, '#values'), /No labels here\./);
	assert.ok(await it.page.locator('.health').isHidden());
	assert.deepEqual(it.bad, []);
	await it.context.close();
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
	assert.match(await said(page, '#findings'), /tenant b uses/);
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

onPage('nothing to show', url, '?from=100&to=200', async page => {
	assert.match(await said(page, '#facts'), /^no samples\b/);
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
	/* The newest window of drip is ten seconds newer four times a second, until it is now. */
	await page.waitForFunction(() => /^Live, \d+ s old$/.test(document
		.querySelector('button[name=live]').textContent));
	const shown = Number((await said(page, 'button[name=live]')).match(/\d+/)[0]),
		{ now, to } = await api(base, 'labels?names_only=1');
	assert.ok(shown >= now - to - 2 && shown <= 610, `${shown} s of ${now - to}`);
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
		const { page, bad, context } = await open(browser, base + '/?by=comm',
			{ viewport: { width: 1400, height: 800 } });
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
		/* However wide: neither the page nor the table is wider */
		for (const width of [1400, 1024, 920, 400]) {
			await page.setViewportSize({ width, height: 800 });
			await settled(page);
			const [body, box, columns] = await page.evaluate(() =>
				[document.documentElement,
				document.querySelector('#panel-blame .scroll')].map(e =>
				e.scrollWidth - e.clientWidth)
				.concat(document.querySelectorAll('.matrix thead th')
				.length));
			assert.ok(body <= 0, `${width}: the page by ${body}`);
			assert.ok(width === 400 || box <= 0, `${width}: the table by ${box}`);
			assert.ok(width < 1400 && width > 400 ||
				columns === blame.occupants.length + 2, `${width}: ${columns}`);
		}
		await page.setViewportSize({ width: 1400, height: 800 });
		await settled(page);
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
		await page.selectOption('select[name=blame]', 'locks');
		await settled(page);
		const { locks } = await api(base, 'locks?by=comm&limit=50&idle=1');
		assert.ok(locks.length > 0);
		assert.equal(await page.locator('.locks tbody tr').count(), locks.length);
		assert.match(await said(page, '.locks tbody tr:first-child'),
			new RegExp(`${locks[0].is}\\s*${locks[0].kind}`));
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
