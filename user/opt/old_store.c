/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/old_store.h"

#include "opt/message.h"
#include "opt/temp_store.h"
#include "store/old/old.h"
#include "store/store.h"

#include <inttypes.h>

static void report(const struct store_conversion *c, void (*say)(const char *fmt, ...))
{
	if (c->torn[0])
		say("%s", c->torn);
	if (c->parents)
		say("%" PRIu64 " of %" PRIu64
		    " windows are longer ones, of whose time only sums were left",
		    c->parents, c->windows);
	if (c->replaced)
		say("%" PRIu64 " windows are part of those", c->replaced);
	if (c->unlabelled)
		say("%" PRIu64 " samples had lost their labels in the old store", c->unlabelled);
	if (c->without_wide)
		say("%" PRIu64
		    " windows had lost the labels of keys with many values in the old store",
		    c->without_wide);
}

static int make_copy(const char **dir, struct err *err)
{
	struct store_conversion done;
	const char *from = *dir;
	int rc = temp_store_new(dir, err);
	if (rc)
		return rc;
	cmd_say("%s was written by an older version: reading a converted copy in %s; `ascribe store "
		"compact %s` rewrites it",
		from, *dir, from);
	rc = store_convert(from, *dir, false, &done, err);
	if (!rc)
		report(&done, cmd_warn);
	return rc;
}

int old_store_rewrite(const char *dir, void (*say)(const char *fmt, ...), uint64_t *ret_bytes,
		      struct err *err)
{
	struct store_conversion done;
	*ret_bytes = 0;
	if (!store_is_old(dir)) {
		store_rewrite_clean(dir);
		return 0;
	}
	say("%s was written by an older version: rewriting it, which needs room for both", dir);
	int rc = store_rewrite(dir, &done, err);
	if (rc)
		return rc;
	report(&done, say);
	say("%s: %" PRIu64 " windows rewritten", dir, done.windows);
	*ret_bytes = done.bytes;
	return 0;
}

int old_store_copy(const char **dir, struct err *err)
{
	if (!store_is_old(*dir))
		return 0;
	return make_copy(dir, err);
}

int old_store_copies(const char **dirs, size_t n, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = old_store_copy(&dirs[i], err);
	return rc;
}
