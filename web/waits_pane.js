/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long waits were, for each value of a label: a histogram on a scale of powers of ten, and
 * quantiles.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, svg, tell } from './dom.js';
import { brief, number, percent, seconds } from './format.js';
import { bar, table } from './table.js';

/* 1 µs to 100 s, of nanoseconds */
const ROWS = 30, LOW = 3, HIGH = 11, PER_DECADE = 6, W = 288, H = 26;
const QUANTILES = ['0.5', '0.9', '0.99', '1'];

/*
 * Counts by power of ten; what is longer or shorter is in the last or first. A bucket counts where
 * its middle is.
 */
export function decades(buckets) {
	const out = new Float64Array((HIGH - LOW) * PER_DECADE);
	for (const [low, high, n] of buckets) {
		const at = Math.floor((Math.log10(Math.max(1, (low + high) / 2)) - LOW) *
			PER_DECADE);
		out[Math.max(0, Math.min(out.length - 1, at))] += n;
	}
	return out;
}

function picture(buckets, label) {
	const v = decades(buckets), top = Math.max(1, ...v), w = W / v.length;
	const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
	title.textContent = label;
	const bars = [...v].map((n, i) => n ? svg('rect',
		{ x: (i * w).toFixed(1), y: (H - 2 - (H - 3) * n / top).toFixed(1),
		width: (w - 0.6).toFixed(1), height: Math.max(1, (H - 3) * n / top).toFixed(1) })
		: null);
	const lines = Array.from({ length: HIGH - LOW + 1 },
		(_, i) => svg('line', { x1: i * W / (HIGH - LOW), x2: i * W / (HIGH - LOW), y1: 0,
		y2: H }));
	return svg('svg', { class: 'hist', width: W, height: H, viewBox: `0 0 ${W} ${H}`,
		role: 'img' }, title, ...lines, ...bars.filter(Boolean));
}

export class WaitsPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.kind = h('select', { 'aria-label': 'Kind of wait',
			onchange: () => this.update() }, h('option', { value: 'runq' },
			'waiting for a CPU'), h('option', { value: 'off' }, 'blocked'));
		this.status = h('span.match', { role: 'status' });
		this.body = h('div.scroll', { tabIndex: 0, role: 'region',
			'aria-label': 'Lengths of waits' });
		host.append(h('div.tools', null, this.kind, this.status), this.note, this.body);
	}

	update(again) {
		const s = this.app.state, { from, to, where } = this.app.select();
		const params = { metric: this.kind.value, from, to, where, by: s.by, limit: ROWS };
		const blocked = this.kind.value === 'off' &&
			{ metric: 'off', from, to, where, names: s.names, idle: s.idle,
			by: 'wait_in,wait', limit: ROWS };
		return this.load(JSON.stringify([params, blocked]), again,
			signal => Promise.all([ask('histogram', params, signal),
			blocked && ask('table', blocked, signal)]), ([answer, reasons]) => {
			this.answer = answer;
			this.reasons = reasons;
			this.by = s.by;
			this.draw();
		});
	}

	/* In which functions of the programs threads were blocked, and why. */
	drawReasons(a) {
		const idle = this.app.state.idle, left = a.idle_waits
			? `; ${seconds(a.idle_waits / 1e9)} of idle waits left out` : '';
		const box = h('input', { type: 'checkbox', name: 'idle', checked: !!idle,
			onchange: () => this.app.go({ idle: idle ? '' : '1' }) });
		return h('div', null, h('p.match', null,
			h('label', { title: 'Idle: a worker that waits for its next work' }, box,
			' idle waits'), left), table({
			caption: 'Functions that were blocked', rows: a.rows,
				empty: 'Nothing was blocked here.', columns: [
				{ id: 'in', title: 'Blocked in', header: true, wide: true,
					cell: r => h('bdi', null, brief(r.key.wait_in ||
					'(unknown)', 120)) },
				{ id: 'wait', title: 'For', cell: r => r.key.wait },
				{ id: 'seconds', title: 'Time', number: true,
					cell: r => seconds(r.seconds) },
				{ id: 'share', title: 'Share', number: true,
					cell: r => bar(r.share, percent(r.samples, a.samples)) },
			] }));
	}

	draw() {
		const a = this.answer, q = (r, x) => r.quantiles[x] === undefined ? ''
			: seconds(r.quantiles[x] / 1e9);
		tell(this.status,
			`${number(a.rows.length)} of ${number(a.n_rows)} values; quantiles within ${(100 * a.error).toFixed(1)}%`);
		const name = r => r.key[this.by] === null ? '(none)' : r.key[this.by] || '(empty)';
		this.body.replaceChildren(this.reasons ? this.drawReasons(this.reasons) : '',
			table({
			caption: 'Lengths of waits', rows: a.rows, empty: 'No wait ended here.',
				columns: [
				{ id: 'value', title: brief(this.by, 30), header: true, wide: true,
					cell: r => h('bdi', null, brief(name(r), 60)) },
				{ id: 'count', title: 'Waits', number: true,
					cell: r => number(r.count) },
				...QUANTILES.map(x => ({ id: 'q' + x,
					title: x === '1' ? 'longest' : `${+(100 * x).toFixed(1)}%`,
					number: true, cell: r => q(r, x) })),
				{ id: 'hist', title: '1 µs … 1 ms … 1 s … 100 s',
					cell: r => picture(r.buckets,
					`half of ${brief(name(r), 40)}'s waits are shorter than ${q(r, '0.5')}, 99% than ${q(r, '0.99')}`) },
			] }));
		this.app.drawn('waits');
	}
}
