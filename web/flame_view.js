/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph on a canvas: drawn, panned, zoomed, walked through by keyboard. It knows nothing of
 * servers: who owns it is told what was picked (onpick) or pointed at (onpoint), and gives it
 * another tree.
 *
 * The frames that lead to the tree (crumbs) stand before it, each as wide as the view. A view is a
 * range of samples of the tree, from left to right; the canvas shows the rows that are scrolled to.
 */
import { brief, cut } from './format.js';
import { children } from './tree.js';
import { h, perFrame } from './dom.js';

const ROW = 18, SLIVER = 2,
	FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const CLOSEST = 4; /* samples a view has at least */

export class FlameView {
	constructor({ label, up = false, onpick, onpoint }) {
		this.up = up;
		this.onpick = onpick;
		this.onpoint = onpoint || (() => {});
		this.canvas = h('canvas', { tabIndex: 0, role: 'application',
			'aria-roledescription': 'flame graph', 'aria-label': label });
		this.space = h('div.space');
		this.element = h('div.graph', null, this.canvas, this.space);
		this.context = this.canvas.getContext('2d', { alpha: false });
		this.tree = null;
		this.crumbs = [];
		this.hits = null;
		this.scrolls = 0; /* as far as it can be scrolled */
		/* A node; crumbs are -2, -3, ... from the innermost */
		this.cursor = this.hover = -1;
		this.redraw = perFrame(() => this.draw());
		this.listen();
	}

	/* paint: node -> colour. keep: the same graph again, newer. */
	show(tree, crumbs, paint, keep) {
		const old = this.tree;
		this.tree = tree;
		this.crumbs = crumbs;
		this.paint = paint;
		this.names = [];
		if (!keep || !old) {
			this.cursor = this.hover = -1;
			this.from = 0;
			this.to = tree.total[0];
		} else {
			const scale = tree.total[0] / (old.total[0] || 1);
			this.from *= scale;
			this.to *= scale;
			this.cursor = this.cursor < tree.n ? this.cursor : -1;
			this.hover = -1;
		}
		this.layout();
		if (this.up && !keep)
			this.element.scrollTop = this.element.scrollHeight;
		else if (!keep)
			this.element.scrollTop = 0;
		this.redraw();
	}

	repaint(paint) { this.paint = paint; this.redraw(); }
	setHits(hits) { this.hits = hits; this.redraw(); }

	setUp(up) {
		this.up = up;
		this.element.scrollTop = up ? this.element.scrollHeight : 0;
		this.redraw();
	}

	get levels() { return this.crumbs.length + this.tree.rows.length; }
	top(level) { return (this.up ? this.levels - 1 - level : level) * ROW; }

	layout() {
		if (!this.tree)
			return;
		const w = this.element.clientWidth, hgt =
			Math.min(this.element.clientHeight, Math.max(ROW, this.levels * ROW));
		const ratio = devicePixelRatio || 1, last = this.up &&
			this.element.scrollTop >= this.scrolls - 1;
		if (this.width !== w || this.height !== hgt || this.ratio !== ratio) {
			this.canvas.width = Math.max(1, Math.round(w * ratio));
			this.canvas.height = Math.max(1, Math.round(hgt * ratio));
			this.canvas.style.width = w + 'px';
			this.canvas.style.height = hgt + 'px';
			[this.width, this.height, this.ratio] = [w, hgt, ratio];
		}
		this.scrolls = Math.max(0, this.levels * ROW - hgt);
		this.space.style.height = this.scrolls + 'px';
		if (last) /* the root stays in sight when the room for it changes */
			this.element.scrollTop = this.scrolls;
	}

	/* ---- drawing ---- */

	readStyle() {
		const css = getComputedStyle(document.documentElement),
			get = n => css.getPropertyValue(n).trim();
		return { page: get('--page'), text: get('--frame-text'), hit: get('--hit'),
			soft: get('--panel'), line: get('--line'), accent: get('--accent') };
	}

	draw() {
		if (!this.tree || !this.element.isConnected)
			return;
		this.layout();
		const c = this.context;
		this.style = this.readStyle();
		c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		c.globalAlpha = 1;
		c.fillStyle = this.style.page;
		c.fillRect(0, 0, this.width, this.height);
		c.font = FONT;
		c.textBaseline = 'middle';
		c.textAlign = 'left';
		c.direction = 'ltr';
		this.letter = c.measureText('M').width;
		this.texts = [];
		const scroll = Math.round(this.element.scrollTop);
		for (let level = 0; level < this.levels; level++) {
			const y = this.top(level) - scroll;
			if (y > this.height || y + ROW < 0)
				continue;
			if (level < this.crumbs.length)
				this.drawCrumb(level, y);
			else
				this.drawRow(this.tree.rows[level - this.crumbs.length], y);
		}
		this.drawTexts();
		this.drawMarks(scroll);
	}

	drawCrumb(k, y) {
		const c = this.context, crumb = this.crumbs[k];
		c.globalAlpha = 1;
		c.fillStyle = this.style.soft;
		c.fillRect(0, y, this.width, ROW - 1);
		this.texts.push({ text: brief(crumb.name, Math.floor(this.width / this.letter) - 2),
			x: 5, y, w: this.width, dim: true, ascii: false });
	}

	/* The first of a row that ends to the right of the view's left edge. */
	firstInView(row) {
		const t = this.tree;
		let low = 0, high = row.length;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (t.start[row[mid]] + t.total[row[mid]] <= this.from)
				low = mid + 1;
			else
				high = mid;
		}
		return low;
	}

	drawRow(row, y) {
		const t = this.tree, scale = this.width / (this.to - this.from);
		/* Narrow neighbours are one sliver, with the colour of the widest */
		let at = 0, end = 0, widest = 0, some = -1;
		for (let j = this.firstInView(row); j < row.length; j++) {
			const i = row[j], left = Math.max(0, (t.start[i] - this.from) * scale);
			if (left >= this.width)
				break;
			const w = Math.min(this.width, (t.start[i] - this.from + t.total[i]) *
				scale) - left;
			if (w >= 2) {
				if (some >= 0)
					this.box(some, at, Math.max(end - at, SLIVER), y);
				some = -1;
				this.drawNode(i, left, w, y);
				continue;
			}
			if (some >= 0 && left >= at + SLIVER) {
				if (end >= at + SLIVER / 2)
					this.box(some, at, Math.max(end - at, SLIVER), y);
				some = -1;
			}
			if (some < 0) {
				at = left;
				widest = 0;
			}
			end = left + w;
			if (w > widest || some < 0 || (this.hits && this.hits[t.frame[i]])) {
				widest = w;
				some = i;
			}
		}
		if (some >= 0 && end > at + SLIVER / 4)
			this.box(some, at, Math.max(end - at, SLIVER), y);
	}

	box(i, left, w, y) {
		const c = this.context, hit = this.hits && this.hits[this.tree.frame[i]];
		c.globalAlpha = this.hits && !hit ? .3 : 1;
		c.fillStyle = hit ? this.style.hit : this.paint(i);
		/* On whole pixels: edges that are blended take several times as long */
		const x = Math.round(left);
		c.fillRect(x, y, Math.max(1, Math.round(left + w) - x), ROW - 1);
	}

	drawNode(i, left, w, y) {
		this.box(i, left, w > 3 ? w - 1 : w, y);
		const room = Math.floor((w - 7) / this.letter);
		if (room < 2)
			return;
		const f = this.tree.frame[i];
		const n = this.names[f] ||= this.nameOf(f);
		this.texts.push({ text: n.text.length > room ? cut(n.text, room) : n.text,
			x: left + 4, y, w: w - 6, ascii: n.ascii, inlined: n.inlined,
			dim: this.hits && !this.hits[f] });
	}

	nameOf(f) {
		const raw = this.tree.frames[3 * f], inlined = raw.endsWith(' (inlined)');
		const text = brief(inlined ? raw.slice(0, -10) : raw, 400);
		return { text, inlined, ascii: /^[\x20-\x7e]*$/.test(text) };
	}

	drawTexts() {
		const c = this.context, upright = this.texts.filter(x => !x.inlined),
			slanted = this.texts.filter(x => x.inlined);
		c.fillStyle = this.style.text;
		for (const [list, font] of [[upright, FONT], [slanted, 'italic ' + FONT]]) {
			if (list.length)
				c.font = font;
			for (const x of list) {
				c.globalAlpha = x.dim ? .6 : 1;
				if (x.ascii) {
					c.fillText(x.text, x.x, x.y + ROW / 2);
					continue;
				}
				c.save();
				c.beginPath();
				c.rect(x.x, x.y, x.w, ROW);
				c.clip();
				c.fillText(x.text, x.x, x.y + ROW / 2);
				c.restore();
			}
		}
		c.globalAlpha = 1;
	}

	drawMarks(scroll) {
		const c = this.context;
		for (const [i, colour, width] of [[this.hover, this.style.text, 1],
			[document.activeElement === this.canvas ? this.cursor : -1,
			this.style.accent, 2]]) {
			if (i === -1)
				continue;
			const [left, right, level] = this.extent(i);
			if (right < 0 || left > this.width)
				continue;
			c.strokeStyle = colour;
			c.lineWidth = width;
			const x = Math.max(0, left), w = Math.min(this.width, right) - x;
			c.strokeRect(x + width / 2, this.top(level) - scroll + width / 2,
				Math.max(1, w - width - 1), ROW - 1 - width);
		}
	}

	/* [left, right, level] of a node or a crumb, in pixels of the canvas. */
	extent(i) {
		if (i < -1)
			return [0, this.width, this.crumbs.length + 1 + i];
		const t = this.tree, scale = this.width / (this.to - this.from);
		return [(t.start[i] - this.from) * scale,
			(t.start[i] + t.total[i] - this.from) * scale,
			this.crumbs.length + t.depth[i]];
	}

	/* ---- where ---- */

	nodeAt(x, y) {
		const r = Math.floor((y + this.element.scrollTop) / ROW),
			level = this.up ? this.levels - 1 - r : r;
		if (level < 0 || level >= this.levels || x < 0 || x > this.width)
			return -1;
		if (level < this.crumbs.length)
			return level - this.crumbs.length - 1;
		const t = this.tree, row = t.rows[level - this.crumbs.length],
			at = this.from + x * (this.to - this.from) / this.width;
		let low = 0, high = row.length;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (t.start[row[mid]] <= at)
				low = mid + 1;
			else
				high = mid;
		}
		const i = low ? row[low - 1] : -1;
		return i >= 0 && at < t.start[i] + t.total[i] ? i : -1;
	}

	/* Show another range of samples, inside the tree. */
	view(from, to) {
		const all = this.tree.total[0], least = Math.min(all, CLOSEST);
		const w = Math.min(all, Math.max(least, to - from));
		this.from = Math.max(0, Math.min(all - w, from));
		this.to = this.from + w;
		this.redraw();
	}

	zoomAt(x, factor) {
		const at = this.from + x * (this.to - this.from) / this.width,
			w = (this.to - this.from) * factor;
		this.view(at - x / this.width * w, at - x / this.width * w + w);
	}

	pan(pixels) {
		const d = pixels * (this.to - this.from) / this.width;
		this.view(this.from + d, this.to + d);
	}

	reveal(i) {
		const [left, right, level] = this.extent(i), y = this.top(level), e = this.element;
		if (i >= 0 && (right <= 0 || left >= this.width || right - left < 2))
			this.view(this.tree.start[i] - this.tree.total[i],
				this.tree.start[i] + 2 * this.tree.total[i]);
		if (y < e.scrollTop)
			e.scrollTop = y;
		else if (y + ROW > e.scrollTop + e.clientHeight)
			e.scrollTop = y + ROW - e.clientHeight;
	}

	/* ---- mouse and keys ---- */

	listen() {
		const c = this.canvas, place = e => {
			const b = c.getBoundingClientRect();
			return [e.clientX - b.left, e.clientY - b.top];
		};
		let drag = null;
		c.addEventListener('pointermove', e => {
			if (drag) {
				const dx = drag.x - e.clientX, dy = drag.y - e.clientY;
				drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
				if (drag.moved) {
					this.pan(dx);
					this.element.scrollTop += dy;
					[drag.x, drag.y] = [e.clientX, e.clientY];
				}
			}
			this.point(drag && drag.moved ? -1 : this.nodeAt(...place(e)), e);
		});
		c.addEventListener('pointerdown', e => {
			if (e.button === 0)
				drag = { x: e.clientX, y: e.clientY, moved: false };
		});
		c.addEventListener('pointerup', e => {
			const moved = !drag || drag.moved;
			drag = null;
			const i = moved ? -1 : this.nodeAt(...place(e));
			if (i !== -1)
				this.onpick(i);
		});
		c.addEventListener('pointerleave', () => { drag = null; this.point(-1); });
		this.element.addEventListener('wheel', e => {
			if (!e.ctrlKey && !e.shiftKey && !e.deltaX)
				return;
			e.preventDefault();
			if (e.ctrlKey)
				this.zoomAt(place(e)[0], Math.exp(
					e.deltaY * (e.deltaMode ? 0.05 : 0.002)));
			else
				this.pan(e.deltaX || e.deltaY);
		}, { passive: false });
		this.element.addEventListener('scroll', this.redraw);
		c.addEventListener('keydown', e => this.key(e));
		c.addEventListener('focus', () => {
			if (this.cursor === -1 && this.tree)
				this.move(0);
			this.redraw();
		});
		c.addEventListener('blur', () => this.redraw());
		new ResizeObserver(this.redraw).observe(this.element);
	}

	point(i, event) {
		if (i !== this.hover) {
			this.hover = i;
			this.canvas.style.cursor = i === -1 ? 'default' : 'pointer';
			this.redraw();
		}
		this.onpoint(i, event);
	}

	move(i) {
		if (i === -1)
			return;
		this.cursor = i;
		this.reveal(i);
		this.onpoint(i, null);
		this.redraw();
	}

	/* What the keys mean: down is away from the root in an icicle, towards it in a flame. */
	key(e) {
		if (e.altKey || e.metaKey || !this.tree)
			return;
		const t = this.tree, i = this.cursor;
		const outward = () => {
			if (i < -1)
				return this.move(i === -2 ? 0 : i + 1);
			let best = -1;
			for (const c of children(t, Math.max(0, i)))
				if (best < 0 || t.total[c] > t.total[best])
					best = c;
			this.move(best);
		};
		const inward = () => this.move(i > 0 ? t.parent[i] : i === 0
			? (this.crumbs.length ? -2 : -1) : -i - 1 < this.crumbs.length ? i - 1
			: -1);
		const sideways = by => {
			if (i < 0)
				return;
			const row = t.rows[t.depth[i]];
			const at = row.indexOf(i) + by;
			if (at >= 0 && at < row.length)
				this.move(row[at]);
		};
		const keys = {
			ArrowDown: this.up ? inward : outward,
			ArrowUp: this.up ? outward : inward,
			ArrowLeft: () => sideways(-1),
			ArrowRight: () => sideways(1),
			Enter: () => i !== -1 && this.onpick(i),
			' ': () => i !== -1 && this.onpick(i),
			'+': () => this.zoomAt(this.width / 2, 0.7),
			'=': () => this.zoomAt(this.width / 2, 0.7),
			'-': () => this.zoomAt(this.width / 2, 1 / 0.7),
			Home: () => { this.view(0, t.total[0]); this.move(0); },
		};
		if (!Object.hasOwn(keys, e.key) || e.ctrlKey)
			return;
		e.preventDefault();
		keys[e.key]();
	}
}
