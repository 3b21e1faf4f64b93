/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of processes by rules (labels/rules.h). Read the environment from /proc once, and the
 * title once per drain, because programs change it. Not thread-safe.
 */
#ifndef ASCRIBE_ATTRIBUTE_RULED_H
#define ASCRIBE_ATTRIBUTE_RULED_H

#include "labels/rules.h"
#include "proc/proc.h"

struct ruled;

/* *ret is NULL without rules; all calls below then do nothing. */
int ruled_new(struct ruled **ret, const struct recipes *recipes, struct err *err);
void ruled_free(struct ruled *r);

/* Begin a drain: read each title again when it is needed. */
void ruled_begin(struct ruled *r);

/*
 * Read a process with a new image or mapping, unless it has answered: it may end before the next
 * drain.
 */
void ruled_look(struct ruled *r, const struct proc_image *im);

/*
 * Return the labels of an image; borrowed until the next call. cgroup may be NULL. *ret_late: its
 * title or environment was never read and has no answer yet.
 */
size_t ruled_labels(struct ruled *r, const struct proc_image *im, const char *cgroup,
		    const struct label **ret, bool *ret_late);

#endif
