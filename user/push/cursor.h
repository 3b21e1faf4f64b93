/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a store was sent to one receiver: a file of a few lines with a checksum, replaced as a
 * whole. Windows are known by their number in the order of writing, which is never used again.
 *
 *   ascribe push cursor 1
 *   store 43055db67bde9431             its id
 *   window 1234                        those before it are done
 *   row 500                            of the event below: those before it are done; push.c puts
 *                                      shares of its rows into the upper bits
 *   event off-cpu                      of the window: those before it, by name, are done
 *   again 1                            the message that is next was sent under other tokens, and
 *                                      lost: how many; not there: none
 *   crc 1a2b3c4d                       CRC-32C of all before this line
 */
#ifndef ASCRIBE_PUSH_CURSOR_H
#define ASCRIBE_PUSH_CURSOR_H

#include "store/store.h"

#define CURSOR_EVENT_MAX 200

struct push_cursor {
	char path[1024];
	bool there; /* it was read from its file */
	uint64_t store;
	uint32_t window;
	uint64_t row;
	uint32_t again;
	char event[CURSOR_EVENT_MAX];
	int64_t written_ns; /* when its file was, before it was read: CLOCK_REALTIME */
};

/*
 * Read the cursor at path; one that is not there is all zero. -EBADMSG: it is damaged; -EINVAL: it
 * is of another store.
 */
int push_cursor_read(struct push_cursor *c, const char *path, const struct store *s,
		     struct err *err);
/*
 * Nobody else may send to the receiver meanwhile: a lock beside the cursor, for the life of the
 * process. -EBUSY: somebody does.
 */
int push_cursor_lock(const char *path, struct err *err);
/* Write it durably. */
int push_cursor_write(const struct push_cursor *c, struct err *err);
/* Go on with the window of that number. */
void push_cursor_advance(struct push_cursor *c, uint32_t window);
/* Go on with that row of that event of the same window. */
void push_cursor_advance_row(struct push_cursor *c, const char *event, uint64_t row);

#endif
