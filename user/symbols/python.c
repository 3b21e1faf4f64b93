/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From 3.13 on _PyRuntime begins with struct _Py_DebugOffsets, words of 8 bytes:
 *
 *   0 "xdebugpy"   1 PY_VERSION_HEX   2 built with --disable-gil   3... offsets
 *
 * Where a word stands depends on the version (Include/internal/pycore_runtime.h of 3.13,
 * pycore_debug_offsets.h of 3.14).
 */
#include "symbols/python.h"

#include "elf/section.h"
#include "python_wire.h"
#include "symbols/dynsym.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PUBLISHES 0x030d	/* the first version that does */
#define WORDS 93		/* all that is looked at */
#define RUNTIME_MAX (16u << 20) /* bytes; that of 3.15 has 350 KB */

struct search {
	struct binary_script p;
	uint64_t version; /* vaddr */
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (!strcmp(name, "_PyRuntime")) {
		f->p.at = s->st_value;
	} else if (!strcmp(name, "Py_Version")) {
		f->version = s->st_value;
	} else if (!strcmp(name, "_PyEval_EvalFrameDefault")) {
		f->p.eval = s->st_value;
		f->p.eval_size = s->st_size;
	}
}

int python_layout(uint32_t version)
{
	for (int i = 0; i < PYTHON_LAYOUTS; i++)
		if (python_layouts[i].number && python_layouts[i].number == version >> 16 &&
		    python_layouts[i].is_free == PYTHON_IS_FREE(version))
			return i;
	return -1;
}

static const struct python_layout *layout_of(uint32_t number, bool is_free)
{
	const int i = python_layout(PYTHON_VERSION(number, 0, is_free));
	return i < 0 ? NULL : &python_layouts[i];
}

/* ---- what a build publishes ---- */

enum { COOKIE, NUMBER, IS_FREE, HEAD = 5, THREADS = 9 }; /* words of every version */

/* Words that must be as the layout has them. */
#define SAMES 12
static const struct published {
	uint16_t number;
	struct {
		uint8_t word, member;
	} same[SAMES];
} published[] = {
#define SAME(word, m) { word, offsetof(struct python_layout, m) }
	{ 0x030d,
	  { SAME(21, thread_next), SAME(23, thread_frame), SAME(24, thread_id),
	    SAME(29, frame_previous), SAME(30, frame_code), SAME(33, frame_owner),
	    SAME(35, code_file), SAME(37, code_name), SAME(39, code_line), SAME(68, string_state),
	    SAME(69, string_length), SAME(70, ascii) } },
	{ 0x030e,
	  { SAME(24, thread_next), SAME(26, thread_frame), SAME(27, thread_id),
	    SAME(32, frame_previous), SAME(33, frame_code), SAME(36, frame_owner),
	    SAME(40, code_file), SAME(42, code_name), SAME(44, code_line), SAME(78, string_state),
	    SAME(79, string_length), SAME(80, ascii) } },
	{ 0x030f,
	  { SAME(24, thread_next), SAME(26, thread_frame), SAME(30, thread_id),
	    SAME(40, frame_previous), SAME(41, frame_code), SAME(44, frame_owner),
	    SAME(48, code_file), SAME(50, code_name), SAME(52, code_line), SAME(90, string_state),
	    SAME(91, string_length), SAME(92, ascii) } },
#undef SAME
};

static bool is_as_published(const struct python_layout *l, const uint64_t *words)
{
	const struct published *p = published;
	while (p->number != l->number)
		if (++p == published + sizeof(published) / sizeof(published[0]))
			return false;
	bool same = true;
	for (int i = 0; i < SAMES; i++) {
		uint16_t known;
		memcpy(&known, (const char *)l + p->same[i].member, sizeof(known));
		same = same && words[p->same[i].word] == known;
	}
	return same && words[HEAD] < RUNTIME_MAX && !(words[HEAD] % 8) && words[THREADS] &&
	       words[THREADS] <= PYTHON_THREADS_AT_MAX && !(words[THREADS] % 8);
}

/* Take what the runtime begins with. What is not as it should be leaves the version unknown. */
static void take_published(const struct elf_image *img, struct binary_script *p, uint32_t number)
{
	uint64_t words[WORDS];
	const struct python_layout *l;
	if (elf_image_read_at(img, p->at, words, sizeof(words)) || memcmp(words, "xdebugpy", 8) ||
	    words[NUMBER] >> 16 != number || words[IS_FREE] > 1)
		return;
	p->version = PYTHON_VERSION(number, 0, words[IS_FREE]);
	l = layout_of(number, words[IS_FREE]);
	if (!l || !is_as_published(l, words))
		return;
	p->version = PYTHON_VERSION(number, words[THREADS], l->is_free);
	p->at += words[HEAD] + 8; /* the main interpreter stands behind the head of their list */
}

int python_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { .p.language = SCRIPT_PYTHON };
	struct elf_place at;
	uint64_t version = 0;
	int rc = img->is_32 ? -ENOENT : elf_section_find(img, ".PyRuntime", &at);
	rc = rc ? rc : dynsym_each(img, on_symbol, &f);
	if (rc || !f.p.at || !f.version ||
	    elf_image_read_at(img, f.version, &version, sizeof(version)) || !version)
		return -ENOENT;
	const uint32_t number = (uint32_t)version >> 16;
	const struct python_layout *l = layout_of(number, false);
	f.p.version = PYTHON_VERSION(number, l ? l->threads : 0, false);
	if (number >= PUBLISHES)
		take_published(img, &f.p, number);
	*ret = f.p;
	return 0;
}
