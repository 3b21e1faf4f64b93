/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"

#include <string.h>

size_t export_stack(const struct store *s, uint32_t stack, uint32_t *out)
{
	size_t n = 0;
	while (stack && n < EXPORT_DEPTH_MAX) {
		uint32_t parent, frame;
		store_stack(s, stack, &parent, &frame);
		if (frame)
			out[n++] = frame;
		stack = parent < stack ? parent : 0;
	}
	return n;
}

size_t export_row_stack(const struct export_source *src, const struct store_row *row,
			uint32_t out[EXPORT_DEPTH_MAX + 1])
{
	size_t other = query_row_is_other(src->query, row);
	out[0] = 0;
	return other + export_stack(src->store, row->stack, out + other);
}

const struct store_frame *export_frame(const struct store *s, uint32_t id)
{
	static const struct store_frame other;
	return id ? store_frame(s, id) : &other;
}

size_t export_inlined(const struct store *s, const uint32_t *frames, size_t n)
{
	size_t len = 1;
	while (len < n && export_frame(s, frames[len - 1])->flags & FRAME_INLINED)
		len++;
	return len;
}

const struct start *export_start(const struct export_source *src, const struct store_frame *f)
{
	if (!src->program || f->kind != FRAME_USER)
		return NULL;
	return starts_find(src->program->starts, store_string(src->store, f->function, NULL),
			   store_string(src->store, f->file, NULL));
}

const struct label *export_label(const struct query *q, uint32_t set, const char *key)
{
	const struct label *l;
	const size_t n = query_set(q, set, &l), len = strlen(key);
	for (size_t i = 0; i < n; i++)
		if (l[i].key_len == len && !memcmp(l[i].key, key, len))
			return &l[i];
	return NULL;
}

/* "libc.so.6", "x.so": a library by the name's convention. */
static bool is_library(const char *module)
{
	const char *base = strrchr(module, '/'), *so = strstr(base ? base : module, ".so");
	return so && (!so[3] || so[3] == '.');
}

enum export_kind export_frame_kind(const struct store *s, uint32_t frame)
{
	const struct store_frame *f = store_frame(s, frame);
	size_t len;
	if (!f || f->kind == FRAME_IDLE)
		return EXPORT_OTHER;
	if (f->kind == FRAME_KERNEL)
		return EXPORT_KERNEL;
	const char *module = store_string(s, f->module, &len);
	if (!len)
		return EXPORT_OTHER;
	if (!strcmp(module, "[jit]") || !strcmp(module, "[python]") || !strcmp(module, "[node]") ||
	    !strcmp(module, "[java]") || !strcmp(module, "[php]") || !strcmp(module, "[ruby]") ||
	    !strcmp(module, "[perl]") || !strcmp(module, "[luajit]"))
		return EXPORT_JIT;
	if (!strcmp(module, "[vdso]") || is_library(module))
		return EXPORT_LIBRARY;
	return module[0] == '[' ? EXPORT_OTHER : EXPORT_EXECUTABLE;
}
