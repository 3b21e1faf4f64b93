#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose memory, files, roots and maps lie on a filesystem that never answers the profiler
# (blocking.c), beside one that behaves. The recording ends in time, loses nothing, has the other's
# labels and names, and counts what did not answer.
. "$(dirname "$0")/lib.bash"
load=$loads/labelled
mnt=$dir/mnt
user=47110
seconds=40 # at most
[ -e /dev/fuse ] || skip "there is no /dev/fuse"
command -v fusermount3 >/dev/null || skip "needs fuse3"

let_go() { fuse_let_go "$mnt"; }
at_end=let_go
chmod 755 "$dir"
mkdir "$mnt" files linked

# ---- what it has ----
cp "$loads/blocking" blocking
strip -s -o linked/prog blocking && objcopy --only-keep-debug blocking files/prog.debug &&
	objcopy --remove-section=.note.gnu.build-id \
		--add-gnu-debuglink=files/prog.debug linked/prog ||
	bad "a program with a debug link"
# Without a build id, by which it would be known; its section headers lie where the program itself
# has nothing read.
head -c 1M /dev/urandom >pad
objcopy --remove-section=.note.gnu.build-id --add-section .pad=pad blocking files/prog ||
	bad "a program without a build id"
cp /bin/busybox files/
printf '1000 100 not_answered\n' >files/map
head -c 4096 /dev/zero >files/jit-1.dump
ln -s "$mnt/open/prog.debug" linked/prog.debug
cp linked/prog files/linked # its debug link is looked up beside it
setarch -R ./blocking page files/page || bad "the page of the descriptor"
# Libraries whose debug link leads to a file of 64 MiB, which has to be read in whole to know that
# it is another one's.
echo 'void work(void) { for (volatile int i = 0; i < 1000000; i++); }' >lib.c
${CC:-cc} -g -O1 -shared -fPIC -Wl,--build-id=none -o x.debug lib.c &&
	objcopy --strip-all --add-gnu-debuglink=x.debug x.debug lib.so ||
	bad "a library with a debug link"
for i in $(seq 24); do
	mkdir "lib$i" && cp lib.so "lib$i/" && cp x.debug "lib$i/" &&
		truncate -s 64M "lib$i/x.debug"
done
background "$loads/blocking" serve "$mnt" "$dir/files" "$dir/kept"
for _ in $(seq 100); do
	mountpoint -q "$mnt" && break
	sleep 0.05
done
ok "others see the files" cmp "$mnt/open/prog" files/prog

# ---- all at once ----
printf 'recipe titles\ntitle "labelled (?<how>share)"\n' >titles.recipe
background "$load" share 8 >before.json
background timeout -s KILL 60 "$ascribe" record -a -F 99 -d $seconds --recipes titles.recipe -o st \
	2>err
recorder=$pid
recording err
# As a user of its own, of whom nothing was heard before.
attackers=()
attack() {
	user=$((user + 1))
	background nice -n 10 "$@" >/dev/null 2>&1
	attackers+=("$pid")
}
as_user() { attack setpriv --reuid=$user --regid=$user --clear-groups "$@"; }
as_user setarch -R ./blocking descriptor "$mnt/read/page" $seconds
for kind in open read flush getattr later lookup; do
	as_user "$mnt/$kind/prog" spin $seconds
done
as_user sh -c "cd '$mnt/lookup' && exec '$dir/blocking' spin $seconds"
attack chroot --userspec=$user:$user "$mnt/lookup" /busybox timeout $seconds /busybox yes
attack unshare -m sh -c "f=/tmp/perf-\$\$.map; >\$f; trap 'rm -f '\$f EXIT; mount --bind '$mnt/open/map' \$f; exec setpriv --reuid=$user --regid=$user --clear-groups '$dir/blocking' jit $seconds"
as_user ./blocking jit $seconds "$mnt/open/jit-1.dump"
as_user ./linked/prog spin $seconds
as_user "$mnt/lookup/linked" spin $seconds
as_user ./blocking libraries $seconds lib*/lib.so
# These two only stand still: they can be read.
as_user ./blocking traced 1
as_user ./blocking spin $seconds
stopped=$pid
sleep 1
kill -STOP "$stopped"
"$load" share 3 >after.json
# A process is asked when it is sampled: on a busy host that may take some seconds.
asked() { [ "$(grep -oE 'open|read|flush|getattr|lookup' kept | sort -u | wc -l)" = 5 ]; }
for _ in $(seq 300); do
	asked && break
	sleep 0.1
done
sleep 1
begin=$(date +%s%N)
kill -INT "$recorder"
wait "$recorder"
status=$?
took=$((($(date +%s%N) - begin) / 1000000))
ok "the recording ends" test $status = 0
ok "in time: $took ms" test $took -lt 8000
kill -9 "${attackers[@]}" 2>/dev/null
let_go
wait "${attackers[@]}" 2>/dev/null
"$ascribe" stat st --json >stat.json 2>/dev/null
report st --by tenant --where '{comm="labelled",tenant!=""}' >tenants.json
report st --where '{comm="labelled"}' >names.json
ok "none of the five kinds was answered: $(sort -u kept | xargs)" asked
# By shares: how much of the CPUs it gets depends on the host.
check "labels of the one that behaves" r=tenants.json n=names.json -- \
	'set(samples(r)) == {"a", "b"} and r["samples"] > 0.5 * n["samples"] > 5' 'samples(r), n["samples"]'
# Samples of before its file was parsed are without names after 2 s: on a busy host that are some.
check "its names" r=names.json -- \
	'[x["function"] for x in r["rows"]][0] == "burn" and r["rows"][0]["samples"] > 0.7 * r["samples"]' \
	'[(x["function"], x["samples"]) for x in r["rows"]][:3], r["samples"]'
check "what did not answer is counted" s=stat.json -- 's["flagged"]["unanswered"] > 5' \
	's["flagged"]["unanswered"], s["stored"]'
check "nothing is lost" s=stat.json -- \
	'exact(s) and sum(n for k, n in s["lost"].items() if k not in ("idle_not_run", "not_run")) == 0' 's["lost"]'
report st --by how --where '{comm="labelled"}' >titles.json
# Its definition is read by the same reader, which the others keep busy: the first samples lack it.
check "its title, and no other" r=titles.json -- \
	'set(samples(r)) <= {"share", None} and samples(r).get("share", 0) > 0.5 * r["samples"]' \
	'samples(r)'
check "who did not answer has a name" s=stat.json -- \
	'len(s["own"]["unanswered"]) >= 4 and all(x["process"][-1] == "]" and x["requests"] for x in s["own"]["unanswered"])' \
	's["own"]["unanswered"], s["own"]["unanswered_others"]'
check "who stands still is not among them" s=stat.json -- "not any(\"[$stopped]\" in x[\"process\"] for x in s[\"own\"][\"unanswered\"])" \
	's["own"]["unanswered"]'
check "no drain waits for it" s=stat.json -- 's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] < 3e8' \
	's["own"]["metrics"]["ascribe_drain_seconds"]["quantiles"]["1"] / 1e9'
check "names that there was no time for are counted" s=stat.json \
	-- 's["flagged"]["names_late"] > 0' 's["flagged"]["names_late"]'
ok "it says so" grep -q 'reads of their memory or files did not answer in time' err
finish
