/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of the page that need no browser. */
import assert from 'node:assert/strict';
import { N_VALUES, colourValues, valueColour } from '../../web/colour.js';
import {
	baseName, brief, counted, eventName, exactTime, interval, percent, plain, seconds, timeRange
} from '../../web/format.js';
import { foldOccupants } from '../../web/fold.js';
import { exact, Grid } from '../../web/heat.js';
import { typed } from '../../web/bar.js';
import * as selector from '../../web/selector.js';
import * as state from '../../web/state.js';
import { below, children, follow, frameId, matchFrames, matchedTotal, name, overlay, pathOf,
	prunedBelow, unpack, unpackSplit } from '../../web/tree.js';
import { isLive, sources, stack } from '../../web/steps.js';

let passed = 0;
const test = (what, f) => { f(); passed++; };

test('live memory is an average, not a rate', () => {
	const answer = { metric: 'heap', from: 0, step: 10, n_steps: 2, covered: [10, 5] },
		rows = [{ points: [[0, 100], [10, 200]] }];
	assert.deepEqual(stack(answer, rows, 1)[1], [100, 200, 200]);
	assert.deepEqual(stack({ ...answer, metric: 'alloc_space' }, rows, 1)[1], [10, 40, 40]);
	assert.ok(isLive({ metric: 'inuse_objects' }) && !isLive({}));
	assert.equal(counted(3 << 20, 'bytes'), '3.0 MiB');
	assert.equal(counted(2e9, 'nanoseconds'), '2.00 s');
	assert.equal(counted(7, undefined), '7 samples');
	assert.equal(counted(7, 'count'), '7');
});

test('events are named without the directories of their files', () => {
	assert.equal(eventName('uprobe:/usr/bin/a:net/http.serve:arg1=bytes'),
		'uprobe:a:net/http.serve:arg1=bytes');
	assert.equal(eventName('usdt:./b:p:n'), 'usdt:b:p:n');
	assert.equal(eventName('cpu/event=0x3c/u'), 'cpu/event=0x3c/u');
});

test('values are of an event, other metrics of none', () => {
	for (const [metric, event] of [['', 'e'], ['value', 'e'], ['inuse_space', ''], ['off', '']])
		assert.equal(state.select({ metric, event: 'e' }).event, event);
	assert.deepEqual(state.parse('?metric=heap')[1], []);
	assert.equal(state.parse('?metric=miles')[1].length, 1);
});

test('steps of a heat map by second', () => {
	const g = new Grid({ from: 100.9, step: 0.05, steps: 43,
		rows: [{ cells: Array.from({ length: 43 }, (_, i) => i) }] });
	assert.deepEqual([g.lines, g.first, g.skip, g.columns], [20, 100, 18, 4]);
	assert.deepEqual([g.at(0, 17), g.at(0, 18), g.at(1, 0), g.at(3, 0), g.at(3, 1)],
		[-1, 0, 2, 42, -1]);
	for (let i = 0; i < 43; i++)
		assert.equal(g.at(...g.place(i)), i);
	assert.deepEqual(g.range(4, 2).map(exact), ['101', '101.15']);
	assert.equal(g.sum(4, 2), 9);
	assert.equal(exact(1795730889.1234), '1795730889.123');
});

test('parts of a second', () => {
	const at = Date.UTC(2026, 10, 28, 1, 55, 18) / 1000;
	assert.match(exactTime(at), /:55:18$/);
	assert.match(exactTime(at + 0.3), /:55:18\.300$/);
	assert.match(exactTime(at - 0.0001), /:55:18$/);
	assert.match(timeRange(at + 0.3, at + 0.45), /:55:18\.300 – ..:55:18\.450$/);
	assert.match(timeRange(at + 0.3, at + 90), /:55:18 – ..:56:48$/);
	assert.equal(typed(exactTime(at + 0.3)), String(at + 0.3));
});

test('the address and back', () => {
	const s = { ...state.defaults(), where: '{a="ü &%="}', from: 'now-1h',
		root: '0123abcd.00000000', live: '1' };
	assert.deepEqual(state.parse(state.format(s)), [s, []]);
	assert.equal(state.format(state.defaults()), '');
	for (const empty of ['tab=', 'sort=&tab=', 'colour', 'tab=&where=&live='])
		assert.deepEqual(state.parse(empty), [state.defaults(), []], empty);
	for (const bad of ['from=x', 'tab=x', 'tab=&tab=', 'root=0', 'no=1', '__proto__=1',
		'toString=1', 'live=2', 'from=1&from=2', 'from=9&to=3', 'view=sandwich',
		'where=' + 'x'.repeat(9000)]) {
		const [got, problems] = state.parse(bad);
		assert.equal(problems.length, 1, bad);
		for (const name of ['tab', 'root', 'view', 'to', 'where'])
			assert.equal(got[name], state.defaults()[name], bad);
	}
});

test('selectors', () => {
	const values = ['a', '', 'q"\\', "'`", 'line\nbreak\t', '{},="', 'ü\u202e'];
	for (const v of values)
		for (const k of ['tenant', 'a b', 'x"y']) {
			const text = selector.format([{ key: k, op: '!~', value: v },
				{ key: 'z', op: '=', value: '1' }]);
			assert.deepEqual(selector.parse(text),
				[{ key: k, op: '!~', value: v }, { key: 'z', op: '=', value: '1' }],
				text);
		}
	assert.deepEqual(selector.parse(" a = 'x' , b=~`\\d+` "),
		[{ key: 'a', op: '=', value: 'x' }, { key: 'b', op: '=~', value: '\\d+' }]);
	for (const bad of ['{a="1"', 'a', 'a="', 'a="1" b="2"', '="1"', 'a="\\x41"'])
		assert.equal(selector.parse(bad), null, bad);
	assert.equal(selector.and('{a="1",b="2"}', 'a', '=', '3'), '{b="2",a="3"}');
	assert.equal(selector.and('{a!="1"}', 'a', '!=', '2'), '{a!="1",a!="2"}');
	assert.equal(selector.and('{a="\\x41"}', 'b', '=', '2'), '{a="\\x41",b="2"}');
	assert.equal(selector.without('{a="1",b="2"}', 'a'), '{b="2"}');
});

test('foreign text', () => {
	assert.equal(plain('a\u202eb\u0000\u2066c\u001b'), 'a\ufffdb\ufffd\ufffdc\ufffd');
	assert.equal(brief('x'.repeat(1e6), 5), 'xxxx…');
	assert.equal(brief('🔥🔥🔥', 3), '🔥🔥🔥');
	assert.equal(baseName('/a/b'), 'b');
	const begin = performance.now();
	baseName('x'.repeat(1e6));
	brief('\u0001'.repeat(1e6), 40);
	assert.ok(performance.now() - begin < 2000);
});

test('numbers', () => {
	assert.equal(percent(1, 3), '33.3%');
	assert.equal(percent(0, 0), '0%');
	assert.equal(percent(1, 1e6), '<0.01%');
	assert.equal(seconds(0.99961), '1.00 s');
	assert.equal(seconds(20000), '5.56 h');
	assert.equal(seconds(99.96), '100 s');
	assert.equal(seconds(0.00999), '10 ms');
	assert.equal(seconds(0.0123), '12 ms');
	assert.equal(seconds(3e-6), '3.0 µs');
	/* Wilson's, by his formula's published example: 5.5% to 17.4% */
	const [low, high] = interval(10, 100);
	assert.ok(Math.abs(low - 0.0552) < 5e-4 && Math.abs(high - 0.1744) < 5e-4);
});

/* A random tree, as the server would send it, and plain recursion over it. */
function draw(depth, seed) {
	let at = seed;
	const next = n => (at = (Math.imul(at, 1103515245) + 12345) >>> 0) / 4294967296 * n | 0;
	const frames = ['all', '', 4, '(other)', '', 4], nodes = [];
	for (let i = 0; i < 9; i++)
		frames.push('f' + i, i % 2 ? '/lib/x.so' : '/bin/y', 1 + i % 2);
	const grow = (d, total, f) => {
		nodes.push(d, total, f);
		for (let left = total, k = 2 + next(2); d < depth && left > 1 && k < 11; k++) {
			const n = 1 + next(left);
			grow(d + 1, n, d % 3 === 2 && n < 3 ? 1 : k);
			left -= n;
			if (!next(3))
				break;
		}
	};
	grow(0, 1000, 0);
	return { frames, nodes };
}

test('trees', () => {
	for (let seed = 1; seed < 30; seed++) {
		const t = unpack(draw(7, seed));
		for (let i = 0; i < t.n; i++) {
			const kids = [...children(t, i)];
			assert.equal(t.own[i], t.total[i] -
				kids.reduce((n, c) => n + t.total[c], 0));
			assert.ok(kids.every(c => t.parent[c] === i && t.start[c] >= t.start[i] &&
				t.start[c] + t.total[c] <= t.start[i] + t.total[i]));
			const b = below(t, i);
			assert.equal(b.n, t.end[i] - i);
			assert.deepEqual([...b.total], [...t.total.slice(i, t.end[i])]);
			assert.equal(b.own[0], t.own[i]);
			assert.equal(prunedBelow(t, i), [...b.frame].includes(1));
			const path = pathOf(t, i), at = follow(t,
				path.map(k => frameId(name(t, k), t.frames[3 * t.frame[k] + 1])));
			/* There may be several (other) here */
			assert.ok(at === i || path.some(k => t.frame[k] === 1));
		}
		const hits = matchFrames(t, 'F3');
		let sum = 0;
		const walk = i => {
			if (t.frame[i] === 5)
				sum += t.total[i];
			else
				for (const c of children(t, i))
					walk(c);
		};
		walk(0);
		assert.equal(matchedTotal(t, hits), sum);
	}
	assert.equal(matchFrames(unpack(draw(3, 1)), '('), null);
	assert.equal(frameId('a', 'b'), '10f3abd2');
});

test('trees of several values', () => {
	const all = [5, 6, 7].map(s => unpack(draw(6, s))), values = ['a', 'b', '(others)'];
	const o = overlay(all, values);
	assert.equal(o.total[0], 3000);
	for (let i = 0; i < o.n; i++)
		assert.ok(o.own[i] >= 0);
	for (const c of children(o, 0)) { /* the first level by itself */
		const of = all.map(t => [...children(t, 0)].filter(k => name(t, k) === name(o, c))
			.reduce((n, k) => n + t.total[k], 0));
		assert.equal(o.total[c], of[0] + of[1] + of[2]);
		assert.equal(of[o.value[c]], Math.max(...of));
	}
});

test('a window is drawn where it ran', () => {
	const of = (covered, step = 10) => [...sources({ covered, step, n_steps: covered.length })];
	assert.deepEqual(of([10, 10, 10]), [0, 1, 2]);
	assert.deepEqual(of([10, 0, 10]), [0, -1, 2]); /* a gap */
	/* Two windows, the second a moment too early */
	assert.deepEqual(of([20, 0, 10]), [0, 0, 2]);
	assert.deepEqual(of([19.8, 0, 10.2]), [0, 0, 2]);
	assert.deepEqual(of([35, 0, 0, 0, 0, 10]), [0, 0, 0, 0, -1, 5]); /* a late one */
	assert.deepEqual(of([30, 10, 0]), [0, 1, -1]);
	assert.deepEqual(of([0, 3, 0]), [-1, 1, -1]);
	const answer = { n_steps: 3, from: 100, step: 10, covered: [20, 0, 10] };
	const [at, high, low] = stack(answer, [{ points: [[100, 40], [120, 10]] },
		{ points: [[100, 20]] }], 1);
	assert.deepEqual([at, low, high], [[100, 110, 120, 130], [2, 2, 1, 1], [3, 3, 1, 1]]);
});

test('a tree that is split by values', () => {
	const frames = ['all', '', 4, '(other)', '', 4, 'a', '', 5, 'f', '/m', 1, '(others)', '',
		5];
	const s = unpackSplit({ frames, values: ['a', 'b', '(others)'],
		nodes: [0, 9, 0, 1, 6, 2, 2, 6, 3, 1, 3, 4, 2, 3, 3] });
	assert.deepEqual([...s.value], [255, 0, 0, 2, 2]);
	assert.deepEqual(s.values, ['a', 'b', '(others)']);
	const below = path => [...unpackSplit({ frames, values: ['a'], path,
		nodes: [0, 6, path.length > 3 ? 3 : 2] }).value];
	assert.deepEqual([below(['all', '', 9]), below(['all', '', 9, 'a', '', 6])], [[0], [0]]);
});

test('columns that do not fit are one', () => {
	const names = ['x', 'y', 'z', 'v'], n = names.length;
	const occupants = [...names.map((occupant, i) => ({ occupant, seconds: 4 - i })),
		{ occupant: null, rest: true, seconds: 2 }];
	const cells = [];
	for (let row = 0; row < 2; row++)
		for (let k = row; k <= n; k++) /* some are empty */
			cells.push({ at: [row, k], seconds: 10 ** k, share: 2 ** k / 32 });
	const answer = { occupants, cells };
	for (const most of [5, 6, Infinity])
		assert.deepEqual(foldOccupants(answer, most), answer);
	for (const most of [4, 3, 2, 1, -3]) {
		const got = foldOccupants(answer, most), last = Math.max(2, most) - 1;
		assert.deepEqual(got.occupants.slice(0, -1), occupants.slice(0, last));
		assert.deepEqual(got.occupants[last], { occupant: null, rest: true,
			seconds: occupants.slice(last).reduce((sum, o) => sum + o.seconds, 0) });
		for (const row of [0, 1])
			for (const what of ['seconds', 'share']) {
				const sum = of => of.filter(c => c.at[0] === row)
					.reduce((all, c) => all + c[what], 0);
				assert.ok(Math.abs(sum(got.cells) - sum(cells)) < 1e-9);
			}
		assert.ok(got.cells.every(c => c.at[1] <= last));
		assert.equal(new Set(got.cells.map(c => c.at.join())).size, got.cells.length);
	}
	assert.equal(answer.cells.length, 9); /* as it was */
});

test('a value keeps its colour', () => {
	const names = Array.from({ length: 200 }, (_, i) => `service-${i * i}`), of = new Map();
	for (let at = 0; at < names.length; at += 3) {
		const shown = names.slice(at, at + N_VALUES);
		colourValues(at % 2 ? shown.reverse() : shown);
		const colours = shown.map((_, i) => valueColour(i));
		assert.equal(new Set(colours).size, shown.length);
		shown.forEach((name, i) => {
			if (shown.filter(n => of.get(n) === of.get(name)).length === 1)
				assert.equal(colours[i], of.get(name) ?? colours[i]);
			of.set(name, colours[i]);
		});
	}
	colourValues(['service-0']);
	assert.equal(valueColour(1), valueColour(-1)); /* that of all others */
});

console.log(`${passed} passed, 0 failed`);
