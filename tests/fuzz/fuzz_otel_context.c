/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: OpenTelemetry's process context. What is accepted parses again, over the first.
 *
 * Covers: labels/otel.c
 */
#include "fuzz/protobuf.h"
#include "labels/otel.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	return protobuf_mutate_behind(0, data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otel_context c = { 0 };
	for (int i = 0; i < 2; i++) {
		if (otel_context_parse(&c, data, size))
			break;
		require(c.n_keys <= OTEL_KEYS_MAX && memchr(c.schema, 0, sizeof(c.schema)));
		for (size_t k = 0; k < c.n_keys; k++)
			require(!c.keys[k] || strlen(c.keys[k]) - 1 < OTEL_KEY_MAX);
	}
	otel_context_fini(&c);
	return 0;
}
