/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph with what belongs to it: how it is drawn, search, zoom with what the server left
 * out, the frame that is looked at.
 */
import { Pane } from './pane.js';
import { FlameView } from './flame_view.js';
import { FrameLine } from './frame_line.js';
import { ask } from './api.js';
import { N_VALUES, legend, painter } from './colour.js';
import { h, refill, tell } from './dom.js';
import { brief, counted, number, percent } from './format.js';
import { and, valueOf } from './selector.js';
import { baseline, select } from './state.js';
import { below, children, frameId, matchFrames, matchedTotal, module, name, overlay, pathOf,
	prunedBelow, unpack, unpackSplit } from './tree.js';
import { table } from './table.js';

const MAX_NODES = 8192, CACHED = 24;

const questionBase = s => ({ ...select(s), names: s.names, max_nodes: MAX_NODES, ...baseline(s) });
const viewOf = s => ({ view: s.view === 'inverted' ? 'inverted' : '' });

/*
 * What is asked for one graph from the root or from the leaf; split: the label whose values come
 * first.
 */
export const question = (s, by) => ({ ...questionBase(s), ...viewOf(s), root: s.root, split: by });

export class FlamePane extends Pane {
	/* data: the one graph there is, when there is no server. */
	constructor(app, host, data) {
		super(app, host);
		this.data = data;
		this.cache = new Map();
		this.view = new FlameView(
			{ label: 'Flame graph. Arrow keys walk through frames, Enter zooms, Escape zooms out.',
			onpick: i => this.pick(i), onpoint: (i, e) =>
				this.point(this.view, i, e) });
		this.callers = new FlameView({ label: 'Callers', up: true,
			onpick: i => this.sandwich(this.callers, i),
			onpoint: (i, e) => this.point(this.callers, i, e) });
		this.controls();
		this.line = new FrameLine(app);
		this.list = h('details.list', { ontoggle: () => this.showList() },
			h('summary', null, 'As a table', h('span.keys', { 'aria-hidden': 'true' },
			'drag: pan · Ctrl and wheel: zoom · arrows, Enter, Escape · / search · i turn')), h('div'));
		this.callersHost = h('div.half', { hidden: true }, h('p.label', null, 'Callers'),
			this.callers.element);
		this.calleesLabel = h('p.label', { hidden: true }, 'Callees');
		host.append(this.tools, this.legend, this.note,
			h('div.graphs', null, this.callersHost, this.calleesLabel,
			this.view.element), this.line.element, this.list);
	}

	controls() {
		const go = changes => this.app.go(changes);
		const choose = (field, title, options) => {
			const select = h('select', { 'aria-label': title, name: field,
				onchange: e => go({ [field]: e.target.value }) },
				options.map(([value, text]) => h('option', { value }, text)));
			return h('label', null, h('span', null, title), select);
		};
		this.viewSelect = choose('view', 'View',
			[['', 'from the root'], ['inverted', 'from the leaf'],
			['sandwich', 'callers and callees']]);
		this.colourSelect = choose('colour', 'Colour',
			[['kind', 'kind'], ['library', 'library'], ['label', 'label']]);
		this.splitBox = h('input', { type: 'checkbox', name: 'split',
			onchange: e => go({ split: e.target.checked ? '1' : '', root: '' }) });
		this.splitText = h('span');
		this.flip = h('button', { type: 'button',
			onclick: () => go({ up: this.app.state.up ? '' : '1' }), name: 'flip' });
		this.out = h('button', { type: 'button', onclick: () => this.zoomOut(),
			title: 'Escape', name: 'out' }, 'Zoom out');
		this.search = h('input', { type: 'search', name: 'find',
			placeholder: 'Search (regex)  /',
			'aria-label': 'Search functions and files', spellcheck: false,
			autocomplete: 'off', oninput: e => this.find(e.target.value, true) });
		this.match = h('span.match', { role: 'status' });
		this.legend = h('div.legend', { 'aria-label': 'Colours' });
		this.tools = h('div.tools', null, this.viewSelect, this.colourSelect,
			h('label.check', null, this.splitBox, this.splitText), this.flip, this.out,
			this.search, this.match);
	}

	/* ---- asking ---- */

	update(again) {
		if (this.data)
			return this.updateAlone();
		const s = this.app.state;
		this.showControls(s);
		const key = this.keyOf(s);
		if (again)
			this.cache.clear();
		const load = async signal => {
			const had = this.cache.get(key);
			if (had)
				return had;
			const got = s.view === 'sandwich' ? await this.askSandwich(s, signal)
				: this.isMerged(s) ? await this.askMerged(s, signal)
				: this.unpacked(await ask('flame', question(s, this.splitBy(s)),
					signal));
			this.remember(key, got);
			return got;
		};
		this.key = key;
		if (key === this.asked && !again)
			return this.display(this.shown, true);
		const loaded = this.load(key, true, load, got => this.display(got, again));
		if (!this.shown && this.splitBy(s) && !s.root)
			this.showWhole(key, s, this.running.signal);
		return loaded;
	}

	/*
	 * At first: the graph that is not split takes the server a tenth of the time, and stands
	 * there until the other one comes.
	 */
	async showWhole(key, s, signal) {
		const data = await ask('flame', question(s, ''), signal).catch(() => null);
		if (data && key === this.asked && !this.shown)
			this.display({ ...this.unpacked(data), provisional: true }, false);
	}

	/* By its values? Of a key with very many every window of the range would be read. */
	byValues(s) {
		return s.by && !this.app.compared() && s.view !== 'sandwich' &&
			!this.app.time.tooWide(s);
	}
	splitBy(s) { return s.split && this.byValues(s) ? s.by : ''; }

	/* A graph for each value, laid over each other. */
	isMerged(s) { return !s.split && s.colour === 'label' && this.byValues(s); }

	/* What a graph depends on. */
	keyOf(s) {
		return JSON.stringify([
			questionBase(s), s.view, s.fn, s.module, this.isMerged(s) && s.by,
			this.splitBy(s), s.root
		]);
	}

	/* Zoomed to in what is here. */
	updateAlone() {
		const s = this.app.state;
		this.alone ||= this.unpacked(this.data);
		this.showControls(s);
		const [tree, crumbs] = s.root ? this.localZoom(this.alone.tree, s.root.split('.'))
			: [this.alone.tree, []];
		this.display({ ...this.alone, tree, crumbs: [...this.alone.crumbs, ...crumbs] },
			s.root === this.root);
		this.root = s.root;
	}

	remember(key, got) {
		this.cache.set(key, got);
		if (this.cache.size > CACHED)
			this.cache.delete(this.cache.keys().next().value);
	}

	unpacked(data) {
		const crumbs = [];
		for (let i = 0; data.path && i < data.path.length; i += 3)
			crumbs.push({ name: data.path[i], module: data.path[i + 1],
				total: data.path[i + 2] });
		return { data, tree: data.values ? unpackSplit(data) : unpack(data), crumbs,
			samples: data.samples };
	}

	async askSandwich(s, signal) {
		const of = view => ask('flame', { ...questionBase(s), view, function: s.fn,
			module: s.module }, signal);
		const [callees, callers] = await Promise.all([of('callees'), of('callers')]);
		const alone = data => { /* without the root above the function */
			const got = this.unpacked(data);
			return got.tree.n > 1 ? { ...got, tree: below(got.tree, 1) } : got;
		};
		return { ...alone(callees), callers: alone(callers) };
	}

	/* A graph for each of the most frequent values, and one of all others. */
	async askMerged(s, signal) {
		const base = { ...questionBase(s), ...viewOf(s) };
		const top = await ask('table', { ...this.app.select(), by: s.by, limit: N_VALUES },
			signal);
		const values = top.rows.filter(r => !r.other).map(r => valueOf(r.key[s.by]));
		const wheres = values.map(v => and(s.where, s.by, '=', v));
		if (top.n_rows > values.length)
			wheres.push(values.reduce((w, v) => and(w, s.by, '!=', v), s.where));
		const root = s.root;
		const answers = await Promise.all(wheres.map(where =>
			ask('flame', { ...base, where, root, max_nodes: MAX_NODES / 4 }, signal)
			.catch(e => {
			if (root && e.status === 404)
				return null; /* this value never was there */
			throw e;
		})));
		const names = [...values.map(v => v === '' ? '(none)' : v), '(others)'],
			there = answers.map((a, i) => [a, i]).filter(([a]) => a);
		if (!there.length)
			return this.unpacked(await ask('flame', { ...base, root }, signal));
		const trees = there.map(([a]) => unpack(a));
		const tree = overlay(trees, there.map(([, i]) => names[i]));
		/* The colours of the chart, whichever are missing here */
		for (let i = 0; i < tree.n; i++)
			if (tree.value[i] !== 255)
				tree.value[i] = there[tree.value[i]][1];
		tree.values = names.slice(0, wheres.length);
		if (root) {
			const one = there[0][0].frames;
			tree.frames[0] = one[3 * there[0][0].nodes[2]];
			tree.frames[1] = one[3 * there[0][0].nodes[2] + 1];
		}
		return { data: there[0][0], tree, crumbs: this.unpacked(there[0][0]).crumbs,
			samples: top.samples };
	}

	/* ---- showing ---- */

	showControls(s) {
		this.viewSelect.hidden = this.splitBox.parentNode.hidden = !!this.data;
		this.colourSelect.lastChild.lastChild.disabled = !s.by;
		this.viewSelect.lastChild.value = s.view;
		this.viewSelect.lastChild.lastChild.disabled = !s.fn;
		this.colourSelect.lastChild.value = s.colour;
		this.colourSelect.lastChild.disabled = this.app.compared();
		this.splitBox.checked = !!s.split;
		this.splitBox.disabled = !s.by || this.app.compared() || s.view === 'sandwich';
		this.splitText.textContent = s.by ? `split by ${brief(s.by, 24)}` : 'split';
		this.flip.textContent = s.up ? 'Icicle' : 'Flame';
		this.flip.title = 'i';
		this.out.disabled = !s.root && s.view !== 'sandwich';
		if (document.activeElement !== this.search)
			this.search.value = s.find;
	}

	/* keep: what is looked at stays, if it can. */
	display(got, keep) {
		if (!got)
			return;
		const s = this.app.state;
		keep = keep || (this.shown && this.shown.provisional && got.key === this.shown.key);
		this.shown = got;
		const { tree, crumbs } = got;
		this.tree = tree;
		this.crumbs = crumbs;
		this.sums = tree.against ? [got.data.samples, got.data.against_samples] : null;
		const paint = painter(tree, s.colour === 'label' && !tree.value ? 'kind' : s.colour,
			this.sums);
		this.view.up = !!s.up && s.view !== 'sandwich';
		this.view.show(tree, crumbs, paint, keep);
		const sandwich = !!got.callers;
		this.callersHost.hidden = this.calleesLabel.hidden = !sandwich;
		if (sandwich)
			this.callers.show(got.callers.tree, [],
				painter(got.callers.tree, s.colour,
				got.callers.tree.against && this.sums), keep);
		this.showLegend();
		this.find(s.find, false);
		this.line.show(this.about(this.view, this.view.cursor >= 0 ? this.view.cursor : 0));
		this.showList();
		this.view.element.classList.toggle('empty', !tree.total[0]);
		if (!tree.total[0] && !(tree.against && tree.against[0]))
			this.fail('No sample matches.');
		this.app.drawn('flame');
	}

	/* The values have other colours. */
	recolour() {
		if (this.shown && this.shown.tree.value)
			this.display(this.shown, true);
	}

	localZoom(tree, ids) {
		const crumbs = [];
		let at = 0;
		for (const id of ids) {
			let next = -1;
			for (const c of children(tree, at))
				if (frameId(name(tree, c), module(tree, c)) === id)
					next = c;
			if (next < 0)
				break;
			crumbs.push({ name: name(tree, at), module: module(tree, at),
				total: tree.total[at] });
			at = next;
		}
		return at ? [below(tree, at), crumbs] : [tree, []];
	}

	showLegend() {
		const list = legend(this.tree, this.app.state.colour, !!this.sums), MOST = 12;
		this.legend.replaceChildren(...list.slice(0, MOST).map(([text, colour]) => {
			const box = h('i');
			box.style.background = colour;
			return h('span', null, box, h('bdi', null, brief(text, 40)));
		}), list.length > MOST ? `and ${list.length - MOST} more` : '',
			!this.data && (this.app.state.split || this.app.state.colour === 'label') &&
				this.app.time.tooWide(this.app.state)
				? 'in ranges of up to ten minutes each value is one' : '');
	}

	/* ---- zoom ---- */

	ids(i) {
		return pathOf(this.tree, i)
			.map(k => frameId(name(this.tree, k), module(this.tree, k)));
	}
	rootIds() { return this.app.state.root ? this.app.state.root.split('.') : []; }

	pick(i) {
		if (this.app.state.view === 'sandwich')
			return this.sandwich(this.view, i);
		if (i < -1)
			return this.app.go({ root: this.rootIds()
				.slice(0, Math.max(0, this.rootIds().length + 1 + i)).join('.') });
		if (i === 0)
			return;
		if (this.tree.frame[i] === 1 || (this.tree.frame[i] !== 1 &&
			name(this.tree, i) === '(other)'))
			i = this.tree.parent[i]; /* what is in it is seen where it is */
		if (i <= 0)
			return this.app.say('These frames are too small to be told apart here.');
		const root = [...this.rootIds(), ...this.ids(i)].join('.');
		if (root.length > 4096)
			return this.app.say('Too deep to be put into the address.');
		this.zoomTo(i, root);
	}

	/* At once with what is here; what the server left out comes after. */
	zoomTo(i, root) {
		const t = this.tree, crumbs = [...this.crumbs,
			...[0, ...pathOf(t, i).slice(0, -1)].map(k =>
			({ name: name(t, k), module: module(t, k), total: t.total[k] }))];
		const got = { ...this.shown, tree: below(t, i), crumbs };
		const whole = !prunedBelow(t, i);
		if (this.data)
			return this.app.go({ root });
		this.display({ ...got, provisional: true }, false);
		this.zooming = whole ? got : null;
		this.app.go({ root }, () => {
			if (whole)
				this.remember(this.keyOf(this.app.state), got);
		});
	}

	zoomOut() {
		if (this.app.state.view === 'sandwich')
			return this.app.go({ view: '', fn: '', module: '' });
		if (this.app.state.root)
			this.app.go({ root: this.rootIds().slice(0, -1).join('.') });
		else
			this.view.view(0, this.tree.total[0]);
	}

	sandwich(view, i) {
		const t = view.tree;
		if (i >= 0 && t.frame[i] > 1 && name(t, i) !== '(other)')
			this.app.sandwich(name(t, i), module(t, i));
	}

	/* ---- search ---- */

	find(text, typed) {
		const t = this.tree;
		if (typed)
			this.app.go({ find: text }, null, true);
		if (!t)
			return;
		const hits = text ? matchFrames(t, text) : null;
		this.search.classList.toggle('wrong', !!text && !hits);
		this.search.setAttribute('aria-invalid', String(!!text && !hits));
		this.view.setHits(hits);
		if (this.shown.callers)
			this.callers.setHits(text ? matchFrames(this.shown.callers.tree, text)
				: null);
		const sum = hits ? matchedTotal(t, hits) : 0;
		tell(this.match, !text ? '' : !hits ? 'not a regular expression'
			: `matched ${percent(sum, t.total[0])}, ${counted(sum, this.shown.data.counts)}`);
	}

	/* ---- the frame that is looked at ---- */

	about(view, i) {
		const t = view.tree;
		if (!t || i === -1)
			return null;
		if (i < -1) {
			const c = view.crumbs[view.crumbs.length + 1 + i];
			return { name: c.name, module: c.module, kind: 4, total: c.total,
				of: this.shown.samples, data: this.shown.data };
		}
		return { name: name(t, i), module: module(t, i), kind: t.frames[3 * t.frame[i] + 2],
			total: t.total[i], own: t.own[i], zoom: t.total[0],
			of: this.shown.samples, against: t.against ? t.against[i] : null,
				sums: this.sums, verdict: t.verdict ? t.verdict[i] : 0,
			value: t.value && t.value[i] !== 255 ? t.values[t.value[i]] : null,
				data: this.shown.data };
	}

	point(view, i, event) {
		const about = this.about(view, i);
		if (!event) {
			this.app.tip.hide();
			if (about) {
				this.line.show(about);
				this.app.say(this.line.words(about));
			}
			return;
		}
		if (about)
			this.app.tip.show(event.clientX, event.clientY, brief(about.name, 300),
				this.line.lines(about));
		else
			this.app.tip.hide();
	}

	/* What the canvas shows, one level at a time. */
	showList() {
		if (!this.list.open || !this.tree)
			return;
		const t = this.tree, rows = [0, ...children(t, 0)];
		refill(this.list.lastChild, [table({
			caption: 'Frames below the one that is zoomed to', rows, columns: [
				{ id: 'name', title: 'Frame', header: true, wide: true,
					cell: i => i && t.frame[i] !== 1
					? h('button.link', { type: 'button',
					onclick: () => this.pick(i) },
					h('bdi', null, brief(name(t, i), 200)))
						: h('bdi', null, brief(name(t, i), 200)) },
				{ id: 'module', title: 'File',
					cell: i => h('bdi', null, brief(module(t, i), 80)) },
				{ id: 'total', title: 'Samples', number: true,
					cell: i => number(t.total[i]) },
				{ id: 'share', title: 'Of all', number: true,
					cell: i => percent(t.total[i], this.shown.samples) },
				{ id: 'own', title: 'Self', number: true,
					cell: i => number(t.own[i]) },
			] })], this.list.firstChild);
	}
}
