/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader does about V8: for v8_names.c and serve.c only. */
#ifndef ASCRIBE_PROC_V8_INT_H
#define ASCRIBE_PROC_V8_INT_H

#include "proc/reader_int.h"
#include "proc/v8.h"

/* Serve a request READ_V8_NAME. */
int v8_serve_name(const struct reader_request *q, struct buf *out);

#endif
