/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/instants.h"

#include "util/array.h"
#include "util/clock.h"

#include <stdlib.h>

#define READINGS 4

/* Room for n rows and m instants more. */
static bool reserve(struct instants *s, size_t n, size_t m)
{
	return s->n + m <= STORE_INSTANTS_MAX && s->n_rows + n < INSTANTS_NONE &&
	       !ARRAY_RESERVE(s->rows, s->cap_rows, s->n_rows + n) &&
	       !ARRAY_RESERVE(s->v, s->cap, s->n + m);
}

static uint32_t add_rows(struct instants *s, uint32_t n)
{
	uint32_t first = (uint32_t)s->n_rows;
	for (uint32_t i = 0; i < n; i++)
		s->rows[s->n_rows++] = (struct store_row){ 0 };
	return first;
}

uint32_t instants_add_half(struct instants *s, const struct sampler_half *h, uint64_t *ret_lost)
{
	*ret_lost = 0;
	if (!s->on || !h->n_instants)
		return INSTANTS_NONE;
	if (!reserve(s, h->n_rows, h->n_instants)) {
		*ret_lost = h->n_instants;
		return INSTANTS_NONE;
	}
	uint32_t first = add_rows(s, h->n_rows);
	for (uint32_t i = 0; i < h->n_instants; i++) {
		const struct instant *v = &h->instants[i];
		if (v->row < h->n_rows)
			s->v[s->n++] = (struct store_instant){ (int64_t)v->at_ns, first + v->row,
							       h->cpu, v->length_us };
	}
	return first;
}

uint32_t instants_add_one(struct instants *s, unsigned cpu, const struct row *row,
			  uint32_t length_us)
{
	if (!s->on || !reserve(s, 1, 1))
		return INSTANTS_NONE;
	uint32_t number = add_rows(s, 1);
	s->v[s->n++] = (struct store_instant){ (int64_t)row->last_ns, number, cpu, length_us };
	return number;
}

void instants_stored(struct instants *s, uint32_t number, uint32_t set, uint32_t stack,
		     uint32_t event)
{
	if (number < s->n_rows)
		s->rows[number] = (struct store_row){ set, stack, event, 1, 0 };
}

/* Realtime minus BOOTTIME. Between two readings others may run: the closest pair counts. */
static int64_t real_minus_boot(void)
{
	uint64_t least = UINT64_MAX;
	int64_t ret = 0;
	for (int i = 0; i < READINGS; i++) {
		uint64_t before = clock_ns(CLOCK_BOOTTIME), real = clock_ns(CLOCK_REALTIME),
			 took = clock_ns(CLOCK_BOOTTIME) - before;
		if (took >= least)
			continue;
		least = took;
		ret = (int64_t)(real - before);
	}
	return ret;
}

const struct store_instants *instants_give(struct instants *s, uint32_t other)
{
	if (!s->on)
		return NULL;
	const int64_t real_minus_boot_ns = real_minus_boot();
	for (size_t i = 0; i < s->n; i++)
		s->v[i].at_ns += real_minus_boot_ns;
	s->given = (struct store_instants){ s->rows, s->n_rows, s->v, s->n, other };
	return &s->given;
}

void instants_clear(struct instants *s)
{
	s->n = s->n_rows = 0;
}

void instants_fini(struct instants *s)
{
	free(s->rows);
	free(s->v);
	*s = (struct instants){ 0 };
}
