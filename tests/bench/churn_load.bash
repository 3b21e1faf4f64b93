# SPDX-License-Identifier: Apache-2.0
# Compilers, interpreters and short processes; sourced.

# start_load DIRECTORY: two loops in it, as process groups in $loads, until they are killed.
start_load() {
cat >"$1/a.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int work(int *v, size_t n) { qsort(v, n, sizeof(*v), compare); return printf("%d\n", v[n / 2]); }
EOF
cat >"$1/b.cpp" <<'EOF'
#include <algorithm>
#include <map>
#include <string>
#include <vector>
std::string work(std::vector<std::string> v)
{
	std::map<std::string, int> n;
	for (auto &s : v)
		n[s]++;
	std::sort(v.begin(), v.end());
	return n.begin()->first;
}
EOF
	set -m
	(cd "$1" && while :; do
		gcc -O2 -c -o a.o a.c
		g++ -O1 -c -o b.o b.cpp
	done) >/dev/null 2>&1 &
	loads+=($!)
	(cd "$1" && while :; do
		python3 -c 'import json'
		perl -e '$x = 1'
		for _ in 1 2 3 4 5 6 7 8; do
			sh -c 'ls >list; sed -n 1p list; true'
		done
	done) >/dev/null 2>&1 &
	loads+=($!)
	set +m
}
