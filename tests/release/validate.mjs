// SPDX-License-Identifier: Apache-2.0
// validate.mjs FILE...: are they CycloneDX 1.5 in JSON, by its schema?
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const load = createRequire(`${process.env.MODULES}/`);
const { Spec, Validation } = load('@cyclonedx/cyclonedx-library');
const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot5);
for (const file of process.argv.slice(2)) {
	const wrong = await validator.validate(readFileSync(file, 'utf8'));
	if (wrong) {
		console.log(`${file}: ${JSON.stringify(wrong).slice(0, 400)}`);
		process.exitCode = 1;
	}
}
