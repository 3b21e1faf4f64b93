#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What docs/stability.md promises, against what older versions left (README.md): today's program
# reads their stores with the same sums, has each member of their answers, and reads the labels of a
# program that was compiled with their headers.
. "$(dirname "$0")/../lib.bash"
command -v python3 >/dev/null || skip "python3 is needed"
export PYTHONDONTWRITEBYTECODE=1
mkdir stores
tar -xJf "$here/stores.tar.xz" -C stores

# ---- stores: what the generators of then said of them ----
samples() { # store, tenant
	"$ascribe" report "$1" --by tenant --json 2>/dev/null |
		jq --argjson t "$2" '[.rows[] | select(.key.tenant == $t).samples] | add'
}
reads() { # store
	local want
	ok "$1: each sample is accounted for" \
		jq -e '[.fired, .stored, ([.lost[]] | add)] == [4038, 3985, 53]' \
		<("$ascribe" stat "$1" --json 2>/dev/null)
	for want in '"a" 879' '"b" 824' '"<script>alert(1)</script>" 542' 'null 166'; do
		ok "$1: samples of tenant ${want% *}" \
			test "$(samples "$1" "${want% *}")" = "${want##* }"
	done
	ok "$1: faults" jq -e '.samples == 255' \
		<("$ascribe" report "$1" --event page-faults --json 2>/dev/null)
	ok "$1: idle samples" jq -e '.idle == 1230' \
		<("$ascribe" report "$1" --idle --json 2>/dev/null)
}
for format in 2 3; do
	reads stores/format-$format
done
cp -r stores/format-2 rewritten
ok "format 2 is rewritten" "$ascribe" store compact rewritten
for store in stores/format-3 rewritten; do
	ok "$store is whole" "$ascribe" store verify "$store"
done
reads rewritten

# ---- labels: the layout, by the numbers that were published ----
cat >layout.c <<'C'
#include <ascribe/label.h>
#include <ascribe/label_thread.h>
#define AT(type, member, at) _Static_assert(offsetof(struct type, member) == (at), #member)
AT(ascribe_record_prefix, magic, 0);
AT(ascribe_record_prefix, abi, 4);
AT(ascribe_record_prefix, total_size, 6);
AT(ascribe_record_prefix, set_id, 8);
AT(ascribe_record_prefix, parent_id, 16);
AT(ascribe_record_prefix, reserved, 24);
AT(ascribe_record_header, trace_id, 0);
AT(ascribe_record_header, span_id, 16);
AT(ascribe_record_header, valid, 24);
AT(ascribe_record_header, trace_flags, 25);
AT(ascribe_record_header, attrs_size, 26);
AT(ascribe_key_table, magic, 0);
AT(ascribe_key_table, bytes, 4);
AT(ascribe_key_table, reserved, 8);
AT(ascribe_key_table, text, 16);
AT(ascribe_descriptor, magic, 0);
AT(ascribe_descriptor, abi, 4);
AT(ascribe_descriptor, size, 6);
AT(ascribe_descriptor, tp_offset, 8);
AT(ascribe_descriptor, key_table, 16);
_Static_assert(ASCRIBE_ABI_VERSION == 1 && ASCRIBE_RECORD_MAGIC == 0x4c435341 &&
	ASCRIBE_DESCRIPTOR_MAGIC == 0x44435341 && ASCRIBE_KEYS_MAGIC == 0x4b435341, "numbers");
_Static_assert(ASCRIBE_KEY_STRING == 0 && ASCRIBE_KEY_INT == 1 && ASCRIBE_NOTE_TYPE == 1, "types");
C
ok "the layout of ABI 1" "${CC:-cc}" -I"$here/../../include" -D_GNU_SOURCE -fsyntax-only layout.c
nm -D --defined-only "$build/libascribe-label.so" | awk '{ print $3 }' | sort >functions
ok "the library has all functions of then" test -z "$(comm -13 functions "$here/functions-1.txt")"

needs_recording
if [ "$(uname -m)" = x86_64 ]; then
	cp "$here/labelled-1" labelled
else
	"${CC:-cc}" -O2 -D_GNU_SOURCE -I"$here/../../include" -o labelled "$here/labelled.c"
fi
ok "a program of then is recorded" "$ascribe" record -q --wall --waker -F 499 -o stores/fresh -- \
	sh -c './labelled 2 >truth; sleep 0.3; cat /proc/stat | sort | tail -1 >/dev/null'
"$ascribe" report stores/fresh --by tenant,query_id --where '{comm="labelled"}' --json \
	>labels 2>/dev/null
# Four standard deviations, and the start of the program.
ok "its labels are read, in the shares that it says" jq -e --slurpfile truth truth '
	$truth[0] as $t | ($t | add) as $all | .samples as $n |
	[.rows[] | {key: ([.key.tenant // "none", .key.query_id // empty] | join(" ")), share}] |
	length == 3 and all(($t[.key] / $all) as $p |
		(.share - $p | fabs) <= 0.02 + 4 * ($p * (1 - $p) / $n | sqrt))' labels

# ---- answers ----
for answers in "$here"/answers-*.txt; do
	ok "answers as in ${answers##*/}" \
		python3 "$here/answers.py" compare "$ascribe" stores "$answers"
done
sed '0,/^\.rows\[\]\.samples/s//.rows[].vanished/' "$here/answers-0.1.0.txt" >more.txt
python3 "$here/answers.py" compare "$ascribe" stores more.txt >more.out
ok "a member that is gone is noticed" grep -q '\.vanished is gone' more.out
finish
