/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: lines, inlined calls and members of structures from DWARF. The input: an ELF file with
 * it, as it is. libdw reads it, which is not instrumented.
 *
 * Covers: symbols/lines.c symbols/lines_decode.c symbols/member.c
 */
#include "fuzz/input.h"
#include "symbols/lines.h"
#include "symbols/member.h"

#define ADDRESSES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t addrs[ADDRESSES], offset;
	int fd = file_of(data, size);
	for (size_t i = 0; i < ADDRESSES; i++)
		addrs[i] = 0x401000 + 3 * i;
	const struct sandbox_request q = {
		.bytes = (uint8_t *)addrs, .len = sizeof(addrs), .fds = &fd, .n_fds = 1
	};
	struct buf out = BUF_INIT;
	if (!lines_op(&q, &out)) {
		struct line_frame frames[LINE_FRAMES_MAX];
		struct cursor c = cursor_of(&out);
		size_t n;
		for (size_t i = 0; i < ADDRESSES; i++)
			require(!lines_decode(&c, frames, &n) && n <= LINE_FRAMES_MAX);
	}
	buf_fini(&out);
	member_offset(fd, "thing", "second", &offset);
	member_offset(fd, "alias", "nothing", &offset);
	close(fd);
	return 0;
}
