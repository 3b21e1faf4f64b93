/* SPDX-License-Identifier: Apache-2.0 */
/* What is worth a look in the range, in sentences; each leads to what it is about. */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill } from './dom.js';
import { baseName, brief, seconds, stamp, time } from './format.js';
import { and } from './selector.js';

const SHOWN = 4, ASKED = 12;

const clock = t => time(t).slice(11);
const rate = x => x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
const before = f => f.before < 0.005 ? 'none before' : `${rate(f.before)} before`;
const mostly = f => f.grew_most ? `, mostly in ${brief(f.grew_most.function, 60)}` : '';

/* Each as [who, what]. */
const TEXTS = {
	saturated: (f, a) => [`The ${a.cpus} CPUs`,
		` are saturated for ${seconds(f.seconds)}` +
		(f.value === null ? '' : `; ${brief(f.value, 40)} waits most for one`)],
	more: f =>
		[f.value,
		` uses ${rate(f.now)} CPUs since ${clock(f.since)}, ${before(f)}${mostly(f)}`],
	less: f => [f.value, ` uses ${rate(f.now)} CPUs since ${clock(f.since)}, ${before(f)}`],
	burst: f =>
		[f.value,
		` used ${rate(f.now)} CPUs for ${seconds(f.seconds)} at ${clock(f.since)}, ${before(f)}${mostly(f)}`],
	runq: f =>
		[f.value,
		` waits for a CPU ${rate(f.now)} s per second since ${clock(f.since)}, ${before(f)}`],
	blocked: f =>
		[f.value,
		` is blocked ${rate(f.now)} s per second since ${clock(f.since)}, ${before(f)}`],
	build: f => [baseName(f.file),
		` has a new build, ${f.build_id.slice(0, 8)} after ${f.build_id_before.slice(0, 8)}`],
};

export class FindingsPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.list = h('ul');
		host.append(this.list);
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
		refill(this.list, items, this.list);
	}

	line(f, a) {
		const [who, what] = TEXTS[f.finding](f, a),
			usual = f.usual ? ' (as a day ago)' : '';
		const text = [h('b', null, h('bdi', null, brief(who || '(empty)', 60))),
			what + usual];
		if (f.finding === 'build')
			return text;
		const title = f.finding === 'saturated' ? 'Who waits for a CPU, and who has it'
			: 'Why: its time against the time before';
		return h('button.link', { type: 'button', title, onclick: () => this.open(f) },
			text);
	}

	/* Why: its time from the change on, against the same length before. */
	open(f) {
		if (f.finding === 'saturated')
			return this.app.go({ tab: this.app.has_waits ? 'blame' : 'flame',
				metric: '', by: f.key || this.app.state.by, root: '' });
		return this.app.go({ from: stamp(f.since), to: stamp(f.since + f.seconds), live: '',
			by: f.key, where: and('', f.key, '=', f.value),
			metric: '', root: '', tab: 'why', split: '', view: '', against: '',
				against_from: '', against_to: '' });
	}
}
