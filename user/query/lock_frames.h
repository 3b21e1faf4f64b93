/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one frame says of a lock: in a blocked thread's stack for which kind of lock it waits, in a
 * waker's stack whether it releases one.
 */
#ifndef ASCRIBE_QUERY_LOCK_FRAMES_H
#define ASCRIBE_QUERY_LOCK_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Labels of events `waker` and `waker.idle`: the lock, its kind, and what its waker is to it. */
#define LOCK_NAME_KEY "lock.name"
#define LOCK_KIND_KEY "lock.kind"
#define LOCK_BY_KEY "lock.by"

enum lock_kind {
	LOCK_NONE = 0, /* no lock, or not known */
	LOCK_MUTEX,    /* of the C library, as the next ones, or alike */
	LOCK_RWLOCK,
	LOCK_CONDVAR,
	LOCK_SEMAPHORE,
	LOCK_BARRIER,
	LOCK_JOIN,	   /* the end of a thread */
	LOCK_GO_RUNTIME,   /* a lock of Go's runtime; sync.Mutex blocks no thread */
	LOCK_GO_PARK,	   /* a thread of Go's without work */
	LOCK_PARKED_MUTEX, /* parking_lot's, Abseil's: a thread waits on a futex of its own */
	LOCK_JAVA_MONITOR, /* synchronized; on a futex of its own */
	LOCK_JAVA_PARK,	   /* java.util.concurrent; on a futex of its own */
	LOCK_PYTHON_GIL,   /* the global lock of CPython */
	LOCK_PYTHON_LOCK,  /* threading.Lock, which another thread may release */
	LOCK_JAVA_LOCK,	 /* of java.util.concurrent: a parked thread waits on a futex of its own */
	LOCK_LWLOCK,	 /* PostgreSQL's; on a semaphore of the process's own */
	LOCK_POSTGRESQL, /* PostgreSQL's locks of rows and tables; in epoll */
	LOCK_MYSQL,	 /* of rows and metadata; on a condition variable of the thread's own */
	LOCK_KERNEL_MUTEX,
	LOCK_KERNEL_RWSEM,
	LOCK_FILE,  /* flock, fcntl */
	LOCK_FUTEX, /* of a kind that no stack told */
	LOCK_KINDS,
};

extern const char *const lock_kind_names[LOCK_KINDS];

/* What a frame says. */
struct lock_frame {
	uint8_t kind; /* enum lock_kind */
	bool release;
	bool engine; /* a call of a storage engine: a condition variable in it is for a row */
};

/* function: its name, "" where unknown. */
struct lock_frame lock_frame_of(bool kernel, const char *function);

/*
 * Return which of two kinds counts: the kind of the frame nearest to the leaf, but that of a
 * runtime or server, which is made of others, wins over those.
 */
enum lock_kind lock_kind_towards_root(enum lock_kind so_far, enum lock_kind frame);
enum lock_kind lock_kind_towards_leaf(enum lock_kind so_far, enum lock_kind frame);

/* Is the futex in which a thread waits the lock itself, and not one of the waiting thread? */
bool lock_kind_is_futex(enum lock_kind kind);

/* Do waits of this kind, of which no more is known, count as waits for work? */
bool lock_kind_is_idle(enum lock_kind kind);

/* What is known of the end of a wait. */
struct lock_end {
	bool interrupt; /* no thread ended it: a timer did */
	bool unknown;	/* who ended it is not known, or it goes on */
	bool released;	/* the waker was in a futex call for this futex */
	bool stack;	/* the waker's stack was taken, */
	bool release;	/* and has a function that releases locks */
};

/*
 * Return what the waker is to the lock. "holder" only where it is known to have held it;
 * "signaller", "poster"; "interrupt": the wait timed out; "waker": it ended the wait by other
 * means, a signal perhaps; "unknown".
 */
const char *lock_waker_is(enum lock_kind kind, const struct lock_end *end);

#endif
