/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JavaScript in the memory of a process: what its frames are called. Read by a reader (reader.h),
 * with limits; whatever the process says, the reads end. A process can falsify its own frames only.
 */
#ifndef ASCRIBE_PROC_V8_H
#define ASCRIBE_PROC_V8_H

#include <linux/types.h>
#include <stdint.h>
#include "v8_wire.h"

#define V8_TEXT_MAX 1024 /* bytes of a name or path, with its NUL; of long paths the end */

struct v8_name {
	char function[V8_TEXT_MAX]; /* as V8 has it; empty: none */
	char file[V8_TEXT_MAX];	    /* path, URL or node:...; empty: none */
	uint32_t line;		    /* where the function begins; 0: not known */
	uint32_t place;		    /* the same in characters of the source */
};

/*
 * Read the name of a frame, a word of v8_wire.h. -ESTALE: the function has gone or was moved.
 * -EINPROGRESS: no answer yet, ask the same again. -EFAULT: it cannot be read, or has ended.
 */
int proc_v8_name(uint32_t tgid, const struct v8_layout *l, uint64_t word, struct v8_name *ret);

#endif
