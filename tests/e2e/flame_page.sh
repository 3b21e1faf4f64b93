#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page that `ascribe flame` writes, in a real browser: tests/e2e/flame.mjs.
. "$(dirname "$0")/lib.bash"
"$BUILD/tests/mkstore" store >truth.json && "$BUILD/ascribe" flame store -o page.html 2>/dev/null &&
	"$BUILD/ascribe" report store --json >report.json 2>/dev/null || exit 1
timeout 300 node "$here/flame.mjs"
