/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table with sortable heads. columns: [{id, title, hint, number, sortable, stays, spare,
 * crowds, cell(row) -> text or element}]; what stays is in sight when the table is too wide, a
 * narrow panel hides what is spare, sooner beside a column that crowds; unseen: a title that is
 * only read out. Rows are in order already: who owns the table sorts (the server often did).
 */
import { h } from './dom.js';

const classes = c => ['number', 'wide', 'stays', 'spare', 'crowds'].filter(k => c[k])
	.map(k => k === 'number' ? 'n' : k).join(' ');

export function table({ caption, columns, rows, sort, onsort, rowClass, empty }) {
	const head = columns.map(c => {
		const sorted = c.id === sort;
		const props = { scope: 'col', className: classes({ ...c, wide: false }),
			title: c.hint };
		if (!c.sortable)
			return h('th', props, c.title || h('span.unseen', null, c.unseen));
		return h('th', { ...props, 'aria-sort': sorted
			? (c.number ? 'descending' : 'ascending') : 'none' },
			h('button.sort', { type: 'button', onclick: () => onsort(c.id),
				'data-sort': c.id }, c.title, h('i', { 'aria-hidden': 'true' },
				sorted ? (c.number ? '▾' : '▴') : '')));
	});
	const body = rows.map(r => h('tr', { className: rowClass ? rowClass(r) : '' },
		columns.map((c, k) => {
		const content = c.cell(r), props = { className: classes(c) };
		return k === columns.findIndex(x => x.header)
			? h('th', { ...props, scope: 'row' }, content) : h('td', props, content);
	})));
	if (!rows.length)
		body.push(h('tr', null, h('td.empty', { colSpan: columns.length },
			empty || 'Nothing matches.')));
	return h('table', null, h('caption.unseen', null, caption),
		h('thead', null, h('tr', null, head)), h('tbody', null, body));
}

/* A share as a bar behind its number. */
export const bar = (share, text) => h('span.bar', null, barBox(share), h('span', null, text));

function barBox(share) {
	const e = h('i', { 'aria-hidden': 'true' });
	e.style.width = Math.max(0, Math.min(100, 100 * share)).toFixed(2) + '%';
	return e;
}
