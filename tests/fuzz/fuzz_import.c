/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the formats that `ascribe import` and the server read, but for pprof. Whatever is
 * accepted names only frames, labels and stacks that are there, and keeps its limits.
 *
 *   make fuzz
 *   build/fuzz/fuzz_import -max_len=4096
 *
 * The first byte chooses: folded stacks, what perf script prints, OpenTelemetry profiles,
 * Pyroscope's trie.
 */
#include "import/folded.h"
#include "import/otlp.h"
#include "import/perf_script.h"
#include "import/trie.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct profile *p)
{
	const struct profile_limits *l = profile_limits_of(p);
	require(p->n_samples <= l->samples && p->n_frames <= l->frames && p->n_stacks <= l->stacks);
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		require((uint64_t)s->stack + s->depth <= p->n_stacks);
		require((uint64_t)s->label + s->n_labels <= p->n_labels);
		for (uint32_t k = 0; k < s->depth; k++)
			require(p->stacks[s->stack + k] < p->n_frames);
	}
	for (size_t i = 0; i < p->n_frames; i++)
		require(strlen(p->frames[i].function) <= PROFILE_TEXT_MAX &&
			strlen(p->frames[i].module) <= PROFILE_TEXT_MAX);
	profile_size(p);
}

static void read_folded(const uint8_t *data, size_t size)
{
	struct profile p = { .limits = &profile_file };
	struct profile_labels l = { 0 };
	size_t line = 0;
	while (size && data[size - 1] != '\n') /* whole lines */
		size--;
	if (!profile_add_folded(&p, data, size, &(struct folded_form){ 100, true }, &line, &l,
				NULL))
		check(&p);
	profile_fini(&p);
}

static void read_trie(const uint8_t *data, size_t size)
{
	struct buf lines = BUF_INIT;
	if (!trie_unfold(data, size, 1 << 20, &lines, NULL) && lines.len)
		read_folded(lines.data, lines.len);
	require(lines.len <= (1 << 20) + 32);
	buf_fini(&lines);
}

static void read_perf_script(uint8_t *data, size_t size)
{
	struct perf_script s = { 0 };
	struct profile_labels l = { 0 };
	FILE *f = size ? fmemopen(data, size, "r") : NULL;
	int more = f != NULL;
	while (more > 0) {
		struct profile p = { .limits = &profile_file };
		more = perf_script_read(&s, f, 1000000000, 16, &l, &p, NULL);
		require(p.n_samples <= 16);
		check(&p);
		profile_fini(&p);
	}
	perf_script_fini(&s);
	if (f)
		fclose(f);
}

static void read_otlp(const uint8_t *data, size_t size)
{
	struct profile_labels l = { 0 };
	struct otlp_reader *r = NULL;
	int more = !otlp_open(&r, data, size, &profile_sent, NULL);
	while (more > 0) {
		struct profile p = { 0 };
		more = otlp_next(r, &l, &p, NULL);
		check(&p);
		profile_fini(&p);
	}
	otlp_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	uint8_t *copy = malloc(size);
	memcpy(copy, data, size);
	switch (data[0] % 4) {
	case 0:
		read_perf_script(copy + 1, size - 1);
		break;
	case 1:
		read_folded(copy + 1, size - 1);
		break;
	case 3:
		read_trie(copy + 1, size - 1);
		break;
	default:
		read_otlp(copy + 1, size - 1);
	}
	free(copy);
	return 0;
}
