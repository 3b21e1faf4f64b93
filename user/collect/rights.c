/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/rights.h"

#include "sandbox/confine.h"
#include "util/own.h"

static keeper_op *const ops[] = { COLLECTOR_OPS };

int collector_keep_rights(struct err *err)
{
	char *const none[] = { NULL };
	int rc = keeper_start(ops, sizeof(ops) / sizeof(ops[0]), none, err);
	if (!rc)
		own_count_through(keeper_pid());
	return rc;
}

int collector_drop_rights(const char *store, struct err *err)
{
	const struct role_path paths[] = { { store, role_path_file } };
	const struct confine_given given = { .paths = paths, .n_paths = 1 };
	int rc = confine_rights(ROLE_BY_HAND, CONFINE_KEEP_ALL);
	rc = rc ? rc : confine_reach(ROLE_BY_HAND, &given);
	return rc ? err_sys(err, rc, "giving up the rights of the recorder") : 0;
}
