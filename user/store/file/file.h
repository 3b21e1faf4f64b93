/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One append-only file of a store: a file header, then frames, each with its length and checksums.
 *
 * Writing never moves `end`, the offset up to which the file is known durable, before file_commit:
 * a failed append is written over by the next one. Nothing is trusted in reading.
 */
#ifndef ASCRIBE_STORE_FILE_FILE_H
#define ASCRIBE_STORE_FILE_FILE_H

#include "store/file/format.h"
#include "store/file/levels.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>

#define TRACKS_DIR "trk"

/*
 * Which file: that of the blocks of a segment, that of its dictionaries while it is open, or one of
 * tracks, whose level is 0.
 */
struct place {
	enum kind kind; /* KIND_BLOCKS, KIND_SYMBOLS, KIND_TRACKS */
	uint32_t serial;
	uint8_t level;
};

#define FILE_NAME_SIZE 64

struct file {
	int fd; /* -1: closed */
	struct place place;
	uint64_t size;	/* when it was opened, and what was committed since */
	uint64_t end;	/* durable up to here */
	uint64_t tail;	/* written up to here */
	char path[512]; /* for messages */
};

struct frame {
	uint64_t offset;
	enum kind kind;
	uint32_t first, count;
	uint32_t raw_len, stored_len;
	uint32_t payload_crc;
	uint8_t codec;
};

/* Where the file lies in the directory of a store. */
void file_name(char out[FILE_NAME_SIZE], struct place p);

/*
 * Make the file, empty, whatever stood there: by temporary file, fsync, rename, fsync of its
 * directory.
 */
int file_create(int dir_fd, const char *dir, struct place p, uint64_t store_id, struct err *err);

/*
 * Open and check the file header. -ENOENT when missing, -EBADMSG when the header is damaged,
 * -EPROTONOSUPPORT; -ENODATA when it is shorter than its header.
 */
int file_open(struct file *f, int dir_fd, const char *dir, struct place p, uint64_t store_id,
	      bool write, struct err *err);
/* The same with the name of the file and the version of the format that its header shall have. */
int file_open_as(struct file *f, int dir_fd, const char *dir, const char *name, uint32_t version,
		 struct place p, uint64_t store_id, bool write, struct err *err);
void file_close(struct file *f);

/* The error for a file of another version of the format, which is no damage: -EPROTONOSUPPORT. */
int file_other_version(const char *what, uint32_t version, struct err *err);

/* All of name, a regular file of [min, max] bytes: -EBADMSG when it is anything else. */
int file_read_whole(int dir_fd, const char *name, size_t min, size_t max, struct buf *ret);

/* Exactly len bytes: -ENODATA when the file ends before. */
int file_read(const struct file *f, uint64_t offset, void *out, size_t len);

/*
 * The frame at offset, before limit. -ENODATA: cut short by limit or the end of the file; -EBADMSG:
 * present but damaged; else an error of pread. payload (may be NULL: not read, not checked) is
 * cleared first and holds the stored bytes, still compressed.
 */
int file_frame(const struct file *f, uint64_t offset, uint64_t limit, struct frame *ret,
	       struct buf *payload);

/*
 * Every frame of [from, to) that is whole, one after the other; stops at the first non-zero result
 * of cb and returns it. *ret_end: behind the last whole one. 0, or an error of pread, -ENOMEM.
 */
int file_each_frame(const struct file *f, uint64_t from, uint64_t to,
		    int (*cb)(void *ctx, const struct frame *h, const uint8_t *payload), void *ctx,
		    uint64_t *ret_end);

/* The offset behind a frame. */
uint64_t frame_end(const struct frame *h);

/*
 * Where in [from, size) the first intact header of a frame of this kind (0: any) begins;
 * UINT64_MAX: nowhere.
 */
int file_find_frame(const struct file *f, enum kind kind, uint64_t from, uint64_t *ret_at);

/*
 * Write one frame at tail and move tail; of h kind, first, count, codec and raw_len count. -errno:
 * tail is as before.
 */
int file_append(struct file *f, const struct frame *h, const struct buf *stored);
int file_sync(struct file *f);
void file_commit(struct file *f);
/* Forget what was written after end, and cut it off. -errno: it is still in the file. */
int file_rollback(struct file *f);

/* Write the whole of name by temporary file, fsync, rename, fsync of dir_fd. */
int file_replace(int dir_fd, const char *name, const void *data, size_t len);

#endif
