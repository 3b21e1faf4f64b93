/* SPDX-License-Identifier: Apache-2.0 */
/* Colours of frames and of label values, for light and dark pages. */
import { baseName } from './format.js';

const KINDS = ['kernel', 'library', 'executable', 'run-time code', 'other', 'label', 'Python',
	'JavaScript', 'Java', 'PHP', 'Ruby', 'Perl',
	'LuaJIT'];
const HUES = [20, 150, 212, 285, 0, 0, 48, 95, 330, 245, 0, 180, 265];
const LANGUAGES = { '[python]': 6, '[node]': 7, '[java]': 8, '[php]': 9, '[ruby]': 10,
	'[perl]': 11, '[luajit]': 12 };

/*
 * So many values have a colour of their own. It depends on the value alone, unless two want the
 * same; a value keeps what it was given first while the page is open.
 */
const PALETTE = ['#5b8ec9', '#e58a3c', '#5fae63', '#b07cc0', '#d9626c', '#4fb0ac', '#d2b13c',
	'#a37d63', '#7f86d6', '#c9698f', '#8fae4a', '#4f9fcb'];
const OTHERS = '#9aa1ac';
export const N_VALUES = 8;
let values = [...PALETTE.slice(0, N_VALUES), OTHERS];
export const valueColour = i => values[i < 0 || i >= N_VALUES ? N_VALUES : i];

const given = new Map(), N_GIVEN = 1000;

/* Give the values, largest first, their colours. */
export function colourValues(names) {
	const shown = names.slice(0, N_VALUES).map(String), now = new Map(), taken = new Set();
	if (given.size > N_GIVEN)
		given.clear();
	for (const known of [true, false])
		for (const name of shown.filter(n => given.has(n) === known && !now.has(n))) {
			let at = given.get(name) ?? hash(name) % PALETTE.length;
			while (taken.has(at))
				at = (at + 1) % PALETTE.length;
			taken.add(at);
			now.set(name, at);
		}
	now.forEach((at, name) => given.set(name, at));
	values = shown.map(name => PALETTE[now.get(name)]);
	while (values.length <= N_VALUES)
		values.push(OTHERS);
}

export const dark = () => getComputedStyle(document.documentElement).getPropertyValue('--dark')
	.trim() === '1';

function hash(text) {
	let v = 7;
	for (let i = 0; i < text.length && i < 400; i++)
		v = (Math.imul(v, 31) + text.charCodeAt(i)) | 0;
	return v >>> 0;
}

const kindOf = (kind, module) => Object.hasOwn(LANGUAGES, module) ? LANGUAGES[module] : kind;
export const kindName = (kind, module) => KINDS[kindOf(kind, module)] || '';

/* Neighbours of one kind differ a little, the same name is the same everywhere. */
const hsl = (hue, chroma, text, night) => {
	const s = hash(text) % 7 - 3;
	return `hsl(${hue + 2 * s} ${chroma}% ${(night ? 33 : 80) + 1.3 * s}%)`;
};
const byKind = (kind, module, name, night) => {
	const k = kindOf(kind, module);
	return hsl(HUES[k], k === 4 ? 5 : night ? 34 : 58, name, night);
};
const byLibrary = (kind, module, name, night) =>
	module ? hsl(hash(module) * 0.618 % 360, night ? 34 : 55, name, night)
		: hsl(0, 5, name, night);

function mix(colour, share, night) {
	const page = night ? 26 : 255, n = parseInt(colour.slice(1), 16);
	const part = shift => Math.round(((n >> shift) & 255) * share + page * (1 - share));
	return `rgb(${part(16)} ${part(8)} ${part(0)})`;
}

/* More than the baseline red, less blue, by how often twice as much; what may be chance is grey. */
function difference(a, b, verdict, night) {
	if (!verdict)
		return night ? '#3b424d' : '#dfe3e8';
	const steps = Math.min(4, Math.abs(Math.log2((a + 1e-9) / (b + 1e-9))));
	return mix(a > b ? '#e0433a' : '#3577d4', (night ? 0.4 : 0.3) + 0.14 * steps, night);
}

/*
 * -> a function from a node to its colour. mode: kind, library, label; a tree with a baseline shows
 * the difference.
 */
export function painter(t, mode, sums) {
	const night = dark();
	if (t.against && sums)
		return i => difference(t.total[i] / (sums[0] || 1), t.against[i] / (sums[1] || 1),
			t.verdict[i], night);
	const frames = [], of = mode === 'library' ? byLibrary : byKind;
	const plain = i => frames[t.frame[i]] ||= of(t.frames[3 * t.frame[i] + 2],
		t.frames[3 * t.frame[i] + 1], t.frames[3 * t.frame[i]], night);
	if (!t.value)
		return plain;
	const shades = values.map(v => mix(v, night ? 0.55 : 0.6, night)),
		none = night ? '#3b424d' : '#e4e7ec';
	return i => t.value[i] === 255 ? none : shades[Math.min(t.value[i], N_VALUES)];
}

/* [[name, colour], ...] of what is in the picture. */
export function legend(t, mode, diff) {
	const night = dark(), seen = new Map();
	if (diff)
		return [['more', difference(4, 1, 1, night)], ['less', difference(1, 4, 1, night)],
			['may be chance', difference(1, 1, 0, night)]];
	if (t.value)
		return t.values.map((v, i) => [v, mix(valueColour(i), night ? 0.55 : 0.6, night)]);
	for (let f = 6; f < t.frames.length; f += 3) {
		const kind = t.frames[f + 2], module = t.frames[f + 1];
		const key = mode === 'library' ? baseName(module) : kindName(kind, module);
		if (key && !seen.has(key))
			seen.set(key, (mode === 'library' ? byLibrary : byKind)(kind, module, '',
				night));
	}
	return [...seen];
}
