# SPDX-License-Identifier: Apache-2.0
# For tools/benchmarks; sourced. figure ID WHO VALUE...: who is "ascribe" or what stands beside it.
figure() { printf 'figure\t%s\t%s\t%s\n' "$1" "$2" "${*:3}"; }
