/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: Pyroscope's trie, and the folded stacks that it becomes.
 *
 * Covers: import/trie.c
 */
#include "fuzz/import.h"
#include "import/folded.h"
#include "import/trie.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile p = { .limits = &profile_file };
	struct profile_labels l = { 0 };
	struct buf lines = BUF_INIT;
	size_t line = 0;
	if (!trie_unfold(data, size, 1 << 20, &lines, NULL) && lines.len &&
	    !profile_add_folded(&p, lines.data, lines.len, &(struct folded_form){ 100, true },
				&line, &l, NULL))
		check_profile(&p);
	require(lines.len <= 1 << 20);
	profile_fini(&p);
	buf_fini(&lines);
	return 0;
}
