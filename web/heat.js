/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a heat map: a column for each second, a line for each step of it, the first at the
 * bottom. Time goes up a column and then to the next one.
 */
export class Grid {
	/* Of an answer of /api/v1/heatmap, with one row. */
	constructor(answer) {
		this.from = answer.from;
		this.step = answer.step;
		this.steps = answer.steps;
		this.cells = answer.rows[0] ? answer.rows[0].cells : [];
		this.lines = Math.max(1, Math.round(1 / this.step));
		this.first = Math.floor(this.from + this.step / 2);
		this.skip = Math.round((this.from - this.first) / this.step);
		this.columns = Math.ceil((this.skip + this.steps) / this.lines);
	}

	/* The step at a place, -1: there is none. */
	at(column, line) {
		const i = column * this.lines + line - this.skip;
		return line < 0 || line >= this.lines || i < 0 || i >= this.steps ? -1 : i;
	}

	/* [column, line] of a step. */
	place(i) {
		const k = i + this.skip;
		return [Math.floor(k / this.lines), k % this.lines];
	}

	time(i) { return this.from + i * this.step; }

	/* What lies between two steps, whichever comes first: [from, to]. */
	range(a, b) {
		return [this.time(Math.min(a, b)), this.time(Math.max(a, b) + 1)];
	}

	/* The sum of the cells between two steps. */
	sum(a, b) {
		let n = 0;
		for (let i = Math.min(a, b); i <= Math.max(a, b); i++)
			n += this.cells[i];
		return n;
	}
}

/* A time in seconds as the address has it: to the millisecond. */
export const exact = t => String(Math.round(t * 1000) / 1000);
