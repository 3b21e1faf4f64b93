/* SPDX-License-Identifier: Apache-2.0 */
/* The page: what the address says is shown, what is done changes the address. */
import { ask, askEarly, noLonger, setToken, takeToken } from './api.js';
import { Bar } from './bar.js';
import { BlamePane } from './blame_pane.js';
import { Chart } from './chart.js';
import { byId, h, later } from './dom.js';
import { FactsPane } from './facts.js';
import { FindingsPane } from './findings.js';
import { FlamePane, question } from './flame_pane.js';
import { brief, stamp } from './format.js';
import { DiffPane, FunctionsPane } from './functions.js';
import { HeatPane } from './heat_pane.js';
import { Pane } from './pane.js';
import { baseline, compared, format, parse, select } from './state.js';
import { startTheme } from './theme.js';
import { Tip } from './tip.js';
import { ValuesPane } from './values.js';
import { WaitsPane } from './waits_pane.js';
import { WhyPane } from './why_pane.js';

const LIVE_MS = 2000, LIVE_S = 30, FIRST_S = 900, STACKED_S = 600, SERIES = 50, SELECTOR_MAX = 8000;
const WAITS = /^(off-cpu|runq)(\.lengths)?$|^blame$|^waker$|^latency$/;
/*
 * Who it is, which every sample has, comes first; then what programs call their work; then the rest
 * of the system's.
 */
const WHO = ['service', 'workload', 'pod', 'container', 'unit', 'comm'];
const USUAL = ['tenant', 'customer', 'service_name', 'endpoint', 'route', 'query_id'];
const SYSTEM = ['parent', 'cmdline', 'namespace', 'exe', 'cgroup', 'thread', 'event', 'tgid',
	'tid'];

class App {
	constructor() {
		byId('skip').addEventListener('click', e => {
			e.preventDefault();
			byId('tab-' + this.state.tab).focus();
		});
		[this.state, this.problems] = parse(location.search);
		this.used = null;
		this.cpus = 0;
		this.tip = new Tip();
		this.say = later(text => { byId('said').textContent = text; }, 50);
		this.bar = new Bar(this, byId('bar'));
		this.facts = new FactsPane(this, byId('facts'));
		this.findings = new FindingsPane(this, byId('findings'));
		this.time = new TimePane(this, byId('time'));
		this.values = new ValuesPane(this, byId('values'));
		this.tabs = this.makeTabs(byId('panes'));
		this.flame = new FlamePane(this, this.tabs.flame);
		addEventListener('popstate', () => {
			[this.state, this.problems] = parse(location.search);
			this.complete();
			this.update();
		});
		addEventListener('keydown', e => this.key(e));
		document.addEventListener('visibilitychange', () => this.tick());
		setInterval(() => this.tick(), LIVE_MS);
	}

	makeTabs(host) {
		const panels = {};
		this.tabList = h('div.tabs', { role: 'tablist', 'aria-label': 'Views',
			onkeydown: e => this.tabKey(e) });
		host.append(this.tabList);
		for (const [id, text] of [['flame', 'Flame graph'], ['diff', 'Diff'],
			['functions', 'Functions'], ['heat', 'Heat map'], ['waits', 'Waits'],
			['blame', 'Blame'], ['why', 'Why']]) {
			const tab = h('button', { type: 'button', role: 'tab', id: 'tab-' + id,
				'aria-controls': 'panel-' + id,
				onclick: () => this.go({ tab: id }) }, text);
			panels[id] = h('div.panel', { role: 'tabpanel', id: 'panel-' + id,
				'aria-labelledby': 'tab-' + id });
			this.tabList.append(tab);
			host.append(panels[id]);
		}
		return panels;
	}

	/* What many never look at is made when somebody does. */
	get functions() {
		return this.functionsPane ||= new FunctionsPane(this, this.tabs.functions);
	}
	get diff() { return this.diffPane ||= new DiffPane(this, this.tabs.diff); }
	get blame() { return this.blamePane ||= new BlamePane(this, this.tabs.blame); }
	get heat() { return this.heatPane ||= new HeatPane(this, this.tabs.heat); }
	get why() { return this.whyPane ||= new WhyPane(this, this.tabs.why); }
	get waits() { return this.waitsPane ||= new WaitsPane(this, this.tabs.waits); }

	tabKey(e) {
		const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key],
			names = Object.keys(this.tabs).filter(id => !byId('tab-' + id).hidden);
		if (!by)
			return;
		e.preventDefault();
		const to = names[(names.indexOf(this.state.tab) + by +
			names.length) % names.length];
		this.go({ tab: to });
		byId('tab-' + to).focus();
	}

	/* ---- what is asked for ---- */

	select() { return select(this.state); }
	compared() { return compared(this.state); }
	baseline() { return baseline(this.state); }

	/* ---- what is done ---- */

	/*
	 * instead: the address changes, but not what "back" leads to; nothing else is shown anew.
	 */
	go(changes, before, instead) {
		const next = { ...this.state, ...changes };
		if (next.where.length + next.against.length > SELECTOR_MAX)
			return this.warn('A value that long cannot be selected.');
		if (format(next) === format(this.state) && !this.problems.length)
			return;
		this.state = next;
		this.problems = [];
		history[instead ? 'replaceState' : 'pushState'](null, '',
			format(this.state) || location.pathname);
		if (before)
			before();
		if (!instead || Object.hasOwn(changes, 'filter'))
			this.update();
	}

	warn(text) {
		this.problems = [text];
		this.showProblems();
	}

	showProblems() {
		const text = this.problems.join('\n');
		if (text === this.told) /* said once */
			return;
		this.told = text;
		byId('problems').replaceChildren(...this.problems.map(p =>
			h('p', null, h('bdi', null, brief(p, 300)))));
	}

	range(from, to) {
		this.go({ from: stamp(from), to: stamp(Math.max(to, from + 1)), live: '' });
	}

	/* The same length of time before the range in use. null: no range is in use yet. */
	before() {
		const used = this.used;
		return used && { against_from: used.from - (used.to - used.from),
			against_to: used.from };
	}

	compareWith(from, to) {
		this.go({ against_from: stamp(from), against_to: stamp(Math.max(to, from + 1)),
			root: '', split: '' });
	}

	/* Around one function; its inlined calls are calls of it. */
	sandwich(name, module) {
		this.go({ view: 'sandwich', fn: name.replace(/ \(inlined\)$/, ''), module, root: '',
			tab: 'flame', split: '' });
	}

	/* An answer was refused: true when that was dealt with. */
	refused(e) {
		if (e.status === 401) {
			this.askToken(e.message);
			return true;
		}
		if (e.status === 404 && this.state.root) {
			this.fallBack({ root: '' }, e.message);
			return true;
		}
		if (e.status !== 400)
			return false;
		const s = this.state, changes = /^selector|regular expression/.test(e.message)
			? { where: '', against: '', against_from: '', against_to: '' }
			: /event/.test(e.message) && s.event ? { event: '' }
				: /against_/.test(e.message) ? { against: '', against_from: '',
				against_to: '' }
				: /from|to\b/.test(e.message) && (s.from || s.to)
					? { from: '', to: '' } : /root/.test(e.message) && s.root
					? { root: '' } : null;
		if (!changes || Object.keys(changes).every(k => !s[k]))
			return false;
		this.fallBack(changes, e.message);
		return true;
	}

	fallBack(changes, why) {
		const had = Object.keys(changes).filter(k => this.state[k]);
		this.state = { ...this.state, ...changes };
		this.problems.push(`${why}. Shown without: ${had.join(', ')}`);
		this.update();
	}

	askToken(text) {
		if (byId('token'))
			return;
		const input = h('input', { type: 'password', name: 'token', 'aria-label': 'Token',
			autocomplete: 'current-password', size: 30 });
		const form = h('form', { id: 'token',
			onsubmit: e => { e.preventDefault(); setToken(input.value);
			location.reload(); } },
			h('span', null, brief(text, 120) + ': '), input,
				h('button', { type: 'submit' }, 'Use'));
		byId('problems').replaceChildren(form);
		input.focus();
	}

	key(e) {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
		if (e.key === 'Escape') {
			if (this.bar.closeMenu())
				return;
			if (typing)
				document.activeElement.blur();
			else if (this.state.tab === 'flame')
				this.flame.zoomOut();
		} else if (!typing && e.key === '/') {
			e.preventDefault();
			({ flame: this.flame.search, diff: this.diff.filter }[this.state.tab] ||
				this.functions.filter).focus();
		} else if (!typing && e.key === 'i') {
			this.go({ up: this.state.up ? '' : '1' });
		}
	}

	/* ---- showing ---- */

	update(again) {
		const s = this.state;
		document.title = ['ascribe', ...[s.where,
			s.view === 'sandwich' ? s.fn : ''].filter(Boolean)
			.map(t => brief(t, 60))].join(': ');
		this.showProblems();
		this.bar.update();
		this.facts.update(again);
		byId('page').classList.toggle('waits', !!s.waits);
		this.values.showKeys(this.keys || [], s.by);
		this.showTab(s, again);
		this.time.update(again);
		this.values.update(again);
		this.findings.update(again); /* takes the server longest: last */
	}

	showTab(s, again) {
		const left = Object.keys(this.tabs).some(id => id !== s.tab &&
			this.tabs[id].contains(document.activeElement));
		for (const id of Object.keys(this.tabs)) {
			const shown = id === s.tab, tab = byId('tab-' + id);
			this.tabs[id].hidden = !shown;
			tab.hidden = (id === 'blame' || id === 'waits') && !this.has_waits &&
				!shown;
			tab.setAttribute('aria-selected', String(shown));
			tab.tabIndex = shown ? 0 : -1;
		}
		if (left)
			byId('tab-' + s.tab).focus();
		this[s.tab].update(again);
	}

	repaint() {
		this.time.draw();
		if (this.flame.shown)
			this.flame.display(this.flame.shown, true);
		if (this.values.answer)
			this.values.draw();
		if (this.heatPane && this.heatPane.grid)
			this.heatPane.draw();
	}

	/*
	 * Ask for what is new; only that is shown anew. What takes longer than a tick is waited
	 * for.
	 */
	async tick() {
		if (!this.state.live || document.hidden || document.querySelector('[aria-busy]'))
			return;
		const { to, now } = await ask('labels', { names_only: true }).catch(() => ({}));
		if (to && to !== this.newest)
			this.update(true);
		this.newest = to || this.newest;
		this.bar.showAge(to ? now - to : -1);
	}

	/* For whoever measures: performance marks, the first time each. */
	drawn(what) {
		if (!performance.getEntriesByName('drawn-' + what).length)
			performance.mark('drawn-' + what);
	}

	/* A range is known once the chart has it. */
	range_used(answer) {
		this.used = answer.to ? { from: answer.from, to: answer.to } : null;
		this.facts.select(answer);
		this.values.compare();
		if (this.state.tab === 'diff' || this.state.tab === 'heat')
			this[this.state.tab].update();
		this.bar.showChips(this.state);
	}

	cpus_known(n) {
		const other = n !== this.cpus;
		this.cpus = n;
		if (other)
			this.time.draw();
	}

	/*
	 * Who gave no range and no label gets the last 15 minutes, and who it was. The address says
	 * so: a link shows the same to others.
	 */
	complete() {
		const s = this.state, names = this.names, first = !location.search.replace('?', '');
		if (!names)
			return;
		if (!s.by && this.keys.length)
			s.by = this.keys[0].key;
		if (first && names.to) {
			if (names.now - names.to < LIVE_S)
				Object.assign(s, { from: 'now-15m', live: '1' });
			else if (names.to - names.from > 1.5 * FIRST_S)
				Object.assign(s, { from: String(names.to - FIRST_S),
					to: String(names.to) });
			s.split = '1';
		}
		history.replaceState(null, '', format(s) || location.pathname);
	}

	/* Waits are events, too, with metrics and panes of their own. */
	showEvents(names, units) {
		this.has_waits = names.includes('runq') || names.includes('off-cpu');
		this.has_wakers = names.includes('waker');
		this.bar.showEvents(names.filter(n => !WAITS.test(n)), units, this.has_waits,
			this.has_wakers, names.includes('latency'));
	}

	async start() {
		startTheme(() => this.repaint());
		this.bar.showTheme();
		await this.askNames();
		this.complete();
		this.update();
		noLonger();
	}

	async askNames() {
		try {
			this.names = await ask('labels', { names_only: true });
			this.keys = order(this.names.keys);
			this.newest = this.names.to;
			this.showEvents(this.names.events, this.names.units);
			this.bar.showHost(this.names.host);
		} catch (e) {
			if (!this.refused(e))
				this.problems.push(e.message);
		}
	}
}

/*
 * Of the others, those with very many values come later; those of who waited for whom are for the
 * panes of waits.
 */
function order(keys) {
	const place = (list, k) => list.includes(k.key) ? list.indexOf(k.key) : -1;
	const rank = k => place(WHO, k) >= 0 ? place(WHO, k) : place(SYSTEM, k) >= 0
		? 300 + place(SYSTEM, k) : k.wide ? 200 : place(USUAL, k) >= 0
		? 100 + place(USUAL, k) : 150;
	return keys.filter(k => !k.key.startsWith('by.'))
		.sort((a, b) => rank(a) - rank(b) || b.sets - a.sets || (a.key < b.key ? -1 : 1));
}

class TimePane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.plot = h('div.plot', { role: 'img' });
		this.wide = h('p.over', { hidden: true });
		host.append(this.note, this.plot, this.wide);
		this.chart = new Chart(this.plot, { onrange: (from, to) => app.range(from, to),
			onbaseline: (from, to) => app.compareWith(from, to), tip: app.tip });
		this.plot.addEventListener('mouseleave', () => app.tip.hide());
	}

	update(again) {
		const s = this.app.state, select = this.app.select();
		const wide = this.tooWide(s) && !!(select.where || select.metric),
			params = { ...select, by: wide ? '' : s.by, limit: SERIES };
		if (!s.by && !this.app.keys)
			return;
		this.wide.hidden = !wide;
		this.wide.textContent = wide
			? `${brief(s.by, 40)} has very many values: of a selection they are stacked in ranges of up to ten minutes.` : '';
		return this.load(JSON.stringify(params), again,
			signal => ask('series', params, signal), answer => {
			this.answer = answer;
			this.by = wide ? '' : s.by;
			if (!wide) {
				this.wide.hidden = answer.exact !== false;
				this.wide.textContent = answer.exact === false
					? `${brief(s.by, 40)} has very many values: each has at least what is drawn, the rest is in (other).` : '';
			}
			if (!wide)
				this.app.values.ofChart(answer, s.by); /* and the colours with it */
			this.draw();
			this.app.range_used(answer);
			this.app.drawn('chart');
		});
	}

	/*
	 * What each value of such a key did by itself is in the windows alone: a day of them takes
	 * long to read.
	 */
	tooWide(s) {
		const key = (this.app.keys || []).find(k => k.key === s.by),
			span = s.to && s.from ? Number(s.to) - Number(s.from) : NaN;
		return !!key && key.wide && !(span <= STACKED_S);
	}

	draw() {
		const { against_from, against_to } = this.app.state,
			baseline = against_from && against_to
			? [Number(against_from), Number(against_to)] : null;
		if (this.answer)
			this.chart.show(this.answer, this.by, v => this.app.values.rank(this.by, v),
				this.app.cpus, baseline);
	}
}

/* The server is at it while the page is made. */
function begin() {
	const [state] = parse(location.search);
	askEarly('labels', { names_only: true });
	if (state.from)
		askEarly('stat', { from: state.from, to: state.to });
	if (state.from && state.tab === 'flame' && state.view !== 'sandwich' &&
		(state.split ? !state.root : state.colour !== 'label'))
		askEarly('flame', question(state, ''));
}

takeToken();
addEventListener('hashchange', () => { if (takeToken()) location.reload(); });
begin();
new App().start();
