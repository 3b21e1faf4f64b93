/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the server. An answer that nobody waits for any more is given up; what is refused is
 * an Error with the server's words.
 */
export class Refused extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

const TOKEN = 'ascribe-token';
const stored = () => { try { return sessionStorage.getItem(TOKEN); } catch { return null; } };

export function setToken(token) {
	try { sessionStorage.setItem(TOKEN, token); } catch { /* kept by nobody */ }
}

/*
 * A token comes behind "#", which no browser sends to a server; it does not stay in the address
 * bar.
 */
export function takeToken() {
	const given = new URLSearchParams(location.hash.slice(1)).get('token');
	if (!given)
		return false;
	setToken(given);
	history.replaceState(history.state, '', location.pathname + location.search);
	return true;
}

export function address(path, params) {
	const q = new URLSearchParams();
	for (const [name, value] of Object.entries(params))
		if (value !== '' && value !== null && value !== undefined && value !== false)
			q.set(name, value === true ? '1' : value);
	const s = q.toString();
	return path + (s ? '?' + s : '');
}

async function refusal(r) {
	const body = await r.json().catch(() => ({}));
	return new Refused(r.status, body.message || `the server answered ${r.status}`);
}

const wait = ms => new Promise(go => setTimeout(go, ms));

export async function request(path, params, signal) {
	const token = stored(), headers = token ? { 'X-Ascribe-Token': token } : {};
	for (let turn = 0;; turn++) {
		const r = await fetch(address(path, params), { signal, headers }).catch(e => {
			throw e.name === 'AbortError' ? e : new Refused(0,
				'the server cannot be reached');
		});
		if (r.ok)
			return r;
		if (r.status !== 503 || turn === 3)
			throw await refusal(r);
		await wait(300 << turn); /* too many questions at a time */
	}
}

/* Save an answer as a file. A link would not carry the token. */
export async function download(at, name) {
	const url = URL.createObjectURL(await (await request(at, {})).blob()),
		a = document.createElement('a');
	a.href = url;
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export const hasToken = () => !!stored();

const answer = async (what, params, signal) => (await request('api/v1/' + what, params, signal))
	.json();

/*
 * What is asked before there is anything to show it in: whoever asks the same first takes that
 * answer.
 */
const early = new Map();

export function askEarly(what, params) {
	const got = answer(what, params);
	got.catch(() => {}); /* who takes it, hears of it */
	early.set(address(what, params), got);
}

export const noLonger = () => early.clear();

export function ask(what, params, signal) {
	const at = address(what, params), got = early.get(at);
	early.delete(at);
	return got || answer(what, params, signal);
}
