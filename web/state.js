/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is shown, as the address says it: each field a parameter, those that have their default left
 * out. A parameter that is unknown or makes no sense is named, and its default taken instead.
 */
const TIME =
	/^(now(-\d+(\.\d+)?(ms|s|m|h|d|w))?|\d{1,12}(\.\d{1,9})?|\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))$/;
const PATH = /^[0-9a-f]{8}(\.[0-9a-f]{8})*$/;

const text = (max, pattern, what) => v => v.length > max ? `longer than ${max} characters`
	: pattern && v && !pattern.test(v) ? what : '';
const choice = (...of) => v => of.includes(v) ? '' : `none of ${of.join(', ')}`;
const flag = choice('', '1');
const when = text(64, TIME, 'no time: now-1h, 2026-05-01T10:00:00Z or seconds since 1970');

/* name: [default, what is wrong with a value ('': nothing)] */
const FIELDS = {
	from: ['', when],
	to: ['', when],
	where: ['', text(8192)],
	event: ['', text(256)],
	metric: ['', choice('', 'cpu', 'off', 'runq', 'wall', 'waker', 'latency', 'value', 'heap',
		'inuse_space', 'inuse_objects', 'alloc_space', 'alloc_objects')],
	by: ['', text(255)],
	tab: ['flame', choice('flame', 'diff', 'functions', 'heat', 'waits', 'blame', 'why')],
	view: ['', choice('', 'inverted', 'sandwich')],
	fn: ['', text(4200)],
	module: ['', text(4200)],
	root: ['', text(4096, PATH, 'no path of frames')],
	find: ['', text(1024)],
	filter: ['', text(1024)],
	colour: ['kind', choice('kind', 'library', 'label')],
	split: ['', flag],
	up: ['', flag],
	sort: ['self', choice('self', 'samples', 'function', 'change')],
	against: ['', text(8192)],
	against_from: ['', when],
	against_to: ['', when],
	names: ['', choice('', 'full', 'folded', 'simple')],
	idle: ['', flag],
	waits: ['', flag],
	own: ['', flag],
	live: ['', flag],
};

export const defaults = () => Object.fromEntries(Object.entries(FIELDS)
	.map(([name, [value]]) => [name, value]));

/* -> [state, problems]: a query string with or without its "?". */
export function parse(query) {
	const state = defaults(), problems = [], seen = new Set();
	for (const [name, value] of new URLSearchParams(query)) {
		const field = Object.hasOwn(FIELDS, name) && FIELDS[name];
		const wrong = !field ? 'nothing here is called so' : seen.has(name) ? 'given twice'
			: value === field[0] || !value ? '' : field[1](value);
		seen.add(name);
		if (wrong)
			problems.push(`${name.slice(0, 40)}=${value.slice(0, 60)}: ${wrong}`);
		else
			state[name] = value || field[0]; /* nothing is not given */
	}
	if (/^\d/.test(state.from) && /^\d/.test(state.to) &&
		instant(state.from) >= instant(state.to)) {
		problems.push(
			`from=${state.from}, to=${state.to}: the range ends before it begins`);
		state.from = state.to = '';
	}
	if (state.view === 'sandwich' && !state.fn) {
		problems.push('view=sandwich: of which function? fn is missing');
		state.view = '';
	}
	return [state, problems];
}

/* What of it every question is about. Of the metrics, only the values are those of an event. */
export function select({ from, to, where, event, metric, idle }) {
	return { from, to, where, event: metric && metric !== 'value' ? '' : event, metric, idle };
}

export const compared = s => !!(s.against || s.against_from || s.against_to);

export function baseline(s) {
	const { against, against_from, against_to } = s;
	return compared(s) ? { against, against_from, against_to } : {};
}

const instant = t => /^\d{4}-/.test(t) ? Date.parse(t) / 1000 : Number(t);

export function format(state) {
	const q = new URLSearchParams();
	for (const name in FIELDS)
		if (state[name] !== FIELDS[name][0])
			q.set(name, state[name]);
	const s = q.toString();
	return s ? '?' + s : '';
}
