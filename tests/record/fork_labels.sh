#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Labels of children that call no exec and live for 5 ms: theirs from the fork on, against their own
# clocks, and never those of another. Our labels, custom-labels, and CPython's with its frames. What
# children allocate at once, against what they counted.
. "$(dirname "$0")/lib.bash"
load=$loads/family
cc=${CC:-cc}
flags="-O2 -g -D_GNU_SOURCE -fno-omit-frame-pointer -I$source_root/include"
children=$(in_part 100 400)

ok "programs and libraries build" sh -ec "
	$cc $flags -DCUSTOM -o family $here/family.c
	$cc $flags -DLIBRARY -fPIC -shared -o library.so $here/family.c
	$cc $flags -DLIBRARY -Dcustom_labels_abi_version=other -Dcustom_labels_current_set=others \
		-fPIC -shared -o other.so $here/family.c"

# Record children whose threads are called as their labels are: recorded NAME PROGRAM...; what they
# counted is truth.json, their samples with their own label, an inherited one or none shares.json.
recorded() {
	ok "$1: recorded" record -F 1999 -o "$1" -- "${@:2}"
	cp record.out truth.json
	report "$1" --by thread,job -n 0 >jobs.json
	jq '[.rows[] | select(.key.thread // "" | test("^(job|late)"))] |
		def samples(f): map(select(f) | .samples) | add // 0;
		{all: samples(true), own: samples(.key.thread == .key.job),
		 seconds: (map(select(.key.thread == .key.job) | .seconds) | add),
		 inherited: samples(.key.job == "parent" or .key.job == "thread"),
		 none: samples(.key.job == null)}' jobs.json >shares.json
	"$ascribe" stat "$1" --json >stat.json
	check "$1: no label of another, no set that cannot be read" s=shares.json stat=stat.json -- \
		's["all"] > 100 and s["own"] + s["inherited"] + s["none"] == s["all"] and
		stat["flagged"]["label_unknown"] < 0.02 * s["all"]' 's, stat["flagged"]["label_unknown"]'
}

# By the children's clocks. They have the inherited label before, and none while they exit.
labelled() {
	recorded "$@"
	check "$1: labelled from the fork on, within a tenth" s=shares.json truth=truth.json -- \
		'0.9 < s["seconds"] * 1e9 / sum(truth.values()) < 1.1 and s["inherited"] < 0.05 * s["all"]' \
		's["seconds"] * 1e9 / sum(truth.values())'
}

for mode in main thread grand orphan; do
	labelled $mode "$load" $mode "$children" 5
done
labelled custom ./family main "$children" 5
labelled custom-orphan ./family orphan "$children" 5

# Another image that has adopted them is no ancestor, and what a parent loads later is not theirs.
recorded alien "$load" alien "$children" 5
recorded late ./family late "$children" 5 ./library.so ./other.so
check "late: the parent has its library's label, no child has one" r=jobs.json s=shares.json -- \
	'samples(r)["family", "library"] > 300 and s["none"] == s["all"]' 'samples(r)'

# ---- CPython, where its frames are read, too ----
cat >family.py <<'PY'
import json, mmap, os, struct, sys, time
import ascribe

room = mmap.mmap(-1, 4096)


def worker(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        pass


ascribe.set('job', 'parent')
worker(400)
for i in range(int(sys.argv[1])):
    name = 'job%d' % (i % 8)
    if not os.fork():
        with open('/proc/self/comm', 'w') as f:
            f.write(name)
        ascribe.set('job', name)
        begin = time.thread_time_ns()
        worker(int(sys.argv[2]))
        total = struct.unpack_from('Q', room, 8 * (i % 8))[0]
        struct.pack_into('Q', room, 8 * (i % 8), total + time.thread_time_ns() - begin)
        os._exit(0)
    os.wait()
print(json.dumps({'job%d' % i: struct.unpack_from('Q', room, 8 * i)[0] for i in range(8)}))
PY
python=$(python3 -c 'import sys; print(sys.executable)')
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	export PYTHONPATH=$source_root/lib/label/python ASCRIBE_LABEL_LIB=$build/libascribe-label.so
	labelled python "$python" family.py "$children" 5
	"$ascribe" export python --format folded --where '{job=~"job.*"}' 2>/dev/null |
		awk '{ all += $NF } /;worker(;| )/ { named += $NF } END { print named / (all + !all) }' >named
	ok "python: its functions have names: $(cat named)" jq -e '. > 0.9' named
fi

# ---- a burst of allocations ----
ok "burst: recorded" record -o burst -e heap -- \
	env LD_PRELOAD="$build/libascribe-heap.so" "$load" burst 64 8
cp record.out truth.json
"$ascribe" report burst -m alloc_space --by job --json -n 0 2>/dev/null >jobs.json
# They have their parent's random numbers, so all have more than they counted, or all have less.
check "burst: each label's share of the bytes, within five standard deviations" \
	r=jobs.json truth=truth.json -- \
	'all(abs(samples(r).get(j, 0) / r["samples"] - 1 / 8) < 5 * (786432 / r["samples"] / 8) ** 0.5
	for j in truth) and 0.3 < r["samples"] / sum(truth.values()) < 2' \
	'{j: round(n / r["samples"], 3) for j, n in samples(r).items()}, r["samples"]'
check "burst: few bytes without a label" r=jobs.json -- \
	'samples(r).get(None, 0) < 0.05 * r["samples"]' 'samples(r).get(None, 0) / r["samples"]'
finish
