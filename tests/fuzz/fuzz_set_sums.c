/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: sums by label set. The first byte is 0: the rest is a column of them, as a block has
 * it. Else bytes say which rows there are, from a seed: more sets than are kept, which end as a
 * column that tells the same samples. In between a key may be left out.
 *
 * Covers: store/block/set_sums.c
 */
#include "fuzz/input.h"
#include "unit/store_model.h"

#include "store/block/set_sums.h"
#include "store/file/format.h"

#define EVENTS 3
#define SETS 50 /* of a column that comes */

static const char *const keys[] = { "few", "many", "more", "m" };
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static void read_column(const uint8_t *data, size_t size)
{
	struct set_sums_reader r;
	struct buf b = BUF_INIT;
	require(!buf_add(&b, data, size));
	set_sums_begin(&r, &b, SETS, EVENTS, model_events);
	while (set_sums_next(&r) > 0)
		require(r.row.set < SETS && r.row.event < EVENTS && r.row.samples);
	buf_fini(&b);
}

/* Labels of some keys: numbers below a power of two that the key's byte says, some as text. */
static size_t draw_labels(struct model *m, const uint8_t bits[KEYS], char text[KEYS][12],
			  struct label v[KEYS])
{
	size_t n = 0;
	for (size_t k = 0; k < KEYS; k++) {
		const uint32_t value = model_random(m, 1u << (bits[k] & 15));
		if (bits[k] & 64 && value % 3 == 0)
			continue;
		v[n] = (struct label){ .key = keys[k], .key_len = (uint32_t)strlen(keys[k]) };
		if (bits[k] & 128) {
			snprintf(text[k], sizeof(text[k]), "%u", value);
			v[n].str = text[k];
			v[n].str_len = (uint32_t)strlen(text[k]);
		} else {
			v[n].type = LABEL_INT;
			v[n].num = value;
		}
		n++;
	}
	return labels_normalize(v, n);
}

static int take_left_out(void *ctx, const struct label *l, uint32_t event, uint64_t samples)
{
	(void)l, (void)event, (void)samples;
	return ++*(unsigned *)ctx == 60000 ? -ECANCELED : 0;
}

/* The samples of the column; -1: memory was short. */
static int64_t encode(struct set_sums *s)
{
	struct set_sums_reader r;
	struct buf out = BUF_INIT;
	struct dicts d;
	uint32_t id;
	int64_t sum = 0;
	int rc = dicts_init(&d, true), more = 0;
	for (uint32_t i = 0; !rc && i < EVENTS; i++)
		rc = dicts_add_event(&d, &model_events[i], &id);
	rc = rc ? rc : set_sums_encode(&out, s, &d);
	if (well(rc)) {
		set_sums_begin(&r, &out, d.n_sets, d.n_events, d.events);
		while ((more = set_sums_next(&r)) > 0)
			sum += (int64_t)r.row.samples;
		require(!more);
	}
	dicts_fini(&d);
	buf_fini(&out);
	return rc ? -1 : sum;
}

static void add_rows(struct input *in)
{
	struct set_sums s;
	struct model m = { .random = take_byte(in) };
	const unsigned n = take_byte(in) * 64u;
	const uint8_t how = take_byte(in);
	uint8_t bits[KEYS];
	unsigned calls = 0;
	int64_t samples = 0;
	take_bytes(in, bits, sizeof(bits));
	int rc = set_sums_init(&s);
	s.left_out = how & 1 ? take_left_out : NULL;
	s.ctx = &calls;
	for (unsigned i = 0; !rc && i < n; i++) {
		struct label v[KEYS];
		char text[KEYS][12];
		size_t n_labels = draw_labels(&m, bits, text, v);
		if (i == n / 2 && how & 2)
			rc = set_sums_leave_out(&s, keys[how >> 2 & 3], strlen(keys[how >> 2 & 3]));
		rc = rc ? rc
			: set_sums_add(&s, v, n_labels, i % EVENTS, i % 7 == 0, 1 + i % 5,
				       how & 16 ? i
						: (1 + i % 5) * model_events[i % EVENTS].period);
		samples += 1 + i % 5;
	}
	require(!rc || calls == 60000);
	if (!rc) {
		require(s.pool.n <= SUMS_MAX + 1u);
		const int64_t told = encode(&s);
		require(told == samples);
	}
	set_sums_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	if (take_byte(&in))
		add_rows(&in);
	else
		read_column(in.p, in.left);
	return 0;
}
