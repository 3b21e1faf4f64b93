/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of /api/v1/blame with fewer columns: those that do not fit are one. */

/*
 * -> { occupants, cells } with at most `most` occupants (2 at least), largest first: the others are
 * added to the one that is the rest, which comes last. Cells keep their places {at: [row, column]}.
 */
export function foldOccupants(answer, most) {
	const all = answer.occupants;
	if (all.length <= Math.max(2, most))
		return { occupants: all, cells: answer.cells };
	const last = Math.max(2, most) - 1, cells = [], rest = new Map();
	const occupants = [...all.slice(0, last), { occupant: null, rest: true,
		seconds: all.slice(last).reduce((sum, o) => sum + o.seconds, 0) }];
	for (const c of answer.cells) {
		const [row, column] = c.at;
		if (column < last) {
			cells.push(c);
			continue;
		}
		const sum = rest.get(row) || { at: [row, last], seconds: 0, share: 0 };
		sum.seconds += c.seconds;
		sum.share += c.share;
		if (!rest.has(row))
			cells.push(sum);
		rest.set(row, sum);
	}
	return { occupants, cells };
}
