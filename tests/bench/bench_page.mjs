/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_page.sh prints. */
import { readFileSync, writeFileSync } from 'node:fs';
import { api, build, launch, open, serve, stop } from '../e2e/lib.mjs';

const N = Number(process.env.N || 15), median = v => v.slice().sort((a, b) => a - b)[v.length >> 1],
	worst = v => Math.max(...v);
const figure = (id, values) => console.log(['figure', id, 'ascribe', values.join(' ')].join('\t'));
const browser = await launch();

/*
 * Each in a window of its own, whose own controls are a page of the browser, too: they take 0.2 s
 * of CPU while the window opens. wait_ms: until the page is asked for.
 */
async function loads(url, id, what, wait_ms) {
	const drawn = [];
	for (let i = 0; i < N; i++) {
		const { page, context } = await open(browser, url, {}, wait_ms);
		await page.waitForFunction(() => ['facts', 'chart', 'values',
			'flame'].every(n => performance.getEntriesByName('drawn-' + n).length));
		drawn.push(await page.evaluate(() => Object.fromEntries(
			performance.getEntriesByType('mark')
			.map(m => [m.name.slice(6), m.startTime]))));
		await context.close();
	}
	const all = drawn.map(d => Math.max(...Object.values(d)));
	if (id)
		figure(id, all);
	console.log(
		`${what}: everything drawn after ${median(all).toFixed(0)} ms (median of ${N}; best ${Math.min(...all).toFixed(0)}, worst ${worst(all).toFixed(0)}); ` +
		Object.keys(drawn[0]).map(k => `${k} ${median(drawn.map(d => d[k])).toFixed(0)}`)
			.join(', '));
}

console.log('== from the address to everything drawn, on loopback');
const day = await serve('day');
const WINDOW_MS = 700;
for (const [wait, how] of [[0, ''], [WINDOW_MS, ', in a window that is open already']]) {
	await loads(`${day}/?from=1777708800`, wait ? 'page/open' : 'page/hours',
		'the last two hours of a day of 3,000 rows a window' + how, wait);
	await loads(day + '/', wait ? '' : 'page/day', 'all of the day' + how, wait);
}
await api(day, 'stat');

/* 4,000 leaves, 25 deep: none shares a frame with its neighbour below the first levels. */
function graph(leaves, depth) {
	const frames = ['all', '', 4, '(other)', '', 4], nodes = [0, leaves * 10, 0];
	for (let i = 0; i < 3000; i++)
		frames.push(
			`server::module_${i % 90}::function_with_a_name_${i}(std::string const&)`,
			i % 5 ? '/usr/bin/server' : `/usr/lib/lib${i % 30}.so`, i % 4);
	for (let i = 0; i < leaves; i++)
		for (let d = 1; d <= depth; d++)
			nodes.push(d, 10, 2 + (i * 31 + d * 7) % 3000);
	return { frames, nodes, what: 'made', host: '', os: '', where: '', event: 'cpu-clock',
		ns_per_sample: 1e7, from: 0, to: 10, samples: leaves * 10,
		seconds: 1, idle: 0, fired: leaves * 10, stored: leaves * 10, lost: {}, flagged: {},
			pruned: 0 };
}

const data = graph(4000, 25);
writeFileSync('big.html', readFileSync(`${build}/gen/web/flame.html`, 'utf8')
	.replace('@FLAME_DATA@', () => JSON.stringify(data)));
console.log(
	`== zoom and pan, ${data.nodes.length / 3} nodes, 1280 x 800, software rendering`);
const { page } = await open(browser, `file://${process.cwd()}/big.html`);
for (const [id, what, move] of [['zoom', 'zoom in and out',
	'v.zoomAt(v.width / 3, n % 120 < 60 ? 0.93 : 1 / 0.93)'],
	['pan', 'pan', 'n === 0 && v.zoomAt(v.width / 2, 0.2); v.pan(n % 160 < 80 ? 12 : -12)'],
	['all', 'all of it drawn again', 'n === 0 && v.view(0, 1e9); v.redraw()']]) {
	const got = await page.evaluate(([move, frames]) => new Promise(done => {
		const v = window.page.flame.view, step = new Function('v', 'n', move),
			draw = v.draw.bind(v), took = [], gaps = [];
		let n = 0, last = 0;
		v.draw = () => {
			const t = performance.now();
			draw();
			took.push(performance.now() - t);
		};
		const tick = t => {
			if (last)
				gaps.push(t - last);
			last = t;
			if (n === frames) {
				delete v.draw;
				done({ took, gaps });
				return;
			}
			step(v, n++);
			requestAnimationFrame(tick);
		};
		requestAnimationFrame(tick);
	}), [move, 300]);
	const sorted = got.took.slice().sort((a, b) => a - b),
		p99 = sorted[Math.floor(sorted.length * 0.99)];
	figure('page/' + id, [1000 * got.gaps.length / got.gaps.reduce((a, b) => a + b)]);
	console.log(
		`${what}: drawing ${median(got.took).toFixed(1)} ms (99%: ${p99.toFixed(1)}), a frame every ${median(got.gaps).toFixed(1)} ms, ` +
		`${(1000 * got.gaps.length / got.gaps.reduce((a, b) => a + b)).toFixed(1)} frames/s`);
}
await browser.close();
stop();
