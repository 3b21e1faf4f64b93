/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: profiles of OpenTelemetry.
 *
 * Covers: import/otlp.c import/otlp_tables.c
 */
#include "fuzz/import.h"
#include "fuzz/protobuf.h"
#include "import/otlp.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	return protobuf_mutate_behind(0, data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile_labels l = { 0 };
	struct otlp_reader *r = NULL;
	int more = !otlp_open(&r, data, size, &profile_sent, NULL);
	while (more > 0) {
		struct profile p = { 0 };
		more = otlp_next(r, &l, &p, NULL);
		check_profile(&p);
		profile_fini(&p);
	}
	otlp_close(r);
	return 0;
}
