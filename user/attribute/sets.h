/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label set of a row: labels of the thread by the system, and labels of its work by the
 * application.
 */
#ifndef ASCRIBE_ATTRIBUTE_SETS_H
#define ASCRIBE_ATTRIBUTE_SETS_H

#include "attribute/labelling.h"
#include "attribute/pod_labels.h"
#include "attribute/ruled.h"
#include "proc/proc.h"
#include "store/store.h"
#include "store/writer.h"

#define SETS_LABELS_MAX 160
#define SETS_BY "by." /* prefix of the keys of the thread that was running while others waited */

struct sets {
	struct procs *procs;
	struct labelling *labelling;
	struct ruled *ruled; /* NULL: no rules */
	struct pods *pods;   /* NULL: containers have ids alone */
	bool cmdline;	     /* with the command lines that the images have */
};

/*
 * Texts point into this struct, procs, labelling and the rules. Not sorted: of labels with the same
 * key the first one counts.
 */
struct sets_labels {
	struct label v[2 * SETS_LABELS_MAX];
	size_t n;
	uint64_t flags; /* of labelling_find, for the row's own thread */
	bool late;	/* some labels, also of an occupant, have no answer yet (reader.h) */
	char ruled[2][RULE_LABELS_MAX * RULE_VALUE_MAX];
	char redacted[2][RULE_LABELS_MAX * REDACTED_LEN];
	char thread[COMM_SIZE + 1], by_thread[COMM_SIZE + 1];
	struct pod_labels pod, by_pod;
	char cmdline[REDACTED_LEN];
	char keys[8192]; /* of an occupant */
};

/* The labels to include. */
enum sets_detail {
	SETS_THREAD, /* all */
	SETS_WORK,   /* without tgid, tid, thread and parent: for sums of low cardinality */
};

/*
 * Collect the labels of a row. The system's label wins over an application's label of
 * the same key: a process must not pass for another one. im may be NULL. kthread: rows of a kernel
 * thread have no cgroup.
 */
void sets_of(const struct sets *s, const struct row *row, const struct proc_image *im,
	     enum sets_detail detail, bool kthread, struct sets_labels *ret);

/*
 * Add the thread that was running: its labels (SETS_WORK) with SETS_BY. NULL, or without a tgid:
 * only `name` as by.comm.
 */
void sets_add_occupant(const struct sets *s, const struct occupant *who,
		       const struct proc_image *im, const char *name, struct sets_labels *l);

/*
 * Give the set an id in the open window. Beyond STORE_SET_MAX labels the last by key are left out.
 */
int sets_store(struct sets_labels *l, struct store_writer *w, uint32_t *ret);

#endif
