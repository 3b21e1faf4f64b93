/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between torn.bpf.c and torn.c. */
#ifndef ASCRIBE_TESTS_TORN_H
#define ASCRIBE_TESTS_TORN_H

#define WIRE_TORN 200 /* kind of a struct torn_sample */

/* A thread's own log, thread-local: written before and after each change of its labels. */
struct torn_log {
	__u64 writer; /* 1 + which one; 0: it has not begun, or is at its end */
	__u64 now;    /* number of the set that is attached */
	__u64 next;   /* of the one that is being attached; else `now` */
};

struct torn_sample {
	struct wire_record head; /* set_id: what the resolver said */
	struct torn_log log;	 /* at that instant */
	__u64 failed;
	__s64 flag;
};

#endif
