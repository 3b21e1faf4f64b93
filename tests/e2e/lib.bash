# SPDX-License-Identifier: Apache-2.0
# What the tests in a browser share; sourced. Playwright is fetched once into build/npm/e2e; without
# it or a browser: 77.
set -u
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
name=$(basename "$0")
skip() {
	echo "$name: $*, skipped"
	exit 77
}
BUILD=$(realpath "${BUILD:-build}")
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	skip "no chromium"
command -v node >/dev/null || skip "no node"
E2E_MODULES=$here/../../build/npm/e2e/node_modules
if [ ! -f "$E2E_MODULES/.fetched" ] || [ "$here/package-lock.json" \
	-nt "$E2E_MODULES/.fetched" ]; then
	(cd "$here/../.." && CI= tools/fetch-npm tests/e2e build/npm/e2e playwright-core)
fi
[ -d "$E2E_MODULES/playwright-core" ] || skip "no playwright-core"
E2E_MODULES=$(realpath "$E2E_MODULES")
export BUILD BROWSER E2E_MODULES TZ=UTC HOME
# Stores of many windows wait for the disk with each: in memory, where there is such a place.
dir=$(TMPDIR=$([ -d /dev/shm ] && echo /dev/shm || echo /tmp) mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
