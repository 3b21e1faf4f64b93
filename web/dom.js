/* SPDX-License-Identifier: Apache-2.0 */
/* Elements. Text is always text: nothing here makes markup of a string. */
export function h(tag, props, ...children) {
	const [name, ...classes] = tag.split('.'), e = document.createElement(name || 'div');
	if (classes.length)
		e.className = classes.join(' ');
	for (const [k, v] of Object.entries(props || {})) {
		if (v === null || v === undefined || v === false)
			continue;
		if (k.startsWith('on'))
			e.addEventListener(k.slice(2), v);
		else if (k in e && k !== 'list' && k !== 'form' && k !== 'width' && k !== 'height')
			e[k] = v;
		else
			e.setAttribute(k, v === true ? '' : v);
	}
	e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
	return e;
}

const REACHED = 'a[href], button:enabled, input:enabled, select:enabled, summary, [tabindex="0"]';
const calledAs = e => [e.tagName, e.name, e.dataset.sort || e.dataset.value ||
	e.getAttribute('aria-label') || e.textContent].join('\0');

/*
 * Other children. Whoever was at one of them with the keyboard is at the one that is called the
 * same then, else at what stands in its place, else at `otherwise`: a page that is drawn anew must
 * not send anybody back to its top.
 */
export function refill(host, children, otherwise) {
	const had = document.activeElement, inside = had !== host && host.contains(had),
		list = () => [...host.querySelectorAll(REACHED)];
	const called = inside && calledAs(had), at = inside ? list().indexOf(had) : 0;
	host.replaceChildren(...children);
	if (!inside)
		return;
	const now = list(), next = now.find(e => calledAs(e) === called) ||
		now[Math.min(at, now.length - 1)] || otherwise;
	if (next)
		next.focus({ preventScroll: true });
}

/* Into an element that is read out when it changes: only when it does. */
export function tell(e, text) {
	if (e.textContent !== text)
		e.textContent = text;
}

export const byId = id => document.getElementById(id);

export function svg(tag, attributes, ...children) {
	const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [k, v] of Object.entries(attributes))
		e.setAttribute(k, v);
	e.append(...children);
	return e;
}

/* Call at most once per frame, with the last arguments. */
export function perFrame(f) {
	let asked = false;
	return () => {
		if (asked)
			return;
		asked = true;
		requestAnimationFrame(() => { asked = false; f(); });
	};
}

export function later(f, ms) {
	let timer = 0;
	return (...args) => {
		clearTimeout(timer);
		timer = setTimeout(() => f(...args), ms);
	};
}
