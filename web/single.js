/* SPDX-License-Identifier: Apache-2.0 */
/* The page that `ascribe flame` writes: one flame graph with its data, and no server to ask. */
import { byId, h, later } from './dom.js';
import { factList, factsOf } from './facts.js';
import { FlamePane } from './flame_pane.js';
import { amount, brief, counted, number, percent, plain, timeRange } from './format.js';
import { nextTheme, startTheme, themeName } from './theme.js';
import { Tip } from './tip.js';

const FEW = 100;

/* What a FlamePane expects of its page; the state is in nobody's address. */
class Single {
	constructor(data) {
		this.data = data;
		this.state = { view: '', root: '', find: '', colour: 'kind', split: '', up: '',
			by: '', fn: '', module: '', names: '', where: data.where, tab: 'flame' };
		this.tip = new Tip();
		this.say = later(text => { byId('said').textContent = text; }, 50);
		this.theme = h('button.small', {
			type: 'button',
			name: 'theme',
			onclick: () => {
				nextTheme();
				this.repaint();
			}
		});
		this.showHead();
		this.flame = new FlamePane(this, byId('panes'), data);
		startTheme(() => this.repaint());
		this.repaint();
		addEventListener('keydown', e => this.key(e));
	}

	select() { return {}; }
	baseline() { return {}; }
	compared() { return !!this.data.against; }
	refused() { return false; }
	drawn() {}

	go(changes, before, instead) {
		Object.assign(this.state, changes);
		if (before)
			before();
		if (!instead)
			this.flame.update();
	}

	repaint() {
		const name = themeName();
		this.theme.textContent = { auto: '◐', light: '☀', dark: '☾' }[name];
		this.theme.setAttribute('aria-label', `Colours: ${name}`);
		this.flame.update();
	}

	key(e) {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const typing = document.activeElement.tagName === 'INPUT';
		if (e.key === 'Escape' && typing) {
			this.flame.search.value = '';
			this.flame.find('', true);
			document.activeElement.blur();
		} else if (e.key === 'Escape') {
			this.flame.zoomOut();
		} else if (!typing && e.key === '/') {
			e.preventDefault();
			this.flame.search.focus();
		} else if (!typing && e.key === 'i') {
			this.go({ up: this.state.up ? '' : '1' });
		}
	}

	showHead() {
		const d = this.data, text = t => h('bdi', null, brief(t, 300)),
			measured = (d.counts || 'samples') !== 'samples',
			few = d.samples < FEW && !measured;
		byId('bar').append(h('div.row', null, h('h1', null, 'ascribe'),
			h('b', null, text(d.what)), h('span', null, 'host ', text(d.host)),
			h('span', null, text(d.os)),
			d.where ? h('span.chip', null, text(d.where)) : '', h('span.fill'),
				this.theme));
		byId('facts').append(h('span', { className: few ? 'bad' : '' },
			h('b', null, measured ? counted(d.samples, d.counts)
			: d.ns_per_sample ? amount(d.samples, d.ns_per_sample) : number(d.samples)),
			` ${plain(d.event)}` + (measured ? '' : `, ${number(d.samples)} samples`) +
				(few ? ': too few to say much' : ''),
				d.to ? h('span.when', null, timeRange(d.from, d.to)) : ''),
		h('span.facts', null, d.idle ? h('span', null,
			d.idle_included ? 'idle included ' : 'idle left out ',
			h('b', null, percent(d.idle, d.idle +
				(d.idle_included ? d.samples - d.idle : d.samples)))) : '',
				factList(factsOf(d)),
		d.pruned ? h('span', null, '(other) ',
			h('b', null, `${number(d.pruned)} small frames`)) : ''));
	}
}

window.page = new Single(JSON.parse(byId('data').textContent));
