/* SPDX-License-Identifier: Apache-2.0 */
/* A table of pods, a clock, and short ways to fill and ask it. */
#ifndef TESTS_PODS_TABLE_H
#define TESTS_PODS_TABLE_H

#include "pods/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SECOND 1000000000ull

static struct pods_table *t;
static uint64_t now = 1000 * SECOND;

static inline int setup(void **state)
{
	(void)state;
	return pods_table_new(&t, PODS_TABLE_BYTES);
}

static inline int teardown(void **state)
{
	(void)state;
	pods_table_free(t);
	t = NULL;
	return 0;
}

static inline void id_of(char out[POD_ID_MAX], unsigned n)
{
	snprintf(out, POD_ID_MAX, "%064x", n + 0xabcdef);
}

static inline struct pod_record *record(enum pod_what what, const char *uid)
{
	static struct pod_record r;
	memset(&r, 0, sizeof(r));
	r.what = (uint8_t)what;
	if (uid)
		snprintf(r.uid, sizeof(r.uid), "%s", uid);
	return &r;
}

static inline void apply(struct pod_record *r)
{
	assert_true(pod_record_check(r, sizeof(*r)));
	pods_table_apply(t, r, now);
}

static inline bool find(int id, const char *uid, struct pods_names *ret)
{
	char text[POD_ID_MAX] = "";
	if (id >= 0)
		id_of(text, (unsigned)id);
	return pods_table_find(t, text, strlen(text), uid, uid ? strlen(uid) : 0, ret);
}

static inline struct pods_table_stats stats(void)
{
	struct pods_table_stats s;
	pods_table_stats(t, &s);
	return s;
}

#endif
