#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Polar Signals' own library of custom-labels, unmodified: two threads whose set is replaced all the
# time. Also as it was when it published version 0 of its ABI, whose one set is changed in place.
# Its source is github.com/polarsignals/custom-labels, or a clone of it in the directory
# CUSTOM_LABELS; what is built stays in build/others.
. "$(dirname "$0")/../record/lib.bash"
source=${CUSTOM_LABELS:-$build/others/custom-labels}
if [ ! -e "$source/src/customlabels.h" ]; then
	mkdir -p "$(dirname "$source")"
	git clone -q https://github.com/polarsignals/custom-labels "$source" 2>clone.err ||
		skip "custom-labels cannot be cloned: $(tail -1 clone.err)"
fi
ok "the library builds" make -s -C "$source"
cat >threads.h <<'END'
#include "src/customlabels.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static custom_labels_string_t text(const char *s)
{
	return (custom_labels_string_t){ strlen(s), (const unsigned char *)s };
}

static void *run(void *name);

int main(void)
{
	pthread_t t[2];
	pthread_create(&t[0], NULL, run, "one");
	pthread_create(&t[1], NULL, run, "two");
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	return 0;
}
END
cat >use.c <<'END'
#include "threads.h"

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *run(void *name)
{
	unsigned long n = (unsigned long)*(char *)name;
	char x[24], y[24];
	prctl(PR_SET_NAME, name);
	for (double end = now() + 3; now() < end;) {
		custom_labels_labelset_t *next = custom_labels_new(4);
		n = n * 1103515245 % 999983 + 1;
		snprintf(x, sizeof(x), "%lu", n);
		snprintf(y, sizeof(y), "%lu", n * 7919 % 1000003);
		custom_labels_set(next, text("tenant"), text(name), NULL);
		custom_labels_set(next, text("x"), text(x), NULL);
		custom_labels_set(next, text("y"), text(y), NULL);
		custom_labels_labelset_t *last = custom_labels_replace(next);
		if (last)
			custom_labels_free(last);
		for (volatile int i = 0; i < 300; i++)
			;
	}
	return NULL;
}
END
ok "a program that uses it builds" ${CC:-cc} -O2 -D_GNU_SOURCE -I. -I"$source" -o use use.c \
	-L"$source" -lcustomlabels \
	-Wl,-rpath,"$source" -lpthread
record -F 1999 -o use.data -- ./use
report use.data --by thread,tenant >threads.json
report use.data --by x,y --where '{x!="",y!=""}' >xy.json
check "version 1: each thread has its own labels" r=threads.json -- \
	'all(t in (None, k) for k, t in samples(r)) and all(samples(r)[k, k] > 100 for k in ("one", "two"))' 'samples(r)'
check "version 1: no sample with half of one set and half of another" r=xy.json -- \
	'r["samples"] > 200 and all(int(x) * 7919 % 1000003 == int(y) for x, y in samples(r))' 'r["samples"], len(r["rows"])'

mkdir -p v0/src
for f in Makefile src/customlabels.c src/customlabels.h; do
	git -C "$source" show "fce574d:$f" >v0/$f
done
ok "the library of version 0 builds" make -s -C v0
cat >use0.c <<'END'
#include "threads.h"

static void *run(void *name)
{
	struct timespec t;
	char round[24];
	prctl(PR_SET_NAME, name);
	custom_labels_set(text("tenant"), text(name));
	for (unsigned n = 0;; n++) {
		snprintf(round, sizeof(round), "%u", n % 10);
		custom_labels_set(text("round"), text(round));
		do {
			clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
			if (t.tv_sec >= 1)
				return NULL;
		} while ((unsigned)(t.tv_nsec / 10000000) <= n);
	}
}
END
ok "a program that uses it builds" ${CC:-cc} -O2 -D_GNU_SOURCE -I. -Iv0 -o use0 use0.c \
	-Lv0 -lcustomlabels -Wl,-rpath,"$PWD/v0" -lpthread
record -F 999 -o use0.data -- ./use0
report use0.data --by thread,tenant >threads0.json
report use0.data --by round --where '{thread="one"}' >rounds0.json
check "version 0: each thread has its own labels" r=threads0.json -- \
	'all(t in (None, k) for k, t in samples(r)) and all(samples(r)[k, k] > 500 for k in ("one", "two"))' 'samples(r)'
check "version 0: a tenth of the time each" r=rounds0.json -- \
	'all(50 < samples(r)[str(i)] < 150 for i in range(10))' 'samples(r)'
finish
