/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HEADER: what makes a directory a store. Version, identity and struct store_meta.
 */
#ifndef ASCRIBE_STORE_FILE_HEADER_H
#define ASCRIBE_STORE_FILE_HEADER_H

#include "store/file/message.h"
#include "store/store.h"

#define HEADER_NAME "HEADER"
#define HEADER_COPY_NAME "HEADER.copy"

struct header {
	uint64_t store_id;
	struct store_meta meta; /* owned */
	struct message_unknown unknown;
};

/* -ENOENT: there is none. -EBADMSG, -EPROTONOSUPPORT, or an error of the system. */
int header_read(struct header *ret, int dir_fd, const char *dir, struct err *err);
int header_read_file(struct header *ret, int dir_fd, const char *dir, const char *name,
		     struct err *err);
int header_write(int dir_fd, const char *dir, const struct header *h, struct err *err);
void header_fini(struct header *h);

#endif
