/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions of a question, counted by the engine: no stack is fetched. */
#ifndef ASCRIBE_FLEET_FUNCTIONS_H
#define ASCRIBE_FLEET_FUNCTIONS_H

#include "fleet/fleet_rows.h"
#include "fleet/statement.h"

#define FUNCTIONS_SCHEMA 2 /* of the tables that can count them */

/*
 * Whether the engine can count what q asks for. It cannot tell idle stacks, wakers and wait keys
 * apart, nor count an event in samples of one rate that was recorded at several.
 */
bool functions_serve(const struct fleet_question *q, const struct selector *selector,
		     const struct fleet_events *events, const struct statement *s);

/*
 * Ask for them. ret->by_function stays false where not all functions are known, since stacks came
 * from an older version or are still to come, or do not fit the memory: fetch the stacks then.
 */
int functions_ask(struct ask *a, const struct fleet_question *q, const struct statement *s,
		  struct fleet_result *ret, struct err *err);

#endif
