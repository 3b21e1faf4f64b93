/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was sampled in each twentieth of a second. A part of it that is marked, by the mouse or by
 * the arrow keys, becomes a flame graph, or is compared with the second before it.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { dark } from './colour.js';
import { h, tell } from './dom.js';
import { brief, eventName, exactTime, number, seconds, time } from './format.js';
import { exact, Grid } from './heat.js';

const STEP = '50ms', LONGEST_S = 1800, SHOWN_S = 600, LINE = 9, COLUMN = 4, WIDEST = 24,
	SHADES = 24, LABEL = 64; /* pixels for a time */
const HOW =
	'Samples by time: arrow keys move, with Shift they mark, Enter opens a flame graph';
const ARROWS = { ArrowUp: 1, ArrowDown: -1 };

/* The hits, or the waits, that a metric sums; of those that have none: CPU. */
function heated({ event, metric }) {
	if (metric === 'off' || metric === 'runq')
		return { metric };
	if (metric === 'waker')
		return { metric: 'off' };
	if (/^(heap|inuse_|alloc_)/.test(metric))
		return { event: 'alloc_space' };
	return metric && metric !== 'value' ? { metric: 'cpu' } : { event };
}

export class HeatPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.status = h('span.match', { role: 'status' });
		this.flame = h('button', { type: 'button', disabled: true,
			onclick: () => this.open() }, 'Flame graph');
		this.beside = h('button', { type: 'button', disabled: true,
			onclick: () => this.compare() }, 'Compare with the second before');
		this.canvas = h('canvas.heatmap', { tabIndex: 0, role: 'application',
			'aria-roledescription': 'heat map',
			'aria-label': HOW,
			onkeydown: e => this.key(e), onpointerdown: e => this.press(e),
			onpointermove: e => this.move(e),
			onpointerup: () => { this.held = false; } });
		this.times = h('div.heat-times', { 'aria-hidden': 'true' });
		this.body = h('div.scroll', null, this.canvas, this.times);
		host.append(h('div.tools', null, this.flame, this.beside, this.status), this.note,
			this.body);
	}

	/* The range in use, no longer than there may be steps of. */
	range() {
		const { from, to } = this.app.select(), used = this.app.used;
		if (from && to || !used)
			return { from, to };
		const begin = used.to - used.from > LONGEST_S ? used.to - SHOWN_S : used.from;
		return { from: exact(begin), to: exact(used.to) };
	}

	update(again) {
		const { where, idle, ...of } = this.app.select();
		if (!this.app.used && !again)
			return; /* range_used comes back */
		const params = { ...this.range(), where, idle, step: STEP, ...heated(of) };
		this.named = params.event ? ` of ${brief(eventName(params.event), 60)}` : '';
		return this.load(JSON.stringify(params), again,
			signal => ask('heatmap', params, signal), answer => {
			this.answer = answer;
			this.grid = new Grid(answer);
			this.mark(null);
			this.draw();
			this.app.drawn('heat');
		});
	}

	/* ---- marking ---- */

	mark(a, b = a) {
		this.marked = a === null ? null : [a, b];
		this.flame.disabled = this.beside.disabled = a === null;
		const g = this.grid, n = this.answer;
		if (a === null) {
			const without = n.untracked
				? ` ${number(n.untracked)} of ${number(n.windows)} windows have no track.` : '';
			tell(this.status,
				`${this.amount(n.total)} in ${number(n.steps)} steps of ` +
				`${seconds(n.step)}: a column is a second, upwards.${without}`);
			return;
		}
		const [from, to] = g.range(a, b);
		tell(this.status,
			`${exactTime(from)}, ${seconds(to - from)}: ${this.amount(g.sum(a, b))}`);
	}

	amount(n) {
		return this.answer.unit === 'samples' ? `${number(n)} samples${this.named}`
			: `${seconds(n / 1e6)} of waits`;
	}

	marks() {
		const [from, to] = this.grid.range(...this.marked);
		return { from: exact(from), to: exact(to), live: '', root: '', split: '' };
	}

	open() {
		if (this.marked)
			this.app.go({ ...this.marks(), tab: 'flame' });
	}

	compare() {
		if (!this.marked)
			return;
		const [from] = this.grid.range(...this.marked);
		this.app.go({ ...this.marks(), against_from: exact(from - 1),
			against_to: exact(from), tab: 'diff' });
	}

	key(e) {
		const g = this.grid;
		if (!g || !g.steps)
			return;
		const by = e.key in ARROWS ? ARROWS[e.key] : e.key === 'ArrowRight' ? g.lines
			: e.key === 'ArrowLeft' ? -g.lines : 0;
		if (e.key === 'Enter')
			return this.open();
		if (!by)
			return;
		e.preventDefault();
		const at = this.marked ? this.marked[1] : g.steps - 1 - by;
		const next = Math.max(0, Math.min(g.steps - 1, at + by));
		this.mark(e.shiftKey && this.marked ? this.marked[0] : next, next);
		this.draw();
	}

	stepAt(e) {
		const box = this.canvas.getBoundingClientRect(), g = this.grid;
		return g ? g.at(Math.floor((e.clientX - box.left) / this.width),
			g.lines - 1 - Math.floor((e.clientY - box.top) / LINE)) : -1;
	}

	press(e) {
		const at = this.stepAt(e);
		if (at < 0)
			return;
		this.held = true;
		this.canvas.setPointerCapture(e.pointerId);
		this.mark(at);
		this.draw();
	}

	move(e) {
		const at = this.held ? this.stepAt(e) : -1;
		if (at < 0)
			return;
		this.mark(this.marked[0], at);
		this.draw();
	}

	/* ---- drawing ---- */

	draw() {
		const g = this.grid, room = this.body.clientWidth || 800;
		const fit = Math.floor(room / (g.columns || 1));
		this.width = Math.max(COLUMN, Math.min(WIDEST, fit));
		const w = this.width * g.columns, tall = LINE * g.lines,
			fine = window.devicePixelRatio || 1, c = this.canvas;
		c.width = Math.ceil(w * fine);
		c.height = Math.ceil(tall * fine);
		c.style.width = w + 'px';
		c.style.height = tall + 'px';
		const p = c.getContext('2d');
		p.scale(fine, fine);
		/* By shade: to set one takes as long as some cells */
		this.byShade().forEach((steps, level) => {
			p.fillStyle = shade(level / SHADES, dark());
			for (const i of steps) {
				const [column, line] = g.place(i);
				p.fillRect(column * this.width, tall - LINE * (line + 1),
					this.width - 1, LINE - 1);
			}
		});
		if (this.marked)
			this.drawMarks(p, tall);
		this.showTimes();
	}

	/* When the seconds of some columns are, below them. */
	showTimes() {
		const g = this.grid, every = Math.ceil(LABEL / this.width), list = [];
		for (let i = 0; i === 0 || (i + every) <= g.columns; i += every) {
			const at = h('span', null, time(g.first + i).slice(11));
			at.style.left = i * this.width + 'px';
			list.push(at);
		}
		this.times.replaceChildren(...list);
	}

	/* The steps of each shade; only those without anything have the first. */
	byShade() {
		const g = this.grid, most = Math.sqrt(this.answer.most || 1),
			levels = Array.from({ length: SHADES + 1 }, () => []);
		for (let i = 0; i < g.steps; i++) {
			const level = Math.ceil(SHADES * Math.sqrt(g.cells[i]) / most);
			levels[Math.min(SHADES, level)].push(i);
		}
		return levels;
	}

	drawMarks(p, tall) {
		const [a, b] = [Math.min(...this.marked), Math.max(...this.marked)];
		p.strokeStyle = dark() ? '#ffffff' : '#000000';
		p.lineWidth = 1.5;
		for (let i = a; i <= b; i++) {
			const [column, line] = this.grid.place(i);
			p.strokeRect(column * this.width, tall - LINE * (line + 1), this.width - 1,
				LINE - 1);
		}
	}
}

/* From the page's ground to red. */
function shade(hot, night) {
	if (!hot)
		return night ? '#2a303a' : '#eef0f3';
	const light = night ? 24 + 36 * hot : 90 - 48 * hot;
	return `hsl(${28 - 24 * hot} 85% ${light}%)`;
}
