#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names from debuginfod: Debian's own server on loopback has the debug files of stripped programs.
# Whether it is asked is read in its log, or seen by a listener that counts connections. Servers
# that are dead, slow or lie cost their names and no time.
. "$(dirname "$0")/lib.bash"
for tool in gcc objcopy readelf debuginfod python3 ss jq; do
	command -v $tool >/dev/null || skip "no $tool here"
done
ldconfig -p | grep -q 'libdebuginfod\.so\.1' || skip "no libdebuginfod here"
chmod 755 "$dir"

# One function is in .dynsym, the other in .symtab alone, which goes. X makes different files of
# them.
cat >spin.c <<'C'
#include <stdlib.h>
#include <time.h>
static __attribute__((noinline)) double hidden_work(double x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 1.0000001 + i;
	return x + X;
}
__attribute__((noinline)) double exported_work(double x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 1.0000001 - i;
	return x - X;
}
int main(int c, char **v)
{
	double x = 0;
	(void)c;
	while (clock() < atoi(v[1]) * (CLOCKS_PER_SEC / 10))
		x += exported_work(hidden_work(x));
	return x == 42;
}
C
mkdir served
build_id() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }
program() { # name, number, where its debug file goes
	gcc -O1 -g -rdynamic -fno-omit-frame-pointer -DX="$2" -Wl,--build-id=sha1 -o "$1" spin.c
	objcopy --only-keep-debug "$1" "$3/$1.debug"
	strip "$1"
}
mkdir kept
program one 1 served && program unknown 2 kept && program liar 3 kept && program huge 4 kept &&
	program endless 5 kept && program junk 6 kept

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# Samples of a program in a function, and in code without a name.
samples() { jq --arg m "/$2" --arg f "$3" '[.rows[] | select((.module | endswith($m)) and (.function | test($f))) | .self] | add // 0' "$1"; }
recorded() { # store, options...
	record -F 499 -o "$@" || return
	"$ascribe" report "$1" --json -n 0 >"$1.json" 2>/dev/null
	cp record.err "$1.err"
}
named() { # store, program: nearly all of it
	local hidden exported bare
	hidden=$(samples "$1.json" "$2" '^hidden_work$') \
		exported=$(samples "$1.json" "$2" '^exported_work$') \
		bare=$(samples "$1.json" "$2" '\+0x')
	echo "hidden_work $hidden, exported_work $exported, without a name $bare"
	[ "$hidden" -gt 20 ] && [ "$exported" -gt 20 ] && [ $((2 * bare)) -lt "$hidden" ]
}
only_dynsym() { # store, program
	local hidden exported bare
	hidden=$(samples "$1.json" "$2" '^hidden_work$') \
		exported=$(samples "$1.json" "$2" '^exported_work$') \
		bare=$(samples "$1.json" "$2" '\+0x')
	echo "hidden_work $hidden, exported_work $exported, without a name $bare"
	[ "$hidden" = 0 ] && [ "$exported" -gt 20 ] && [ "$bare" -gt 20 ]
}

# ---- a server ----
port=$(free_port) url=http://127.0.0.1:$port cache=$dir/cache/deep
background env -u DEBUGINFOD_URLS debuginfod -vv -d :memory: -F -p "$port" served >server.log 2>&1
server=$pid
for _ in $(seq 200); do
	python3 -c "import urllib.request as u; u.urlopen('$url/buildid/$(build_id one)/debuginfo')" 2>/dev/null && break
	sleep 0.05
done
requests() { grep -c "UA:elfutils.*GET /buildid/$(build_id "$1")/debuginfo ${2:-}" server.log; }

DEBUGINFOD_URLS=$url recorded off -- ./one 2
ok "without the option, whatever the environment says: no names" only_dynsym off one
ok "and nobody was asked" test "$(requests one)" = 0
DEBUGINFOD_URLS="$url" recorded first --debuginfod env --debuginfod-cache "$cache" -- bash -c '
	./one 1
	for i in $(seq 200); do
		grep -q "UA:elfutils.*/$1/debuginfo 200" server.log && break
		sleep 0.05
	done
	./unknown 2
	./unknown 2
	./one 6' - "$(build_id one)"
ok "env: names come from the servers of DEBUGINFOD_URLS" named first one
ok "by one request" test "$(requests one 200)" = 1
ok "the last words say so" grep -q 'debuginfod: of [0-9]* build ids 1 debug files came' first.err
ok "a file that the server has not" only_dynsym first unknown
ok "is asked for once" test "$(requests unknown 404)" = 1
kill "$server"; wait "$server" 2>/dev/null
recorded again --debuginfod "$url" --debuginfod-cache "$cache" -- ./one 3
ok "without the server: from the cache" named again one
printf 'store: %s\nlisten: none\nfrequency: 499\ncpu-max: 0\ndebuginfod: [%s]\ndebuginfod-cache: %s\n' "$dir/daily" "$url" "$cache" >daemon.yaml
background "$ascribe" daemon -c daemon.yaml 2>daemon.err
daemon=$pid
recording daemon.err
./one 3
kill "$daemon"; wait "$daemon"
"$ascribe" report daily --json -n 0 >daily.json 2>/dev/null
ok "the daemon has them, too" named daily one
ok "the cache is ours alone" test "$(stat -c %a:%u "$cache")" = 700:0
ok "its files belong to a user that no account has, in a directory that it cannot reach by name" \
	test "$(stat -c %a:%u "$cache/files")" = 777:0 -a \
	"$(stat -c %a:%u "$cache/files/$(build_id one)")" = 700:4294836222
ok "a file of it" cmp served/one.debug "$cache/files/$(build_id one)/debuginfo"

# ---- servers that are dead ----
# It is given 90 s for a file. A recording that waited for it would be stopped here.
in_time() { # store, options...
	ASCRIBE=$ascribe timeout 30 bash -c '"$ASCRIBE" record -F 499 -o "$@" 2>record.err' - \
		"$@" || return
	"$ascribe" report "$1" --json -n 0 >"$1.json" 2>/dev/null
	cp record.err "$1.err"
}
cat >silent.py <<'PY'
import socket, sys
s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(16)
kept = []
while True:
    kept.append(s.accept())
    print("connection", flush=True)
PY
port=$(free_port)
background python3 silent.py "$port" >silent.log
for _ in $(seq 600); do ss -Hltn "sport = :$port" | grep -q . && break; sleep 0.05; done
ok "a server that never answers" in_time silent --debuginfod "http://127.0.0.1:$port" --debuginfod-cache "$dir/c1" -- ./one 2
ok "was asked" grep -q connection silent.log
ok "its programs keep what they have" only_dynsym silent one
ok "no drain was late" jq -e \
	'.lost.rows_full == 0 and .lost.stacks_full == 0 and .fired == .stored + ([.lost[]] | add) and .stored > 50' <("$ascribe" stat silent --json 2>/dev/null)
ok "what is not here is still waited for" grep -q ' [1-9][0-9]* are still waited for' silent.err
ok "a closed port" in_time closed --debuginfod "http://127.0.0.1:$(free_port)" --debuginfod-cache "$dir/c2" -- ./one 2
ok "its programs keep what they have" only_dynsym closed one
ok "and that is said" grep -q 'requests without an answer' closed.err
ASCRIBE_DEBUGINFOD_S=1 recorded slow --debuginfod "http://127.0.0.1:$port" --debuginfod-cache "$dir/c1" -- bash -c './one 2; sleep 1; ./liar 1'
ok "one that is too slow is left alone for a while" test "$(grep -c connection silent.log)" = 2
ok "and that is said" grep -q '1 requests without an answer' slow.err

# ---- servers that lie ----
cat >liar.py <<'PY'
import http.server, os, sys
ids = dict(zip(sys.argv[2:], ("junk", "huge", "endless", "other")))
class Liar(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_GET(self):
        how = ids.get(self.path.split("/")[2])
        print("asked for", how, flush=True)
        body = os.urandom(100000) if how == "junk" else open("served/one.debug", "rb").read()
        self.send_response(200 if how else 404)
        if how in ("junk", "other"):
            self.send_header("Content-Length", str(len(body)))
        elif how == "huge":
            self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        sent = 0
        try:
            while how in ("huge", "endless"):
                sent += self.wfile.write(b"\x7fELF" * 65536)
        except OSError:
            print("sent", how, sent, flush=True)
        if how in ("junk", "other"):
            self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Liar).serve_forever()
PY
port=$(free_port)
background python3 liar.py "$port" "$(build_id junk)" "$(build_id huge)" "$(build_id endless)" \
	"$(build_id liar)" >liar.log
for _ in $(seq 600); do ss -Hltn "sport = :$port" | grep -q . && break; sleep 0.05; done
ASCRIBE_DEBUGINFOD_MIB=8 recorded lies --debuginfod "http://127.0.0.1:$port" --debuginfod-cache "$dir/c3" -- \
	bash -c './junk 2 & ./huge 2 & ./endless 2 & ./liar 2; wait; sleep 0.5'
for p in junk huge endless liar; do
	ok "lies: $p keeps what it has" only_dynsym lies $p
done
ok "all four were asked for" test "$(sort -u liar.log | grep -cE '^asked for (junk|huge|endless|other)$')" = 4
ok "all four were refused" grep -q 'debuginfod: 4 files refused' lies.err
ok "no more than the limit was taken" awk '/^sent/ { n++; if ($3 > 24 * 1048576) bad = 1 } END { print n + 0 " broken off"; exit bad || n != 2 }' liar.log
ok "nothing of it stays in the cache" test \
	"$(find "$dir/c3/files" -mindepth 2 -type f -size +0 | wc -l)" = 0
ok "and no process" test "$(readlink /proc/[0-9]*/cwd 2>/dev/null | grep -c "^$dir/c")" = 0

# ---- bad use ----
exits 2 "is no server" "$ascribe" record --debuginfod ftp://x -d 1s -o x
exits 2 "DEBUGINFOD_URLS is not set" env -u DEBUGINFOD_URLS \
	"$ascribe" record --debuginfod env -d 1s -o x
mkdir owned && chown 65534 owned
exits 1 "belongs to somebody else" "$ascribe" record --debuginfod http://127.0.0.1:1 --debuginfod-cache "$dir/owned" -d 1s -o x
ln -s "$cache" link
exits 1 "cannot use .*link" "$ascribe" record --debuginfod http://127.0.0.1:1 --debuginfod-cache "$dir/link" -d 1s -o x
finish
