/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trampoline labels (include/ascribe/trampoline_abi.h), user side: find processes with trampolines,
 * the trampolines on a stack, and their bindings at the time of the sample.
 *
 * The history is read while rows are drained, before the process overwrites it: while any process
 * has trampolines, drain the tables every TRAMPOLINES_DRAIN_NS. The bytes to read of one process in
 * a drain are limited. A row has samples from a span of time; a label counts if it was bound during
 * all of it. Not thread-safe.
 */
#ifndef ASCRIBE_ATTRIBUTE_TRAMPOLINES_H
#define ASCRIBE_ATTRIBUTE_TRAMPOLINES_H

#include "labels/labels.h"
#include "stacks/resolve.h"

#include <linux/types.h>
#include "wire.h"

#define TRAMPOLINES_DRAIN_NS 100000000ull
#define TRAMPOLINES_LABELS_MAX 64

struct trampolines;

int trampolines_new(struct trampolines **ret, struct procs *procs, struct resolver *r);
void trampolines_free(struct trampolines *t);

/*
 * Look for trampolines in the mappings of a process that has its identity. Call it for a new one,
 * and after a new mapping. Of the places for processes a user has three quarters at most.
 */
void trampolines_known(struct trampolines *t, struct proc_image *im);

/* Begin a drain: histories from before are stale. */
void trampolines_begin(struct trampolines *t);

/* True if any process has trampolines. */
bool trampolines_any(const struct trampolines *t);

/*
 * Store the labels of the trampolines among a row's user frames (leaf first) in
 * out[TRAMPOLINES_LABELS_MAX], leaf-most first; valid until the next call. Replace the frames of
 * trampolines by the first trampoline of their module, so that equal stacks stay equal. Return the
 * number of labels. *ret_unknown: a trampoline had no binding, or with *ret_late no answer yet
 * (reader.h).
 */
size_t trampolines_labels(struct trampolines *t, const struct row *row, uint64_t *frames,
			  uint32_t n, struct label *out, bool *ret_unknown, bool *ret_late);

/* Remove processes that have ended. */
void trampolines_forget(struct trampolines *t);

#endif
