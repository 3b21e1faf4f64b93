/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of tracepoints. tracefs is root's alone, so a recorder without rights asks its keeper. */
#ifndef ASCRIBE_SAMPLER_TRACEPOINT_H
#define ASCRIBE_SAMPLER_TRACEPOINT_H

#include "sandbox/keeper.h"

keeper_op tracepoint_op; /* for the keeper's table */

/*
 * The id of "subsystem:name". -EINVAL: no such text. -ENOENT: no such tracepoint, or no tracefs.
 * -EACCES: tracefs cannot be read. Others: as keeper_ask.
 */
int tracepoint_id(const char *text, uint64_t *ret);

#endif
