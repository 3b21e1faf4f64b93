/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of copied stores share. */
#ifndef TESTS_COPIED_H
#define TESTS_COPIED_H

#include "store/damage.h"
#include "unit/store_model.h"

#include "store/ops/copy.h"

#define T0 1700000000000000000ll
#define SECOND 1000000000ll
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

static inline void on_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx;
	if (f->kind != STORE_CUT)
		fail_msg("%s at %" PRIu64 ": %s", f->path, f->offset, f->text);
}

static inline void check_whole(const char *dir)
{
	struct err err = { 0 };
	if (store_verify(dir, on_finding, NULL, &err))
		fail_msg("%s", err.text);
}

static inline void assert_absent(const char *dir, const char *suffix)
{
	char path[100];
	snprintf(path, sizeof(path), "%s%s", dir, suffix);
	assert_int_not_equal(access(path, F_OK), 0);
}

#endif
