/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk, from a recorder's log. What was written to a file is certain after a sync of it; names
 * are certain after a sync of their directory. Of the rest, a loss of power leaves any part: in any
 * order, writes in sectors of 512 bytes, files without their names and names whose files are empty.
 */
#ifndef TESTS_FAULT_DISK_H
#define TESTS_FAULT_DISK_H

#include "fault/log.h"

#include <stdbool.h>
#include <stddef.h>

struct op {
	enum op_kind kind;
	const char *path, *to; /* without the root; "" is the root itself */
	/* Not an inode's number, which may come again: the n-th file that was made */
	uint64_t file;
	uint64_t offset;
	size_t len;
	const unsigned char *data;
};

struct log {
	struct op *ops;
	size_t n;
	unsigned char *bytes;
	char *names;
};

/* Fails the test when the file is none, or holds an operation that cannot be replayed. */
void log_read(struct log *l, const char *path, const char *root);
void log_free(struct log *l);

struct disk;

struct disk *disk_new(const struct log *l);
void disk_free(struct disk *d);
/* The next operation happens; what it makes certain stays. */
void disk_step(struct disk *d);

enum loss {
	LOSS_NONE, /* a prefix of the operations */
	LOSS_ALL,  /* what is certain and nothing else */
	LOSS_CUT,  /* all, but of the last write only so many bytes */
	LOSS_ANY,  /* any part of what is not certain */
};

/*
 * Lose power now: what is left is in the disk until the next loss. cut: bytes, for LOSS_CUT;
 * random: drawn from for LOSS_ANY. False: LOSS_CUT and the last operation was no write of more
 * bytes.
 */
bool disk_lose(struct disk *d, enum loss how, size_t cut, uint64_t *random);
/* A hash of the names and contents that the last loss left. */
uint64_t disk_left(const struct disk *d);
/* Write what the last loss left into a directory that is not there yet. */
void disk_put(const struct disk *d, const char *dir);

/* NULL when the directory is what is on the disk now, with nothing lost; else what differs. */
const char *disk_differs(struct disk *d, const char *dir);

#endif
