/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU over time, stacked by the values of a label, below a line for all CPUs there are. Dragging
 * selects a range, with the shift key the range to compare with. What was not recorded is hatched.
 */
/*! uPlot: Copyright (c) 2022 Leon Sorokin, MIT licence: uPlot-LICENSE.txt */
import uPlot from 'uplot';
import { valueColour } from './colour.js';
import { h } from './dom.js';
import { bytes, cut, number, plain, time } from './format.js';
import { groups, isLive, sources, stack } from './steps.js';

const HEIGHT = 132;

export class Chart {
	/* onrange(from, to), onbaseline(from, to): seconds since 1970. */
	constructor(host, { onrange, onbaseline, tip }) {
		this.host = host;
		this.onrange = onrange;
		this.onbaseline = onbaseline;
		this.tip = tip;
		host.addEventListener('mousedown', e => { this.shifted = e.shiftKey; }, true);
		this.plot = null;
		new ResizeObserver(() => this.plot &&
			this.plot.setSize({ width: this.host.clientWidth, height: HEIGHT }))
			.observe(host);
	}

	/*
	 * rank: the place of a value among all, that has its colour. cpus: of the host, 0: not
	 * known. baseline: [from, to] or null.
	 */
	show(answer, key, rank, cpus, baseline) {
		/* 0: no time, then a rate */
		const cpu = answer.samples ? answer.seconds / answer.samples : 0;
		const rows = groups(answer), scale = cpu || 1;
		this.capacity = cpu && (!answer.metric || answer.metric === 'cpu') ? cpus : 0;
		this.baseline = baseline;
		const names = rows.map(r => r.other ? '(others)' : key ? r.key[key] === null
			? '(none)' : plain(r.key[key]) : 'all');
		this.unit = isLive(answer) ? answer.unit
			: !cpu ? answer.metric ? `${answer.unit} per s` : 'per s'
			: answer.metric && answer.metric !== 'cpu' ? 'threads' : 'CPUs';
		const inBytes = this.unit.startsWith('bytes');
		this.height = v => inBytes ? bytes(v) : v >= 1000 ? number(v)
			: String(+v.toPrecision(3));
		this.host.setAttribute('aria-label',
			`${this.unit} over time${key ? ' by ' + plain(key) : ''}: ` +
			names.map((n, i) => `${cut(n, 60)} ${number(rows[i].samples)} samples`)
				.join(', '));
		if (this.plot)
			this.plot.destroy();
		this.plot = null;
		const colours = rows.map((r, i) => valueColour(r.other ? -1
			: key && rank(r.key[key]) >= 0 ? rank(r.key[key]) : i));
		this.colours = colours.slice().reverse();
		this.rows = rows.slice().reverse();
		this.names = names.slice().reverse();
		if (!uPlot || !answer.n_steps) {
			this.host.replaceChildren(h('p.note', null,
				answer.n_steps ? 'This build has no time chart.'
				: 'No window in this range.'));
			return;
		}
		this.host.replaceChildren();
		this.sources = sources(answer);
		this.plot = new uPlot(this.options(answer), stack(answer, rows, scale), this.host);
	}

	options(answer) {
		const css = getComputedStyle(document.documentElement),
			get = n => css.getPropertyValue(n).trim();
		const font = '11px system-ui, sans-serif',
			grid = { stroke: get('--grid'), width: 1 }, ticks = { show: false };
		const stepped = uPlot.paths.stepped({ align: 1 }), fills = this.colours;
		return {
			width: this.host.clientWidth, height: HEIGHT, legend: { show: false },
				padding: [6, 24, 0, 0],
			cursor: { drag: { x: true, y: false, setScale: false },
				points: { show: false }, y: false },
			scales: { x: { time: true, range: () => [answer.from, answer.to] },
				y: { range: (u, lo, hi) => [0,
				Math.max(hi || 1, this.capacity <= 4 * hi ? this.capacity : 0) *
				1.1] } },
			axes: [
				{ font, stroke: get('--soft'), grid, ticks, size: 22, space: 70,
					values: (u, at) => at.map((t, i) => label(t, at, i)) },
				{ font, stroke: get('--soft'), grid, ticks, size: 46, space: 26,
					values: (u, at) => at.map(this.height) },
			],
			series: [{}, ...this.rows.map((r, i) =>
				({ paths: stepped, fill: fills[i], stroke: fills[i], width: 0,
				points: { show: false } }))],
			hooks: {
				drawClear: [u => this.below(u, answer, get)],
				draw: [u => this.above(u, get)],
				setSelect: [u => {
					if (u.select.width < 3)
						return;
					const from = u.posToVal(u.select.left, 'x'),
						to = u.posToVal(u.select.left + u.select.width,
						'x');
					u.setSelect({ left: 0, top: 0, width: 0, height: 0 },
						false);
					(this.shifted ? this.onbaseline : this.onrange)(from, to);
				}],
				setCursor: [u => this.point(u, answer)],
			},
		};
	}

	/*
	 * Hatch the steps in which nothing was recorded, and shade the range that is compared with.
	 */
	below(u, answer, get) {
		const { ctx, bbox } = u, x = t => u.valToPos(t, 'x', true);
		ctx.save();
		ctx.beginPath();
		ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
		ctx.clip();
		if (this.baseline) {
			ctx.fillStyle = get('--bar');
			ctx.fillRect(x(this.baseline[0]), bbox.top,
				x(this.baseline[1]) - x(this.baseline[0]), bbox.height);
		}
		ctx.beginPath();
		for (let i = 0; i < answer.n_steps; i++)
			if (this.sources[i] < 0)
				ctx.rect(x(answer.from + i * answer.step), bbox.top,
					x(answer.step) - x(0), bbox.height);
		ctx.clip();
		ctx.strokeStyle = get('--line');
		ctx.beginPath();
		for (let at = bbox.left - bbox.height; at < bbox.left + bbox.width; at += 8) {
			ctx.moveTo(at, bbox.top + bbox.height);
			ctx.lineTo(at + bbox.height, bbox.top);
		}
		ctx.stroke();
		ctx.restore();
	}

	/* A line at all CPUs, where it is in sight. */
	above(u, get) {
		const { ctx, bbox } = u, y = Math.round(u.valToPos(this.capacity, 'y', true));
		if (!this.capacity || y < bbox.top)
			return;
		ctx.save();
		ctx.strokeStyle = ctx.fillStyle = get('--more');
		ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
		ctx.beginPath();
		ctx.moveTo(bbox.left, y);
		ctx.lineTo(bbox.left + bbox.width, y);
		ctx.stroke();
		ctx.restore();
	}

	/* What is at the pointer. */
	point(u, answer) {
		const i = u.cursor.left < 0 ? -1 : Math.floor(
			(u.posToVal(u.cursor.left, 'x') - answer.from) / answer.step);
		if (i < 0 || i >= answer.n_steps) {
			this.tip.hide();
			return;
		}
		const lines = [];
		for (let k = this.rows.length; k >= 1; k--) {
			const v = u.data[k][i], under = k < this.rows.length ? u.data[k + 1][i] : 0;
			if (v - under > 0)
				lines.push([`${cut(this.names[k - 1], 60)}: ` +
					`${+(v - under).toPrecision(3)} ${this.unit}`,
				this.colours[k - 1]]);
		}
		if (this.capacity)
			lines.push([`of ${number(this.capacity)} CPUs`]);
		const box = u.over.getBoundingClientRect();
		this.tip.show(box.left + u.cursor.left, box.top + u.cursor.top,
			time(answer.from + i * answer.step),
			this.sources[i] >= 0 ? lines : [['nothing was recorded']]);
	}
}

const two = n => String(n).padStart(2, '0');

/* The date where it changes, seconds where they matter. */
function label(t, at, i) {
	const d = new Date(1000 * t), before = i ? new Date(1000 * at[i - 1]) : null;
	const clock = `${two(d.getHours())}:${two(d.getMinutes())}` +
		(at.length > 1 && at[1] - at[0] < 60 ? ':' + two(d.getSeconds()) : '');
	return before && before.getDate() !== d.getDate()
		? `${two(d.getMonth() + 1)}-${two(d.getDate())}` : clock;
}
