/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks in which threads were blocked: a line for each lock, who waited for it, and who ended the
 * waits. The stack of the release is below the line.
 */
import { h } from './dom.js';
import { brief, percent, seconds } from './format.js';

const STACK = 8;
const HEADS = ['blocked', 'who was', 'ended by', 'who is', 'kind',
	'lock, and the stack of the release'];

const who = p => h('bdi', null, brief(p ?? '(none)', 40));

const row = r => h('tr', null,
	h('td.n', null, seconds(r.seconds), h('small', null, ' ' + percent(r.share, 1))),
	h('td', null, who(r.victim)),
	h('td', null, who(r.nobody || r.by)),
	h('td', null, r.is || ''),
	h('td', null, r.kind || ''),
	h('td', null, h('bdi', null, brief(r.lock ?? '-', 80)),
		r.stack.length ? h('small', { title: r.stack.join('\n') }, ' ',
			h('bdi', null, brief(r.stack.slice(0, STACK).join(' < '), 160))) : null));

export const locksTable = (answer, by) => h('table.locks', null,
	h('caption.unseen', null, `Seconds blocked in locks, by ${brief(by, 40)}`),
	h('thead', null, h('tr', null, HEADS
		.map((t, i) => h(i ? 'th' : 'th.n', { scope: 'col' }, t)))),
	h('tbody', null, answer.locks.length ? answer.locks.map(row)
		: h('tr', null, h('td.empty', { colSpan: 6 }, 'Nobody was blocked in a lock.'))));
