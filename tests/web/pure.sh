#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page's modules that need no browser: tests/web/pure.mjs.
command -v node >/dev/null || { echo "pure.sh: no node, skipped"; exit 77; }
exec node "$(dirname "$0")/pure.mjs"
