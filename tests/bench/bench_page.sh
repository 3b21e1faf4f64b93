#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page's figures, in Chromium without a GPU. They are the time from the address to everything
# drawn, over a day of windows, and the size of what is loaded. Also frames while a graph of 100,000
# nodes is zoomed and panned. BUILD; N: page loads (default 15); DAY: a store that bench/serve_store
# made before.
. "$(dirname "$0")/../e2e/lib.bash"
printf 'figure\tpart/page\tascribe\t%s\n' \
	"$(BUILD=$BUILD bash "$here/bundle.sh" | awk '/bytes/ { print $1 / 1000 }')"
if [ -n "${DAY:-}" ]; then
	ln -s "$DAY" day
else
	"$BUILD/bench/serve_store" day >/dev/null || exit 1
fi
node "$here/../bench/bench_page.mjs"
