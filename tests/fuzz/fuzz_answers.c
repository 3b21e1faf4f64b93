/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: answers of a worker that was taken over, as the recorder decodes them: the head of a
 * file, its symbols, lines, unwind rules, code made at run time. The first byte chooses.
 *
 * Covers: symbols/parser.c symbols/lines_decode.c
 */
#include "fuzz/input.h"
#include "symbols/jit_int.h"
#include "symbols/lines.h"
#include "symbols/parser.h"
#include "unwind/request.h"

static void facts(const struct buf *b)
{
	struct facts f;
	uint64_t v;
	if (facts_decode(&f, b))
		return;
	elf_image_bias(&f.img, 0x1000, 0x1000, &v);
	elf_image_vaddr(&f.img, 0x1000, &v);
	require(memchr(f.link, 0, sizeof(f.link)) != NULL);
	facts_fini(&f);
}

static void symbols(struct buf *b)
{
	struct err err = { 0 };
	struct table t;
	int load;
	if (parser_decode_table(&t, b, &load, &err))
		return;
	for (size_t i = 0; i < t.n; i++) {
		int64_t found = table_find(&t, t.base + t.entries[i].addr);
		require(found < (int64_t)t.n);
	}
	table_fini(&t);
}

static void lines(const struct buf *b)
{
	struct line_frame frames[LINE_FRAMES_MAX];
	struct cursor c = cursor_of(b);
	size_t n;
	while (cursor_left(&c) && !lines_decode(&c, frames, &n))
		require(n <= LINE_FRAMES_MAX);
}

static void rules(const struct buf *b)
{
	struct unwind_table *t = NULL;
	if (unwind_decode(&t, b))
		return;
	for (uint64_t at = 0; at < 1 << 20; at += 4093)
		unwind_table_find(t, at);
	unwind_table_free(t);
}

static void code(const struct buf *b)
{
	struct jit_table t;
	if (jit_decode(&t, b))
		return;
	for (size_t i = 0; i < t.n; i++) {
		const struct jit_entry *e = &t.entries[i];
		require(e->name < t.names_len && (!e->size || jit_find(&t, e->addr)));
	}
	jit_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t what = take_byte(&in) % 5;
	struct buf b = BUF_INIT;
	require(!buf_add(&b, in.p, in.left));
	if (what == 0)
		facts(&b);
	else if (what == 1)
		symbols(&b);
	else if (what == 2)
		lines(&b);
	else if (what == 3)
		rules(&b);
	else
		code(&b);
	buf_fini(&b);
	return 0;
}
