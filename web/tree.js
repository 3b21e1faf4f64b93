/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs as parallel arrays in depth-first order: a subtree is a piece of them, and each
 * level a list from left to right. Frame 0 is the root, frame 1 "(other)": docs/http.md, flame.
 */
export const OTHER = 1;
const SEARCHED = 2000; /* of a name: an expression may take long on more */

/* data: an answer of /api/v1/flame. */
export function unpack(data) {
	const nodes = data.nodes, n = nodes.length / 3;
	const depth = new Uint32Array(n), total = new Float64Array(n), frame = new Uint32Array(n);
	for (let i = 0; i < n; i++) {
		depth[i] = nodes[3 * i];
		total[i] = nodes[3 * i + 1];
		frame[i] = nodes[3 * i + 2];
	}
	return build({ frames: data.frames, depth, total, frame,
		against: data.against ? Float64Array.from(data.against) : null,
		verdict: data.verdicts ? Uint8Array.from(data.verdicts) : null, value: null,
			values: null });
}

/*
 * The same of an answer whose first level is the values of a label: each node has the place of its
 * value.
 */
export function unpackSplit(data) {
	const t = unpack(data), path = data.path || [],
		at = new Map(data.values.map((v, i) => [v, i]));
	const place = text => at.has(text) ? at.get(text) : 255;
	t.values = data.values;
	t.value = new Uint8Array(t.n).fill(path.length > 3 ? place(path[3]) : path.length
		? place(name(t, 0)) : 255);
	if (!path.length)
		for (const c of children(t, 0))
			t.value.fill(place(name(t, c)), c, t.end[c]);
	return t;
}

/* The rest follows from depth, total and frame. */
function build(t) {
	const n = t.n = t.depth.length, path = [], filled = [];
	t.parent = new Int32Array(n);
	t.start = new Float64Array(n);
	t.own = Float64Array.from(t.total);
	t.end = new Uint32Array(n); /* behind the last node below */
	const widths = [];
	for (let i = 0; i < n; i++) {
		const d = t.depth[i], up = d ? path[d - 1] : -1;
		for (let k = path.length; k-- > d;)
			t.end[path.pop()] = i;
		t.parent[i] = up;
		t.start[i] = d ? t.start[up] + filled[d - 1] : 0;
		if (d) {
			filled[d - 1] += t.total[i];
			t.own[up] -= t.total[i];
		}
		path[d] = i;
		filled[d] = 0;
		widths[d] = (widths[d] || 0) + 1;
	}
	for (const i of path)
		t.end[i] = n;
	t.rows = widths.map(w => new Uint32Array(w));
	widths.fill(0);
	for (let i = 0; i < n; i++)
		t.rows[t.depth[i]][widths[t.depth[i]]++] = i;
	return t;
}

export const name = (t, i) => t.frames[3 * t.frame[i]];
export const module = (t, i) => t.frames[3 * t.frame[i] + 1];
export const kind = (t, i) => t.frames[3 * t.frame[i] + 2];

export const children = function* (t, i) {
	for (let c = i + 1; c < t.end[i]; c = t.end[c])
		yield c;
};

/* The part below node i, which becomes node 0. */
export function below(t, i) {
	const from = i, to = t.end[i], d = t.depth[i], piece = a => a && a.slice(from, to);
	return build({ frames: t.frames, depth: t.depth.slice(from, to).map(x => x - d),
		total: piece(t.total), frame: piece(t.frame),
		against: piece(t.against), verdict: piece(t.verdict), value: piece(t.value),
			values: t.values });
}

/* Whether something below i was left out by the server. */
export function prunedBelow(t, i) {
	for (let k = i; k < t.end[i]; k++)
		if (t.frame[k] === OTHER)
			return true;
	return false;
}

/* From the root's child down to i; without the root. */
export function pathOf(t, i) {
	const out = [];
	for (; i > 0; i = t.parent[i])
		out.push(i);
	return out.reverse();
}

function fnv(text) {
	let h = 2166136261;
	for (const b of new TextEncoder().encode(text))
		h = Math.imul(h ^ b, 16777619);
	return (h >>> 0).toString(16).padStart(8, '0');
}

/* How the server is told of a frame (docs/http.md). */
export const frameId = (name, module) => fnv(name + '\0' + module);

/* The node that a list of such ids leads to from node 0; -1: it is not there. */
export function follow(t, ids) {
	let at = 0;
	for (const id of ids) {
		let found = -1;
		for (const c of children(t, at))
			if (frameId(name(t, c), module(t, c)) === id) {
				found = c;
				break;
			}
		if (found < 0)
			return -1;
		at = found;
	}
	return at;
}

/* ---- trees of several label values as one ---- */

function internFrames(trees) {
	const frames = ['all', '', 4, '(other)', '', 4], known = new Map();
	const maps = trees.map(t => {
		const map = new Uint32Array(t.frames.length / 3);
		map[1] = 1;
		for (let f = 2; f < map.length; f++) {
			const key = t.frames[3 * f] + '\0' + t.frames[3 * f + 1] + '\0' +
				t.frames[3 * f + 2];
			if (!known.has(key)) {
				known.set(key, frames.length / 3);
				frames.push(t.frames[3 * f], t.frames[3 * f + 1],
					t.frames[3 * f + 2]);
			}
			map[f] = known.get(key);
		}
		return map;
	});
	return [frames, maps];
}

/* Put a tree of {frame, total, value, kids} into arrays, children by total, (other) last. */
function flatten(root, frames, values) {
	const depth = [], total = [], frame = [], value = [], stack = [[root, 0]];
	while (stack.length) {
		const [node, d] = stack.pop();
		depth.push(d);
		total.push(node.total);
		frame.push(node.frame);
		value.push(node.value);
		const kids = [...node.kids.values()].sort((a, b) =>
			(a.frame === OTHER) - (b.frame === OTHER) || b.total - a.total);
		for (const k of kids.reverse())
			stack.push([k, d + 1]);
	}
	return build({ frames, depth: Uint32Array.from(depth), total: Float64Array.from(total),
		frame: Uint32Array.from(frame),
		against: null, verdict: null, value: Uint8Array.from(value), values });
}

const fresh = (frame, value) => ({ frame, total: 0, value, best: 0, kids: new Map() });

/* One tree of all, each node with the value that has most of it. */
export function overlay(trees, values) {
	const [frames, maps] = internFrames(trees), root = fresh(0, 255);
	trees.forEach((t, v) => {
		const path = [];
		for (let i = 0; i < t.n; i++) {
			const f = maps[v][t.frame[i]], up = i ? path[t.depth[i] - 1] : null;
			let node = i ? up.kids.get(f) : root;
			if (!node)
				up.kids.set(f, node = fresh(f, 255));
			node.total += t.total[i];
			if (t.total[i] > node.best) {
				node.best = t.total[i];
				node.value = v;
			}
			path[t.depth[i]] = node;
		}
	});
	return flatten(root, frames, values);
}

/* ---- search ---- */

/*
 * Which frames a regular expression finds; null when it is none. "(inlined)" is no part of a name.
 */
export function matchFrames(t, text) {
	let re;
	try {
		re = new RegExp(text, 'i');
	} catch {
		return null;
	}
	const hits = new Uint8Array(t.frames.length / 3), some = text => text.slice(0, SEARCHED);
	for (let f = 2; f < hits.length; f++)
		hits[f] = re.test(some(t.frames[3 * f]).replace(/ \(inlined\)$/, '')) ||
			re.test(some(t.frames[3 * f + 1])) ? 1 : 0;
	return hits;
}

/* Samples with a match anywhere in the stack, once each. */
export function matchedTotal(t, hits) {
	let sum = 0;
	for (let i = 0; i < t.n;) {
		if (hits[t.frame[i]]) {
			sum += t.total[i];
			i = t.end[i];
		} else {
			i++;
		}
	}
	return sum;
}
