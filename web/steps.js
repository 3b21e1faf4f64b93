/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an answer of /api/v1/series as heights, stacked. */
import { N_VALUES } from './colour.js';

/*
 * A window counts in the step that it begins in, however long it is. One that was written late, or
 * is longer than a step, ran in the steps behind it, too: those that have no window of their own
 * are drawn as the step that it begins in. -> for each step, the one whose rate it has; -1: nothing
 * was recorded.
 */
export function sources(answer) {
	const { covered, step, n_steps: n } = answer, from = new Int32Array(n);
	let last = -1, left = 0; /* the step with the latest window; its seconds behind that step */
	for (let i = 0; i < n; i++) {
		if (covered[i]) {
			last = i;
			left = covered[i] - step;
		} else {
			left -= step;
		}
		from[i] = covered[i] || left >= -step / 2 ? last : -1;
	}
	return from;
}

/* Are points averages of what was live, rather than sums over time? */
export const isLive = answer => /^(heap|inuse_)/.test(answer.metric || '');

/*
 * [[t...], [sum of the lowest...], ...]: uPlot draws from the highest sum down, each over the one
 * behind it. What was not recorded is 0 here: before a null, uPlot would leave out the step that
 * was recorded.
 */
export function stack(answer, rows, scale) {
	const from = sources(answer), n = answer.n_steps,
		at = Array.from({ length: n + 1 }, (_, i) => answer.from + i * answer.step);
	const perSecond = i => isLive(answer) ? 1 : scale / (answer.covered[i] || answer.step);
	const sums = new Float64Array(n), out = [];
	for (const row of rows) {
		for (const [t, samples] of row.points) {
			const i = Math.round((t - answer.from) / answer.step);
			if (i >= 0 && i < n)
				sums[i] += samples * perSecond(i);
		}
		out.push(Array.from(from, i => i < 0 ? 0 : sums[i]));
	}
	for (const line of out)
		line.push(n ? line[n - 1] : 0); /* the last step has a width, too */
	return [at, ...out.reverse()];
}

/* The values that have a colour, and what is left as one. */
export function groups(answer) {
	const rows = answer.series.filter(r => !r.other),
		rest = [...rows.slice(N_VALUES), ...answer.series.filter(r => r.other)];
	const shown = rows.slice(0, N_VALUES);
	if (rest.length)
		shown.push({ key: null, other: true, samples: rest.reduce((a, r) => a + r.samples,
			0), points: sumPoints(rest) });
	return shown;
}

function sumPoints(rows) {
	const at = new Map();
	for (const r of rows)
		for (const [t, n] of r.points)
			at.set(t, (at.get(t) || 0) + n);
	return [...at].sort((a, b) => a[0] - b[0]);
}
