/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels, user side: find where a process keeps its label slots and tell the BPF program; keep the
 * definitions that it sends; give the label set of a row.
 *
 * A definition belongs to one process image: a process that lies mislabels only itself. What is
 * kept of a process hangs on its image (PROC_LABELS). Work that is due waits in queues: its cost
 * does not grow with the processes that wait for nothing. Not thread-safe.
 */
#ifndef ASCRIBE_ATTRIBUTE_LABELLING_H
#define ASCRIBE_ATTRIBUTE_LABELLING_H

#include "labels/filter.h"
#include "labels/labels.h"
#include "labels/recipe.h"
#include "sampler/sampler.h"
#include "stacks/scripts.h"
#include "stacks/resolve.h"
#include "util/buf.h"

struct labelling;

/* Of cfg the recipes (borrowed until labelling_free), no_labels and label_sets count. */
int labelling_new(struct labelling **ret, struct sampler *s, struct procs *procs,
		  struct resolver *r, const struct sampler_config *cfg);
/* Before procs_free. */
void labelling_free(struct labelling *l);

/*
 * From here on every definition goes through the filter before it is kept, so that nothing that it
 * denies gets any further. Before the first record. f NULL: no rules. Both are copied; whoever
 * gives another labelling the same redactor gets the same hashes there. 0 or -ENOMEM.
 */
int labelling_set_filter(struct labelling *l, const struct label_filter *f,
			 const struct redactor *r);

/*
 * The same for labels that come in another way; room as for filter_apply, flags as of
 * labelling_find.
 */
size_t labelling_filter(const struct labelling *l, struct label *v, size_t n, char *room,
			uint64_t *io_flags);

/* Called for each process that was looked at, when the BPF program knows it. */
void labelling_on_known(struct labelling *l, void (*on_known)(void *ctx, struct proc_image *im),
			void *ctx);

/* The BPF program asks about this image, which has that identity. */
void labelling_new_process(struct labelling *l, struct proc_image *im, const struct proc_id *id);

/* Another record of the ring buffer. */
void labelling_record(struct labelling *l, const struct wire_record *rec, const void *payload);

/*
 * This process has mapped a new file: look again if we had looked before, and the file may have
 * labels.
 */
void labelling_mapped(struct labelling *l, const struct proc_image *im, const struct proc_map *m);

/*
 * Work that is due: processes that were asked about, and those whose library had not come up yet.
 * Returns milliseconds until the next time, -1 when nothing waits.
 */
int labelling_tick(struct labelling *l);

/* Parsers have answered: look again at processes some of whose files were not read yet. */
void labelling_go_on(struct labelling *l);

/* After each window, behind procs_forget: forget definitions when there are too many. */
void labelling_forget(struct labelling *l);

/*
 * The application's labels of a row, normalized; borrowed until the next labelling_record or
 * _forget. *ret_flags: the counters that the row's samples are to be counted under, bit 0 for
 * COUNTER_labels_cut and so on, or LABELLING_UNKNOWN: the set's definition did not arrive. With
 * LABELLING_LATE, values have no answer yet: ask again later.
 */
#define LABELLING_UNKNOWN (1ull << 63)
#define LABELLING_LATE (1ull << 62)
size_t labelling_find(struct labelling *l, const struct row *row, const struct label **ret,
		      uint64_t *ret_flags);

/*
 * Processes that were looked at and run an interpreter that is not known: [SCRIPT_LANGUAGES], valid
 * as long as l is.
 */
const struct script_unknown *labelling_scripts(const struct labelling *l);

/* Likewise of Go, of a version that does not say who made a goroutine. */
const struct script_unknown *labelling_go(const struct labelling *l);

/* What was wrong with a recipe for a program that runs here; "" when nothing was. */
const char *labelling_warning(const struct labelling *l);

#endif
