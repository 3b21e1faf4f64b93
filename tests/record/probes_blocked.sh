#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A probe in a program that lies on a filesystem which never answers the profiler (blocking.c): the
# recorder says so in time, and hangs in no request, nor when it closes the file.
. "$(dirname "$0")/lib.bash"
mnt=$dir/mnt
[ -e /dev/fuse ] || skip "there is no /dev/fuse"
command -v fusermount3 >/dev/null || skip "needs fuse3"
let_go() { fuse_let_go "$mnt"; }
at_end=let_go
chmod 755 "$dir"
mkdir "$mnt" files
cp "$loads/blocking" blocking
cp "$loads/probed" files/prog
# What is slow here is so by intent: a server that gets no CPU in half a second is one that does not
# answer.
background nice -n -20 ./blocking serve "$mnt" "$dir/files" "$dir/kept"
for _ in $(seq 100); do
	mountpoint -q "$mnt" && break
	sleep 0.05
done
ok "others see the files" cmp "$mnt/open/prog" files/prog

for kind in lookup getattr open read flush; do
	begin=$(date +%s%N)
	exits 1 'its filesystem does not answer' timeout -s KILL 30 "$ascribe" record -d 1s -o x \
		-e "uprobe:$mnt/$kind/prog:hit"
	took=$((($(date +%s%N) - begin) / 1000000))
	ok "$kind: in time: $took ms" test $took -lt 15000
done
ok "none of the five kinds was answered: $(sort -u kept | xargs)" \
	test "$(sort -u kept | xargs)" = "flush getattr lookup open read"

# One that answers, though each file is read as a copy: at "later" the first opens of a file.
record -o st -e "uprobe:$mnt/later/prog:hit" -- sh -c "exec $mnt/later/prog 2 300 1000"
ok "a file on such a filesystem that answers" test "$(report st | jq .samples)" = 901
finish
