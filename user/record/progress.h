/* SPDX-License-Identifier: Apache-2.0 */
/* The line that tells how a recording goes, on stderr. */
#ifndef ASCRIBE_RECORD_PROGRESS_H
#define ASCRIBE_RECORD_PROGRESS_H

#include "collect/collector.h"

/* start_ns: CLOCK_BOOTTIME. tty: the line is written over. */
void progress_print(const struct collector_progress *p, uint64_t start_ns, bool tty);

#endif
