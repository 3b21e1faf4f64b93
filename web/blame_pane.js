/* SPDX-License-Identifier: Apache-2.0 */
/* Who had the CPU while others waited for it: a line for each who waited, a column for each who had it. */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill, tell } from './dom.js';
import { brief, percent, seconds } from './format.js';
import { and } from './selector.js';

const PARTIES = 12;

const nameOf = (p, v) => p.rest ? '(all others)' : p.nobody || (v === null ? '(none)' : v === '' ? '(empty)' : v);

export class BlamePane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.status = h('span.match', { role: 'status' });
		this.body = h('div.scroll', { tabIndex: 0, role: 'region', 'aria-label': 'Who had the CPU' });
		host.append(h('div.tools', null, this.status), this.note, this.body);
	}

	update(again) {
		const s = this.app.state, { from, to, where } = this.app.select(), params = { from, to, where, by: s.by, limit: PARTIES };
		return this.load(JSON.stringify(params), again, signal => ask('blame', params, signal), answer => {
			this.answer = answer;
			this.by = s.by;
			this.draw();
		});
	}

	draw() {
		const a = this.answer, n = a.occupants.length, share = new Map();
		for (const c of a.cells)
			share.set(c.at[0] * n + c.at[1], c);
		tell(this.status, `${seconds(a.seconds)} waited for a CPU by ${a.n_victims} values of ${brief(this.by, 40)}. Lines waited, columns had the CPU meanwhile.`);
		const head = h('tr', null, h('th', { scope: 'col' }, 'waited'), h('th.n', { scope: 'col' }, 'in all'),
			a.occupants.map(o => h('th.n', { scope: 'col', title: `${brief(nameOf(o, o.occupant), 200)}: had the CPU for ${seconds(o.seconds)} of others' waiting` },
				h('bdi', null, brief(nameOf(o, o.occupant), 18)))));
		const rows = a.victims.map((v, i) => h('tr', null,
			h('th.wide', { scope: 'row' }, v.rest ? h('bdi', null, nameOf(v, null)) : h('button.link', { type: 'button',
				onclick: () => this.app.go({ where: and(this.app.state.where, this.by, '=', v.victim || ''), root: '' }) }, h('bdi', null, brief(nameOf(v, v.victim), 60)))),
			h('td.n', null, seconds(v.seconds)),
			a.occupants.map((o, k) => this.cell(share.get(i * n + k), v, o))));
		refill(this.body, [h('table.matrix', null, h('caption.unseen', null, 'Seconds waited for a CPU, by who waited and who had it'), h('thead', null, head),
			h('tbody', null, rows.length ? rows : h('tr', null, h('td.empty', { colSpan: n + 2 }, 'Nobody waited.'))))]);
		this.app.drawn('blame');
	}

	cell(c, v, o) {
		if (!c)
			return h('td.n', null, '');
		const e = h('td.n', { title: `${brief(nameOf(v, v.victim), 80)} waited ${seconds(c.seconds)}, ${percent(c.share, 1)} of its waiting, while ${brief(nameOf(o, o.occupant), 80)} had the CPU` },
			seconds(c.seconds), h('small', null, ' ' + percent(c.share, 1)));
		e.style.setProperty('--share', Math.min(60, 8 + 52 * c.share).toFixed(0) + '%');
		e.classList.add('heat');
		return e;
	}
}
