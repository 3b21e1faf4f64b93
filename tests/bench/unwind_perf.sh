#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# unwind_perf.sh BUILD: stacks by rules against `perf record --call-graph dwarf`, from the same
# registers and stack bytes, on real programs. Those that are not installed are left out, and named.
set -u
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
dir=$(mktemp -d /tmp/ascribe-bench.XXXXXX)
chmod 755 "$dir"
started=()
at_exit() {
	for p in "${started[@]}"; do kill "$p" 2>/dev/null; done
	wait 2>/dev/null
	sleep 0.5
	rm -rf "$dir"
}
trap at_exit EXIT
cd "$dir" || exit 1
PATH=$PATH:/usr/sbin

judge() { # name: of NAME.data
	"$build/bench/unwind_replay" "$1.data" >"$1.ours" || echo "$1: cannot be replayed"
	perf script -i "$1.data" -F tid,time,ip --ns --no-inline >"$1.theirs" 2>/dev/null
	python3 "$here/unwind_perf.py" "$1" "$1.ours" "$1.theirs"
	rm -f "$1.data" "$1.ours" "$1.theirs"
}
perf_record() { # name, what perf is told...
	local name=$1
	shift
	perf record -q -F 149 -e cpu-clock --call-graph dwarf,65528 -o "$name.data" "$@" >perf.out \
		2>&1
	judge "$name"
}
have() {
	command -v "$1" >/dev/null || { echo "$1: not here"; return 1; }
}

cat >work.py <<'PY'
import json, re, time
def deep(n): return n if n < 2 else deep(n - 1) + deep(n - 2)
end = time.monotonic() + 5
while time.monotonic() < end:
    text = json.dumps([{'n': i, 's': str(i) * 3} for i in range(500)])
    json.loads(text)
    re.findall(r'"n": (\d+)', text)
    sorted(range(3000), key=lambda v: -v)
    deep(12)
PY
perf_record python3 -- python3 work.py

{
	echo '#include <stdio.h>'
	for i in $(seq 1500); do
		echo "int f$i(int x) { for (int i = 0; i < x; i++) x = x * $i + (i ^ $i) % 7; return printf(\"%d\", x); }"
	done
} >much.c
have gcc && perf_record gcc -- gcc -O2 -c much.c -o much.o
have openssl && perf_record openssl -- sh -c 'openssl speed -seconds 1 -bytes 1024 aes-128-cbc sha256 rsa2048 ecdsap256'

if have nginx && have curl; then
	mkdir -p www
	head -c 300000 "$build/ascribe" | base64 >www/file.txt
	cat >nginx.conf <<CONF
daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.log;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types text/plain; gzip_comp_level 4; default_type text/plain;
       client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f; uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
       server { listen 127.0.0.1:18473; root $dir/www; } }
CONF
	nginx -c "$dir/nginx.conf" -e "$dir/nginx.log" &
	started+=($!)
	sleep 1
	worker=$(pgrep -P "$!" | head -1)
	(while :; do curl -s --compressed http://127.0.0.1:18473/file.txt >answer || sleep 0.1; done) &
	started+=($!)
	perf_record nginx -p "$worker" -- sleep 5
	kill "${started[@]}"
	wait "${started[@]}" 2>/dev/null
	started=()
fi

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -n "$bin" ] && id postgres >/dev/null 2>&1; then
	mkdir db
	chown postgres db
	as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
	as "$bin/initdb" -A trust -D "$dir/db" >initdb.out 2>&1
	as "$bin/pg_ctl" -D "$dir/db" -o "-k $dir/db -c listen_addresses=" -l "$dir/db/log" \
		-w start >pg.log 2>&1
	started+=("$(head -1 db/postmaster.pid)")
	as "$bin/pgbench" -h "$dir/db" -i -s 2 postgres >pgbench.out 2>&1
	setpriv --reuid postgres --regid postgres --init-groups "$bin/pgbench" -h "$dir/db" -T 7 \
		-c 2 -S postgres >pgbench.out 2>&1 &
	bench=$!
	sleep 1
	backend=$(pgrep -P "${started[0]}" -f '^postgres: postgres postgres' | head -1)
	perf_record postgres -p "$backend" -- sleep 5
	wait "$bench" 2>/dev/null
else
	echo "postgres: not here"
fi
