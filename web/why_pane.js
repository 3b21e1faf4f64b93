/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why: where the time of what is selected went, beside itself before, and beside everything else of
 * the same time.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill } from './dom.js';
import { baseName, brief, number, percent, seconds, timeRange } from './format.js';
import { table } from './table.js';

const ROWS = 8;
const SIDES = [['this', 'this'], ['before', 'before'], ['rest', 'all others']];
const PARTS = [['cpu', 'on a CPU'], ['runq', 'waiting for a CPU'], ['off', 'blocked']];

const share = p => p === null || p === undefined ? '' : percent(p, 1);
const code = r => h('span', null, h('bdi', null, brief(r.function, 120)),
	h('small', null, ' ' + brief(baseName(r.module || ''), 40)));

export class WhyPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.body = h('div.scroll', { tabIndex: 0, role: 'region',
			'aria-label': 'Where the time went' });
		host.append(this.note, this.body);
	}

	update(again) {
		const { from, to, where, idle } = this.app.select(),
			params = { from, to, where, idle, names: this.app.state.names || 'simple' };
		if (!where) {
			this.asked = null;
			this.body.replaceChildren(h('p.note', null,
				'Why what? Choose a value on the left, or a line at the top.'));
			return;
		}
		return this.load(JSON.stringify(params), again,
			signal => ask('why', params, signal), answer => {
			this.answer = answer;
			this.draw();
			this.app.drawn('why');
		});
	}

	draw() {
		const a = this.answer, sides = SIDES.filter(([key]) => a[key]);
		const parts = [h('h2', null, 'Time'), this.times(a, sides)];
		const add = (title, rows, columns) =>
			parts.push(h('h2', null, title), table(
			{ caption: title, rows: rows.slice(0, ROWS), columns,
			empty: 'Nothing differs by more than chance.' }));
		const shares = sides.map(([key, text]) =>
			({ id: key, title: text, number: true, cell: r => share(r.share[key]) }));
		/* What grew most comes first. */
		const grew = part => a.this[part].seconds -
			(a.before ? a.before[part].seconds : 0);
		[['cpu', () => this.code(a, add)],
			['off', () => this.blocked(a, add, shares, parts)],
			['runq', () => this.occupants(a, add, shares)]]
			.sort(([x], [y]) => grew(y) - grew(x)).forEach(([, list]) => list());
		refill(this.body, [h('p.note', null, timeRange(a.this.from, a.this.to),
			a.before ? `; before: ${timeRange(a.before.from, a.before.to)}`
			: '; nothing was recorded before',
			a.waits ? '' : '; waits are not recorded: record --wall'), ...parts],
				this.body);
	}

	code(a, add) {
		const changes = (title, rows, there, what) =>
			add(title, rows, [{ id: 'here', title: 'this', number: true,
			cell: r => share(r.share[0]) },
			{ id: 'there', title: there, number: true, cell: r => share(r.share[1]) },
				{ id: 'fn', title: what, header: true, wide: true, cell: code }]);
		if (a.before)
			changes('Code that changed since the range before',
				a.differs_from_before, 'before', 'Function, with what it calls');
		changes('Code that all others have less of',
			a.differs_from_rest.filter(r => r.verdict === 'more'), 'all others',
			'Function, by itself');
	}

	occupants(a, add, shares) {
		if (a.occupants.length)
			add('Who was running while it waited for one', a.occupants,
				[...shares, { id: 'who', title: 'Who', header: true, wide: true,
				cell: r => h('bdi', null, brief(r.occupant ?? '(none)', 60)) }]);
	}

	/* Where it was blocked, and by whom that was ended. */
	blocked(a, add, shares, parts) {
		const holder = a.wakers.find(r => r.holder);
		if (a.blocked.length)
			add('Blocked in', a.blocked, [...shares,
				{ id: 'wait', title: 'Wait', cell: r => r.wait },
				{ id: 'in', title: 'Function', header: true, wide: true,
				cell: code }]);
		if (a.wakers.length)
			add('Who ended its waits', a.wakers, [...shares,
				{ id: 'who', title: 'Who',
				cell: r => h('bdi', null, brief(r.waker ?? '(none)', 40)) },
				{ id: 'in', title: 'Function', header: true, wide: true,
				cell: code }]);
		if (holder)
			parts.push(h('p.holder', null, 'The locks were held by ',
				h('b', null, h('bdi', null, brief(holder.waker ?? '(none)', 40))),
				', in ', h('b', null,
				h('bdi', null, brief(holder.function, 120)))));
	}

	times(a, sides) {
		const rows = PARTS.filter(([key]) => key === 'cpu' || a.waits),
			q = (part, x) => part.quantiles && part.quantiles[x] !== undefined
			? seconds(part.quantiles[x] / 1e9) : '';
		return table({ caption: 'Time', rows,
			columns: [{ id: 'part', title: '', unseen: 'Part', header: true,
			cell: ([, text]) => text },
			...sides.flatMap(([side, text]) => [
				{ id: side, title: text, number: true,
					cell: ([key]) => seconds(a[side][key].seconds) },
				{ id: side + '-share', title: '', unseen: 'Share', number: true,
					cell: ([key]) => percent(a[side][key].seconds,
					a[side].wall) },
				...(a.waits && side !== 'rest'
					? [{ id: side + '-p99', title: '99% of waits', number: true,
					hint: 'are no longer than this',
					cell: ([key]) => h('span',
						{ title: a[side][key].waits
						? `${number(a[side][key].waits)} waits` : '' },
						q(a[side][key], '0.99')) }] : [])])] });
	}
}
