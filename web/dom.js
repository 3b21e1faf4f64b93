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
