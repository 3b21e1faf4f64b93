/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as bytes, from a process that parses what others send to one that stores it. Both are
 * this program on this host, so the parts are C structures: a head, then types, frames, labels,
 * stacks, samples and texts. The reader trusts none of it.
 */
#ifndef ASCRIBE_IMPORT_PACK_H
#define ASCRIBE_IMPORT_PACK_H

#include "import/profile.h"
#include "util/buf.h"

/* More than any profile within profile_sent has; nothing of that size is read. */
#define PROFILE_PACKED_MAX (64u << 20)

/* Append a profile. -ENOMEM, -E2BIG. */
int profile_pack(const struct profile *p, struct buf *out);

/*
 * Make a profile of bytes that anybody may have written: every index, length and count is checked,
 * limits of profile_sent hold, and each event has the prefix PROFILE_SENT. Takes over bytes, which
 * are of malloc, on failure, too. *ret is to be finished in any case. -EBADMSG, -E2BIG, -ENOMEM.
 */
int profile_unpack(void *bytes, size_t len, struct profile *ret);

#endif
