/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors, {tenant="a",comm!="sh"}: taken apart into matchers and put together. The server has
 * the last word on what is one.
 */
const KEY = /^[A-Za-z0-9_:./-]+/;
const OPS = /^(=~|!=|!~|=)/;
const ESCAPES = { n: '\n', t: '\t', r: '\r', '\\': '\\', '"': '"', "'": "'" };

function quoted(s) {
	const q = s[0], raw = q === '`';
	let out = '';
	for (let i = 1; i < s.length; i++) {
		if (s[i] === q)
			return [out, s.slice(i + 1)];
		if (s[i] !== '\\' || raw) {
			out += s[i];
		} else if (Object.hasOwn(ESCAPES, s[i + 1])) {
			out += ESCAPES[s[++i]];
		} else { /* \xHH is a byte: left to the server */
			return null;
		}
	}
	return null;
}

/* -> [{key, op, value}], null: not understood here. */
export function parse(text) {
	let s = text.trim();
	if (s.startsWith('{') !== s.endsWith('}'))
		return null;
	if (s.startsWith('{'))
		s = s.slice(1, -1);
	const out = [];
	for (s = s.trim(); s;) {
		const m = /^["'`]/.test(s) ? quoted(s)
			: KEY.test(s) && [s.match(KEY)[0], s.replace(KEY, '')];
		const op = m && m[1].trimStart().match(OPS);
		const rest = op && m[1].trimStart().slice(op[0].length).trimStart();
		const v = rest && /^["'`]/.test(rest) ? quoted(rest) : null;
		if (!v)
			return null;
		out.push({ key: m[0], op: op[0], value: v[0] });
		s = v[1].trimStart();
		if (s && s[0] !== ',')
			return null;
		s = s.slice(1).trimStart();
	}
	return out;
}

const quote = s => '"' + s.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n').replace(/\t/g, '\\t')
	.replace(/\r/g, '\\r') + '"';
const key = k => KEY.test(k) && k.match(KEY)[0] === k ? k : quote(k);

export const format = list => list.length ? '{' + list.map(m => key(m.key) + m.op + quote(m.value))
	.join(',') + '}' : '';

/*
 * The selector with one matcher more; one of the same key, operator and value is not repeated,
 * another "=" of the key gives way.
 */
export function and(text, k, op, value) {
	const list = parse(text);
	if (!list) /* put behind what is there: the server understands it, if it is a selector */
		return '{' + text.trim().replace(/^\{|\}$/g, '')
			.replace(/,\s*$/, '') + ',' + key(k) + op + quote(value) + '}';
	const kept = list.filter(m => m.key !== k ||
		(m.op !== '=' && (m.op !== op || m.value !== value)));
	return format([...kept, { key: k, op, value }]);
}

/* The selector without what it says of one key. */
export function without(text, k) {
	const list = parse(text);
	return list && list.some(m => m.key === k) ? format(list.filter(m => m.key !== k)) : text;
}

/* A value that is missing counts as the empty text. */
export const valueOf = v => v === null ? '' : v;
