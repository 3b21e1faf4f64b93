#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stores made of others by the commands: a copy of a live store, several in one, samples removed for
# good.
. "$(dirname "$0")/lib.bash"

cat >lib.py <<'PY'
import json, subprocess
def run(*args):
    return json.loads(subprocess.run(['./ascribe', *args, '--json'], capture_output=True, check=True).stdout)
def by(store, key, *more):
    return {r['key'].get(key): r['samples'] for r in run('report', store, '--by', key, '-n', '0', *more)['rows']}
PY

# ---- one segment, as it is shipped to another host ----
mkdir -p shipped/seg
cp store/HEADER shipped && cp store/seg/10s-* shipped/seg
# shellcheck disable=SC2016 # the message has them
exits 1 'MANIFEST is missing: the store is damaged; `ascribe store verify` lists' \
	"$ascribe" report shipped
exits 0 '' "$ascribe" store repair shipped
ok "a file with its HEADER is a store" "$ascribe" store verify shipped
ok "which answers as the whole store does, also beside it" python3 -c '
from lib import by, run
assert by("shipped", "comm") == by("store", "comm")
assert run("report", "shipped", "store")["samples"] == 2 * run("report", "store")["samples"]'

# ---- snapshot ----
exits 0 '' "$ascribe" store snapshot store -o copy
ok "it says what it did" grep -q 'copy: [0-9]* windows; [0-9]* files linked, [0-9]* copied' out
ok "the copy is whole" "$ascribe" store verify copy
"$ascribe" report store --json >want.json
"$ascribe" report copy --json >got.json
ok "the copy answers as the store does" cmp want.json got.json
exits 1 'copy exists' "$ascribe" store snapshot store -o copy
exits 1 'there is no store' "$ascribe" store snapshot nowhere -o other
exits 2 'where to?' "$ascribe" store snapshot store
exits 2 'name one store' "$ascribe" store snapshot store copy -o other
exits 2 '--where, --from and --to are not for this' \
	"$ascribe" store snapshot store -o other --where '{comm="a"}'
exits 2 '--output is not for this' "$ascribe" store verify store -o other
mkdir half.tmp
exits 1 'half.tmp exists' "$ascribe" store snapshot store -o half
ok "nothing was removed" test -d half.tmp -a ! -e half
mkdir -p /dev/shm/ascribe-copy.$$ 2>/dev/null
if [ "$(stat -c %d /dev/shm/ascribe-copy.$$ 2>/dev/null)" != "$(stat -c %d .)" ]; then
	exits 0 '' "$ascribe" store snapshot store -o /dev/shm/ascribe-copy.$$/copy
	ok "to another file system nothing is linked" grep -q ' 0 files linked' out
	ok "and all is there" "$ascribe" store verify /dev/shm/ascribe-copy.$$/copy
fi
rm -rf /dev/shm/ascribe-copy.$$
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1; then
	cp -r store readable
	chmod -R a+rX readable
	mkdir others
	chmod 777 others
	exits 0 '' setpriv --reuid=nobody --regid=nogroup --clear-groups "$ascribe" store snapshot \
		"$dir/readable" -o "$dir/others/copy"
	ok "a copy by another user is whole" "$ascribe" store verify others/copy
fi
cat >live.py <<'PY'
import os, shutil, subprocess, sys
from lib import run
writer = subprocess.Popen([sys.argv[1], 'growing', 'grow'], stdout=subprocess.PIPE)
n = 0
while writer.poll() is None:
    if not os.path.exists('growing/HEADER') or not (before := run('stat', 'growing')['stored']):
        continue
    subprocess.run(['./ascribe', 'store', 'snapshot', 'growing', '-o', 'live'], check=True, capture_output=True)
    subprocess.run(['./ascribe', 'store', 'verify', 'live'], check=True, capture_output=True)
    assert run('stat', 'live')['stored'] >= before
    shutil.rmtree('live')
    n += 1
assert n and writer.wait() == 0, n
print(n, 'copies')
PY
ok "of a store that is written" python3 live.py "$build/tests/mkstore"

# ---- merge ----
exits 0 '' "$ascribe" store merge store store -o twice
ok "the merged store is whole" "$ascribe" store verify twice
cat >merge.py <<'PY'
from lib import run, by
one, two = run('stat', 'store'), run('stat', 'twice')
assert two['fired'] == 2 * one['fired'] and two['stored'] == 2 * one['stored']
assert {k: 2 * v for k, v in one['lost'].items()} == two['lost']
for key in 'comm', 'tenant':
    assert {k: 2 * v for k, v in by('store', key).items()} == by('twice', key), key
hosts = by('twice', 'host')
assert len(hosts) == 1 and None not in hosts, hosts
PY
ok "sums are those of the sources" python3 merge.py
exits 1 'twice exists' "$ascribe" store merge store -o twice
exits 2 'where to?' "$ascribe" store merge store copy

# ---- delete ----
cp -r store pruned
exits 0 '' "$ascribe" store delete pruned --where '{tenant="a"}'
ok "it says how many samples and windows" grep -q 'pruned: [0-9]* samples deleted, of [0-9]* windows' out
ok "the rest is whole" "$ascribe" store verify pruned
cat >delete.py <<'PY'
from lib import run, by
old, new = run('stat', 'store'), run('stat', 'pruned')
a, b = by('store', 'tenant', '--idle'), by('pruned', 'tenant', '--idle')
gone = a.pop('a')
assert a == b and gone > 0, (a, b)
removed = new['lost']['deleted']
assert removed >= gone and new['fired'] == old['fired'] and new['stored'] == old['stored'] - removed
assert new['fired'] == new['stored'] + sum(new['lost'].values())
PY
ok "the samples are gone, and counted" python3 delete.py
mkdir -p pruned/frozen/20260101T000000Z
exits 1 'frozen has stores' "$ascribe" store delete pruned --where '{tenant="b"}'
rmdir pruned/frozen/20260101T000000Z
find pruned -type f -exec cksum {} + | sort >before
exits 1 'nothing in pruned matches' "$ascribe" store delete pruned --where '{tenant="a"}'
mkdir pruned.tmp # the new store would be made here
exits 1 'nothing in pruned matches' "$ascribe" store delete pruned --where '{tenant="a"}'
exits 1 'nothing in pruned matches' "$ascribe" store delete pruned --where '{event="no-such-event"}'
exits 1 'pruned.tmp' "$ascribe" store delete pruned --where '{tenant="b"}'
rmdir pruned.tmp
# What a killed command left is removed, unless another one is at it.
mkdir left.tmp left.tmp/seg
printf 'in the making\n' >left.tmp/lock
exec 9<left.tmp
flock 9
exits 1 'left.tmp exists' "$ascribe" store snapshot store -o left
exec 9<&-
exits 0 '' "$ascribe" store snapshot store -o left
ok "and the next try has made the store" sh -c "'$ascribe' store verify left && [ ! -e left.tmp ] && [ ! -s left/lock ]"
rm -r left
find pruned -type f -exec cksum {} + | sort >after
ok "then nothing is changed" cmp before after
ok "nothing is left beside it" test ! -e pruned.tmp
exits 2 'which samples?' "$ascribe" store delete pruned
exits 2 '--where' "$ascribe" store delete pruned --where '{tenant='
exits 2 '`wait` is no label' "$ascribe" store delete pruned --where '{wait="io"}'
exits 2 'must be before' "$ascribe" store delete pruned --where '{tenant="b"}' --from now-1h \
	--to now-2h
cp -r store pruned2
ln -s pruned2 linked
exits 0 '' "$ascribe" store delete linked --where '{event="page-faults"}'
ok "a link to the store stays one" test -L linked -a ! -e linked.tmp -a ! -e pruned2.tmp
ok "no other event lost samples" python3 -c "from lib import by; assert by('store', 'comm') == by('pruned2', 'comm')"
ok "and those are gone" python3 -c "from lib import run; assert run('stat', 'pruned2')['lost']['deleted'] > 0"

# ---- stores of different rates in one ----
"$ascribe" export store -f folded >stacks.txt 2>/dev/null
"$ascribe" import folded stacks.txt -o slow --rate 99 2>err
"$ascribe" import folded stacks.txt -o fast --rate 499 2>err
exits 0 '' "$ascribe" store merge slow fast -o rates
ok "the merged store is whole" "$ascribe" store verify rates
cat >rates.py <<'PY' # samples are counted in one of the two rates: to one sample
from lib import run
slow, fast, both = (run('report', name)['seconds'] for name in ('slow', 'fast', 'rates'))
assert abs(slow / fast - 499 / 99) < 1e-6 and abs(slow + fast - both) < 1 / 99, (slow, fast, both)
PY
ok "each sample counts the time of its own rate" python3 rates.py

# ---- a store on what cannot be written, or not be renamed ----
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	cat >mounts.sh <<-'SH'
		set -e
		mkdir mnt && mount -t tmpfs none mnt && mkdir mnt/up mnt/work mnt/low mnt/over
		cp -r store mnt/low/store
		mount -t overlay none mnt/over -o lowerdir=mnt/low,upperdir=mnt/up,workdir=mnt/work
		"$1" store compact mnt/over/store >compacted 2>&1
		"$1" report mnt/over/store --json >over.json
		! "$1" store delete mnt/over/store --where '{tenant="a"}' 2>over.err
		"$1" store verify mnt/over/store >over.out 2>&1
		umount mnt/over
		mount -o remount,ro mnt
		"$1" report mnt/low/store --json >ro.json
		"$1" store verify mnt/low/store >ro.out 2>&1
		"$1" store snapshot mnt/low/store -o of-ro >ro.out 2>&1
		! "$1" store compact mnt/low/store 2>ro.err
		umount mnt
		mount -t tmpfs none mnt && cp -r store/. mnt
		! "$1" store delete mnt --where '{tenant="a"}' 2>mount.err
		umount mnt
	SH
	ok "a store on an overlay, on a read-only disk, and as a mount point" unshare -m bash mounts.sh "$ascribe"
	ok "the overlay answers as the store does" cmp want.json over.json
	ok "the read-only disk, too" cmp want.json ro.json
	ok "a copy of it is whole" "$ascribe" store verify of-ro
	ok "each says what to do" sh -c "grep -q 'work on the copy' over.err && grep -q 'Read-only file system' ro.err && grep -q 'mount point.*below it' mount.err"
	ok "nothing is left beside it" sh -c '! ls -d mnt.tmp mnt/over/store.tmp 2>/dev/null'
else
	echo "--    mounts: this test needs root and a mount namespace of its own"
fi

# ---- files of two stores mixed, bytes in another order ----
"$build/tests/mkstore" stranger grow >/dev/null
cp -r store mixed
cp stranger/seg/10s-00000001.* mixed/seg/
exits 1 'belongs to another store' "$ascribe" report mixed
"$ascribe" store verify mixed >out 2>&1
ok "verify names the file" grep -q 'mixed/seg/10s-00000001.seg.*belongs to another store' out
cp -r store swapped
python3 - swapped/seg/*.seg <<'PY'
import sys
for path in sys.argv[1:]:
    with open(path, 'r+b') as f:
        head = f.read(4096)
        f.seek(0)
        f.write(b''.join(head[i:i + 8][::-1] for i in range(0, len(head), 8)))
PY
exits 1 'swapped/seg/' "$ascribe" report swapped
ok "not a sample of it is shown" test ! -s out
finish
