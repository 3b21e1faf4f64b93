/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a profile as bytes, from a process that serves and was taken over.
 *
 * Covers: import/pack.c
 */
#include "fuzz/import.h"
#include "import/pack.h"

/* What was accepted can be written again, and read again to the same. */
static void check_again(const struct profile *p)
{
	struct profile again = { .limits = NULL };
	struct buf bytes = BUF_INIT;
	if (!profile_pack(p, &bytes)) {
		require(!profile_unpack(bytes.data, bytes.len, &again));
		require(profile_size(p) == profile_size(&again));
		profile_fini(&again);
	} else {
		buf_fini(&bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile p = { .limits = NULL };
	void *bytes = malloc(size ? size : 1);
	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	if (!profile_unpack(bytes, size, &p)) {
		check_profile(&p);
		check_again(&p);
	}
	profile_fini(&p);
	return 0;
}
