/* SPDX-License-Identifier: Apache-2.0 */
/* What hist.c and snapshot.c share. */
#ifndef ASCRIBE_HIST_HIST_INT_H
#define ASCRIBE_HIST_HIST_INT_H

#include "hist/hist.h"

#define HIST_HALF (1u << 31) /* what is carried at once */

/* Holds back carries, and nothing else. */
void hist_lock(struct hist *h);
void hist_unlock(struct hist *h);

#endif
