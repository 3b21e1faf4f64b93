/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the page that shows answers: it asks when what it is about has changed, gives up what
 * it asked before, and says why when there is no answer.
 */
import { h } from './dom.js';
import { Refused } from './api.js';

const CUT = 'The answer was cut to fit into memory: the smallest rows are summed as (other).';

/* Was any of the answers cut? */
const isBounded = a => Array.isArray(a) ? a.some(isBounded)
	: !!(a && (a.bounded || (a.data && a.data.bounded)));

export class Pane {
	constructor(app, host) {
		this.app = app;
		this.host = host;
		this.note = h('p.note', { hidden: true });
		this.asked = null;
		this.running = null;
	}

	/* ask(signal) -> answer, show(answer). The same key is not asked twice, unless again. */
	async load(key, again, ask, show) {
		if (key === this.asked && !again)
			return;
		if (this.running)
			this.running.abort();
		const mine = this.running = new AbortController();
		this.asked = key;
		this.host.setAttribute('aria-busy', 'true');
		try {
			const answer = await ask(mine.signal);
			if (mine !== this.running)
				return;
			this.note.hidden = true;
			show(answer);
			if (isBounded(answer))
				this.fail(CUT);
		} catch (e) {
			if (e.name === 'AbortError' || mine !== this.running)
				return;
			this.asked = null;
			if (!(e instanceof Refused))
				console.error(e);
			if (!this.app.refused(e, this))
				this.fail(e.message);
		} finally {
			if (mine === this.running) {
				this.running = null;
				this.host.removeAttribute('aria-busy');
			}
		}
	}

	fail(text) {
		this.note.textContent = text;
		this.note.hidden = false;
	}
}
