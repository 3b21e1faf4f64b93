/* SPDX-License-Identifier: Apache-2.0 */
/* Add a profile to a store. */
#ifndef ASCRIBE_IMPORT_WRITE_H
#define ASCRIBE_IMPORT_WRITE_H

#include "import/profile.h"
#include "labels/filter.h"
#include "store/store.h"
#include "store/writer.h"

/* Which labels may be kept, as of programs that are sampled. service_name is always kept. */
struct profile_rules {
	const struct label_filter *filter; /* NULL: all */
	const struct redactor *redactor;
	uint64_t *credentials; /* values that looked like some are added here */
};

/*
 * Add the samples to the open window. rules NULL: keep all labels. 0 or -errno of the store: some
 * may be added then.
 */
int profile_write(struct store_writer *w, const struct profile *p,
		  const struct profile_rules *rules);

#endif
