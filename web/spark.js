/* SPDX-License-Identifier: Apache-2.0 */
/* Small pictures of a series, without axes. */
import { svg } from './dom.js';

const W = 60, H = 18, STEPS = 30;

/* points: [[t, n], ...] of n_steps steps between from and to. */
export function spark(points, from, to, n_steps, colour, title) {
	const steps = Math.min(n_steps, STEPS), sums = new Float64Array(steps),
		width = (to - from) / steps;
	for (const [t, n] of points)
		if (t >= from && t < to)
			sums[Math.min(steps - 1, Math.floor((t - from) / width + 1e-6))] += n;
	const top = Math.max(1, ...sums), step = W / steps;
	let d = `M0 ${H}`;
	sums.forEach((n, i) => {
		const y = (H - (H - 1) * Math.min(1, n / top)).toFixed(1);
		d += `V${y}H${((i + 1) * step).toFixed(1)}`;
	});
	const label = document.createElementNS('http://www.w3.org/2000/svg', 'title');
	label.textContent = title;
	return svg('svg', { class: 'spark', width: W, height: H, viewBox: `0 0 ${W} ${H}`,
		'aria-hidden': 'true' },
		label, svg('path', { d: d + `V${H}Z`, fill: colour }));
}
