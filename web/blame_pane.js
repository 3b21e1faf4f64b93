/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who caused waits: a line for each who waited, a column for each who was running in that time, or
 * who woke those that were blocked; or the locks for which they were blocked. The last two need a
 * recording with --waker, and can leave out idle waits.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill, tell } from './dom.js';
import { foldOccupants } from './fold.js';
import { brief, percent, seconds } from './format.js';
import { locksTable } from './locks_table.js';
import { and } from './selector.js';

const PARTIES = 12, LOCKS = 50;
/*
 * Pixels: the least of a cell and of a name (style.css, .matrix); a cell where columns are left out
 * anyway, so that names fit; a box too narrow to leave columns out
 */
const CELL = 56, NAME = 110, NAME_SHARE = 0.14, ROOMY = 72, NARROW = 480;

const KINDS = {
	'': { label: 'Who was running', did: 'was running', waited: 'waited',
		amount: 'waited for a CPU', lines: 'Rows waited for a CPU, columns ran in that time.',
		caption: 'Seconds waited for a CPU, by who waited and who was running',
			empty: 'Nobody waited.' },
	waker: { label: 'Who woke whom', did: 'ended its waits', waited: 'was blocked',
		amount: 'blocked', lines: 'Rows were blocked, columns woke them.',
		caption: 'Seconds blocked, by who was blocked and who woke them',
			empty: 'Nobody was blocked.' },
	locks: { label: 'Which locks' },
};

const nameOf = (p, v) => p.rest ? '(all others)'
	: p.nobody || (v === null ? '(none)' : v === '' ? '(empty)' : v);

export class BlamePane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.kind = h('select', { name: 'blame', 'aria-label': 'Kind of blame',
			onchange: () => this.update() },
			h('option', { value: '' }, 'who was running'),
				h('option', { value: 'waker' }, 'who woke them'),
				h('option', { value: 'locks' }, 'which locks'));
		this.idle = h('input', { type: 'checkbox', name: 'blame-idle',
			onchange: () => this.app.go({ idle: this.idle.checked ? '1' : '' }) });
		this.idleLabel = h('label',
			{ title: 'Idle: a worker that waits for its next work' }, this.idle,
			' idle waits');
		this.status = h('span.match', { role: 'status' });
		this.body = h('div.scroll', { tabIndex: 0, role: 'region' });
		host.append(h('div.tools', null, this.kind, this.idleLabel, this.status), this.note,
			this.body);
		new ResizeObserver(() => this.answer?.cells && this.fitting() !== this.fits &&
			this.draw()).observe(this.body);
	}

	/* How many occupants there is room for; all of them where the table scrolls by itself. */
	fitting() {
		const width = this.body.clientWidth;
		const room = width - Math.max(NAME, NAME_SHARE * width);
		const fit = cell => Math.floor(room / cell) - 1;
		return width < NARROW || fit(CELL) >= this.answer.occupants.length ? Infinity
			: fit(ROOMY);
	}

	update(again) {
		const s = this.app.state, { from, to, where } = this.app.select();
		this.kind.hidden = !this.app.has_wakers;
		if (!this.app.has_wakers)
			this.kind.value = '';
		const metric = this.kind.value;
		this.idleLabel.hidden = !metric;
		this.idle.checked = !!s.idle;
		const locks = metric === 'locks';
		const params = { from, to, where, by: s.by, limit: locks ? LOCKS : PARTIES,
			metric: locks ? '' : metric, idle: metric ? s.idle : '' };
		return this.load(metric + JSON.stringify(params), again,
			signal => ask(locks ? 'locks' : 'blame', params, signal), answer => {
			this.answer = answer;
			this.by = s.by;
			this.words = KINDS[metric];
			this.draw();
		});
	}

	draw() {
		const a = this.answer, w = this.words;
		const left = a.idle_waits
			? ` ${seconds(a.idle_waits / 1e9)} of idle waits left out.` : '';
		if (!a.locks)
			return this.drawMatrix(left);
		tell(this.status,
			`${seconds(a.seconds)} blocked in locks, by ${brief(this.by, 40)}.${left}`);
		refill(this.body, [locksTable(a, this.by)]);
		this.body.setAttribute('aria-label', w.label);
		this.app.drawn('blame');
	}

	drawMatrix(left) {
		const a = this.answer, w = this.words, share = new Map();
		this.fits = this.fitting();
		const { occupants, cells } = foldOccupants(a, this.fits), n = occupants.length;
		for (const c of cells)
			share.set(c.at[0] * n + c.at[1], c);
		tell(this.status,
			`${seconds(a.seconds)} ${w.amount} by ${a.n_victims} values of ${brief(this.by, 40)}. ${w.lines}${left}`);
		const head = h('tr', null, h('th.wide', { scope: 'col' }, w.waited),
			h('th.n', { scope: 'col' }, 'in all'),
			occupants.map(o => h('th.n', { scope: 'col',
				title: `${brief(nameOf(o, o.occupant), 200)} ${w.did}: ${seconds(o.seconds)} of others' waiting` },
				h('bdi', null, brief(nameOf(o, o.occupant), 30)))));
		const rows = a.victims.map((v, i) => h('tr', null,
			h('th.wide', { scope: 'row', title: brief(nameOf(v, v.victim), 200) },
				v.rest ? h('bdi', null, nameOf(v, null))
				: h('button.link', { type: 'button',
				onclick: () => this.app.go({ where: and(this.app.state.where,
					this.by, '=', v.victim || ''), root: '' }) },
					h('bdi', null, brief(nameOf(v, v.victim), 60)))),
			h('td.n', null, seconds(v.seconds)),
			occupants.map((o, k) => this.cell(share.get(i * n + k), v, o))));
		refill(this.body, [h('table.matrix', null, h('caption.unseen', null, w.caption),
			h('thead', null, head),
			h('tbody', null, rows.length ? rows
				: h('tr', null, h('td.empty', { colSpan: n + 2 }, w.empty))))]);
		this.body.setAttribute('aria-label', w.label);
		this.app.drawn('blame');
	}

	cell(c, v, o) {
		if (!c)
			return h('td.n', null, '');
		const e =
			h('td.n',
			{ title: `${brief(nameOf(v, v.victim), 80)} ${this.words.waited} ${seconds(c.seconds)}, ${percent(c.share, 1)} of its waiting: ${brief(nameOf(o, o.occupant), 80)} ${this.words.did}` },
			seconds(c.seconds), h('small', null, ' ' + percent(c.share, 1)));
		e.style.setProperty('--share', Math.min(60, 8 + 52 * c.share).toFixed(0) + '%');
		e.classList.add('heat');
		return e;
	}
}
