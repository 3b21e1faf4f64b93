/* SPDX-License-Identifier: Apache-2.0 */
/* What functions of LuaJIT are called, by the records of the BPF program (luajit_wire.h). */
#ifndef ASCRIBE_STACKS_LUAJIT_NAME_H
#define ASCRIBE_STACKS_LUAJIT_NAME_H

#include "util/buf.h"

#include <linux/types.h>
#include "script_wire.h"

/*
 * Add the file of a function, or nothing, and its name, which needs the file. Both are raw: in no
 * certain encoding, without a NUL at the end. -EBADMSG: a length is wrong; -ENOMEM.
 */
int luajit_name_file(const struct wire_script *w, struct buf *out);
int luajit_name_function(const struct wire_script *w, const char *file, struct buf *out);

#endif
