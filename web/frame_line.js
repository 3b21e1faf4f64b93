/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to say of one frame, and what can be done with it. */
import { kindName } from './colour.js';
import { h, refill } from './dom.js';
import { amount, brief, counted, interval, percent, shares } from './format.js';

const VERDICTS = ['may be chance', 'more', 'less'];

export class FrameLine {
	constructor(app) {
		this.app = app;
		this.element = h('div.frame');
	}

	/* a: see FlamePane.about */
	lines(a) {
		/* A metric: nanoseconds, bytes or objects */
		const ns = a.data.ns_per_sample, [low, high] = interval(a.total, a.of), out = [],
			measured = (a.data.counts || 'samples') !== 'samples';
		const count = n => counted(n, a.data.counts);
		const kind = kindName(a.kind, a.module);
		if (a.module || kind)
			out.push([brief(a.module, 200) + (kind && a.kind !== 4 ? ` · ${kind}`
				: '')]);
		const time = ns && !measured ? ' = ' + amount(a.total, ns) : '';
		out.push([`${count(a.total)}${time}, ${percent(a.total, a.of)} of all` +
			(measured ? '' : ` (95%: ${shares(low, high)})`)]);
		if (a.zoom && a.zoom !== a.of)
			out.push([`${percent(a.total, a.zoom)} of what is zoomed to`]);
		if (a.own !== undefined)
			out.push([`self: ${count(a.own)}, ${percent(a.own, a.of)}`]);
		if (a.sums)
			out.push(
				[
				`baseline: ${count(a.against)}, ${percent(a.against, a.sums[1])} · ${VERDICTS[a.verdict]}`]);
		if (a.value)
			out.push([`most of it: ${brief(a.value, 80)}`]);
		return out;
	}

	words(a) { return [brief(a.name, 200), ...this.lines(a).map(l => l[0])].join('. '); }

	show(a) {
		if (!a) {
			this.element.replaceChildren();
			return;
		}
		const real = a.kind !== 5 && a.name !== '(other)' && a.name !== 'all';
		refill(this.element, [h('b', null, h('bdi', null, brief(a.name, 240))),
			...this.lines(a).map(([text]) => h('span', null, h('bdi', null, text))),
			real && this.app.sandwich ? h('span.actions', null,
				h('button', { type: 'button', name: 'sandwich',
					onclick: () => this.app.sandwich(a.name, a.module) },
					'Callers and callees'),
				h('button', { type: 'button', name: 'findit',
					onclick: () => this.app.go(
					{ find: '^' + a.name.replace(/ \(inlined\)$/, '')
					.slice(0, 500).replace(/[.*+?^${}()|[\]\\]/g, '\\$&') +
					'$' }) }, 'Find all')) : '']);
	}
}
