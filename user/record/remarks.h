/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording says at its end, on stderr, besides the sums: what was left out, and why. */
#ifndef ASCRIBE_RECORD_REMARKS_H
#define ASCRIBE_RECORD_REMARKS_H

#include "collect/collector.h"

/*
 * Print a warning for each thing that was left out; nothing for a complete recording. events: those
 * of the recorder, by their number.
 */
void remarks_print(const struct collector_progress *p, const struct event *events);
/* Print what was read and compiled for stacks and names. */
void remarks_explain(const struct collector_progress *p);

#endif
