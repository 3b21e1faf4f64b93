/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions: CPU of their own and with what they call, or how they differ from a
 * baseline.
 */
import { Pane } from './pane.js';
import { ask } from './api.js';
import { h, refill, tell } from './dom.js';
import { baseName, brief, counted, isExact, number, percent, seconds, shares } from './format.js';
import { bar, table } from './table.js';

const ROWS = 1000, SHOWN = 200;

export class FunctionsPane extends Pane {
	constructor(app, host) {
		super(app, host);
		this.filter = h('input', { type: 'search', name: 'filter', placeholder: 'Filter',
			'aria-label': 'Filter functions and files', spellcheck: false,
			autocomplete: 'off',
			oninput: e => this.app.go({ filter: e.target.value }, () => this.draw(),
				true) });
		this.status = h('span.match', { role: 'status' });
		this.names = h('select', { 'aria-label': 'Names', name: 'names',
			onchange: e => app.go({ names: e.target.value }) },
			[['', 'full names'], ['folded', 'without clones'],
				['simple', 'simple names']].map(([value, text]) =>
				h('option', { value }, text)));
		this.body = h('div.scroll', { tabIndex: 0, role: 'region',
			'aria-label': 'Functions' });
		host.append(h('div.tools', null, this.filter, this.names, this.options(),
			this.status), this.note, this.body);
	}

	options() { return null; }

	/* What is asked for beside the selection; null: not yet. */
	question(s) {
		const compared = this.app.compared();
		return { what: compared ? 'diff' : 'table', ...this.app.baseline(),
			sort: compared || s.sort !== 'samples' ? '' : 'samples',
			inclusive: compared && s.sort === 'samples' };
	}

	update(again) {
		const s = this.app.state, question = this.question(s);
		if (document.activeElement !== this.filter)
			this.filter.value = s.filter;
		this.names.value = s.names;
		if (!question)
			return;
		const { what, ...rest } = question, params =
			{ ...this.app.select(), ...rest, names: s.names, limit: ROWS,
			match: s.filter };
		const key = JSON.stringify([what, params]);
		if (key === this.asked && !again)
			return this.draw();
		return this.load(key, again, signal => ask(what, params, signal), answer => {
			this.answer = answer;
			this.compared = what === 'diff';
			this.draw();
		});
	}

	rows() {
		const s = this.app.state, by = { function: (a, b) => a.function < b.function ? -1
			: 1 };
		if (!this.compared)
			Object.assign(by, { self: (a, b) => b.self - a.self,
				samples: (a, b) => b.samples - a.samples });
		else
			Object.assign(by, { change: (a, b) =>
				Math.abs(b.change) - Math.abs(a.change) });
		const order = by[s.sort], rows = this.answer.rows.slice();
		return order ? rows.sort(order) : rows;
	}

	draw() {
		if (!this.answer)
			return;
		const a = this.answer, none = this.compared && !(a.a.samples && a.b.samples);
		const shown = none ? [] : this.rows().slice(0, SHOWN), of = a.n_matched ?? a.n_rows;
		tell(this.status, none ? '' : `${number(shown.length)} of ${number(of)} functions` +
			(this.compared ? `, ${number(a.n_changed)} changed beyond chance` : ''));
		refill(this.body, [table({
			caption: this.compared ? 'Functions compared' : 'Functions by CPU',
			columns: this.compared ? this.diffColumns(a) : this.columns(a),
			rows: shown,
			empty: none && (a.a.samples
				? 'There is nothing to compare with: no sample matches there.'
				: 'There is nothing to compare: no sample matches.'),
			sort: this.app.state.sort === 'change' && !this.compared
				? 'self' : this.app.state.sort,
			onsort: sort => this.app.go({ sort }),
			rowClass: r => this.compared ? r.verdict : '',
		})], this.filter);
		this.app.drawn('functions');
	}

	nameCell(r) {
		return h('button.link', { type: 'button', title: 'Callers and callees',
			onclick: () => this.app.sandwich(r.function, r.module) },
			h('bdi', null, brief(r.function, 160)),
				r.inlined ? h('small', null, ' inlined') : '');
	}

	fileCell(r) {
		return h('bdi', { title: brief(r.module, 400) }, brief(baseName(r.module), 40));
	}

	/* Beside the number that the rows are in order of: in sight on a narrow screen, too. */
	nameColumn() {
		return { id: 'function', title: 'Function', header: true, wide: true,
			sortable: true, cell: r => this.nameCell(r) };
	}

	columns(a) {
		const time = a.seconds > 0, exact = a.metric || isExact(a.rows);
		const amount = (n, s) => time ? seconds(s) : a.metric ? counted(n, a.unit)
			: number(n);
		const title = of => time ? `${of} ${a.metric ? 'time' : 'CPU'}` : a.metric ? of
				: 'Count';
		return [
			{ id: 'self', title: 'Self', number: true, sortable: true,
				hint: 'as the leaf', cell: r =>
				bar(r.self / (a.samples || 1), percent(r.self, a.samples)) },
			this.nameColumn(),
			{ id: 'selfs', title: title('Self'), number: true, spare: true,
				cell: r => amount(r.self, r.self_seconds) },
			{ id: 'samples', title: 'Total', number: true, sortable: true,
				hint: 'anywhere in the stack',
				cell: r => bar(r.share, percent(r.samples, a.samples)) },
			...(exact ? [] : [{ id: 'range', title: '95%', number: true, spare: true,
				hint: '95% interval of the total',
				cell: r => shares(r.low, r.high) }]),
			{ id: 'totals', title: title('Total'), number: true,
				cell: r => amount(r.samples, r.seconds) },
			{ id: 'file', title: 'File', cell: r => this.fileCell(r) },
		];
	}

	changeCell(r, k, points) {
		const title = `95% interval: ${points(r.low)} … ${points(r.high)}; ` +
			`${number(r[k][0])} samples here, ${number(r[k][1])} in the baseline`;
		return h('span', { title }, points(r.change),
			h('span.unseen', null, r.verdict === 'noise' ? ' may be chance'
				: ` ${r.verdict}`));
	}

	diffColumns(a) {
		const k = a.of === 'self' ? 'self' : 'samples',
			points = x => (x > 0 ? '+' : x < 0 ? '−' : '') + percent(Math.abs(x), 1);
		return [
			{ id: 'change', title: 'Change', number: true, sortable: true,
				hint: 'of the share; grey: may be chance (q of 0.05 or more after Benjamini and Hochberg)',
				cell: r => this.changeCell(r, k, points) },
			this.nameColumn(),
			{ id: 'a', title: 'Here', number: true,
				cell: r => `${percent(r.share[0], 1)}` },
			{ id: 'b', title: 'Baseline', number: true,
				cell: r => `${percent(r.share[1], 1)}` },
			{ id: 'file', title: 'File', cell: r => this.fileCell(r) },
		];
	}
}

/*
 * How functions changed, with what they call: against what is compared with, else the same length
 * of time before.
 */
export class DiffPane extends FunctionsPane {
	options() {
		this.own = h('input', { type: 'checkbox', name: 'own',
			onchange: e => this.app.go({ own: e.target.checked ? '1' : '' }) });
		return h('label.check', null, this.own, 'their own CPU alone');
	}

	question(s) {
		const before = this.app.before();
		this.own.checked = !!s.own;
		if (!this.app.compared() && !before)
			return null;
		return { what: 'diff', ...(this.app.compared() ? this.app.baseline() : before),
			inclusive: !s.own };
	}
}
