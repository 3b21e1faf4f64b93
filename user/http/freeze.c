/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/v1/freeze: the last minutes become a store of their own. */
#include "http/server_int.h"

#include <errno.h>

int api_freeze(struct request *r, struct store *store, struct err *err)
{
	const struct http_hooks *h = &r->server->cfg.hooks;
	char name[64];
	(void)store;
	if (!h->freeze)
		return err_set(err, -EOPNOTSUPP, "nothing is recorded here: this is no daemon");
	int rc = h->freeze(h->ctx, name, err);
	return rc ? rc : request_json(r, json_pack("{s:s}", "name", name), err);
}
