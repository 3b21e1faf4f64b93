/* SPDX-License-Identifier: Apache-2.0 */
/* What this process itself costs, and may use. Any thread. */
#ifndef ASCRIBE_UTIL_OWN_H
#define ASCRIBE_UTIL_OWN_H

#include <stdint.h>

/* User and system time of all its threads, in ns. */
uint64_t own_cpu_ns(void);

/* The same of the calling thread alone. */
uint64_t own_thread_cpu_ns(void);

/* Give up a raised priority: the calling thread runs at nice 0 if its nice value was below. */
void own_thread_be_nice(void);

/* Resident memory in bytes; 0 when /proc does not say. */
uint64_t own_rss_bytes(void);

/* Of it, what is no file's and no map's: what was allocated. */
uint64_t own_private_bytes(void);

/* As many descriptors as the hard limit allows. */
void own_raise_file_limit(void);

#endif
