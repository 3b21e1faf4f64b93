// SPDX-License-Identifier: Apache-2.0
// mcp.mjs ASCRIBE TRUTH STORE...: ask `ascribe mcp` by the protocol's own client, which checks each
// answer against the protocol's schema.
import { readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';

const sdk = async (file) =>
	import(pathToFileURL(`${process.env.MCP_MODULES}/@modelcontextprotocol/sdk/dist/esm/${file}`));
const { Client } = await sdk('client/index.js');
const { StdioClientTransport } = await sdk('client/stdio.js');

const [ascribe, truthFile, ...stores] = process.argv.slice(2);
const truth = JSON.parse(readFileSync(truthFile, 'utf8'));
const connect = async (args) => {
	const client = new Client({ name: 'test', version: '1' });
	await client.connect(new StdioClientTransport({ command: ascribe, args }));
	return client;
};
const client = await connect(['mcp', ...stores]);
const ask = async (name, args) => {
	const r = await client.callTool({ name, arguments: args });
	assert.equal(r.content.length, 1);
	return { error: r.isError, text: r.content[0].text };
};
const good = async (name, args, pattern) => {
	const r = await ask(name, args);
	assert.equal(r.error, false, r.text);
	assert.match(r.text, pattern);
	return r.text;
};
const bad = async (name, args, pattern) => {
	const r = await ask(name, args);
	assert.equal(r.error, true, r.text);
	assert.match(r.text, pattern);
};

assert.equal(client.getServerVersion().name, 'ascribe');
await client.ping();
const { tools } = await client.listTools();
assert.deepEqual(tools.map((t) => t.name).sort(),
	['blame', 'diff', 'findings', 'labels', 'locks', 'report', 'stat', 'why']);
for (const t of tools) {
	assert.equal(t.annotations.readOnlyHint, true);
	assert.equal(t.inputSchema.additionalProperties, false);
}

// What is in the store.
const rows = await good('report', { by: ['tenant'], store: 1 }, /SAMPLES/);
for (const tenant of ['a', 'b'])
	assert.match(rows, new RegExp(`^ +${truth[tenant]} .* ${tenant}$`, 'm'));
await good('stat', { store: 1 }, new RegExp(`fired +${truth.fired}\n`));
await good('labels', { store: 1 }, /query_id/);
await good('why', { where: '{tenant="a"}', store: 1 }, /on a CPU/);
await good('findings', {}, /findings of/);
await good('diff', { where: 'tenant="a"', against: 'tenant="b"', store: 1, limit: 2 },
	/not shown: \d+ rows/);
// Both sides are the same: nothing differs.
await good('diff', { store: 2, against_store: 1, limit: 3 }, /0 of \d+ rows changed/);
await good('report', { by: ['host'], limit: 1 }, /SAMPLES/);
await good('report', { tree: true, limit: 5 }, /main/);
await good('report', { peek: 'main', store: 1 }, /main/);
await bad('blame', {}, /record with --wall/);
await bad('locks', { by: ['comm'] }, /record with --wall --waker/);

// Arguments.
await bad('report', { limit: 0 }, /limit: expected a whole number of 1 to 500/);
await bad('report', { limit: 1e12 }, /limit: expected/);
await bad('report', { limit: 1.5 }, /limit: expected/);
await bad('report', { by: 'tenant' }, /by: expected a list/);
await bad('report', { by: ['a,b'] }, /without commas/);
await bad('report', { by: Array(9).fill('a') }, /by: expected a list/);
await bad('report', { wher: 'x' }, /has no argument wher; it takes: by, where/);
await bad('report', { postgres: 'host=x' }, /no argument postgres/);
await bad('report', { clickhouse: 'https://x' }, /no argument clickhouse/);
await bad('report', { where: '{tenant' }, /--where: selector, column/);
await bad('report', { where: 'x'.repeat(5000) }, /where: expected a text of 1 to 4096 bytes/);
await bad('report', { where: '' }, /where: expected a text/);
await bad('report', { from: 'yesterdy' }, /--from/);
await bad('report', { metric: 'gold' }, /metric: expected one of cpu, off/);
await bad('report', { idle: 'yes' }, /idle: expected true or false/);
await bad('report', { store: 9 }, /store: there are the stores 1 \(/);
await bad('diff', { against_store: 3 }, /against_store: there are the stores/);
await bad('why', {}, /--where SELECTOR/);
await bad('why', { metric: 'cpu' }, /metric: expected one of heap/);
// What looks like an option or a path stays a value.
await bad('report', { by: ['--json'] }, /--json/);
await bad('report', { where: '--clickhouse=http://127.0.0.1:1' }, /--where: selector/);
await bad('report', { peek: '--json', store: 1 }, /--json/);
await assert.rejects(client.callTool({ name: 'record', arguments: {} }), /no tool record/);
await client.close();

// An agent that asks for everything.
const small = await connect(['mcp', ...stores, '--max-bytes', '2KiB']);
const everything = await small.callTool({ name: 'report', arguments: { tree: true, limit: 500 } });
const text = everything.content[0].text;
assert.match(text, /\n\[cut: the answer has more than 2048 bytes; ask for fewer rows/);
assert.ok(text.length < 2048 + 4096 + 300, `${text.length}`);
assert.equal(everything.isError, false);
await small.close();
console.log(`${tools.length} tools, answered by ascribe ${client.getServerVersion().version}`);
