/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of Go programs without DWARF, from .gopclntab, inlined calls and all. */
#include "elf/image.h"
#include "symbols/gopclntab.h"
#include "symbols/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(GOPCLNTAB_TEXT_MAX <= LINE_TEXT_MAX, "texts fit into an answer");

struct answering {
	uint64_t vaddr[LINES_BATCH_MAX];
	size_t n, at; /* at: the first without an answer */
	struct buf *out;
	uint32_t n_frames; /* of the address in hand */
};

static int add_text(struct buf *out, const char *s)
{
	size_t len = strlen(s);
	int rc = buf_add_u32(out, (uint32_t)len);
	return rc ? rc : buf_add(out, s, len);
}

static int add_frame(void *ctx, const struct go_line *l)
{
	struct answering *a = ctx;
	int rc = add_text(a->out, l->function);
	rc = rc ? rc : add_text(a->out, l->file);
	a->n_frames++;
	return rc ? rc : buf_add_u32(a->out, l->line);
}

static int answer(struct answering *a, const struct go_function *f)
{
	size_t begin = a->out->len;
	int rc = buf_add_u32(a->out, 0);
	a->n_frames = 0;
	rc = rc ? rc : gopclntab_lines(f, a->vaddr[a->at], LINE_FRAMES_MAX, add_frame, a);
	if (rc == -ENOMEM || a->out->len < begin + 4)
		return rc;
	if (rc) { /* the others may have lines */
		a->out->len = begin + 4;
		return 0;
	}
	for (unsigned i = 0; i < 4; i++)
		a->out->data[begin + i] = (uint8_t)(a->n_frames >> 8 * i);
	return 0;
}

/* Answer the addresses up to the end of this function. */
static int on_function(void *ctx, const struct go_function *f)
{
	struct answering *a = ctx;
	int rc = 0;
	for (; !rc && a->at < a->n && a->vaddr[a->at] < f->vaddr + f->size; a->at++)
		rc = a->vaddr[a->at] < f->vaddr ? buf_add_u32(a->out, 0) : answer(a, f);
	return rc;
}

int go_lines_op(const struct sandbox_request *q, struct buf *out)
{
	struct answering *a = calloc(1, sizeof(*a));
	struct cursor c = { q->bytes, q->bytes + q->len, 0 };
	struct elf_image img;
	struct go_names names;
	int rc = !a ? -ENOMEM : !q->n_fds || q->len % 8 || q->len > sizeof(a->vaddr) ? -EINVAL : 0;
	rc = rc ? rc : elf_image_open(&img, q->fds[0], "file", NULL);
	if (rc) {
		free(a);
		return rc;
	}
	a->out = out;
	while (cursor_left(&c))
		a->vaddr[a->n++] = cursor_u64(&c);
	rc = gopclntab_walk_at(&img, a->vaddr, a->n, &names, on_function, a);
	for (; !rc && a->at < a->n; a->at++)
		rc = buf_add_u32(out, 0);
	elf_image_fini(&img);
	free(a);
	return rc;
}
