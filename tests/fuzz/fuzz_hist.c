/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: histograms from bytes and text. What is accepted adds up, is dumped and loaded as the
 * same, and answers every question. The first byte chooses: text, bytes as they are, bytes under a
 * checksum that is made right.
 *
 * Covers: hist/dump.c hist/quantile.c
 */
#include "fuzz/input.h"
#include "hist/dump.h"
#include "hist/prometheus.h"
#include "util/crc32c.h"

static void round_trip(const struct hist_snapshot *s)
{
	struct hist_snapshot back;
	struct buf a = BUF_INIT, b = BUF_INIT;
	if (well(hist_dump_binary(s, &a)) && well(hist_load_binary(a.data, a.len, &back, NULL))) {
		require(!hist_dump_text(&back, &b));
		hist_snapshot_fini(&back);
	}
	if (b.len && well(hist_load_text((char *)b.data, b.len, &back, NULL))) {
		b.len = 0;
		require(!hist_dump_binary(&back, &b) && a.len == b.len &&
			!memcmp(a.data, b.data, a.len));
		hist_snapshot_fini(&back);
	}
	buf_fini(&a);
	buf_fini(&b);
}

static void ask(struct hist_snapshot *s)
{
	struct buf out = BUF_INIT;
	uint64_t bounds[HIST_BOUNDS_MAX], low, high;
	struct hist_family f = { .name = "x", .help = "", .decimals = 9, .bounds = bounds };
	f.n_bounds = hist_bounds(1, UINT64_MAX, bounds);
	hist_snapshot_rank(s, UINT64_MAX, &low, &high);
	require(low == s->total && high == s->total);
	for (unsigned i = 0; i <= 10; i++) {
		struct hist_value v = hist_snapshot_quantile(s, i / 10.0);
		require(v.low <= v.value && v.value <= v.high);
	}
	struct hist_moments m = hist_snapshot_moments(s);
	require(m.mean >= 0 && m.deviation >= 0 && m.deviation <= m.square_mean * 1.0001);
	require(!hist_prometheus(&f, s, NULL, 0, &out, NULL));
	buf_fini(&out);
	low = s->total;
	require(!hist_snapshot_coarsen(s, s->bits / 2, NULL) && s->total == low);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hist_snapshot s;
	uint8_t *copy;
	int rc;
	if (!size)
		return 0;
	copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	if (data[0] % 3 == 2 && size > 5) {
		uint32_t crc = crc32c(copy, size - 5);
		for (unsigned i = 0; i < 4; i++)
			copy[size - 5 + i] = (uint8_t)(crc >> 8 * i);
	}
	rc = data[0] % 3 ? hist_load_binary(copy, size - 1, &s, NULL)
			 : hist_load_text((char *)copy, size - 1, &s, NULL);
	free(copy);
	if (rc)
		return 0;
	round_trip(&s);
	ask(&s);
	hist_snapshot_fini(&s);
	return 0;
}
