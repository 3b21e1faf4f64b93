/* SPDX-License-Identifier: Apache-2.0 */
/* A file of memory whose size never changes, for a process that is not trusted with more. */
#ifndef ASCRIBE_UTIL_MEMORY_FILE_H
#define ASCRIBE_UTIL_MEMORY_FILE_H

#include <stdint.h>

/* -errno. name is seen in /proc. */
int memory_file_make(const char *name, uint64_t size, int *ret_fd);

/* Give back its memory: it reads as zeros. */
void memory_file_clear(int fd);

/* Bytes of memory that it takes now; fd -1: 0. */
uint64_t memory_file_bytes(int fd);

#endif
