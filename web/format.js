/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and foreign text as people read them. */

/*
 * Control characters, and those that turn the direction of what stands beside them: names must not
 * change the page around them.
 */
const HOSTILE =
	/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export const plain = text => String(text).replace(HOSTILE, '\ufffd');

export function cut(text, max) {
	text = text.length > 2 * max + 2 ? text.slice(0, 2 * max + 2) : text;
	const chars = Array.from(text);
	return chars.length > max ? chars.slice(0, max - 1).join('') + '…' : text;
}

/* Foreign text, as much of it as there is room for. */
export const brief = (text, max) => cut(plain(String(text).slice(0, 2 * max + 2)), max);

/* Without its directories; looked for from the end: names may be long. */
export const baseName = path => path.slice(path.lastIndexOf('/') + 1);

/* By hand: the browser's own (Intl) takes 10 ms when it is first used. */
export const number = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, '\u202f');

export function percent(part, of) {
	if (!of)
		return '0%';
	const p = 100 * part / of;
	return (p === 0 || p >= 99.995 ? p.toFixed(0) : p >= 0.095 ? p.toFixed(p < 10 ? 2 : 1)
		: p < 0.01 ? '<0.01' : p.toFixed(2)) + '%';
}

export function seconds(s) {
	const a = Math.abs(s);
	if (a >= 7200)
		return (s / 3600).toFixed(a >= 36000 ? 1 : 2) + ' h';
	if (a >= 600)
		return (s / 60).toFixed(1) + ' min';
	if (a >= 0.9995)
		return s.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2) + ' s';
	if (a >= 0.9995e-3)
		return (s * 1e3).toFixed(a >= 9.95e-3 ? 0 : 1) + ' ms';
	return a ? (s * 1e6).toFixed(a >= 9.95e-6 ? 0 : 1) + ' µs' : '0 s';
}

export function bytes(n) {
	for (const unit of ['B', 'KiB', 'MiB', 'GiB'])
		if (n < 1024 || unit === 'GiB')
			return (n < 10 && unit !== 'B' ? n.toFixed(1) : Math.round(n)) + ' ' + unit;
		else
			n /= 1024;
}

/* A time for the address, seconds since 1970. */
export const stamp = t => String(Math.round(t * 10) / 10);

const two = n => String(n).padStart(2, '0');

/* Local time, seconds since 1970. */
export function time(t) {
	const d = new Date(1000 * t);
	return isNaN(d) ? '?'
		: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/* The same with milliseconds, where there are any. */
export function exactTime(t) {
	const ms = Math.round(1000 * t);
	return time(ms / 1000) + (ms % 1000 ? (ms % 1000 / 1000).toFixed(3).slice(1) : '');
}

export function timeRange(from, to) {
	const [a, b] = [from, to].map(to - from < 60 ? exactTime : time);
	return a.slice(0, 10) === b.slice(0, 10) ? `${a} – ${b.slice(11)}` : `${a} – ${b}`;
}

/* What so many samples are: time for events that stand for time. */
export const amount = (n, nsPerSample) => nsPerSample ? seconds(n * nsPerSample / 1e9) : number(n);

/* The same where an answer says what it counts: samples, nanoseconds, bytes, objects. */
export const counted = (n, counts) => counts === 'nanoseconds' ? seconds(n / 1e9)
	: counts === 'bytes' ? bytes(n) : counts === 'count' ? number(n)
		: `${number(n)} ${counts || 'samples'}`;

/* Metrics of memory, in the words of the page. */
export const MEMORY = { inuse_space: 'live memory', alloc_space: 'allocated memory',
	inuse_objects: 'live allocations', alloc_objects: 'allocations' };

/* An event's name without the directories of its file: "uprobe:/usr/bin/redis:call". */
export const eventName = name => name.replace(/^(uprobe|uretprobe|usdt):[^:]*\//, '$1:');

/* A range of shares: "7.94 – 12.1%". */
export const shares = (low, high) => `${percent(low, 1).replace('%', '')} – ${percent(high, 1)}`;

/* Nothing was sampled: each hit is there, so shares have no interval. */
export const isExact = rows => rows.every(r => r.low === r.high);

/* 95% interval of a share, k of n (Wilson). */
export function interval(k, n) {
	if (!n)
		return [0, 1];
	const z = 1.959964, p = k / n, q = z * z / n, middle = (p + q / 2) / (1 + q);
	const half = z * Math.sqrt(p * (1 - p) / n + q / (4 * n)) / (1 + q);
	return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
