/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: lines, inlined calls, starts of functions and members of structures from DWARF. The
 * input: an ELF file with it, as it is; or the answer of a worker. A byte of the file that ELF
 * leaves unused says whether it is long, whether it changes, and how much is asked. libdw reads the
 * file, which is not instrumented.
 *
 * Covers: symbols/lines.c symbols/lines_decode.c symbols/member.c symbols/zstd_sections.c
 * symbols/starts.c symbols/dwarf_name.c
 */
#include "elf/image.h"
#include "fuzz/input.h"
#include "symbols/lines.h"
#include "symbols/member.h"
#include "symbols/starts.h"

#include <elf.h>
#include <errno.h>

#define ADDRESSES 320

enum { LONG = 1, CHANGES = 2, ASKED_MUCH = 4 }; /* the byte */
#define LONG_BYTES (9 << 20)			/* more than is mapped to be changed */

/* Whatever a worker answers. */
static void decode_answer(const uint8_t *data, size_t size)
{
	struct line_frame frames[LINE_FRAMES_MAX];
	struct cursor c = { data, data + size, 0 };
	size_t n;
	while (cursor_left(&c) && !lines_decode(&c, frames, &n))
		require(n <= LINE_FRAMES_MAX);
}

/* Where functions begin, as a worker says, which may lie. */
static void decode_starts(const struct buf *answer)
{
	struct starts *s = NULL;
	if (starts_decode(&s, answer))
		return;
	const struct start *f = starts_find(s, "main", "thing.c");
	require(!f || (!strcmp(f->shown, "main") && f->linked && f->file));
	require(strlen(starts_build_id(s)) <= 2 * ELF_BUILD_ID_MAX);
	starts_free(s);
}

static void list_starts(int fd)
{
	const struct sandbox_request q = { .fds = &fd, .n_fds = 1 }, none = { 0 };
	struct buf out = BUF_INIT;
	if (!starts_op(&q, &out))
		decode_starts(&out);
	require(starts_op(&none, &out) == -EINVAL);
	buf_fini(&out);
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

static void ask(int fd, size_t n_addrs, struct buf *out)
{
	uint64_t addrs[ADDRESSES];
	for (size_t i = 0; i < n_addrs; i++)
		addrs[i] = 0x401000 + 3 * i;
	const struct sandbox_request q = {
		.bytes = (uint8_t *)addrs, .len = n_addrs * sizeof(addrs[0]), .fds = &fd, .n_fds = 1
	};
	if (!lines_op(&q, out)) {
		struct line_frame frames[LINE_FRAMES_MAX];
		struct cursor c = cursor_of(out);
		size_t n;
		for (size_t i = 0; i < n_addrs; i++)
			require(!lines_decode(&c, frames, &n) && n <= LINE_FRAMES_MAX);
	}
}

/* Opened anew, the file says what it said before. */
static void ask_changed(int fd, size_t n_addrs, const struct buf *before)
{
	static const struct timespec times[] = { { 1, 0 }, { 1, 0 } };
	struct buf out = BUF_INIT;
	require(!futimens(fd, times));
	ask(fd, n_addrs, &out);
	require(out.len == before->len && (!out.len || !memcmp(out.data, before->data, out.len)));
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how = size > EI_PAD ? data[EI_PAD] : 0;
	size_t n_addrs = how & ASKED_MUCH ? ADDRESSES : 64;
	struct buf out = BUF_INIT;
	uint64_t offset;
	int fd = file_of(data, size);
	require(!(how & LONG) || !ftruncate(fd, LONG_BYTES));
	ask(fd, n_addrs, &out);
	if (how & CHANGES)
		ask_changed(fd, n_addrs, &out);
	buf_fini(&out);
	decode_answer(data, size);
	ask_badly(fd);
	list_starts(fd);
	decode_starts(&(struct buf){ .data = (uint8_t *)data, .len = size });
	member_offset(fd, "thing", "second", &offset);
	member_offset(fd, "alias", "nothing", &offset);
	close(fd);
	return 0;
}
