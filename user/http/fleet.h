/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of requests to ClickHouse: each fills a store of its own (fleet/fleet.h).
 *
 * What our own paths need is known from their parameters. Pyroscope's questions are put in names
 * that only the data explains. Their handlers get a store that has names alone, and ask for the
 * rest (fleet_ask).
 */
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

enum fleet_what {
	FLEET_SUMS,   /* by keys */
	FLEET_STACKS, /* without labels */
	FLEET_SETS,   /* stacks of all label sets */
	FLEET_STEPS,  /* sums by keys in short windows */
};

/* What is borrowed lives as long as the request. */
struct fleet_need {
	const struct query_spec *spec, *against; /* NULL: compared with nothing */
	enum fleet_what what;
	const char *const *keys;
	size_t n_keys;
	int64_t step_ns; /* of FLEET_STEPS; 0: as short as the range allows */
};

/*
 * Let *s be the store that has what a question needs: itself, but where it has names alone one that
 * is filled for this question and lives as long as the request. As fleet_fill and store_open.
 */
int fleet_ask(struct request *r, struct store **s, const struct fleet_need *need, struct err *err);

#endif
