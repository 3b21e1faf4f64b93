/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trampoline labels (include/ascribe/trampoline_abi.h), user side: which processes have trampolines, which are on a stack, and what
 * was bound to them when it was sampled.
 *
 * The history is read while rows are drained, so it must still be there: while any process has trampolines, the tables are to be
 * drained every TRAMPOLINES_DRAIN_NS. What one process may make us read in a drain has a limit. A row holds samples of some time; a label counts if it was bound for all of it. Not
 * thread-safe.
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

/* Look for trampolines in what this process maps; when it is first seen, and when it has mapped something new. */
void trampolines_new_process(struct trampolines *t, const struct wire_record *rec);
void trampolines_mapped(struct trampolines *t, uint32_t tgid);

/* Rows of another drain come now: what was read before is old. */
void trampolines_begin(struct trampolines *t);

/* Does any process have them? */
bool trampolines_any(const struct trampolines *t);

/*
 * The labels of the trampolines among a row's user frames (leaf first), inner ones first, to out[TRAMPOLINES_LABELS_MAX]; they live until
 * the next call. The frames of trampolines become those of the first one of their module, all the same then. Returns
 * how many labels; *ret_unknown: for some trampoline there is none to be had.
 */
size_t trampolines_labels(struct trampolines *t, const struct row *row, uint64_t *frames, uint32_t n, struct label *out,
			  bool *ret_unknown);

/* Processes that are gone. */
void trampolines_forget(struct trampolines *t);

#endif
