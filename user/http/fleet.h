/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of requests to ClickHouse: each fills a store of its own (fleet/fleet.h). */
#ifndef ASCRIBE_HTTP_FLEET_H
#define ASCRIBE_HTTP_FLEET_H

#include "http/request.h"

#include "fleet/fleet.h"

/*
 * Answer from a store that is filled for this question in a directory below scratch. As
 * route.handle; -EOPNOTSUPP: this path is not served from ClickHouse. Any thread.
 */
int fleet_answer(struct request *r, const struct fleet_server *server, const char *scratch,
		 const struct store_limits *limits, struct err *err);

#endif
