/* SPDX-License-Identifier: Apache-2.0 */
/* The box beside the pointer. Screen readers are told the same elsewhere. */
import { h } from './dom.js';

export class Tip {
	constructor() {
		this.element = h('div.tip', { hidden: true, 'aria-hidden': 'true' });
		document.body.append(this.element);
	}

	hide() { this.element.hidden = true; }

	/* lines: [text, colour]. */
	show(x, y, title, lines) {
		const e = this.element;
		e.replaceChildren(h('b', null, title), ...lines.map(([text, colour]) => {
			const swatch = colour ? h('i.swatch') : null;
			if (swatch)
				swatch.style.background = colour;
			return h('span', null, swatch, text);
		}));
		e.hidden = false;
		const left = x + 14 + e.offsetWidth > innerWidth ? x - 14 - e.offsetWidth : x + 14;
		const top = y + 16 + e.offsetHeight > innerHeight ? y - 10 - e.offsetHeight
			: y + 16;
		e.style.left = Math.max(4, left) + 'px';
		e.style.top = Math.max(4, top) + 'px';
	}
}
