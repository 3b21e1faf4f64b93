/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling the rules of a file where it can do no harm (user/sandbox): the op runs in a worker.
 * Its answer is checked for everything that users of a table rely on. A worker that was taken over
 * can send wrong rules, which make wrong stacks.
 */
#ifndef ASCRIBE_UNWIND_REQUEST_H
#define ASCRIBE_UNWIND_REQUEST_H

#include "sandbox/sandbox.h"
#include "unwind/unwind.h"
#include "util/buf.h"

#define UNWIND_REPLY_MAX ((UNWIND_ROWS_MAX + UNWIND_FILE_PAGES_MAX) * 4u + (1u << 20))

/*
 * The request: the file is the descriptor, its name the bytes. The result is that of
 * unwind_compile.
 */
int unwind_op(const struct sandbox_request *q, struct buf *out);

int unwind_encode(const struct unwind_table *t, struct buf *out);
/* 0, -EBADMSG, -ENOMEM. */
int unwind_decode(struct unwind_table **ret, const struct buf *in);

#endif
