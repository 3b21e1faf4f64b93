#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files for speedscope, read by speedscope itself: tests/e2e/speedscope.mjs.
. "$(dirname "$0")/lib.bash"
[ -d "$E2E_MODULES/speedscope" ] || skip "no speedscope"
"$BUILD/tests/mkstore" store >truth.json &&
	"$BUILD/ascribe" export store --format speedscope --unit samples -o cpu.json 2>/dev/null &&
	"$BUILD/ascribe" report store -n 0 --json >report.json 2>/dev/null || exit 1
timeout 300 node "$here/speedscope.mjs"
