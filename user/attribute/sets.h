/* SPDX-License-Identifier: Apache-2.0 */
/* The label set of a row: what the system says of the thread, and what the application says of its work. */
#ifndef ASCRIBE_ATTRIBUTE_SETS_H
#define ASCRIBE_ATTRIBUTE_SETS_H

#include "attribute/labelling.h"
#include "attribute/ruled.h"
#include "proc/proc.h"

#define SETS_LABELS_MAX 160
#define SETS_BY "by." /* before the keys of who had the CPU while the others waited */

struct sets {
	struct procs *procs;
	struct labelling *labelling;
	struct ruled *ruled; /* NULL: no rules */
};

/* Texts point into here, and to what procs, labelling and the rules keep. */
struct sets_labels {
	struct label v[2 * SETS_LABELS_MAX];
	size_t n;
	uint64_t flags; /* as of labelling_find, of the first of the two */
	char ruled[2][RULE_LABELS_MAX * RULE_VALUE_MAX];
	char redacted[2][RULE_LABELS_MAX * REDACTED_LEN];
	char thread[COMM_SIZE + 1], by_thread[COMM_SIZE + 1], pod[40], by_pod[40];
	char keys[8192]; /* of an occupant */
};

/* Which labels. */
enum sets_detail {
	SETS_THREAD, /* all */
	SETS_WORK,   /* without tgid, tid and thread: for sums that are to stay small */
};

/*
 * Where the keys collide the system's stand: a process may not pass for another. im may be NULL. kthread: rows of a kernel thread have
 * no cgroup. Normalized.
 */
void sets_of(const struct sets *s, const struct row *row, const struct proc_image *im, enum sets_detail detail, bool kthread,
	     struct sets_labels *ret);

/* Add who had the CPU: his labels (SETS_WORK) behind SETS_BY. NULL, or without a tgid: `name` as by.comm, nothing else. */
void sets_add_occupant(const struct sets *s, const struct occupant *who, const struct proc_image *im, const char *name,
		       struct sets_labels *l);

#endif
