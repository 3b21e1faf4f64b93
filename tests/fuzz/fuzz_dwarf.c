/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: lines, inlined calls and members of structures from DWARF. The input: an ELF file with
 * it, as it is; or the answer of a worker. libdw reads the file, which is not instrumented.
 *
 * Covers: symbols/lines.c symbols/lines_decode.c symbols/member.c symbols/zstd_sections.c
 */
#include "fuzz/input.h"
#include "symbols/lines.h"
#include "symbols/member.h"

#define ADDRESSES 64

/* Whatever a worker answers. */
static void decode_answer(const uint8_t *data, size_t size)
{
	struct line_frame frames[LINE_FRAMES_MAX];
	struct cursor c = { data, data + size, 0 };
	size_t n;
	while (cursor_left(&c) && !lines_decode(&c, frames, &n))
		require(n <= LINE_FRAMES_MAX);
}

/* Questions that are refused, whatever the file is. */
static void ask_badly(int fd)
{
	static const uint8_t bytes[8 * LINES_BATCH_MAX + 8];
	const int closed = -1;
	const struct sandbox_request bad[] = {
		{ .bytes = bytes, .len = 8 },
		{ .bytes = bytes, .len = 7, .fds = &fd, .n_fds = 1 },
		{ .bytes = bytes, .len = sizeof(bytes), .fds = &fd, .n_fds = 1 },
		{ .bytes = bytes, .len = 8, .fds = &closed, .n_fds = 1 },
	};
	struct buf out = BUF_INIT;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		require(lines_op(&bad[i], &out) && !out.len);
	buf_fini(&out);
}

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
	decode_answer(data, size);
	ask_badly(fd);
	member_offset(fd, "thing", "second", &offset);
	member_offset(fd, "alias", "nothing", &offset);
	close(fd);
	return 0;
}
