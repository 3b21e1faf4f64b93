# SPDX-License-Identifier: Apache-2.0
# What the tests of packages share; sourced, not run.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.bash"
root=$(realpath "$here/../..")
relative=$(realpath --relative-to="$root" "$build")
command -v dh_gencontrol >/dev/null || skip "no debhelper"
run_make() { make -C "$root" --no-print-directory -s BUILD="$relative" "$@"; }
same() { cmp "$1" "$2" || { diffoscope --max-report-size 4000 "$1" "$2" 2>&1 | head -40; false; }; }
