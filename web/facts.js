/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is selected, and how far it can be trusted: what was lost, left without labels or cut off,
 * and what recording cost.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, tell } from './dom.js';
import {
	brief, bytes, counted, eventName, MEMORY, number, percent, plain, seconds, timeRange
} from './format.js';

const FEW = 100; /* samples; below that shares say little */

/* The accounting of an answer as [name, text, title, whether it is bad]. */
export function factsOf(a) {
	const lost = Object.entries(a.lost).filter(e => e[1]),
		sum = lost.reduce((n, e) => n + e[1], 0);
	const flagged = a.flagged || {}, span = a.to - a.from;
	/* Waits have flags of their own */
	const of = name => (a.flagged_of || {})[name] ?? a.stored;
	const share = name => flagged[name] === undefined ? null
		: [name, percent(flagged[name], of(name)),
		`${number(flagged[name])} of ${number(of(name))} stored samples`,
		flagged[name] > 0.05 * of(name)];
	return [
		['due', number(a.fired), `stored ${number(a.stored)} + lost ${number(sum)}`,
			false],
		['lost', percent(sum, a.fired), lost.map(([k, n]) => `${k} ${number(n)}`)
			.join(', ') || 'nothing', sum - (a.lost.idle_not_run || 0) > 0.01 *
			a.fired],
		share('unlabelled'), share('truncated'),
		flagged.waits_saved ?
			['without waits', percent(flagged.waits_saved, of('waits_saved')),
				'to keep within the CPU budget', false] : null,
		flagged.reduced_rate ? ['at a reduced rate',
			percent(flagged.reduced_rate, a.stored), 'to keep within the CPU budget',
			false] : null,
		a.own
			? ['recorder',
				(span > 0 ? percent(a.own.cpu_seconds, span)
					: seconds(a.own.cpu_seconds)) +
					` CPU, ${bytes(a.own.rss_bytes)}`,
				`${seconds(a.own.cpu_seconds)} of CPU time in this range; ` +
					'most memory resident',
				span > 0 && a.own.cpu_seconds > 0.02 * span] : null,
	].filter(Boolean);
}

/*
 * The same in one line: "Complete 99.98% · labels cover 2% of samples · overhead 1.4% of a CPU",
 * and whether it is bad. Of profiles of others nothing of that is known: "".
 */
function health(a) {
	const lost = Object.entries(a.lost).reduce((n, e) =>
		n + (e[0] === 'idle_not_run' ? 0 : e[1]), 0), span = a.to - a.from;
	const of = (a.flagged_of || {}).unlabelled ?? a.stored,
		parts = a.fired ? [`Complete ${percent(a.fired - lost, a.fired)}`] : [];
	if (a.flagged && a.flagged.unlabelled !== undefined && of)
		parts.push(`labels cover ${percent(of - a.flagged.unlabelled, of)} of samples`);
	if (a.own && a.own.cpu_seconds && span > 0)
		parts.push(`overhead ${percent(a.own.cpu_seconds, span)} of a CPU`);
	return [parts.join(' · '), lost > 0.01 * a.fired];
}

export const factList = list => list.map(([name, text, title, bad]) =>
	h('span', { className: bad ? 'bad' : '', title: plain(title) }, name + ' ',
		h('b', null, text), h('span.unseen', null, ` (${plain(title)})`)));

export class FactsPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.chosen = h('span');
		this.pill = h('summary', { name: 'health' });
		this.rest = h('div.facts');
		this.health = h('details.health', { hidden: true }, this.pill, this.rest);
		host.append(this.chosen, this.health, this.note);
	}

	update(again) {
		const { from, to } = this.app.select();
		return this.load(from + ' ' + to, again,
			signal => ask('stat', { from, to }, signal), a => {
			const [text, bad] = health(a);
			tell(this.pill, text);
			this.health.hidden = !text;
			this.health.classList.toggle('bad', bad);
			this.rest.replaceChildren(...factList(factsOf(a)));
			this.app.cpus_known(a.cpus.length);
			this.app.drawn('facts');
		});
	}

	/* Idle waits are left out, and said to be; one click shows them. */
	idle(a) {
		const shown = this.app.state.idle;
		if (!a.idle_waits && !(shown && a.metric))
			return [];
		const text = shown ? 'with idle waits' : a.metric
			? `${seconds(a.idle_waits / 1e9)} of idle waits left out`
			: `${number(a.idle_waits)} idle waits left out`;
		return ['; ', h('button.link', { type: 'button', 'aria-pressed': String(!!shown),
			title: 'Idle: a worker that waits for its next work. Show or hide such waits',
			onclick: () => this.app.go({ idle: shown ? '' : '1' }) }, text)];
	}

	/* A chart has whole windows. A selection of less than a minute may have parts of them. */
	async select(chart) {
		const s = this.app.select(), short = s.from && s.to && s.to - s.from < 60;
		this.chart = chart;
		const part = short && await ask('table', { ...s, limit: 1 }).catch(() => null);
		if (this.chart === chart)
			this.choose(part || chart);
	}

	/* Of what is selected: an answer with samples and seconds. */
	choose(a) {
		const few = a.samples < FEW && !a.metric,
			metric = a.metric === 'heap' ? 'inuse_space' : a.metric,
			what = { ...MEMORY, off: 'blocked', runq: 'waiting for a CPU',
			wall: 'wall time', cpu: 'CPU', waker: 'blocked',
			latency: 'of wall-clock time',
			value: `of ${brief(eventName(a.event || ''), 60)}` }[metric] || '',
			measured = a.metric && !(what && (a.seconds || a.unit === 'objects'));
		const cut = (a.coarse || 0) + (a.gone || 0);
		this.chosen.className = few || cut ? 'bad' : '';
		const amount = !a.samples ? [h('b', null, 'no samples')]
			: [h('b', null, measured ? counted(a.samples, a.unit)
				: a.seconds ? seconds(a.seconds) : number(a.samples)),
			...(a.metric ? [' ' + (what || plain(a.metric))]
				: [a.seconds ? ' CPU, ' : ' ',
				`${number(a.samples)} samples`]),
				few ? ': too few to say much' : ''];
		this.chosen.replaceChildren(...amount, ...this.idle(a),
			cut ? `: these labels are cut in ${number(cut)} of the windows` : '',
			a.to ? h('span.when', null, ' ' + timeRange(a.from, a.to)) : '');
	}
}
