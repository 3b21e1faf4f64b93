#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page's size, everything that a browser loads, compressed as it is sent: 70 kB at most.
set -u
build=$(realpath "${BUILD:-build}")
[ -s "$build/gen/web/uPlot-LICENSE.txt" ] || {
	echo "bundle.sh: this build has no time chart, skipped"
	exit 77
}
bytes=$(cat "$build"/gen/web/{index.html,icon.svg,app.js,app.css,uPlot-LICENSE.txt}.gz | wc -c)
echo "$bytes bytes"
[ "$bytes" -gt 10000 ] && [ "$bytes" -le 70000 ]
