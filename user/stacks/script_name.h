/* SPDX-License-Identifier: Apache-2.0 */
/* What script frames are called, by the records of the BPF program. */
#ifndef ASCRIBE_STACKS_SCRIPT_NAME_H
#define ASCRIBE_STACKS_SCRIPT_NAME_H

#include "util/buf.h"

#include <linux/types.h>
#include "script_wire.h"

/* The function, with its class, and the file; a file may be empty. Both end in a NUL: UTF-8. */
struct script_name {
	struct buf function, file;
	struct buf raw; /* before it is UTF-8 */
};
void script_name_fini(struct script_name *n);

/*
 * Name what a record of a language describes. n is used again: its buffers are replaced. -EBADMSG:
 * a length or a width is wrong; -ENOMEM.
 */
int script_name_read(struct script_name *n, const struct wire_script *w);

#endif
