/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder measured of itself while it wrote a range of a store (collect/own.h). */
#ifndef ASCRIBE_QUERY_OWN_H
#define ASCRIBE_QUERY_OWN_H

#include "hist/metrics.h"
#include "store/store.h"

/*
 * Add the histograms of the windows of [from, to), rounded to whole windows, to ret[N_METRICS], which the caller has set
 * up and frees. 0 or -errno.
 */
int query_own(struct store *s, int64_t from_ns, int64_t to_ns, struct hist_snapshot *ret, struct err *err);

#endif
