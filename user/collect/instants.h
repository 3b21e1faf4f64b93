/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the samples of the open window were taken (store_set_instants). The BPF programs say it by
 * row of a half. Such a row gets a number here. When it is stored, maybe later with its names, the
 * number says which row of the store's window it counts in. Not thread-safe.
 */
#ifndef ASCRIBE_COLLECT_INSTANTS_H
#define ASCRIBE_COLLECT_INSTANTS_H

#include "sampler/sampler.h"
#include "store/instants.h"

#define INSTANTS_NONE UINT32_MAX /* number of a row without instants */

/* All zero: none are kept. */
struct instants {
	bool on;
	struct store_row *rows;
	size_t n_rows, cap_rows;
	/* at_ns in BOOTTIME until it is given */
	struct store_instant *v;
	size_t n, cap;
	struct store_instants given;
};

/*
 * Take the instants of a half: the number of its first row, those of the others follow;
 * INSTANTS_NONE: there are none. *ret_lost: samples whose instants found no room.
 */
uint32_t instants_add_half(struct instants *s, const struct sampler_half *h, uint64_t *ret_lost);
/*
 * The number of a row that is one sample, or with length_us one wait. INSTANTS_NONE: none are kept,
 * or there is no room.
 */
uint32_t instants_add_one(struct instants *s, unsigned cpu, const struct row *row,
			  uint32_t length_us);
/* A row was stored as this one of the window. */
void instants_stored(struct instants *s, uint32_t number, uint32_t set, uint32_t stack,
		     uint32_t event);
/*
 * What the store gets of the window that ends, in realtime. other: the stack of folded rows. NULL:
 * none are kept. Good until instants_clear.
 */
const struct store_instants *instants_give(struct instants *s, uint32_t other);
void instants_clear(struct instants *s);
void instants_fini(struct instants *s);

#endif
