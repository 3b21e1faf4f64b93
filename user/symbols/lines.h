/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined functions and source lines from DWARF, by libdw, which is large and has read out of
 * bounds before. It runs in a worker of its own (lane 1) that keeps some files open.
 */
#ifndef ASCRIBE_SYMBOLS_LINES_H
#define ASCRIBE_SYMBOLS_LINES_H

#include "sandbox/sandbox.h"
#include "symbols/symbols.h"
#include "util/buf.h"

#define LINES_BATCH_MAX 4096u /* addresses of one request */
#define LINES_REPLY_MAX (16u << 20)
#define LINE_TEXT_MAX 1024 /* bytes of a name or a path */

/*
 * The request: addresses, u64 each; the first descriptor has the DWARF. See lines_decode for the
 * answer.
 */
int lines_op(const struct sandbox_request *q, struct buf *out);
/* The same from .gopclntab, of addresses that ascend. */
int go_lines_op(const struct sandbox_request *q, struct buf *out);

/*
 * The DWARF of a file, only in a worker: kept open with the others, so it is good until the next
 * call here. 0 or -errno.
 */
typedef struct Dwarf Dwarf;
int lines_dwarf(int fd, Dwarf **ret);

/*
 * The next address's answer: how many frames (0: not known), innermost first. -EBADMSG. Texts stay
 * while the answer does.
 */
int lines_decode(struct cursor *c, struct line_frame out[LINE_FRAMES_MAX], size_t *ret_n);

#endif
