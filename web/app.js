/* SPDX-License-Identifier: Apache-2.0 */
/* The page: what the address says is shown, what is done changes the address. */
import { ask, askEarly, noLonger, setToken, takeToken } from './api.js';
import { Bar } from './bar.js';
import { BlamePane } from './blame_pane.js';
import { Chart } from './chart.js';
import { byId, h, later } from './dom.js';
import { FactsPane } from './facts.js';
import { FlamePane, question } from './flame_pane.js';
import { brief } from './format.js';
import { FunctionsPane } from './functions.js';
import { Pane } from './pane.js';
import { baseline, compared, format, parse, select } from './state.js';
import { startTheme } from './theme.js';
import { Tip } from './tip.js';
import { ValuesPane } from './values.js';
import { WaitsPane } from './waits_pane.js';

const LIVE_MS = 5000, SOON_MS = 60, STACKED_S = 600, SERIES = 50, SELECTOR_MAX = 8000;
/* Keys that the system has for every sample: a label that programs gave themselves is shown first. */
const WAITS = /^(off-cpu|runq)(\.lengths)?$|^blame$|^waker$/;
const USUAL = ['tenant', 'customer', 'service_name', 'endpoint', 'route'];
const SYSTEM = ['service', 'comm', 'parent', 'unit', 'container', 'pod', 'namespace', 'exe', 'cgroup', 'thread', 'event', 'cmdline', 'tgid', 'tid'];

class App {
	constructor() {
		byId('skip').addEventListener('click', e => { e.preventDefault(); byId('tab-' + this.state.tab).focus(); });
		[this.state, this.problems] = parse(location.search);
		this.chosenBy = '';
		this.used = null;
		this.tip = new Tip();
		this.say = later(text => { byId('said').textContent = text; }, 50);
		this.bar = new Bar(this, byId('bar'));
		this.facts = new FactsPane(this, byId('facts'));
		this.time = new TimePane(this, byId('time'));
		this.values = new ValuesPane(this, byId('values'));
		this.tabs = this.makeTabs(byId('panes'));
		this.flame = new FlamePane(this, this.tabs.flame);
		addEventListener('popstate', () => { [this.state, this.problems] = parse(location.search); this.defaultBy(); this.update(); });
		addEventListener('keydown', e => this.key(e));
		document.addEventListener('visibilitychange', () => this.tick());
		setInterval(() => this.tick(), LIVE_MS);
	}

	makeTabs(host) {
		const panels = {};
		this.tabList = h('div.tabs', { role: 'tablist', 'aria-label': 'Views', onkeydown: e => this.tabKey(e) });
		host.append(this.tabList);
		for (const [id, text] of [['flame', 'Flame graph'], ['functions', 'Functions'], ['blame', 'Blame'], ['waits', 'Waits']]) {
			const tab = h('button', { type: 'button', role: 'tab', id: 'tab-' + id, 'aria-controls': 'panel-' + id, onclick: () => this.go({ tab: id }) }, text);
			panels[id] = h('div.panel', { role: 'tabpanel', id: 'panel-' + id, 'aria-labelledby': 'tab-' + id });
			this.tabList.append(tab);
			host.append(panels[id]);
		}
		return panels;
	}

	/* What many never look at is made when somebody does. */
	get functions() { return this.functionsPane ||= new FunctionsPane(this, this.tabs.functions); }
	get blame() { return this.blamePane ||= new BlamePane(this, this.tabs.blame); }
	get waits() { return this.waitsPane ||= new WaitsPane(this, this.tabs.waits); }

	tabKey(e) {
		const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key], names = Object.keys(this.tabs).filter(id => !byId('tab-' + id).hidden);
		if (!by)
			return;
		e.preventDefault();
		const to = names[(names.indexOf(this.state.tab) + by + names.length) % names.length];
		this.go({ tab: to });
		byId('tab-' + to).focus();
	}

	/* ---- what is asked for ---- */

	select() { return select(this.state); }
	compared() { return compared(this.state); }
	baseline() { return baseline(this.state); }

	/* ---- what is done ---- */

	/* instead: the address changes, but not what "back" leads to; nothing else is shown anew. */
	go(changes, before, instead) {
		const next = { ...this.state, ...changes };
		if (next.where.length + next.against.length > SELECTOR_MAX)
			return this.warn('A value that long cannot be selected.');
		if (format(next) === format(this.state) && !this.problems.length)
			return;
		this.state = next;
		this.problems = [];
		history[instead ? 'replaceState' : 'pushState'](null, '', format(this.shownState()) || location.pathname);
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
		byId('problems').replaceChildren(...this.problems.map(p => h('p', null, h('bdi', null, brief(p, 300)))));
	}

	/* The key that was chosen for who did not choose is not in the address. */
	shownState() { return this.state.by === this.chosenBy ? { ...this.state, by: '' } : this.state; }

	range(from, to) {
		const round = t => String(Math.round(t * 10) / 10);
		this.go({ from: round(from), to: round(Math.max(to, from + 1)), live: '' });
	}

	/* Around one function; its inlined calls are calls of it. */
	sandwich(name, module) {
		this.go({ view: 'sandwich', fn: name.replace(/ \(inlined\)$/, ''), module, root: '', tab: 'flame', split: '' });
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
		const s = this.state, changes = /^selector|regular expression/.test(e.message) ? { where: '', against: '', against_from: '', against_to: '' }
			: /event/.test(e.message) && s.event ? { event: '' } : /against_/.test(e.message) ? { against: '', against_from: '', against_to: '' }
				: /from|to\b/.test(e.message) && (s.from || s.to) ? { from: '', to: '' } : /root/.test(e.message) && s.root ? { root: '' } : null;
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
		const input = h('input', { type: 'password', name: 'token', 'aria-label': 'Token', autocomplete: 'current-password', size: 30 });
		const form = h('form', { id: 'token', onsubmit: e => { e.preventDefault(); setToken(input.value); location.reload(); } },
			h('span', null, brief(text, 120) + ': '), input, h('button', { type: 'submit' }, 'Use'));
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
			(this.state.tab === 'flame' ? this.flame.search : this.functions.filter).focus();
		} else if (!typing && e.key === 'i') {
			this.go({ up: this.state.up ? '' : '1' });
		}
	}

	/* ---- showing ---- */

	update(again) {
		const s = this.state;
		document.title = ['ascribe', ...[s.where, s.view === 'sandwich' ? s.fn : ''].filter(Boolean).map(t => brief(t, 60))].join(': ');
		this.showProblems();
		this.bar.update();
		this.facts.update(again);
		this.time.update(again);
		this.values.showKeys(this.keys || [], s.by);
		this.values.update(again);
		const left = Object.keys(this.tabs).some(id => id !== s.tab && this.tabs[id].contains(document.activeElement));
		for (const id of Object.keys(this.tabs)) {
			const shown = id === s.tab, tab = byId('tab-' + id);
			this.tabs[id].hidden = !shown;
			tab.hidden = (id === 'blame' || id === 'waits') && !this.has_waits && !shown;
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
	}

	tick() {
		if (this.state.live && !document.hidden && !document.querySelector('[aria-busy]')) /* what takes longer than that is waited for */
			this.update(true);
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
		this.bar.showChips(this.state);
	}

	defaultBy() {
		if (!this.state.by)
			this.state.by = this.chosenBy;
	}

	/* Waits are events, too, with metrics and panes of their own. */
	showEvents(names) {
		this.has_waits = names.includes('runq') || names.includes('off-cpu');
		this.bar.showEvents(names.filter(n => !WAITS.test(n)), this.has_waits, names.includes('waker'));
		byId('page').classList.toggle('waits', this.has_waits);
	}

	async start() {
		startTheme(() => this.repaint());
		this.bar.showTheme();
		const names = this.askNames();
		await Promise.race([names, new Promise(go => setTimeout(go, SOON_MS))]);
		if (!this.named && !this.state.by && !this.state.split && this.state.colour !== 'label')
			this.update(); /* what is not shown by a key needs no list of them */
		await names;
		this.defaultBy();
		this.update();
		noLonger();
	}

	async askNames() {
		try {
			const { keys, events } = await ask('labels', { names_only: true });
			this.keys = order(keys);
			this.showEvents(events);
			this.chosenBy = this.keys.length ? this.keys[0].key : '';
		} catch (e) {
			if (!this.refused(e))
				this.problems.push(e.message);
		}
		this.named = true;
	}
}

/* Labels of the programs first, those that most sets have before others, those with very many values behind them, then those of the system. */
function order(keys) {
	const rank = k => SYSTEM.includes(k.key) ? 200 + SYSTEM.indexOf(k.key) : k.wide ? 100 : USUAL.includes(k.key) ? USUAL.indexOf(k.key) : 50;
	return keys.slice().sort((a, b) => rank(a) - rank(b) || b.sets - a.sets || (a.key < b.key ? -1 : 1));
}

class TimePane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.plot = h('div.plot', { role: 'img' });
		this.wide = h('p.over', { hidden: true });
		host.append(this.note, this.plot, this.wide);
		this.chart = new Chart(this.plot, { onrange: (from, to) => app.range(from, to), tip: app.tip });
		this.plot.addEventListener('mouseleave', () => app.tip.hide());
	}

	update(again) {
		const s = this.app.state, select = this.app.select();
		const wide = this.tooWide(s) && !!(select.where || select.metric), params = { ...select, by: wide ? '' : s.by, limit: SERIES };
		if (!s.by && !this.app.keys)
			return;
		this.wide.hidden = !wide;
		this.wide.textContent = wide ? `${brief(s.by, 40)} has very many values: of a selection they are stacked in ranges of up to ten minutes.` : '';
		return this.load(JSON.stringify(params), again, signal => ask('series', params, signal), answer => {
			this.answer = answer;
			this.by = wide ? '' : s.by;
			if (!wide) {
				this.wide.hidden = answer.exact !== false;
				this.wide.textContent = answer.exact === false ? `${brief(s.by, 40)} has very many values: each has at least what is drawn, the rest is in (other).` : '';
			}
			this.draw();
			this.app.range_used(answer);
			if (!wide)
				this.app.values.ofChart(answer, s.by);
			this.app.drawn('chart');
		});
	}

	/* What each value of such a key did by itself is in the windows alone: a day of them takes long to read. */
	tooWide(s) {
		const key = (this.app.keys || []).find(k => k.key === s.by), span = s.to && s.from ? Number(s.to) - Number(s.from) : NaN;
		return !!key && key.wide && !(span <= STACKED_S);
	}

	draw() {
		if (this.answer)
			this.chart.show(this.answer, this.by, v => this.app.values.rank(this.by, v));
	}
}

/* The server is at it while the page is made. */
function begin() {
	const [state] = parse(location.search);
	askEarly('labels', { names_only: true });
	askEarly('stat', { from: state.from, to: state.to });
	if (state.tab === 'flame' && state.view !== 'sandwich' && !state.split && state.colour !== 'label')
		askEarly('flame', question(state));
}

takeToken();
addEventListener('hashchange', () => { if (takeToken()) location.reload(); });
begin();
new App().start();
