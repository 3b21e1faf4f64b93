#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names on the frames of programs that are not ours, against readelf; and the functions of one load
# against perf.
. "$(dirname "$0")/lib.bash"

# ---- a host at work: openssl, python3, gcc, the demo server, postgres where there is one ----
cat >work.py <<'PY'
import json, re, sys, time, zlib
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    text = json.dumps([{'n': i, 's': str(i) * 3} for i in range(2000)])
    json.loads(text)
    re.findall(r'"n": (\d+)', text)
    zlib.compress(text.encode())
PY
{
	echo '#include <stdio.h>'
	for i in $(seq 3000); do
		echo "int f$i(int x) { for (int i = 0; i < x; i++) x = x * $i + (i ^ $i) % 7; return printf(\"%d\", x); }"
	done
} >much.c
background "$ascribe" record -a -F 999 -d 7s -o host 2>host.err
recorder=$pid
recording host.err
commands=
if command -v openssl >/dev/null; then
	background openssl speed -seconds 2 -evp aes-128-cbc >/dev/null 2>&1
	commands="$commands openssl"
fi
if command -v python3 >/dev/null; then
	background python3 work.py 4
	commands="$commands python3"
fi
background sh -c 'for i in 1 2 3; do [ -e recorded ] || gcc -O1 -c much.c -o much.o; done'
compiler=$pid
commands="$commands cc1"
background "$build/demo" --seconds 4 >/dev/null
commands="$commands demo"
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -n "$pg" ] && id postgres >/dev/null 2>&1; then
	install -d -m 755 -o postgres pg && chmod 755 "$dir" && {
		setpriv --reuid=postgres --regid=postgres --clear-groups \
			sh -c "cd '$dir/pg' && $pg/initdb -D data -N >/dev/null 2>&1 &&
		echo 'select count(*) from generate_series(1, 4000000) a where a % 7 = 3; select md5(string_agg(a::text, chr(44)))
		from generate_series(1, 1000000) a;' | $pg/postgres --single -D data -k . postgres >/dev/null 2>&1"
	}
	commands="$commands postgres"
else
	echo "--    no postgres here: without it"
fi
wait "$recorder"
ok "recorded" test $? = 0
# A compiler that is still at work would find its directory gone at the end of the test.
touch recorded
wait "$compiler"
report host --by comm >comm.json
"$ascribe" flame host -n 100000000 --json 2>/dev/null >flame.json
raw=
if command -v go >/dev/null; then
	"$ascribe" export host --format pprof -o cpu.pb.gz 2>/dev/null
	go tool pprof -raw cpu.pb.gz >raw 2>/dev/null
	raw=raw
fi
for c in $commands; do
	check "$c was recorded" r=comm.json -- "sum(n for c, n in samples(r).items() if '$c' in c or '$c' == 'python3' and 'python' in c) > 20"
done
"$ascribe" stat host --json >stat.json
ok "frames are named" python3 "$here/names.py" flame.json stat.json $raw
cat ok.out
check "accounting" s=stat.json -- 'exact(s)'

# ---- the leaf functions of one process, by ascribe and by perf at the same time ----
# Four seconds of its own CPU time, however busy the host is.
background bash -c 'ulimit -t 4; exec "$1" deep 120 0' _ "$loads/busy" >/dev/null
load=$pid
sleep 0.2
background perf record -q -F 999 -e cpu-clock -p "$load" -o perf.data >/dev/null 2>&1
perf=$pid
record -F 999 -p "$load" -d 120s -o leaf
wait "$perf"
report leaf -n 0 >leaf.json
perf script -i perf.data -F ip,sym 2>/dev/null | awk 'NF { print $2 }' | sort | uniq -c |
	jq -R -n '[inputs | capture("(?<n>[0-9]+) (?<f>.*)") | {(.f): (.n | tonumber)}] | add' >perf.json
# Two samplings of one load: four standard deviations of the difference of two shares, and a point
# for the load itself.
check "the leaf functions are those of perf" r=leaf.json p=perf.json -- \
	'(lambda n, m: n > 200 and m > 200 and (lambda near: all(abs(sum(x["self"] for x in r["rows"] if x["function"] == f) / n -
	k / m) < near for f, k in p.items()) and all(abs(x["self"] / n - p.get(x["function"], 0) / m) < near for x in r["rows"]))
	(0.01 + 4 * (0.25 * (1 / n + 1 / m)) ** 0.5))(r["samples"], sum(p.values()))' \
	'[(x["function"], x["self"], p.get(x["function"])) for x in r["rows"][:4]]'
finish
