/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader does about HotSpot: for hotspot_*.c and serve.c only. */
#ifndef ASCRIBE_PROC_HOTSPOT_INT_H
#define ASCRIBE_PROC_HOTSPOT_INT_H

#include "proc/hotspot.h"
#include "proc/pages.h"
#include "proc/reader_int.h"

/* Read a field of a structure. False: it cannot be read, or there is none. */
bool hotspot_field(struct pages *m, uint64_t at, struct hotspot_field f, int64_t *ret);

/* Serve requests READ_HOTSPOT and READ_HOTSPOT_NAMES. */
int hotspot_serve_locate(const struct reader_request *q, struct buf *out);
int hotspot_serve_names(const struct reader_request *q, struct buf *out);

#endif
