#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of real programs reach their root: long and short ones.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"

roots python3 0.98 python3 work.py 1
roots openssl 0.99 openssl speed -seconds 1 -evp aes-128-cbc
{
	echo '#include <stdio.h>'
	for i in $(seq 1000); do
		echo "int f$i(int x) { for (int i = 0; i < x; i++) x = x * $i + (i ^ $i) % 7; return printf(\"%d\", x); }"
	done
} >much.c
roots gcc 0.99 gcc -O2 -c much.c -o much.o

# ---- processes too new to have rules: from copies of their stacks ----
cat >storm.sh <<'SH'
for i in $(seq 30); do
	python3 -c 'import json, _ctypes'
	ls -l /usr/bin >/tmp/ascribe-storm.$$
	awk 'BEGIN { for (i = 0; i < 20000; i++) s += length(i "") }'
done
rm -f /tmp/ascribe-storm.$$
SH
roots "short lives" 0.95 bash storm.sh
check "short lives: accounting" s=stat.json -- 'exact(s)'
check "short lives: none by frame pointers alone" s=stat.json -- \
	's["flagged"]["copied"] > 15 and s["flagged"]["frame_pointers"] == 0' '{k: v for k, v in s["flagged"].items() if v}'
finish
