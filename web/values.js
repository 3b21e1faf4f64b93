/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who: the values of one label, their CPU, how it changed, and when it was used; the way to one
 * value, to all but it, and to how it differs from the rest. When one is chosen the others stay, so
 * that one gets from each to the next.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { colourValues, valueColour } from './colour.js';
import { h, refill, tell } from './dom.js';
import { brief, counted, isExact, number, percent, plain, seconds, shares } from './format.js';
import { and, parse, valueOf, without } from './selector.js';
import { spark } from './spark.js';
import { bar, table } from './table.js';

/* Of those no lengths of waits are kept */
const ROWS = 50, STATEMENTS = 5, STATEMENT_MS = 300, THREADS = ['tgid', 'tid', 'thread'];

export class ValuesPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.keys = h('select', { 'aria-label': 'Label', name: 'by',
			onchange: e => app.go({ by: e.target.value }) });
		this.status = h('span.match', { role: 'status' });
		this.waitsBox = h('input', { type: 'checkbox', name: 'waits',
			onchange: e => app.go({ waits: e.target.checked ? '1' : '' }) });
		this.waitsLabel = h('label.check', { hidden: true }, this.waitsBox, 'waits');
		this.body = h('div.scroll', { tabIndex: 0, role: 'region',
			'aria-label': 'Values of the label' });
		host.append(h('div.tools', null, h('label', null, h('span', null, 'Who, by'),
			this.keys), this.waitsLabel, this.status), this.note, this.body);
		this.points = new Map();
		this.sql = {};
	}

	showKeys(keys, by) {
		const known = keys.map(k => k.key);
		if (by && !known.includes(by))
			known.push(by);
		if (known.join('\0') !== this.known) {
			this.keys.replaceChildren(...known.map(k =>
				h('option', { value: k }, brief(k, 40))));
			this.known = known.join('\0');
		}
		this.keys.value = by;
	}

	update(again) {
		const s = this.app.state;
		if (!s.by) {
			tell(this.status, this.app.keys ? 'No labels here.' : '');
			return this.body.replaceChildren();
		}
		const own = without(s.where, s.by), params =
			{ ...this.app.select(), where: own, by: s.by, limit: ROWS };
		const askAll = async signal => {
			const waits = metric => this.showsWaits(s)
				? ask('table', { ...params, event: '', metric, limit: 1000 },
				signal).catch(e => {
				if (e.name === 'AbortError')
					throw e;
				return null; /* not kept by this selector */
			}) : null;
			const [answer, series, runq, off] =
				await Promise.all([ask('table', params, signal),
				own === s.where || this.app.time.tooWide(s) ? null
				: ask('series', params, signal), waits('runq'), waits('off')]);
			return { answer, series, by: s.by,
				waits: runq && off ? [runq, off] : null };
		};
		this.waitsLabel.hidden = !this.app.has_waits || THREADS.includes(s.by);
		this.waitsBox.checked = !!s.waits;
		const key = JSON.stringify([params, own === s.where, this.showsWaits(s)]);
		if (key === this.asked && !again)
			return this.answer && this.draw(); /* another one may be chosen */
		return this.load(key, again, askAll, got => {
			this.answer = got.answer;
			this.by = got.by;
			this.waits = got.waits && got.waits.map(a =>
				new Map(a.rows.map(r => [r.other ? undefined : r.key[got.by], r])));
			if (got.series) {
				this.courses(got.series, got.by);
				this.app.time.draw();
			}
			this.draw();
			this.askStatements();
		});
	}

	/*
	 * The SQL behind query ids, where the server asks a database for it; it may take some turns
	 * until that has answered.
	 */
	async askStatements() {
		const { answer } = this, ids = this.by === 'query_id'
			? answer.rows.filter(r => r.key && /^-?\d+$/.test(r.key.query_id))
			.map(r => r.key.query_id) : [];
		for (let turn = 0; ids.length && !this.noStatements && turn < STATEMENTS &&
			this.answer === answer; turn++) {
			const a = await ask('statements', { ids: ids.join(',') }).catch(() => ({}));
			this.noStatements = a.configured === false;
			this.sqlError = a.error;
			Object.assign(this.sql, a.statements);
			if (this.answer === answer && (Object.keys(a.statements || {}).length ||
				a.error))
				this.draw();
			if (!a.pending)
				return;
			await new Promise(go => setTimeout(go, STATEMENT_MS));
		}
	}

	showsWaits(s) { return !!s.waits && this.app.has_waits && !THREADS.includes(s.by); }

	/*
	 * How each changed against the range to compare with, or the same length of time before.
	 * Not for a key with very many values.
	 */
	compare() {
		const s = this.app.state, used = this.app.used;
		const { against_from, against_to } = s,
			against = against_from || against_to ? { against_from, against_to }
			: this.app.before();
		const params = { ...this.app.select(), where: without(s.where, s.by), by: s.by,
			absolute: true, limit: 1000, ...against },
			key = JSON.stringify([params, used]);
		if (!s.by || s.metric || !used || s.against || this.app.time.tooWide(s) ||
			key === this.comparedAs)
			return;
		this.comparedAs = key;
		ask('diff', params).then(a => {
			if (key !== this.comparedAs)
				return;
			this.change = a.b.windows ? new Map(a.rows.filter(r => !r.other)
				.map(r => [r.key[s.by], r])) : null;
			this.changeOf = s.by;
			if (this.answer)
				this.draw();
		}).catch(() => { /* the table is there without it */ });
	}

	/* Where no value is chosen, the answer of the chart has the courses of all. */
	ofChart(answer, by) {
		const s = this.app.state;
		if (by !== s.by || without(s.where, s.by) !== s.where)
			return;
		this.courses(answer, by);
		if (this.answer && this.by === by)
			this.draw();
	}

	courses(answer, by) {
		this.series = answer;
		this.coursesOf = by;
		this.points = new Map(answer.series.filter(r => !r.other)
			.map(r => [r.key[by], r.points]));
		colourValues(answer.series.filter(r => !r.other).map(r => r.key[by]));
		this.ranks = new Map(answer.series.filter(r => !r.other)
			.map((r, i) => [r.key[by], i]));
		this.app.flame.recolour();
	}

	/* The place of a value among all of its key; -1: not known. */
	rank(by, v) {
		return by === this.coursesOf && this.ranks.has(v) ? this.ranks.get(v) : -1;
	}

	draw() {
		const a = this.answer, by = this.by, time = a.seconds > 0;
		const exact = a.metric || isExact(a.rows);
		const shown = number(Math.min(a.rows.length, a.n_rows)), all = number(a.n_rows);
		const some = a.exact ? '' : ', the most frequent';
		const noSql = by === 'query_id' && this.sqlError
			? `; no SQL: ${brief(this.sqlError, 120)}` : '';
		const none = a.rows.length && a.rows.every(r => r.key && r.key[by] === null);
		tell(this.status, none ? `No sample here has a label ${brief(by, 40)}.`
			: a.n_rows === 1 ? '1 value' : `${shown} of ${all} values${some}${noSql}`);
		const rank = r => r.key ? this.rank(by, r.key[by]) : -1;
		refill(this.body, [table({
			caption: `Values of ${plain(by)}`, rows: a.rows,
				rowClass: r => this.chosen(r) ? 'chosen' : '', columns: [
				{ id: 'value', title: brief(by, 30), header: true, wide: true,
					cell: r => this.valueCell(r, rank(r)) },
				{ id: 'cpu', title: !time ? a.metric ? 'Sum' : 'Count'
					: a.metric && a.metric !== 'cpu' ? 'Time' : 'CPU',
					number: true, cell: r => time ? seconds(r.seconds)
					: a.metric ? counted(r.samples, a.unit)
						: number(r.samples) },
				{ id: 'share', title: 'Share', number: true,
					hint: 'with its 95% interval',
					cell: r => h('span', { title: exact ? ''
					: `95% interval: ${shares(r.low, r.high)}` },
					bar(r.share, percent(r.samples, a.samples))) },
				...(this.change && this.changeOf === by && !this.app.state.against
					? [{ id: 'change', title: 'Change', number: true,
					crowds: true,
					hint: 'in CPUs, since the range before; grey: may be chance',
					cell: r => this.changeCell(r) }] : []),
				...(this.waits ? [this.waitColumn('runq', 'Run queue',
					'waited for a CPU', 0), this.waitColumn('off', 'Blocked',
					'blocked', 1)] : []),
				{ id: 'course', title: 'Over time', spare: true,
					cell: r => this.sparkCell(r, rank(r)) },
				{ id: 'do', title: '', unseen: 'Actions', stays: true,
					cell: r => this.actions(r) },
			] })], this.keys);
		this.app.drawn('values');
	}

	chosen(r) {
		const list = parse(this.app.state.where) || [];
		return !r.other && r.key && list.some(m => m.key === this.by && m.op === '=' &&
			m.value === valueOf(r.key[this.by]));
	}

	valueCell(r, rank) {
		const v = r.key === null || r.other ? null : r.key[this.by];
		const box = h('i.swatch', { 'aria-hidden': 'true' });
		box.style.background = valueColour(rank);
		if (r.other)
			return h('span', null, box, '(all others)');
		const sql = this.by === 'query_id' && this.sql[v];
		const button = h('button.link', { type: 'button',
			'data-value': brief(valueOf(v), 80),
			title: `Only ${brief(valueOf(v) || '(none)', 200)}`,
			'aria-current': this.chosen(r) ? 'true' : null,
				onclick: () => this.choose(v, this.chosen(r)) },
		box, v === null ? h('em', null, '(none)') : v === '' ? h('em', null, '(empty)')
			: h('bdi', null, brief(v, 60)));
		return sql ? h('span', null, button, h('small.sql', { title: brief(sql, 1000) },
			h('bdi', null, brief(sql.replace(/\s+/g, ' '), 200)))) : button;
	}

	changeCell(r) {
		const c = !r.other && r.key && this.change.get(r.key[this.by]);
		if (!c)
			return '';
		const by = c.rate[0] - c.rate[1], text = (by < 0 ? '−' : '+') + Math.abs(by)
			.toFixed(2);
		return h('span', { className: c.verdict,
			title: `${c.rate[0].toFixed(2)} CPUs, ${c.rate[1].toFixed(2)} before` +
			(c.verdict === 'noise' ? ': may be chance' : '') }, text);
	}

	waitColumn(id, title, words, which) {
		const text = q => q ? seconds(q.value) : '?';
		return { id, title, number: true, hint: `${words}, all waits; the longest of 99%`,
			cell: r => {
			const w = !r.other && r.key && this.waits[which].get(r.key[this.by]);
			return w ? h('span',
				{ title: `${words} ${seconds(w.seconds)}, ${number(w.waits)} waits: half of them up to ${text(w.p50)}, 99% up to ${text(w.p99)}, the longest ${text(w.max)}` },
				seconds(w.seconds), h('small', null, ' ' + text(w.p99))) : '';
		} };
	}

	/* A baseline that was the rest of one value is the rest of the next. */
	choose(v, again) {
		const s = this.app.state, own = without(s.where, this.by),
			rest = s.against && without(s.against, this.by) === own &&
			s.against !== own;
		this.app.go({ where: again ? own : and(own, this.by, '=', valueOf(v)), root: '',
			...(rest ? { against: again ? '' : and(own, this.by, '!=', valueOf(v)) }
				: {}) });
	}

	sparkCell(r, rank) {
		const points = this.by === this.coursesOf && r.key &&
			this.points.get(r.key[this.by]);
		if (!points || !this.series.n_steps)
			return '';
		return spark(points, this.series.from, this.series.to, this.series.n_steps,
			valueColour(rank), 'over the range shown above');
	}

	actions(r) {
		if (r.other || !r.key)
			return '';
		const v = valueOf(r.key[this.by]), own = without(this.app.state.where, this.by),
			what = brief(v || '(none)', 60);
		const small = (text, title, name, changes) =>
			h('button.small', { type: 'button', title, 'aria-label': title, name,
			onclick: () => this.app.go(changes()) }, text);
		return h('span.actions', null,
			small('not', `All but ${what}`, 'but',
				() => ({ where: and(this.app.state.where, this.by, '!=', v),
				root: '' })),
			small('vs rest', `${what} against the rest`, 'rest',
				() => ({ where: and(own, this.by, '=', v),
				against: and(own, this.by, '!=', v), root: '', split: '' })));
	}
}
