#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A store of format 2: commands read a converted copy and leave nothing behind, nobody appends to
# it, `store compact` and the daemon rewrite it.
. "$(dirname "$0")/lib.bash"
command -v python3 >/dev/null || skip "python3 is needed"
make_old() { python3 "$here/../tools/old_store.py" "$1" >/dev/null; }
make_old old || exit 1
mkdir tmp
export TMPDIR=$dir/tmp
unchanged() { (cd "$1" && find . -type f | sort | xargs sha256sum); }
unchanged old >before
left() { # until nothing is left of the copies
	for _ in $(seq 100); do
		[ -z "$(ls tmp)" ] && return
		sleep 0.1
	done
	ls tmp
	return 1
}

for command in "report old --by tenant --json" "stat old --json" "labels old" \
	"export old --format folded" "store info old" "top --store old --once" \
	"diff old --where {tenant=\"a\"} --against {tenant=\"b\"}"; do
	timeout 60 "$ascribe" $command >out 2>err </dev/null
	ok "$command" test $? = 0
	ok "$command: says so, and how to rewrite it" \
		grep -q 'old was written by an older version: .* `ascribe store compact old` rewrites it' err
	ok "$command: the copy is gone" test -z "$(ls tmp)"
done
fired=$("$ascribe" stat old --json 2>/dev/null | jq .fired)
ok "what the windows hold" test "$fired" -gt 100
"$ascribe" report old --by tenant --json --event cpu-clock >by.json 2>/dev/null
ok "samples by tenant" jq -e '[.rows[] | select(.key.tenant == "a").samples] == [68]' by.json
timeout 60 "$ascribe" report old 2>/dev/null | head -1 >/dev/null
ok "the copy is gone after a closed pipe" left
TMPDIR=$dir/not/there "$ascribe" report old >out 2>err
ok "no room for a copy is said" test $? = 1 -a "$(grep -c 'TMPDIR' err)" = 1

serve log "$ascribe" serve old -l 127.0.0.1:0 --anonymous
gets 200 tenant "$url/api/v1/labels"
kill -9 "$pid"
wait "$pid" 2>/dev/null
ok "the copy is gone after SIGKILL" left

for verb in verify repair; do
	"$ascribe" store $verb old >out 2>err
	ok "$verb refuses it" test $? = 1 -a "$(grep -c 'rewrite the store with `ascribe store compact`' err)" = 1
done
ok "nothing of the store has changed" cmp before <(unchanged old)

cp -r old compacted
"$ascribe" report old -n 0 --json 2>/dev/null | jq -S 'del(.blocks)' >want
ok "store compact rewrites it" "$ascribe" store compact compacted
ok "and says how many bytes it wrote" test "$(sed -n 's/^compacted: \([0-9]*\) bytes written$/\1/p' ok.out)" -gt 1000
ok "the old one is gone" sh -c '! ls -d compacted.* compacted/sym compacted/lab compacted/rewriting compacted/MANIFEST.2 2>/dev/null'
ok "the new one is whole" "$ascribe" store verify compacted
ok "with parents" grep -q 'level 5m ' <("$ascribe" store info compacted)
ok "the same rows" cmp want <("$ascribe" report compacted -n 0 --json | jq -S 'del(.blocks)')
ok "and again, as any other" "$ascribe" store compact compacted

if [ "$(id -u)" = 0 ] && mkdir mounted && mount -t tmpfs none mounted 2>/dev/null; then
	cp -r old/. mounted
	ok "a mount point is rewritten, too" "$ascribe" store compact mounted
	ok "with the same rows" cmp want <("$ascribe" report mounted -n 0 --json |
		jq -S 'del(.blocks)')
	umount mounted
fi

needs_recording
"$ascribe" record --append -d 1s -o old >out 2>err
ok "record does not append to it" test $? = 1 -a "$(grep -c 'rewrite the store with `ascribe store compact`' err)" = 1
ok "nor changes it" cmp before <(unchanged old)
serve log2 "$ascribe" daemon -s old -l 127.0.0.1:0 --anonymous
ok "the daemon says that it rewrites it" grep -q 'old was written by an older version: rewriting it' log2
ok "with what could not be carried over" grep -q '57 samples had lost their labels in the old store' log2
sleep 2
kill -TERM "$pid"
wait "$pid"
ok "it goes on with the store" test $? = 0
ok "which is whole" "$ascribe" store verify old
ok "and has both" jq -e ".fired > $fired" <("$ascribe" stat old --json)
finish
