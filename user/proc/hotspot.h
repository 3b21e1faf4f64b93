/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot in the memory of a process: where its code is, and what its frames are called. All is
 * read by a reader (reader.h), with limits; whatever the process says, the reads end. A process can
 * falsify its own frames only.
 */
#ifndef ASCRIBE_PROC_HOTSPOT_H
#define ASCRIBE_PROC_HOTSPOT_H

#include "hotspot_tables.h"
#include "util/buf.h"

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include "hotspot_wire.h"

#define HOTSPOT_MISSING_MAX 64

/*
 * Read the tables at these addresses of the process, and find its code heaps. -EAGAIN: the JVM has
 * not made them yet. -EPROTONOSUPPORT: it cannot be walked, and missing says what is missing or
 * wrong. -EINPROGRESS: no answer yet, ask the same again. -EFAULT: it cannot be read, or has ended.
 */
int proc_hotspot_locate(uint32_t tgid, const uint64_t at[HOTSPOT_SYMBOLS], struct hotspot_jvm *ret,
			char missing[HOTSPOT_MISSING_MAX]);

/*
 * Read the names of a frame (a word of hotspot_wire.h, or an address in its code): one
 * NUL-terminated text for each call at that place, innermost first, HOTSPOT_CALLS_MAX at most.
 * -ESTALE: the code is gone. -EINPROGRESS, -EFAULT: as above.
 */
#define HOTSPOT_CALLS_MAX 24
#define HOTSPOT_NAME_MAX 1024 /* bytes of a name, at most */
int proc_hotspot_names(uint32_t tgid, const struct hotspot_jvm *jvm, uint64_t word,
		       struct buf *ret_names);

#endif
