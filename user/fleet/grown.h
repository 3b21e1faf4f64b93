/* SPDX-License-Identifier: Apache-2.0 */
/* Which function grew on most hosts of a fleet since a new build. */
#ifndef ASCRIBE_FLEET_GROWN_H
#define ASCRIBE_FLEET_GROWN_H

#include "fleet/fleet.h"
#include "query/findings.h"

/*
 * Ask the engine for each finding of a new build. s: the store that was filled for the findings;
 * filled: how, which owns the names and must outlive f. Errors as fleet_fill.
 */
int fleet_grown(struct fleet_result *filled, const struct store *s, const char *where,
		struct findings *f, struct err *err);

#endif
