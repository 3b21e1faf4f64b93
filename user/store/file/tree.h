/* SPDX-License-Identifier: Apache-2.0 */
/* Directories with all that is in them, but for other file systems. */
#ifndef ASCRIBE_STORE_FILE_TREE_H
#define ASCRIBE_STORE_FILE_TREE_H

/* Remove a directory and all that is in it. -errno. */
int tree_remove(const char *dir);
/* The same, but keep the directory itself. */
int tree_empty(const char *dir);
/*
 * Sync the directory above an open one, so that the name of that lasts. One that cannot be read for
 * want of rights cannot be synced: that is no failure. -errno.
 */
int tree_sync_above(int dir_fd);

#endif
