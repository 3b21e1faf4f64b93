/* SPDX-License-Identifier: Apache-2.0 */
/* Light, dark, or as the system has it; remembered by the browser. */
const KEY = 'ascribe-theme', NAMES = ['auto', 'light', 'dark'];

function read() {
	try {
		const v = localStorage.getItem(KEY);
		return NAMES.includes(v) ? v : 'auto';
	} catch {
		return 'auto';
	}
}

export const themeName = () => document.documentElement.dataset.theme || 'auto';

function apply(name) {
	document.documentElement.dataset.theme = name;
}

export function nextTheme() {
	const name = NAMES[(NAMES.indexOf(themeName()) + 1) % NAMES.length];
	apply(name);
	try { localStorage.setItem(KEY, name); } catch { /* for this page alone */ }
}

export function startTheme(onchange) {
	apply(read());
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onchange);
}
