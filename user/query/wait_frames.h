/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one frame of a blocked thread's stack says: why the thread waits, and whether the frame is
 * the program's own code. The rules are in docs/architecture-waits.md, "What a wait is for".
 */
#ifndef ASCRIBE_QUERY_WAIT_FRAMES_H
#define ASCRIBE_QUERY_WAIT_FRAMES_H

#include "query/lock_frames.h"
#include "store/store.h"

enum wait_class {
	WAIT_CLASS_OTHER = 0, /* not decided by any rule */
	WAIT_CLASS_IDLE,      /* for work to arrive */
	WAIT_CLASS_SLEEP,     /* for a time that the thread chose */
	WAIT_CLASS_LOCK,      /* for a lock that another thread holds */
	WAIT_CLASS_IO,	      /* for a disk, a file system or a page fault */
	WAIT_CLASS_NETWORK,   /* for a peer, in a read, a write or a client library */
	WAIT_CLASS_PIPE,      /* for the other end of a pipe */
	WAIT_CLASS_CHILD,     /* for a child process */
	WAIT_CLASS_UNKNOWN,   /* no stack was taken */
	WAIT_CLASSES,
};

extern const char *const wait_class_names[WAIT_CLASSES];

/*
 * How far a frame decides the class: a firm rule nearest to the leaf, else the weak rule nearest to
 * the root.
 */
enum wait_rule { WAIT_RULE_NONE, WAIT_RULE_WEAK, WAIT_RULE_FIRM };

/*
 * Whose code a frame is, from the kernel's to the program's own. UNNAMED: the program's, without a
 * name.
 */
enum wait_owner {
	WAIT_OWNER_KERNEL,
	WAIT_OWNER_LIBC,
	WAIT_OWNER_RUNTIME,
	WAIT_OWNER_UNNAMED,
	WAIT_OWNER_PROGRAM,
};

struct wait_frame {
	uint8_t class; /* enum wait_class */
	uint8_t rule;  /* enum wait_rule */
	uint8_t owner; /* enum wait_owner */
	bool futex;    /* the system call, which tells nothing by itself */
	struct lock_frame lock;
};

/* function, module and file as in struct store_frame; "" where unknown. */
struct wait_frame wait_frame_of(enum frame_kind kind, const char *function, const char *module,
				const char *file);

/*
 * The class of a wait, while the frames of its stack are seen one by one. All zero before the
 * first.
 */
struct wait_decision {
	uint8_t class, rule; /* of the frame that decides so far */
	uint8_t lock;	     /* enum lock_kind, so far */
	bool release;	     /* some frame releases a lock, */
	bool engine;	     /* is a call of a storage engine */
	bool futex;
};

/* See the next frame: from the leaf to the root, or from the root to the leaf. */
void wait_see_towards_root(struct wait_decision *d, const struct wait_frame *f);
void wait_see_towards_leaf(struct wait_decision *d, const struct wait_frame *f);

/*
 * Return the class. earlier: the wait began before the recording, so its user frames are not known.
 */
enum wait_class wait_decided(const struct wait_decision *d, bool earlier);

/* Return the kind of the lock. */
enum lock_kind wait_lock_decided(const struct wait_decision *d);

#endif
