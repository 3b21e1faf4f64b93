#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A selection records what its processes do at their very end: children that only give up their
# memory, against the CPU time that the kernel charged them.
. "$(dirname "$0")/lib.bash"

record -F 1999 -o store -- "$loads/teardown" 128 150
cp record.out truth.json
parent=$(python3 -c 'import json; print(json.load(open("truth.json"))["tgid"])')
report store --where "{tgid!=\"$parent\"}" >children.json
check "the children's samples are their CPU time" r=children.json l=truth.json -- \
	'0.8 < r["seconds"] / l["seconds"] < 1.2' 'round(r["seconds"], 3), l["seconds"]'
"$ascribe" export store --format folded --where "{tgid!=\"$parent\"}" 2>/dev/null >folded
ok "most of it is exit_mmap" awk '
	{ n += $NF } /;exit_mmap_\[k\]/ { good += $NF }
	END { printf "%d of %d\n", good, n; exit !(n > 200 && good > 0.5 * n) }' folded
finish
