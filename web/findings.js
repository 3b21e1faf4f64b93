/* SPDX-License-Identifier: Apache-2.0 */
/* What is worth a look in the range, in sentences; each leads to what it is about. */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill } from './dom.js';
import { baseName, brief, seconds, stamp, time } from './format.js';
import { and } from './selector.js';

const SHOWN = 6, ASKED = 12, PLACES = 3;
const WAITS = { lock: 'waits for locks', io: 'waits for disks', network: 'waits for the network',
	pipe: 'waits for pipes' };

const clock = t => time(t).slice(11);
const rate = x => x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
const value = x => brief(x || '(empty)', 40);

/* "since 10:00:00, none before", or "for 20 s at .." where it is over. */
const when = (f, a) => (f.since + f.seconds < a.to
	? ` for ${seconds(f.seconds)} at ${clock(f.since)}` : ` since ${clock(f.since)}`) +
	(f.before < 0.005 ? ', none before' : `, ${rate(f.before)} before`);
const mostly = f => f.grew_most ? `, mostly in ${brief(f.grew_most.function, 60)}` : '';
const grown = f => f.grew_most ? `; ${brief(f.grew_most.function, 60)} grew on ` +
	`${f.grew_most.grew_on} of ${f.grew_most.hosts} hosts` : '';
const held = f => f.holder
	? `, held by ${value(f.holder_comm)} in ${brief(f.holder, 60)}` : '';
const started = f => f.parent ? (f.comm ? `, by ${value(f.comm)}` : '') +
	`, started by ${value(f.parent)}` : '';

/* Whose it is besides, or who else waits. */
function places(f) {
	const shown = f.places.slice(0, PLACES).map(p => `${p.key} ${value(p.value)}`),
		more = f.n_places - shown.length;
	return shown.length ? (f.finding === 'runq' ? '; so do ' : '; of ') + shown.join(', ') +
		(more > 0 ? ` and ${more} more` : '') : '';
}

/* What is said of the value. */
const TEXTS = {
	saturated: f => ` are saturated for ${seconds(f.seconds)}` +
		(f.value === null ? '' : `; ${f.key} ${value(f.value)} waits most for one`),
	more: (f, a) => ` uses ${rate(f.now)} CPUs${when(f, a)}${mostly(f)}${started(f)}`,
	less: (f, a) => ` uses ${rate(f.now)} CPUs${when(f, a)}`,
	burst: (f, a) => ` used ${rate(f.now)} CPUs${when(f, a)}${mostly(f)}${started(f)}`,
	runq: (f, a) => ` waits for a CPU ${rate(f.now)} s per second${when(f, a)}`,
	blocked: (f, a) => ` ${WAITS[f.wait] || 'is blocked'} ${rate(f.now)} s per second` +
		`${when(f, a)}${mostly(f)}${held(f)}`,
	build: f =>
		` has a new build, ${f.build_id.slice(0, 8)} after ${f.build_id_before.slice(0, 8)}` +
		grown(f),
};

/* Which label it speaks of, and which value. */
function who(f, a) {
	if (f.finding === 'saturated')
		return h('b', null, `The ${a.cpus} CPUs`);
	const name = f.finding === 'build' ? baseName(f.file) : f.value;
	return h('span', null, f.key ? h('span.key', null, f.key + ' ') : '',
		h('b', null, h('bdi', null, brief(name || '(empty)', 60))));
}

export class FindingsPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.list = h('ul');
		host.append(this.note, this.list);
		this.all = false;
	}

	update(again) {
		const { from, to } = this.app.select();
		return this.load(from + ' ' + to, again,
			signal => ask('findings', { from, to, limit: ASKED }, signal), a => {
			this.answer = a;
			this.draw();
			this.app.drawn('findings');
		});
	}

	draw() {
		const a = this.answer, shown = this.all ? a.findings : a.findings.slice(0, SHOWN),
			more = a.findings.length - shown.length;
		const items = shown.map(f => h('li', { className: f.usual ? 'usual' : f.finding },
			this.line(f, a)));
		if (more > 0 || this.all)
			items.push(h('li', null, h('button.link',
				{ type: 'button', name: 'more-findings',
				onclick: () => { this.all = !this.all; this.draw(); } },
				this.all ? 'fewer' : `and ${more} more`)));
		if (!items.length)
			items.push(h('li.none', null, !a.to ? 'Nothing was recorded in this range.'
				: 'Nothing differs from before by more than chance.'));
		if (a.without_waits)
			items.push(h('li.none', null, 'Waits were not measured for ' +
				`${seconds(a.without_waits)}, to keep cpu-max.`));
		refill(this.list, items, this.list);
	}

	line(f, a) {
		const text = [who(f, a), TEXTS[f.finding](f, a) + (f.places ? places(f) : '') +
			(f.usual ? ' (as a day ago)' : '')];
		if (f.finding === 'build')
			return text;
		const title = f.finding === 'saturated' ? 'Why it waits for a CPU, and who has it'
			: 'Why: its time against the time before';
		return h('button.link', { type: 'button', title, onclick: () => this.open(f) },
			text);
	}

	/*
	 * Why: its time from the change on, against the same length before. Of the CPUs: of who
	 * waits most, in all of the range.
	 */
	open(f) {
		if (f.finding === 'saturated' && f.value === null)
			return this.app.go({ tab: 'flame', metric: '', root: '' });
		const range = f.finding === 'saturated' ? {}
			: { from: stamp(f.since), to: stamp(f.since + f.seconds), live: '' };
		return this.app.go({ ...range, by: f.key, where: and('', f.key, '=', f.value),
			metric: '', root: '', tab: 'why', split: '', view: '', against: '',
				against_from: '', against_to: '' });
	}
}
