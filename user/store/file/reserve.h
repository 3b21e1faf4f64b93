/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room that is the store's own on a full disk. It is a file of zeros that is given up so that the
 * manifest can be written and retention can go on. Not thread-safe.
 */
#ifndef ASCRIBE_STORE_FILE_RESERVE_H
#define ASCRIBE_STORE_FILE_RESERVE_H

#include <stdbool.h>

#define RESERVE_NAME "reserve"
#define RESERVE_SIZE (256 << 10)

/* Made unless it is there. A disk that has no room for it goes without. */
void reserve_keep(int dir_fd);

/* False: there was none. */
bool reserve_spend(int dir_fd);

#endif
