/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exports with times show side by side: threads of the host, or a thread for each value of
 * labels.
 *
 *   label set of an instant --> labels that make the thread --> thread
 *
 * Of the host it is one (tgid, tid). By labels, each of their values is a process of one thread,
 * whose numbers count from 1. One thread at a time may use it.
 */
#ifndef ASCRIBE_EXPORT_THREADS_H
#define ASCRIBE_EXPORT_THREADS_H

#include "store/dict/setpool.h"
#include "util/buf.h"

#include <stdbool.h>

#define THREADS_MAX (1u << 18) /* values beyond share that of no labels */
#define THREADS_SETS_BYTES \
	(24u << 20) /* of label sets; those beyond keep what names their thread */

struct thread {
	uint32_t pid, tid;
	uint32_t set; /* the first label set */
};

struct threads {
	const char *const *keys; /* a thread for each value of these */
	size_t n_keys;
	struct setpool sets; /* label sets of instants; of_set[] is the thread of each */
	uint32_t *of_set;
	size_t n_sets, cap_sets;
	struct setpool values; /* the labels that make a thread, by its number */
	struct thread *v;
	size_t n, cap;
	struct buf text;
};

/* n_keys 0: threads of the host. keys is borrowed. 0, -ENOMEM; threads_fini is due in any case. */
int threads_init(struct threads *t, const char *const *keys, size_t n_keys);
void threads_fini(struct threads *t);

/* The number of a label set; 0, -ENOMEM, -E2BIG. */
int threads_set(struct threads *t, const struct label *labels, size_t n, uint32_t *ret);

/*
 * Make in t->text, in UTF-8, the name of a track's process, up to *ret_process, and behind it that
 * of its thread. By labels both are "tenant=acme, endpoint=/pay". 0 or -ENOMEM.
 */
int threads_names(struct threads *t, uint32_t i, size_t *ret_process);

/* Does a label name a thread, whose name says it already? */
bool threads_say(const struct label *l);

#endif
