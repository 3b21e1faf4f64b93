/* SPDX-License-Identifier: Apache-2.0 */
/* The bar on top: range, selection, what it is compared with, live, light or dark, export. */
import { address, download, hasToken } from './api.js';
import { h, refill } from './dom.js';
import { brief, eventName, exactTime, MEMORY, plain, stamp, time } from './format.js';
import * as selector from './selector.js';
import { nextTheme, themeName } from './theme.js';

const PRESETS = [['15m', 'now-15m'], ['1h', 'now-1h'], ['6h', 'now-6h'], ['24h', 'now-24h'],
	['7d', 'now-7d'], ['all', '']];
const METRICS = [['cpu', 'CPU time'], ['off', 'blocked'], ['runq', 'waiting for a CPU'],
	['wall', 'all three: wall time']];
const WAKER = [['waker', 'blocked, by who ended it']];
const LATENCY = [['latency', 'wall-clock time of label values']];
/* What the hits of an event measured, by its unit. */
const VALUES = { nanoseconds: 'time', bytes: 'bytes' };

export class Bar {
	constructor(app, host) {
		this.app = app;
		const go = changes => app.go(changes);
		const keys = (name, f) => e => { /* Escape: as it was */
			if (e.key === 'Enter')
				f(e.target.value.trim());
			else if (e.key === 'Escape')
				e.target.value = name === 'where' ? app.state[name]
					: clock(app.state[name]);
		};
		const read = (name, v) => name === 'where' ? v : typed(v);
		const field = (name, label, size) => h('input',
			{ name, size, 'aria-label': label, placeholder: label, spellcheck: false,
			autocomplete: 'off',
			onkeydown: keys(name, v => go(name === 'where' ? { where: v, root: '' }
				: { [name]: read(name, v) })),
			onchange: e => go(name === 'where'
				? { where: e.target.value.trim(), root: '' }
				: { [name]: read(name, e.target.value.trim()) }) });
		this.from = field('from', 'from', 23);
		this.to = field('to', 'to', 23);
		this.where = field('where', 'selector: {tenant="a"}', 30);
		this.event = h('select', { name: 'event', 'aria-label': 'What is summed',
			onchange: e => this.chooseEvent(e.target.value) });
		this.presets = PRESETS.map(([text, from]) =>
			h('button.small', { type: 'button', 'data-from': from,
			onclick: () => go({ from, to: '' }) }, text));
		const move = (text, title, f) => h('button.small',
			{ type: 'button', title, 'aria-label': title,
			name: title.split(' ')[0].toLowerCase(), onclick: () => this.move(f) },
			text);
		this.live = h('button', { type: 'button', name: 'live', 'aria-pressed': 'false',
			onclick: () => go({ live: app.state.live ? '' : '1' }) }, 'Live');
		this.theme = h('button.small', {
			type: 'button',
			name: 'theme',
			onclick: () => {
				nextTheme();
				this.showTheme();
				app.repaint();
			}
		});
		this.shareButton = h('button', { type: 'button', name: 'share',
			title: 'Copy a link with absolute times', onclick: () => this.share() },
			'Share');
		this.host = h('bdi.host');
		this.chips = h('div.chips', { 'aria-label': 'Selection' });
		this.menu = h('details.menu', null, h('summary', null, 'Export'), h('div'));
		this.title = h('h1', null, h('a', { href: './' }, 'ascribe'));
		host.append(
			h('div.row', null, this.title, this.host, this.from, '–', this.to,
				h('span.group', { role: 'group', 'aria-label': 'Ranges' },
				this.presets),
				h('span.group', { role: 'group', 'aria-label': 'Move the range' },
					move('◂', 'Earlier', (a, w) => [a - w / 2, a + w / 2]),
						move('▸', 'Later', (a, w) =>
						[a + w / 2, a + 1.5 * w]),
					move('+', 'Narrower', (a, w) => [a + w / 4, a + 0.75 * w]),
						move('−', 'Wider', (a, w) =>
						[a - w / 2, a + 1.5 * w])),
				this.live, this.shareButton, h('span.fill'),
				h('span.end', null, this.menu, this.theme)),
			h('div.row', null, this.where, this.event, this.chips));
		document.addEventListener('click', e => {
			if (!this.menu.contains(e.target))
				this.menu.open = false;
		});
		this.menu.addEventListener('focusout', e => {
			if (e.relatedTarget && !this.menu.contains(e.relatedTarget))
				this.menu.open = false;
		});
		this.showTheme();
	}

	showTheme() {
		const name = themeName();
		this.theme.textContent = { auto: '◐', light: '☀', dark: '☾' }[name];
		this.theme.title = this.theme.ariaLabel = `Colours: ${name}`;
		this.theme.setAttribute('aria-label', `Colours: ${name}`);
	}

	showHost(host) {
		this.host.textContent = brief(host || '', 40);
	}

	/* How old the newest data is, in seconds; -1: not known. */
	showAge(age) {
		this.live.textContent = age < 0 ? 'Live'
			: `Live, ${Math.max(0, Math.round(age))} s old`;
	}

	/* A link with absolute times: who opens it sees the same. */
	async share() {
		const used = this.app.used;
		if (used)
			this.app.go({ from: stamp(used.from), to: stamp(used.to), live: '' });
		await navigator.clipboard?.writeText(location.href).catch(() => {});
		this.app.say(used ? 'The address has absolute times now, and is in the clipboard.'
			: 'The address is in the clipboard. There is no data for absolute times.');
		this.shareButton.textContent = 'Copied';
		setTimeout(() => { this.shareButton.textContent = 'Share'; }, 2000);
	}

	/* True: there was one to close. */
	closeMenu() {
		const was = this.menu.open, inside = this.menu.contains(document.activeElement);
		this.menu.open = false;
		if (was && inside)
			this.menu.firstChild.focus();
		return was;
	}

	move(f) {
		const used = this.app.used;
		if (!used || !(used.to > used.from))
			return;
		const [from, to] = f(used.from, used.to - used.from);
		this.app.range(from, to);
	}

	/* One choice of what is summed: samples of an event, values of its hits, times, memory. */
	showEvents(events, units, waits, wakers, latency) {
		const times = [...(waits ? METRICS : []), ...(wakers ? WAKER : []),
			...(latency ? LATENCY : [])], heap = events.includes('alloc_space');
		const option = (value, text, title) => h('option', { value, title: plain(title) },
			text);
		const ofEvent = (e, i) => {
			const name = brief(eventName(e), 40), unit = heap && e === 'alloc_space'
				? '' : units[e];
			return [option('event:' + (i ? e : ''), name, e),
				...(unit ? [option('value:' + e,
				`${name}: ${VALUES[unit] || 'values'}`,
				`${e}: sum of the values, ${unit}`)] : [])];
		};
		this.event.replaceChildren(...(events.length ? events.flatMap(ofEvent)
			: [option('event:', 'event', '')]),
		...[...times, ...(heap ? Object.entries(MEMORY) : [])].map(([m, text]) =>
			option('metric:' + m, text, text)));
		this.event.hidden = this.event.options.length < 2;
		this.showEvent();
	}

	showEvent() {
		const s = this.app.state, value = s.metric === 'value' ? 'value:' + s.event
			: s.metric ? 'metric:' + (s.metric === 'heap' ? 'inuse_space' : s.metric)
			: 'event:' + s.event;
		if (![...this.event.options].some(o => o.value === value)) {
			this.event.append(h('option', { value },
				brief(s.metric || eventName(s.event) || 'event', 40)));
			this.event.hidden = this.event.options.length < 2;
		}
		this.event.value = value;
	}

	chooseEvent(value) {
		const [, kind, name] = value.match(/^(event|metric|value):(.*)$/s);
		this.app.go({ root: '', ...(kind === 'metric' ? { event: '', metric: name }
			: { event: name, metric: kind === 'value' ? kind : '' }) });
	}

	update() {
		const s = this.app.state, show = (input, v) => {
			if (document.activeElement !== input || input.value !== v)
				input.value = v;
		};
		show(this.from, clock(s.from));
		show(this.to, clock(s.to));
		show(this.where, s.where);
		this.showEvent();
		for (const b of this.presets)
			b.setAttribute('aria-pressed', String(!s.to && b.dataset.from === s.from));
		this.live.setAttribute('aria-pressed', String(!!s.live));
		this.showChips(s);
		this.showMenu(s);
	}

	/* The matchers, each to be taken away; the baseline, if there is one. */
	showChips(s) {
		const list = selector.parse(s.where) || [], go = changes => this.app.go(changes);
		const chips = list.map((m, i) => h('span.chip', null,
			h('bdi', null,
			`${brief(m.key, 40)} ${m.op} ${brief(m.value, 40) || '(none)'}`),
			h('button', { type: 'button',
				'aria-label': `Without ${brief(m.key + m.op + m.value, 80)}`,
				onclick: () => go(
					{ where: selector.format(list.filter((_, k) => k !== i)),
					root: '' }) }, '×')));
		const last = list.filter(m => m.op === '=').at(-1);
		if (last && !this.app.compared())
			chips.push(h('button.small', { type: 'button', name: 'against-rest',
				onclick: () => go({ against: selector.and(s.where, last.key, '!=',
				last.value), root: '', split: '' }) },
				'compare with the rest'));
		if (!this.app.compared() && this.app.used)
			chips.push(h('button.small', { type: 'button', name: 'against-before',
				title: 'The same selection in the range just before this one',
				onclick: () => this.before() }, 'compare with before'));
		if (this.app.compared())
			chips.push(h('span.chip.baseline', null, h('span', null, 'against'),
				h('bdi', null, brief(s.against || 'the same selection', 80) +
				(s.against_from ? ` from ${clock(s.against_from)}` : '') +
					(s.against_to ? ` to ${clock(s.against_to)}` : '')),
			h('button', { type: 'button', name: 'no-baseline',
				'aria-label': 'Compare with nothing',
				onclick: () => go({ against: '', against_from: '',
				against_to: '' }) }, '×')));
		refill(this.chips, chips, this.where);
	}

	before() {
		const { from, to } = this.app.used, { against_from, against_to } =
			this.app.before();
		this.app.go({ from: String(from), to: String(to),
			against_from: String(against_from), against_to: String(against_to),
			root: '' });
	}

	showMenu(s) {
		const select = this.app.select(), view =
			{ ...select, ...this.app.baseline(), names: s.names };
		const flame = s.view === 'sandwich' ? { ...view, view: 'callees', function: s.fn,
			module: s.module } : { ...view, view: s.view, root: s.root };
		const save = e => {
			const { href, download: name } = e.currentTarget;
			if (!hasToken())
				return;
			e.preventDefault();
			download(href, name).catch(error => this.app.warn(error.message));
		};
		const link = (text, path, params, name) =>
			h('a', { href: address(path, params), download: name, 'data-export': name,
			onclick: save }, text);
		refill(this.menu.lastChild, [
			link('This flame graph as a page', 'export/flame.html', flame,
				'flame.html'),
			link('Profile for pprof', 'export/profile.pb.gz', select, 'profile.pb.gz'),
			link('Folded stacks', 'export/folded.txt', select, 'stacks.folded'),
			link('Functions as JSON', 'api/v1/table',
				{ ...select, limit: 100000, names: s.names }, 'functions.json'),
			link('Values as JSON', 'api/v1/table',
				{ ...select, by: s.by, limit: 100000 }, 'values.json')],
				this.menu.firstChild);
	}
}

const clock = t => /^\d+(\.\d+)?$/.test(t) ? exactTime(Number(t)) : t;

/* A time as people write it: "5m" or "-5m" for five minutes ago, "14:05", "2026-11-22 15:00". */
export function typed(text) {
	const ago =
		text.match(
		/^-?\s*(\d+(?:\.\d+)?)\s*(s|m|h|d|w|min|hours?|days?|minutes?)(?: ago)?$/),
		clocked = text.match(/^(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)$/);
	if (ago)
		return `now-${ago[1]}${ago[2][0]}`;
	if (!clocked)
		return text.replace(/^now-(\d+(?:\.\d+)?)\s*min(?:utes?)?$/, 'now-$1m');
	const day = clocked[1] || time(Date.now() / 1000).slice(0, 10),
		at = new Date(`${day}T${clocked[2]}`).getTime() / 1000;
	return isNaN(at) ? text : String(at);
}
