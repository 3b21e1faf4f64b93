/* SPDX-License-Identifier: Apache-2.0 */
/* What `ascribe blame --locks` prints for people. */
#ifndef ASCRIBE_CLI_BLAME_LOCKS_H
#define ASCRIBE_CLI_BLAME_LOCKS_H

#include "query/locks.h"

/* A line for each row, and one for its stack; key: the label that rows go by. */
void blame_print_locks(const struct query_locks *l, const char *key);

#endif
