/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that resolve names and check certificates, for a process that lives for years. It may
 * open those that were there when it was confined. One that was replaced since is another file,
 * which it may not open: it has to be started again.
 */
#ifndef ASCRIBE_SANDBOX_NAMES_FILES_H
#define ASCRIBE_SANDBOX_NAMES_FILES_H

#include "sandbox/roles.h"

#define NAMES_FILES_GIVEN 2u

/* Remember what these paths lead to: before the process is confined. */
void names_files_keep(const struct role_paths *p);

/* Paths that $SSL_CERT_FILE and $SSL_CERT_DIR name, NAMES_FILES_GIVEN at most: how many. */
size_t names_files_given(struct role_path *ret);

/* One of them leads to another file now, is gone, or has come. False where none was kept. */
bool names_files_changed(void);

#endif
