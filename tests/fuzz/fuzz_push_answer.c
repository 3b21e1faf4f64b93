/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what an OpenTelemetry receiver answers.
 *
 * Covers: push/partial.c
 */
#include "fuzz/protobuf.h"
#include "push/partial.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	return protobuf_mutate_behind(0, data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[40] = "";
	push_partial_success(data, size, why, sizeof(why));
	require(memchr(why, '\0', sizeof(why)) != NULL);
	return 0;
}
