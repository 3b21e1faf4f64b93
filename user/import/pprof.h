/* SPDX-License-Identifier: Apache-2.0 */
/* Read pprof, https://github.com/google/pprof/blob/main/proto/profile.proto, gzipped or not. */
#ifndef ASCRIBE_IMPORT_PPROF_H
#define ASCRIBE_IMPORT_PPROF_H

#include "import/profile.h"

/*
 * Add the samples of a pprof profile, all with the labels l, and its time unless p has one. The
 * texts of l must outlive p. -EINVAL: it is no profile; -E2BIG, -EMSGSIZE: it is larger than the
 * limits; -ENOMEM. Call profile_fini in any case.
 */
int profile_add_pprof(struct profile *p, const uint8_t *data, size_t len,
		      const struct profile_labels *l, struct err *err);

#endif
