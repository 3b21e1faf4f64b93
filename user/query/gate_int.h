/* SPDX-License-Identifier: Apache-2.0 */
/* What the judges of gates share. */
#ifndef ASCRIBE_QUERY_GATE_INT_H
#define ASCRIBE_QUERY_GATE_INT_H

#include "query/gate.h"

/* Add a line, where there is room. -ENOMEM. */
int gate_say(struct gate_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Set the verdict, with a line. -ENOMEM. */
int gate_unknown(struct gate_result *r, const char *why);

#endif
