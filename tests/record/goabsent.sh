#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Go: a label whose text is not resident does not take the others with it, and is read in the end.
. "$(dirname "$0")/lib.bash"
command -v go >/dev/null || skip "no go here"
export GOCACHE=$build/gocache GOFLAGS=-mod=mod
go build -o goabsent "$here/goabsent.go" || exit 1
echo there >text
record -F 499 -o labels -- ./goabsent text 1.5
report labels --by near,far --where '{comm="goabsent"}' >far.json
"$ascribe" stat labels --json >stat.json 2>/dev/null
# What begins before the labels are set has none, nor has the thread that collects garbage.
check "every label of the set is there" r=far.json s=stat.json -- \
	'samples(r).get(("here", "there"), 0) > 0.8 * sum(samples(r).values()) > 40 and set(samples(r)) <= {("here", "there"), (None, None)} and
	not s["flagged"]["go_fault"]' 'samples(r), s["flagged"]["go_fault"]'
finish
