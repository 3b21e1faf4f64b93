/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the page share: the servers, and how a test is told. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { launch, open, serve, settled } from '../lib.mjs';

export const truth = JSON.parse(readFileSync('truth.json'));
export const browser = await launch();
export const url = await serve('store'), wide = await serve('wide'), long = await serve('long'),
	names = await serve('names'), incident = await serve('incident');

/* Of those whose names have the first argument in them: name, function. */
const only = process.argv[2];
export const tests = [];
export const test = (name, f) => (!only || name.includes(only)) && tests.push([name, f]);

/* A test with a page that must not complain. */
export const onPage = (name, base, query, f, options) => test(name, async () => {
	const it = await open(browser, base + '/' + query, options);
	await settled(it.page);
	await f(it.page, it);
	assert.deepEqual(it.bad, []);
	await it.context.close();
});
