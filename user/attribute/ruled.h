/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of processes by rules (labels/rules.h): title and environment are read from /proc, the title once a drain, because
 * programs change it, the environment once. Not thread-safe.
 */
#ifndef ASCRIBE_ATTRIBUTE_RULED_H
#define ASCRIBE_ATTRIBUTE_RULED_H

#include "labels/rules.h"
#include "proc/proc.h"

struct ruled;

/* *ret is NULL when there are no rules: all below do nothing then. */
int ruled_new(struct ruled **ret, const struct recipes *recipes, struct err *err);
void ruled_free(struct ruled *r);

/* A drain begins: titles are read again when they are needed. */
void ruled_begin(struct ruled *r);

/* A process has a new image, or a mapping more: read it now if that was not done yet. It may be gone at the next drain. */
void ruled_look(struct ruled *r, const struct proc_image *im);

/* The labels of an image; borrowed until the next call. cgroup may be NULL. */
size_t ruled_labels(struct ruled *r, const struct proc_image *im, const char *cgroup, const struct label **ret);

#endif
