/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the page share: a browser, a page that notices what should not be, servers over
 * stores, the API as the oracle.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

const { chromium } = createRequire(process.env.E2E_MODULES + '/')('playwright-core');

export const build = process.env.BUILD, ROW = 18;

export async function launch() {
	return chromium.launch({ executablePath: process.env.BROWSER,
		args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
}

const servers = [];

/* `ascribe serve` over a store -> its address; without other options nothing asks for a token. */
export function serve(store, ...args) {
	const p = spawn(`${build}/ascribe`, ['serve', store, '-l', '127.0.0.1:0',
		...(args.length ? args : ['--anonymous'])],
		{ stdio: ['ignore', 'ignore', 'pipe'] });
	servers.push(p);
	return new Promise((ok, fail) => {
		let said = '';
		p.stderr.on('data', d => {
			said += d;
			const m = said.match(/ on (http:\/\/\S+)/);
			if (m)
				ok(m[1]);
		});
		p.on('exit', () => fail(new Error('the server ended: ' + said)));
	});
}

export const run = (command, ...args) => {
	const p = spawn(command, args, { stdio: 'ignore' });
	servers.push(p);
	return p;
};

export const stop = () => servers.forEach(p => p.kill());
process.on('exit', stop); /* whatever ended the test */

export const api = async (url, what) => (await fetch(`${url}/api/v1/${what}`)).json();
export const q = encodeURIComponent;

/*
 * A page in a context of its own, asked for after so long. bad: what the console, the network and
 * the policy complained of.
 */
export async function open(browser, url, options = {}, wait_ms = 0) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 800 },
		...options });
	const page = await context.newPage(), bad = [];
	page.setDefaultTimeout(60000);
	/* That is what colours() does */
	page.on('console', m => ['error', 'warning'].includes(m.type()) &&
		!/getImageData/.test(m.text()) && bad.push(m.text()));
	page.on('pageerror', e => bad.push(e.message));
	page.on('dialog', d => { bad.push('dialog: ' + d.message()); d.dismiss(); });
	await page.addInitScript(() => addEventListener('securitypolicyviolation',
		e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI)));
	if (wait_ms)
		await page.waitForTimeout(wait_ms);
	await page.goto(url);
	return { page, bad, context };
}

/* Everything asked for has come, and was drawn. */
export async function settled(page) {
	await page.waitForFunction(() => !document.querySelector('[aria-busy]') &&
		['facts', 'chart', 'values'].every(n => performance.getEntriesByName('drawn-' + n)
		.length));
	await page.evaluate(() => new Promise(go =>
		requestAnimationFrame(() => requestAnimationFrame(go))));
}

export const said = (page, selector) => page.locator(selector).innerText();
export const param = (page, name) => new URL(page.url()).searchParams.get(name) || '';

/* Click on the canvas: level from the root, part of its width. */
export async function clickFrame(page, level, part,
	canvas = '#panel-flame .graph canvas >> visible=true >> nth=0') {
	const box = await page.locator(canvas).boundingBox();
	await page.mouse.click(box.x + box.width * part, box.y + (level + 0.5) * ROW);
	await settled(page);
}

/* How many colours the canvas shows. */
export const colours = (page, selector = '.graph canvas >> visible=true >> nth=0') =>
	page.locator(selector).evaluate(canvas => {
	const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data,
		seen = new Set();
	for (let i = 0; i < all.length; i += 4 * 97)
		seen.add(all[i] << 16 | all[i + 1] << 8 | all[i + 2]);
	return seen.size;
});

export const digits = text => Number(text.replace(/[\u202f,]/g, ''));
