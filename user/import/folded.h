/* SPDX-License-Identifier: Apache-2.0 */
/* Read folded stacks: lines of "root;...;leaf count", or of "root;...;leaf" that count one each. */
#ifndef ASCRIBE_IMPORT_FOLDED_H
#define ASCRIBE_IMPORT_FOLDED_H

#include "import/profile.h"

struct folded_form {
	uint64_t rate; /* samples a second: 1 to 1,000,000,000 */
	bool counted;  /* each line ends in its count */
};

/*
 * Add whole lines of folded stacks, all with the labels l, whose texts must outlive p. *io_line
 * counts the lines, for messages. -EINVAL: a line has another form; -E2BIG; -ENOMEM. Call
 * profile_fini in any case.
 */
int profile_add_folded(struct profile *p, const uint8_t *data, size_t len,
		       const struct folded_form *form, size_t *io_line,
		       const struct profile_labels *l, struct err *err);

#endif
