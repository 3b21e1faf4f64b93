/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for the page's scripts and those of the tests; `make lint` fetches eslint. */
const js = require('@eslint/js');
const globals = require('globals');

const rules = {
	'array-callback-return': 'error',
	'consistent-return': 'off', /* an early `return` without a value is used throughout */
	'eqeqeq': ['error', 'always', { null: 'ignore' }],
	'no-implicit-globals': 'error',
	'no-self-compare': 'error',
	'no-control-regex': 'off', /* foreign text is searched for control characters */
	'no-template-curly-in-string': 'error',
	'no-unreachable-loop': 'error',
	'no-unused-vars': ['error', { args: 'after-used', caughtErrors: 'none' }],
	'no-var': 'error',
	'prefer-const': ['error', { destructuring: 'all' }],
};

module.exports = [
	{ linterOptions: { reportUnusedDisableDirectives: 'error' } },
	{ ...js.configs.recommended, files: ['**/*.js', '**/*.mjs'] },
	{ files: ['web/*.js'], rules, languageOptions: { globals: globals.browser } },
	{
		files: ['lib/label/node/*.js', 'examples/node/*.js', 'tests/bench/truth/*.js'],
		rules,
		languageOptions: { sourceType: 'commonjs', globals: globals.node },
	},
	{ files: ['tests/**/*.mjs'], rules, languageOptions: { globals: { ...globals.node, ...globals.browser } } },
];
